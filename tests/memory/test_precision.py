"""A number that the compiler may not convert early is the same number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.precision import as_it_is


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
def test_every_bit_stays_and_so_does_every_gradient(dtype):
    with jax.enable_x64(dtype == "float64"):
        kind = jnp.finfo(dtype) if "float" in dtype else jnp.iinfo(dtype)
        edges = [0, 1, kind.max, kind.min]
        if "float" in dtype:
            edges += [kind.tiny, kind.eps, 1 + float(kind.eps), np.inf, np.nan]
        numbers = jnp.asarray(np.array(edges), dtype)
        assert np.array_equal(np.asarray(jax.jit(as_it_is)(numbers)).view(np.uint8), np.asarray(numbers).view(np.uint8))
        if "float" in dtype:
            gradient = jax.jit(jax.grad(lambda x: jnp.vdot(as_it_is(x), numbers[:7]).real))(numbers[:7])
            assert np.array_equal(gradient, numbers[:7])

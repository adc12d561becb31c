"""Kernels of others compute what the portable attention computes, wherever their own code can be run here.

Pallas' is interpreted. cuDNN's runs on cards only: what it is handed is given to the same function's portable code.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.extend.core import Primitive

from elbowroom.memory.attention import attention
from elbowroom.memory.footprint.flops import flops
from elbowroom.memory.kernels import KERNELS, check_kernel
from elbowroom.memory.plan import Chunk, Kernels, Plan, PlanError, Precision

ROW, Q, K, HEAD, C = 3, 7, 9, 2, 5


def inputs(row=ROW, q=Q, k=K, head=HEAD, c=C):
    rng = np.random.default_rng(0)
    shapes = [(row, q, head, c), (row, k, head, c), (row, k, head, c), (head, q, k)]
    mask = rng.random((row, k)) > 0.4
    mask[1] = False
    assert mask.any(1).sum() == row - 1, "one row must have no valid key and the others some"
    return [jnp.asarray(rng.standard_normal(shape), "float32") for shape in shapes], jnp.asarray(mask)


def loss(kernel, biased, mask, query, key, value, bias):
    return jnp.sin(attention(query, key, value, mask, bias if biased else None, kernel=kernel)).sum()


@pytest.fixture
def runs_here(monkeypatch):
    portable = partial(jax.nn.dot_product_attention, implementation="xla")
    monkeypatch.setattr(
        jax.nn,
        "dot_product_attention",
        lambda *arrays, **options: portable(*arrays, **{**options, "implementation": "xla"}),
    )
    with pltpu.force_tpu_interpret_mode():
        yield


@pytest.mark.usefixtures("runs_here")
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_gives_the_portable_numbers_and_gradients(name, biased):
    arrays, mask = inputs()
    step = jax.jit(jax.value_and_grad(loss, (3, 4, 5, 6)), static_argnums=(0, 1))
    (got, gradients), (want, expected) = (step(kernel, biased, mask, *arrays) for kernel in (name, "portable"))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for g, w in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, w, atol=1e-5 * max(float(jnp.abs(w).max()), 1e-30))


def test_the_arithmetic_of_an_interpreted_kernel_is_that_of_the_portable_tiles():
    """Both count two products forward; the kernel's have 8 channels where the portable ones have 7."""
    arrays, mask = inputs(q=256, k=128, c=7)
    counts = {
        kernel: flops(jax.make_jaxpr(partial(loss, kernel, True))(mask, *arrays)) for kernel in ("pallas", "portable")
    }
    assert 1 < counts["pallas"] / counts["portable"] < 1.3


@pytest.mark.parametrize(("name", "products"), [("fwd", 2), ("bwd", 5)])
def test_the_arithmetic_of_cudnn_is_that_of_its_matrix_products(name, products):
    """The primitive can be traced only where cuDNN is installed; one of the same name and shapes stands for it."""
    primitive = Primitive(f"dot_product_attention_{name}_wrapper")
    primitive.def_abstract_eval(lambda query, key: query)
    query, key = jnp.ones((ROW, Q, HEAD, C)), jnp.ones((ROW, K, HEAD, C))
    assert flops(jax.make_jaxpr(primitive.bind)(query, key)) == products * 2 * ROW * Q * K * HEAD * C


def plan(kernel: str, compute: str = "bfloat16") -> Plan:
    return Plan(precision=Precision(compute=compute), kernels=Kernels(attention=kernel))


@pytest.mark.parametrize(
    ("chosen", "platform", "message"),
    [
        (plan("cudnn"), "cpu", "'cudnn' runs on cuda, not on cpu; remove it to use the portable code"),
        (plan("pallas"), "cuda", "'pallas' runs on tpu, not on cuda"),
        (plan("pallas"), "", "'pallas' runs on tpu, not on this device"),
        (plan("cudnn", "float32"), "cuda", "'cudnn' computes in bfloat16, not in float32"),
        (plan("pallas", "float64"), "tpu", "'pallas' computes in bfloat16 or float32, not in float64"),
    ],
)
def test_a_kernel_is_refused_where_it_does_not_run(chosen, platform, message):
    with pytest.raises(PlanError, match=message):
        check_kernel(chosen, platform)


@pytest.mark.parametrize("chosen", [(plan("cudnn"), "cuda"), (plan("pallas"), "tpu"), (Plan(), "cpu")])
def test_a_kernel_is_accepted_where_it_runs(chosen):
    check_kernel(*chosen)


def test_a_missing_cudnn_is_told_with_what_to_install(monkeypatch):
    def absent(*arrays, **options):
        raise RuntimeError("cuDNN not found.")

    monkeypatch.setattr(jax.nn, "dot_product_attention", absent)
    arrays, mask = inputs()
    with pytest.raises(PlanError, match=r"cuDNN not found\. Install it, `pip install nvidia-cudnn-cu13`"):
        loss("cudnn", True, mask, *arrays)


def test_a_kernel_takes_no_tiles():
    with pytest.raises(PlanError, match=r"kernels.attention = 'cudnn' contradicts chunk.queries = 64"):
        Plan(chunk=Chunk(queries=64), kernels=Kernels(attention="cudnn"))

"""Every exact technique gives plain Aurora's loss and the plain gradient of every parameter."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exactness import require_exact
from tiny_aurora import CONFIG, LATITUDES, WEIGHTS, given, loss_alone, loss_and_gradient

from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute
from elbowroom.models.aurora.losses import masked_error, weather_loss
from elbowroom.models.aurora.model import Weather, chunk_axes

# The plain program is compiled once for all tests of a group, which run in one process.
FLOAT32, FLOAT64 = pytest.mark.xdist_group("aurora float32"), pytest.mark.xdist_group("aurora float64")
# No size divides the 5 rows of patches, of the coarser stage the 3, or the rows of windows.
PLANS = {
    "recompute of blocks and modules saving names": Plan(
        recompute=Recompute(blocks=True, modules=True, save=("window_attention",))
    ),
    "nested recompute, a smaller last group": Plan(recompute=Recompute(blocks=True, groups=2)),
    "chunked rows": Plan(chunk=Chunk(rows=2)),
}
TOGETHER = Plan(recompute=Recompute(blocks=True, modules=True, groups=2), chunk=Chunk(rows=3))


@FLOAT32
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float32(plan):
    require_exact(loss_and_gradient, plan, "float32")


@FLOAT64
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float64(plan):
    require_exact(loss_and_gradient, plan, "float64")


def test_a_roll_out_of_recomputed_steps_with_all_techniques_has_the_plain_gradients():
    require_exact(partial(loss_and_gradient, steps=2), TOGETHER, "float32")


@FLOAT32
def test_no_gradient_is_zero_where_the_techniques_were_compared():
    _, gradient = loss_and_gradient(Plan())
    assert [path for path, array in gradient.items() if not array.any()] == []


@FLOAT32
def test_bfloat16_stays_near_float32_and_changes_the_numbers():
    """bfloat16 holds 8 bits; the loss is an average over hundreds of points."""
    exact, _ = loss_and_gradient(Plan())
    rounded = loss_alone(Plan(precision=Precision(compute="bfloat16")))
    assert 0 < abs(float(rounded / exact) - 1) < 0.05


def test_errors_are_area_weighted_means_over_valid_points():
    example = jax.tree.map(lambda x: x[0], {k: given(1)[k] for k in ("target", "valid")})
    target, valid, area = example["target"].atmosphere, example["valid"].atmosphere, given(1)["area"]
    found = np.random.default_rng(3).normal(size=target.shape)
    got = masked_error(*(jnp.asarray(x) for x in (found, target, valid, area)))
    weight = np.broadcast_to(area[:, None], target.shape[1:]) * valid
    want = (np.abs(found - target) * weight).sum((1, 2, 3)) / weight.sum((1, 2, 3))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_not_known_changes_neither_loss_nor_gradient_whatever_stands_there():
    shape = (2, len(LATITUDES), 4)
    rng = np.random.default_rng(4)
    found, target = (jnp.asarray(rng.normal(size=shape), jnp.float32) for _ in range(2))
    valid, area = jnp.asarray(rng.random(shape) > 0.3).at[1].set(False), jnp.asarray(given(1)["area"], jnp.float32)
    step = jax.value_and_grad(lambda found, target: masked_error(found, target, valid, area).sum())
    want, got = step(found, target), step(found, jnp.where(valid, target, jnp.nan))
    assert all(np.isfinite(x).all() for x in got)
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert not got[1][1].any()


def test_the_surface_counts_a_quarter_and_variables_by_their_weights():
    ones = Weather(jnp.ones((2, 3, 4)), jnp.ones((2, 5, 3, 4)))
    zeros, valid = (jax.tree.map(lambda x, make=make: make(x), ones) for make in (jnp.zeros_like, lambda x: x > 0))
    names = (CONFIG.surface, CONFIG.atmosphere)
    loss, parts = weather_loss(ones, zeros, valid, jnp.ones(3), names, WEIGHTS)
    assert float(loss) == pytest.approx((0.25 * (3.0 + 1.5) + 2.8 + 1.7) / 4)
    want = dict.fromkeys(("error", "surface", "atmosphere"), 1.0)
    assert {name: float(value) for name, value in parts.items()} == want


def test_the_axes_that_chunks_cut_are_rows_of_patches_at_every_stage():
    assert chunk_axes(CONFIG, len(LATITUDES)) == {"rows": {"rows of patches": 5, "rows of stage 1": 3}}

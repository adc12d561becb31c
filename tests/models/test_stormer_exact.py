"""Every exact technique gives the plain model's loss and the plain gradient of every parameter."""

import jax
import jax.numpy as jnp
import pytest
from exactness import require_exact
from flax import nnx
from tiny_stormer import GRID, SIZES, arrays, example, forecast, loss_and_gradient, loss_of

from elbowroom.memory.audit import check_chunks, check_groups, check_names
from elbowroom.memory.plan import Chunk, Offload, Plan, PlanError, Precision, Recompute
from elbowroom.models.stormer.config import StormerConfig
from elbowroom.models.stormer.model import Stormer, chunk_axes, stacks

# The plain program is compiled once for all tests of a group, which run in one process.
FLOAT32, FLOAT64 = pytest.mark.xdist_group("stormer float32"), pytest.mark.xdist_group("stormer float64")
# No size divides the 12 patches it cuts, nor the groups the 3 blocks.
PLANS = {
    "recompute of blocks and modules saving names": Plan(
        recompute=Recompute(blocks=True, modules=True, save=("attn", "tokens_in"))
    ),
    "nested recompute, a smaller last group": Plan(recompute=Recompute(blocks=True, groups=2)),
    "chunked rows": Plan(chunk=Chunk(rows=5)),
    "chunked attention": Plan(chunk=Chunk(queries=5, keys=7)),
    "offloaded": Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("tokens_in",), parameters=True)),
}
TOGETHER = Plan(recompute=Recompute(blocks=True, modules=True, groups=2), chunk=Chunk(rows=7, queries=5, keys=5))
LENGTHS = {"latitudes": SIZES.latitudes, "longitudes": SIZES.longitudes, "patch": SIZES.patch, "depth": SIZES.depth}


@FLOAT32
@pytest.mark.parametrize("plan", [*PLANS.values(), TOGETHER], ids=[*PLANS, "all together"])
def test_loss_and_every_gradient_equal_the_plain_model_in_float32(plan):
    require_exact(loss_and_gradient, plan, "float32")


@FLOAT64
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float64(plan):
    require_exact(loss_and_gradient, plan, "float64")


@FLOAT32
def test_no_gradient_is_zero_where_the_techniques_were_compared():
    """A zero gradient would equal any other zero, whatever the technique did."""
    _, gradient = loss_and_gradient(Plan())
    assert [path for path, array in gradient.items() if not array.any()] == []


@FLOAT32
def test_bfloat16_stays_near_float32_and_changes_the_numbers():
    """bfloat16 holds 8 bits: through three blocks a forecast moves by some per cent of its size."""
    exact, rounded = (forecast(Plan(precision=Precision(compute=p)), example()) for p in ("float32", "bfloat16"))
    assert exact.shape == GRID
    assert rounded.dtype == jnp.float32
    assert 0 < float(jnp.linalg.norm(rounded - exact) / jnp.linalg.norm(exact)) < 0.05


def test_plans_may_keep_and_offload_what_blocks_start_from_and_add():
    named = Plan(
        recompute=Recompute(blocks=True, save=("attn", "mlp")),
        offload=Offload(activations=("tokens_in",)),
    )
    check_names(named, jax.value_and_grad(loss_of(named)), arrays(), example())


def test_the_attention_over_variables_takes_the_memory_of_one_chunk():
    """Keys and values of 69 variables at every patch outweigh all else on the way to the first block."""
    many = StormerConfig(channels=69, latitudes=16, longitudes=32, width=16, depth=1, heads=2)
    graph, parameters = nnx.split(nnx.eval_shape(lambda: Stormer(many, rngs=nnx.Rngs(0))), nnx.Param)
    state = jax.ShapeDtypeStruct((69, 16, 32), "float32")

    def temporary_bytes(plan):
        def loss(parameters, state):
            return jnp.sin(nnx.merge(graph, parameters).tokens(state, jnp.ones(state.shape, bool), plan)).sum()

        compiled = jax.jit(jax.grad(loss)).lower(parameters, state).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert temporary_bytes(Plan(chunk=Chunk(rows=10))) < temporary_bytes(Plan()) / 4


def test_chunks_and_groups_are_compared_with_the_patches_and_blocks_there_are():
    cuts = Plan(chunk=Chunk(rows=11, queries=11, keys=11), recompute=Recompute(blocks=True, groups=2))
    check_chunks(cuts, chunk_axes(LENGTHS))
    check_groups(cuts, stacks(LENGTHS))
    with pytest.raises(PlanError, match=r"chunk.rows = 12 cuts nothing: no axis is longer, of patches \(12\)"):
        check_chunks(Plan(chunk=Chunk(rows=12)), chunk_axes(LENGTHS))
    with pytest.raises(PlanError, match="groups"):
        check_groups(Plan(recompute=Recompute(blocks=True, groups=3)), stacks(LENGTHS))

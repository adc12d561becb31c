"""A choice of a plan that does nothing is refused or warned about."""

import warnings

import jax
import jax.numpy as jnp
import optax
import pytest
import toy_stack
from jax.ad_checkpoint import checkpoint_name

from elbowroom.memory.audit import (
    NoEffectWarning,
    check_chunks,
    check_groups,
    check_kernels,
    check_names,
    check_offload,
    names_in,
    recompute_effect,
)
from elbowroom.memory.chunk import map_rows
from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.plan import Chunk, Kernels, Offload, Plan, PlanError, Recompute
from elbowroom.memory.step import initial_state, make_step

ARGUMENTS = (
    jax.eval_shape(toy_stack.parameters),
    jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), jax.eval_shape(toy_stack.batch)),
    jax.eval_shape(lambda: jax.random.key(0)),
)


def audit_names(plan: Plan) -> None:
    check_names(plan, toy_stack.loss(plan), *ARGUMENTS)


def test_names_are_found_in_loops_branches_and_recomputed_functions():
    def named(x):
        x, _ = jax.lax.scan(lambda c, _: (checkpoint_name(jnp.sin(c), "in_loop"), None), x, None, length=3)
        x = jax.checkpoint(lambda y: checkpoint_name(jnp.cos(y), "in_checkpoint"))(x)
        x = jax.lax.cond(x.sum() > 0, lambda y: checkpoint_name(y * 2.0, "in_branch"), lambda y: y, x)
        return checkpoint_name(jax.jit(lambda y: checkpoint_name(y, "in_jit"))(x), "outside")

    found = names_in(jax.make_jaxpr(named)(jnp.ones(3)))
    assert found == {"in_loop", "in_checkpoint", "in_branch", "in_jit", "outside"}


def test_names_inside_chunked_rows_cannot_be_kept_and_do_not_count():
    def named(size):
        return lambda x: map_rows(lambda some: checkpoint_name(jnp.sin(some), "inside"), x, size=size)

    assert names_in(jax.make_jaxpr(named(None))(jnp.ones(5))) == {"inside"}
    assert names_in(jax.make_jaxpr(named(2))(jnp.ones(5))) == set()


def test_a_kernel_of_which_the_model_computes_nothing_is_refused():
    """The toy has no attention; programs print the addresses of functions, which differ without any meaning."""
    with pytest.raises(PlanError, match=r"kernels.attention = 'pallas' does nothing: the model has no attention"):
        check_kernels(Plan(kernels=Kernels(attention="pallas"), chunk=Chunk(rows=2)), toy_stack.loss, *ARGUMENTS)


def test_a_kernel_that_computes_something_is_accepted():
    def loss_of(plan):
        return jnp.sin if plan.kernels.attention == "pallas" else jnp.cos

    check_kernels(Plan(kernels=Kernels(attention="pallas")), loss_of, jnp.ones(3))
    check_kernels(Plan(), loss_of, jnp.ones(3))


@pytest.mark.parametrize("name", ["block_in", "attention_out"])
def test_names_that_the_model_gives_are_accepted(name):
    audit_names(Plan(recompute=Recompute(blocks=True, save=(name,))))
    audit_names(Plan(recompute=Recompute(blocks=True), offload=Offload(activations=(name,))))


def test_a_misspelt_name_is_refused_with_the_nearest_and_all_names():
    with pytest.raises(
        PlanError,
        match=r"recompute\.save: the model names no activation 'atention_out'; did you mean 'attention_out'\? "
        r"The names are attention_out, block_in",
    ):
        audit_names(Plan(recompute=Recompute(blocks=True, save=("block_in", "atention_out"))))
    with pytest.raises(PlanError, match=r"offload\.activations: .*'blok_in'; did you mean 'block_in'\?"):
        audit_names(Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("blok_in",))))


def test_a_name_like_no_other_is_refused_without_a_guess():
    with pytest.raises(PlanError, match=r"names no activation 'zzz'; The names are attention_out, block_in"):
        audit_names(Plan(recompute=Recompute(blocks=True, save=("zzz",))))


def test_a_model_without_names_is_told_apart():
    plan = Plan(recompute=Recompute(blocks=True, save=("x",)))
    with pytest.raises(PlanError, match=r"'x'; it names none at all"):
        check_names(plan, jnp.sum, jax.ShapeDtypeStruct((3,), jnp.float32))


AXES = {"rows": {"residues": 256, "sequences": 64}, "queries": {"residues": 256}, "keys": {"residues": 256}}


def test_a_chunk_shorter_than_every_axis_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_chunks(Plan(chunk=Chunk(rows=63, queries=255, keys=1)), AXES)
        check_chunks(Plan(), AXES)


def test_a_chunk_larger_than_some_axes_is_warned_about_by_name():
    with pytest.warns(NoEffectWarning, match=r"chunk\.rows = 64 leaves whole: sequences \(64\)"):
        check_chunks(Plan(chunk=Chunk(rows=64)), AXES)


@pytest.mark.parametrize("size", [256, 1000])
def test_a_chunk_no_smaller_than_any_axis_is_refused_with_what_would_work(size):
    with pytest.raises(
        PlanError,
        match=rf"chunk\.rows = {size} cuts nothing: .*residues \(256\), sequences \(64\); choose a size below 256",
    ):
        check_chunks(Plan(chunk=Chunk(rows=size)), AXES)
    with pytest.raises(PlanError, match=rf"chunk\.queries = {size} cuts nothing"):
        check_chunks(Plan(chunk=Chunk(queries=size)), AXES)


def test_a_chunk_of_an_axis_that_the_model_does_not_have_is_refused():
    with pytest.raises(PlanError, match=r"chunk\.queries = 8 cuts nothing: this model has no axis for it"):
        check_chunks(Plan(chunk=Chunk(queries=8)), {"rows": {"residues": 9}})


def test_a_chunk_of_an_axis_of_one_has_no_size_to_suggest():
    with pytest.raises(PlanError, match=r"chunk\.rows = 1 cuts nothing: .*rows \(1\); remove it"):
        check_chunks(Plan(chunk=Chunk(rows=1)), {"rows": {"rows": 1}})


STACKS = {"Evoformer": 8, "extra MSA": 4}


def grouped(groups: int) -> Plan:
    return Plan(recompute=Recompute(blocks=True, groups=groups))


@pytest.mark.parametrize("groups", [1, 2, 7])
def test_groups_of_at_least_two_blocks_somewhere_are_silent(groups):
    check_groups(grouped(groups), STACKS)


@pytest.mark.parametrize("groups", [8, 20])
def test_groups_of_single_blocks_are_refused_with_what_would_work(groups):
    with pytest.raises(
        PlanError, match=rf"recompute\.groups = {groups} .*Evoformer \(8\), extra MSA \(4\); choose a number below 8"
    ):
        check_groups(grouped(groups), STACKS)


def test_groups_of_a_stack_too_short_for_any_have_no_number_to_suggest():
    with pytest.raises(PlanError, match=r"recompute\.groups = 2 .*hidden \(2\); remove it"):
        check_groups(grouped(2), {"hidden": 2})


WIDTH, DEPTH = 64, 6
UNROLLED_OPTIMIZER = optax.sgd(0.1)


def twice(x, w):
    return jnp.tanh(x @ w) @ w


def unrolled_step(barrier: bool):
    """Layers outside any loop: without a barrier the compiler finds that it has computed them before."""

    def of(plan: Plan):
        def loss(weights, example, key):
            x = example
            for layer in range(DEPTH):
                again = plan.recompute.blocks
                x = (jax.checkpoint(twice, prevent_cse=barrier) if again else twice)(x, weights[layer])
            return jnp.square(x).mean(), {}

        return make_step(loss, UNROLLED_OPTIMIZER, plan)

    return of


@pytest.fixture(scope="module")
def unrolled():
    return (
        jax.eval_shape(lambda: initial_state(jnp.ones((DEPTH, WIDTH, WIDTH)), UNROLLED_OPTIMIZER, jax.random.key(0))),
        jax.ShapeDtypeStruct((1, 512, WIDTH), jnp.float32),
    )


def test_a_recompute_that_the_compiler_undid_is_warned_about_with_both_numbers(unrolled):
    plan = Plan(recompute=Recompute(blocks=True))
    with pytest.warns(
        NoEffectWarning,
        match=r"recompute blocks: the compiler undid .* are [\d.]+ \wiB with it, [\d.]+ \wiB without",
    ):
        recomputed, kept = recompute_effect(unrolled_step(barrier=False), plan, *unrolled)
    assert recomputed.temporaries >= 0.99 * kept.temporaries


def test_a_recompute_that_works_is_silent(unrolled):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recomputed, kept = recompute_effect(
            unrolled_step(barrier=True), Plan(recompute=Recompute(blocks=True)), *unrolled
        )
    assert recomputed.temporaries < 0.8 * kept.temporaries


def test_an_offload_that_moved_nothing_is_warned_about():
    """A CPU's host memory is its device memory."""
    plan = Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("block_in",)))
    footprint = compile_step(toy_stack.step_of(plan), *toy_stack.shapes()).footprint
    with pytest.warns(NoEffectWarning, match=r"offload\.activations = block_in: moved no bytes off the device \(cpu"):
        check_offload(plan, footprint)
    with pytest.warns(NoEffectWarning, match=r"offload\.optimizer = true: moved no bytes off the device \(cpu"):
        check_offload(Plan(offload=Offload(optimizer=True)), footprint)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_offload(Plan(), footprint)

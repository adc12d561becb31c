"""Recompute over a scan: the same numbers, fewer bytes, at every depth and grouping."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.plan import Offload, Plan, Recompute
from elbowroom.memory.precision import as_it_is
from elbowroom.memory.recompute import name, recomputed_module, scan_blocks

WIDTH = 64
PLANS = {
    "blocks": Plan(recompute=Recompute(blocks=True)),
    "modules": Plan(recompute=Recompute(modules=True)),
    "saving a name": Plan(recompute=Recompute(blocks=True, save=("inside",))),
    "groups that divide": Plan(recompute=Recompute(blocks=True, groups=3)),
    "groups with a rest": Plan(recompute=Recompute(blocks=True, groups=4)),
    "more groups than blocks": Plan(recompute=Recompute(blocks=True, groups=9)),
    "offloaded inputs": Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("in",))),
}


def total(plan, x, weights):
    def block(x, weight):
        def module(x):
            inside = name(jnp.sin(x @ weight), "inside")
            return jnp.tanh(jnp.exp(jnp.sin(inside)) @ weight.T)

        return x + recomputed_module(module, plan.recompute)(name(x, "in"))

    return scan_blocks(block, x, weights, plan).sum()


def arrays(depth=6, rows=5):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.standard_normal(s) / 8, jnp.float32) for s in ((rows, WIDTH), (depth, WIDTH, WIDTH)))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_recompute_changes_neither_value_nor_gradient(plan):
    run = jax.jit(jax.value_and_grad(total, (1, 2)), static_argnums=0)
    got, want = run(plan, *arrays()), run(Plan(), *arrays())
    # The same operations, fused differently by the compiler: a few roundings of the largest value.
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=16 * np.finfo("float32").eps * float(jnp.abs(w).max()))


def temporaries(plan):
    compiled = jax.jit(jax.grad(total, (1, 2)), static_argnums=0).lower(plan, *arrays(depth=16, rows=512)).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_each_recompute_holds_fewer_bytes_than_the_one_before():
    plain, modules, blocks = (temporaries(p) for p in (Plan(), PLANS["modules"], PLANS["blocks"]))
    grouped = temporaries(Plan(recompute=Recompute(blocks=True, groups=4)))
    saved = temporaries(PLANS["saving a name"])
    assert plain > 1.5 * modules
    assert plain > 1.5 * saved > 1.5 * blocks
    assert blocks > 1.3 * grouped


@pytest.mark.parametrize(("groups", "loops"), [(3, (3, 2)), (6, (6, 1)), (7, (1, 6)), (100, (1, 6))])
def test_a_stack_with_fewer_blocks_than_groups_is_one_group(groups, loops):
    plan = Plan(recompute=Recompute(blocks=True, groups=groups))
    traced = str(jax.make_jaxpr(lambda x, w: total(plan, x, w))(*arrays(depth=6)))
    # The text of a loop ends with its body, and its length comes after: the inner loop's is first.
    assert tuple(map(int, re.findall(r"length=(\d+)", traced)))[::-1] == loops


def test_the_null_plan_is_the_plain_scan():
    def plain(x, weights):
        def body(x, weight):
            weight = as_it_is(weight)
            inside = name(jnp.sin(x @ weight), "inside")
            return name(x, "in") + jnp.tanh(jnp.exp(jnp.sin(inside)) @ weight.T), None

        return jax.lax.scan(body, x, weights)[0].sum()

    def equations(function):
        return str(jax.make_jaxpr(function)(*arrays())).count("\n"), "checkpoint" in str(
            jax.make_jaxpr(function)(*arrays())
        )

    assert equations(lambda x, w: total(Plan(), x, w)) == equations(plain)
    assert not equations(plain)[1]


def test_the_compiler_does_not_undo_recomputation_in_stacks_of_one_block():
    """It unrolls loops of one step; three such stacks in a row must still not hold their insides at once."""

    def three_stacks(plan, x, weights):
        for depth in range(3):
            # Widened inside: what a block holds is large against its input.
            x = scan_blocks(lambda x, w: x + jnp.exp(jnp.sin(jnp.tanh(x @ w))) @ w.T, x, weights[depth, None], plan)
        return x.sum()

    x, weights = jnp.ones((512, 16)), jnp.ones((3, 16, 512)) / 64

    def of(plan):
        compiled = jax.jit(jax.grad(three_stacks, (1, 2)), static_argnums=0).lower(plan, x, weights).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    assert of(PLANS["blocks"]) < of(Plan()) / 1.5

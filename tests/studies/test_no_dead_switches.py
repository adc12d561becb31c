"""Every field of a plan changes the program: a switch that nothing reads would fail here."""

import dataclasses
from functools import cache

import jax
import pytest

from elbowroom.memory.plan import Kernels, Plan
from elbowroom.studies.alphafold import ALPHAFOLD_SMALL
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.choose_plan import abstract_train_state
from elbowroom.studies.train import step_of

pytestmark = pytest.mark.xdist_group("dead switches")
SIZES = {
    "crop": 12,
    "clusters": 5,
    "extra": 7,
    "blocks": 4,
    "extra_blocks": 1,
    "templates": 0,
    "recycles": 0,
    "batch": 1,
}
NEEDED = {"recompute": {"blocks": True}, "chunk": {"queries": 8}, "offload": {}}
"""What must be set for the other fields of a section to have a meaning."""
CHANGES = {
    "precision.compute": "bfloat16",
    "recompute.blocks": True,
    "recompute.modules": True,
    "recompute.groups": 2,
    "recompute.save": ["triangle_product"],
    "chunk.rows": 4,
    "chunk.queries": 4,
    "chunk.keys": 4,
    "offload.activations": ["pair_in"],
    "optimizer.first_moment": "bfloat16",
    "optimizer.rule": "adam-8bit",
}
ELSEWHERE = {
    "kernels.attention": "below: such a program is traced anywhere, and compiled only where there is a device for it",
    "mesh.data": "tests/memory/test_step.py, in a process with two devices",
    "offload.optimizer": "tests/memory/test_offload.py, on arrays that are large enough",
    "offload.parameters": "tests/memory/test_offload.py, on arrays that are large enough",
}


def fields() -> set[str]:
    plan = Plan()
    sections = [(s.name, getattr(plan, s.name)) for s in dataclasses.fields(plan)]
    return {f"{name}.{field.name}" for name, section in sections for field in dataclasses.fields(section)}


def test_every_field_is_tried():
    assert fields() == CHANGES.keys() | ELSEWHERE.keys()


@cache
def program(plan: Plan) -> str:
    settings = ALPHAFOLD_SMALL.optimizer
    state = abstract_train_state(ALPHAFOLD_SMALL, SIZES, settings, plan)
    step = step_of(ALPHAFOLD_SMALL, SIZES, settings)(plan)
    return jax.jit(step).lower(state, abstract_batch(ALPHAFOLD_SMALL, SIZES)).as_text()


@pytest.mark.parametrize("field", CHANGES)
def test_the_field_changes_the_program(field):
    section, key = field.split(".")
    before = {"recompute": {"blocks": True}} if section == "offload" else {section: dict(NEEDED.get(section, {}))}
    before[section] = {k: v for k, v in before.get(section, {}).items() if k != key}
    after = {**before, section: {**before[section], key: CHANGES[field]}}
    assert program(Plan.from_dict(before)) != program(Plan.from_dict(after))


@pytest.mark.parametrize(("kernel", "called"), [("pallas", True), ("portable", False)])
def test_the_attention_of_a_plan_is_that_of_its_kernel(kernel, called):
    plan = Plan(kernels=Kernels(attention=kernel))
    settings = ALPHAFOLD_SMALL.optimizer
    state = abstract_train_state(ALPHAFOLD_SMALL, SIZES, settings, plan)
    step = step_of(ALPHAFOLD_SMALL, SIZES, settings)(plan)
    traced = jax.make_jaxpr(step)(state, abstract_batch(ALPHAFOLD_SMALL, SIZES))
    assert ("pallas_call" in str(traced)) == called


def test_the_same_plan_gives_the_same_program():
    """Otherwise the comparison above could not fail."""
    assert program.__wrapped__(Plan()) == program(Plan())

"""Checkpoints as they are published, with a prefix and with joint arrays, and their names here."""

from pathlib import Path

import aurora_oracle as oracle
import numpy as np
import pytest
from flax import nnx

from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.model import Aurora
from elbowroom.models.aurora.weights import load_published, published_arrays, separated

type Arrays = dict[str, np.ndarray]


def original(case: Path) -> Arrays:
    """The reference's parameters under the names of the original."""
    names = oracle.beside(case, "params")["model"]
    return {name: oracle.parameter(name, tuple(entry["shape"])) for name, entry in names.items()}


def joined(arrays: Arrays, config: AuroraConfig) -> Arrays:
    """With one array for all variables, laid out as the README of the reference numbers says that they are cut."""
    joint = dict(arrays)
    for part, variables in (("surf", (*config.surface, *config.static)), ("atmos", config.atmosphere)):
        each = [joint.pop(f"encoder.{part}_token_embeds.weights.{name}") for name in variables]
        joint[f"encoder.{part}_token_embeds.weight"] = np.concatenate(each, axis=1)
    for part, variables in (("surf", config.surface), ("atmos", config.atmosphere)):
        for kind in ("weight", "bias"):
            each = [joint.pop(f"decoder.{part}_heads.{name}.{kind}") for name in variables]
            whole = np.zeros((config.patch**2 * len(variables), *each[0].shape[1:]), np.float32)
            for number, array in enumerate(each):
                whole[number :: len(variables)] = array
            joint[f"decoder.{part}_head.{kind}"] = whole
    return {f"net.{name}": array for name, array in joint.items()}


def require_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("case", oracle.cases(), ids=lambda case: case.stem)
def test_joint_arrays_are_cut_into_those_of_each_variable_and_others_left_alone(case):
    arrays, config = original(case), oracle.config(case)
    require_equal(separated(joined(arrays, config), config), arrays)
    require_equal(separated(arrays, config), arrays)


@pytest.mark.parametrize("case", oracle.cases(), ids=lambda case: case.stem)
def test_a_joint_checkpoint_is_given_back_under_the_names_of_the_original(case):
    arrays, config = original(case), oracle.config(case)
    model = nnx.eval_shape(lambda: Aurora(config, rngs=nnx.Rngs(0)))
    load_published(model, separated(joined(arrays, config), config))
    require_equal(published_arrays(nnx.state(model, nnx.Param)), arrays)

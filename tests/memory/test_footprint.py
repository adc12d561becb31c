"""The compiler's and the measured footprint of a step, part by part, against bytes counted by hand."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import toy_stack

from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.footprint.footprint import PARTS, Footprint, tree_bytes
from elbowroom.memory.footprint.measured import Peak, measure_step
from elbowroom.memory.plan import Plan, Recompute
from elbowroom.memory.step import TrainState, initial_state, make_step

WIDTH, EXAMPLES = 16, 3


@pytest.fixture(scope="module")
def plain() -> Compiled:
    return compile_step(toy_stack.step_of(Plan()), *toy_stack.shapes())


def test_parameters_optimizer_and_inputs_are_the_bytes_of_their_arrays(plain):
    blocks, rows, length, channels, heads = 4, 24, 40, 32, 4
    weights = channels + 3 * channels * channels + 2 * channels**2 + channels * heads + 2 * 4 * channels**2
    assert plain.footprint.parameters == 4 * blocks * weights
    assert plain.footprint.optimizer == 4 * blocks * weights + 4 + 8, "one moment, the step counter, the random key"
    assert plain.footprint.inputs == rows * length * (4 * channels + 1)


def test_the_peak_is_the_sum_of_the_parts_and_of_the_compilers_own_numbers(plain):
    found, analysis = plain.footprint, plain.executable.memory_analysis()
    assert found.peak == sum(getattr(found, part) for part in PARTS)
    assert found.peak == (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        + analysis.temp_size_in_bytes
        - analysis.alias_size_in_bytes
    )


def test_the_state_is_given_up_so_only_metrics_are_new_outputs(plain):
    assert plain.footprint.outputs < 1024


def test_gradients_are_split_off_the_temporaries(plain):
    assert plain.footprint.gradients == plain.footprint.parameters
    temporary = plain.executable.memory_analysis().temp_size_in_bytes
    assert plain.footprint.gradients + plain.footprint.temporaries == temporary


def test_a_feature_that_the_step_never_reads_is_not_held():
    state, batch = toy_stack.shapes()
    unread = {**batch, "unread": jax.ShapeDtypeStruct((1, 10_000), jnp.float32)}
    found = compile_step(toy_stack.step_of(Plan(recompute=Recompute(blocks=True))), state, unread).footprint
    assert found.inputs == tree_bytes(batch)
    assert found.optimizer == tree_bytes(state) - tree_bytes(state.parameters)


def test_gradients_are_never_more_than_all_temporaries():
    state = TrainState(jnp.zeros((), jnp.int32), jnp.zeros(100), (), jax.random.key(0))
    found = Footprint.of_step(state, {}, temporary=30, outputs=0, provenance="compiled", detail="")
    assert (found.gradients, found.temporaries) == (30, 0)


def test_cpus_have_no_host_memory_beside_their_own(plain):
    assert plain.footprint.host == 0


def test_it_says_where_it_comes_from(plain):
    assert plain.footprint.provenance == "compiled"
    assert plain.footprint.detail == f"cpu, jax {jax.__version__}"


def test_it_is_plain_json_and_a_table_with_units(plain):
    row = json.loads(json.dumps(plain.footprint.to_dict()))
    assert Footprint(**row) == plain.footprint
    table = str(plain.footprint)
    assert table.splitlines()[0] == f"compiled (cpu, jax {jax.__version__})"
    assert [line.split()[0] for line in table.splitlines()[1:]] == [*PARTS, "peak"]
    assert all(line.split()[-1] in ("B", "KiB", "MiB", "GiB") for line in table.splitlines()[1:])


def test_random_keys_count_as_the_integers_they_are_made_of():
    assert tree_bytes({"key": jax.random.key(0), "keys": jax.random.split(jax.random.key(0), 3)}) == 8 + 24


def test_the_executable_trains(plain):
    state, metrics = plain.executable(toy_stack.state(), toy_stack.batch())
    again, later = plain.executable(state, toy_stack.batch())
    assert int(again.step) == 2
    assert float(later["loss"]) < float(metrics["loss"])


def test_a_measured_peak_is_what_the_block_allocated():
    size = 64 * 2**20
    with Peak() as peak:
        block = np.ones(size, np.uint8)
    # The allocator and the interpreter add little; the pages of `block` are touched, so none is missing.
    assert size <= peak.size < 1.25 * size
    assert peak.source.startswith("resident set")
    del block


def test_sampling_sees_the_same_peak_where_the_kernels_counter_cannot_be_reset(monkeypatch, tmp_path):
    monkeypatch.setattr("elbowroom.memory.footprint.resident._CLEAR", tmp_path / "missing" / "clear_refs")
    size = 64 * 2**20
    with Peak() as peak:
        block = np.ones(size, np.uint8)
    assert peak.source == "resident set, sampled"
    assert size <= peak.size < 1.25 * size
    del block


def test_a_measured_step_holds_at_least_its_largest_activation():
    """The backward pass needs 64 MiB of hidden layer; the resident set grows by it."""
    wide, narrow = 4096, 8

    def loss(weights, example, key):
        return (jnp.tanh(example["x"] @ weights["into"]) @ weights["out"]).mean(), {}

    optimizer = optax.sgd(0.1)
    weights = {"into": jnp.ones((narrow, wide)), "out": jnp.ones((wide, narrow))}
    state, batch = initial_state(weights, optimizer, jax.random.key(0)), {"x": jnp.ones((1, wide, narrow))}
    compiled = compile_step(make_step(loss, optimizer, Plan()), state, batch)
    measured = measure_step(compiled.executable, state, batch)
    assert measured.footprint.provenance == "measured"
    assert measured.footprint.detail.startswith("cpu, resident set")
    assert measured.footprint.parameters == 2 * 4 * narrow * wide
    assert measured.footprint.peak > 4 * wide * wide
    assert int(measured.state.step) == 1
    assert "loss" in measured.metrics

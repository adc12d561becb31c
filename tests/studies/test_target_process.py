"""A compiler that refuses, crashes or is not there is one line, never the end."""

import json
import re
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from elbowroom.memory.devices.profile import DeviceError, device
from elbowroom.memory.footprint import target
from elbowroom.memory.footprint.footprint import PARTS, Footprint
from elbowroom.memory.footprint.target import with_host_arguments
from elbowroom.memory.plan import Plan, Recompute
from elbowroom.memory.step import TrainState
from elbowroom.studies import footprint_report
from elbowroom.studies.footprint_report import device_row, fitting_plan, verdict
from elbowroom.studies.target_process import TargetError, answer_of

FOUND = Footprint(**dict.fromkeys((*PARTS, "host", "peak"), 7), provenance="compiled", detail="a compiler")


def command(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_last_line_is_the_answer():
    answer = json.dumps({"footprint": FOUND.to_dict()})
    assert answer_of(command(f"print('loading'); print({answer!r})"), "card") == FOUND


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (
            """print('{"refused": "RESOURCE_EXHAUSTED: 20 GiB of 16 GiB"}')""",
            "card: RESOURCE_EXHAUSTED: 20 GiB of 16 GiB",
        ),
        (
            """print('{"footprint": {}}'); raise SystemExit(3)""",
            "card: the compiler ended with code 3: it said nothing",
        ),
        ("import os; os._exit(9)", "card: the compiler ended with code 9: it said nothing"),
        ("import os; os.abort()", "card: the compiler ended with code -6: it said nothing"),
        ("raise SystemExit('no such opcode')", "card: the compiler ended with code 1: no such opcode"),
        ("pass", "card: the compiler ended with code 0: it said nothing"),
    ],
    ids=["refused", "answered and failed", "died", "aborted", "failed", "silent"],
)
def test_what_is_no_answer_is_told_in_the_compilers_words(code, complaint):
    with pytest.raises(TargetError, match=re.escape(complaint)):
        answer_of(command(code), "card")


def test_a_compiler_that_is_not_installed_is_named_with_how_to_get_it(monkeypatch):
    monkeypatch.setattr(target, "PACKAGES", {"cuda": "no-such-compiler"})
    with pytest.raises(DeviceError, match=r"rtx4090 needs no-such-compiler: pip install 'elbowroom\[compilers\]'"):
        target.compiler(device("rtx4090"))


def test_a_device_that_no_compiler_knows_is_refused():
    with pytest.raises(DeviceError, match="no compiler here knows v100-32"):
        target.compiler(device("v100-32"))


def test_the_compiler_is_told_of_a_card_what_its_data_sheet_says():
    """Against a description that was tried with XLA's CUDA compiler."""
    text = target.cuda_description(device("rtx4090"))
    for field in (
        *("threads_per_block_limit: 1024", "threads_per_warp: 32", "shared_memory_per_block: 49152"),
        *("shared_memory_per_core: 102400", "threads_per_core_limit: 1536", "core_count: 128", "fpus_per_core: 128"),
        *("block_dim_limit_x: 2147483647", "block_dim_limit_y: 65535", "block_dim_limit_z: 65535"),
        *("memory_bandwidth: 1008000000000", "l2_cache_size: 75497472", "clock_rate_ghz: 2.52"),
        *("shared_memory_per_block_optin: 101376", "cuda_compute_capability { major: 8 minor: 9 }"),
        *("registers_per_core_limit: 65536", "registers_per_block_limit: 65536", "runtime_version { major: 13"),
    ):
        assert field in text


def test_state_in_host_memory_is_not_counted_as_the_cards():
    """Two stacks of 4 and of 8 layers wait, as moments; the loop over the 8 has twice a layer of both its stacks."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))
    there = NamedSharding(mesh, PartitionSpec())

    def array(*shape: int, waits: bool) -> jax.ShapeDtypeStruct:
        own = there.with_memory_kind("pinned_host") if waits else there
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=own)

    parameters = {"deep": array(8, 10, waits=False), "few": array(4, 10, waits=False), "bias": array(10, waits=False)}
    moments = {"mu": array(8, 10, waits=True), "nu": array(8, 10, waits=True), "few": array(4, 10, waits=True)}
    state = TrainState(array(waits=False), parameters, moments, array(waits=False))
    told = Footprint.of_step(state, {}, temporary=2000, outputs=4, provenance="compiled", detail="a compiler")
    found = with_host_arguments(told, state)
    waiting, visiting = 4 * (80 + 80 + 40), 2 * 4 * (10 + 10)
    assert (found.host, told.peak - found.peak) == (waiting, waiting - visiting)
    assert found.optimizer == told.optimizer - waiting
    assert found.parameters == told.parameters
    assert found.peak == sum(getattr(found, part) for part in PARTS)
    offloaded = state._replace(parameters={**parameters, "deep": array(8, 10, waits=True)})
    assert with_host_arguments(told, offloaded).parameters == told.parameters - 4 * 80
    nothing = state._replace(optimizer={})
    assert with_host_arguments(told, nothing) == told


def test_a_footprint_by_formula_says_whether_a_device_holds_it(toy):
    sizes = {name: size.default for name, size in toy.sizes.items()}
    row = device_row(toy, sizes, Plan(), "formula", device("rtx4090"))
    assert (row["device"], row["usable_bytes"], row["fits"]) == ("rtx4090", int(23.5 * 2**30), True)
    assert row["device_bytes"] == row["footprint"]["peak"] > 0
    assert "fits the 23.5 GiB that a program can have on rtx4090 (formula)" in verdict(row)
    assert verdict(row).endswith("--how compiled asks the device's compiler")
    assert "--how compiled" not in verdict({**row, "how": "compiled"})
    assert row["flops"] == row["plain_flops"] > 0


def test_a_card_too_small_and_a_recompute_are_told(toy):
    sizes, card = {name: size.default for name, size in toy.sizes.items()}, device("rtx4090")
    usable = replace(card.numbers["usable_memory"], value=100.0)
    small = replace(card, numbers={**card.numbers, "usable_memory": usable})
    row = device_row(toy, sizes, Plan(recompute=Recompute(blocks=True)), "formula", small)
    assert not row["fits"]
    assert row["flops"] > row["plain_flops"]
    assert "does not fit the 100 B that a program can have on rtx4090" in verdict(row)


def test_a_measurement_elsewhere_is_refused(toy):
    sizes = {name: size.default for name, size in toy.sizes.items()}
    with pytest.raises(DeviceError, match="measured where the device is"):
        device_row(toy, sizes, Plan(), "measured", device("rtx4090"))


@pytest.fixture
def a_compiler_that_says(monkeypatch):
    """Answers with `words` for the plain plan, and with a footprint of seven bytes for every other."""

    def install(words: str) -> None:
        def answer(case: object, sizes: object, plan: Plan, target: object) -> Footprint:
            if plan == Plan():
                raise TargetError(words)
            return FOUND

        monkeypatch.setattr(footprint_report, "target_footprint", answer)

    return install


def test_a_plan_that_the_compiler_calls_too_large_does_not_fit(toy, a_compiler_that_says):
    a_compiler_that_says("tpu-v5e, plain float32: RESOURCE_EXHAUSTED: Used 20.0G of 15.75G hbm")
    sizes, told = {name: size.default for name, size in toy.sizes.items()}, []
    chosen = fitting_plan(toy, sizes, "compiled", device("tpu-v5e"), told.append)
    assert chosen == toy.ladder[1]
    assert any("Used 20.0G of 15.75G" in line for line in told)


def test_a_compiler_that_crashes_is_not_taken_for_a_plan_that_is_too_large(toy, a_compiler_that_says):
    a_compiler_that_says("tpu-v5e, plain float32: the compiler ended with code -6: it said nothing")
    sizes = {name: size.default for name, size in toy.sizes.items()}
    with pytest.raises(TargetError, match="ended with code -6"):
        fitting_plan(toy, sizes, "compiled", device("tpu-v5e"), lambda line: None)

"""A compiler that refuses, crashes or is not there is one line, never the end."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from elbowroom.memory.devices.profile import DeviceError, device
from elbowroom.memory.footprint import target
from elbowroom.memory.footprint.footprint import PARTS, Footprint
from elbowroom.memory.offload import fetched
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


class AbsentCard:
    """As jax shows a card that is not there: without host memory. It keeps what it is asked to compile."""

    memory_kind, id = None, 0

    def __init__(self, refusal: str | None = None) -> None:
        self.asked, self.refusal, self.client, self.device_set = [], refusal, self, {self}

    def with_memory_kind(self, kind: str) -> "AbsentCard":
        return self

    def compile(self, module: object, devices: object, options: object) -> SimpleNamespace:
        self.asked.append((str(module), options.env_option_overrides))
        if len(self.asked) == 1 and self.refusal is not None:
            raise jax.errors.JaxRuntimeError(self.refusal)
        sizes = ("argument", "output", "alias", "temp", *(f"host_{s}" for s in ("argument", "output", "alias", "temp")))
        account = SimpleNamespace(**{f"{s}_size_in_bytes": 320 if "host" in s else 4000 for s in sizes})
        return SimpleNamespace(get_compiled_memory_stats=lambda: account)


@pytest.fixture
def waiting() -> TrainState:
    """A weight on the device whose moment waits in host memory."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))
    there = NamedSharding(mesh, PartitionSpec())

    def array(*shape: int, memory: str = "device") -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=there.with_memory_kind(memory))

    return TrainState(array(), {"weight": array(8, 10)}, {"weight": array(8, 10, memory="pinned_host")}, array())


def compiled_for(card: AbsentCard, state: TrainState, folder: Path, monkeypatch) -> Footprint:
    def step(state: TrainState, batch: object) -> tuple[TrainState, dict]:
        return state._replace(optimizer=jax.tree.map(fetched, state.optimizer)), {}

    monkeypatch.setattr(target, "PACKAGES", {"cuda": "jax"})
    monkeypatch.setattr(target, "target_sharding", lambda device: card)
    return target.compile_for(device("rtx4090"), step, state, {}, cache=folder)


def test_a_card_that_is_not_there_is_told_what_waits_in_host_memory(waiting, tmp_path, monkeypatch):
    """jax would drop it in silence, and the compiler count it as the card's."""
    card = AbsentCard()
    found = compiled_for(card, waiting, tmp_path, monkeypatch)
    (program, _) = card.asked[0]
    assert program.count('mhlo.memory_kind = "pinned_host"') == 2
    assert "annotate_device_placement" in program
    assert (found.parameters, found.optimizer, found.host) == (320, 8, 2 * 320)
    assert found.peak == 2 * 4000 == sum(getattr(found, part) for part in PARTS)


@pytest.mark.parametrize("refusal", ["INTERNAL: No supported config found for HLO: gemm_fusion", "INTERNAL: no room"])
def test_products_that_triton_has_no_kernel_for_are_cublas_own(waiting, tmp_path, monkeypatch, refusal):
    card = AbsentCard(refusal)
    if "config" not in refusal:
        with pytest.raises(jax.errors.JaxRuntimeError, match="no room"):
            compiled_for(card, waiting, tmp_path, monkeypatch)
        return
    compiled_for(card, waiting, tmp_path, monkeypatch)
    first, second = (dict(options) for _, options in card.asked)
    assert second == {**first, "xla_gpu_enable_triton_gemm": False}


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

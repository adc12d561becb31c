"""A train step of the small Aurora: this project beside the original in PyTorch, on this machine.

    python -m venv original; original/bin/pip install microsoft-aurora==2.0.1
    python results/beside_aurora.py original/bin/python

Same parameters, inputs, targets, loss, clipping and AdamW, float32. Every code runs in a process of its own; steps are
taken in turns. Writes `beside_aurora.md` and `.json` beside this file. Linux only.
"""

import ctypes
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from flax import nnx

from elbowroom.datasets.weather.examples import example
from elbowroom.memory.footprint.measured import Peak
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.memory.step import initial_state, make_step
from elbowroom.models.aurora.config import small
from elbowroom.models.aurora.losses import SURFACE_SHARE, VariableWeights
from elbowroom.models.aurora.model import Aurora
from elbowroom.models.aurora.normalisation import atmosphere_scaling, static_scaling, surface_scaling
from elbowroom.models.aurora.weights import load_published, published_shapes
from elbowroom.studies.aurora import AURORA_SMALL, PUBLISHED
from elbowroom.studies.aurora_features import STATIC_NAMES, FeatureMaker
from elbowroom.studies.metrics.weather import area_weights
from elbowroom.studies.optimizer import make_optimizer
from elbowroom.studies.provenance import provenance, provenance_line
from elbowroom.studies.table import Column, markdown_table

type Answer = dict[str, Any]

THREADS, REPEATS = 2, 3
SPACING = 1.0
"""degrees; a number of which float32 holds all multiples"""
LATITUDE, LONGITUDE = 90 - SPACING * (np.arange(180) + 0.5), SPACING * np.arange(360)
LEVEL = (50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000)
SIZES = {"latitudes": len(LATITUDE), "longitudes": len(LONGITUDE), "levels": len(LEVEL), "steps": 1, "batch": 1}
LEAD = 6.0
CONFIG = small()
OPTIMIZER = dataclasses.replace(PUBLISHED, learning_rate=1e-4, warmup_steps=1)
BOTH = Recompute(blocks=True, modules=True)
PLANS = (
    Plan(recompute=BOTH, chunk=Chunk(rows=3)),
    Plan(recompute=Recompute(blocks=True)),
    Plan(),
)
ORIGINAL = "original, checkpointing on"
COUNTED = ("seconds", "processor_seconds", "growth")
COLUMNS = (
    Column("code", lambda r: r["code"]),
    Column("step", lambda r: statistics.median(r["seconds"]), lambda s: f"{s:.2f} s"),
    Column("fastest to slowest", lambda r: r["seconds"], lambda s: f"{min(s):.2f} to {max(s):.2f} s"),
    Column("time / original", lambda r: r["seconds_ratio"], lambda r: f"{r:.2f}"),
    Column("processor time / original", lambda r: r["processor_seconds_ratio"], lambda r: f"{r:.2f}"),
    Column("growth", lambda r: statistics.median(r["growth"]), format_size),
    Column("growth / original", lambda r: r["growth_ratio"], lambda r: f"{r:.2f}"),
    Column("loss difference", lambda r: r["loss_difference"], lambda d: f"{d:.1e}"),
    Column("gradient norm difference", lambda r: r["gradient_norm_difference"], lambda d: f"{d:.1e}"),
)


def weather() -> xr.Dataset:
    """Three times of random weather in the normal form, in physical units: two given, one to predict."""
    rng, axes = np.random.default_rng(0), ("time", "level", "latitude", "longitude")
    lengths = {"time": 3, "level": len(LEVEL), "latitude": len(LATITUDE), "longitude": len(LONGITUDE)}

    def fields(names: tuple[str, ...], scaling: np.ndarray, *without: str) -> dict[str, Any]:
        chosen = [axis for axis in axes if axis not in without]
        shape = [lengths[axis] for axis in chosen]
        drawn = [mean + scale * rng.normal(size=shape) for mean, scale in zip(*scaling, strict=True)]
        return {name: (chosen, field.astype(np.float32)) for name, field in zip(names, drawn, strict=True)}

    time_of_day = np.datetime64("2020-01-01", "ns") + np.arange(3) * np.timedelta64(int(LEAD), "h")
    return xr.Dataset(
        {
            **fields(CONFIG.surface, surface_scaling(CONFIG.surface), "level"),
            **fields(tuple(stored(CONFIG.static).values()), static_scaling(CONFIG.static), "time", "level"),
            **fields(CONFIG.atmosphere, atmosphere_scaling(CONFIG.atmosphere, np.array(LEVEL))),
        },
        coords={"time": time_of_day, "level": list(LEVEL), "latitude": LATITUDE, "longitude": LONGITUDE},
    )


def stored(static: tuple[str, ...]) -> dict[str, str]:
    """Static variables by Aurora's names, and what they are called in the normal form."""
    return {name: STATIC_NAMES.get(name, name) for name in static}


def parameters() -> dict[str, np.ndarray]:
    """Random everywhere: what a new model starts at zero would hide whatever it multiplies."""
    rng, shapes = np.random.default_rng(1), published_shapes(abstract())
    return {
        name: (rng.normal(size=shape) * (0.1 if len(shape) == 1 else np.prod(shape[1:]) ** -0.5)).astype(np.float32)
        for name, shape in shapes.items()
    }


def abstract() -> Aurora:
    return nnx.eval_shape(lambda: Aurora(CONFIG, rngs=nnx.Rngs(0)))


def settings() -> dict[str, Any]:
    """What the original's process is told beside parameters and weather."""
    names = {"surface": CONFIG.surface, "atmosphere": CONFIG.atmosphere}
    return {
        "threads": THREADS,
        "variables": {
            **{kind: {name: name for name in some} for kind, some in names.items()},
            "static": stored(CONFIG.static),
        },
        "weights": dataclasses.asdict(VariableWeights()),
        "surface_share": SURFACE_SHARE,
        "area": area_weights(LATITUDE).tolist(),
        "clip_norm": OPTIMIZER.clip_norm,
        "adamw": {
            "lr": OPTIMIZER.learning_rate,
            "betas": (OPTIMIZER.beta1, OPTIMIZER.beta2),
            "eps": OPTIMIZER.epsilon,
            "weight_decay": OPTIMIZER.weight_decay,
        },
    }


def answer_steps(folder: Path, plan: Plan) -> None:
    """Be the process that takes our steps: one for every line that comes in."""
    model = abstract()
    with np.load(folder / "parameters.npz") as arrays:
        load_published(model, dict(arrays))
    dataset = xr.load_dataset(folder / "weather.nc")
    make = FeatureMaker(CONFIG, dataset, LEAD, steps=1)
    batch = {name: array[None] for name, array in make(example(dataset, np.arange(3))).items()}
    optimizer = make_optimizer(OPTIMIZER, plan)
    state = initial_state(nnx.state(model, nnx.Param), optimizer, jax.random.key(0))
    del model
    step = make_step(AURORA_SMALL.loss(SIZES, plan), optimizer, plan, clip_norm=OPTIMIZER.clip_norm)
    compiled = jax.jit(step, donate_argnums=0).lower(state, batch).compile()
    analysis: Any = compiled.memory_analysis()
    print(json.dumps({"temporaries": analysis.temp_size_in_bytes}), flush=True)
    for _ in sys.stdin:
        # Memory that was freed but is kept for later is no part of what a step finds.
        ctypes.CDLL(None).malloc_trim(0)
        with Peak() as peak:
            began = time.perf_counter(), time.process_time()
            state, metrics = jax.block_until_ready(compiled(state, batch))
            took = {"seconds": time.perf_counter() - began[0], "processor_seconds": time.process_time() - began[1]}
        numbers = {key: float(metrics[key]) for key in ("loss", "gradient_norm")}
        print(json.dumps({**numbers, **took, "growth": peak.size}), flush=True)


class Competitor:
    """A process that takes a step when told, and what it said of each."""

    def __init__(self, code: str, *command: str) -> None:
        self.code, self.steps = code, list[Answer]()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._read()

    def take(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        self.steps.append(self._read())
        print(f"{self.code}: {self.steps[-1]}", file=sys.stderr, flush=True)

    def _read(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.code}: its process ended; the lines above say why")
        return json.loads(line)


def rows_of(competitors: list[Competitor]) -> list[dict[str, Any]]:
    """What is told of each; the original comes first. A first step also pays for what is made once."""
    base = competitors[0].steps
    return [
        {
            "code": one.code,
            **{key: [step[key] for step in one.steps[1:]] for key in COUNTED},
            **{f"{key}_ratio": _median_ratio(key, one.steps[1:], base[1:]) for key in COUNTED},
            **{f"{key}_difference": _largest_difference(key, one.steps, base) for key in ("loss", "gradient_norm")},
            "about": one.about,
        }
        for one in competitors
    ]


def _median_ratio(key: str, steps: list[Answer], base: list[Answer]) -> float:
    return statistics.median(own[key] / other[key] for own, other in zip(steps, base, strict=True))


def _largest_difference(key: str, steps: list[Answer], base: list[Answer]) -> float:
    return max(abs(own[key] / other[key] - 1) for own, other in zip(steps, base, strict=True))


def measured(python: str) -> dict[str, Any]:
    script = Path(__file__)
    # As many cores as threads: jax takes all that it may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    with tempfile.TemporaryDirectory() as folder:
        weather().to_netcdf(Path(folder) / "weather.nc")
        arrays: dict[str, Any] = parameters()
        np.savez(Path(folder) / "parameters.npz", **arrays)
        peer = script.with_name("beside_aurora_original.py")
        competitors = [Competitor(ORIGINAL, python, str(peer), folder, json.dumps(settings()))]
        for plan in PLANS:
            competitors.append(
                Competitor(f"elbowroom, {plan}", sys.executable, str(script), "ours", folder, plan.to_toml())
            )
        for _ in range(1 + REPEATS):
            for one in competitors:
                one.take()
    rows, busy = rows_of(competitors), os.getloadavg()[1]
    return {"rows": rows, "sizes": SIZES, "threads": THREADS, "load": busy, "provenance": provenance()}


def report(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in found["rows"][0]["about"].items())
    sizes, threads = found["sizes"], found["threads"]
    return f"""# Beside the original Aurora

One train step of the small Aurora (113 million parameters) on {sizes["latitudes"]} latitudes, {sizes["longitudes"]}
longitudes and {sizes["levels"]} levels, batch 1, float32, {threads} threads: `AuroraSmallPretrained` of
microsoft-aurora with `configure_activation_checkpointing()`, and ours with the same random parameters on the same
random weather. Both take the same loss, clip the gradient and update by AdamW (PyTorch's fused). Each runs in a
process of its own; {len(found["rows"][0]["seconds"])} steps are taken in turns after a first one that is not counted.

Step and growth are medians, ratios medians over turns. Growth is by how much the resident memory of the process rises
at most during a step above parameters and moments, by the kernel's high-water mark; gradients are part of it. The
differences are relative, of loss and gradient's norm, the largest over all steps. The original's areas of patches are
computed in float64, as ours: in float32 no two programs agree on their encodings. Others may have used the machine
meanwhile, which processor time shows less: at the end the load of five minutes was {found["load"]:.1f}, the steps' own
included. Written by `beside_aurora.py`.

{markdown_table(COLUMNS, found["rows"])}

{versions}; {provenance_line(found["provenance"])}
"""


def main() -> None:
    if sys.argv[1:2] == ["ours"]:
        return answer_steps(Path(sys.argv[2]), Plan.from_toml(sys.argv[3]))
    if len(sys.argv) != 2:
        sys.exit("give the Python of an environment with microsoft-aurora; the first lines of this script make one")
    found, page = measured(sys.argv[1]), Path(__file__)
    page.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    page.with_suffix(".md").write_text(report(found), encoding="utf-8")
    print(report(found))
    return None


if __name__ == "__main__":
    main()

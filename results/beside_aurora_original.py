"""A train step of the original Aurora for every line that comes in; `beside_aurora.py` starts this.

It runs in an environment of the original's own, so of this project it has only the file that measures memory.
"""

import ctypes
import importlib.util
import json
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

RESIDENT = Path(__file__).parents[1] / "memory" / "footprint" / "resident.py"


def main() -> None:
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch: Any = import_module("torch")
    torch.set_num_threads(settings["threads"])
    model = original(torch, folder / "parameters.npz")
    weather = xr.load_dataset(folder / "weather.nc")
    history, target = (batch(torch, weather, settings, times) for times in (slice(0, 2), slice(2, 3)))
    # Metadata of the target would be that of the newest time given, and play no part.
    wanted = target.normalise(surf_stats={})
    area = torch.tensor(settings["area"])[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), **settings["adamw"], fused=True)

    def step() -> tuple[float, float]:
        loss = weather_loss(model(history).normalise(surf_stats={}), wanted, area, settings)
        loss.backward()
        length = torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip_norm"])
        optimizer.step()
        # Now and not before the next step, so that both sides hold parameters and moments between steps.
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), length.item()

    print(json.dumps({name: version(name) for name in ("torch", "microsoft-aurora")}), flush=True)
    resident = measure_of_memory()
    for _ in sys.stdin:
        # Memory that was freed but is kept for later is no part of what a step finds.
        ctypes.CDLL(None).malloc_trim(0)
        resident.reset_high_water()
        before, began = resident.high_water(), (time.perf_counter(), time.process_time())
        loss, length = step()
        took = {"seconds": time.perf_counter() - began[0], "processor_seconds": time.process_time() - began[1]}
        growth = resident.high_water() - before
        print(json.dumps({"loss": loss, "gradient_norm": length, **took, "growth": growth}), flush=True)


def original(torch: Any, parameters: Path) -> Any:
    """The small model with the given parameters, its activations checkpointed as its authors advise."""
    aurora, posencoding = import_module("aurora"), import_module("aurora.model.posencoding")
    # In float32 one rounding of a patch's area turns the phases of its encoding by a cycle: no two programs agree.
    root_area = posencoding.patch_root_area
    posencoding.__dict__["patch_root_area"] = lambda *edges: root_area(*(edge.double() for edge in edges))
    model = aurora.AuroraSmallPretrained()
    with np.load(parameters) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    model.configure_activation_checkpointing()
    return model


def batch(torch: Any, weather: xr.Dataset, settings: dict[str, Any], times: slice) -> Any:
    """Some times of the weather as a batch of one example, in physical units."""
    aurora, names = import_module("aurora"), settings["variables"]

    def fields(kind: str) -> dict[str, Any]:
        return {name: torch.from_numpy(weather[stored].values) for name, stored in names[kind].items()}

    return aurora.Batch(
        surf_vars={name: field[None, times] for name, field in fields("surface").items()},
        static_vars=fields("static"),
        atmos_vars={name: field[None, times] for name, field in fields("atmosphere").items()},
        metadata=aurora.Metadata(
            lat=torch.tensor(weather["latitude"].values),
            lon=torch.tensor(weather["longitude"].values),
            time=(weather["time"].values[times][-1].astype("datetime64[s]").item(),),
            atmos_levels=tuple(weather["level"].values.tolist()),
        ),
    )


def weather_loss(found: Any, wanted: Any, area: Any, settings: dict[str, Any]) -> Any:
    """Area-weighted mean absolute error of normalised values (Bodnar et al. 2025, Supplement C.1).

    The package has no loss. `area` has mean 1, so that a plain mean of weighted errors is their weighted mean.
    """

    def total(kind: str, found: dict[str, Any], wanted: dict[str, Any]) -> Any:
        weights = settings["weights"][kind]
        return sum(weights[name] * ((found[name] - wanted[name]).abs() * area).mean() for name in wanted)

    surface = total("surface", found.surf_vars, wanted.surf_vars)
    atmosphere = total("atmosphere", found.atmos_vars, wanted.atmos_vars)
    return (settings["surface_share"] * surface + atmosphere) / (len(wanted.surf_vars) + len(wanted.atmos_vars))


def measure_of_memory() -> Any:
    """This project's module that reads the kernel's high-water mark, without the project."""
    spec: Any = importlib.util.spec_from_file_location("resident", RESIDENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()

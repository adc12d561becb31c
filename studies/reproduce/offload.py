"""What offload takes off a device, as the device's own compiler plans it, beside what it puts into host memory.

Every row is one train step of a narrow protein on the published model's 48 blocks, compiled twice: with and without
what the row offloads. Nothing runs and no device is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from elbowroom.memory.devices.profile import device
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.footprint.target import compiler
from elbowroom.memory.plan import Offload, Plan, Recompute
from elbowroom.studies.cases import case_named
from elbowroom.studies.footprint_report import device_row
from elbowroom.studies.provenance import provenance, provenance_line
from elbowroom.studies.sizes import chosen_sizes
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table

type Row = Mapping[str, Any]

SIZES = ("crop=128", "clusters=128", "extra=128", "templates=0", "recycles=0")
WITHOUT = Plan(recompute=Recompute(blocks=True))
TITLE = "Offload: what leaves the device, and what the host receives"
INTRODUCTION = """One train step of the published model 1 (48 + 4 blocks; crop 128, 128 clusters and extra rows) in
float32, blocks recomputed, compiled for the card with and without the offload. Made by
`elbowroom reproduce offload`."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Something offloaded, on some device."""

    what: str
    device: str
    offload: Offload


ACTIVATIONS = Offload(activations=("pair_in", "msa_in"))
TRANSFERS = (
    Transfer(what="inputs of blocks", device="rtx4090", offload=ACTIVATIONS),
    Transfer(what="inputs of blocks", device="tpu-v5e", offload=ACTIVATIONS),
    Transfer(what="optimizer state", device="tpu-v5e", offload=Offload(optimizer=True)),
    Transfer(what="parameters and gradients", device="tpu-v5e", offload=Offload(parameters=True)),
    Transfer(
        what="optimizer state, parameters and gradients",
        device="tpu-v5e",
        offload=Offload(optimizer=True, parameters=True),
    ),
)

COLUMNS = (
    Column("offloaded", lambda row: row["what"]),
    Column("card", lambda row: row["device"]),
    Column("device before", lambda row: row["before"], format_size),
    Column("device after", lambda row: row["after"], format_size),
    Column("device lower by", lambda row: row["before"] - row["after"], format_size),
    Column("host", lambda row: row["host"], format_size),
    Column("lower / host", lambda row: (row["before"] - row["after"]) / row["host"], "{:.2f}".format),
)


def offload_rows(transfers: Sequence[Transfer], report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for each transfer; bytes of both compilations.

    Raises `DeviceError` at once where a compiler is missing, and `TargetError` in the words of one that fails.
    """
    for transfer in transfers:
        compiler(device(transfer.device))
    return [_row(transfer, report) for transfer in transfers]


def _row(transfer: Transfer, report: Callable[[str], None]) -> dict[str, Any]:
    case, target = case_named("alphafold"), device(transfer.device)
    sizes = chosen_sizes(case.sizes, list(SIZES))
    report(f"{transfer.device}: {transfer.what}, left on the device and offloaded")
    before, after = (
        device_row(case, sizes, plan, "compiled", target)
        for plan in (WITHOUT, replace(WITHOUT, offload=transfer.offload))
    )
    return {
        "what": transfer.what,
        "device": transfer.device,
        "plan": after["plan"],
        "before": before["device_bytes"],
        "after": after["device_bytes"],
        "host": after["host_bytes"],
        "compiler": after["footprint"]["detail"],
        "provenance": provenance(),
    }


def caption(rows: Sequence[Row]) -> str:
    compilers = "; ".join(dict.fromkeys(row["compiler"] for row in rows))
    return f"compiled: {compilers}. {provenance_line(rows[0]['provenance'])}."


def offload_table(rows: Sequence[Row]) -> Table:
    return terminal_table(TITLE, COLUMNS, rows, caption(rows))


def markdown_of(rows: Sequence[Row]) -> str:
    return f"# {TITLE}\n\n{INTRODUCTION}\n\n{markdown_table(COLUMNS, rows)}\n\n{caption(rows)}\n"


def save_offload(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Write offload.md, .csv and .json."""
    csv = csv_table(COLUMNS, rows)
    return save_texts(folder, "offload", markdown=markdown_of(rows), csv=csv, rows=list(rows))

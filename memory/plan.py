"""A `Plan` holds every memory choice of a run in one immutable value.

A plan is written as TOML, printed as one line, and stored with every checkpoint and every row of results. Each
section has a null setting, its default, under which the program compiled is the plain one.
"""

import dataclasses
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomli_w


class PlanError(ValueError):
    """A plan holds an unknown key, an impossible value, or choices that contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The dtype of the arithmetic; parameters keep their own, and statistics are float32 at least."""

    compute: Literal["float32", "bfloat16", "float64"] = "float32"
    """bfloat16 is lossy and halves the activations; float64 exists to prove that techniques are exact."""


@dataclass(frozen=True, kw_only=True)
class Recompute:
    """Activations that the backward pass computes again instead of finding them in memory."""

    blocks: bool = False
    """Keep only the inputs of each block of a layer stack."""
    modules: bool = False
    """Keep only the inputs of each module of a block, so that one module's inside is alive at a time."""
    groups: int = 1
    """Cut each stack into this many groups and keep only the inputs of groups (needs `blocks`; saves no names).
    A stack with fewer blocks is one group."""
    save: tuple[str, ...] = ()
    """Names of activations inside a block to keep all the same (needs `blocks`)."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """How much of an axis is computed at a time, forward and backward; unset means all of it at once."""

    rows: int | None = None
    """Rows of an MSA or pair representation."""
    queries: int | None = None
    """Queries of an attention tile; setting it selects the online softmax, which never forms all logits."""
    keys: int | None = None
    """Keys of an attention tile (needs `queries`)."""


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """Whose code computes what this project's portable code could compute too."""

    attention: Literal["portable", "cudnn", "pallas"] = "portable"
    """cuDNN's attention on NVIDIA's cards, or Pallas' on TPUs; they choose their own tiles."""


@dataclass(frozen=True, kw_only=True)
class Offload:
    """What waits in host memory instead of the device's."""

    activations: tuple[str, ...] = ()
    """Names of activations moved to the host between forward and backward (needs `recompute.blocks`)."""
    optimizer: bool = False
    """The optimizer's state of stacked layers; the update fetches one layer at a time."""
    parameters: bool = False
    """The parameters of stacked layers, and their gradients; every block fetches its own."""


@dataclass(frozen=True, kw_only=True)
class OptimizerState:
    """How the optimizer's running moments are held."""

    rule: Literal["adam", "adam-8bit", "adafactor", "lion"] = "adam"
    """Adam with moments in float32, or in 8 bits block by block; or optax's rules that hold less, each with a learning
    rate of its own. Only the first gives the plain program's updates."""
    first_moment: Literal["float32", "bfloat16"] = "float32"
    """Of Adam."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """Over how many devices a step is spread."""

    data: int = 1
    """Devices that each take a share of the batch; parameters are replicated."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every memory choice of a run. `Plan()` is the plain program."""

    precision: Precision = field(default_factory=Precision)
    recompute: Recompute = field(default_factory=Recompute)
    chunk: Chunk = field(default_factory=Chunk)
    kernels: Kernels = field(default_factory=Kernels)
    offload: Offload = field(default_factory=Offload)
    optimizer: OptimizerState = field(default_factory=OptimizerState)
    mesh: Mesh = field(default_factory=Mesh)

    def __post_init__(self) -> None:
        for section in dataclasses.fields(self):
            _check_types(section.name, getattr(self, section.name))
        _check_contradictions(self)

    def __str__(self) -> str:
        parts = [_SPOKEN[name](section) for name, section in self._sections() if section != type(section)()]
        if self.precision == Precision():
            parts.insert(0, "float32")
        return ("plain " if len(parts) == 1 and self == Plan() else "") + " · ".join(parts)

    def _sections(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Only what differs from the plain plan, in plain types: ready for TOML and JSON."""
        full = {name: _differing(section) for name, section in self._sections()}
        return {name: entries for name, entries in full.items() if entries}

    def to_toml(self) -> str:
        return tomli_w.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, tables: dict[str, Any]) -> "Plan":
        """Raises `PlanError` on unknown sections or keys, wrong types, impossible values and contradictions."""
        sections = {f.name: f.default_factory for f in dataclasses.fields(cls)}
        built = {}
        for name, table in tables.items():
            if name not in sections:
                raise PlanError(f"unknown section [{name}] in the plan; the sections are {', '.join(sections)}")
            built[name] = _section_from(name, sections[name], table)
        return cls(**built)

    @classmethod
    def from_toml(cls, text: str) -> "Plan":
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise PlanError(f"the plan is not valid TOML: {error}") from None

    @classmethod
    def load(cls, path: Path) -> "Plan":
        """Read a plan from a TOML file; errors name the file."""
        try:
            return cls.from_toml(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise PlanError(f"{path}: cannot be read: {error.strerror}; give the path of a TOML plan") from None
        except UnicodeDecodeError:
            raise PlanError(f"{path}: is no text; give the path of a TOML plan") from None
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None


_SPOKEN = {
    "precision": lambda s: f"{s.compute}",
    "recompute": lambda s: (
        "recompute "
        + " and ".join([w for w, on in (("blocks", s.blocks), ("modules", s.modules)) if on])
        + (f" in {s.groups} groups" if s.groups > 1 else "")
        + (f" saving {', '.join(s.save)}" if s.save else "")
    ),
    "chunk": lambda s: "chunk " + ", ".join(f"{value} {name}" for name, value in vars(s).items() if value is not None),
    "kernels": lambda s: f"attention by {s.attention}",
    "offload": lambda s: (
        "offload "
        + ", ".join([*s.activations, *(part for part in ("optimizer", "parameters") if getattr(s, part))])
        + " to host"
    ),
    "optimizer": lambda s: f"first moment in {s.first_moment}" if s.rule == "adam" else s.rule,
    "mesh": lambda s: f"{s.data} devices",
}


def _section_from(name: str, section: Any, table: Any) -> Any:
    if not isinstance(table, dict):
        raise PlanError(f"[{name}] must be a table of keys, found {table!r}")
    allowed = [f.name for f in dataclasses.fields(section)]
    for key in table:
        if key not in allowed:
            raise PlanError(f"unknown key {name}.{key} = {table[key]!r}; the keys of [{name}] are {', '.join(allowed)}")
    return section(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def _differing(section: Any) -> dict[str, Any]:
    values = {f.name: getattr(section, f.name) for f in dataclasses.fields(section)}
    plain = type(section)()
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v != getattr(plain, k)}


def _check_types(name: str, section: Any) -> None:
    for key, hint in typing.get_type_hints(type(section)).items():
        value = getattr(section, key)
        allowed = _allowed(hint, value)
        if allowed is not None:
            raise PlanError(f"{name}.{key} = {value!r} is not possible; allowed: {allowed}")


def _allowed(hint: Any, value: Any) -> str | None:
    """None where `value` fits `hint`; otherwise what would fit."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        return None if value in choices else " or ".join(choices)
    if hint is bool:
        return None if isinstance(value, bool) else "true or false"
    if typing.get_origin(hint) is tuple:
        fits = (
            isinstance(value, tuple) and all(isinstance(v, str) and v for v in value) and len(set(value)) == len(value)
        )
        return None if fits else "a list of different names"
    if isinstance(hint, types.UnionType) and value is None:
        return None
    return None if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else "a whole number from 1"


def _check_contradictions(plan: Plan) -> None:
    recompute, chunk, offload, optimizer = plan.recompute, plan.chunk, plan.offload, plan.optimizer
    both = set(recompute.save) & set(offload.activations)
    contradictions = [
        (
            recompute.groups > 1 and not recompute.blocks,
            f"recompute.groups = {recompute.groups}",
            "recompute.blocks = true",
        ),
        (
            recompute.save and not recompute.blocks,
            f"recompute.save = {list(recompute.save)}",
            "recompute.blocks = true",
        ),
        (
            offload.activations and not recompute.blocks,
            f"offload.activations = {list(offload.activations)}",
            "recompute.blocks = true",
        ),
        (chunk.keys is not None and chunk.queries is None, f"chunk.keys = {chunk.keys}", "chunk.queries"),
        (
            optimizer.first_moment != "float32" and optimizer.rule != "adam",
            f"optimizer.first_moment = {optimizer.first_moment!r}",
            "optimizer.rule = 'adam'",
        ),
    ]
    for contradicted, found, needed in contradictions:
        if contradicted:
            raise PlanError(f"{found} does nothing without {needed}; set that too or remove {found.split(' = ')[0]}")
    named = [("recompute.save", recompute.save), ("offload.activations", offload.activations)]
    for key, names in named:
        if names and recompute.groups > 1:
            raise PlanError(
                f"{key} = {list(names)} contradicts recompute.groups = {recompute.groups}: groups keep their inputs "
                f"and nothing else; remove one of the two"
            )
    if plan.kernels.attention != "portable" and chunk.queries is not None:
        raise PlanError(
            f"kernels.attention = {plan.kernels.attention!r} contradicts chunk.queries = {chunk.queries}: the kernel "
            "chooses its own tiles; remove one of the two"
        )
    for key in ("optimizer", "parameters"):
        if getattr(offload, key) and optimizer.rule in ("adam-8bit", "adafactor"):
            raise PlanError(
                f"offload.{key} = true contradicts optimizer.rule = {optimizer.rule!r}, whose state cannot be cut "
                "layer by layer; use 'adam' or 'lion', or remove one of the two"
            )
    if both:
        name = sorted(both)[0]
        raise PlanError(f"{name!r} is in recompute.save and in offload.activations; keep it in one of them")

"""The AlphaFold cases: the monomer on proteins, against what the separation along the chain alone predicts."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Key, PyTree

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.features import FeatureSizes, feature_shapes
from elbowroom.datasets.proteins.fingerprint import fingerprint
from elbowroom.datasets.proteins.loader import ProteinBatches, evaluation_examples, training_batches
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.separation_prior import prior_loss, separation_prior
from elbowroom.memory.plan import Chunk, Offload, OptimizerState, Plan, Precision, Recompute
from elbowroom.memory.step import Loss
from elbowroom.models.alphafold.config import AlphaFoldConfig, monomer, small
from elbowroom.models.alphafold.evoformer import TRIANGLES
from elbowroom.models.alphafold.losses import FINE_TUNING, INITIAL, LossWeights, alphafold_loss
from elbowroom.models.alphafold.model import AlphaFold, chunk_axes
from elbowroom.models.alphafold.recycle import recycle
from elbowroom.models.alphafold.weights import published_arrays
from elbowroom.studies.alphafold_model import trained_model
from elbowroom.studies.case import Batch, Case, Features, Records, Split
from elbowroom.studies.deepmind import load_deepmind
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.parameter_file import file_fingerprint
from elbowroom.studies.sizes import CaseSizeError, Size, Sizes

DEFAULT_PLAN = Plan(recompute=Recompute(blocks=True))
"""Exact, needs no size to be chosen, and takes less time than the plain program on CPU, which waits for memory."""

BFLOAT16 = Precision(compute="bfloat16")
BOTH = Recompute(blocks=True, modules=True)
NESTED = Plan(precision=BFLOAT16, recompute=dataclasses.replace(BOTH, groups=8), chunk=Chunk(rows=16))
"""Of 48 blocks, the inputs of eight groups stay."""
OFFLOADED = Plan(
    precision=BFLOAT16,
    recompute=BOTH,
    chunk=Chunk(rows=4),
    offload=Offload(activations=("pair_in", "msa_in", "previous_pair")),
)
"""Inputs of blocks wait in host memory."""
MODULE_OUTPUTS = (
    "msa_row_attention_with_pair_bias",
    "msa_column_attention",
    "msa_column_global_attention",
    "msa_transition",
    "outer_product_mean",
    *TRIANGLES,
    "pair_transition",
)
ACCELERATOR_PLAN = Plan(
    precision=BFLOAT16,
    recompute=DEFAULT_PLAN.recompute,
    chunk=Chunk(rows=32),
    offload=Offload(activations=("pair_in", "msa_in", *MODULE_OUTPUTS)),
)
"""What modules add to the representations waits in host memory too: less is computed again, for more traffic."""
LADDER = (
    Plan(precision=BFLOAT16),
    Plan(precision=BFLOAT16, recompute=DEFAULT_PLAN.recompute),
    Plan(precision=BFLOAT16, recompute=DEFAULT_PLAN.recompute, chunk=Chunk(rows=32)),
    Plan(precision=BFLOAT16, recompute=BOTH, chunk=Chunk(rows=16)),
    NESTED,
    OFFLOADED,
)
"""In bfloat16, which the original uses for its multimers (`global_config.bfloat16`)."""

SIZES = {
    "crop": Size(default=256, meaning="residues of a crop"),
    "clusters": Size(default=128, meaning="MSA cluster centres, the query included"),
    "extra": Size(default=1024, meaning="rows of the extra MSA"),
    "templates": Size(default=4, meaning="structures of related proteins", least=0),
    "blocks": Size(default=48, meaning="Evoformer blocks"),
    "extra_blocks": Size(default=4, meaning="blocks of the extra-MSA stack"),
    "recycles": Size(default=3, meaning="passes at most before the one that is learned from", least=0),
    "batch": Size(default=1, meaning="proteins of a step"),
}
"""Those of initial training (Jumper et al. 2021, Suppl. Table 4)"""
PUBLISHED = OptimizerSettings()
COMPARED = {"crop": 64, "clusters": 32, "extra": 64, "templates": 0, "blocks": 4, "extra_blocks": 1, "recycles": 0}
DROPOUT = ("msa_dropout", "pair_dropout", "structure_dropout")


def techniques(sizes: Sizes) -> dict[str, Plan]:
    """Plain first, then each technique alone, all exact ones together, and the same in bfloat16.

    Stacks of one or two blocks have no groups.
    """
    groups = round(sizes["blocks"] ** 0.5)
    nested = {"nested groups": Plan(recompute=Recompute(blocks=True, groups=groups))} if groups > 1 else {}
    rows, tile = max(1, sizes["crop"] // 8), max(1, sizes["crop"] // 4)
    exact = Plan(
        recompute=Recompute(blocks=True, modules=True, groups=groups), chunk=Chunk(rows=rows, queries=tile, keys=tile)
    )
    return {
        "plain": Plan(),
        "recompute blocks": Plan(recompute=Recompute(blocks=True)),
        "recompute modules": Plan(recompute=Recompute(modules=True)),
        "recompute both": Plan(recompute=Recompute(blocks=True, modules=True)),
        **nested,
        "chunked rows": Plan(chunk=Chunk(rows=rows)),
        "tiled attention": Plan(chunk=Chunk(queries=tile, keys=tile)),
        "all exact": exact,
        "bfloat16": Plan(precision=Precision(compute="bfloat16")),
        "bfloat16, all": dataclasses.replace(
            exact, precision=Precision(compute="bfloat16"), optimizer=OptimizerState(first_moment="bfloat16")
        ),
    }


@dataclass(frozen=True)
class _Monomer:
    """The case's functions for one family of configurations and one stage of training."""

    config: AlphaFoldConfig
    weights: LossWeights

    def parameters(self, sizes: Sizes, key: Key[Array, ""]) -> PyTree:
        model = AlphaFold(_sized(self.config, sizes), rngs=nnx.Rngs(key))
        return nnx.split(model, nnx.Param)[1]

    def loss(self, sizes: Sizes, plan: Plan) -> Loss:
        config = _sized(self.config, sizes)
        model = nnx.eval_shape(lambda: AlphaFold(config, rngs=nnx.Rngs(0)))
        graph, _ = nnx.split(model, nnx.Param)

        def loss(parameters: PyTree, example: Any, key: Any) -> tuple[Array, dict[str, Array]]:
            model, most, previous = nnx.merge(graph, parameters), sizes["recycles"], None
            if most:
                count_key, recycle_key, key = (None,) * 3 if key is None else jax.random.split(key, 3)
                # Evaluation takes them all, training a number that it draws (Suppl. Algorithm 31).
                passes = most if count_key is None else jax.random.randint(count_key, (), 0, most + 1)
                previous = recycle(model, example, recycle_key, plan, passes)
            return alphafold_loss(model, example, plan, key, previous, weights=self.weights)

        return loss


@dataclass(frozen=True)
class _Given:
    """Parameters that a file holds, for models as deep as it."""

    path: Path
    model: AlphaFold
    depth: Mapping[str, int]

    def __call__(self, sizes: Sizes, key: Key[Array, ""]) -> PyTree:
        for name, blocks in self.depth.items():
            if sizes[name] != blocks:
                raise CaseSizeError(f"{self.path} holds {name}={blocks}, not {sizes[name]}; leave out --size {name}=")
        return nnx.split(self.model, nnx.Param)[1]


def _sized(config: AlphaFoldConfig, sizes: Sizes) -> AlphaFoldConfig:
    return dataclasses.replace(config, evoformer_blocks=sizes["blocks"], extra_blocks=sizes["extra_blocks"])


def _feature_sizes(sizes: Sizes) -> FeatureSizes:
    return FeatureSizes(
        res=sizes["crop"],
        seq=sizes["clusters"],
        extra_seq=sizes["extra"],
        templates=sizes["templates"],
        recycles=sizes["recycles"],
    )


@cache
def _shapes(sizes: FeatureSizes) -> Mapping[str, jax.ShapeDtypeStruct]:
    return {name: jax.ShapeDtypeStruct(shape, dtype) for name, (shape, dtype) in feature_shapes(sizes).items()}


class _Batches:
    """The loader's batches, counted in residues that are no padding."""

    def __init__(self, batches: ProteinBatches) -> None:
        self._batches = batches

    def __next__(self) -> Batch:
        names, features = batch = next(self._batches)
        return Batch(names, features, amount=batch.residues)

    def get_state(self) -> dict[str, Any]:
        return self._batches.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batches.set_state(state)


def _batches(records: Records, sizes: Sizes, seed: int) -> _Batches:
    return _Batches(training_batches(records.items, _feature_sizes(sizes), seed=seed, batch=sizes["batch"]))


def _held_out(records: Records, sizes: Sizes) -> list[tuple[str, Features]]:
    """Every protein that has a structure: the others have no distances to predict."""
    known = [protein for protein in records.items if protein.structure is not None]
    return list(evaluation_examples(known, _feature_sizes(sizes)))


def _read(data: Path, structures: Path | None) -> Records:
    collection = collect(data, structures)
    return _records(collection.proteins, tuple(str(warning) for warning in collection.warnings))


def _demo(split: Split) -> Records:
    return _records(demo_proteins(split), ())


def _records(proteins: Sequence[Protein], warnings: tuple[str, ...]) -> Records:
    return Records(items=proteins, warnings=warnings, fingerprint=fingerprint(proteins))


def _prior(records: Records) -> Callable[[Features], float]:
    log_probability = separation_prior(records.items)
    return lambda example: prior_loss(log_probability, example)


def _case(
    name: str,
    config: AlphaFoldConfig,
    *,
    weights: LossWeights = INITIAL,
    optimizer: OptimizerSettings = PUBLISHED,
    **defaults: int,
) -> Case:
    monomer = _Monomer(config, weights)

    def starting_from(path: Path) -> Case:
        model = load_deepmind(path)
        found = dataclasses.replace(model.config, **{rate: getattr(config, rate) for rate in DROPOUT})
        depth = {"blocks": found.evoformer_blocks, "extra_blocks": found.extra_blocks}
        templates = {} if found.templates else {"templates": 0}
        case = _case(name, found, weights=weights, optimizer=optimizer, **{**defaults, **depth, **templates})
        return dataclasses.replace(case, parameters=_Given(path, model, depth), start=file_fingerprint(path))

    return Case(
        name=name,
        unit="residues",
        sizes={n: dataclasses.replace(size, default=defaults.get(n, size.default)) for n, size in SIZES.items()},
        optimizer=optimizer,
        plan=DEFAULT_PLAN,
        accelerator_plan=ACCELERATOR_PLAN,
        ladder=LADDER,
        techniques=techniques,
        compared_sizes=COMPARED,
        score="distogram",
        score_meaning="distogram cross-entropy in nats per residue pair",
        prior_meaning="frequency of each distance at that separation along the chain",
        model=dataclasses.asdict(config),
        parameters=monomer.parameters,
        loss=monomer.loss,
        example=lambda sizes: _shapes(_feature_sizes(sizes)),
        chunk_axes=lambda sizes: chunk_axes(dict(sizes)),
        stacks=lambda sizes: {"Evoformer": sizes["blocks"], "extra MSA": sizes["extra_blocks"]},
        read=_read,
        demo=_demo,
        batches=_batches,
        held_out=_held_out,
        prior=_prior,
        starting_from=starting_from,
        published=lambda folder: published_arrays(trained_model(folder)[0]),
    )


ALPHAFOLD = _case("alphafold", monomer())
"""Initial training of the published model 1."""

ALPHAFOLD_FINE_TUNING = _case(
    "alphafold-fine-tuning",
    monomer(),
    weights=FINE_TUNING,
    optimizer=OptimizerSettings(learning_rate=5e-4, warmup_steps=0),
    crop=384,
    clusters=512,
    extra=5120,
)
"""The published second stage: larger crops, violations punished (Suppl. Table 4)."""

ALPHAFOLD_SMALL = _case(
    "alphafold-small",
    dataclasses.replace(small(), msa_dropout=0.0, pair_dropout=0.0, structure_dropout=0.0),
    optimizer=OptimizerSettings(learning_rate=2e-3, warmup_steps=50, beta2=0.98),
    crop=64,
    clusters=16,
    extra=32,
    templates=0,
    blocks=1,
    extra_blocks=1,
    recycles=0,
)
"""The same architecture, narrow enough for two CPU cores to train; too short a training to need dropout.

At these sizes twenty minutes are some 5,000 steps, and in so few, one block learns more than several.
"""

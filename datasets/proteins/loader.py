"""Shuffled, prefetched training batches that can be stopped and resumed, and examples to evaluate on."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import grain
import numpy as np

from elbowroom.datasets.proteins.features import Features, FeatureSizes, evaluation_features, training_features
from elbowroom.datasets.proteins.protein import Protein

_THREADS, _EXAMPLES_AHEAD = 2, 8
_PASSES = 2**31
"""without end to any run; grain's own endless repeat overflows when a batch is one example (grain 0.2.18)"""


class ProteinBatch(NamedTuple):
    """What one training step consumes."""

    names: tuple[str, ...]
    features: Features
    """Examples on the first axis."""

    @property
    def residues(self) -> int:
        """Residues that are no padding."""
        return int(self.features["seq_mask"].sum())


class ProteinBatches:
    """An endless iterator over batches. Its state is a few numbers and says which batch comes next.

    Every pass has its own order of the proteins, and every visit its own crop, rows and corruption. All of it follows
    from the seed and the place in the sequence of examples: threads, prefetching and resuming change nothing.
    """

    def __init__(self, proteins: Sequence[Protein], sizes: FeatureSizes, *, seed: int, batch: int) -> None:
        if not proteins:
            raise ValueError("no proteins to train on")

        def example(protein: Protein, random: np.random.Generator) -> tuple[str, Features]:
            return protein.name, training_features(protein, sizes, random)

        examples = grain.MapDataset.source(proteins).seed(seed).shuffle().repeat(_PASSES).random_map(example)
        ahead = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_EXAMPLES_AHEAD)
        self._batches = iter(examples.batch(batch, batch_fn=_stacked).to_iter_dataset(ahead))

    def __iter__(self) -> Iterator[ProteinBatch]:
        return self

    def __next__(self) -> ProteinBatch:
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """Where the iterator is, in plain types that JSON can hold."""
        return self._batches.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where an iterator over the same proteins, sizes, seed and batch was."""
        self._batches.set_state(state)


def training_batches(proteins: Sequence[Protein], sizes: FeatureSizes, *, seed: int, batch: int) -> ProteinBatches:
    """Endless shuffled batches; every protein comes once before any comes again."""
    return ProteinBatches(proteins, sizes, seed=seed, batch=batch)


def evaluation_examples(proteins: Sequence[Protein], sizes: FeatureSizes) -> Iterator[tuple[str, Features]]:
    """Every protein once, by name, with the same features at every call."""
    for protein in proteins:
        yield protein.name, evaluation_features(protein, sizes)


def _stacked(examples: Sequence[tuple[str, Features]]) -> ProteinBatch:
    names = tuple(name for name, _ in examples)
    return ProteinBatch(names, {key: np.stack([f[key] for _, f in examples]) for key in examples[0][1]})

"""AlphaFold's features of one example, with the official names, shapes and types."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Int32

from elbowroom.datasets.proteins.alignment import Alignment, single_row
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.clusters import summarise, without_blocks
from elbowroom.datasets.proteins.crop import random_crop
from elbowroom.datasets.proteins.masking import column_profile, corrupt
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import pseudo_beta

type Features = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FeatureSizes:
    """The fixed shape of every example; what is shorter is padded with zeros and masked."""

    res: int
    """residues of the crop (N_res)"""
    seq: int
    """cluster centres, the query included (N_clust)"""
    extra_seq: int
    """rows of the extra MSA (N_extra_seq)"""

    def __post_init__(self) -> None:
        if self.res < 1 or self.seq < 1 or self.extra_seq < 0:
            raise ValueError(f"{self}: needs at least one residue and one sequence, and no negative number")


def training_features(protein: Protein, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    """A random crop, with random alignment rows, of which whole blocks are left out, and a random corruption.

    The crop is taken first, so that rows are compared on its columns only; else the steps and their order are those
    of Jumper et al. 2021, Suppl. 1.2.6 to 1.2.9. A protein without structure has an all-zero `pseudo_beta_mask`.
    """
    window = random_crop(protein, sizes.res, random)
    alignment = window.alignment or single_row(window.sequence)
    return _features(window, without_blocks(alignment, random), sizes, random)


def evaluation_features(protein: Protein, sizes: FeatureSizes) -> Features:
    """As in training, but from all rows, and with random choices that depend on the protein's name alone."""
    random = np.random.default_rng(zlib.crc32(protein.name.encode()))
    window = random_crop(protein, sizes.res, random)
    return _features(window, window.alignment or single_row(window.sequence), sizes, random)


def feature_shapes(sizes: FeatureSizes) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of every feature."""
    example = evaluation_features(Protein(name="", sequence="G"), sizes)
    return {name: (array.shape, array.dtype) for name, array in example.items()}


def _features(protein: Protein, alignment: Alignment, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    single = _residue_features(protein)
    order = np.concatenate([[0], 1 + random.permutation(alignment.num_rows - 1)])
    centres, others = order[: sizes.seq], order[sizes.seq :]
    clustered = _cluster_features(alignment, centres, others, random)
    # The order is random already: its first rows are a random sample.
    extra = _extra_features(alignment, others[: sizes.extra_seq])
    return {
        **{name: _padded(array, (sizes.res,)) for name, array in single.items()},
        **{name: _padded(array, (sizes.seq, sizes.res)) for name, array in clustered.items()},
        **{name: _padded(array, (sizes.extra_seq, sizes.res)) for name, array in extra.items()},
    }


def _residue_features(protein: Protein) -> Features:
    length = len(protein.sequence)
    aatype = indices(protein.sequence).astype(np.int32)
    if protein.structure is None:
        residue_index = np.arange(length, dtype=np.int32)
        beta, beta_mask = np.zeros((length, 3), np.float32), np.zeros(length, np.float32)
    else:
        residue_index = protein.structure.residue_index
        beta, beta_mask = pseudo_beta(aatype, protein.structure)
    # The leading column tells breaks between joined chains, which single chains do not have.
    no_break = np.zeros((length, 1), np.float32)
    return {
        "aatype": aatype,
        "residue_index": residue_index,
        "seq_mask": np.ones(length, np.float32),
        "target_feat": np.concatenate([no_break, _one_hot(aatype, 21)], axis=-1),
        "pseudo_beta": beta,
        "pseudo_beta_mask": beta_mask,
    }


def _cluster_features(
    alignment: Alignment,
    centres: np.ndarray,
    others: np.ndarray,
    random: np.random.Generator,
) -> Features:
    true_msa, deletions = alignment.msa[centres], alignment.deletions[centres]
    msa, touched = corrupt(true_msa, column_profile(alignment.msa), random)
    clusters = summarise(msa, deletions, alignment.msa[others], alignment.deletions[others])
    channels = [
        _one_hot(msa, 23),
        _some(deletions)[..., None],
        _squashed(deletions)[..., None],
        clusters.profile,
        _squashed(clusters.deletion_mean)[..., None],
    ]
    return {
        "msa_feat": np.concatenate(channels, axis=-1),
        "msa_mask": np.ones(msa.shape, np.float32),
        "true_msa": true_msa.astype(np.int32),
        "bert_mask": touched.astype(np.float32),
    }


def _extra_features(alignment: Alignment, rows: np.ndarray) -> Features:
    deletions = alignment.deletions[rows]
    return {
        "extra_msa": alignment.msa[rows].astype(np.int32),
        "extra_msa_mask": np.ones(deletions.shape, np.float32),
        "extra_has_deletion": _some(deletions),
        "extra_deletion_value": _squashed(deletions),
    }


def _one_hot(index: Int32[np.ndarray, "*shape"], classes: int) -> Float32[np.ndarray, "*shape classes"]:
    return np.eye(classes, dtype=np.float32)[index]


def _some(deletions: Int32[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*shape"]:
    return (deletions > 0).astype(np.float32)


def _squashed(deletions: np.ndarray) -> Float32[np.ndarray, "..."]:
    """Numbers of deletions on a scale from 0 to 1 (Suppl. Table 1)."""
    return (2 / np.pi * np.arctan(deletions / 3)).astype(np.float32)


def _padded(array: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    missing = [(0, want - have) for want, have in zip(leading, array.shape, strict=False)]
    return np.pad(array, missing + [(0, 0)] * (array.ndim - len(leading)))

"""AlphaFold's features of one example, with the official names, shapes and types."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float32, Int32

from elbowroom.datasets.proteins.alignment import Alignment, single_row
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.clusters import summarise, without_blocks
from elbowroom.datasets.proteins.crop import random_crop
from elbowroom.datasets.proteins.masking import column_profile, corrupt
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import Structure, Template, pseudo_beta

type Features = dict[str, np.ndarray]

_CLAMPED: Final = 0.9
"""share of the training examples whose backbone FAPE is clamped (Jumper et al. 2021, Suppl. 1.11.5)"""
_MOST_AVAILABLE: Final = 20
"""best templates among which training chooses (Jumper et al. 2021, Suppl. 1.2.3)"""
_EARLIER: Final = "earlier_"
"""Before the name of a feature: its values in the passes before the last, on a leading axis."""
_SEEN: Final = ("msa_feat", "msa_mask", "extra_msa", "extra_msa_mask", "extra_has_deletion", "extra_deletion_value")
"""What the network sees of an alignment; the rest of its features is for the loss of the last pass."""


@dataclass(frozen=True, kw_only=True)
class FeatureSizes:
    """The fixed shape of every example; what is shorter is padded with zeros and masked."""

    res: int
    """residues of the crop (N_res)"""
    seq: int
    """cluster centres, the query included (N_clust)"""
    extra_seq: int
    """rows of the extra MSA (N_extra_seq)"""
    templates: int = 0
    """templates (N_templ; 4 in the paper)"""
    recycles: int = 0
    """passes before the last, which see other rows of the alignment"""

    def __post_init__(self) -> None:
        if self.res < 1 or self.seq < 1 or min(self.extra_seq, self.templates, self.recycles) < 0:
            raise ValueError(f"{self}: needs at least one residue and one sequence, and no negative number")


def training_features(protein: Protein, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    """A random crop, with random alignment rows, of which whole blocks are left out, and a random corruption.

    The crop is taken first, so that rows are compared on its columns only; else the steps and their order are those
    of Jumper et al. 2021, Suppl. 1.2.6 to 1.2.9. Of the n best templates min(Uniform(0..n), N_templ) are drawn
    (Suppl. 1.2.3). A protein without structure has all-zero `pseudo_beta_mask` and `all_atom_mask`.
    """
    clamped = random.random() < _CLAMPED
    window = random_crop(protein, sizes.res, random, early=not clamped)
    alignment = window.alignment or single_row(window.sequence)
    # An empty extra MSA is no smaller problem, but another one: the outer product mean then divides by 0.001.
    alignment = without_blocks(alignment, random, least=sizes.seq + sizes.extra_seq)
    features = _features(window, alignment, sizes, random)
    available = min(len(window.templates), _MOST_AVAILABLE)
    count = min(int(random.integers(available + 1)), sizes.templates)
    chosen = [window.templates[i] for i in random.permutation(available)[:count]]
    return {
        **features,
        **_template_features(chosen, sizes),
        **_earlier_features(alignment, sizes, random),
        "use_clamped_fape": _scalar(float(clamped)),
    }


def evaluation_features(protein: Protein, sizes: FeatureSizes) -> Features:
    """As in training, but from all rows and the first templates, and random by the protein's name alone.

    A chain that is longer than `sizes.res` is cropped; `prediction_features` refuses it.
    """
    random = np.random.default_rng(zlib.crc32(protein.name.encode()))
    window = random_crop(protein, sizes.res, random)
    alignment = window.alignment or single_row(window.sequence)
    return {
        **_features(window, alignment, sizes, random),
        **_template_features(window.templates[: sizes.templates], sizes),
        **_earlier_features(alignment, sizes, random),
        "use_clamped_fape": _scalar(1.0),
    }


def prediction_features(protein: Protein, sizes: FeatureSizes) -> Features:
    """Features of the whole chain, padded to `sizes.res`.

    Raises `ValueError` if the chain is longer than that.
    """
    length = len(protein.sequence)
    if length > sizes.res:
        raise ValueError(f"{protein.name}: {length} residues do not fit in {sizes.res}; ask for at least {length}")
    return evaluation_features(protein, sizes)


def feature_shapes(sizes: FeatureSizes) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape and type of every feature."""
    example = evaluation_features(Protein(name="", sequence="G"), sizes)
    return {name: (array.shape, array.dtype) for name, array in example.items()}


def _features(protein: Protein, alignment: Alignment, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    return {
        **{name: _padded(array, (sizes.res,)) for name, array in _residue_features(protein).items()},
        **_msa_features(alignment, sizes, random),
        "resolution": _scalar(_resolution(protein.structure)),
    }


def _earlier_features(alignment: Alignment, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    """Rows and corruption that each earlier pass draws anew (Jumper et al. 2021, Suppl. Algorithms 2 and 31)."""
    if sizes.recycles == 0:
        return {}
    passes = [_msa_features(alignment, sizes, random) for _ in range(sizes.recycles)]
    return {_EARLIER + name: np.stack([drawn[name] for drawn in passes]) for name in _SEEN}


def _msa_features(alignment: Alignment, sizes: FeatureSizes, random: np.random.Generator) -> Features:
    order = np.concatenate([[0], 1 + random.permutation(alignment.num_rows - 1)])
    centres, others = order[: sizes.seq], order[sizes.seq :]
    clustered = _cluster_features(alignment, centres, others, random)
    # The order is random already: its first rows are a random sample.
    extra = _extra_features(alignment, others[: sizes.extra_seq])
    return {
        **{name: _padded(array, (sizes.seq, sizes.res)) for name, array in clustered.items()},
        **{name: _padded(array, (sizes.extra_seq, sizes.res)) for name, array in extra.items()},
    }


def _residue_features(protein: Protein) -> Features:
    length = len(protein.sequence)
    aatype = indices(protein.sequence).astype(np.int32)
    structure = protein.structure or _unresolved(length)
    beta, beta_mask = pseudo_beta(aatype, structure)
    # The leading column tells breaks between joined chains, which single chains do not have.
    no_break = np.zeros((length, 1), np.float32)
    return {
        "aatype": aatype,
        "residue_index": structure.residue_index,
        "seq_mask": np.ones(length, np.float32),
        "target_feat": np.concatenate([no_break, _one_hot(aatype, 21)], axis=-1),
        "pseudo_beta": beta,
        "pseudo_beta_mask": beta_mask,
        "all_atom_positions": structure.atom_positions,
        "all_atom_mask": structure.atom_mask.astype(np.float32),
    }


def _resolution(structure: Structure | None) -> float:
    """Angstrom, 0 if unknown: outside the range in which the confidence heads learn (Suppl. 1.9.6)."""
    return 0.0 if structure is None or structure.resolution is None else structure.resolution


def _unresolved(length: int) -> Structure:
    return Structure(
        residue_index=np.arange(length, dtype=np.int32),
        atom_positions=np.zeros((length, 37, 3), np.float32),
        atom_mask=np.zeros((length, 37), bool),
    )


def _template_features(templates: Sequence[Template], sizes: FeatureSizes) -> Features:
    count, res = sizes.templates, sizes.res
    features = {
        "template_aatype": np.zeros((count, res), np.int32),
        "template_all_atom_positions": np.zeros((count, res, 37, 3), np.float32),
        "template_all_atom_masks": np.zeros((count, res, 37), np.float32),
        "template_pseudo_beta": np.zeros((count, res, 3), np.float32),
        "template_pseudo_beta_mask": np.zeros((count, res), np.float32),
        "template_mask": (np.arange(count) < len(templates)).astype(np.float32),
    }
    for i, template in enumerate(templates):
        beta, beta_mask = pseudo_beta(template.aatype, template)
        own = {
            "template_aatype": template.aatype,
            "template_all_atom_positions": template.atom_positions,
            "template_all_atom_masks": template.atom_mask,
            "template_pseudo_beta": beta,
            "template_pseudo_beta_mask": beta_mask,
        }
        for name, array in own.items():
            features[name][i, : len(array)] = array
    return features


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


def _scalar(value: float) -> Float32[np.ndarray, ""]:
    return np.array(value, np.float32)


def _padded(array: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    missing = [(0, want - have) for want, have in zip(leading, array.shape, strict=False)]
    return np.pad(array, missing + [(0, 0)] * (array.ndim - len(leading)))

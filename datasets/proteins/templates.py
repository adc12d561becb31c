"""Templates: structures of other chains, aligned to a query."""

from typing import Final

import numpy as np

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import GAP, indices
from elbowroom.datasets.proteins.atoms import CA
from elbowroom.datasets.proteins.chain import Chain, aligned_positions
from elbowroom.datasets.proteins.structure import Template, centred

LEAST_COVERAGE: Final = 0.1
"""of the query by a template's aligned residues (Jumper et al. 2021, Suppl. 1.2.3)"""


def template_from_chain(query: str, chain: Chain) -> Template:
    """The chain as a template of a query: what is aligned to the query's residues, with the chain's own letters.

    Whether the two are related is for the caller to know, since unrelated chains align too; so is whether the chain is
    the query itself, which in training would tell the answer.
    Raises `DataError` if the aligned residues whose CA is resolved are less than a tenth of the query.
    """
    wanted, found = indices(query), indices(chain.sequence)
    position = aligned_positions(wanted, found)
    placed = position >= 0
    resolved = int((placed & chain.structure.atom_mask[:, CA]).sum())
    if resolved < LEAST_COVERAGE * len(query):
        reason = f"covers {resolved} of the query's {len(query)} residues, under {LEAST_COVERAGE:.0%}"
        remedy = "leave it out, or take a chain that is related to the query and resolved where they align"
        raise DataError(chain.path, f"chain {chain.label!r}", reason, remedy)
    aatype = np.full(len(query), GAP, np.int32)
    positions, mask = np.zeros((len(query), 37, 3), np.float32), np.zeros((len(query), 37), bool)
    target = position[placed]
    aatype[target] = found[placed]
    positions[target], mask[target] = chain.structure.atom_positions[placed], chain.structure.atom_mask[placed]
    entry, _, _ = chain.path.name.removesuffix(".gz").rpartition(".")
    return Template(
        name=f"{entry}_{chain.label}", aatype=aatype, atom_positions=centred(positions, mask), atom_mask=mask
    )

"""Every case study by name."""

from elbowroom.studies.alphafold import ALPHAFOLD, ALPHAFOLD_FINE_TUNING, ALPHAFOLD_SMALL
from elbowroom.studies.aurora import AURORA, AURORA_SMALL
from elbowroom.studies.case import Case
from elbowroom.studies.stormer import STORMER, STORMER_SYMMETRIC

CASES = {
    case.name: case
    for case in (
        *(ALPHAFOLD, ALPHAFOLD_FINE_TUNING, ALPHAFOLD_SMALL),
        *(AURORA, AURORA_SMALL),
        *(STORMER, STORMER_SYMMETRIC),
    )
}


class UnknownCaseError(ValueError):
    """There is no case study of that name."""


def case_named(name: str) -> Case:
    """Raises `UnknownCaseError`."""
    if name not in CASES:
        raise UnknownCaseError(f"no case study {name!r}; choose one of {', '.join(CASES)}")
    return CASES[name]

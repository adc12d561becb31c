"""Every case study by name."""

from elbowroom.studies.alphafold import ALPHAFOLD, ALPHAFOLD_FINE_TUNING, ALPHAFOLD_SMALL
from elbowroom.studies.aurora import AURORA, AURORA_SMALL
from elbowroom.studies.case import Case
from elbowroom.studies.stormer import STORMER, STORMER_SYMMETRIC

PROTEINS = (ALPHAFOLD, ALPHAFOLD_FINE_TUNING, ALPHAFOLD_SMALL)
WEATHER = (AURORA, AURORA_SMALL, STORMER, STORMER_SYMMETRIC)
CASES = {case.name: case for case in (*PROTEINS, *WEATHER)}


class UnknownCaseError(ValueError):
    """There is no case study of that name, or none that can do what was asked."""


def case_named(name: str) -> Case:
    """Raises `UnknownCaseError`."""
    if name not in CASES:
        raise UnknownCaseError(f"no case study {name!r}; choose one of {', '.join(CASES)}")
    return CASES[name]


def protein_case_named(name: str) -> Case:
    """Raises `UnknownCaseError` for a case of another field too: those have no structures to write or compare."""
    case = case_named(name)
    proteins = [known.name for known in PROTEINS]
    if case in WEATHER:
        raise UnknownCaseError(f"{name} is not about proteins, for which this command is; choose {', '.join(proteins)}")
    return case

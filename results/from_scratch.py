"""The small model from random parameters, in about twenty minutes on two cores: what it learns of proteins held out.

    python results/from_scratch.py                       # the embedded chains
    python results/from_scratch.py TRAIN_DIR TEST_DIR    # yours: alignments and structures, named alike

Writes `from_scratch.md`, `.csv` and `.json` beside this file. Interrupted, the same command goes on.
"""

import shutil
import sys
from pathlib import Path

from elbowroom.studies.alphafold import ALPHAFOLD_SMALL
from elbowroom.studies.commands import run_evaluate, run_train

STEPS = 5_000
HERE = Path(__file__).parent
RUN = HERE / "runs" / "from_scratch"
EVALUATION = HERE / "runs" / "from_scratch_evaluation"


def main() -> None:
    train, test = (Path(text) for text in sys.argv[1:]) if len(sys.argv) == 3 else (None, None)
    run_train(
        ALPHAFOLD_SMALL.name,
        data=train,
        structures=None,
        plan_file=None,
        budget=None,
        steps=STEPS,
        out=RUN,
        resume=RUN.exists(),
        size_texts=[],
        seed=0,
        checkpoint_every=500,
        start=None,
    )
    run_evaluate(
        ALPHAFOLD_SMALL.name,
        parameters=RUN,
        data=test,
        structures=None,
        budget=None,
        size_texts=[],
        out=EVALUATION,
        as_json=False,
    )
    for ending in ("md", "csv", "json"):
        shutil.copy(EVALUATION / f"evaluation.{ending}", HERE / f"from_scratch.{ending}")


if __name__ == "__main__":
    main()

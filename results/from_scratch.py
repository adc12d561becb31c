"""The small model from random parameters, in about twenty minutes on two cores: what it learns of proteins held out.

    python results/from_scratch.py                       # the embedded chains
    python results/from_scratch.py TRAIN_DIR TEST_DIR    # yours: alignments and structures, named alike

Writes `from_scratch.md`, `.csv` and `.json` beside this file. Interrupted, the same command goes on.
"""

import shutil
import subprocess
import sys
from pathlib import Path

STEPS = 5_000
HERE = Path(__file__).parent
RUN, EVALUATION = (HERE / "runs" / name for name in ("from_scratch", "from_scratch_evaluation"))


def main() -> None:
    folders = sys.argv[1:]
    if len(folders) not in (0, 2):
        sys.exit("give a folder to train on and one to evaluate on, or neither for the embedded chains")
    train, test = (["--data", folder] for folder in folders) if folders else ([], [])
    resume = ["--resume"] if RUN.exists() else []
    elbowroom("train", "alphafold-small", "--steps", str(STEPS), "--out", str(RUN), *train, *resume)
    elbowroom("evaluate", "alphafold-small", "--params", str(RUN), "--out", str(EVALUATION), *test)
    for ending in ("md", "csv", "json"):
        shutil.copy(EVALUATION / f"evaluation.{ending}", HERE / f"from_scratch.{ending}")


def elbowroom(*arguments: str) -> None:
    """Run the command as a user does, and end with its exit code where it fails."""
    code = subprocess.run([sys.executable, "-m", "elbowroom.studies", *arguments]).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()

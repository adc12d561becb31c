"""The repository keeps its own rules: who may import whom, what is packaged, how large files grow."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("memory", "models", "datasets", "studies")
KNOWS = {
    "memory": {"memory"},
    "models": {"models", "memory"},
    "datasets": {"datasets"},
    "studies": {"studies", "models", "memory", "datasets"},
}


def sources() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Every module named in an import of a file, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)} line {node.lineno}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows_between_folders(path):
    own = path.relative_to(ROOT).parts[0]
    ours = {name.split(".")[1] for name in imported(path) if name.startswith("elbowroom.")}
    assert ours <= KNOWS[own]
    assert not {name.split(".")[0] for name in imported(path)} & {"memory", "models", "studies"}


def test_models_of_one_study_do_not_import_each_other():
    shared = {path.stem for path in (ROOT / "models").glob("*.py")}
    for path in sorted((ROOT / "models").glob("*/*.py")):
        families = {n.split(".")[2] for n in imported(path) if n.startswith("elbowroom.models.")}
        assert families <= {path.parent.name, *shared}, path


def test_every_folder_of_modules_is_packaged_and_nothing_else():
    with_init = {p.parent for folder in FOLDERS for p in (ROOT / folder).rglob("__init__.py")} | {ROOT / "datasets"}
    expected = {"elbowroom." + ".".join(p.relative_to(ROOT).parts) for p in with_init}
    assert set(pyproject()["tool"]["setuptools"]["packages"]) == expected


def test_no_folder_of_ours_shadows_another_package():
    assert not (ROOT / "datasets" / "__init__.py").exists(), "it would hide the package called datasets"
    assert not (ROOT / "elbowroom").exists(), "it would hide the installed package"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 400


def test_every_dependency_is_pinned_and_no_download_host_is_named():
    pins = (ROOT / "constraints.txt").read_text()
    assert "//" not in pins
    pinned = {normal(line.split("==")[0]) for line in pins.splitlines() if "==" in line}
    project = pyproject()
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    assert {normal(re.split(r"[<>=\[ ]", entry)[0]) for entry in wanted} <= pinned


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_readme_names_the_commands_that_are_run():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    assert re.search(r"^make .*\btest\b", ci, re.MULTILINE)


def test_a_jax_that_computes_wrong_values_is_refused():
    code = "import jax; jax.__version_info__ = (0, 10, 2); import elbowroom.memory"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "needs jax 0.12 or newer" in done.stderr

"""The command line: every mistake is one line on standard error and exit code 2; results can be read by programs."""

import errno
import json
import os
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elbowroom.studies import cases
from elbowroom.studies.cli import app


@pytest.fixture(autouse=True)
def only_the_toy_case(monkeypatch, toy):
    monkeypatch.setattr(cases, "CASES", {"toy": toy})


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """The one line that explains the refusal."""
    assert result.exit_code == 2
    line = result.stderr.strip()
    assert line.startswith("error: ")
    assert "\n" not in line
    assert "Traceback" not in result.output
    return line


@pytest.fixture
def trained(tmp_path) -> Path:
    assert run("train", "toy", "--steps", "2", "--out", tmp_path / "run").exit_code == 0
    return tmp_path / "run"


@pytest.mark.parametrize("command", ["train", "footprint", "compare", "check", "demo", "reproduce"])
def test_every_command_explains_itself_with_examples(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"elbowroom {command}" in result.output


def test_training_says_its_plan_and_where_everything_is(tmp_path):
    result = run("train", "toy", "--steps", "2", "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "plan: plain float32" in result.stderr
    assert "at step 2" in result.stderr
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 3


def test_training_goes_on_under_the_plan_of_the_run(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("[recompute]\nblocks = true\n")
    run("train", "toy", "--steps", "1", "--plan", plan, "--out", tmp_path / "run")
    result = run("train", "toy", "--steps", "2", "--resume", "--out", tmp_path / "run")
    assert "plan: float32 · recompute blocks" in result.stderr
    assert "at step 2" in result.stderr


def test_data_of_the_users_own_is_read_with_its_warnings(tmp_path):
    data = tmp_path / "rows.txt"
    data.write_text("1\n2\n")
    result = run("train", "toy", "--data", data, "--steps", "1", "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "warning: 1 row is made up" in result.stderr


def test_an_unknown_case_is_refused():
    assert "no case study 'alphafild'; choose one of toy" in refused(run("train", "alphafild"))


def test_an_unknown_size_is_refused_with_those_there_are():
    assert "the sizes are length, width, batch" in refused(run("footprint", "toy", "--size", "crop=4"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[chunk]\nrow = 4", "unknown key chunk.row"),
        ("[chunk]\nrows = 8", "chunk.rows = 8 cuts nothing"),
        ('[recompute]\nblocks = true\nsave = ["pair"]', "the model names no activation 'pair'"),
        ("[chunk", "not valid TOML"),
        ("[mesh]\ndata = 64", "mesh.data = 64, but this machine has"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(tmp_path, text, message):
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    assert message in refused(run("train", "toy", "--plan", plan, "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_plan_that_is_not_there_is_refused(tmp_path):
    assert "cannot be read" in refused(run("footprint", "toy", "--plan", tmp_path / "no.toml"))


def test_a_budget_without_a_unit_is_refused(tmp_path):
    assert "'4' is not a size" in refused(run("train", "toy", "--budget", "4", "--out", tmp_path / "run"))


def test_a_plan_over_the_budget_is_refused_with_what_it_needs(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("")
    line = refused(run("train", "toy", "--plan", plan, "--budget", "1KiB", "--out", tmp_path / "run"))
    assert "more than --budget 1KiB" in line


def test_a_budget_that_no_plan_meets_is_refused(tmp_path):
    result = run("train", "toy", "--budget", "10B", "--out", tmp_path / "run")
    assert result.exit_code == 2
    *tried, error = result.stderr.strip().splitlines()
    assert error.startswith("error: no plan fits 10 B: the leanest")
    assert tried[0].startswith("plain float32: ")


def test_a_budget_alone_chooses_a_plan(tmp_path):
    result = run("train", "toy", "--budget", "1GiB", "--steps", "1", "--out", tmp_path / "run")
    assert result.exit_code == 0
    assert "plan: " in result.stderr


def test_a_run_is_not_written_over(trained):
    assert "already holds a run" in refused(run("train", "toy", "--out", trained))


def test_resuming_needs_a_run(tmp_path):
    assert "holds no run to resume" in refused(run("train", "toy", "--resume", "--out", tmp_path / "run"))


def test_resuming_with_other_sizes_says_which(trained):
    line = refused(run("train", "toy", "--resume", "--size", "width=4", "--out", trained))
    assert "sizes.width = 16, not 4" in line


def test_structures_without_data_are_refused(tmp_path):
    assert "--structures needs --data" in refused(run("train", "toy", "--structures", tmp_path))


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(tmp_path, monkeypatch, toy):
    original = toy.batches.__next__

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    monkeypatch.setattr(toy.batches, "__next__", interrupted)
    result = run("train", "toy", "--steps", "5", "--out", tmp_path / "run")
    assert result.exit_code == 130
    assert result.stderr.strip().endswith("stopped after step 1; add --resume to the same command to go on")


@pytest.mark.parametrize("how", ["formula", "compiled", "measured"])
def test_a_footprint_is_a_table_or_json(how):
    row = json.loads(run("footprint", "toy", "--how", how, "--json").stdout)
    assert row["how"] == how
    assert row["sizes"] == {"length": 8, "width": 16, "batch": 2}
    assert row["footprint"]["parameters"] == 4 * (3 * 16 + 16 + 16 + 1)  # float32
    assert row["provenance"]["jax"]
    table = run("footprint", "toy", "--how", how).stdout
    assert "parameters" in table
    assert how in table


def test_a_plan_is_chosen_for_a_device():
    result = run("footprint", "toy", "--plan", "auto", "--device", "rtx4090", "--json")
    row = json.loads(result.stdout)
    assert row["fits"]
    assert row["plan"] == {}
    assert sum(row["parts"].values()) == row["device_bytes"]


def test_a_device_gets_the_default_plan_of_accelerators():
    row = json.loads(run("footprint", "toy", "--device", "rtx4090", "--json").stdout)
    assert row["plan"] == {"precision": {"compute": "bfloat16"}, "chunk": {"rows": 4}}


def test_a_plan_chosen_without_a_device_is_refused():
    assert "--plan auto needs a --device to fit" in refused(run("footprint", "toy", "--plan", "auto"))


@pytest.mark.parametrize("below", ["", "deeper"])
@pytest.mark.parametrize(
    "command",
    [["compare", "toy", "--how", "compiled"], ["reproduce", "frontier"], ["reproduce", "offload"]],
    ids=" ".join,
)
def test_results_that_have_no_place_are_refused(tmp_path, command, below):
    (tmp_path / "file").write_text("kept")
    assert "--out must name a folder" in refused(run(*command, "--out", tmp_path / "file" / below))
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("reason", [errno.ENOENT, errno.EROFS, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, monkeypatch, reason):
    def mkdir(path: Path, *arguments: object, **more: object) -> None:
        raise OSError(reason, os.strerror(reason), str(path))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    line = refused(run("reproduce", "offload", "--out", tmp_path / "out"))
    assert os.strerror(reason) in line
    assert "choose another --out" in line


def test_a_comparison_is_saved_and_printed(tmp_path):
    result = run("compare", "toy", "--out", tmp_path, "--json")
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == ["plain", "recompute", "bfloat16"]
    assert rows[0]["sizes"]["length"] == 12
    assert {path.suffix for path in tmp_path.glob("toy-measured.*")} == {".md", ".csv", ".json", ".png"}
    again = run("compare", "toy", "--out", tmp_path)
    assert "compiling" not in again.stderr
    assert "bfloat16" in again.stdout

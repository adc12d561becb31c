"""A run resumes bit for bit, never harms another, and stops with a reason."""

import csv
import dataclasses
import gc
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

from elbowroom.memory.plan import Mesh, OptimizerState, Plan, PlanError, Recompute
from elbowroom.studies.case import Records
from elbowroom.studies.interrupt import StoppedError
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.train import DivergedError, train

OF_THE_MACHINE = ("rows_per_second", "peak_bytes", "seconds")


@pytest.fixture
def console() -> Console:
    return Console(quiet=True)


def metrics_of_run(folder: Path) -> list[dict[str, str]]:
    """Rows of metrics.csv without the columns that time and memory decide."""
    with (folder / "metrics.csv").open() as file:
        return [{k: v for k, v in row.items() if k not in OF_THE_MACHINE} for row in csv.DictReader(file)]


def same_state(one: Any, other: Any) -> None:
    one, other = (state._replace(key=jax.random.key_data(state.key)) for state in (one, other))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_resumed_run_equals_one_that_never_stopped(training, console, tmp_path):
    straight = train(training(out=tmp_path / "straight"), console)
    train(training(out=tmp_path / "halves", steps=3), console)
    halves = train(training(out=tmp_path / "halves", resume=True), console)
    same_state(halves, straight)
    rows = metrics_of_run(tmp_path / "halves")
    assert rows == metrics_of_run(tmp_path / "straight")
    assert [row["step"] for row in rows] == ["1", "2", "3", "4", "5", "6"]


def test_rows_after_the_restored_step_are_written_once(training, console):
    done = train(training(), console)
    folder = training().out
    before = metrics_of_run(folder)
    shutil.rmtree(folder / "checkpoints" / "6")  # as if killed after step 6 was logged and before it was saved
    with (folder / "metrics.csv").open("a") as file:
        file.write("7,0.1")  # a row cut short
    same_state(train(training(resume=True), console), done)
    assert metrics_of_run(folder) == before


def test_a_checkpoint_that_was_being_written_is_passed_over(training, console):
    done = train(training(), console)
    checkpoints = training().out / "checkpoints"
    (checkpoints / "6").rename(checkpoints / "6.orbax-checkpoint-tmp-1")
    same_state(train(training(resume=True), console), done)


def test_the_memory_plan_may_change_on_resume(training, console):
    straight = train(training(out=training().out.with_name("straight")), console)
    train(training(steps=3), console)
    resumed = train(training(plan=Plan(recompute=Recompute(blocks=True)), resume=True), console)
    for got, want in zip(jax.tree.leaves(resumed.parameters), jax.tree.leaves(straight.parameters), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)  # the same arithmetic, fused differently
    assert "blocks = true" in (training().out / "plan.toml").read_text()


def test_moments_change_their_dtype_with_the_plan(training, console):
    train(training(steps=3), console)
    plan = Plan(optimizer=OptimizerState(first_moment="bfloat16"))
    state = train(training(plan=plan, resume=True), console)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(state.optimizer[0].mu)} == {"bfloat16"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed = 0, not 1"),
        ({"sizes": {"length": 9, "width": 16, "batch": 2}}, "sizes.length = 8, not 9"),
        ({"optimizer": OptimizerSettings(learning_rate=0.5)}, "optimizer.learning_rate = 0.01, not 0.5"),
        ({"records": Records(items=[1], fingerprint="x")}, "other training data"),
    ],
)
def test_resuming_another_run_is_refused_with_what_differs(training, console, changes, message):
    train(training(steps=1), console)
    with pytest.raises(RunError, match=message):
        train(training(resume=True, **changes), console)


def test_a_folder_that_holds_a_run_is_not_written_over(training, console):
    train(training(steps=1), console)
    with pytest.raises(RunError, match="already holds a run; add --resume"):
        train(training(), console)


def test_a_folder_of_something_else_is_refused(training, console):
    training().out.mkdir()
    (training().out / "thesis.tex").touch()
    with pytest.raises(RunError, match="is not empty and holds no run"):
        train(training(), console)


def test_a_file_in_place_of_the_folder_is_refused(training, console):
    training().out.write_text("mine")
    with pytest.raises(RunError, match="is a file or lies in one"):
        train(training(), console)


def test_resuming_what_never_started_is_refused(training, console):
    with pytest.raises(RunError, match="holds no run to resume"):
        train(training(resume=True), console)


# Where one array cannot be read, orbax drops the reads of the others, and Python tells of each when it collects them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_checkpoint_with_any_file_damaged_is_named_or_not_missed(training, console):
    """And moved away, the one before it is gone on from."""
    straight, latest = train(training(), console), training().out / "checkpoints" / "6"

    def resumed_without_half_of(path: Path) -> str:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        try:
            same_state(train(training(resume=True), console), straight)
        except RunError as error:
            return str(error)
        finally:
            path.write_bytes(whole)
            gc.collect()
        return "not missed"

    files = [path for path in latest.rglob("*") if path.is_file() and path.stat().st_size]
    told = {path.relative_to(latest).as_posix(): resumed_without_half_of(path) for path in files}
    assert {"metrics/metrics", "run/metadata"} <= told.keys()
    for name, line in told.items():
        assert f"{latest} is damaged" in line or line == "not missed", name
    assert sum(line != "not missed" for line in told.values()) >= 4
    shutil.rmtree(latest)
    same_state(train(training(resume=True), console), straight)


def test_resuming_without_any_checkpoint_is_refused(training, console):
    train(training(steps=1), console)
    shutil.rmtree(training().out / "checkpoints")
    with pytest.raises(RunError, match="no complete checkpoint"):
        train(training(resume=True), console)


def test_a_loss_that_is_not_finite_names_step_and_records_and_keeps_the_last_checkpoint(training, console):
    good = train(training(), console)
    poisoned = Records(items=[-1], fingerprint="train")
    with pytest.raises(DivergedError, match=r"loss is nan at step 7 on row -1, row -1"):
        train(training(records=poisoned, steps=8, resume=True), console)
    same_state(train(training(resume=True), console), good)


def test_ctrl_c_saves_and_the_run_goes_on_to_the_same_end(training, console, tmp_path):
    straight, before = train(training(out=tmp_path / "straight"), console), signal.getsignal(signal.SIGINT)
    case = training().case

    class InterruptedBatches(case.batches):
        def __next__(self):
            if self.place == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__next__()

    with pytest.raises(StoppedError, match="stopped after step 2; add --resume"):
        train(training(case=dataclasses.replace(case, batches=InterruptedBatches)), console)
    assert signal.getsignal(signal.SIGINT) is before
    same_state(train(training(resume=True), console), straight)


def test_the_best_and_the_two_latest_checkpoints_are_kept(training, console):
    train(training(checkpoint_every=1), console)
    folder = training().out / "checkpoints"
    losses = [float(row["loss"]) for row in metrics_of_run(training().out)]
    best = 1 + int(np.argmin(losses))
    assert {int(path.name) for path in folder.iterdir()} == {best, 5, 6}


def test_a_checkpoint_says_what_it_belongs_to(training, console):
    train(training(steps=1, plan=Plan(recompute=Recompute(blocks=True))), console)
    record = json.loads((training().out / "checkpoints" / "1" / "run" / "metadata").read_text())
    assert record["plan"] == "[recompute]\nblocks = true\n"
    assert record["settings"]["sizes"] == {"length": 8, "width": 16, "batch": 2}


def test_a_plan_for_more_devices_than_there_are_is_refused(training, console):
    with pytest.raises(PlanError, match=r"mesh.data = 64, but this machine has"):
        train(training(plan=Plan(mesh=Mesh(data=64))), console)
    assert not training().out.exists()


def test_lines_replace_the_bar_where_there_is_no_terminal(training, tmp_path):
    with (tmp_path / "log").open("w") as file:
        train(training(), Console(file=file))
    first, second, last = (tmp_path / "log").read_text().splitlines()
    assert first == "training: preparing the first step"
    assert second.startswith("training: step 1/6  loss ")
    assert last.startswith("training: step 6/6  loss ")
    assert "rows/s" in last
    assert "peak" in last


def test_a_run_from_before_a_setting_existed_goes_on(training, console):
    """What it did is what the setting's default does."""
    train(training(steps=3), console)
    path = training().out / "run.json"
    record = json.loads(path.read_text())
    del record["optimizer"]["weight_decay"]
    path.write_text(json.dumps(record))
    assert int(train(training(resume=True), console).step) == 6

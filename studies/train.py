"""Train a case under a plan: restore or start, step, log, save, and stop cleanly when asked."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from rich.console import Console

from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.footprint.resident import reset_high_water
from elbowroom.memory.offload import shardings
from elbowroom.memory.offload_check import require_sound_offload
from elbowroom.memory.plan import Plan, PlanError
from elbowroom.memory.step import TrainState, initial_state, make_step
from elbowroom.studies.case import Batch, Batches, Case, Records, abstract_batch
from elbowroom.studies.checkpoint import open_checkpoints, restore_latest, save_checkpoint
from elbowroom.studies.interrupt import StoppedError, stop_on_request
from elbowroom.studies.metrics_log import MetricsLog
from elbowroom.studies.optimizer import OptimizerSettings, learning_rate, make_optimizer
from elbowroom.studies.peak import peak_so_far
from elbowroom.studies.progress import Moment, training_progress
from elbowroom.studies.run_folder import RunSettings, claim_folder
from elbowroom.studies.sizes import Sizes


class DivergedError(ValueError):
    """The loss or its gradient stopped being a finite number."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What the user asked for."""

    case: Case
    records: Records
    sizes: dict[str, int]
    plan: Plan
    steps: int
    """Of the whole run, the resumed part included."""
    out: Path
    seed: int = 0
    optimizer: OptimizerSettings
    checkpoint_every: int = 100
    resume: bool = False
    title: str = "training"
    compiled: Compiled | None = None
    """The step under `plan`, where it has been compiled already"""

    def __post_init__(self) -> None:
        if self.case.measured_on is not None:
            # Here and nowhere else: no run can begin, and be saved, without what its case must know of the records.
            object.__setattr__(self, "case", self.case.measured_on(self.records, self.sizes))

    @property
    def settings(self) -> RunSettings:
        return RunSettings(
            case=self.case.name,
            sizes=self.sizes,
            seed=self.seed,
            optimizer=self.optimizer,
            data=self.records.fingerprint,
            model=dict(self.case.model),
            start=self.case.start,
        )


def train(training: Training, console: Console) -> TrainState:
    """Train to `training.steps` and give the final state; everything lasting is in `training.out`.

    A resumed run takes the same steps as one that never stopped, bit for bit, under the same plan.
    Raises `RunError` about the folder, `PlanError` when the plan wants other devices or batches than there are,
    `DivergedError` at a loss that is not finite, `StoppedError` after Ctrl-C.
    """
    sharding = state_sharding(training.plan, training.sizes)
    if training.plan.offload.activations:
        require_sound_offload()
    claim_folder(training.out, training.settings, resume=training.resume)
    (training.out / "plan.toml").write_text(training.plan.to_toml(), encoding="utf-8")
    reset_high_water()
    batches = training.case.batches(training.records, training.sizes, training.seed)
    with open_checkpoints(training.out) as checkpoints, stop_on_request() as wish:
        run = _Run(training=training, batches=batches, checkpoints=checkpoints, console=console)
        if training.resume:
            state, data_state = restore_latest(checkpoints, abstract_state(training), sharding)
            batches.set_state(data_state)
        else:
            state = fresh_state(training)
        optimizer = make_optimizer(training.optimizer, training.plan)
        state = jax.device_put(state, shardings(state, optimizer, training.plan, sharding))
        if not training.resume:
            run.save(state)
        state = run.steps_from(state, lambda: wish.stop)
    if wish.stop and int(state.step) < training.steps:
        raise StoppedError(f"stopped after step {int(state.step)}; add --resume to the same command to go on")
    return state


def fresh_state(training: Training) -> TrainState:
    """The state before the first step, decided by the seed alone.

    Not compiled as a whole: the random numbers of hundreds of parameters take the compiler longer than the train step.
    """
    parameters_key, steps_key = jax.random.split(jax.random.key(training.seed))
    optimizer = make_optimizer(training.optimizer, training.plan)
    parameters = training.case.parameters(training.sizes, parameters_key)
    return initial_state(parameters, optimizer, steps_key)


def abstract_state(training: Training) -> TrainState:
    """Shapes and dtypes of the state; nothing is allocated."""
    return jax.eval_shape(lambda: fresh_state(training))


def step_of(case: Case, sizes: Sizes, settings: OptimizerSettings) -> Callable[[Plan], Callable[..., Any]]:
    """The train step of a case for every plan."""

    def step(plan: Plan) -> Callable[..., Any]:
        optimizer = make_optimizer(settings, plan)
        return make_step(case.loss(sizes, plan), optimizer, plan, clip_norm=settings.clip_norm)

    return step


def state_sharding(plan: Plan, sizes: Sizes) -> Sharding:
    """A copy of the state on every device that the plan uses; raises `PlanError` if there are too few devices."""
    devices = plan.mesh.data
    if devices > jax.device_count():
        raise PlanError(f"mesh.data = {devices}, but this machine has {jax.device_count()} devices; set it to that")
    if sizes["batch"] % devices:
        raise PlanError(f"mesh.data = {devices} does not divide the batch of {sizes['batch']}; set --size batch=")
    if devices == 1 and not plan.offload.optimizer and not plan.offload.parameters:
        return SingleDeviceSharding(jax.devices()[0])
    # Over a mesh, be it of one device: only then does a step that is compiled for shapes know what waits in the host.
    return NamedSharding(jax.make_mesh((devices,), ("data",), axis_types=(AxisType.Auto,)), PartitionSpec())


@dataclass(kw_only=True)
class _Run:
    """The running part of a training: the data iterator moves, losses since the last checkpoint gather."""

    training: Training
    batches: Batches
    checkpoints: Any
    console: Console
    recent_losses: list[float] = field(default_factory=list)

    def steps_from(self, state: TrainState, asked_to_stop: Callable[[], bool]) -> TrainState:
        training, start = self.training, int(state.step)
        progress = training_progress(self.console, training.title, start=start, steps=training.steps)
        with MetricsLog(training.out, restored_step=start) as log, progress as show:
            step = _executable(training, state)
            for number in range(start + 1, training.steps + 1):
                began = time.perf_counter()
                batch = next(self.batches)
                state, metrics = step(state, batch.features)
                values = {name: float(value) for name, value in jax.device_get(metrics).items()}
                _require_finite(values, number, batch, training.out)
                self.recent_losses.append(values["loss"])
                seconds = time.perf_counter() - began
                moment = self.moment(number, values["loss"], batch.amount / seconds)
                log.write(number, {**values, **self.side_values(number, moment), "seconds": seconds})
                show(moment)
                stop = asked_to_stop()
                if stop or number % training.checkpoint_every == 0 or number == training.steps:
                    self.save(state)
                if stop:
                    break
        return state

    def moment(self, step: int, loss: float, rate: float) -> Moment:
        peak_bytes, peak_label = peak_so_far()
        unit = self.training.case.unit
        return Moment(step=step, loss=loss, rate=rate, unit=unit, peak_bytes=peak_bytes, peak_label=peak_label)

    def side_values(self, step: int, moment: Moment) -> dict[str, float]:
        """Columns that the loss does not give; the learning rate belongs to the run, the others to the machine."""
        rate = learning_rate(self.training.optimizer, jnp.asarray(step - 1))
        return {
            "learning_rate": float(rate),
            f"{moment.unit}_per_second": moment.rate,
            "peak_bytes": float(moment.peak_bytes),
        }

    def save(self, state: TrainState) -> None:
        mean_loss = float(np.mean(self.recent_losses)) if self.recent_losses else math.inf
        self.recent_losses.clear()
        save_checkpoint(
            self.checkpoints,
            state,
            self.batches.get_state(),
            plan=self.training.plan,
            settings=self.training.settings,
            mean_loss=mean_loss,
        )


def _executable(training: Training, state: TrainState) -> Callable[..., Any]:
    """The step compiled for shapes, not arrays: fresh and restored states run the very same program."""
    several, offload = training.plan.mesh.data > 1, training.plan.offload
    elsewhere = several or offload.optimizer or offload.parameters
    if training.compiled is not None and not several:
        return training.compiled.executable

    def shape(leaf: jax.Array) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding if elsewhere else None)

    step = step_of(training.case, training.sizes, training.optimizer)(training.plan)
    return compile_step(step, jax.tree.map(shape, state), abstract_batch(training.case, training.sizes)).executable


def _require_finite(values: dict[str, float], step: int, batch: Batch, out: Path) -> None:
    for name in ("loss", "gradient_norm"):
        if not math.isfinite(values[name]):
            raise DivergedError(
                f"{name} is {values[name]} at step {step} on {', '.join(batch.names)}; the checkpoints before it are "
                f"kept in {out}. Run `check` on the data, or start another run with precision.compute = 'float32'"
            )

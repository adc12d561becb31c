"""The command `elbowroom`: what can be asked for. What the commands do is in `commands`, loaded once it is needed."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

INTERRUPTED = 130
"""Exit code that shells expect of a program ended by Ctrl-C."""


class _OneLineErrors(TyperGroup):
    """Turns a user's mistake into one line and exit code 2, and an interruption into exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        warnings.showwarning = _one_line_warning
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("interrupted; give the same command again to go on, with --resume if it is train")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            # Imported here: it loads jax, which --help need not wait for.
            from elbowroom.studies.commands import advice

            line, code = advice(error)
            if line is None:
                raise
            _say(line)
            raise typer.Exit(code) from None


app = typer.Typer(
    name="elbowroom",
    cls=_OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train scientific Transformers in a memory budget, and see what each technique costs.",
)

Case = Annotated[
    str,
    typer.Argument(
        help="Case study: alphafold, alphafold-fine-tuning, alphafold-small, aurora, aurora-small, stormer or "
        "stormer-symmetric.",
        metavar="CASE",
    ),
]
SizeOption = Annotated[
    list[str] | None, typer.Option("--size", help="Replace a size of the case, such as crop=64; repeatable.")
]
PlanOption = Annotated[Path | None, typer.Option("--plan", help="TOML file with the memory plan.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output instead of the table.")]
Structures = Annotated[
    Path | None, typer.Option(help="Folder of mmCIF or PDB files, when they are kept apart from the sequences.")
]

Params = Annotated[Path, typer.Option(help="Folder of a run, or an npz file of published parameters.")]
Budget = Annotated[str | None, typer.Option(help="Device memory, such as 8GiB; what is free when left out.")]
Steps = Annotated[
    int | None, typer.Option(min=1, help="Weather: steps ahead, each as long as the model's; 4 when left out.")
]


@app.command(
    epilog="Examples:\n\n"
    "elbowroom train alphafold-small --steps 200 --out runs/first\n\n"
    "elbowroom train alphafold --data my_proteins/ --structures my_structures/ --budget 4GiB --size crop=64\n\n"
    "elbowroom train alphafold-fine-tuning --from params_model_1.npz --data my_proteins/ --budget 20GiB\n\n"
    "elbowroom train aurora-small --data era5.zarr --size latitudes=121 --size longitudes=240 --out runs/weather\n\n"
    "elbowroom train stormer --steps 1000 --out runs/stormer\n\n"
    "elbowroom train alphafold-small --steps 400 --out runs/first --resume"
)
def train(
    case: Case,
    data: Annotated[
        Path | None, typer.Option(help="Folder or file of proteins or weather; the embedded ones when left out.")
    ] = None,
    structures: Structures = None,
    plan: PlanOption = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Device memory, such as 4GiB: a plan that fits is chosen, or --plan checked."),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the whole run, what is resumed included.")] = 1000,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/alphafold"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    size: SizeOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes parameters, order of the data, crops and dropout.")] = 0,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 100,
    start: Annotated[
        Path | None, typer.Option("--from", help="Published parameters to start from, such as params_model_1.npz.")
    ] = None,
) -> None:
    """Train a case. Ctrl-C saves a checkpoint; the same command with --resume goes on from it.

    With neither --plan nor --budget the case's default plan is used, exact on a CPU and in bfloat16 on an accelerator,
    or when resuming, the plan of the run.
    """
    from elbowroom.studies.commands import run_train

    run_train(
        case,
        data=data,
        structures=structures,
        plan_file=plan,
        budget=budget,
        steps=steps,
        out=out,
        resume=resume,
        size_texts=size or [],
        seed=seed,
        checkpoint_every=checkpoint_every,
        start=start,
    )


@app.command(
    epilog="Examples:\n\n"
    "elbowroom footprint alphafold --size crop=256\n\n"
    "elbowroom footprint alphafold --size crop=256 --plan plan.toml --how compiled --json\n\n"
    "elbowroom footprint alphafold --size crop=384 --device rtx4090 --how compiled --plan auto"
)
def footprint(
    case: Case,
    size: SizeOption = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with the memory plan, or auto: the bfloat16 plan with least arithmetic that fits --device; "
            "without it, the case's default plan."
        ),
    ] = None,
    how: Annotated[
        Literal["formula", "compiled", "measured"],
        typer.Option(help="At once by formula, by the compiler's account, or by running two steps."),
    ] = "formula",
    device: Annotated[
        str | None, typer.Option(help="Whether it fits this device, and by its own compiler; see `elbowroom devices`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Memory of one train step, by part."""
    from elbowroom.studies.commands import run_footprint

    run_footprint(case, size_texts=size or [], plan_file=plan, how=how, on=device, as_json=as_json)


@app.command(epilog="Examples:\n\nelbowroom devices\n\nelbowroom devices --json")
def devices(as_json: Json = False) -> None:
    """Accelerators that a footprint can be asked for, with their memory and speed."""
    from elbowroom.studies.commands import run_devices

    run_devices(as_json=as_json)


@app.command(
    epilog="Examples:\n\n"
    "elbowroom compare alphafold-small\n\n"
    "elbowroom compare alphafold --how compiled --size crop=256 --size blocks=8 --out runs/crop256"
)
def compare(
    case: Case,
    size: SizeOption = None,
    how: Annotated[
        Literal["compiled", "measured"],
        typer.Option(help="Memory alone by compiling, or time and accuracy too by running."),
    ] = "measured",
    out: Annotated[
        Path, typer.Option(help="Folder for table and plot; rows already there are not computed again.")
    ] = Path("runs/compare"),
    as_json: Json = False,
) -> None:
    """Memory, time and accuracy of each technique beside the plain float32 program, as table and plot."""
    from elbowroom.studies.commands import run_compare

    run_compare(case, size_texts=size or [], how=how, out=out, as_json=as_json)


@app.command(
    epilog="Examples:\n\nelbowroom check my_proteins/\n\nelbowroom check mine.fasta --structures structures/ --json\n\n"
    "elbowroom check era5_2020.nc"
)
def check(
    data: Annotated[Path, typer.Argument(help="Folder or file of proteins or of weather.")],
    structures: Structures = None,
    as_json: Json = False,
) -> None:
    """Read everything and name each defect with file and line, residue or variable. Exit code 2 if there is any."""
    from elbowroom.studies.commands import run_check

    if not run_check(data, structures=structures, as_json=as_json):
        raise typer.Exit(2)


@app.command(
    epilog="Examples:\n\n"
    "elbowroom predict alphafold mine.fasta --params params_model_1_ptm.npz --out predictions\n\n"
    "elbowroom predict alphafold-small alignments/ --params runs/first --template 1abc.cif --budget 8GiB\n\n"
    "elbowroom predict aurora-small era5.zarr --params runs/weather --steps 40 --out forecast.nc\n\n"
    "elbowroom predict aurora era5.zarr --params aurora.npz --start 2020-01-01T00 --every 24 --out forecasts.zarr"
)
def predict(
    case: Case,
    data: Annotated[Path, typer.Argument(help="Sequences, alignments or weather: a file or a folder.")],
    params: Params,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for structures or forecasts, or one file for all forecasts where it ends with .nc or .zarr."
        ),
    ] = Path("predictions"),
    template: Annotated[
        list[Path] | None, typer.Option(help="mmCIF or PDB file of related chains, best first; repeatable.")
    ] = None,
    steps: Steps = None,
    start: Annotated[
        str | None,
        typer.Option(help="Weather: time to forecast from, such as 2020-01-31T12; the newest when left out."),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Weather: hours between forecasts, from --start or the first that can be, to the newest."
        ),
    ] = None,
    plan: PlanOption = None,
    budget: Budget = None,
    size: SizeOption = None,
    again: Annotated[bool, typer.Option("--again", help="Predict anew what --out holds already.")] = False,
) -> None:
    """Predict structures, or the weather.

    Structures: mmCIF and PDB with pLDDT as B-factor, aligned error as JSON and plot. Weather: netCDF or zarr after the
    CF conventions.

    The plan is chosen for the memory at hand. What --out holds already is kept, so that the same command goes on after
    an interruption.
    """
    from elbowroom.studies.commands import run_predict

    run_predict(
        case,
        data=data,
        parameters=params,
        templates=template or [],
        steps=steps,
        first=start,
        every=every,
        plan_file=plan,
        budget=budget,
        size_texts=size or [],
        out=out,
        again=again,
    )


@app.command(
    epilog="Examples:\n\n"
    "elbowroom evaluate alphafold-small --params runs/first\n\n"
    "elbowroom evaluate alphafold --params params_model_1.npz --data alignments/ --structures structures/\n\n"
    "elbowroom evaluate stormer --params runs/stormer --steps 10\n\n"
    "elbowroom evaluate aurora-small --params runs/weather --data era5_2020.zarr --climatology era5_climatology.zarr"
)
def evaluate(
    case: Case,
    params: Params,
    data: Annotated[
        Path | None,
        typer.Option(help="Proteins with known structures, or weather; the embedded held-out data when left out."),
    ] = None,
    structures: Structures = None,
    climatology: Annotated[
        Path | None,
        typer.Option(
            help="Weather: WeatherBench 2's climatology, or a series whose mean at each hour of the day is taken."
        ),
    ] = None,
    steps: Steps = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Weather: hours between starts; all that can be when left out.")
    ] = None,
    budget: Budget = None,
    size: SizeOption = None,
    out: Annotated[Path, typer.Option(help="Folder for table, rows and plots.")] = Path("evaluation"),
    as_json: Json = False,
) -> None:
    """Predict what is known, and score it beside predictors that know little.

    Structures: lDDT, TM-score, GDT-TS and contacts beside an untrained model and a constant guess. Weather: RMSE, bias,
    MAE and anomaly correlation by variable, level and lead time beside persistence and climatology.
    """
    from elbowroom.studies.commands import run_evaluate

    run_evaluate(
        case,
        parameters=params,
        data=data,
        structures=structures,
        climatology=climatology,
        steps=steps,
        every=every,
        budget=budget,
        size_texts=size or [],
        out=out,
        as_json=as_json,
    )


@app.command(epilog="Examples:\n\nelbowroom export runs/first --out params_mine.npz")
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
) -> None:
    """Write a run's parameters, averaged where it keeps an average, under the names of those published."""
    from elbowroom.studies.commands import run_export

    run_export(run, out)


@app.command(epilog="Examples:\n\nelbowroom demo\n\nelbowroom demo --out my_results --json")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for table, plot and runs.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Train on embedded proteins, plain and inside a memory budget that plain training breaks; under 10 minutes."""
    from elbowroom.studies.commands import run_demo

    run_demo(out, as_json=as_json)


@app.command(epilog="Examples:\n\nelbowroom reproduce frontier\n\nelbowroom reproduce offload --out mine --json")
def reproduce(
    study: Annotated[
        Literal["frontier", "offload", "weather"],
        typer.Argument(
            help="frontier: the largest AlphaFold steps that fit a card; offload: what leaves a device for the host; "
            "weather: Aurora trained whole on smaller cards."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for table, plot and plans.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Make the numbers of a study again, with the compilers of cards. Interrupted, the same command goes on."""
    from elbowroom.studies.reproduce.command import run_reproduce

    run_reproduce(study, out, as_json=as_json)


def main() -> None:
    """Entry point of the console script."""
    app()


def _say(line: str) -> None:
    print(" ".join(line.split()), file=sys.stderr)


def _one_line_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    _say(f"warning: {message}")

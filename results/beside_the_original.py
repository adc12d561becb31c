"""A train step of four true-size Evoformer blocks: this project beside the original AlphaFold 2 code, on this machine.

    pip install dm-haiku dm-tree ml-collections
    pip install --no-deps alphafold-colabfold==2.3.6   # or the original itself
    python results/beside_the_original.py

Same parameters, same inputs, Adam, float32, recompute of whole blocks on in the original. Steps are taken in turns.
Writes `beside_the_original.md` and `.json` beside this file.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.models.alphafold.config import monomer
from elbowroom.models.alphafold.evoformer import EvoformerBlock
from elbowroom.models.alphafold.weights import load_published
from elbowroom.models.stack import run_stack, stack
from elbowroom.studies.provenance import provenance, provenance_line
from elbowroom.studies.table import Column, markdown_table

BLOCKS, SEQUENCES, CROPS, REPEATS = 4, 64, (128, 192), 5
PLANS = (Plan(recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=16)), Plan(chunk=Chunk(rows=16)))
ADAM = optax.adam(1e-3, eps=1e-6)
COLUMNS = (
    Column("crop", lambda r: r["crop"]),
    Column("code", lambda r: r["code"]),
    Column("step", lambda r: r["seconds"], lambda s: f"{s:.2f} s"),
    Column("time / original", lambda r: r["time_ratio"], lambda r: f"{r:.2f}"),
    Column("temporaries", lambda r: r["temporaries"], format_size),
    Column("temporaries / original", lambda r: r["memory_ratio"], lambda r: f"{r:.3f}"),
    Column("loss difference", lambda r: r["loss_difference"], lambda d: f"{d:.1e}"),
    Column("gradient difference", lambda r: r["gradient_difference"], lambda d: f"{d:.1e}"),
)

type Loss = Callable[[Any, dict[str, jax.Array]], jax.Array]


def inputs(crop: int) -> dict[str, jax.Array]:
    rng = np.random.default_rng(0)
    shapes = {"msa": (SEQUENCES, crop, 256), "pair": (crop, crop, 128)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    masks = {"msa_mask": rng.random((SEQUENCES, crop)) < 0.9, "pair_mask": rng.random((crop, crop)) < 0.9}
    return {name: jnp.asarray(array, jnp.float32) for name, array in {**arrays, **masks}.items()}


def original() -> tuple[Loss, Callable[[dict[str, jax.Array]], Any]]:
    """The loss of the original stack, and what makes its parameters."""
    try:
        hk = import_module("haiku")
        names = ("config", "layer_stack", "modules", "prng")
        config, layer_stack, modules, prng = (import_module(f"alphafold.model.{name}") for name in names)
    except ImportError as error:
        sys.exit(f"the original is not here ({error}); the first lines of this script say how to install it")
    # The original calls what newer versions of jax have renamed or taken away.
    namespace: dict[str, Any] = jax.__dict__
    namespace.setdefault("tree_map", jax.tree.map)
    namespace.setdefault("util", SimpleNamespace(wraps=lambda function, docstr: wraps(function)))
    settings = config.model_config("model_1")
    block_config, shared = settings.model.embeddings_and_evoformer.evoformer, settings.model.global_config
    shared.deterministic, shared.zero_init = True, False
    for side in ("outgoing", "incoming"):  # the published monomer parameters are not fused, whatever a copy's default
        block_config[f"triangle_multiplication_{side}"].fuse_projection_weights = False

    def forward(batch: dict[str, jax.Array]) -> jax.Array:
        masks = {"msa": batch["msa_mask"], "pair": batch["pair_mask"]}

        def block(x: Any) -> Any:
            activations, key = x
            key, own = key.split()
            iteration = modules.EvoformerIteration(block_config, shared, is_extra_msa=False, name="evoformer_iteration")
            return iteration(activations, masks, is_training=True, safe_key=own), key

        start = {"msa": batch["msa"], "pair": batch["pair"]}, prng.SafeKey(hk.next_rng_key())
        out, _ = layer_stack.layer_stack(BLOCKS)(hk.remat(block))(start)
        return jnp.square(out["msa"]).mean() + jnp.square(out["pair"]).mean()

    transformed, key = hk.transform(forward), jax.random.PRNGKey(0)

    def parameters(batch: dict[str, jax.Array]) -> Any:
        """Random everywhere: the original starts biases, gates and norms at constants."""
        leaves, structure = jax.tree.flatten(jax.eval_shape(transformed.init, key, batch))
        rng = np.random.default_rng(1)
        return structure.unflatten(
            [jnp.asarray(rng.normal(size=leaf.shape) / max(leaf.shape[1:]) ** 0.5, jnp.float32) for leaf in leaves]
        )

    return lambda parameters, batch: transformed.apply(parameters, key, batch), parameters


def ours(published: dict[str, np.ndarray]) -> tuple[Callable[[Plan], Loss], Any]:
    """The same stack with the original's parameters: its loss under a plan, and the parameters."""
    blocks = stack(lambda rngs: EvoformerBlock(monomer(), extra=False, rngs=rngs), BLOCKS, rngs=nnx.Rngs(0))
    load_published(blocks, published, prefix="")
    graph, parameters = nnx.split(blocks)

    def under(plan: Plan) -> Loss:
        def loss(parameters: Any, batch: dict[str, jax.Array]) -> jax.Array:
            msa_mask, pair_mask = batch["msa_mask"] > 0, batch["pair_mask"] > 0

            def call(block: EvoformerBlock, activations: Any, key: Any) -> Any:
                msa, pair = activations
                return block(msa, pair, msa_mask, pair_mask, key, plan)

            start = batch["msa"], batch["pair"]
            msa, pair = run_stack(nnx.merge(graph, parameters), call, start, None, plan)
            return jnp.square(msa).mean() + jnp.square(pair).mean()

        return loss

    return under, parameters


class Running:
    """A compiled train step with its state."""

    def __init__(self, loss: Loss, parameters: Any, batch: dict[str, jax.Array]) -> None:
        def step(parameters: Any, moments: Any, batch: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(parameters, batch)
            update, moments = ADAM.update(gradient, moments)
            return optax.apply_updates(parameters, update), moments, value

        self.batch, self.state = batch, (parameters, ADAM.init(parameters))
        self.executable = jax.jit(step, donate_argnums=(0, 1)).lower(*self.state, batch).compile()
        analysis: Any = self.executable.memory_analysis()
        self.temporaries = analysis.temp_size_in_bytes
        self.state = jax.tree.map(jnp.copy, self.state)  # what the step gives up must not be another run's
        self.loss = self.take()
        # After one step of Adam the first moment is a tenth of the gradient.
        self.gradient = 10 * np.concatenate([np.ravel(g) for g in _in_order(self.state[1][0].mu)])

    def take(self) -> float:
        *state, value = self.executable(*self.state, self.batch)
        self.state = tuple(state)
        return float(value)

    def seconds(self) -> float:
        began = time.perf_counter()
        self.take()
        return time.perf_counter() - began


def _in_order(tree: Any) -> list[np.ndarray]:
    """Arrays by their published names, whichever of the two codes holds them."""
    return [np.asarray(array) for _, array in sorted(_named(tree).items())]


def _named(tree: Any) -> dict[str, Any]:
    if isinstance(tree, nnx.State):
        flat = nnx.to_flat_state(tree)
        return {"/".join(map(str, path[:-1])) + f"//{path[-1]}": leaf.get_value() for path, leaf in flat}
    return {
        f"{module.split('evoformer_iteration/')[-1]}//{name}": array
        for module, arrays in tree.items()
        for name, array in arrays.items()
    }


def rows_at(crop: int) -> list[dict[str, Any]]:
    batch = inputs(crop)
    loss, make = original()
    parameters = make(batch)
    under, own = ours({name: np.asarray(array) for name, array in _named(parameters).items()})
    base = Running(loss, parameters, batch)
    rows = [{"crop": crop, "code": "original, recompute on"} | _figures(base, base)]
    for plan in PLANS:
        print(f"crop {crop}: {plan}", file=sys.stderr, flush=True)
        rows.append({"crop": crop, "code": f"elbowroom, {plan}"} | _figures(Running(under(plan), own, batch), base))
    return rows


def _figures(one: Running, base: Running) -> dict[str, float]:
    loss, gradient = one.loss, one.gradient
    pairs = [(one.seconds(), base.seconds()) for _ in range(REPEATS)]
    return {
        "seconds": statistics.median(own for own, _ in pairs),
        "time_ratio": statistics.median(own / other for own, other in pairs),
        "temporaries": one.temporaries,
        "memory_ratio": one.temporaries / base.temporaries,
        "loss_difference": abs(loss - base.loss) / abs(base.loss),
        "gradient_difference": float(np.linalg.norm(gradient - base.gradient) / np.linalg.norm(base.gradient)),
    }


def main() -> None:
    rows = [row for crop in CROPS for row in rows_at(crop)]
    report = {"rows": rows, "provenance": provenance()}
    page = Path(__file__)
    page.with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    page.with_suffix(".md").write_text(
        f"""# Beside the original code

One train step of {BLOCKS} Evoformer blocks of true size, {SEQUENCES} MSA rows, float32, Adam: the haiku modules of
AlphaFold 2 with `is_training` and recompute on, and ours with the same parameters on the same inputs. Medians of
{REPEATS} steps taken in turns; temporaries are the compiler's account; differences are relative, the gradient's that
of all parameters together. Written by `beside_the_original.py`.

{markdown_table(COLUMNS, rows)}

{provenance_line(report["provenance"])}
""",
        encoding="utf-8",
    )
    print(page.with_suffix(".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()

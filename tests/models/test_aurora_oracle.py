"""Aurora reproduces every stage, output and gradient of the original, and takes the original's parameters.

Tolerances: the references' own float32 noise is up to 1e-5 of their RMS; ten times that, and for gradients 1e-3.
"""

import json
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aurora_oracle import (
    arrays,
    beside,
    cases,
    config,
    history,
    model,
    normalised,
    parameter,
    statistics,
    where_and_when,
)
from flax import nnx
from oracle_folders import OWN

from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.models.aurora.config import pretrained, small
from elbowroom.models.aurora.encodings import _patches, root_area
from elbowroom.models.aurora.model import Aurora, Weather
from elbowroom.models.aurora.weights import published_arrays, published_shapes
from elbowroom.models.aurora.windows import OUTSIDE, windows_of

pytestmark = pytest.mark.xdist_group("aurora oracle")
EXACT = Plan(recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=2))
PLANS = {"plain": Plan(), "every exact technique": EXACT}


@pytest.fixture(params=cases(), ids=lambda path: path.stem)
def case(request):
    return request.param


def close(got, want, share=1e-4):
    """Equal within a share of the reference's RMS."""
    want = np.asarray(want, np.float64)
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=share * np.sqrt(np.mean(want**2)))


def examples(case):
    return range(len(arrays(case)["inputs/lead_time_hours"]))


def prefixed(case, prefix):
    return {k.removeprefix(prefix): v for k, v in arrays(case).items() if k.startswith(prefix)}


@partial(jax.jit, static_argnames=("graph", "how"))
def compiled(graph, parameters, *given, how):
    return nnx.merge(graph, parameters)(*given, *how)


def run(module, *given, how):
    """A module's result, compiled once for all modules of the same kind and shapes; `how` is what is not an array."""
    return compiled(*nnx.split(module), *given, how=how)


@cache
def ran(case, plan=PLANS["plain"], variant=None, **changes):
    """Every example's prediction."""
    ours = model(case, variant, **changes)
    return [run(ours, history(case, i), where_and_when(case, i), how=(plan,)) for i in examples(case)]


def fields(case, weather: Weather, prefix: str):
    """Pairs of a predicted field and the reference's name for it."""
    for kind, names, found in (
        ("surf", config(case).surface, weather.surface),
        ("atmos", config(case).atmosphere, weather.atmosphere),
    ):
        yield from ((f"{prefix}{kind}/{name}", found[i]) for i, name in enumerate(names))


def compare(case, predictions, prefix, share=1e-4):
    held, compared = arrays(case), 0
    for example, weather in enumerate(predictions):
        for name, field in fields(case, weather, prefix):
            if name in held:
                close(field, held[name][example], share)
                compared += 1
    assert compared >= len(predictions)


def test_normalised_inputs_are_the_references(case):
    held, compared = arrays(case), 0
    for name in (name for name in held if name.startswith("norm/")):
        np.testing.assert_allclose(normalised(case, *name.split("/")[1:], "float32"), held[name], rtol=1e-6, atol=1e-6)
        compared += 1
    assert compared


def test_encodings_are_the_references_to_the_last_digit(case):
    held = arrays(case)
    for i in examples(case):
        made = where_and_when(case, i)
        rows, columns = len(made.latitude), len(made.longitude)
        halves = [
            np.broadcast_to(half, (rows, columns, half.shape[-1]))
            for half in (made.latitude[:, None], made.longitude[None])
        ]
        whole = np.concatenate(halves, axis=-1)
        area = np.broadcast_to(made.area, (rows, columns, made.area.shape[-1]))
        for got, name in (
            (whole.reshape(rows * columns, -1), "enc/fourier_pos"),
            (area.reshape(rows * columns, -1), "enc/fourier_scale"),
            (made.level, "enc/fourier_atmos_levels"),
            (made.lead_time, "enc/fourier_lead_time"),
            (made.date, "enc/fourier_absolute_time"),
        ):
            want = held[name] if name not in ("enc/fourier_lead_time", "enc/fourier_absolute_time") else held[name][i]
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-7)


def test_the_root_of_a_patchs_area_is_the_references(case):
    held, patch = arrays(case), config(case).patch
    latitudes = held["inputs/lat"].astype(np.float64)
    rows = _patches(latitudes[: len(latitudes) // patch * patch], patch)
    columns = _patches(held["inputs/lon"].astype(np.float64), patch)
    got = np.broadcast_to(root_area(rows, columns), held["enc/root_area_km"].shape)
    np.testing.assert_allclose(got, held["enc/root_area_km"], rtol=1e-14)


def test_windows_shifts_and_masks_are_the_references(case):
    held = arrays(case)
    for name in (name for name in held if name.endswith("/resolution_window_shift")):
        resolution, window, shift = held[name].tolist()
        windows = windows_of(tuple(resolution), config(case).window)
        assert (windows.window, windows.shift) == (tuple(window), tuple(shift))
        (a, b, c), (d, e, f) = windows.counts, windows.window
        numbers = windows.groups().reshape(a, d, b, e, c, f).transpose(0, 2, 4, 1, 3, 5).reshape(a * b * c, d * e * f)
        apart = numbers[:, :, None] != numbers[:, None, :]
        mask = held[name.replace("resolution_window_shift", "mask")]
        np.testing.assert_array_equal(np.where(apart, -100, 0), mask)
        assert (numbers == OUTSIDE).sum() == numbers.size - np.prod(resolution)


def tokens_of(array):
    return array.reshape(-1, array.shape[-1])


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_stage_is_the_references(case, plan):
    held, sizes, ours = arrays(case), config(case), model(case)
    for i in examples(case):
        where, given = where_and_when(case, i), history(case, i)
        tokens = run(ours.encoder, *given, where, how=(plan,))
        close(tokens_of(tokens), held["enc/out"][i])
        context = ours.backbone.time_mlp["0"](jnp.asarray(where.lead_time))
        context = ours.backbone.time_mlp["2"](jax.nn.silu(context))
        close(context, held["backbone/context"][i])
        found = walk(ours.backbone, tokens, context, sizes.window, plan)
        for name, got in found.items():
            close(tokens_of(got), held[f"backbone/{name}"][i])


def walk(backbone, tokens, context, window, plan):
    """The backbone block by block, as its stages run them in one loop, by the references' names."""
    found, skips = {}, []
    for side, stages in (("enc", backbone.encoder_layers), ("dec", backbone.decoder_layers)):
        for number, stage in enumerate(stages):
            windows = windows_of(tokens.shape[:3], window)
            graph, stacked = nnx.split(stage.blocks)
            for index in range(jax.tree.leaves(stacked)[0].shape[0]):
                block = jax.tree.map(lambda leaf, index=index: np.asarray(leaf)[index], stacked)
                shifted = jnp.asarray(index % 2 == 1)
                tokens = compiled(graph, block, tokens, context, shifted, how=(windows, plan))
                found[f"{side}{number}/block{index}"] = tokens
            if side == "enc":
                skips.append(tokens)
                if hasattr(stage, "downsample"):
                    tokens = found[f"enc{number}/down"] = run(stage.downsample, tokens, how=())
            elif hasattr(stage, "upsample"):
                finer = skips[len(skips) - 2 - number]
                tokens = found[f"dec{number}/up"] = run(stage.upsample, tokens, how=(finer.shape[:3],))
                tokens = tokens + finer if number > 0 else tokens
    return {**found, "out": jnp.concatenate([tokens, skips[0]], axis=-1)}


def test_patches_and_levels_are_the_references(case):
    held, ours = arrays(case), model(case)
    encoder, patch = ours.encoder, config(case).patch
    for i in examples(case):
        given, where = history(case, i), where_and_when(case, i)
        ground, fixed, air = (
            jnp.moveaxis(x.reshape(*x.shape[:-2], -1, patch, x.shape[-1]), -3, 0)
            for x in (given.surface, given.static, given.atmosphere)
        )
        repeated = jnp.broadcast_to(fixed[:, :, None], (*fixed.shape[:2], ground.shape[2], *fixed.shape[2:]))
        variables = (*config(case).surface, *config(case).static)
        surface = encoder.surf_token_embeds(jnp.concatenate([ground, repeated], axis=1), variables)
        close(tokens_of(surface), held["enc/surf_patch_embed"][i])
        lifted = surface + encoder.surf_level_encoding[...][None, None]
        close(tokens_of(encoder.surf_norm(encoder.surf_mlp(lifted))), held["enc/surf_mlp_norm"][i])
        level = encoder.atmos_levels_embed(jnp.asarray(where.level))
        latents = jnp.moveaxis(encoder.latent_tokens(air, level), 1, 2)
        want = held["enc/level_agg_out"]
        close(latents.reshape(-1, *want.shape[1:]), want.reshape(len(examples(case)), -1, *want.shape[1:])[i])


def test_level_queries_and_decoded_levels_are_the_references(case):
    held, decoder = arrays(case), model(case).decoder
    for i in examples(case):
        queries = decoder.atmos_levels_embed(jnp.asarray(where_and_when(case, i).query))
        close(queries, held["dec/level_queries"])
        latent = held["backbone/out"][i].reshape(config(case).latent_levels, -1, held["backbone/out"].shape[-1])
        context = jnp.moveaxis(jnp.asarray(latent[1:]), 0, 1)
        got = decoder.level_decoder(jnp.broadcast_to(queries, (len(context), *queries.shape)), context)
        want = held["dec/level_decoder_out"].reshape(len(examples(case)), -1, *queries.shape)[i]
        close(got, want)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_predictions_are_the_references(case, plan):
    compare(case, ran(case, plan), "out/")


def test_predictions_in_physical_units_are_the_references(case):
    held, compared = arrays(case), 0
    for i, weather in enumerate(ran(case)):
        for name, field in fields(case, weather, "physical/"):
            if name in held:
                mean, scale = statistics(case, *name.split("/")[1:])
                # One rounding of the mean, which is hundreds of times what the model predicts.
                want, rounding = held[name][i], 4 * np.finfo(np.float32).eps * np.abs(held[name][i]).max()
                atol = 1e-4 * float(np.max(scale)) + rounding
                np.testing.assert_allclose(np.asarray(field) * scale + mean, want, rtol=0, atol=atol)
                compared += 1
    assert compared


def test_the_second_step_of_a_roll_out_is_the_references(case):
    ours, held = model(case), arrays(case)
    compared = 0
    for i, first in enumerate(ran(case)):
        given = history(case, i).after(first), where_and_when(case, i, steps=1)
        second = run(ours, *given, how=(PLANS["plain"],))
        for name, field in fields(case, second, "rollout2/"):
            if name in held:
                mean, scale = statistics(case, *name.split("/")[1:])
                close(field, (held[name][i] - mean) / scale, 1e-3)  # physical values have lost digits
                compared += 1
    assert compared


@pytest.mark.parametrize(
    ("variant", "changes"), [("lora", ("lora_rank", "lora_alpha")), ("stabilised", ("stabilised",))]
)
def test_variants_are_the_references(case, variant, changes):
    told = beside(case, "config")["lora"]
    values = {"lora_rank": told["r"], "lora_alpha": float(told["alpha"]), "stabilised": True}
    predictions = ran(case, Plan(), variant, **{name: values[name] for name in changes})
    compare(case, predictions, f"{variant}/")


def targets(case, example: int) -> Weather:
    held, sizes = arrays(case), config(case)
    return Weather(
        np.stack([held[f"targets/surf/{name}"][example] for name in sizes.surface]),
        np.stack([held[f"targets/atmos/{name}"][example] for name in sizes.atmosphere]),
    )


def reference_loss(found: Weather, target: Weather, latitudes):
    """Mean over variables of the mean of w |out - target|, w = cos(latitude) over its mean."""
    cosine = np.cos(np.deg2rad(latitudes[: found.surface.shape[-2]].astype(np.float64)))
    weight = jnp.asarray(cosine / cosine.mean(), found.surface.dtype)
    means = [
        jnp.einsum("v...ab,a->v...b", jnp.abs(field - want), weight).mean(range(1, field.ndim - 1)) / field.shape[-2]
        for field, want in zip(found, target, strict=True)
    ]
    return jnp.concatenate(means).mean()


@cache
def gradients(case, plan, dtype="float32"):
    """Loss and the gradients of parameters and given fields, mean over examples."""
    graph, parameters = nnx.split(model(case), nnx.Param)
    latitudes = arrays(case)["inputs/lat"]

    @jax.jit
    @partial(jax.value_and_grad, argnums=(0, 1))
    def step(parameters, given, where, target):
        found = nnx.merge(graph, parameters)(given, where, plan)
        return reference_loss(found, target, latitudes) / len(examples(case))

    # In numpy: jax would compile each conversion and each sum for every shape.
    cast = partial(jax.tree.map, lambda leaf: np.asarray(leaf, dtype))
    found = [
        step(*map(cast, (parameters, history(case, i, dtype), where_and_when(case, i), targets(case, i))))
        for i in examples(case)
    ]
    values, pairs = zip(*found, strict=True)
    of_parameters, of_fields = zip(*pairs, strict=True)
    total = jax.tree.map(lambda *parts: sum(map(np.asarray, parts)), *of_parameters)
    return sum(values), total, of_fields


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_gradients_are_the_references(case, plan):
    held = arrays(case)
    value, gradient, given = gradients(case, plan)
    np.testing.assert_allclose(value, held["loss"], rtol=1e-5)
    found = {name: np.asarray(array, np.float64) for name, array in published_arrays(gradient).items()}
    assert found.keys() == set(held["grad/names"].tolist())
    for name, norm in zip(held["grad/names"].tolist(), held["grad/norms"], strict=True):
        np.testing.assert_allclose(np.linalg.norm(found[name]), norm, rtol=1e-4, err_msg=name)
    for name, array in prefixed(case, "grad/full/").items():
        close(found[name], array, 1e-3)
    variable = config(case).surface.index("2t")
    _, scale = statistics(case, "surf", "2t")
    for i in examples(case):
        seen = np.asarray(given[i].surface[variable]) / scale
        want = held["grad/inputs/surf/2t"][i]
        close(seen, want[:, : seen.shape[1]], 1e-3)


def test_outputs_loss_and_gradients_in_float64_are_the_references(case):
    held = arrays(case)
    with jax.enable_x64(True):
        plan = Plan.from_dict({"precision": {"compute": "float64"}})
        value, gradient, _ = gradients(case, plan, "float64")
        np.testing.assert_allclose(value, held["float64/loss"], rtol=1e-8)
        found = published_arrays(gradient)
        for name, norm in zip(held["grad/names"].tolist(), held["float64/grad/norms"], strict=True):
            np.testing.assert_allclose(np.linalg.norm(np.asarray(found[name])), norm, rtol=1e-7, err_msg=name)


def test_parameters_are_made_by_the_references_rule(case):
    for names in beside(case, "params").values():
        for name, entry in names.items():
            made = parameter(name, tuple(entry["shape"]))
            assert made.flat[0] == np.float32(entry["first"])
            np.testing.assert_allclose(made.sum(dtype=np.float64), entry["sum"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("preset", "key"), [(pretrained, "pretrained"), (small, "small_pretrained")])
def test_names_and_shapes_of_the_published_sizes_are_the_published_ones(preset, key):
    listed = OWN / "aurora" / "params_true_size.json"
    want = {name: tuple(shape) for name, shape in json.loads(listed.read_text())[key].items()}
    assert published_shapes(nnx.eval_shape(lambda: Aurora(preset(), rngs=nnx.Rngs(0)))) == want

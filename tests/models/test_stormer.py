"""Stormer computes what the paper's equations say, written once more with numpy in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_stormer import GRID, SIZES, example, forecast, forecast_of, tiny_model

from elbowroom.memory.plan import Plan, Precision
from elbowroom.models.published import WeightsError
from elbowroom.models.stormer.config import StormerConfig, published, small
from elbowroom.models.stormer.embed import patches_of
from elbowroom.models.stormer.losses import weighted_square_error
from elbowroom.models.stormer.model import Stormer
from elbowroom.models.stormer.weights import load_published, published_arrays, published_names

FLOAT32 = pytest.mark.xdist_group("stormer float32")


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, epsilon):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)


def read(query, key, value):
    """One head: every query's mean of the values, weighted by the softmax of its scores."""
    scores = np.exp(query @ key.T / math.sqrt(query.shape[-1]))
    return scores / scores.sum(-1, keepdims=True) @ value


def heads_read(query, key, value):
    width = query.shape[-1] // SIZES.heads
    cuts = [slice(h * width, (h + 1) * width) for h in range(SIZES.heads)]
    return np.concatenate([read(query[:, c], key[:, c], value[:, c]) for c in cuts], axis=1)


def reference_token(p, patches, place):
    """One patch: every variable's points as a token, and what the query reads from these."""
    tokens = []
    for v, points in enumerate(patches):
        kernel = p[f"embedding.token_embeds.{v}.proj.weight"][:, 0]
        token = np.einsum("cpq,pq->c", kernel, points) + p[f"embedding.token_embeds.{v}.proj.bias"]
        tokens.append(token + p["embedding.channel_embed"][0, v] + p["embedding.pos_embed"][0, place])
    weights = np.split(p["embedding.channel_agg.in_proj_weight"], 3)
    biases = np.split(p["embedding.channel_agg.in_proj_bias"], 3)
    inputs = (p["embedding.channel_query"][0], np.array(tokens), np.array(tokens))
    query, key, value = (x @ w.T + b for x, w, b in zip(inputs, weights, biases, strict=True))
    out = linear(p, "embedding.channel_agg.out_proj", heads_read(query, key, value))[0]
    return layer_norm(out, 1e-5) * p["embed_norm_layer.weight"] + p["embed_norm_layer.bias"]


def reference_block(p, tokens, lead):
    shift1, scale1, gate1, shift2, scale2, gate2 = np.split(linear(p, "adaLN_modulation.1", lead), 6)
    query, key, value = np.split(linear(p, "attn.qkv", layer_norm(tokens, 1e-6) * (1 + scale1) + shift1), 3, axis=1)
    tokens = tokens + gate1 * linear(p, "attn.proj", heads_read(query, key, value))
    hidden = gelu(linear(p, "mlp.fc1", layer_norm(tokens, 1e-6) * (1 + scale2) + shift2))
    return tokens + gate2 * linear(p, "mlp.fc2", hidden)


def reference(p, state, lead_hours):
    """The whole forward pass on a complete state, patch by patch; parameters by their published names."""
    size, missing = SIZES.patch, -SIZES.latitudes % SIZES.patch
    padded = np.zeros((SIZES.channels, SIZES.latitudes + missing, SIZES.longitudes))
    padded[:, missing:] = state
    corners = [(y, x) for y in range(0, padded.shape[1], size) for x in range(0, padded.shape[2], size)]
    patches = [padded[:, y : y + size, x : x + size] for y, x in corners]
    tokens = np.array([reference_token(p, patch, place) for place, patch in enumerate(patches)])
    lead = silu(linear(p, "t_embedder.mlp", np.array([lead_hours / 10])))
    for number in range(SIZES.depth):
        prefix = f"blocks.{number}."
        own = {name.removeprefix(prefix): array for name, array in p.items() if name.startswith(prefix)}
        tokens = reference_block(own, tokens, lead)
    shift, scale = np.split(linear(p, "head.adaLN_modulation.1", lead), 2)
    out = linear(p, "head.linear", tokens * (1 + scale) + shift)
    changes = np.zeros_like(padded)
    for (y, x), token in zip(corners, out, strict=True):
        changes[:, y : y + size, x : x + size] = np.moveaxis(token.reshape(size, size, SIZES.channels), 2, 0)
    return changes[:, missing:]


@pytest.mark.xdist_group("stormer float64")
@pytest.mark.parametrize("lead_hours", [6.0, 24.0])
def test_a_forecast_equals_the_equations_in_float64(lead_hours):
    """1e-12 of the largest value: some thousand operations of float64."""
    parameters = {name: np.float64(array) for name, array in published_arrays(tiny_model()).items()}
    given = example()
    want = reference(parameters, np.where(given["mask"], np.float64(given["state"]), 0), lead_hours)
    with jax.enable_x64(True):
        doubled = {**example("float64"), "state": jnp.asarray(np.float64(given["state"]))}
        doubled["lead_hours"] = jnp.asarray(lead_hours, "float64")
        got = forecast(Plan(precision=Precision(compute="float64")), doubled, "float64")
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())


@FLOAT32
def test_what_stands_at_unknown_points_does_not_matter():
    given = example()
    assert jnp.isnan(given["state"]).any()
    other = {**given, "state": jnp.where(given["mask"], given["state"], 1e6)}
    want, got = (forecast(Plan(), one) for one in (given, other))
    assert jnp.isfinite(want).all()
    assert (got == want).all()


@FLOAT32
def test_another_lead_time_is_another_forecast_at_every_point():
    given = example()
    day = forecast(Plan(), given | {"lead_hours": jnp.float32(24.0)})
    assert (jnp.abs(day - forecast(Plan(), given)) > 1e-4).all()


def test_latitudes_that_make_no_whole_patches_get_zeros_before_the_first():
    """The equations above cut them off again."""
    given, columns = example(), SIZES.longitudes // SIZES.patch
    patches = patches_of(given["state"], jnp.ones(GRID, bool), SIZES.patch)
    assert patches.shape == (3 * columns, SIZES.channels, 4)
    assert not patches[:columns, :, :2].any()
    np.testing.assert_array_equal(patches[0, :, 2:], given["state"][:, 0, :2])
    np.testing.assert_array_equal(patches[columns, 1], given["state"][1, 1:3, :2].reshape(-1))


@FLOAT32
def test_a_fresh_model_forecasts_no_change():
    fresh = nnx.state(Stormer(SIZES, rngs=nnx.Rngs(0)), nnx.Param)
    assert not forecast_of(Plan())(fresh, example()).any()


def test_the_published_model_has_469_million_parameters():
    """468.8 million, counted in the published code by its authors' configuration."""
    model = nnx.eval_shape(lambda: Stormer(published(), rngs=nnx.Rngs(0)))
    shapes = published_names(model)
    assert sum(math.prod(shape) for shape in shapes.values()) == 468_751_636
    assert shapes["embedding.pos_embed"] == (1, 8192, 1024)
    assert shapes["embedding.token_embeds.68.proj.weight"] == (1024, 1, 2, 2)
    assert shapes["blocks.23.mlp.fc1.weight"] == (4096, 1024)
    assert shapes["head.linear.weight"] == (276, 1024)


def test_position_embeddings_start_from_sines_of_column_and_row():
    position = Stormer(SIZES, rngs=nnx.Rngs(0)).embedding.pos_embed[...]
    columns = SIZES.longitudes // SIZES.patch
    at = 1 * columns + 3
    want = [f(place * rate) for place in (3, 1) for f in (math.sin, math.cos) for rate in (1, 0.01)]
    np.testing.assert_allclose(position[at], want, rtol=1e-6)


def test_published_names_round_trip():
    model, fresh = tiny_model(), Stormer(SIZES, rngs=nnx.Rngs(0))
    arrays = published_arrays(model)
    assert {name: array.shape for name, array in arrays.items()} == published_names(model)
    load_published(fresh, arrays)
    want, got = (jax.tree.leaves(nnx.state(m, nnx.Param)) for m in (model, fresh))
    assert all((a == b).all() for a, b in zip(want, got, strict=True))


def test_parameters_that_do_not_fit_are_all_named():
    given = published_arrays(tiny_model())
    given["blocks.3.attn.qkv.bias"] = given.pop("blocks.2.attn.qkv.bias")
    given["embedding.pos_embed"] = given["embedding.pos_embed"][:, :-1]
    with pytest.raises(WeightsError) as error:
        load_published(tiny_model(), given)
    assert str(error.value).splitlines()[1:] == [
        "  missing blocks.2.attn.qkv.bias",
        "  not part of the model: blocks.3.attn.qkv.bias",
        "  embedding.pos_embed has shape (1, 11, 8), expected (1, 12, 8)",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"longitudes": 255}, "longitudes = 255 is not a multiple of patch = 2"),
        ({"heads": 3}, "width = 1024 is not a multiple of heads = 3"),
        ({"width": 6, "heads": 3}, "width = 6 is not a multiple of 4"),
    ],
)
def test_impossible_sizes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        StormerConfig(**wrong)


def test_the_small_model_is_made_for_five_degrees():
    assert (small().latitudes, small().longitudes) == (32, 64)


def test_the_loss_is_the_weighted_mean_over_known_points():
    given = {name: np.asarray(array) for name, array in example().items()}
    predicted = np.random.default_rng(3).standard_normal(GRID).astype(np.float32)
    total = weight = 0.0
    for v, y, x in np.argwhere(given["true_mask"]):
        own = float(given["channel_weights"][v]) * float(given["latitude_weights"][y])
        total += own * (float(predicted[v, y, x]) - float(given["true"][v, y, x])) ** 2
        weight += own
    assert float(loss(predicted, given)) == pytest.approx(total / weight, rel=1e-6)


def test_a_state_of_which_nothing_is_known_has_no_loss_and_no_gradient():
    given = example() | {"true": jnp.full(GRID, jnp.nan), "true_mask": jnp.zeros(GRID, bool)}
    value, gradient = jax.value_and_grad(loss)(jnp.ones(GRID), given)
    assert value == 0
    assert (gradient == 0).all()


def loss(predicted, given):
    names = "true", "true_mask", "latitude_weights", "channel_weights"
    return weighted_square_error(jnp.asarray(predicted), *(jnp.asarray(given[name]) for name in names))

"""Every exact technique gives the plain model's loss and the plain gradient of every parameter."""

import jax
import jax.numpy as jnp
import pytest
from tiny_alphafold import loss_alone, loss_and_gradient

from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute

# The plain program is compiled once for all tests of a group, which run in one process.
FLOAT32, FLOAT64 = pytest.mark.xdist_group("float32"), pytest.mark.xdist_group("float64")
# No size divides the 11 residues, 5 sequences or 7 extra sequences it cuts.
PLANS = {
    "recompute saving names": Plan(recompute=Recompute(blocks=True, save=("pair_transition", "msa_in"))),
    "nested recompute, a smaller last group": Plan(recompute=Recompute(blocks=True, groups=2)),
    "chunked rows": Plan(chunk=Chunk(rows=3)),
    "chunked attention": Plan(chunk=Chunk(queries=4, keys=3)),
    "all together": Plan(
        recompute=Recompute(blocks=True, modules=True, groups=2), chunk=Chunk(rows=4, queries=3, keys=4)
    ),
}


def relative_errors(plan: Plan, dtype: str) -> dict[str, float]:
    """L2 distance from the plain gradient, by parameter, in units of its L2 norm.

    Some parameters shift all logits of a softmax alike: their true gradient is zero and both sides hold rounding, so
    it is measured in units of the gradient of their layer's other parameter.
    """
    plain = Plan(precision=Precision(compute=dtype))
    (want_loss, want), (got_loss, got) = loss_and_gradient(plain, dtype), loss_and_gradient(plan, dtype)
    errors = {"loss": abs(float(got_loss / want_loss) - 1)}
    for path, array in want.items():
        errors[path] = float(jnp.linalg.norm(got[path] - array) / jnp.linalg.norm(want[measured_by(path)]))
    return errors


def measured_by(path: str) -> str:
    if "feat_2d_norm" in path:
        return path.replace("offset", "scale")
    return path.replace("bias", "weights") if "attention_2d" in path else path


@FLOAT32
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float32(plan):
    errors = relative_errors(plan, "float32")
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] <= 1e-5, f"{worst}: {errors[worst]:.1e}"


@FLOAT64
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float64(plan):
    with jax.enable_x64(True):
        doubled = Plan(precision=Precision(compute="float64"), recompute=plan.recompute, chunk=plan.chunk)
        errors = relative_errors(doubled, "float64")
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] <= 1e-12, f"{worst}: {errors[worst]:.1e}"


@FLOAT32
def test_dropout_is_in_force_where_the_techniques_were_compared():
    """The comparisons above ran with dropout: other masks give another loss, so masks were drawn and agreed."""
    assert loss_and_gradient(Plan())[0] != loss_and_gradient(Plan(), seed=4)[0]


@FLOAT32
def test_no_gradient_is_zero_where_the_techniques_were_compared():
    """A zero gradient would equal any other zero, whatever the technique did."""
    _, gradient = loss_and_gradient(Plan())
    assert [path for path, array in gradient.items() if not array.any()] == []


@FLOAT32
def test_bfloat16_stays_near_float32_and_changes_the_numbers():
    """bfloat16 holds 8 bits: with random parameters through five blocks the loss moves by well under 5 %."""
    exact, _ = loss_and_gradient(Plan())
    rounded = loss_alone(Plan(precision=Precision(compute="bfloat16")))
    assert 0 < abs(float(rounded / exact) - 1) < 0.05

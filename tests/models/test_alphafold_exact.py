"""Every exact technique gives the plain model's loss and the plain gradient of every parameter."""

import pytest
from exactness import require_exact
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


def measured_by(path: str) -> str:
    """The parameter whose gradient's norm is the unit of another's: of itself, save for some of the templates.

    They shift all logits of a softmax alike: their true gradient is zero and both sides hold rounding, so it is
    measured in units of the gradient of their layer's other parameter.
    """
    if "feat_2d_norm" in path:
        return path.replace("offset", "scale")
    return path.replace("bias", "weights") if "attention_2d" in path else path


@FLOAT32
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float32(plan):
    require_exact(loss_and_gradient, plan, "float32", measured_by=measured_by)


@FLOAT64
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_loss_and_every_gradient_equal_the_plain_model_in_float64(plan):
    require_exact(loss_and_gradient, plan, "float64", measured_by=measured_by)


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

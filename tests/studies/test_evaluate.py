"""Held-out scores: the mean, an interval that covers it, and the prior on the same examples."""

import numpy as np
import pytest
from rich.console import Console

from elbowroom.memory.plan import Plan, Recompute
from elbowroom.studies.evaluate import model_scores, prior_scores, score_of
from elbowroom.studies.train import train


def test_the_interval_has_the_width_of_the_standard_error():
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    score = score_of(values)
    half_width = 1.96 * values.std() / np.sqrt(len(values))
    assert score.mean == pytest.approx(values.mean())
    assert score.high - score.mean == pytest.approx(half_width, rel=0.1)  # 10,000 draws of a normal sample
    assert score.mean - score.low == pytest.approx(half_width, rel=0.1)
    assert score.examples == 400


def test_one_example_has_no_width():
    score = score_of(np.asarray([2.0]))
    assert (score.mean, score.low, score.high, score.examples) == (2.0, 2.0, 2.0, 1)


def test_a_trained_model_beats_the_prior_on_held_out_examples(training, toy):
    run = training(steps=60)
    state = train(run, Console(quiet=True))
    held_out = toy.held_out(toy.demo("held_out"), run.sizes)
    scores = model_scores(toy, run.sizes, run.plan, state.parameters, held_out)
    prior = prior_scores(toy.prior(run.records), held_out)
    assert len(scores) == len(prior) == 6
    assert scores.mean() < 0.5 * prior.mean()


def test_the_memory_plan_does_not_change_a_score(training, toy):
    run = training(steps=1)
    state = train(run, Console(quiet=True))
    held_out = toy.held_out(toy.demo("held_out"), run.sizes)
    plain, recomputed = (
        model_scores(toy, run.sizes, plan, state.parameters, held_out)
        for plan in (Plan(), Plan(recompute=Recompute(blocks=True)))
    )
    np.testing.assert_allclose(recomputed, plain, rtol=1e-6)

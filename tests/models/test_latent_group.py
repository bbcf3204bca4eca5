"""The latent-group model: samplers that agree, Dawid and Skene's model, cartels, starts."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from gradients import assert_gradient
from grouped_crowds import GROUPS, crowd

import bayesfuse as bf
from bayesfuse.inference.begin import Beginning
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import LatentGroup
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True, "cores": 1}


@pytest.fixture(scope="module")
def three_classes():
    responses, _, _ = crowd(np.random.default_rng(6), 150, 3)
    frame = responses.to_frame()
    frame = pd.concat([frame, frame.iloc[::9]])
    return bf.Responses.from_long(frame, items=range(152), raters=range(10), classes=range(3))


@pytest.mark.parametrize(
    "mode",
    ["FAST_COMPILE", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("NUMBA", "JAX"))],
)
def test_gradients_are_right_in_every_backend(three_classes, mode):
    model = LatentGroup(three_classes, GROUPS, gold={0: 1})
    assert_gradient(model, mode=mode, every=3, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rates_are_conditional_probabilities(n_classes):
    """Against the truth and against the verdict, at parameters drawn from the prior."""
    blank = bf.Responses.from_matrix([[0, 0, 0, 0]], classes=range(n_classes))
    model = LatentGroup(blank, [[0, 2]])
    names = ["prevalence", "group_confusion", "rater_confusion", "confusion"]
    names += ["sensitivity", "specificity", "verdict_sensitivity", "verdict_specificity"]
    drawn = dict(zip(names, pm.draw([model[n] for n in names], random_seed=2), strict=True))
    prevalence, outer, inner = drawn["prevalence"], drawn["group_confusion"][0], drawn[names[2]]
    whole = np.where(np.array([1, 0, 1, 0])[:, None, None], outer @ inner, inner)
    assert_close(drawn["confusion"], whole, "confusion")
    for prefix, rows, group_share in (
        ("", whole, prevalence),
        ("verdict_", inner, prevalence @ outer),
    ):
        for rater, share in enumerate([group_share, prevalence] * 2):
            for k in [1] if n_classes == 2 else range(n_classes):
                place = (rater,) if n_classes == 2 else (rater, k)
                alarm = share @ rows[rater, :, k] - share[k] * rows[rater, k, k]
                right = rows[rater, k, k], 1 - alarm / (1 - share[k])
                for name, rate in zip(("sensitivity", "specificity"), right, strict=True):
                    assert_close(drawn[prefix + name][place], rate, prefix + name)


def test_chains_begin_apart_and_with_one_vote_per_group():
    responses, _, _ = crowd(np.random.default_rng(1), 50)
    model = LatentGroup(responses, [[0, 1, 2], [3, 4]])
    plan = make_plan(model)
    observation = plan.observation
    votes = observation.raters.votes(observation.table)
    item = responses.item
    sources = model.groups.assignment[responses.rater]
    n = int(np.argmax(responses.per_item))
    alone = (sources[item == n] < 0).sum()
    assert votes[observation.inverse[n]].sum() == pytest.approx(alone + 2)
    begun, rng = Beginning(plan, "moments"), np.random.default_rng(1)
    one, other = (begun.rows(rng) for _ in range(2))
    assert not np.allclose(one["group_confusion"], other["group_confusion"])

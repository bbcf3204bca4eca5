"""The value of one more response where items have types, against sums over classes and types."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayesfuse as bf
from bayesfuse.models import ItemTypes

QUIET = {"progressbar": False, "quiet": True}
DRAWS = 6


@pytest.fixture(scope="module")
def fit():
    """Seven items, four raters, two classes; one item is known, one has no responses."""
    matrix = [[0, 0, 1, -1], [1, -1, 1, -1], [0, 1, -1, -1], [0, 0, -1, 0], [1, 1, 0, -1]]
    matrix += [[-1, 1, -1, 1], [-1, -1, -1, -1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    model = ItemTypes(responses, types=3, gold={4: 1})
    return model, bf.sample(model, DRAWS, tune=10, chains=1, random_seed=1, **QUIET)


def joint_by_hand(model, result, n, m):
    """p(class, response of m to n | responses): the sum over all classes and types."""
    responses, draws = model.responses, result["posterior"].dataset.isel(chain=0)
    own = responses.item == n
    joint = np.zeros((2, 2))
    for draw in range(DRAWS):
        at = draws.isel(draw=draw)
        both = np.zeros((2, 2))
        for z, k in product(range(3), range(2)):
            if n == 4 and k == 0:  # known
                continue
            weight = at["type_share"].values[z] * at["class_of_type"].values[z, k]
            row = at["type_confusion"].values[:, z]
            weight *= row[responses.rater[own], responses.label[own]].prod()
            both[k] += weight * row[m]
        joint += both / both.sum() / DRAWS
    return joint


@pytest.mark.parametrize("of", ["errors", "entropy"])
def test_values_are_those_of_sums_over_classes_and_types(fit, of):
    model, result = fit
    asked = [0, 1, 2, 3]
    found = bf.decisions.value_of_response(
        result, model, raters=asked, most=4, of=of, repeats=True, draws=DRAWS
    )
    for n in range(7):
        own = found.isel(item=n)
        value = dict(zip(own["rater"].values.tolist(), own["value"].values, strict=True))
        for m in asked:
            joint = joint_by_hand(model, result, n, m)
            label, said = joint.sum(axis=1), joint.sum(axis=0)
            if of == "errors":
                now, gain = 1 - label.max(), joint.max(axis=0).sum() - label.max()
            else:
                now = stats.entropy(label)
                some = joint > 0
                gain = (joint[some] * np.log(joint[some] / np.outer(label, said)[some])).sum()
            assert value[m] == pytest.approx(gain, abs=1e-9)
            assert float(own["now"]) == pytest.approx(now, abs=1e-9)
    assert np.abs(found["value"][4]).max() < 1e-12  # all is known of it


def test_a_response_about_a_hard_item_is_worth_less_than_if_raters_erred_independently():
    """Four responses show that the item is hard, so that a fifth helps little."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1, -1]], classes=[0, 1])
    rows = np.tile([[0.95, 0.05], [0.05, 0.95], [0.6, 0.4]], (5, 1, 1))
    share = np.array([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    values = []
    for typed in (True, False):
        with pm.Model() as model:
            prevalence = pm.Dirichlet("prevalence", [1e6, 1e6])
            channel = (
                bf.TypedConfusion(share, rows)
                if typed
                else bf.Confusion(np.einsum("kz,mzc->mkc", share, rows))
            )
            bf.observe(responses, labels=bf.Independent(prevalence), raters=channel)
        result = bf.find_map(model)
        found = bf.decisions.value_of_response(result, model, raters=[4], most=1, of="entropy")
        values.append(float(found["value"][0, 0]))
    assert values[0] < 0.2 * values[1]


def test_ranks_and_errors_are_of_the_labels(fit):
    model, result = fit
    ranked = bf.decisions.rank_items(result)
    probability = bf.label_probabilities(result)
    assert ranked["error"].tolist() == sorted(1 - probability.max("class").values, reverse=True)
    expected = bf.decisions.expected_errors(result, model, draws=3000, random_seed=1, ci_prob=0.9)
    assert float(expected["expected"]) == pytest.approx(ranked["error"].sum())
    drawn = bf.draw_labels(result, model, 3000, random_seed=2).values
    wrong = (drawn != probability.values.argmax(axis=1)).sum(axis=1)
    error = wrong.std() / np.sqrt(len(wrong))
    assert abs(wrong.mean() - ranked["error"].sum()) < 4.5 * error
    inside = (float(expected["low"]) <= wrong) & (wrong <= float(expected["high"]))
    assert inside.mean() > 0.88

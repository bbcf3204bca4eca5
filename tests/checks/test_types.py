"""Hard items are noticed by models without types, which verdicts name, and fit those with types."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import bayesfuse as bf
from bayesfuse.checks import rater_pairs, replicates
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True, "log_likelihood": False}


def hard_half(n_items=400, n_raters=8):
    """Raters are right with probability 0.95 or, on half of the items, 0.55."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, n_items)
    accuracy = np.where(rng.random(n_items) < 0.5, 0.55, 0.95)
    right = rng.random((n_items, n_raters)) < accuracy[:, None]
    return bf.Responses.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]))


@pytest.fixture(scope="module")
def hard():
    return hard_half()


def fitted(model, draws=150):
    return bf.sample(model, draws, chains=2, random_seed=1, **QUIET)


@pytest.mark.slow
def test_hard_items_point_to_item_types_which_fit(hard):
    model = DawidSkene(hard)
    found = bf.checks.item_difficulty(fitted(model), model, random_seed=1).attrs
    assert found["p_value"] < 0.02
    assert found["verdict"].endswith("Try bayesfuse.models.ItemTypes.")
    model = ItemTypes(hard)
    result = fitted(model)
    found = bf.checks.item_difficulty(result, model, random_seed=1).attrs
    assert found["p_value"] > 0.05 and "ItemTypes" not in found["verdict"]
    assert not bf.checks.conditional_dependence(result, model, random_seed=1)["unusual"].any()
    assert bf.checks.pairwise_agreement(result, model, random_seed=1).attrs["p_value"] > 0.02


def test_labels_in_sequence_keep_their_prior(hard):
    model = HiddenMarkov(hard, bf.Sequences.from_lengths([400]))
    found = bf.checks.item_difficulty(bf.find_map(model), model, random_seed=1).attrs
    assert "bayesfuse.TypedConfusion with" in found["verdict"]


def test_verdicts_of_shared_mistakes():
    """By many raters: hard items; by a few: these, or a source; with types: a source."""
    matrix = np.zeros((4, 10), dtype=int)
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    plain, typed = (observed(kind(responses))[1] for kind in (DawidSkene, ItemTypes))
    few, many = [["a", "b"]], [list("abcdef")]
    words = rater_pairs._in_words
    assert words([], 45, plain) == "No pair of 45 shares more mistakes than the model expects."
    said = words(few, 45, plain)
    assert said.index("bayesfuse.models.ItemTypes") < said.index("bayesfuse.models.LatentGroup")
    assert words(many, 45, plain).endswith("(see item_difficulty): try bayesfuse.models.ItemTypes.")
    assert words(few, 45, typed).endswith("share a source: try bayesfuse.models.LatentGroup.")
    assert "more types of items (types=)" in words(many, 45, typed)


def test_common_mistakes_of_types_are_as_probable_as_simulated_ones():
    rng = np.random.default_rng(4)
    n_items, n_raters, n_classes, n_types = 40_000, 3, 3, 4
    responses = bf.Responses.from_matrix(
        np.zeros((n_items, n_raters), dtype=int), classes=range(n_classes)
    )
    model = ItemTypes(responses, types=n_types)
    observation = replicates.expanded(observed(model)[1])
    values = {
        "prevalence": rng.dirichlet(np.ones(n_classes)),
        "share": rng.dirichlet(np.ones(n_types), n_classes),
        "type_confusion": rng.dirichlet(np.ones(n_classes), (n_raters, n_types)),
    }
    rows = observation.rows(values)
    truth, label = observation.simulate(rows, rng)
    first, second = np.array(list(combinations(range(n_raters), 2))).T
    chance = rater_pairs._common_mistake(observation, rows, first, second)
    said = label.reshape(n_items, n_raters)
    for p, (a, b) in enumerate(zip(first, second, strict=True)):
        for k in range(n_classes):
            own = truth == k
            seen = np.sum((said[own, a] == said[own, b]) & (said[own, a] != k))
            assert stats.binomtest(int(seen), int(own.sum()), chance[p, k]).pvalue > 1e-5


@pytest.mark.slow
def test_alarms_of_item_types_are_seldom_false():
    """Twenty data sets of item types: no check rejects more than its nominal rate allows."""
    alarms = {"mistakes": 0, "items": 0}
    n_sets = 20
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        looks = rng.beta(6, 2, 10)
        consensus = np.array([[0.97, 0.03], [0.03, 0.97], [0.6, 0.4]])
        kind = rng.choice(3, 200, p=[0.4, 0.35, 0.25])
        sees = rng.random((200, 10)) < looks
        said = rng.random((200, 10)) < np.where(sees, consensus[kind, 1][:, None], 0.5)
        model = ItemTypes(bf.Responses.from_matrix(said.astype(int)))
        result = fitted(model, 100)
        mistakes = bf.checks.conditional_dependence(result, model, draws=100, random_seed=seed)
        items = bf.checks.item_difficulty(result, model, draws=100, random_seed=seed)
        alarms["mistakes"] += bool(mistakes["unusual"].any())
        alarms["items"] += items.attrs["p_value"] < 0.05
    print(alarms)
    assert max(alarms.values()) <= stats.binom.ppf(0.999, n_sets, 0.05), alarms

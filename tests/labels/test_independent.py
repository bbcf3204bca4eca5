"""Independent labels with one prevalence, one per population, or one per item."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from gradients import assert_gradient
from scipy.special import log_softmax

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.observation import Observation
from bayesfuse.testing import assert_close, check_label_prior

POPULATION = np.array([1, 0, 3, 1, 1])
"""Of five items; nobody is of the third population."""
SHARES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4], [0.05, 0.9, 0.05]])


def five(seed=1):
    """Responses of three raters, some missing, one given twice."""
    table = np.random.default_rng(seed).integers(-1, 3, (5, 3))
    return bf.Responses.from_matrix(table, classes=range(3))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["population", "item", "log-odds of populations", "of items"])
def test_labels_against_enumeration(kind, n_classes):
    rng = np.random.default_rng(n_classes)
    rows = {True: 4, False: 5}["population" in kind]
    place = POPULATION if rows == 4 else None
    values = rng.normal(0, 1.5, (rows, n_classes))
    if "of" in kind:
        prior = bf.Independent(log_odds=pt.as_tensor(values), population=place)
        given = values
    else:
        prior = bf.Independent(pt.as_tensor(np.exp(log_softmax(values, axis=1))), population=place)
        given = log_softmax(values, axis=1)
    responses = bf.Responses.from_matrix(np.zeros((5, 1), int), classes=range(n_classes))
    tables = prior.expand((given,), n_classes, np)
    assert_close(tables[0], log_softmax(values, axis=1), "table")
    log_lik = np.random.default_rng(n_classes).normal(0, 2, (5, n_classes))
    log_lik[1, 1], log_lik[2] = -np.inf, log_lik[2] - 5000.0
    check_label_prior(prior, tables, log_lik, prior.structure(responses))
    share = np.exp(tables[0])[prior.structure(responses)[1]].mean(axis=0)
    value = values if "of" in kind else np.exp(given)
    found = prior.prevalence((value,), n_classes, prior.structure(responses), np)
    assert_close(found, share, "share of every class")


CONFUSION = np.tile([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], (3, 1, 1))


def observe(labels, responses=None, gold=None):
    table = five() if responses is None else responses
    return Observation.build(table, labels, bf.Confusion(CONFUSION), gold)


def evaluated(observation, labels):
    values = {k: np.asarray(v) for k, v in labels.parameters.items()}
    rows = observation.rows(values | {"confusion": CONFUSION})
    found = observation.marginal(rows)
    return found.total, observation.by_item(found.probability)


def many(n_items=300, seed=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n_items), bf.Responses.from_matrix(
        rng.integers(0, 3, (n_items, 3)), classes=range(3)
    )


@pytest.mark.parametrize("constant", [False, True])
def test_equal_items_are_merged_within_populations(constant):
    population, responses = many()
    labels = (
        bf.Independent(SHARES[population])
        if constant
        else bf.Independent(SHARES, population=population)
    )
    merged = observe(labels, responses)
    assert merged.table.n_items <= 4 * 27 < responses.n_items
    total, probability = evaluated(merged, labels)
    apart = sum(
        evaluated(observe(labels, responses.take(np.flatnonzero(population == p))), labels)[0]
        for p, share in enumerate(SHARES)
        for labels in [bf.Independent(share)]
    )
    assert_close(total, apart, "evidence")
    one = observe(bf.Independent(SHARES[2]), responses.take(np.flatnonzero(population == 2)))
    _, others = evaluated(one, bf.Independent(SHARES[2]))
    assert_close(probability[population == 2], others, "labels")


def test_merged_items_are_counted_by_population():
    """Counts of labels drawn for merged items have the expected counts as their mean."""
    population, responses = many()
    labels = bf.Independent(SHARES, population=population)
    seen, rng = observe(labels, responses), np.random.default_rng(0)
    rows = seen.rows({"prevalence": SHARES, "confusion": CONFUSION})
    _, expected = seen.expected(rows)
    drawn = np.array(
        [seen.tally(rows, seen.draw(rows, rng), rng)["prevalence"] for _ in range(500)]
    )
    np.testing.assert_array_equal(drawn.sum(axis=2), np.tile(np.bincount(population), (500, 1)))
    error = np.maximum(drawn.std(axis=0), 0.1) / np.sqrt(500)
    assert (np.abs(drawn.mean(axis=0) - expected["prevalence"]) < 5 * error).all()


def test_batches_keep_their_populations():
    population, responses = many(40)
    whole = observe(bf.Independent(SHARES, population=population), responses)
    units = np.array([3, 0, 7])
    part = whole.part(units)
    rows = part.rows({"prevalence": SHARES, "confusion": CONFUSION})
    one, other = part.marginal(rows), whole.marginal(rows)
    assert_close(one.probability, other.probability[units], "labels")


def test_gradients_of_log_odds():
    with pm.Model() as model:
        effect = pm.Normal("effect", shape=(5, 3))
        bf.observe(five(), labels=bf.Independent(log_odds=effect),
                   raters=bf.Confusion(np.tile(np.eye(3) * 0.4 + 0.2, (3, 1, 1))))  # fmt: skip
    assert [v.name for v in make_plan(model).others] == ["effect"]
    assert_gradient(model, spread=1.0)


BAD = {
    "both": (lambda: bf.Independent(SHARES[0], log_odds=SHARES[0]), "one of the two"),
    "too few": (lambda: bf.Independent(SHARES, population=[0, 1]), "Got: 2 for 5 items"),
    "fractions": (lambda: bf.Independent(SHARES, population=np.ones(5)), "float64 values"),
    "below zero": (lambda: bf.Independent(SHARES, population=[0, 1, -1, 0, 0]), "Got: -1"),
    "no row": (lambda: bf.Independent(pt.as_tensor(SHARES[:2]), population=POPULATION),
               r"4 populations, 3 classes\). Got: shape \(2, 3\)"),
    "items": (lambda: bf.Independent(pt.as_tensor(SHARES)), r"5 items, 3 classes"),
    "no sum": (lambda: bf.Independent(2 * SHARES, population=POPULATION), "sum to one"),
    "missing": (lambda: bf.Independent(log_odds=np.full((5, 3), np.nan)), "finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused(name):
    make, match = BAD[name]
    with pytest.raises(ModelError, match=match), pm.Model():
        bf.observe(five(), labels=make(), raters=bf.OneCoin(np.full(3, 0.7)))

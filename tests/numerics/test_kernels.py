"""The kernels, and draws of concentrations, against enumeration, calculus and quadrature."""

import numpy as np
import pytest
from scipy.special import gammaln
from typed_crowds import random_rows

import bayesfuse as bf
from bayesfuse.numerics.kernels import TINY
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.tables import _draw_n_tables, draw_shared
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.simplex import PROBABILITY
from bayesfuse.testing import assert_close, assert_frequencies, check_label_prior


def log_rows(shape, seed):
    return np.log(random_rows(shape, seed))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_usual_numbers_of_classes_are_drawn_as_all_others(n_classes):
    """A class that never occurs takes the draw to the loop over classes and changes no label."""
    rng = np.random.default_rng(n_classes)
    prevalence, likelihood = rng.dirichlet(np.ones(n_classes), 3), rng.random((500, n_classes))
    place = rng.integers(0, 3, 500).astype(np.int32)
    prior, structure = bf.build.Independent(None, population=place), (np.ones(500), place)
    wider = np.append(likelihood, np.ones((500, 1)), axis=1)
    never = np.append(prevalence, np.zeros((3, 1)), axis=1)
    likelihood[7] = wider[7] = 1e-300  # which underflows
    with np.errstate(divide="ignore"):
        both = [
            prior.draw((np.log(rows),), given, structure, np.random.default_rng(1))
            for rows, given in ((prevalence, likelihood), (never, wider))
        ]
    np.testing.assert_array_equal(*both)
    assert set(both[0].tolist()) == set(range(n_classes))


@pytest.mark.parametrize("by_class", [True, False])
def test_one_coin_is_a_tied_confusion(by_class):
    """Of three classes; counts of the tied rows are the adjoint (chain rule)."""
    rng = np.random.default_rng(1)
    accuracy = rng.uniform(0.2, 0.9, (4, 3) if by_class else 4)
    channel, rows = bf.build.OneCoin(accuracy), PROBABILITY.to_kernel(accuracy)
    (confusion,) = channel.expand((rows,), 3, np)
    right = accuracy if by_class else np.repeat(accuracy[:, None], 3, axis=1)
    tied = np.where(np.eye(3) > 0, right[..., None], (1 - right[..., None]) / 2)
    assert_close(np.exp(confusion), tied, "rows")
    counts, direction = rng.random(confusion.shape), rng.normal(size=rows.shape)
    (moved,) = channel.expand((rows + direction,), 3, np)
    (found,) = channel.collapse((counts,))
    assert_close((found * direction).sum(), (counts * (moved - confusion)).sum(), "adjoint")


def test_multiplicity_is_honoured_by_draws():
    """Labels of an item that stands for many are multinomial with the right mean and variance."""
    responses = bf.Responses.from_counts({"01": 1000, "11": 500, "10": 1})
    observation = ResponseModel.build(
        responses, bf.build.Independent(None), bf.build.Confusion(None)
    )
    rows = {"prevalence": np.log([0.4, 0.6]), "confusion": log_rows((2, 2, 2), 5)}
    probability = observation.marginal(rows).probability
    rng = np.random.default_rng(1)
    drawn = np.array([observation.draw(rows, rng) for _ in range(2000)])
    count = responses.multiplicity
    assert (drawn.sum(axis=2) == count).all()
    variance = count * probability[:, 1] * probability[:, 0]
    error = np.sqrt(variance / 2000)
    assert (np.abs(drawn[:, :, 1].mean(axis=0) - count * probability[:, 1]) < 5 * error).all()
    # the variance of a sample variance of near-normal counts is 2 v² / n
    assert drawn[:, 0, 1].var() == pytest.approx(variance[0], rel=5 * np.sqrt(2 / 2000))


def test_zero_probabilities_are_legal_and_impossible_data_are_named():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1]], items=["first", "second"])
    observation = ResponseModel.build(
        responses, bf.build.Independent(None), bf.build.Confusion(None)
    )
    values = {
        "prevalence": np.array([0.5, 0.5]),
        "confusion": np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.1, 0.9]]]),
    }
    found = observation.marginal(observation.rows(values))
    assert_close(found.probability, [[1, 0], [0, 1]], "label probability")
    values["confusion"][1, 0] = 1.0, 0.0
    rows = observation.rows(values)
    with pytest.raises(bf.errors.ImpossibleDataError, match="item 'first'"):
        observation.draw(rows, np.random.default_rng(0))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6, 7, 8, 9])
def test_likelihoods_that_underflow_are_worked_out_in_logarithms(n_classes):
    """Items with hundreds of answers, next to items with few: one path or the other, one result."""
    rng = np.random.default_rng(n_classes)
    sizes = np.array([2, 900, 0, 3, 2000])
    item = np.repeat(np.arange(5), sizes)
    table = {
        "item": item,
        "rater": rng.integers(0, 7, len(item)),
        "label": rng.integers(0, n_classes, len(item)),
    }
    responses = bf.Responses.from_long(
        table, items=range(5), raters=range(7), classes=range(n_classes)
    )
    gold = np.array([-1, -1, -1, 1, 0])
    log_confusion = log_rows((7, n_classes, n_classes), 1)
    channel = bf.build.Confusion(None)
    structure = channel.structure(responses, gold)
    likelihood, log_scale = channel.likelihood_kernel(log_confusion, *structure)
    assert (log_scale[sizes > 500] < -500).all()
    assert (log_scale[sizes < 5] == 0).all()
    plain = np.zeros((5, n_classes))
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        plain[n] += log_confusion[m, :, c]
    plain[3:, :] = np.where(np.arange(n_classes) == gold[3:, None], plain[3:], -np.inf)
    seen = likelihood > TINY
    found = channel.log_lik((log_confusion,), structure)
    assert_close(found[seen], plain[seen], "log-likelihood")
    # what is possible, however unlikely, stays so
    assert_close(likelihood > 0, np.isfinite(plain), "possible classes")


@pytest.mark.parametrize("log_prevalence", [[0.0, -np.inf, -1.0], [0.0, -2000.0, -2001.0]])
def test_classes_of_little_prevalence_are_drawn_where_nothing_else_is_possible(log_prevalence):
    """And classes of none are never."""
    log_lik = np.log([[0.5, 0.2, 0.1], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    log_lik[1:, 0] = -np.inf
    structure = np.ones(3, int), np.zeros(3, np.int32)
    check_label_prior(bf.build.Independent(None), (np.array([log_prevalence]),), log_lik, structure)


def test_dirichlet_draws_have_their_moments_even_where_they_underflow():
    concentration = np.array([[0.001, 0.002, 0.005], [2.0, 3.0, 0.5]])
    rng = np.random.default_rng(4)
    rows = np.array([draw_dirichlet(concentration, rng) for _ in range(3000)])
    assert np.isfinite(rows).all()
    draws = np.exp(rows)
    total = concentration.sum(axis=1, keepdims=True)
    mean = concentration / total
    error = np.sqrt(mean * (1 - mean) / (total + 1) / len(draws))
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error).all()


GUESTS = np.array([[7.0, 1.0], [2.0, 3.0], [90.0, 15.0], [0.0, 0.0], [0.0, 4.0], [41.0, 40.0]])
PRIOR, SHAPE, RATE = np.array([2.0, 1.0]), 2.0, 0.3


def exactly():
    """Return posterior means of log κ and of the first share, and κ's of E[κ] and E[κ²]."""
    log_kappa = np.linspace(-6, 6, 500)[:, None, None]
    share = (np.arange(400) + 0.5)[:, None] / 400
    kappa = np.exp(log_kappa)
    log_weight = SHAPE * log_kappa - RATE * kappa
    log_weight = log_weight + (PRIOR[0] - 1) * np.log(share) + (PRIOR[1] - 1) * np.log1p(-share)
    total = GUESTS.sum(axis=1)
    log_weight = log_weight + gammaln(kappa) - gammaln(kappa + total)
    for part, own in ((share, GUESTS[:, 0]), (1 - share, GUESTS[:, 1])):
        log_weight = log_weight + gammaln(kappa * part + own) - gammaln(kappa * part)
    log_prior = (SHAPE * log_kappa - RATE * kappa)[..., 0]
    log_prior = log_prior + ((PRIOR - 1) * np.log(np.stack([share, 1 - share], -1))).sum(-1)[:, 0]
    parts = log_weight.sum(axis=-1) - (len(GUESTS) - 1) * log_prior
    weight = np.exp(parts - parts.max())
    weight /= weight.sum()
    return {
        "log κ": (weight.sum(axis=1) * log_kappa[:, 0, 0]).sum(),
        "(log κ)²": (weight.sum(axis=1) * log_kappa[:, 0, 0] ** 2).sum(),
        "share": (weight.sum(axis=0) * share[:, 0]).sum(),
        "share²": (weight.sum(axis=0) * share[:, 0] ** 2).sum(),
    }


def test_concentration_and_mean_have_their_posterior(n=4000):
    """Standard errors are those of the means of batches of draws."""
    rng = np.random.default_rng(1)
    kappa, mean, found = np.array(1.0), np.array([0.5, 0.5]), []
    for _ in range(n):
        kappa, tables = draw_shared(kappa, mean, GUESTS, SHAPE, RATE, rng)
        mean = np.exp(draw_dirichlet(PRIOR + tables, rng))
        found.append([np.log(kappa), np.log(kappa) ** 2, mean[0], mean[0] ** 2])
    batches = np.reshape(found, (40, -1, 4)).mean(axis=1)
    means, errors = batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(40)
    for (name, exact), mean, error in zip(exactly().items(), means, errors, strict=True):
        assert abs(mean - exact) < 5 * error + 1e-3, (name, mean, exact)


def test_numbers_of_tables_have_the_distribution_of_antoniak():
    """By unsigned Stirling numbers of the first kind; a dish of no weight opens a single table."""
    rng = np.random.default_rng(1)
    for n, opens in ((0, 2.0), (1, 3.0), (3, 0.5), (12, 0.1), (5, 8.0)):
        stirling = np.ones(1)
        for guests in range(n):
            stirling = np.append(0.0, stirling) + guests * np.append(stirling, 0.0)
        rising = gammaln(opens + n) - gammaln(opens)
        probability = stirling * np.exp(np.arange(n + 1) * np.log(opens) - rising)
        seen = [int(_draw_n_tables.py_func(n, opens, rng)) for _ in range(4000)]
        assert_frequencies(np.bincount(seen, minlength=n + 1).astype(float), probability, f"{n}")
    assert _draw_n_tables.py_func(50, 1e-300, rng) == 1.0

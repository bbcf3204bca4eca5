"""The kernels, and draws of concentrations, against enumeration, calculus and quadrature."""

import numpy as np
import pytest
from typed_crowds import random_rows

import bayesfuse as bf
from bayesfuse.numerics.kernels import TINY
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.simplex import PROBABILITY
from bayesfuse.testing import assert_close, check_label_prior


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

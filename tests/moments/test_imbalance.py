"""Class imbalance and accuracies: exact on populations, right on average on samples."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from binary_populations import (
    SENSITIVITY,
    SPECIFICITY,
    exact,
    messy,
    population,
    sample,
    two_class,
)

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, imbalance


@pytest.mark.parametrize("prevalence", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("method", "tolerance"), [("tensor", 1e-10), ("likelihood", 1e-6)])
def test_a_population_reveals_prevalence_and_accuracies(prevalence, method, tolerance):
    """The likelihood is flat at its maximum, which is found to the square root of rounding."""
    responses = exact([1 - prevalence, prevalence], two_class())
    found = imbalance.class_imbalance(responses, method)
    assert found.prevalence == pytest.approx(prevalence, abs=tolerance)
    quality = binary.accuracies(responses, method=method)
    np.testing.assert_allclose(quality.sensitivity, SENSITIVITY, atol=tolerance)
    np.testing.assert_allclose(quality.specificity, SPECIFICITY, atol=tolerance)
    given = binary.accuracies(responses, prevalence)
    np.testing.assert_allclose(given.sensitivity, SENSITIVITY, atol=1e-10)
    assert given.attrs == {"prevalence": prevalence, "method": "given", "positive": 1}


def test_triple_sums_are_those_over_triples():
    responses = messy()
    rng = np.random.default_rng(8)
    mean, v = rng.uniform(-0.5, 0.5, 5), rng.uniform(-0.2, 0.8, 5)
    multiplicity = rng.integers(0, 4, responses.n_items)
    answers = responses.to_frame().groupby(["item", "rater"]).label.mean().unstack()
    z = (2 * answers.to_numpy() - 1 - mean) * v
    wanted = np.zeros(2)
    for i, j, k in itertools.combinations(range(5), 3):
        product = z[:, i] * z[:, j] * z[:, k]
        wanted += (
            np.nansum(multiplicity * product),
            (np.sum(multiplicity[np.isfinite(product)]) * (v[i] * v[j] * v[k]) ** 2),
        )
    found = imbalance.triple_sums(replace(responses, multiplicity=multiplicity), mean, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_mixture_is_the_likelihood_of_every_response():
    responses = messy()
    table = imbalance.log_table(SENSITIVITY, SPECIFICITY)
    confusion = two_class()
    total = 0.0
    for n in range(responses.n_items):
        mine = responses.item == n
        chance = confusion[responses.rater[mine], :, responses.label[mine]].prod(0)
        total += np.log(0.6 * chance[0] + 0.4 * chance[1])
    found = imbalance.mixture(responses, table, np.log([0.6, 0.4]))
    assert found == pytest.approx(total / responses.n_items, rel=1e-12)


def test_third_moments_need_three_answers_to_an_item():
    """Raters meet in all pairs, but never three of them."""
    rng = np.random.default_rng(14)
    labels = sample(rng, 300, SENSITIVITY[:3], SPECIFICITY[:3], 0.4)
    labels[np.arange(300), np.arange(300) % 3] = -1
    responses = bf.Responses.from_matrix(labels)
    with pytest.raises(MomentsError, match=r"by three raters .* Got: none among 300 items"):
        imbalance.class_imbalance(responses, "tensor")
    with pytest.raises(MomentsError, match=r"method of class_imbalance .* Got: 'guess'"):
        imbalance.class_imbalance(population(), "guess")


def test_an_imbalance_at_the_edge_is_refused():
    rare = exact([0.997, 0.003], two_class(SENSITIVITY[:4], np.full(4, 0.99)))
    for method in ("likelihood", "tensor"):
        with pytest.raises(MomentsError, match=r"at the edge.* Got: imbalance -0\.99"):
            imbalance.class_imbalance(rare, method)
    found = binary.accuracies(rare, prevalence=0.003)
    np.testing.assert_allclose(found.sensitivity, SENSITIVITY[:4], atol=1e-6)

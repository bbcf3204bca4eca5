"""Profiles of items with several labels, against sums over all profiles and labels."""

from itertools import product

import numpy as np
import pytest

import bayesfuse as bf

ITEM, LABEL = [0, 0, 0, 1, 1], [0, 1, 2, 0, 2]


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(1)
    share, rate = rng.dirichlet(np.ones(3)), rng.uniform(0.05, 0.95, (3, 3))
    prior = bf.build.Profiles(share, rate, item=ITEM, label=LABEL)
    return prior, (share, rate), rng.random((5, 2))


def enumerated(share, rate, likelihood):
    """Return evidence, label probabilities, and expected counts of profiles and of labels."""
    total, probability = 0.0, np.zeros((5, 2))
    shares, rates = np.zeros(3), np.zeros((3, 3, 2))
    for labels in product((0, 1), repeat=5):
        for profiles in product(range(3), repeat=2):
            of_question = np.array(profiles)[ITEM]
            p = rate[of_question, LABEL]
            weight = share[list(profiles)].prod() * likelihood[range(5), labels].prod()
            weight *= np.where(labels, p, 1 - p).prod()
            total += weight
            probability[range(5), labels] += weight
            np.add.at(shares, list(profiles), weight)
            np.add.at(rates, (of_question, LABEL, 1 - np.array(labels)), weight)
    return total, probability / total, shares / total, rates / total


def tables(share, rate):
    return np.log(share), np.log(np.stack([rate, 1 - rate], axis=-1))


def test_marginal_is_the_sum_over_profiles_and_labels(parts):
    prior, values, likelihood = parts
    total, *exact = enumerated(*values, likelihood)
    scale = np.log(np.arange(1.0, 6.0))
    computed = prior.marginal(tables(*values), likelihood, scale, prior.structure(None))
    assert np.isclose(computed.total, np.log(total) + scale.sum())
    assert computed.log_evidence.sum() == pytest.approx(computed.total)
    for actual, reference in zip((computed.probability, *computed.expected), exact, strict=True):
        assert np.allclose(actual, reference)


def test_draws_have_the_probabilities_of_labels_and_profiles(parts):
    prior, values, likelihood = parts
    _, probability, shares, rates = enumerated(*values, likelihood)
    structure, rng = prior.structure(None), np.random.default_rng(2)
    drawn = [prior.draw(tables(*values), likelihood, structure, rng) for _ in range(2000)]
    counts = [prior.sample_counts(one, structure, 2) for one in drawn]
    draws = np.array([np.concatenate([a, b.ravel()]) for a, b in counts])
    draws = np.column_stack([np.array(drawn) % 2, draws])
    exact = np.concatenate([probability[:, 1], shares, rates.ravel()])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - exact) <= 4.5 * error + 1e-12).all()


def test_log_prob_and_decoded_labels(parts):
    prior, values, likelihood = parts
    structure = prior.structure(None)
    sets = [np.array(labels) for labels in product((0, 1), repeat=5)]
    log_prior = np.array([prior.log_prob(tables(*values), labels, structure) for labels in sets])
    assert np.exp(log_prior).sum() == pytest.approx(1.0)
    one = bf.build.Profiles(np.ones(1), values[1][:1], item=ITEM, label=LABEL)
    best = one.decode(tables(np.ones(1), values[1][:1]), likelihood, structure)
    weight = [
        one.log_prob(tables(np.ones(1), values[1][:1]), labels, structure)
        + np.log(likelihood[range(5), labels]).sum()
        for labels in sets
    ]
    assert best.tolist() == sets[int(np.argmax(weight))].tolist()


def test_one_profile_is_a_population_for_every_label(parts):
    _, (_, rate), likelihood = parts
    one = bf.build.Profiles(np.ones(1), rate[:1], item=ITEM, label=LABEL)
    rows = np.stack([1 - rate[0], rate[0]], axis=-1)
    independent = bf.build.Independent(rows, population=LABEL)
    table = bf.Responses.from_matrix(np.zeros((5, 1), dtype=int), classes=[0, 1])
    arguments = likelihood, np.zeros(5)
    profiles = one.marginal(tables(np.ones(1), rate[:1]), *arguments, one.structure(table))
    populations = independent.marginal((np.log(rows),), *arguments, independent.structure(table))
    assert np.allclose(profiles.probability, populations.probability)
    assert np.isclose(profiles.total, populations.total)


def test_impossible_labels_are_marked(parts):
    prior, values, likelihood = parts
    likelihood = likelihood.copy()
    likelihood[4] = 0.0
    structure = prior.structure(None)
    drawn = prior.draw(tables(*values), likelihood, structure, np.random.default_rng(0))
    assert (drawn[:3] >= 0).all() and (drawn[3:] == -1).all()
    computed = prior.marginal(tables(*values), likelihood, np.zeros(5), structure)
    assert computed.total == -np.inf and np.isfinite(computed.log_evidence[0])


def test_questions_of_an_item_are_in_a_row():
    with pytest.raises(bf.errors.ModelError, match="in a row"):
        bf.build.Profiles(np.ones(1), np.ones((1, 2)) / 2, item=[1, 0], label=[0, 1])

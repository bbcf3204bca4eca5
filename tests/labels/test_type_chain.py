"""Types in sequence: against a Markov chain of as many classes, and drawn types."""

import numpy as np
import pytest
from typed_crowds import random_crowd, random_rows

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.observation import ResponseModel
from bayesfuse.testing import assert_close, assert_frequencies

PATHS = bf.Sequences.from_lengths([5, 1, 4])
N_TYPES = 12


@pytest.fixture(scope="module")
def chain():
    """A chain of the types of two classes, log parameters, likelihoods of types, structure."""
    share, stay = random_rows((N_TYPES,), 1), random_rows((N_TYPES, 2), 2)
    prior = bf.build.TypeChain(share, stay[:, 0], PATHS, n_classes=2)
    table = bf.Responses.from_matrix(np.zeros((10, 1), dtype=int), classes=[0, 1])
    likelihood = np.random.default_rng(3).uniform(0.001, 1.0, (10, N_TYPES)) ** 3
    return prior, (np.log(share), np.log(stay)), likelihood, prior.structure(table)


def markov(log_parameters, likelihood, structure):
    """The same chain with all transitions written out."""
    share, stay = map(np.exp, log_parameters)
    transition = np.diag(stay[:, 0]) + stay[:, 1:] * share
    prior = bf.build.MarkovChain(share, transition, PATHS)
    rows = np.log(share), np.log(transition)
    return prior.marginal(rows, likelihood, np.zeros(10), structure)


def test_types_are_summed_out_as_in_a_markov_chain(chain):
    prior, log_parameters, likelihood, structure = chain
    computed = prior.marginal(log_parameters, likelihood, np.zeros(10), structure)
    expected = markov(log_parameters, likelihood, structure)
    for name in ("total", "log_evidence", "probability"):
        assert_close(getattr(computed, name), getattr(expected, name), name)


def test_expected_counts_are_the_derivative_of_the_log_evidence(chain):
    prior, log_parameters, likelihood, structure = chain
    counts = prior.marginal(log_parameters, likelihood, np.zeros(10), structure).expected
    step = 1e-5
    for number, table in enumerate(log_parameters):
        slope = np.empty_like(table)
        for at in np.ndindex(table.shape):
            totals = []
            for sign in (1, -1):
                moved = [values.copy() for values in log_parameters]
                moved[number][at] += sign * step
                totals.append(prior.marginal(moved, likelihood, np.zeros(10), structure).total)
            slope[at] = (totals[0] - totals[1]) / (2 * step)
        np.testing.assert_allclose(counts[number], slope, atol=1e-8)


def test_drawn_types_and_stays_have_their_expected_counts(chain):
    prior, log_parameters, likelihood, structure = chain
    exact = prior.marginal(log_parameters, likelihood, np.zeros(10), structure)
    rng, n_draws = np.random.default_rng(4), 4000
    drawn = [prior.draw(log_parameters, likelihood, structure, rng) for _ in range(n_draws)]
    for n in (0, 3, 5, 9):
        seen = np.bincount([labels[n] % N_TYPES for labels in drawn], minlength=N_TYPES)
        assert_frequencies(seen, exact.probability[n], f"types of item {n}")
    counts = [prior.sample_counts(labels, structure, 2) for labels in drawn]
    for sampled, expected in zip(zip(*counts, strict=True), exact.expected, strict=True):
        error = np.std(sampled, axis=0) / np.sqrt(n_draws)
        assert np.all(np.abs(np.mean(sampled, axis=0) - expected) < 5 * error + 0.005)


def test_a_type_that_never_stays_is_one_of_independent_items():
    """Without persistence, labels are those of item types without an order."""
    responses = random_crowd(10, 4, 2, seed=5)
    competence, guess = random_rows((4, 2), 6), random_rows((4, 2), 7)
    share = random_rows((N_TYPES,), 8)
    names = {"competence": competence[:, 0], "guess": guess}
    path = bf.Sequences.from_lengths([5, 6])
    labels = bf.build.TypeChain(share, np.zeros(N_TYPES), path, n_classes=2)
    raters = bf.build.ConsensusOfType(**names)
    gold = {responses.items[4]: responses.classes[1]}
    model = ResponseModel.build(responses, labels, raters, gold)
    computed = model.marginal(
        model.rows({"type_share": share, "persistence": np.zeros(12), **names})
    )
    joint = share[:, None] * labels.class_of_state
    prevalence = joint.sum(axis=0)
    alone = ResponseModel.build(
        responses,
        bf.build.Independent(prevalence),
        bf.build.Consensus((joint / prevalence).T, **names),
        gold,
    )
    values = {"prevalence": prevalence, "share": (joint / prevalence).T, **names}
    expected = alone.marginal(alone.rows(values))
    assert_close(computed.total, expected.total, "log evidence")
    assert_close(computed.probability, alone.by_item(expected.probability), "labels")


def test_a_prior_over_types_needs_its_channel():
    responses = random_crowd(10, 4, 2, seed=5)
    labels = bf.build.TypeChain(np.full(12, 1 / 12), np.full(12, 0.5), PATHS, n_classes=2)
    with pytest.raises(ModelError, match="TypeChain and Confusion"):
        ResponseModel.build(responses, labels, bf.build.Confusion(None))


def test_the_most_probable_types_are_those_of_all_paths():
    """The classes of the best of 12³ paths, by their probabilities."""
    path, rng = bf.Sequences.from_lengths([3]), np.random.default_rng(9)
    share, stay = random_rows((N_TYPES,), 10), random_rows((N_TYPES, 2), 11)
    prior = bf.build.TypeChain(share, stay[:, 0], path, n_classes=2)
    table = bf.Responses.from_matrix(np.zeros((3, 1), dtype=int), classes=[0, 1])
    likelihood = rng.uniform(0.001, 1.0, (3, N_TYPES)) ** 4
    step = np.diag(stay[:, 0]) + stay[:, 1:] * share
    first = share * likelihood[0]
    joint = first[:, None, None] * (step * likelihood[1])[:, :, None] * (step * likelihood[2])
    best = np.unravel_index(joint.argmax(), joint.shape)
    decoded = prior.decode((np.log(share), np.log(stay)), likelihood, prior.structure(table))
    assert decoded.tolist() == prior.class_of_state[list(best)].argmax(axis=1).tolist()
    values, vectors = np.linalg.eig(step.T)
    long_run = np.real(vectors[:, np.isclose(values, 1.0)][:, 0])
    expected = long_run / long_run.sum() @ prior.class_of_state
    np.testing.assert_allclose(prior.prevalence((share, stay[:, 0]), 2, (), np), expected)


def test_raters_of_types_are_as_good_as_their_labels():
    """Confusion matrices average types by their shares in the chain: as often right as observed."""
    rng = np.random.default_rng(12)
    truth = np.repeat(rng.integers(3, size=60), 10)
    accuracy = np.array([0.95, 0.9, 0.8, 0.7, 0.5])
    wrong = (truth[:, None] + rng.integers(1, 3, (600, 5))) % 3
    table = np.where(rng.random((600, 5)) < accuracy, truth[:, None], wrong)
    responses = bf.Responses.from_matrix(table, classes=[0, 1, 2])
    model = bf.models.HiddenMarkov(responses, bf.Sequences.from_lengths([100] * 6), raters="types")
    result = bf.find_map(model)
    stated = bf.rater_table(result).set_index("rater").sort_index()["accuracy"]
    observed = (table == truth[:, None]).mean(axis=0)
    np.testing.assert_allclose(stated, observed, atol=0.05)
    recall = np.diagonal(result["point"]["confusion"].values, axis1=1, axis2=2)
    np.testing.assert_allclose(recall.mean(axis=1), observed, atol=0.05)

"""Labels on a graph: kernels against enumeration, calculus, limits, chains and each other."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from communities import communities
from random_chains import random_log_lik, relative
from refusals import refused, refused_as
from scipy.special import gammaln, logsumexp

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import MarkovRandomField
from bayesfuse.testing import assert_close, assert_frequencies, check_label_prior, enumerate_labels

TREE = [(0, 1), (1, 2), (1, 3), (5, 4), (3, 6)]


def graphs():
    weights = [1.0, 0.5, 2.0, 1.0, 1.3]
    return {
        "tree": bf.Graph.from_edges(TREE, weights, items=range(8)),
        "grid": bf.Graph.grid((2, 4)),
        "weighted": bf.Graph.from_edges(
            [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 6), (6, 0)],
            [1.0, 0.5, 2.0, 1.0, 1.3, 0.7, 0.2],
            items=range(8),
        ),
        "eight": bf.Graph.grid((2, 4), neighbours=8),
    }


def table(n_items, n_classes):
    answers = np.zeros((n_items, 1), dtype=int)
    return bf.Responses.from_matrix(answers, classes=range(n_classes))


def unknown(graph, prevalence=None):
    """A prior whose coupling is to be inferred."""
    return bf.build.Potts(pt.dscalar("coupling"), graph, prevalence)


def case(name, n_classes, seed, *, prevalence=None):
    graph = graphs()[name]
    prior = unknown(graph, prevalence)
    structure = prior.structure(table(graph.n_items, n_classes))
    return prior, structure, random_log_lik(graph.n_items, n_classes, seed, spread=1.5)


@pytest.mark.parametrize(
    ("n_classes", "prevalence", "coupling"), [(2, [0.3, 0.7], 1.2), (3, None, 0.3)]
)
@pytest.mark.parametrize("name", graphs())
def test_potts_against_enumeration(name, n_classes, prevalence, coupling):
    """Draws everywhere, belief propagation on the tree."""
    prior, structure, log_lik = case(name, n_classes, 1, prevalence=prevalence)
    check_label_prior(prior, (np.array(coupling),), log_lik, structure, draws=600)


@pytest.mark.parametrize("name", ["tree", "weighted"])
def test_prior_sums_to_one(name):
    prior, structure, log_lik = case(name, 3, 1, prevalence=[0.2, 0.5, 0.3])
    for coupling in (0.05, 3.0):
        flat = np.zeros_like(log_lik)
        exact = enumerate_labels(prior, (np.array(coupling),), flat, structure)
        assert exact.total == pytest.approx(0.0, abs=1e-6)


def test_approximate_evidence_has_the_derivatives_it_claims():
    """By central differences in the coupling and the log-likelihoods."""
    prior, structure, log_lik = case("weighted", 3, 2)
    beta, step = 0.6, 1e-4

    def total(coupling, log_lik):
        return prior.marginal((np.array(coupling),), *relative(log_lik), structure).total

    found = prior.marginal((np.array(beta),), *relative(log_lik), structure)
    slope = (total(beta + step, log_lik) - total(beta - step, log_lik)) / (2 * step)
    assert found.expected[0] == pytest.approx(slope, abs=1e-6)
    for n, k in ((0, 1), (1, 2), (3, 0), (6, 1)):
        moved = [log_lik.copy(), log_lik.copy()]
        moved[0][n, k] += step
        moved[1][n, k] -= step
        slope = (total(beta, moved[0]) - total(beta, moved[1])) / (2 * step)
        assert found.probability[n, k] == pytest.approx(slope, abs=1e-6)


def test_belief_propagation_is_near_enumeration_on_a_grid():
    prior, structure, log_lik = case("grid", 2, 3)
    exact = enumerate_labels(prior, (np.array(0.5),), log_lik, structure)
    believed = prior.marginal((np.array(0.5),), *relative(log_lik), structure)
    assert not prior.capabilities.exact
    assert abs(believed.total - exact.total) < 0.05
    assert np.abs(believed.probability - exact.probability).max() < 0.02
    assert prior.converged((np.array(0.5),), relative(log_lik)[0], structure)


@pytest.mark.parametrize("prevalence", [None, [0.2, 0.3, 0.5]])
def test_drawn_edges_are_normalised_by_the_sizes_of_the_classes(prevalence):
    """By hand: labels of all items, and the log density of the coupling given labels."""
    pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]
    weights, coupling = np.array([1.0, 1.0, 0.5, 2.0, 1.0]), 1.7
    graph = bf.Graph.from_edges(pairs, weights)
    prior = bf.build.PlantedPotts(pm.HalfNormal.dist(3.0), graph, prevalence)
    rng = np.random.default_rng(2)
    likelihood, structure = rng.dirichlet(np.ones(3), 5), prior.structure(table(5, 3))
    at = (np.array(coupling),)

    def log_edges(labels, beta):
        same = np.array([labels[i] == labels[j] for i, j in pairs])
        share = sum(np.mean(labels == k) ** 2 for k in range(3))
        return (beta * weights * same - np.log1p(share * np.expm1(beta * weights))).sum()

    every = np.array(list(np.ndindex((3,) * 5)))
    log_joint = np.log(likelihood)[np.arange(5), every].sum(axis=1)
    for row, labels in enumerate(every):
        sizes = np.bincount(labels, minlength=3)
        shares = gammaln(sizes + 1).sum() if prevalence is None else sizes @ np.log(prevalence)
        log_joint[row] += shares + log_edges(labels, coupling)
        counts = prior.sample_counts(labels.astype(np.int32), structure, 3)
        for beta in (0.3, 4.0):
            found = prior.log_weight((np.array(beta),), counts, structure)
            assert found == pytest.approx(log_edges(labels, beta), abs=1e-10)
    labels, seen = prior.draw(at, likelihood, structure, rng), np.zeros(len(every))
    for draw_number in range(6000):
        labels = prior.draw(at, likelihood, structure, rng, labels)
        if draw_number % 5 == 0:
            seen[labels @ 3 ** np.arange(5)[::-1]] += 1
    assert_frequencies(seen, np.exp(log_joint - logsumexp(log_joint)), "labels")


def wrong_and_expected(responses, graph, truth, **options):
    model = MarkovRandomField(responses, graph, edges="drawn", **options)
    how = {"chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
    result = bf.sample(model, 60, tune=60, log_likelihood=False, **how)
    probability = bf.label_probabilities(result).sel(item=range(len(truth))).values
    return np.mean(probability.argmax(axis=1) != truth), 1.0 - probability.max(axis=1).mean()


@pytest.mark.slow
def test_communities_do_not_collapse():
    """Edges that are normalised by the prevalence alone put all items into one class."""
    made = bf.datasets.simulate_dawid_skene(
        800, 6, 4, per_item=1, accuracy=(0.4, 0.7), random_seed=1
    )
    graph = communities(made.truth, degree=5, within=0.7)
    wrong, expected = wrong_and_expected(made.responses, graph, made.truth)
    assert wrong < 0.25 < np.mean(made.responses.label != made.truth[made.responses.item])
    assert expected == pytest.approx(wrong, abs=0.06)


@pytest.mark.slow
def test_item_types_allow_for_common_errors():
    """On one item in seven most raters give the same wrong answer."""
    made = bf.datasets.simulate_dawid_skene(800, 5, 4, accuracy=(0.6, 0.9), random_seed=2)
    rng = np.random.default_rng(3)
    misled = (rng.random(800) < 1 / 7)[:, None] & (rng.random((800, 5)) < 0.75)
    other = (made.truth + rng.integers(1, 4, 800)) % 4
    said = made.responses.label.reshape(800, 5)
    said = bf.Responses.from_matrix(np.where(misled, other[:, None], said), classes=range(4))
    given = said, communities(made.truth, degree=4, within=0.8), made.truth
    plain, typed = (wrong_and_expected(*given, raters=kind) for kind in ("confusion", "types"))
    assert typed[0] < plain[0] and plain[1] < 0.5 * plain[0]
    assert 0.5 * typed[0] < typed[1] < 2.0 * typed[0]
    refused("no rows of single raters", MarkovRandomField, *given[:2], raters="types", pooled=True)


def test_coupling_so_strong_that_its_exponential_overflows():
    """Neighbours agree, and the likelihoods of all decide together."""
    prior, structure, log_lik = case("weighted", 3, 6)
    coupling = (np.array(2000.0),)
    likelihood, log_scale = relative(log_lik)
    rng = np.random.default_rng(3)
    labels = prior.draw(coupling, likelihood, structure, rng)
    for _ in range(50):
        labels = prior.draw(coupling, likelihood, structure, rng, labels)
        assert len(set(labels[:5])) == 1 and len(set(labels[5:7])) == 1
    probability, log_evidence = prior.conditional(
        coupling, labels, likelihood, log_scale, structure
    )
    assert np.isfinite(probability).all() and np.isfinite(log_evidence).all()
    assert np.isfinite(prior.marginal(coupling, likelihood, log_scale, structure).total)


def test_a_path_is_a_markov_chain():
    """With the same potentials: everything as the forward and the backward pass have it."""
    coupling, size = 0.7, 30
    prior = unknown(bf.Graph.grid((size,)))
    structure = prior.structure(table(size, 3))
    log_lik = random_log_lik(size, 3, 7, spread=1.5)
    rows = np.exp(coupling * np.eye(3))
    chain = bf.build.MarkovChain(None, None, None)
    logs = np.full(3, -np.log(3)), np.log(rows / rows.sum(axis=1, keepdims=True))
    seen = relative(log_lik)
    one = prior.marginal((np.array(coupling),), *seen, structure)
    other = chain.marginal(logs, *seen, (np.arange(size), np.array([0, size])))
    assert one.total == pytest.approx(other.total, abs=1e-6)
    assert_close(one.probability, other.probability, "label probability", atol=1e-8)
    same = prior.used(one.expected, (np.array(coupling),), structure)[0]
    assert same == pytest.approx(np.trace(other.expected[1]), abs=1e-5)


def test_without_coupling_labels_are_independent():
    prior, structure, log_lik = case("eight", 3, 8, prevalence=[0.2, 0.5, 0.3])
    seen = relative(log_lik)
    apart = bf.build.Independent(None).marginal(
        (np.log([[0.2, 0.5, 0.3]]),), *seen, (np.ones(8, dtype=int), np.zeros(8, dtype=np.int32))
    )
    found = prior.marginal((np.array(0.0),), *seen, structure)
    assert found.total == pytest.approx(apart.total, abs=1e-9)
    assert_close(found.probability, apart.probability, "label probability", atol=1e-9)
    assert_close(found.log_evidence, apart.log_evidence, "evidence by item", atol=1e-9)


def test_conditional_probabilities():
    prior, structure, log_lik = case("weighted", 3, 9, prevalence=[0.2, 0.5, 0.3])
    labels = np.array([0, 2, 1, 1, 2, 0, 1, 2], dtype=np.int32)
    coupling = (np.array(0.8),)
    probability, evidence = prior.conditional(coupling, labels, *relative(log_lik), structure)
    for n in range(8):
        joint = np.empty(3)
        for k in range(3):
            moved = labels.copy()
            moved[n] = k
            joint[k] = prior.log_prob(coupling, moved, structure)
        weight = joint + log_lik[n]
        assert_close(probability[n], np.exp(weight - np.logaddexp.reduce(weight)), "probability")
        expected = np.logaddexp.reduce(weight) - np.logaddexp.reduce(joint)
        assert evidence[n] == pytest.approx(expected, abs=1e-9)


def test_invalid_potts_priors_are_refused():
    pair, graph = table(3, 2), bf.Graph.grid((3,))
    for make, error, match in (
        *(
            (lambda c=c: bf.build.Potts(c, graph), ModelError, "one positive")
            for c in (0, np.nan, [1, 2])
        ),
        *(
            (lambda p=p: bf.build.Potts(1.0, graph, p), ModelError, "one positive number per class")
            for p in ([0.5, 0.0], [0.5, np.inf], 0.5)
        ),
        (
            lambda: bf.build.Potts(1.0, bf.Graph.grid((4,))).structure(pair),
            ResponsesError,
            "of a graph",
        ),
        (
            lambda: bf.build.Potts(1.0, bf.Graph.grid((2,))).structure(pair),
            ResponsesError,
            "must be in",
        ),
        (lambda: bf.build.Potts(1.0, graph, [1, 2, 3]).structure(pair), ModelError, "prevalence"),
        (
            lambda: unknown(bf.Graph.grid((2, 2))).joint(table(4, 2), np.zeros(4, dtype=int)),
            ModelError,
            "only on a forest.* Got: a graph of 4 items",
        ),
    ):
        refused_as(error, match, make)


def test_joint_evidence_of_items_against_enumeration():
    """Of sets of items given all others, whether edges join the sets or not, in a forest."""
    prior, structure, log_lik = case("tree", 3, 4, prevalence=[0.2, 0.5, 0.3])
    likelihood, log_scale = relative(log_lik)
    at = (np.array(1.1),)
    whole = enumerate_labels(prior, at, log_lik, structure).total
    for unit in ([0, 0, 1, 0, 2, 2, 1, 3], [1, 1, 1, 1, 0, 0, 1, 2]):
        sets = np.array(unit)
        found = prior.joint(table(8, 3), sets)(at, likelihood, log_scale)
        for u in range(sets.max() + 1):
            others = np.where((sets == u)[:, None], 0.0, log_lik)
            rest = enumerate_labels(prior, at, others, structure).total
            assert found[u] == pytest.approx(whole - rest, abs=1e-10)
    # items alone: what belief propagation says of each
    singles = prior.joint(table(8, 3), np.arange(8))(at, likelihood, log_scale)
    assert_close(
        singles, prior.marginal(at, likelihood, log_scale, structure).log_evidence, "items"
    )


def test_log_z_at_a_constant_coupling_of_a_forest_is_exact():
    """A table by the mean weight was off by 0.12 at the first of the couplings."""
    responses = bf.Responses.from_matrix([[0], [1], [0], [1]])
    weights = np.array([1.0, 10.0, 0.1])
    graph = bf.Graph.from_edges([(0, 1), (1, 2), (2, 3)], weights)
    for coupling in (9.0, 0.7, 60.0):
        for kind in (bf.build.Potts, bf.build.PlantedPotts):
            prior = kind(coupling, graph)
            at, structure = (np.array(coupling),), prior.structure(responses)
            log_z = np.log((np.exp(coupling * weights) + 1) / 2).sum()
            np.testing.assert_allclose(
                -prior.log_weight(at, (np.array(0.0),), structure), log_z, rtol=1e-12
            )
            total = prior.marginal(at, np.ones((4, 2)), np.zeros(4), structure).total
            np.testing.assert_allclose(total, 0.0, atol=1e-12)

"""Rotations of the prevalence: what they keep, and that they are accepted by their ratio."""

import numpy as np
import pymc as pm
import pytest
from grouped_crowds import GROUPS, crowd

import bayesfuse as bf
from bayesfuse.inference import gibbs
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet, stacked
from bayesfuse.testing import assert_close


def random_rows(rng, n_classes, n_raters):
    return {
        "prevalence": np.log(rng.dirichlet(np.full(n_classes, 5.0))),
        "confusion": np.log(rng.dirichlet(np.full(n_classes, 3.0), (n_raters, n_classes))),
    }


def random_table(rng, n_classes, n_raters):
    labels = rng.integers(0, n_classes, (20, n_raters))
    return observe(bf.Responses.from_matrix(labels, classes=range(n_classes)))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_rotations_keep_the_agreement_of_all_pairs_of_raters(n_classes):
    rng = np.random.default_rng(n_classes)
    observation, proposed = random_table(rng, n_classes, 4), None
    while proposed is None:  # rows may leave the simplex
        rows = random_rows(rng, n_classes, 4)
        proposed = gibbs.propose_rotation(observation, rows, rng)
    pairs, triples = [], []
    for each in (rows, proposed[0]):
        prevalence, theta = np.exp(each["prevalence"]), np.exp(each["confusion"])
        assert_close(theta.sum(axis=2), np.ones((4, n_classes)), "rows")
        pairs.append(np.einsum("k,ikc,jkd->ijcd", prevalence, theta, theta))
        triples.append(np.einsum("k,kc,kd,ke->cde", prevalence, *theta[:3]))
    assert_close(pairs[1], pairs[0], "pairs")
    assert np.abs(triples[1] - triples[0]).max() > 1e-5  # far above rounding


@pytest.mark.parametrize("at_the_edge", ["prevalence", "confusion"])
def test_rows_with_zeros_are_not_rotated(at_the_edge):
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 2, 3)
    rows[at_the_edge][..., 0], rows[at_the_edge][..., 1] = -np.inf, 0.0
    assert gibbs.propose_rotation(random_table(rng, 2, 3), rows, rng) is None


def tilted(shares, n_raters, **diagonal):
    rater = bf.priors.diagonal(len(shares), **diagonal)
    return {
        "prevalence": Dirichlet(np.array(shares)),
        "confusion": Dirichlet(np.tile(rater, (n_raters, 1, 1))),
    }


MIXED_ROWS = [[[9.0, 3.0], [2.0, 8.0]], [[2.0, 6.0], [9.0, 6.0]]]
# For few items the priors decide which rotations are accepted, for many the responses.
CASES = {
    "two classes": (60, tilted([4.0, 10.0], 5, weight=12, accuracy=0.6)),
    "three classes": (300, tilted([4.0, 6.0, 14.0], 4, weight=15, accuracy=0.5)),
    "mixtures": (
        60,
        {
            "prevalence": bf.priors.mixture([0.6, 0.4], [[8.0, 4.0], [3.0, 9.0]]),
            "confusion": stacked([bf.priors.mixture([0.7, 0.3], MIXED_ROWS)] * 4),
        },
    ),
}


def simulated(name, rng):
    """Draw parameters from the prior and responses given these; return what is observed."""
    n_items, priors = CASES[name]
    rows = {key: draw_dirichlet(prior.sample_component(rng), rng) for key, prior in priors.items()}
    n_raters, n_classes = priors["confusion"].shape[:2]
    zeros = np.zeros((n_items, n_raters), dtype=int)
    blank = bf.Responses.from_matrix(zeros, classes=range(n_classes))
    _, label = observe(blank).simulate(rows, rng)
    return observe(blank.relabelled(label)), rows, priors


def observe(responses):
    return ResponseModel.build(responses, bf.build.Independent(None), bf.build.Confusion(None))


def functions(observation, rows):
    """Return functions of the parameters, and of parameters and responses."""
    some = np.exp([rows["prevalence"][0], rows["confusion"][1, 0, 0], rows["confusion"][2, 1, 1]])
    evidence, _ = observation.evidence(rows)
    return np.concatenate([some, some**2, [evidence]])


@pytest.mark.parametrize("name", CASES)
def test_rotations_leave_the_posterior_as_it_is(name):
    """Parameters and responses are still distributed as if drawn together."""
    moved, accepted, rng = [], 0, np.random.default_rng(3)
    for _ in range(250):
        observation, rows, priors = simulated(name, rng)
        before = functions(observation, rows)
        for _ in range(8):
            rotated, _ = gibbs.rotate_prevalence(observation, rows, priors, rng)
            accepted += rotated is not rows
            rows = rotated
        moved.append(functions(observation, rows) - before)
    assert accepted > 100
    error = np.std(moved, axis=0) / np.sqrt(len(moved))
    assert (np.abs(np.mean(moved, axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("name", CASES)
def test_rotations_are_accepted_by_their_ratio(name):
    """Of the densities of parameters and responses, and of the proposal, with one seed."""
    outcomes = []
    for seed in range(60):
        observation, rows, priors = simulated(name, np.random.default_rng(seed))
        after, _ = gibbs.rotate_prevalence(observation, rows, priors, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        proposed = gibbs.propose_rotation(observation, rows, rng)
        if proposed is None:
            assert after is rows
            continue
        new, ratio = proposed
        ratio += observation.evidence(new)[0] - observation.evidence(rows)[0]
        ratio += sum(p.log_density(new[k]) - p.log_density(rows[k]) for k, p in priors.items())
        outcomes.append(np.log(1.0 - rng.random()) < ratio)
        assert (after is not rows) == outcomes[-1]
    assert 5 < sum(outcomes) < len(outcomes) - 5


def test_only_models_whose_matrices_can_be_mixed_are_rotated():
    responses, _, _ = crowd(np.random.default_rng(1), 30)
    with pm.Model() as zeros:
        rows = bf.build.dirichlet("confusion", np.tile([[1.0, 0.0], [1.0, 1.0]], (9, 1, 1)))
        labels = bf.build.Independent(pm.Dirichlet("prevalence", np.ones(2)))
        bf.build.observe(responses, labels=labels, raters=bf.build.Confusion(rows))
    models = {
        "confusion": DawidSkene(responses),
        "groups": LatentGroup(responses, GROUPS),
        "inferred": LatentGroup(responses, "posterior"),
        "one coin": DawidSkene(responses, raters="coin"),
        "zeros": zeros,
        "sequences": HiddenMarkov(responses, bf.Sequences.from_lengths([30]), raters="confusion"),
    }
    rotated = [n for n, model in models.items() if gibbs.Sweep.of(make_plan(model)).can_rotate]
    assert rotated == ["confusion", "groups", "inferred"]

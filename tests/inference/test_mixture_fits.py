"""Priors that are mixtures: enumeration, and every fit."""

from itertools import product

import numpy as np
import pymc as pm
import pytest
from conjugate_models import chains, log_multinomial, pieces
from odd_rater import odd_table
from scipy import special

import bayesfuse as bf
from bayesfuse.inference import cavi, em
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.parameters.dirichlet import stacked
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}


def same(alpha):
    """A degenerate mixture of components that are the same, or of one."""
    shares = [1.0] if alpha.ndim > 2 else [0.7, 0.2, 0.1]
    return bf.priors.mixture(shares, np.stack([alpha] * len(shares)))


# A table of two classes small enough for all labellings, with priors that are not symmetric.
TINY = bf.Responses.from_matrix([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]])
TINY_ROWS = [[[5.0, 1.0], [1.5, 4.0]], [[1.0, 1.0], [3.0, 0.8]]]
TINY_PRIOR = stacked([bf.priors.mixture([0.6, 0.4], TINY_ROWS)] * 3)
TINY_MODELS = {
    "independent": lambda: DawidSkene(
        TINY, prevalence_prior=[1.0, 2.0], confusion_prior=TINY_PRIOR
    ),
    "chain": lambda: HiddenMarkov(
        TINY,
        bf.Sequences.from_lengths([4, 2]),
        initial_prior=[1.0, 2.0],
        transition_prior=[[3.0, 1.0], [1.0, 2.0]],
        confusion_prior=TINY_PRIOR,
    ),
}


def enumerated(kind):
    """Log evidence, and label probabilities: all parameters summed out for every labelling."""
    labellings = np.array(list(product((0, 1), repeat=TINY.n_items)))
    logs = []
    for labels in labellings:
        counts = np.zeros((3, 2, 2))
        np.add.at(counts, (TINY.rater, labels[TINY.item], TINY.label), 1.0)
        alpha, shares = TINY_PRIOR.concentration, TINY_PRIOR.shares
        total = special.logsumexp(log_multinomial(alpha, counts), b=shares, axis=0).sum()
        first = labels if kind == "independent" else labels[[0, 4]]
        total += log_multinomial(np.array([1.0, 2.0]), np.bincount(first, minlength=2))
        if kind == "chain":
            steps = np.zeros((2, 2))
            np.add.at(steps, (labels[[0, 1, 2, 4]], labels[[1, 2, 3, 5]]), 1.0)
            total += log_multinomial(np.array([[3.0, 1.0], [1.0, 2.0]]), steps).sum()
        logs.append(total)
    return special.logsumexp(logs), special.softmax(logs) @ labellings


@pytest.mark.parametrize("kind", TINY_MODELS)
def test_gibbs_against_enumeration(kind):
    model = TINY_MODELS[kind]()
    result = bf.sample(model, 500, chains=2, random_seed=1, log_likelihood=False, **QUIET)
    found, exact = bf.label_probabilities(result).values[:, 1], enumerated(kind)[1]
    error = result["label_posterior"]["mcse"].values[:, 1]
    assert (np.abs(found - exact) < 5 * error).all(), (found, exact, error)
    assert error.max() < 0.06


@pytest.mark.parametrize("kind", TINY_MODELS)
def test_bound_of_cavi_never_falls_and_is_below_the_evidence(kind):
    observation, prior, rows = pieces(TINY_MODELS[kind]())
    exact = enumerated(kind)[0]
    found = cavi.fit(observation, rows, prior, tolerance=0.0, iterations=500)
    assert (np.diff(found.trace) > -1e-10).all() and len(found.trace) > 10
    assert exact - 2.0 < found.trace[-1] < exact
    rng = np.random.default_rng(3)
    for _ in range(50):  # a bound is one wherever it is taken
        other = {name: a + 5 * rng.gamma(0.5, size=a.shape) for name, a in prior.items()}
        assert cavi.bound(observation, other, prior) < exact
    settings = {"held": {}, "epochs": 400, "tolerance": 1e-13}
    stochastic = cavi.fit_stochastic([observation], rows, prior, rng, **settings)
    assert stochastic.trace[-1] == pytest.approx(found.trace[-1], abs=1e-3)


def test_bound_is_the_evidence_where_nothing_is_hidden():
    """With every label known q is the posterior, mixture and all."""
    labels = np.array([0, 0, 1, 1, 0, 1])
    model = DawidSkene(
        TINY,
        prevalence_prior=[1.0, 2.0],
        confusion_prior=TINY_PRIOR,
        gold=dict(enumerate(labels.tolist())),
    )
    observation, prior, rows = pieces(model)
    found = cavi.fit(observation, rows, prior)
    counts = np.zeros((3, 2, 2))
    np.add.at(counts, (TINY.rater, labels[TINY.item], TINY.label), 1.0)
    alpha, shares = TINY_PRIOR.concentration, TINY_PRIOR.shares
    exact = special.logsumexp(log_multinomial(alpha, counts), b=shares, axis=0).sum()
    exact += log_multinomial(np.array([1.0, 2.0]), np.bincount(labels))
    assert found.trace[-1] == pytest.approx(exact, rel=1e-12)
    q = found.approximation["confusion"]
    assert_close(q.shares, (TINY_PRIOR + counts).shares, "shares of q")


@pytest.fixture(scope="module")
def asymmetric(small):
    """All concentrations above one, so that modes are inside; three kinds of raters by name."""
    leaning = 1.5 + 2 * np.eye(3) + np.arange(9).reshape(3, 3) / 10
    wide = np.full((3, 3), 1.2)
    priors = {
        0: bf.priors.mixture([0.7, 0.3], [leaning, wide]),
        3: bf.priors.mixture([0.5, 0.3, 0.2], [leaning, wide, leaning[:, ::-1]]),
        4: wide,
    }
    rest = dict.fromkeys((1, 2, 5), bf.priors.mixture([0.9, 0.1], [leaning, wide]))
    return DawidSkene(
        small, prevalence_prior=[2.0, 3.0, 2.0], confusion_prior=priors | rest, gold={0: 1, 61: 2}
    )


def test_em_never_falls_and_ends_where_the_models_gradient_vanishes(asymmetric):
    point = bf.find_map(asymmetric, tolerance=1e-15, iterations=20_000)
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and len(trace) > 5
    plan = make_plan(asymmetric)
    with np.errstate(divide="ignore"):
        at = {
            block.value: block.coordinates.write(np.log(point["point"][name].values))
            for name, block in plan.blocks.items()
        }
    # the mode of the density of the rows, not of their coordinates
    with without_compilation():
        density = asymmetric.compile_logp(jacobian=False)
        slope = asymmetric.compile_dlogp(jacobian=False)
        moved = {name: value + 0.1 for name, value in at.items()}
        assert np.abs(slope(at)).max() < 1e-4 < 0.1 < np.abs(slope(moved)).max()
    # what EM calls its height is that density but for a constant
    other = {name: block.read(moved) for name, block in plan.blocks.items()}
    prior = plan.continuous_priors()
    start = em.fit(plan.observation, other, prior, iterations=1).trace[0]
    assert trace[-1] - start == pytest.approx(float(density(at) - density(moved)), rel=1e-9)


def test_one_odd_rater_does_not_name_the_classes():
    """Under the prior that leans to the diagonal one rater outweighs three, here not."""
    confusion, truth, responses = odd_table(1)
    renamed = confusion[:, [1, 0, 2]]
    gains, right = {}, {}
    for name, prior in {"diagonal": None, "robust": bf.priors.robust(3)}.items():
        model = DawidSkene(responses, confusion_prior=prior)
        alpha = make_plan(model).continuous_priors()["confusion"]
        densities = [alpha.log_density(np.log(rows)) for rows in (confusion, renamed)]
        gains[name] = densities[0] - densities[1]
        right[name] = np.mean(bf.label_probabilities(bf.find_map(model)).argmax("class") == truth)
    assert gains["diagonal"] < -1 < 1 < gains["robust"]
    assert right["diagonal"] < 0.3 and right["robust"] > 0.9


def test_parameters_of_user_defined_models_may_have_mixture_priors(small):
    """Rows, steps and prevalence; degenerate ones fit as the Dirichlet that they are."""
    alpha = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.5, 5.0]])
    heights = {}
    for stationary in (False, True):
        for mixed in (False, True):
            with pm.Model() as model:
                rows = same(alpha) if mixed else alpha
                if stationary:
                    steps = bf.build.dirichlet("transition", rows)
                    labels = bf.build.StationaryMarkovChain(steps, chains(small))
                else:
                    first = same(alpha[0]) if mixed else alpha[0]
                    labels = bf.build.Independent(bf.build.dirichlet("prevalence", first))
                each = np.tile(alpha + np.eye(3), (6, 1, 1))
                confusion = bf.build.dirichlet("confusion", same(each) if mixed else each)
                bf.build.observe(small, labels=labels, raters=bf.build.Confusion(confusion))
            observation, prior, begun = pieces(model)
            heights[stationary, mixed] = [
                np.diff(em.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace),
                cavi.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace,
            ]
    for stationary in (False, True):
        for one, other in zip(heights[stationary, False], heights[stationary, True], strict=True):
            assert_close(other, one, "gains and bounds", rtol=1e-6, atol=1e-8)

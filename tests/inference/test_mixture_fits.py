"""Mixtures of Dirichlet rows as priors: enumeration, every fit, what they are for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest
from conjugate_models import log_multinomial, pieces
from odd_rater import odd_table
from scipy import special, stats

import bayesfuse as bf
from bayesfuse.errors import PoorFitWarning
from bayesfuse.inference import cavi, em, turning
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.testing import assert_close, assert_uniform, assert_within_mcse, sbc_ranks

QUIET = {"progressbar": False, "quiet": True}


# Degenerate mixtures: one component, or several that are the same.
SAME = {
    "one": lambda alpha: bf.priors.mixture([1.0], alpha[None]),
    "equal": lambda alpha: bf.priors.mixture([0.7, 0.2, 0.1], np.stack([alpha] * 3)),
}


@pytest.fixture(scope="module", params=SAME)
def same(request, small):
    """A Dawid–Skene model with an ordinary prior, and one whose mixture is the same."""
    alpha = bf.priors.diagonal(3) + np.arange(9).reshape(3, 3) / 10
    gold = {0: 1, 61: 2}
    return [
        DawidSkene(small, prevalence_prior=[1.0, 2.0, 3.0], confusion_prior=prior, gold=gold)
        for prior in (alpha, SAME[request.param](alpha))
    ]


def test_degenerate_mixtures_are_dirichlet_in_em_and_cavi(same):
    plain, mixed = (bf.find_map(model) for model in same)
    assert_close(mixed["point"]["confusion"], plain["point"]["confusion"], "EM", rtol=1e-8)
    steps = [np.diff(point["trace"]["log_posterior"].values) for point in (plain, mixed)]
    assert_close(steps[1], steps[0], "gains of EM", rtol=1e-5, atol=1e-9)
    fits = []
    for model in same:
        observation, prior, rows = pieces(model)
        fits.append(cavi.fit(observation, rows, prior, iterations=15, tolerance=-np.inf))
    assert_close(fits[1].trace, fits[0].trace, "bounds", rtol=1e-10)
    rows = [cavi.expected_log(fit.approximation)["confusion"] for fit in fits]
    assert_close(rows[1], rows[0], "q", rtol=1e-8)


@pytest.mark.slow
def test_degenerate_mixtures_are_dirichlet_in_gibbs(same):
    plain, mixed = (bf.sample(model, 1000, random_seed=s, **QUIET) for s, model in enumerate(same))
    names = ["prevalence", "confusion"]
    assert_within_mcse(mixed["posterior"].dataset, plain["posterior"].dataset, names)


def test_a_group_of_nobody_is_dawid_and_skene(small):
    prior = bf.priors.robust(3, share=0.3)
    bounds, heights = [], []
    for model in (
        DawidSkene(small, confusion_prior=prior),
        LatentGroup(small, groups={}, confusion_prior=prior),
    ):
        observation, alpha, rows = pieces(model)
        bounds.append(cavi.fit(observation, rows, alpha, tolerance=1e-13).trace[-1])
        heights.append(em.fit(observation, rows, alpha, tolerance=1e-13).trace[-1])
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-10)
    assert heights[1] == pytest.approx(heights[0], rel=1e-10)


# A table of two classes small enough for all labellings, with priors that are not symmetric.
TINY = bf.Responses.from_matrix([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]])
TINY_PRIOR = bf.priors.mixture(
    [0.6, 0.4], [[[5.0, 1.0], [1.5, 4.0]], [[1.0, 1.0], [3.0, 0.8]]]
).repeated(3)
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", TINY_MODELS)
def test_gibbs_against_enumeration(kind):
    model = TINY_MODELS[kind]()
    result = bf.sample(model, 2000, random_seed=1, log_likelihood=False, **QUIET)
    found, exact = bf.label_probabilities(result).values[:, 1], enumerated(kind)[1]
    error = result["label_posterior"]["mcse"].values[:, 1]
    assert (np.abs(found - exact) < 5 * error).all(), (found, exact, error)
    assert error.max() < 0.03


@pytest.mark.slow
def test_turns_of_the_prevalence_leave_the_posterior_as_it_is():
    """Parameters from the prior, responses from these: turned, the parameters still look so."""
    blank = bf.Responses.from_matrix(np.zeros((12, 3), dtype=int), classes=range(2))
    priors = {
        "prevalence": bf.priors.mixture([0.6, 0.4], [[8.0, 4.0], [3.0, 9.0]]),
        "confusion": bf.priors.mixture(
            [0.7, 0.3], [[[9.0, 3.0], [2.0, 8.0]], [[2.0, 6.0], [9.0, 6.0]]]
        ).repeated(3),
    }
    rng = np.random.default_rng(1)
    labels, raters = bf.Independent(None), bf.Confusion(None)
    ended, accepted = [], 0
    for _ in range(2000):
        rows = {name: draw_dirichlet(a.picked(rng), rng) for name, a in priors.items()}
        _, label = Observation.build(blank, labels, raters).simulate(rows, rng)
        observation = Observation.build(blank.relabelled(label), labels, raters)
        for _ in range(6):
            before = rows
            rows, _ = turning.turn(observation, rows, priors, rng)
            accepted += rows is not before
        ended.append(np.exp([rows["prevalence"], rows["confusion"][1, 0], rows["confusion"][2, 1]]))
    assert accepted > 1000
    places = [("prevalence", ()), ("confusion", (1, 0)), ("confusion", (2, 1))]
    for (name, place), drawn in zip(places, np.moveaxis(ended, 0, -1), strict=True):
        alpha, shares = (
            values[(slice(None), *place)]
            for values in (priors[name].concentration, priors[name].shares)
        )

        def cdf(x, alpha=alpha, shares=shares):
            return sum(s * stats.beta(*a).cdf(x) for s, a in zip(shares, alpha, strict=True))

        assert stats.kstest(drawn[0], cdf).pvalue > 1e-4, (name, place)


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
    stochastic = cavi.fit_stochastic(
        [(observation, 1.0)] * 400, rows, prior, window=1, tolerance=1e-13
    )
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
    result = bf.fit(model, draws=4000, random_seed=1)
    drawn = result["posterior"]["confusion"].values[0]
    error = drawn.std(0) / np.sqrt(4000)
    assert (np.abs(drawn.mean(0) - q.mean()) < 5 * error).all()


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
            block.value: block.write(np.log(point["point"][name].values))
            for name, block in plan.blocks.items()
        }
    # the mode of the density of the rows, not of their coordinates
    with plain_python():
        density = asymmetric.compile_logp(jacobian=False)
        slope = asymmetric.compile_dlogp(jacobian=False)
        moved = {name: value + 0.1 for name, value in at.items()}
        assert np.abs(slope(at)).max() < 1e-4 < 0.1 < np.abs(slope(moved)).max()
    # what EM calls its height is that density but for a constant
    other = {name: block.read(moved) for name, block in plan.blocks.items()}
    prior = plan.continuous_priors()
    start = em.fit(plan.observation, other, prior, iterations=1).trace[0]
    assert trace[-1] - start == pytest.approx(float(density(at) - density(moved)), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("nuts_sampler", ["nutpie", "pymc", "numpyro"])
def test_gibbs_and_nuts_agree(asymmetric, asymmetric_gibbs, nuts_sampler):
    pytest.importorskip(nuts_sampler)
    settings = {"sampler": "nuts", "nuts_sampler": nuts_sampler, "chains": 2, "random_seed": 3}
    result = bf.sample(asymmetric, 1000, **settings, **QUIET)
    names = ["prevalence", "confusion", "sensitivity"]
    assert_within_mcse(result["posterior"].dataset, asymmetric_gibbs["posterior"].dataset, names)


@pytest.fixture(scope="module")
def asymmetric_gibbs(asymmetric):
    return bf.sample(asymmetric, 4000, random_seed=2, **QUIET)


@pytest.mark.slow
def test_predictive_draws(asymmetric):
    few = bf.sample(asymmetric, 20, random_seed=2, **QUIET)
    with asymmetric, pytest.warns(UserWarning, match="object mode"):
        prior = pm.sample_prior_predictive(7, random_seed=1)
        posterior = pm.sample_posterior_predictive(few, random_seed=1, progressbar=False)
    assert prior["prior"]["confusion"].shape == (1, 7, 6, 3, 3)
    assert_close(prior["prior"]["confusion"].sum("answer"), np.ones((1, 7, 6, 3)), "rows")
    assert posterior["posterior_predictive"]["responses"].shape[:2] == (4, 20)


@pytest.mark.slow
def test_a_normal_approximation(asymmetric, asymmetric_gibbs):
    """ADVI's means are near those of the posterior: the model's gradients serve it, too."""
    with pytest.warns(PoorFitWarning):  # it is no posterior
        fit = bf.fit(asymmetric, method="advi", random_seed=1, progressbar=False)
    one, other = (f["posterior"]["confusion"] for f in (fit, asymmetric_gibbs))
    gap = np.abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw")))
    assert float((gap / other.std(("chain", "draw"))).max()) < 1.0


@pytest.mark.slow
def test_calibration():
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((25, 4)) < 0.7)
    answers = {"item": item, "rater": rater, "label": np.arange(len(item)) % 2}
    table = bf.Responses.from_long(answers, items=range(25))
    prior = bf.priors.mixture([0.7, 0.3], [[[6.0, 1.0], [1.0, 4.0]], [[1.0, 3.0], [1.0, 1.0]]])
    ranks = sbc_ranks(
        lambda responses, gold=None: DawidSkene(
            responses, gold=gold, prevalence_prior=[1.0, 3.0], confusion_prior=prior
        ),
        table,
        simulations=150,
        draws=99,
        tune=50,
        sweeps=5,
        random_seed=5,
        start="prior",
    )
    for name, values in ranks.items():
        if name == "labels":
            assert_uniform(values.values[:, 0], 1, "label of an item")
            continue
        flat = values.values.reshape(150, -1)
        for entry in range(flat.shape[1]):
            assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")


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
        point = bf.find_map(model)
        draws = bf.sample(model, 200, chains=2, random_seed=1, log_likelihood=False, **QUIET)
        right[name] = [
            np.mean(found.values.argmax(axis=1) == truth)
            for found in (point["label_posterior"]["probability"], bf.label_probabilities(draws))
        ]
    assert gains["diagonal"] < -1 < 1 < gains["robust"]
    assert max(right["diagonal"]) < 0.3 and min(right["robust"]) > 0.9


def test_other_models_take_mixtures(small):
    prior = bf.priors.robust(3)
    graph = bf.Graph.grid((31, 2), items=small.items)
    for model in (
        MarkovRandomField(small, graph, confusion_prior=prior),
        LatentGroup(small, groups=[[0, 1, 2]], confusion_prior=prior),
        HiddenMarkov(
            small,
            bf.Sequences.from_lengths([40, 22], items=small.items),
            initial="stationary",
            confusion_prior=prior,
        ),
    ):
        result = bf.sample(model, 20, tune=20, chains=1, random_seed=1, **QUIET)
        assert np.isfinite(bf.label_probabilities(result)).all()
        assert np.isfinite(bf.find_map(model)["trace"]["log_posterior"]).all()


def test_any_parameter_of_a_model_of_ones_own_may_be_a_mixture(small):
    """Steps and prevalence too; degenerate ones fit as the Dirichlet that they are."""
    chain = bf.Sequences.from_lengths([40, 22], items=small.items)
    alpha = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.5, 5.0]])
    heights = {}
    for stationary in (False, True):
        for mixed in (False, True):
            with pm.Model() as model:
                rows = SAME["equal"](alpha) if mixed else alpha
                if stationary:
                    steps = bf.dirichlet("transition", rows)
                    labels = bf.StationaryMarkovChain(steps, chain)
                else:
                    first = SAME["equal"](alpha[0]) if mixed else alpha[0]
                    labels = bf.Independent(bf.dirichlet("prevalence", first))
                confusion = bf.dirichlet("confusion", np.tile(alpha + np.eye(3), (6, 1, 1)))
                bf.observe(small, labels=labels, raters=bf.Confusion(confusion))
            result = bf.sample(model, 20, tune=20, chains=1, random_seed=1, **QUIET)
            assert np.isfinite(bf.label_probabilities(result)).all()
            observation, prior, begun = pieces(model)
            heights[stationary, mixed] = [
                np.diff(em.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace),
                cavi.fit(observation, begun, prior, iterations=9, tolerance=-np.inf).trace,
            ]
    for stationary in (False, True):
        for one, other in zip(heights[stationary, False], heights[stationary, True], strict=True):
            assert_close(other, one, "gains and bounds", rtol=1e-6, atol=1e-8)

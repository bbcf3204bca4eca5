"""Mixtures of Dirichlet rows as priors: densities, moments, counts, bad input."""

import numpy as np
import pymc as pm
import pytest
from conjugate_models import log_multinomial
from scipy import special, stats

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.testing import assert_close

# Three components, other shares in every row: rows of a 2 × 3 matrix of which no two are alike.
SHARES = np.array([[0.5, 0.2], [0.3, 0.1], [0.2, 0.7]])
ALPHA = np.array(
    [
        [[4.0, 1.0, 2.0], [0.5, 3.0, 0.7]],
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        [[0.6, 5.0, 1.5], [2.0, 2.0, 6.0]],
    ]
)
PRIOR = bf.priors.mixture(SHARES, ALPHA)
COUNTS = np.array([[3.0, 0.0, 1.5], [0.0, 7.0, 2.0]])


def by_scipy(shares, alpha, rows):
    """Log density of every row, (…)."""
    found = np.zeros(alpha.shape[1:-1])
    for place in np.ndindex(found.shape):
        logs = [stats.dirichlet(a).logpdf(rows[place]) for a in alpha[:, *place]]
        found[place] = special.logsumexp(logs, b=shares[:, *place])
    return found


def some_rows(shape, seed=1):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


def test_density_is_scipys():
    rows = some_rows((2, 3))
    exact = by_scipy(SHARES, ALPHA, rows)
    with pm.Model() as model:
        variable = bf.dirichlet("rows", PRIOR)
    assert_close(pm.logp(variable, rows).eval(), exact, "the variable's log density")
    found = PRIOR.log_density(np.log(rows)) - PRIOR.log_beta().sum()
    assert found == pytest.approx(exact.sum(), rel=1e-12)
    value = model.rvs_to_transforms[variable].from_log(np.log(rows))
    jacobian = np.log(rows).sum()  # of log ratios to any entry
    at = model.compile_logp()({"rows_logratio__": value})
    assert at == pytest.approx(exact.sum() + jacobian, rel=1e-12)


@pytest.mark.parametrize("n_components", [1, 3])
def test_ratio_of_densities_where_some_rows_differ(n_components):
    """As a turn of the classes asks for it; one component is a plain Dirichlet."""
    old, new = some_rows((2, 3)), some_rows((2, 3), seed=2)
    new[0] = old[0]
    shares, alpha, prior = SHARES, ALPHA, PRIOR
    if n_components == 1:
        shares, alpha, prior = np.ones((1, 2)), ALPHA[:1], Dirichlet(ALPHA[0])
    expected = (by_scipy(shares, alpha, new) - by_scipy(shares, alpha, old)).sum()
    found = prior.log_ratio(np.log(new), np.log(old), np.array([1]))
    assert found == pytest.approx(expected, rel=1e-12)


def test_prior_draws_and_moments():
    with pm.Model() as model:
        variable = bf.dirichlet("rows", PRIOR)
    n = 3000
    own = np.exp(
        draw_dirichlet(PRIOR.picked(np.random.default_rng(1), n), np.random.default_rng(2))
    )
    mean = (SHARES[..., None] * ALPHA / ALPHA.sum(-1, keepdims=True)).sum(0)
    assert_close(PRIOR.mean(), mean, "mean")
    logs = PRIOR.expected_log()
    for drawn in (own, pm.draw(variable, n, random_seed=3)):
        error = drawn.std(0) / np.sqrt(n)
        assert (np.abs(drawn.mean(0) - mean) < 5 * error).all()
        error = np.log(drawn).std(0) / np.sqrt(n)
        assert (np.abs(np.log(drawn).mean(0) - logs) < 5 * error).all()
    assert_close(model.initial_point()["rows_logratio__"].shape, (2, 2), "coordinates")


def test_prior_plus_counts_is_the_posterior():
    rows = some_rows((2, 3), 2)
    evidence = special.logsumexp(log_multinomial(ALPHA, COUNTS), b=SHARES, axis=0)
    posterior = PRIOR + COUNTS
    exact = by_scipy(SHARES, ALPHA, rows) + (COUNTS * np.log(rows)).sum(-1) - evidence
    assert_close(by_scipy(posterior.shares, posterior.concentration, rows), exact, "posterior")
    assert_close(posterior.log_beta() - PRIOR.log_beta(), evidence, "evidence")
    assert_close(posterior - PRIOR, COUNTS, "counts")
    halves = PRIOR + 0.25 * COUNTS + 0.75 * COUNTS
    assert_close(halves.log_shares, posterior.log_shares, "shares in two steps")
    with pytest.raises(TypeError):
        COUNTS + PRIOR


def test_concentration_at_known_rows():
    rows = some_rows((2, 3), 3)
    odds = np.array([by_scipy(np.ones((1, 2)), alpha[None], rows) for alpha in ALPHA])
    weight = special.softmax(np.log(SHARES) + odds, axis=0)
    assert_close(PRIOR.at(np.log(rows)), (weight[..., None] * ALPHA).sum(0), "at known rows")
    steep = bf.priors.mixture([0.25, 0.75], [[2.0, 3.0], [4.0, 2.0]])
    with np.errstate(divide="ignore"):  # no component allows the row: nothing learnt, no NaN
        assert_close(steep.at(np.log([0.0, 1.0])), [3.5, 2.25], "where nothing is possible")


def test_priors_by_name(small):
    own = bf.priors.robust(3, share=0.4)
    model = DawidSkene(small, confusion_prior={4: own, 2: np.full((3, 3), 2.0)})
    found = make_plan(model).continuous_priors()["confusion"]
    assert found.shape == (6, 3, 3)
    rows = some_rows((6, 3, 3), 5)
    exact = [by_scipy(np.ones((1, 3)), bf.priors.diagonal(3)[None], each) for each in rows]
    exact[2] = by_scipy(np.ones((1, 3)), np.full((1, 3, 3), 2.0), rows[2])
    exact[4] = by_scipy(own.shares, own.concentration, rows[4])
    assert_close(by_scipy(found.shares, found.concentration, rows), np.array(exact), "by name")


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda r: bf.priors.robust(3, share=1.0), "share"),
        (lambda r: bf.priors.robust(3, weight=0), "weight must be a positive"),
        (lambda r: bf.priors.mixture([0.5, 0.6], ALPHA[:2]), "0.6"),
        (lambda r: bf.priors.mixture([0.5, 0.3, 0.2], ALPHA[:2]), "(3,)"),
        (lambda r: bf.priors.mixture(SHARES, 0 * ALPHA), "0.0"),
        (lambda r: bf.priors.mixture("half", ALPHA), "'half'"),
        (lambda r: DawidSkene(r, confusion_prior=bf.priors.robust(4)), "(4, 4)"),
        (lambda r: DawidSkene(r, confusion_prior={"nobody": bf.priors.robust(3)}), "'nobody'"),
        (lambda r: DawidSkene(r, confusion_prior={1: bf.priors.robust(2)}), "rater 1"),
        (lambda r: DawidSkene(r, raters="coin", confusion_prior=PRIOR), "raters='confusion'"),
        (lambda r: DawidSkene(r, prevalence_prior=bf.priors.robust(3)), "prevalence"),
        (lambda r: LatentGroup(r, "posterior", confusion_prior=bf.priors.robust(3)), "integrated"),
    ],
)
def test_bad_mixtures_are_refused_with_the_offender(small, build, told):
    with pytest.raises(ModelError) as error:
        build(small)
    assert told in str(error.value) and "Got" in str(error.value)

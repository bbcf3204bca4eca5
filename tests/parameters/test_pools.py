"""Pools of what raters or types have in common: means, grades, shares of types, partitions."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from partitions import log_prior, partitions
from scipy import stats
from scipy.special import gammaln, logsumexp
from scipy.stats import beta, halfnorm, kstest, norm

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene
from bayesfuse.observation import Counts
from bayesfuse.parameters.graded_rows import LOGS, POSITION_GAP, PRIORS
from bayesfuse.parameters.partition import draw
from bayesfuse.parameters.pool import ConsensusShares, SharedMean, class_given_type
from bayesfuse.parameters.variables import RaterGrouping
from bayesfuse.testing import assert_close, assert_frequencies

MU = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
TILT = np.array([[0.0, 0.0], [1.5, -0.5]])
"""Log-odds of the classes of two kinds of items."""
UNKNOWN, KNOWN = np.array([[3, 1, 0], [0, 2, 4]]), np.array([[2, 0, 1], [1, 1, 0]])
"""Items of unknown and of known class, by kind and type."""
OF_CLASS = np.array([[2, 1, 0], [1, 0, 1]])
"""Items of known class, by class and type."""
CONCENTRATION, PRIOR = np.array([0.9, 0.4, 0.7]), (0.3, 0.6)


def pool(**given):
    members = dict.fromkeys(["type_share"] if "fixed" in given else ["type_share", "trust"])
    return ConsensusShares(members, np.log(MU), CONCENTRATION, PRIOR, **given)


TILTED = SimpleNamespace(
    n_kinds=2, begin=lambda rng: {}, log_odds=lambda values: TILT, draw=lambda *arguments: {}
)
"""What is known of two kinds of items, without variables."""


def drawn(made, size, known=OF_CLASS, by_kind=None):
    """Return shares (draws, types) and trust after a first tenth of the sweeps."""
    of_unknown = np.stack([UNKNOWN.sum(axis=0), np.zeros(3)])
    raters = (np.stack([of_unknown, known]).astype(float), None, None, None)
    if by_kind is not None:
        raters += (by_kind.astype(float),)
    rng, found = np.random.default_rng(1), []
    values = made.begin(rng)
    for _ in range(size):
        values = made.draw(values, Counts({}, (None,), raters), rng)
        assert set(values) == set(made.members)
        found.append((*np.exp(values["type_share"]), float(values.get("trust", 0.0))))
    return np.array(found)[size // 10 :]


def by_batches(draws):
    """Return means and their standard errors, of correlated draws."""
    means = np.array([batch.mean(axis=0) for batch in np.array_split(draws, 30)])
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(30)


def assert_moments(draws, points, log_weight):
    """Compare means of functions of draws with those over weighted points of a grid."""
    weight = np.exp(log_weight - log_weight.max())
    for each in (lambda x: x, np.square):
        mean, error = by_batches(each(draws))
        expected = weight @ each(points) / weight.sum()
        assert (np.abs(mean - expected) < 4.5 * error + 2e-3).all(), (mean, expected, error)


def test_class_given_type_is_a_power_of_the_consensus():
    for trust in (0.3, 1.0, 2.5):
        expected = MU**trust / (MU**trust).sum(axis=1, keepdims=True)
        assert_close(class_given_type(np.log(MU), trust), expected, "classes")
    assert class_given_type(np.array([[0.0, -600.0]]), 3.0).tolist() == [[1.0, 0.0]]


def test_implied_prevalence_and_shares():
    values = {"type_share": np.log([0.5, 0.2, 0.3]), "trust": np.array(1.7)}
    joint = np.array([[0.5], [0.2], [0.3]]) * MU**1.7 / (MU**1.7).sum(axis=1, keepdims=True)
    found = pool().implied(values)
    assert_close(np.exp(found["prevalence"]), joint.sum(axis=0), "prevalence")
    assert_close(np.exp(found["share"]), (joint / joint.sum(axis=0)).T, "shares")
    given = pool(fixed={"trust": np.array(1.7)}, known=TILTED)
    found = given.implied({"type_share": values["type_share"]})
    tilted = joint.sum(axis=0) * np.exp(TILT)
    assert_close(np.exp(found["prevalence"]), tilted / tilted.sum(axis=1, keepdims=True), "by kind")


def test_shares_are_conjugate_and_trust_has_its_prior_without_known_classes():
    found = drawn(pool(), 4000, known=np.zeros((2, 3)))
    each = CONCENTRATION + UNKNOWN.sum(axis=0)
    for k, (a, b) in enumerate(zip(each, each.sum() - each, strict=True)):
        assert stats.kstest(found[:, k], stats.beta(a, b).cdf).pvalue > 1e-4
    assert stats.kstest(np.log(found[:, 3]), stats.norm(*PRIOR).cdf).pvalue > 1e-4


def grid(n_share):
    """Points of the simplex with three types, and logarithms of the trust, as (points, 4)."""
    at = (np.arange(n_share) + 0.5) / n_share
    one, two, log_trust = (x.ravel() for x in np.meshgrid(at, at, np.linspace(-2, 2.6, 47)))
    inside = one + two < 1
    share = np.column_stack([one, two, 1 - one - two])[inside]
    return share, log_trust[inside]


def log_prior_of_shares(share, log_trust):
    found = np.log(share) @ (CONCENTRATION - 1)
    return found - 0.5 * ((log_trust - PRIOR[0]) / PRIOR[1]) ** 2


@pytest.mark.parametrize("tilted", [False, True])
def test_draws_have_the_moments_of_the_density_on_a_grid(tilted):
    """Of shares and trust given types, and the classes of known items; also where kinds differ."""
    share, log_trust = grid(60)
    trust = np.exp(log_trust)
    said = np.stack([class_given_type(np.log(MU), each) for each in np.unique(trust)])
    said = said[np.unique(trust, return_inverse=True)[1]]  # (points, types, classes)
    log_weight = log_prior_of_shares(share, log_trust) + np.einsum(
        "kz,pzk->p", OF_CLASS, np.log(said)
    )
    total = (UNKNOWN + KNOWN).sum(axis=0) if tilted else UNKNOWN.sum(axis=0) + OF_CLASS.sum(axis=0)
    log_weight += np.log(share) @ total
    made, given = pool(), {}
    if tilted:
        made = pool(known=TILTED)
        given = {"by_kind": np.stack([UNKNOWN, KNOWN])}
        by_type = said @ np.exp(TILT).T  # (points, types, kinds)
        all_types = np.einsum("pz,pzr->pr", share, by_type)
        log_weight += np.einsum("rz,pzr->p", UNKNOWN, np.log(by_type))
        log_weight -= np.log(all_types) @ (UNKNOWN + KNOWN).sum(axis=1)
    found = drawn(made, 2500, **given)
    points = np.column_stack([share, log_trust])
    found[:, 3] = np.log(found[:, 3])
    assert_moments(found, points, log_weight)


def test_a_given_trust_is_kept():
    found = drawn(pool(fixed={"trust": np.array(1.3)}), 500)
    each = CONCENTRATION + UNKNOWN.sum(axis=0) + OF_CLASS.sum(axis=0)
    assert stats.kstest(found[:, 0], stats.beta(each[0], each[1:].sum()).cdf).pvalue > 1e-4


def test_rows_have_the_prior_of_the_members():
    members = dict.fromkeys(("mean", "concentration"))
    pool = SharedMean("confusion", members, np.ones((2, 2)), 2.0, 0.4, 3)
    values = {"mean": np.log([[0.7, 0.3], [0.2, 0.8]]), "concentration": np.array([4.0, 10.0])}
    prior = pool.prior(values)
    assert prior.concentration.shape == (3, 2, 2)
    assert_close(prior.concentration[1], [[2.8, 1.2], [2.0, 8.0]], "concentration")
    assert pool.implied(values) == {}


GUESTS = np.array([[7.0, 1.0], [2.0, 3.0], [90.0, 15.0], [0.0, 0.0], [0.0, 4.0], [41.0, 40.0]])
MEAN_PRIOR, SHAPE, RATE = np.array([2.0, 1.0]), 2.0, 0.3


def exactly():
    """Return posterior means of log κ and of the first share, and κ's of E[κ] and E[κ²]."""
    log_kappa = np.linspace(-6, 6, 500)[:, None, None]
    share = (np.arange(400) + 0.5)[:, None] / 400
    kappa = np.exp(log_kappa)
    log_weight = SHAPE * log_kappa - RATE * kappa
    log_weight = (
        log_weight + (MEAN_PRIOR[0] - 1) * np.log(share) + (MEAN_PRIOR[1] - 1) * np.log1p(-share)
    )
    total = GUESTS.sum(axis=1)
    log_weight = log_weight + gammaln(kappa) - gammaln(kappa + total)
    for part, own in ((share, GUESTS[:, 0]), (1 - share, GUESTS[:, 1])):
        log_weight = log_weight + gammaln(kappa * part + own) - gammaln(kappa * part)
    log_prior = (SHAPE * log_kappa - RATE * kappa)[..., 0]
    log_prior = (
        log_prior + ((MEAN_PRIOR - 1) * np.log(np.stack([share, 1 - share], -1))).sum(-1)[:, 0]
    )
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
    members = dict.fromkeys(("mean", "concentration"))
    shared, found = SharedMean("confusion", members, MEAN_PRIOR, SHAPE, RATE, len(GUESTS)), []
    values = {"mean": np.log([0.5, 0.5]), "concentration": np.array(1.0)}
    for _ in range(n):
        values = shared.draw(values, {"confusion": GUESTS}, rng)
        log_kappa, share = np.log(values["concentration"]), np.exp(values["mean"][0])
        found.append([log_kappa, log_kappa**2, share, share**2])
    batches = np.reshape(found, (40, -1, 4)).mean(axis=1)
    means, errors = batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(40)
    for (name, exact), mean, error in zip(exactly().items(), means, errors, strict=True):
        assert abs(mean - exact) < 5 * error + 1e-3, (name, mean, exact)


REPLICATES = 400
ALPHA = 1e-5


def pool_of(n_classes, pooled):
    table = bf.Responses.from_matrix([[0, 1, 0], [1, 1, 0]], classes=range(n_classes))
    model = DawidSkene(table, raters="graded", pooled=pooled)
    return make_plan(model).pools[0].pool


def from_prior(pool, rng):
    """Draw the members' values."""
    values = {}
    for role in pool.roles:
        shape = (pool.n_classes - 2,) if role == "threshold_gap" else ()
        mean, spread = PRIORS[role][:2]
        if pool.pooled:
            centre, _, width, most, _ = PRIORS[role]
            mean = centre + width * rng.standard_normal(shape)
            spread = most * abs(rng.standard_normal())
            values[f"{role}_mean"] = np.exp(mean) if role in LOGS else mean
            values[f"{role}_spread"] = spread
        own = mean + spread * rng.standard_normal((pool.n_raters, *shape))
        values[role] = np.exp(own) if role in LOGS else own
    if pool.n_classes > 2:
        concentration = np.full(pool.n_classes - 1, POSITION_GAP)
        values["position_gap"] = np.log(rng.dirichlet(concentration))
    return {role: np.asarray(values[role]) for role in pool.members}


@pytest.mark.parametrize(("n_classes", "pooled"), [(2, True), (4, False), (4, True)])
def test_draws_leave_the_prior_invariant(n_classes, pooled):
    pool, rng = pool_of(n_classes, pooled), np.random.default_rng(3)
    size = np.array([[40] * n_classes, [5] * n_classes, [0] * n_classes])  # of raters and classes
    seen = {role: [] for role in pool.members}
    for _ in range(REPLICATES):
        values = from_prior(pool, rng)
        rows = np.exp(pool.implied(values)["confusion"])
        counts = rng.multinomial(size, rows / rows.sum(axis=-1, keepdims=True)).astype(float)
        values = pool.draw(values, SimpleNamespace(raters=(counts,)), rng)
        for role, value in values.items():
            seen[role].append(value)
    for role, drawn in seen.items():
        scaled = uniform(pool, role, np.array(drawn), seen)
        for place in np.ndindex(scaled.shape[1:]):
            p_value = kstest(scaled[:, *place], "uniform").pvalue
            assert p_value > ALPHA, (role, place, p_value)


def uniform(pool, role, drawn, seen):
    """Return the prior probability of values below those drawn, given what is above them."""
    if role == "position_gap":
        own = POSITION_GAP
        return beta(own, own * (pool.n_classes - 2)).cdf(np.exp(drawn))
    if role.endswith("_spread"):
        return halfnorm(scale=PRIORS[role.removesuffix("_spread")].spread).cdf(drawn)
    logs = np.log(drawn) if role.startswith(LOGS) else drawn
    if role.endswith("_mean"):
        own = PRIORS[role.removesuffix("_mean")]
        return norm(own.centre, own.mean).cdf(logs)
    mean, spread = PRIORS[role][:2]
    if pool.pooled:
        mean = np.array(seen[f"{role}_mean"])[:, None]
        mean = np.log(mean) if role in LOGS else mean
        spread = np.array(seen[f"{role}_spread"]).reshape(-1, *[1] * (logs.ndim - 1))
    return norm(mean, spread).cdf(logs)


def test_prior_density_is_that_of_the_restaurant():
    every = partitions(4)
    log_p = np.array([log_prior(sizes, 2.5) for _, sizes in every])
    assert logsumexp(log_p) == pytest.approx(0)
    with pm.Model():
        seats = RaterGrouping("seats", 2.5, 2, np.full(4, -1))
    for (assignment, _), expected in zip(every, log_p, strict=True):
        found = float(pm.logp(seats, np.array(assignment)).eval())
        assert found == pytest.approx(expected, rel=1e-12), assignment
    for wrong in ([0, -1, -1, -1], [1, 1, -1, -1], [1, 1, 0, 0], [-2, -1, 0, 0], [2, 2, 0, 0]):
        assert float(pm.logp(seats, np.array(wrong)).eval()) == -np.inf, wrong


@pytest.mark.parametrize(("n_raters", "most", "alpha"), [(4, 2, 2.5), (6, 1, 2.0)])
def test_prior_draws_are_conditioned_on_the_number_of_groups(n_raters, most, alpha):
    few = [(p, sizes) for p, sizes in partitions(n_raters) if max(p) < most]
    log_p = np.array([log_prior(sizes, alpha) for _, sizes in few])
    rng = np.random.default_rng(1)
    drawn = Counter(tuple(draw(n_raters, most, alpha, rng).tolist()) for _ in range(4000))
    seen = np.array([drawn[assignment] for assignment, _ in few], dtype=float)
    assert seen.sum() == 4000
    assert_frequencies(seen, np.exp(log_p - logsumexp(log_p)), "partitions")


def test_prior_draws_need_no_rejection():
    """Of 400 raters who are seldom alone, the restaurant itself never has one group."""
    seats = draw(400, 1, 9.0, np.random.default_rng(1))
    assert seats.max() == 0 and np.sum(seats == 0) > 1

"""The pool of shares and trust against Dirichlet moments and integrals over a grid."""

import numpy as np
import pytest
from scipy import stats

from bayesfuse.observation import Counts
from bayesfuse.parameters.consensus_shares import ConsensusShares, says
from bayesfuse.testing import assert_close

MU = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
TILT = np.array([[0.0, 0.0], [1.5, -0.5]])
"""Log-odds of the classes of two kinds of items."""
UNKNOWN, KNOWN = np.array([[3, 1, 0], [0, 2, 4]]), np.array([[2, 0, 1], [1, 1, 0]])
"""Items of unknown and of known class, by kind and type."""
OF_CLASS = np.array([[2, 1, 0], [1, 0, 1]])
"""Items of known class, by class and type."""
CONCENTRATION, PRIOR = 2.0, (0.3, 0.6)


def pool(**given):
    members = dict.fromkeys(["type_share"] if "fixed" in given else ["type_share", "trust"])
    return ConsensusShares(members, np.log(MU), CONCENTRATION, PRIOR, **given)


def drawn(made, size, known=OF_CLASS, by_kind=None, tilt=None):
    """Return shares (draws, types) and trust after a first tenth of the sweeps."""
    of_unknown = np.stack([UNKNOWN.sum(axis=0), np.zeros(3)])
    raters = (np.stack([of_unknown, known]).astype(float), None, None)
    if by_kind is not None:
        raters += (by_kind.astype(float),)
    rng, found = np.random.default_rng(1), []
    inputs = {} if tilt is None else {"tilt": tilt}
    values = made.begin(rng)
    for _ in range(size):
        values = made.draw(values | inputs, Counts({}, (), raters), rng)
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


def test_a_consensus_says_its_power():
    for trust in (0.3, 1.0, 2.5):
        expected = MU**trust / (MU**trust).sum(axis=1, keepdims=True)
        assert_close(says(np.log(MU), trust), expected, "classes")
    assert says(np.array([[0.0, -600.0]]), 3.0).tolist() == [[1.0, 0.0]]


def test_implied_prevalence_and_shares():
    values = {"type_share": np.log([0.5, 0.2, 0.3]), "trust": np.array(1.7)}
    joint = np.array([[0.5], [0.2], [0.3]]) * MU**1.7 / (MU**1.7).sum(axis=1, keepdims=True)
    found = pool().implied(values)
    assert_close(np.exp(found["prevalence"]), joint.sum(axis=0), "prevalence")
    assert_close(np.exp(found["share"]), (joint / joint.sum(axis=0)).T, "shares")
    given = pool(fixed={"trust": np.array(1.7)}, tilt=0, n_kinds=2)
    found = given.implied({"type_share": values["type_share"], "tilt": TILT})
    tilted = joint.sum(axis=0) * np.exp(TILT)
    assert_close(np.exp(found["prevalence"]), tilted / tilted.sum(axis=1, keepdims=True), "by kind")


def test_shares_are_conjugate_and_trust_has_its_prior_without_known_classes():
    found = drawn(pool(), 4000, known=np.zeros((2, 3)))
    each = CONCENTRATION / 3 + UNKNOWN.sum(axis=0)
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


def log_prior(share, log_trust):
    found = (CONCENTRATION / 3 - 1) * np.log(share).sum(axis=1)
    return found - 0.5 * ((log_trust - PRIOR[0]) / PRIOR[1]) ** 2


@pytest.mark.parametrize("tilted", [False, True])
def test_draws_have_the_moments_of_the_density_on_a_grid(tilted):
    """Of shares and trust given types, and the classes of known items; also where kinds differ."""
    share, log_trust = grid(60)
    trust = np.exp(log_trust)
    said = np.stack([says(np.log(MU), each) for each in np.unique(trust)])
    said = said[np.unique(trust, return_inverse=True)[1]]  # (points, types, classes)
    log_weight = log_prior(share, log_trust) + np.einsum("kz,pzk->p", OF_CLASS, np.log(said))
    total = (UNKNOWN + KNOWN).sum(axis=0) if tilted else UNKNOWN.sum(axis=0) + OF_CLASS.sum(axis=0)
    log_weight += np.log(share) @ total
    made, given = pool(), {}
    if tilted:
        made = pool(tilt=0, n_kinds=2)
        given = {"by_kind": np.stack([UNKNOWN, KNOWN]), "tilt": TILT}
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
    each = CONCENTRATION / 3 + UNKNOWN.sum(axis=0) + OF_CLASS.sum(axis=0)
    assert stats.kstest(found[:, 0], stats.beta(each[0], each[1:].sum()).cdf).pvalue > 1e-4

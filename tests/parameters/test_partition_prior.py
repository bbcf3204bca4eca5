"""The prior of partitions of the raters, in density and draws, against enumeration."""

from collections import Counter

import numpy as np
import pymc as pm
import pytest
from partitions import log_prior, partitions
from scipy.special import logsumexp

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LatentGroup
from bayesfuse.parameters.partition import draw
from bayesfuse.parameters.variables import partition
from bayesfuse.testing import assert_frequencies


def test_prior_density_is_that_of_the_restaurant():
    every = partitions(4)
    log_p = np.array([log_prior(sizes, 2.5) for _, sizes in every])
    assert logsumexp(log_p) == pytest.approx(0)
    with pm.Model():
        seats = partition("seats", 4, 2, 2.5, start=np.full(4, -1))
    for (assignment, _), expected in zip(every, log_p, strict=True):
        found = float(pm.logp(seats, np.array(assignment)).eval())
        assert found == pytest.approx(expected, rel=1e-12), assignment
    for wrong in ([0, -1, -1, -1], [1, 1, -1, -1], [1, 1, 0, 0], [-2, -1, 0, 0], [2, 2, 0, 0]):
        assert float(pm.logp(seats, np.array(wrong)).eval()) == -np.inf, wrong


@pytest.mark.parametrize(("n_raters", "most", "alpha"), [(4, 2, 2.5), (6, 1, 2.0)])
def test_prior_draws_are_the_restaurants_that_have_no_more_groups(n_raters, most, alpha):
    few = [(p, sizes) for p, sizes in partitions(n_raters) if max(p) < most]
    log_p = np.array([log_prior(sizes, alpha) for _, sizes in few])
    rng = np.random.default_rng(1)
    drawn = Counter(tuple(draw(n_raters, most, alpha, rng).tolist()) for _ in range(4000))
    seen = np.array([drawn[assignment] for assignment, _ in few], dtype=float)
    assert seen.sum() == 4000
    assert_frequencies(seen, np.exp(log_p - logsumexp(log_p)), "partitions")


def test_prior_draws_do_not_wait_for_what_never_happens():
    """Of 400 raters who are seldom alone, the restaurant itself never has one group."""
    seats = draw(400, 1, 9.0, np.random.default_rng(1))
    assert seats.max() == 0 and np.sum(seats == 0) > 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"share_prior": 0.0}, "0.0"),
        ({"max_groups": 3}, "3 for 4 raters"),
        ({"group_prior": np.ones((2, 2, 2))}, "shape (2, 2, 2)"),
    ],
)
def test_bad_priors_of_partitions_are_refused(arguments, told):
    responses = bf.Responses.from_matrix(np.eye(4, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, "posterior", **arguments)
    assert told in str(error.value) and "Got" in str(error.value)

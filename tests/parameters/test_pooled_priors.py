"""Priors of rows as users may give them: one for several rows, unequal ones, ones with zeros."""

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.parameters.variables import partition

ALPHA = np.array([[4.0, 1.0, 2.0], [1.0, 5.0, 1.0], [2.0, 1.0, 3.0]])
RESPONSES = bf.Responses.from_matrix(np.random.default_rng(0).integers(0, 3, (20, 4)))
START = np.array([0, 0, -1, -1])
ZEROS = ALPHA * [[1, 1, 1], [1, 1, 0], [1, 1, 1]]


def build(channel, weight, *, spread=False, group=ALPHA, rater=ALPHA):
    """A model whose concentrations are given once for all matrices, or for every one of them."""

    def rows(name, alpha, size):
        if spread:
            return pm.Dirichlet(name, weight * np.tile(alpha, (size, 1, 1)))
        return pm.Dirichlet(name, weight * np.asarray(alpha), shape=(size, 3, 3))

    prevalence = pm.Dirichlet("prevalence", np.ones(3))
    if channel == "coin":
        a = weight * np.full(4, 3.0) if spread else weight * 3.0
        raters = bf.OneCoin(pm.Beta("accuracy", a, 2.0, shape=4))
    else:
        inner, outer = rows("inner", rater, 4), None
        if channel != "confusion":
            outer = rows("outer", group, 2)
        raters = {
            "confusion": lambda: bf.Confusion(inner),
            "groups": lambda: bf.LatentGroups(outer, inner, [0, 0, 1, 1]),
            "inferred": lambda: bf.InferredGroups(
                outer, inner, partition("assignment", 4, 2, 1.0, start=START)
            ),
        }[channel]()
    bf.observe(RESPONSES, labels=bf.Independent(prevalence), raters=raters)


@pytest.mark.parametrize(
    ("channel", "varies"),
    [("confusion", True), ("coin", True), ("coin", False), ("groups", False), ("inferred", True)],
)
def test_a_concentration_for_several_rows_is_that_of_each(channel, varies):
    draws = []
    for spread in (False, True):
        with pm.Model() as model:
            build(channel, pm.Gamma("weight", 5, 5) if varies else 1.5, spread=spread)
            step = bf.LabelGibbs(rng=1)
        point = model.initial_point()
        for _ in range(3):
            point, _ = step.step(point)
        draws.append(np.concatenate([np.ravel(value) for value in point.values()]))
    assert np.isfinite(draws[0]).all()
    assert (draws[0] == draws[1]).all()


@pytest.mark.parametrize("prior", [ZEROS, bf.priors.robust(3)])
def test_rows_of_ones_own_with_one_prior_for_several_sets(prior):
    """Sparse rows and mixtures: EM has their prior, row by row."""
    repeated = np.tile(prior, (4, 1, 1)) if prior is ZEROS else prior.repeated(4)
    found = []
    for given, shape in ((prior, {"shape": (4, 3, 3)}), (repeated, {})):
        with pm.Model() as model:
            rows = bf.dirichlet("rows", given, **shape)
            labels = bf.Independent(pm.Dirichlet("prevalence", np.ones(3)))
            bf.observe(RESPONSES, labels=labels, raters=bf.Confusion(rows))
        assert make_plan(model).blocks["confusion"].prior.shape == (4, 3, 3)
        found.append(bf.find_map(model)["point"]["rows"].values)
    assert (found[0] == found[1]).all()


UNEQUAL = np.stack([ALPHA, ALPHA + np.eye(3)])


@pytest.mark.parametrize("varies", [True, False])
def test_inferred_groups_must_have_one_prior(varies):
    with pm.Model() as model:
        build("inferred", pm.Gamma("weight", 5, 5) if varies else 1.0, group=UNEQUAL)
    with pytest.raises(ModelError, match=r"must all have the same prior.* for group 1"):
        step = bf.LabelGibbs(model=model)
        step.step(model.initial_point())
    with pm.Model() as model:  # where they are known any will do
        build("groups", 1.0, group=UNEQUAL)
    assert bf.LabelGibbs(model=model).blocks


@pytest.mark.parametrize(
    ("outer", "inner", "told"),
    [
        (ZEROS, ALPHA, r"positive concentration.* Got: a row of \[1\.0, 5\.0, 0"),
        (ALPHA, ZEROS, r"positive concentration.* Got: a row of \[1\.0, 5\.0, 0"),
        (ALPHA, bf.priors.robust(3).repeated(4), "integrated out.*DirichletMixture"),
    ],
)
def test_groups_are_not_inferred_where_rows_have_zeros_or_mixtures(outer, inner, told):
    with pm.Model() as model:
        rows = [
            bf.dirichlet(name, alpha, shape=(size, 3, 3))
            for name, alpha, size in (("outer", outer, 2), ("inner", inner, 4))
        ]
        seats = partition("assignment", 4, 2, 1.0, start=START)
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        raters = bf.InferredGroups(*rows, seats)
        bf.observe(RESPONSES, labels=bf.Independent(prevalence), raters=raters)
    with pytest.raises(ModelError, match=told):
        bf.sample(model, 5, progressbar=False)

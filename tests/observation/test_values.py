"""Parameters of every label prior and rater channel are checked against their supports."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX

TABLE = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0], [2, 2, 2], [0, 0, 2]])
SILENT = bf.Responses.from_matrix([[0, -1, 1], [1, 1, -1]], abstain=-1)
STATED = bf.Responses.from_probabilities([[[0.7, 0.3]], [[0.2, 0.8]]])
ORDER = bf.Sequences.from_lengths([4])
EVEN = np.full(3, 1 / 3)


def shares(*shape):
    return np.full(shape, 1 / shape[-1])


FACTORS = {
    # name: responses, and parameters of the factor with valid values
    "Independent": (TABLE, bf.build.Independent, {"prevalence": EVEN}, "labels"),
    "MarkovChain": (
        TABLE,
        lambda **given: bf.build.MarkovChain(sequences=ORDER, **given),
        {"initial": EVEN, "transition": shares(3, 3)},
        "labels",
    ),
    "StationaryMarkovChain": (
        TABLE,
        lambda **given: bf.build.StationaryMarkovChain(sequences=ORDER, **given),
        {"transition": shares(3, 3)},
        "labels",
    ),
    "Confusion": (TABLE, bf.build.Confusion, {"confusion": shares(3, 3, 3)}, "raters"),
    "OneCoin": (TABLE, bf.build.OneCoin, {"accuracy": np.full(3, 0.7)}, "raters"),
    "OneCoin by class": (TABLE, bf.build.OneCoin, {"accuracy": np.full((3, 3), 0.7)}, "raters"),
    "Abstaining": (SILENT, bf.build.Abstaining, {"speech": shares(3, 2, 3)}, "raters"),
    "Stated": (STATED, bf.build.Stated, {"confusion": shares(1, 2, 2)}, "raters"),
    "SequentialConfusion": (
        TABLE,
        lambda **given: bf.build.SequentialConfusion(sequences=ORDER, **given),
        {"sequential_confusion": shares(3, 4, 3, 3)},
        "raters",
    ),
    "LatentGroups": (
        TABLE,
        lambda **given: bf.build.LatentGroups(assignment=[0, 0, -1], **given),
        {"group_confusion": shares(1, 3, 3), "rater_confusion": shares(3, 3, 3)},
        "raters",
    ),
    "Consensus": (
        TABLE,
        bf.build.Consensus,
        {
            "share": shares(3, 21),
            "competence": np.full(3, 0.6),
            "guess": shares(3, 3),
            "clean_confusion": shares(3, 3, 3),
        },
        "raters",
    ),
    "Votes": (
        TABLE,
        lambda **given: bf.build.Votes(column=np.arange(9).reshape(3, 3), **given),
        {"vote_share": shares(3, 9)},
        "raters",
    ),
}
CASES = [(name, parameter) for name, each in FACTORS.items() for parameter in each[2]]


def observed_with(name, parameter, value):
    """Build a model in which one parameter has another value."""
    table, make, values, role = FACTORS[name]
    k = table.n_classes
    others = {
        "labels": bf.build.Independent(shares(k)),
        "raters": bf.build.Confusion(shares(table.n_raters, k, k)),
    }
    others[role] = make(**(values | {parameter: value}))
    bf.build.observe(table, **others)


def invalid(value):
    """Return variables and numbers that are not probabilities, or rows of these."""
    is_row = np.allclose(value.sum(axis=-1), 1.0)
    yield lambda: np.full(value.shape, 1.5)
    yield lambda: pm.Data("data", np.full(value.shape, -0.1))
    yield lambda: pm.Normal("score", shape=value.shape)
    yield lambda: pm.Deterministic("odds", pm.math.exp(pm.Normal("score", shape=value.shape)))
    if is_row:
        yield lambda: np.full(value.shape, 0.5) + 0.1
        yield lambda: pm.Beta("beta", 1, 1, shape=value.shape)
        yield lambda: pm.math.sigmoid(pm.Normal("score", shape=value.shape))


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_values_outside_the_support_are_refused(name, parameter):
    for make in invalid(FACTORS[name][2][parameter]):
        with pm.Model(), pytest.raises(ModelError, match=rf"{parameter} must hold .*Got: \["):
            observed_with(name, parameter, make())


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_values_in_the_support_are_accepted(name, parameter):
    value = FACTORS[name][2][parameter]
    is_row = np.allclose(value.sum(axis=-1), 1.0)
    with pm.Model():
        score = pm.Normal("score", 0.0, pm.HalfNormal("scale"), shape=value.shape)
        observed_with(
            name, parameter, pm.math.softmax(score, -1) if is_row else pm.math.sigmoid(score)
        )


def test_potentials_and_transforms_may_exclude_values():
    with pm.Model():
        accuracy = pm.Normal("accuracy", 0.7, 0.1, shape=3)
        pm.Potential(
            "range", pm.math.switch(pm.math.all((accuracy > 0) & (accuracy < 1)), 0.0, -np.inf)
        )
        bf.build.observe(
            TABLE, labels=bf.build.Independent(EVEN), raters=bf.build.OneCoin(accuracy)
        )
    with pm.Model():
        accuracy = pm.Uniform("accuracy", 0.2, 0.9, shape=3)
        bf.build.observe(
            TABLE, labels=bf.build.Independent(EVEN), raters=bf.build.OneCoin(accuracy)
        )


def test_an_own_factor_is_checked():
    class Shifted(bf.build.OneCoin):
        """Accuracies under another name of the class."""

    with pm.Model(), pytest.raises(ModelError, match="accuracy must hold probabilities"):
        raters = Shifted(pm.Normal("ability", 2.0, 1.0, shape=3))
        bf.build.observe(TABLE, labels=bf.build.Independent(EVEN), raters=raters)


def test_draws_outside_the_support_are_refused():
    model = DawidSkene(TABLE)
    point = bf.find_map(model)
    wrong = xr.DataTree.from_dict({"point": point["point"].dataset.copy(deep=True)})
    wrong["point"]["confusion"][:] = 0.5
    with pytest.raises(ModelError, match="confusion must hold rows of probabilities"):
        bf.label_probabilities(wrong, model)


@pytest.mark.parametrize("support", [SIMPLEX, PROBABILITY])
def test_messages_show_few_numbers(support):
    with pytest.raises(ModelError) as refused:
        support.require("rows", np.full((2, 1000), 2.0))
    assert len(str(refused.value)) < 250 and "2, 2, 2" in str(refused.value)


def test_a_covariate_without_a_value_is_named():
    x = np.array([0.5, np.nan, 1.0])
    with pm.Model(), pytest.raises(ModelError, match=r"does a covariate lack a value.*1 of 3"):
        accuracy = pm.math.sigmoid(pm.Normal("slope", 1.0, 1.0) * x)
        bf.build.observe(
            TABLE, labels=bf.build.Independent(EVEN), raters=bf.build.OneCoin(accuracy)
        )

"""A model is drawn whole: every variable and every arrow."""

import numpy as np
import pymc as pm
import pytest
from matplotlib.patches import Ellipse, FancyArrowPatch
from pymc.model_graph import ModelGraph

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.plots import plot_model


def regression():
    """A model with long arrows, data, scalars and a potential."""
    with pm.Model(coords={"county": range(1200)}) as model:
        x = pm.Data("x", np.zeros(3))
        level, spread = pm.Normal("level"), pm.HalfNormal("spread")
        county = pm.Normal("county_level", level, spread, dims="county")
        mean = pm.Deterministic("mean", county.sum() + level + x)
        noise = pm.Exponential("noise", 1)
        pm.Normal("y", mean + level, noise, observed=np.zeros(3))
        pm.Potential("limit", -noise)
    return model


@pytest.mark.parametrize("make", [regression, lambda: DawidSkene(bf.datasets.caries())])
def test_a_model_shows_all_variables_and_arrows(make):
    model = make()
    ax = plot_model(model)
    names = [text.get_text().split("\n")[0].split(" ~ ")[0] for text in ax.texts]
    variables = [*model.basic_RVs, *model.deterministics, *model.potentials]
    assert {variable.name for variable in variables} <= set(names)
    assert len([x for x in ax.patches if isinstance(x, Ellipse)]) == len(model.basic_RVs)
    arrows = [x for x in ax.patches if isinstance(x, FancyArrowPatch)]
    assert len(arrows) == len(ModelGraph(model).edges())
    for arrow in arrows:
        (_, high), (_, low) = arrow._posA_posB
        assert high > low


def test_a_model_without_variables():
    with pytest.raises(ModelError, match="without any"):
        plot_model(pm.Model())

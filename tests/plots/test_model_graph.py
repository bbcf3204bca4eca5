"""A model is drawn whole: every variable, every arrow, and nothing over anything else."""

from itertools import combinations

import numpy as np
import pymc as pm
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse, FancyArrowPatch, Rectangle
from pictures import drawn
from pymc.model_graph import ModelGraph

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.plots import plot_model


def hierarchical():
    """Raters that share a mean and spread: a user's own model with a transformation."""
    responses = bf.datasets.anesthesia()
    names = responses.classes.tolist()
    coords = {"rater": responses.raters.tolist(), "class": names, "answer": names}
    with pm.Model(coords=coords) as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(4), dims="class")
        mean = pm.Normal("mean", 0, 1, dims=("class", "answer"))
        spread = pm.HalfNormal("spread", 1, dims=("class", "answer"))
        own = pm.Normal("own", 0, 1, dims=("rater", "class", "answer"))
        rows = pm.math.softmax(mean + spread * own, axis=-1)
        confusion = pm.Deterministic("confusion", rows, dims=("rater", "class", "answer"))
        bf.observe(responses, labels=bf.Independent(prevalence), raters=bf.Confusion(confusion))
    return model


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


MODELS = {
    "dawid-skene": lambda: DawidSkene(bf.datasets.anesthesia()),
    "one coin": lambda: DawidSkene(bf.datasets.anesthesia(), raters="coin"),
    "counts": lambda: DawidSkene(bf.datasets.caries()),
    "hierarchical": hierarchical,
    "regression": regression,
}


def shapes_and_texts(ax):
    """Return every variable's shape, and its text, in the order in which they are drawn."""
    shapes = [x for x in ax.patches if not isinstance(x, FancyArrowPatch)]
    assert len(shapes) == len(ax.texts)
    return [(shape.get_window_extent(), text) for shape, text in zip(shapes, ax.texts, strict=True)]


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_shows_all_variables_and_arrows_apart(make):
    model = make()
    ax = plot_model(model)
    drawn(ax)
    names = [text.get_text().split("\n")[0].split(" ~ ")[0] for text in ax.texts]
    variables = [*model.basic_RVs, *model.deterministics, *model.potentials]
    assert {variable.name for variable in variables} <= set(names)
    assert len([x for x in ax.patches if isinstance(x, Ellipse)]) == len(model.basic_RVs)
    arrows = [x for x in ax.patches if isinstance(x, FancyArrowPatch)]
    assert len(arrows) == len(ModelGraph(model).edges())
    shapes = shapes_and_texts(ax)
    whole = ax.get_window_extent()
    for box, text in shapes:
        own = text.get_window_extent()
        assert box.x0 < own.x0 and own.x1 < box.x1 and box.y0 < own.y0 and own.y1 < box.y1
        assert whole.x0 < box.x0 and box.x1 < whole.x1
    for (one, _), (other, _) in combinations(shapes, 2):
        assert not one.overlaps(other)
    for arrow in arrows:
        (_, high), (_, low) = arrow._posA_posB
        assert high > low


def test_dimensions_and_shades_of_a_model():
    ax = plot_model(regression())
    texts = {text.get_text() for text in ax.texts}
    assert {"county_level ~ Normal\ncounty (1,200)", "x\n?", "y ~ Normal\n3"} <= texts
    shades = {to_rgb(x.get_facecolor()) for x in ax.patches if isinstance(x, Ellipse)}
    assert shades == {to_rgb("white"), to_rgb("0.85")}
    boxes = [x for x in ax.patches if isinstance(x, Rectangle)]
    assert len([x for x in boxes if to_rgb(x.get_facecolor()) == to_rgb("0.85")]) == 1  # the data


def test_a_model_without_variables():
    with pytest.raises(ModelError, match="without any"):
        plot_model(pm.Model())

"""A model is drawn whole: every variable, every arrow, and nothing over anything else."""

from itertools import combinations

import numpy as np
import pymc as pm
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Ellipse, FancyArrowPatch, FancyBboxPatch
from pictures import drawn

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.plots import plot_model
from bayesfuse.plots.model_graph import HEIGHT, _box, _layout, _plates


def hierarchical():
    """Raters that share a mean and spread: a user's own model with a transformation."""
    responses = bf.datasets.anesthesia()
    names = responses.classes.tolist()
    coords = {"rater": responses.raters.tolist(), "class": names, "label": names}
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


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_model_shows_all_variables_and_arrows(make):
    model = make()
    ax = plot_model(model)
    assert drawn(ax)
    from pymc.model_graph import ModelGraph

    texts = [text.get_text() for text in ax.texts]
    variables = {variable.name for variable in [*model.basic_RVs, *model.deterministics]}
    assert variables <= set(texts)
    assert len([x for x in ax.patches if isinstance(x, Ellipse)]) == len(model.basic_RVs)
    arrows = [x for x in ax.patches if isinstance(x, FancyArrowPatch)]
    assert len(arrows) == len(ModelGraph(model).edges())


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_nothing_in_a_model_covers_anything_else(make):
    nodes, ways = _layout(make())
    for one, other in combinations(nodes, 2):
        assert not _box([one]).meets(_box([other])) or one.plate == other.plate
        assert abs(one.x - other.x) >= (one.width + other.width) / 2 or one.layer != other.layer
    for (_, one), (_, other) in combinations(_plates(nodes), 2):
        assert not one.meets(other)
    assert all(way[0].layer > way[-1].layer for way in ways)


def ladder():
    """Every variable depends on all above it, so that straight arrows would cross others."""
    with pm.Model() as model:
        first = pm.Normal("first")
        second = pm.Normal("second", first)
        third = pm.Normal("third", first + second)
        pm.Normal("fourth", first + second + third)
    return model


@pytest.mark.parametrize("make", [ladder, regression])
def test_long_arrows_pass_between_others(make):
    model = make()
    nodes, ways = _layout(model)
    arrows = [x for x in plot_model(model).patches if isinstance(x, FancyArrowPatch)]
    assert any(len(way) > 2 for way in ways)
    for (first, *_, last), arrow in zip(ways, arrows, strict=True):
        path = arrow.get_path().cleaned(curves=False)
        curve = path.vertices[np.isin(path.codes, [path.MOVETO, path.LINETO])]
        for other in nodes:
            if other not in (first, last):
                across = (curve[:, 0] - other.x) / (other.width / 2)
                down = (curve[:, 1] - other.y) / (HEIGHT / 2)
                crossing = f"{first.name} to {last.name} crosses {other.name}"
                assert np.hypot(across, down).min() > 1, crossing


def test_plates_and_shades_of_a_model():
    ax = plot_model(regression())
    texts = {text.get_text() for text in ax.texts}
    assert {"county (1,200)", "3", "~ Normal", "~ HalfNormal"} <= texts
    shades = {to_rgb(x.get_facecolor()) for x in ax.patches if isinstance(x, Ellipse)}
    assert shades == {to_rgb("white"), to_rgb("0.85")}
    boxes = [x for x in ax.patches if isinstance(x, FancyBboxPatch)]
    assert len([x for x in boxes if to_rgb(x.get_facecolor()) == to_rgb("0.85")]) == 1  # the data


def test_variables_of_one_plate_share_it():
    model = DawidSkene(bf.datasets.anesthesia())
    texts = [text.get_text() for text in plot_model(model).texts]
    assert texts.count("rater (5) × class (4)") == 1


def test_a_model_is_drawn_the_same_every_time():
    assert drawn(plot_model(hierarchical())) == drawn(plot_model(hierarchical()))


def test_a_model_without_variables():
    with pytest.raises(ModelError, match="without any"):
        plot_model(pm.Model())

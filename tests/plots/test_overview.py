"""Overviews of every kind of result, and ArviZ's own plots and summaries of results."""

from itertools import product

import arviz as az
import numpy as np
import pytest
import xarray as xr
from pictures import tick_names

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)
from bayesfuse.plots import plot_overview

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}
ANESTHESIA = bf.datasets.anesthesia()
WHOLE = ["classes", "labels", "raters", "items"]


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.fixture(scope="module")
def sampled():
    model = DawidSkene(ANESTHESIA)
    return bf.sample(model, 40, chains=1, **QUIET), model


def test_numbers_are_those_of_the_result(sampled):
    result, model = sampled
    axes = plot_overview(result, model, ci_prob=0.8)
    assert list(axes) == WHOLE
    labels = bf.label_probabilities(result).values
    bars, points = axes["classes"].containers
    np.testing.assert_allclose([bar.get_width() for bar in bars], labels.mean(axis=0)[::-1])
    prevalence = result["posterior"]["prevalence"].mean(("chain", "draw")).values
    np.testing.assert_allclose(points.lines[0].get_xdata(), prevalence[::-1])
    assert tick_names(axes["classes"]) == ["4", "3", "2", "1"]

    sure = labels.max(axis=1)
    ends = [0, 0.5, 0.7, 0.9, 0.99, 1.01]
    count = np.histogram(sure, ends)[0]
    assert [bar.get_width() for bar in axes["labels"].patches] == count.tolist()
    found = bf.decisions.expected_errors(result, model, draws=100, ci_prob=0.8, random_seed=1)
    low, high = int(found["low"]), int(found["high"])
    assert axes["labels"].get_title() == (
        f"{(1 - sure).sum():.1f} of 45 labels expected to be wrong\n(80% interval: {low} to {high})"
    )

    accuracy = result["posterior"]["sensitivity"].mean(("chain", "draw", "class"))
    order = np.argsort(accuracy.values)
    assert tick_names(axes["raters"]) == [str(n) for n in accuracy["rater"].values[order]]
    np.testing.assert_allclose(axes["raters"].lines[0].get_xdata(), accuracy.values[order])
    assert axes["raters"].lines[-1].get_xdata() == [0.25, 0.25]  # chance

    uncertain = bf.decisions.rank_items(result)["item"].head(14)
    assert tick_names(axes["items"]) == [str(item) for item in uncertain[::-1]]


def of_votes():
    said = np.where(np.random.default_rng(1).random((40, 4)) < 0.5, np.arange(4) % 2, -1)
    return LabellingFunctions(bf.Responses.from_matrix(said))


def on_a_path():
    items = ANESTHESIA.items
    edges = np.column_stack([items[:-1], items[1:]])
    return MarkovRandomField(ANESTHESIA, bf.Graph.from_edges(edges, items=items))


def in_sequences():
    return HiddenMarkov(ANESTHESIA, bf.Sequences.from_lengths([20, 25], items=ANESTHESIA.items))


MODELS = {
    "one accuracy": lambda: DawidSkene(ANESTHESIA, raters="coin"),
    "groups": lambda: LatentGroup(ANESTHESIA, groups=[[2, 5]]),
    "sequences": in_sequences,
    "graph": on_a_path,
    "votes": of_votes,
}


@pytest.mark.parametrize("name", MODELS)
def test_points_of_every_model(name):
    """Of a point estimate, with and without its model."""
    model = MODELS[name]()
    point = bf.find_map(model)
    with_model = plot_overview(point, model)
    assert list(with_model) == WHOLE
    without = plot_overview(point)
    assert list(without) == [panel for panel in WHOLE if panel != "raters" or name != "votes"]
    assert "interval" not in without["labels"].get_title()


def test_patterns_count_as_often_as_they_occur():
    point = bf.find_map(DawidSkene(bf.datasets.caries()))
    axes = plot_overview(point)
    assert sum(bar.get_width() for bar in axes["labels"].patches) == 3869
    number = point["constant_data"]["multiplicity"].values
    share = number @ bf.label_probabilities(point).values / number.sum()
    bars = axes["classes"].containers[0]
    np.testing.assert_allclose([bar.get_width() for bar in bars], share[::-1])


def fused(result, **weights):
    """A mixture of models, with the groups of which only some results have all."""
    labels = result["label_posterior"].dataset
    hard = xr.DataArray(np.arange(45.0) / 45, {"item": labels["item"].values}, "item")
    comparison = xr.Dataset({"weight": ("model", list(weights.values()))}, {"model": [*weights]})
    return xr.DataTree.from_dict(
        {
            "label_posterior": labels,
            "posterior": result["posterior"].dataset,
            "difficulty": xr.Dataset({"difficulty": hard}),
            "comparison": comparison,
            "constant_data": result["constant_data"].dataset,
        }
    )


def test_models_and_their_weights(sampled):
    axes = plot_overview(fused(sampled[0], types=0.5, coin=0.2, matrices=0.3))
    assert sorted(axes) == sorted([*WHOLE, "models"])
    assert tick_names(axes["models"]) == ["coin", "matrices", "types"]
    assert [bar.get_width() for bar in axes["models"].patches] == [0.2, 0.3, 0.5]


def test_results_without_labels_show_their_raters(sampled):
    axes = plot_overview(sampled[0].drop_nodes(["label_posterior"]))
    assert list(axes) == ["raters"]
    with pytest.raises(ModelError, match="Got: a result without label probabilities"):
        plot_overview(sampled[0].filter(lambda node: node.name == "constant_data"))


TABLE = bf.datasets.simulate_dawid_skene(30, 6, 3, random_seed=1).responses
SHORT = {"draws": 20, "tune": 10, "chains": 2, "random_seed": 1, "progressbar": False}


@pytest.fixture(
    scope="module",
    params=[
        lambda: LatentGroup(TABLE, {"ward": [0, 1], "lab": [2, 3]}),
        lambda: DawidSkene(TABLE, populations=[0] * 15 + [1] * 15),
    ],
)
def result(request):
    return bf.sample(request.param(), quiet=True, **SHORT)


def test_rows_of_a_summary_have_their_own_names(result):
    """Groups and populations beside raters of three classes were mislabelled by ArviZ."""
    table = az.summary(result, round_to="none")["mean"]
    for name, values in result["posterior"].data_vars.items():
        dims = values.dims[2:]
        for place in product(*(range(values.sizes[dim]) for dim in dims)):
            entry = values.isel(dict(zip(dims, place, strict=True)))
            names = ", ".join(str(entry[dim].values) for dim in dims)
            mean = float(entry.mean())
            assert np.isclose(table[f"{name}[{names}]" if dims else name], mean, atol=1e-6)


def test_the_smallest_variables_fit_into_a_trace_plot(result):
    names = bf.plots.var_names(result)
    assert "prevalence" in names and "confusion" not in names
    az.plot_trace(result, var_names=names)
    assert bf.plots.var_names(result, 3) == ["prevalence"]

"""Pictures of raters, labels and whole results show the numbers, names and order they should."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.patches import Polygon, StepPatch
from new_items import named
from pictures import tick_names
from refusals import refused
from result_functions import MODELS, table

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, LabellingFunctions, LatentGroup
from bayesfuse.plots import (
    plot_confusion,
    plot_labels,
    plot_overview,
    plot_raters,
    plot_sensitivity_specificity,
)


def posterior(responses, draws=60, **kwargs):
    model = DawidSkene(responses, **kwargs)
    return bf.sample(model, draws, chains=2, random_seed=1, progressbar=False, quiet=True)


def as_answer(result):
    """Return a result whose parameters are stored as abilities, as those of an answer are."""
    draws = result["posterior"].dataset
    recall = draws["confusion"].values.diagonal(axis1=-2, axis2=-1).mean(axis=-1)
    mean = xr.DataArray(
        recall, draws["confusion"].isel({"class": 0, "answer": 0}, drop=True).coords
    )
    draws = draws.assign(accuracy=mean, balanced_accuracy=mean)
    result["posterior"] = xr.DataTree(draws.assign_attrs(abilities=1))
    return result


@pytest.fixture(scope="module")
def two():
    return posterior(bf.datasets.caries(), draws=300)


@pytest.fixture(scope="module")
def four():
    return as_answer(posterior(bf.datasets.anesthesia()))


@pytest.fixture(scope="module")
def many():
    made = bf.datasets.simulate_dawid_skene(60, 200, 2, per_item=60, random_seed=1)
    raters = [f"rater {n}" for n in range(200)]
    table = named(made.responses.to_frame(), range(60), raters, [0, 1])
    return as_answer(posterior(table, draws=10))


@pytest.mark.slow
def test_given_axes_are_used_and_no_figure_is_opened(two):
    _, axes = plt.subplots(2, 2)
    assert plot_raters(two, axes=axes[0]).tolist() == axes[0].tolist()
    (ax,) = plot_confusion(two, "dentist 1", axes=axes[1, 0])
    assert ax is axes[1, 0]
    for plot in (plot_labels, plot_sensitivity_specificity):
        axes[1, 1].clear()
        assert plot(two, ax=axes[1, 1]) is axes[1, 1]
    assert len(plt.get_fignums()) == 1


@pytest.mark.slow
def test_what_cannot_be_drawn_is_refused(two, four):
    _, axes = plt.subplots(1, 3)
    with pytest.raises(ValueError, match=r"one Axes for each of the 4 panels\. Got: 3"):
        plot_raters(four, axes=axes)
    with pytest.raises(ValueError, match=r"one Axes for each of the 2 panels\. Got: 3"):
        plot_confusion(four, [1, 2], axes=axes)
    with pytest.raises(ValueError, match=r"Got: 'dentist 9'"):
        plot_confusion(two, ["dentist 1", "dentist 9"])
    refused(r"for two classes, .* Got: 4 classes", plot_sensitivity_specificity, four)
    bare = xr.DataTree(children={name: four[name] for name in ("label_posterior", "constant_data")})
    bare["posterior"] = xr.DataTree(four["posterior"].dataset[["prevalence"]])
    for plot in (plot_raters, plot_sensitivity_specificity, plot_confusion):
        refused(r"Got: no '\w+' among \['prevalence'\]", plot, bare)
        refused(r"among \[\]", plot, bare.filter(lambda node: node.name != "posterior"))


@pytest.mark.parametrize(("kind", "probability"), [("eti", 0.5), ("hdi", None)])
def test_raters_shows_means_and_intervals(two, kind, probability):
    names = tuple(f"dentist {n}" for n in range(1, 6))
    draws = two["posterior"].dataset
    mean = draws.mean(("chain", "draw"))
    order = np.argsort((mean["sensitivity"] + mean["specificity"]).values)
    with az.rc_context({"stats.ci_kind": kind, "stats.ci_prob": 0.8}):
        axes = plot_raters(two, ci_prob=probability)
        for ax, name, truth in zip(
            axes,
            ("sensitivity", "specificity"),
            ("carious (positive)", "sound (negative)"),
            strict=True,
        ):
            assert ax.get_title() == f"truth: {truth}"
            points, chance = ax.lines
            assert chance.get_xdata() == [0.5, 0.5]
            np.testing.assert_allclose(points.get_xdata(), mean[name].values[order])
            (lines,) = (x for x in ax.collections if isinstance(x, LineCollection))
            expected = getattr(az, kind)(draws[name], prob=probability or 0.8).values[order]
            np.testing.assert_allclose([line[:, 0] for line in lines.get_segments()], expected)
    assert tick_names(axes[0]) == [names[index] for index in order]


def test_of_many_raters_the_best_and_the_worst_are_named(many):
    axes = plot_raters(many)
    mean = many["posterior"].dataset.mean(("chain", "draw"))
    quality = mean["sensitivity"] + mean["specificity"]
    order = np.argsort(quality.values, kind="stable")
    names = tick_names(axes[0])
    n = len(names) // 2
    assert n >= 10
    assert names == mean["rater"].values[[*order[:n], *order[-n:]]].tolist()
    for ax, name in zip(axes, ("sensitivity", "specificity"), strict=True):
        shown = np.concatenate([line.get_xydata() for line in ax.lines if line.get_ls() != ":"])
        shown = shown[np.argsort(shown[:, 1])]  # from below
        np.testing.assert_allclose(shown[:, 0], mean[name].values[order])


def test_regions_hold_their_share_of_the_draws_and_stay_in_the_square(two):
    for probability in (None, 0.5):
        ax = plot_sensitivity_specificity(two, ci_prob=probability)
        names = [text.get_text() for text in ax.texts]
        assert names == [f"dentist {n}" for n in range(1, 6)]
        regions = [patch for patch in ax.patches if isinstance(patch, Polygon)]
        for name, region in zip(names, regions, strict=True):
            own = two["posterior"].dataset.sel(rater=name)
            draws = np.stack([own[rate].values.ravel() for rate in ("specificity", "sensitivity")])
            share = mpl.path.Path(region.get_xy()).contains_points(draws.T).mean()
            # the normal approximation is not exact: a few in a hundred, and as much for 600 draws
            expected = probability or az.rcParams["stats.ci_prob"]
            assert abs(share - expected) < 0.04 + 3 * np.sqrt(expected * (1 - expected) / 600)
    certain = plot_sensitivity_specificity(posterior(bf.Responses.from_counts({"00": 9, "11": 9})))
    for region in certain.patches:
        assert region.get_xy().min() >= 0 and region.get_xy().max() <= 1


def test_many_raters_are_points_by_their_responses(many):
    result = many
    ax = plot_sensitivity_specificity(result)
    (points,) = (x for x in ax.collections if isinstance(x, PathCollection))
    mean = result["posterior"].dataset.mean(("chain", "draw"))
    expected = np.stack([mean["specificity"], mean["sensitivity"]], axis=1)
    np.testing.assert_allclose(points.get_offsets(), expected)
    answered = np.bincount(result["constant_data"]["rater_index"], minlength=200)
    assert np.all(np.diff(points.get_sizes()[np.argsort(answered)]) >= 0)


def test_confusion_prints_means_and_intervals(four):
    (ax,) = plot_confusion(four, 4, ci_prob=0.5)
    assert ax.get_title() == "rater 4 (45 responses)"
    own = four["posterior"]["confusion"].sel(rater=4)
    mean = own.mean(("chain", "draw")).values
    low, high = np.moveaxis(az.eti(own, prob=0.5).values, -1, 0)
    np.testing.assert_allclose(ax.images[0].get_array(), mean)
    texts = [text.get_text() for text in ax.texts]
    assert texts[:2] == [f"{mean[0, 0]:.2f}", f"{low[0, 0]:.2f}–{high[0, 0]:.2f}"]


def test_confusion_is_of_the_busiest_raters_and_counts_copies(two, many):
    titles = [ax.get_title() for ax in plot_confusion(two)]
    assert titles == [f"dentist {n} (3,869 responses)" for n in range(1, 6)]
    answered = np.bincount(many["constant_data"]["rater_index"], minlength=200)
    shown = [ax.get_title() for ax in plot_confusion(many, most=3)]
    counts = sorted(int(title.split("(")[1].split()[0]) for title in shown)
    assert counts == np.sort(answered)[-3:].tolist()


def test_labels_are_stacked_to_one_worst_on_top(two, four):
    ax = plot_labels(four, most=10)
    probability = bf.label_probabilities(four)
    order = np.argsort(probability.max("class").values, kind="stable")[:10][::-1]
    assert tick_names(ax) == [str(item) for item in probability["item"].values[order]]
    for bars, name in zip(ax.containers, (1, 2, 3, 4), strict=True):
        assert bars.get_label() == str(name)
        widths = [bar.get_width() for bar in bars]
        np.testing.assert_allclose(widths, probability.sel({"class": name}).values[order])
    ends = [bar.get_x() + bar.get_width() for bar in ax.containers[-1]]
    np.testing.assert_allclose(ends, 1)
    assert "00000 (×1,880)" in tick_names(plot_labels(two))
    # items without names, from above: by label, then certainty
    right = [band.get_data().values for band in ax.patches if isinstance(band, StepPatch)]
    rest = np.diff(np.array(right), axis=0, prepend=0.0).T[::-1].round(9)
    assert len(rest) == 35 and len(np.unique(rest.argmax(axis=1))) > 1
    assert (np.lexsort((rest.max(axis=1), rest.argmax(axis=1))) == np.arange(35)).all()


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
    bars, intervals = axes["classes"].containers
    shares = bf.class_shares(result, contrasts=False, ci_prob=0.8, random_seed=0).shares[::-1]
    np.testing.assert_allclose([bar.get_width() for bar in bars], shares["share"])
    ends = [segment[:, 0] for segment in intervals.lines[2][0].get_segments()]
    np.testing.assert_allclose(ends, shares[["low", "high"]])
    assert tick_names(axes["classes"]) == ["4", "3", "2", "1"]

    sure = labels.max(axis=1)
    ends = [0, 0.5, 0.7, 0.9, 0.99, 1.01]
    count = np.histogram(sure, ends)[0]
    assert [bar.get_width() for bar in axes["labels"].patches] == count.tolist()
    found = bf.decisions.expected_errors(result, ci_prob=0.8)
    low, high = int(found["low"]), int(found["high"])
    assert axes["labels"].get_title() == (
        f"{(1 - sure).sum():.1f} of 45 labels expected to be wrong\n(80% interval: {low} to {high})"
    )

    raters = bf.rater_table(result).iloc[::-1]  # as in the answer's table
    assert tick_names(axes["raters"]) == [str(name) for name in raters["rater"]]
    np.testing.assert_allclose(axes["raters"].lines[0].get_xdata(), raters["accuracy"])

    uncertain = bf.decisions.rank_items(result)["item"].head(14)
    assert tick_names(axes["items"]) == [str(item) for item in uncertain[::-1]]


def of_votes():
    said = np.where(np.random.default_rng(1).random((40, 4)) < 0.5, np.arange(4) % 2, -1)
    return LabellingFunctions(bf.Responses.from_matrix(said))


@pytest.mark.parametrize("name", ["coin", "groups", "chain", "graph", "votes"])
def test_points_of_every_model(name):
    """Of a point estimate, with and without its model."""
    own = {"coin": lambda: DawidSkene(ANESTHESIA, raters="coin"), "votes": of_votes}
    model = own[name]() if name in own else MODELS[name](table())
    point = bf.find_map(model)
    assert list(plot_overview(point, model)) == WHOLE
    without = plot_overview(point)
    assert list(without) == WHOLE
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
    comparison = xr.Dataset({"weight": ("model", list(weights.values()))}, {"model": [*weights]})
    return xr.DataTree.from_dict(
        {
            "label_posterior": labels,
            "posterior": result["posterior"].dataset,
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


def test_the_smallest_variables_fit_into_a_trace_plot(result):
    names = bf.plots.var_names(result)
    assert "prevalence" in names and "confusion" not in names
    az.plot_trace(result, var_names=names)
    with az.rc_context({"plot.max_subplots": 3}):
        assert bf.plots.var_names(result) == ["prevalence"]

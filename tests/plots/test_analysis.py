"""Pictures of checks, sequences, ranks, fits, models, hard items and panels show the numbers."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from new_items import named
from pictures import tick_names
from refusals import refused

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes


def pairs_found():
    return xr.Dataset(
        {
            "observed": ("pair", [0.9, 0.5, 0.6]),
            "replicated": ("pair", [0.6, 0.5, 0.62]),
            "low": ("pair", [0.5, 0.4, 0.5]),
            "high": ("pair", [0.7, 0.6, 0.7]),
            "unusual": ("pair", [True, False, False]),
        },
        {"first": ("pair", ["Ann", "Ann", "Bob"]), "second": ("pair", ["Bob", "Cid", "Cid"])},
        {"p_value": 0.01},
    )


def test_unusual_pairs_are_named():
    ax = plots.plot_check(pairs_found())
    calm, alarm = (c.get_offsets() for c in ax.collections[-2:])
    assert np.allclose(calm, [[0.5, 0.5], [0.62, 0.6]])
    assert np.allclose(alarm, [[0.6, 0.9]])
    assert [text.get_text() for text in ax.texts] == ["Ann, Bob"]


def test_dependent_raters_stand_together():
    found = xr.Dataset(
        {
            "observed": ("pair", [6.0, 2.0]),
            "expected": ("pair", [1.0, 3.0]),
            "items": ("pair", [10, 20]),
            "unusual": ("pair", [True, False]),
            "cluster": ("rater", [-1, 0, -1, 0]),
        },
        {"first": ("pair", ["b", "a"]), "second": ("pair", ["d", "b"]), "rater": list("abcd")},
    )
    ax = plots.plot_dependence(found)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["a", "b", "d"]  # nobody was compared with c
    values = ax.images[0].get_array()
    assert values[1, 2] == values[2, 1] == pytest.approx(0.5)
    assert values[0, 1] == pytest.approx(-0.05)
    assert np.isnan(np.asarray(values.filled(np.nan))[0, 2])
    assert np.allclose(ax.collections[0].get_offsets(), [[1, 2], [2, 1]])


def test_runs_are_named_by_their_length():
    found = xr.Dataset(
        {
            "observed": ("length", [0.5, 0.2]),
            "replicated": ("length", [0.4, 0.25]),
            "low": ("length", [0.3, 0.2]),
            "high": ("length", [0.45, 0.3]),
            "unusual": ("length", [True, False]),
        },
        {"length": [1, 2]},
        {"observed": 0.7, "replicated": 0.5, "p_value": 0.02},
    )
    ax = plots.plot_check(found)
    assert [(text.get_text(), *text.xy) for text in ax.texts] == [("1", 0.4, 0.5), ("2", 0.25, 0.2)]
    assert ax.get_title() == "2 lengths of runs, 1 unusual (all together p = 0.02)"


def test_calibration_shows_shares_and_counts():
    labels = xr.DataArray(
        [[0.95, 0.05], [0.9, 0.1], [0.4, 0.6]], {"item": list("abc"), "class": [0, 1]}
    )
    truth = {"a": 0, "b": 1, "c": 1}
    ax = plots.plot_calibration(labels, truth, bins=3)
    (points,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert np.allclose(points.get_xydata(), [[0.6, 1], [0.9, 0], [0.95, 1]])
    assert ax.get_title().endswith("3 bins of 1 item")  # nobody is left out
    one = plots.plot_calibration(labels, pd.Series(truth))
    (points,) = [line for line in one.lines if line.get_marker() == "o"]
    assert np.allclose(points.get_xydata(), [[2.45 / 3, 2 / 3]])


@pytest.mark.slow
def test_ranks_of_many_show_the_worst_too():
    n = 250
    draws = xr.DataArray(
        np.random.default_rng(1).normal(-np.arange(n), 0.1, (1, 20, n)),
        {"rater": [f"{m}-th" for m in range(n)]},
        ("chain", "draw", "rater"),
        name="wit",
    )
    ax = plots.plot_ranks(bf.decisions.rank_raters(xr.DataTree(), draws), most=7)
    named = ["249-th", "248-th", "247-th", "3-th", "2-th", "1-th", "0-th"]
    assert tick_names(ax) == named
    cells = ax.collections[0].get_array()
    assert cells.shape == (n, n)  # nobody is left out
    assert np.allclose(cells.sum(axis=1), 1)
    assert cells[0, -1] == cells[-1, 0] == 1
    few = plots.plot_ranks(bf.decisions.rank_raters(xr.DataTree(), draws.isel(rater=[0, 9, 3])))
    assert tick_names(few) == ["9-th", "3-th", "0-th"]
    assert np.allclose(few.collections[0].get_array().reshape(3, -1), np.eye(3)[::-1])


def test_a_sequence_in_its_order():
    """Items of the table in another order than the sequence, a response missing, a path."""
    responses = bf.Responses.from_matrix(
        [[1, 1], [0, -1], [0, 0], [1, 1]], items=list("cabd"), raters=["Ann", "Bob"]
    )
    sequences = bf.Sequences.from_lengths([3, 1], items=list("abcd"), names=["first", "last"])
    model = HiddenMarkov(responses, sequences, raters="confusion")
    point = bf.find_map(model)
    above, below = plots.plot_sequence(point, model, "first")
    assert [tick.get_text() for tick in below.get_xticklabels()] == ["a", "b", "c"]
    tiles = below.collections[0].get_array().reshape(2, 3)
    assert tiles.tolist() == [[None, 0, 1], [0, 0, 1]]  # counted from below: Bob, Ann
    first = bf.label_probabilities(point).sel(item=["a", "b", "c"]).values[:, 0]
    assert np.allclose(above.patches[0].get_data().values, first)
    independent = DawidSkene(responses)
    known = bf.find_map(independent)
    refused("sequences=", plots.plot_sequence, known, independent)
    refused(r"one of \['first', 'last'\].*Got: 'third'", plots.plot_sequence, point, model, "third")


@pytest.mark.parametrize(("n_items", "has_gaps"), [(80, True), (160, False)])
def test_tiles_of_long_sequences_have_no_gaps(n_items, has_gaps):
    """White gaps between a thousand tiles would be wider than these."""
    responses = bf.Responses.from_matrix(np.repeat([[0, 0], [1, 1]], n_items // 2, axis=0))
    model = HiddenMarkov(responses, bf.Sequences.from_lengths([n_items]), raters="confusion")
    _, below = plots.plot_sequence(bf.find_map(model), model)
    assert (len(below.collections[0].get_edgecolor()) > 0) == has_gaps


QUIET = {"progressbar": False, "quiet": True, "log_likelihood": False, "random_seed": 1}


@pytest.fixture(scope="module")
def fit():
    made = bf.datasets.simulate_dawid_skene(60, 6, 3, accuracy=(0.5, 0.8), random_seed=1)
    items, frame = [f"n{n}" for n in range(60)], made.responses.to_frame()
    model = ItemTypes(named(frame, items, range(6), ["cat", "dog", "fox"]))
    return bf.sample(model, 30, chains=1, **QUIET), model


@pytest.mark.slow
def test_hardest_items_are_on_top_with_their_classes(fit):
    found = bf.decisions.difficulty(*fit)
    items, mistakes = plots.plot_hard_items(*fit, most=10)
    order = np.argsort(found["disagreement"].values, kind="stable")
    some = found.isel(item=order[-10:])
    names = [
        f"{item}: {one} or {other}"
        for item, one, other in zip(
            *(some[name].values for name in ("item", "label", "confused_with")), strict=True
        )
    ]
    assert tick_names(items) == names
    dots, crosses = items.collections[-2:]
    np.testing.assert_allclose(dots.get_offsets()[:, 0], some["disagreement"])
    np.testing.assert_allclose(crosses.get_offsets()[:, 0], some["error"])
    ends = np.array([line[:, 0] for line in items.collections[-3].get_segments()])
    np.testing.assert_allclose(ends, np.stack([some["low"], some["high"]], axis=1))
    image = np.ma.filled(mistakes.images[0].get_array(), np.nan)
    expected = found["mistakes"].transpose("class", "labelled").values
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(image[off], expected[off])


@pytest.fixture(scope="module")
def result():
    made = bf.datasets.simulate_dawid_skene(60, 4, 3, random_seed=1)
    model = bf.models.DawidSkene(made.responses, gold={0: made.truth[0]})
    return bf.sample(model, 20, tune=20, random_seed=1, progressbar=False, quiet=True)


def test_shares_of_all_groups_and_classes(result):
    found = bf.class_shares(result, by=["$a$", "b\n"] * 30, random_seed=1).shares
    used = plt.subplots(1, 3)[1]
    used[0].plot([0, 1], [0, 1])  # artists that are there do not enter the legend
    axes = bf.plots.plot_class_shares(found, axes=used)
    assert len(axes) == 3
    names = ["b  (30 items)", r"\$a\$ (30 items, 1 known)", "all items (60 items, 1 known)"]
    assert tick_names(axes[0]) == names
    shown = axes[1].lines[0].get_xdata()
    np.testing.assert_allclose(shown, found[found["class"] == 1]["share"].to_numpy()[::-1])
    legend = [text.get_text() for text in axes[-1].get_legend().get_texts()]
    assert legend == ["share", "these items", "new items", "votes"]
    axes[0].figure.canvas.draw()
    plt.close("all")
    whole = bf.class_shares(result, by=["$a$", "b\n"] * 30, random_seed=1)
    same = bf.plots.plot_class_shares(whole)[1].lines[0].get_xdata()
    np.testing.assert_array_equal(same, shown)
    plt.close("all")
    refused("the tables of bf.class_shares", bf.plots.plot_class_shares, result)


def test_the_least_certain_items_have_responses():
    """As in the text of an answer: nothing is known of the others."""
    made = bf.datasets.simulate_dawid_skene(20, 4, 2, random_seed=1).responses
    responses = bf.Responses.from_long(made.to_frame(), items=range(21))
    point = bf.find_map(bf.models.DawidSkene(responses))
    names = tick_names(bf.plots.plot_overview(point)["items"])
    assert len(names) == 14 and "20" not in names
    plt.close("all")


def test_a_result_is_not_a_check(result):
    refused("Got: DataTree", bf.plots.plot_check, result, None)
    refused("pairwise_agreement", bf.plots.plot_check, bf.checks.collapse(result, random_seed=1))


def test_a_panel(result):
    found = bf.decisions.select_panel(result, random_seed=1)
    axes = bf.plots.plot_panel(found)
    assert sorted(tick_names(axes[0])) == ["0", "1", "2", "3"]
    np.testing.assert_allclose(axes[1].lines[0].get_xdata(), found["wrong"][::-1])
    assert axes[0].get_title().startswith("4 raters are worth ")
    plt.close("all")

"""One number for a rater: every table, plot, text and file shows the same abilities."""

import re

import numpy as np
import pandas as pd
import pytest
from drawn_results import drawn_result
from matplotlib import pyplot as plt
from refusals import refused

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes, LabellingFunctions

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}


def results():
    """Yield results of several models, of two classes and of three."""
    for n_classes, model in ((2, DawidSkene), (3, ItemTypes)):
        made = bf.datasets.simulate_dawid_skene(40, 5, n_classes, random_seed=n_classes)
        yield bf.sample(model(made.responses), 40, chains=2, **QUIET)


@pytest.fixture(scope="module", params=[0, 1], ids=["two classes", "three classes"])
def result(request):
    return list(results())[request.param]


def recalls(table, rater):
    """Return sensitivities of a row of the table, the last class of two first, as plots have it."""
    columns = [name for name in table if re.fullmatch(r"sensitivity(\[.*\])?|specificity", name)]
    return table.set_index("rater").loc[rater, columns].to_numpy(dtype=float)


def test_all_functions_and_plots_show_the_same_numbers(result):
    table = bf.rater_table(result, columns="all")
    by_rater = table.set_index("rater")
    two = "specificity" in table

    ranks = bf.decisions.rank_raters(result)
    expected = by_rater.loc[ranks["rater"].values, "balanced_accuracy"]
    np.testing.assert_allclose(ranks["quality"], expected)
    ranks = bf.decisions.rank_raters(result, "accuracy")
    np.testing.assert_allclose(ranks["quality"], by_rater.loc[ranks["rater"].values, "accuracy"])

    for column in table.filter(regex=r"^sensitivity(\[\d\])?$"):
        ranks = bf.decisions.rank_raters(result, column)
        assert ranks.attrs["by"] == column
        np.testing.assert_allclose(ranks["quality"], by_rater.loc[ranks["rater"].values, column])

    axes = bf.plots.plot_raters(result)
    names = [int(text.get_text()) for text in axes[0].get_yticklabels()]
    shown = np.array([ax.lines[0].get_xdata() for ax in axes])
    np.testing.assert_allclose(shown.T, [recalls(table, name) for name in names])
    matrices = bf.plots.plot_confusion(result, most=None)
    first = [text.get_text() for text in matrices[0].texts]
    hits = recalls(table, 0)[::-1] if two else recalls(table, 0)
    assert {f"{value:.2f}" for value in hits} <= set(first)
    if two:
        ax = bf.plots.plot_sensitivity_specificity(result)
        points = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
        expected = by_rater.sort_index()[["specificity", "sensitivity"]].to_numpy()
        np.testing.assert_allclose(points, expected)
    overview = bf.plots.plot_overview(result)["raters"].lines[0]
    np.testing.assert_allclose(overview.get_xdata(), table["accuracy"][::-1])
    plt.close("all")

    short = bf.rater_table(result)
    assert short.shape[1] <= 10
    pd.testing.assert_frame_equal(short, table[short.columns])


def certain(matrix, truth, classes, gold=None, number=200):
    """Return a result whose labels are the same in all draws."""
    responses = bf.Responses.from_matrix(matrix, classes=classes)
    return drawn_result([truth] * number, classes, responses, gold)


def test_one_response_never_leads_and_has_the_widest_interval():
    truth = np.arange(60) % 2
    matrix = np.tile(truth[:, None], 4)
    matrix[::7, 1:3] = 1 - matrix[::7, 1:3]
    matrix[1:, 3] = -1  # one response, a right one
    table = bf.rater_table(certain(matrix, truth, [0, 1])).set_index("rater")
    assert table.index[0] == 0 and table["low"].is_monotonic_decreasing
    width = table["high"] - table["low"]
    assert width.idxmax() == 3 and width[3] > 2 * width.drop(3).max()


def test_abilities_of_known_labels_are_the_observed_shares_of_many():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 900)
    right = rng.random((900, 3)) < [0.9, 0.6, 0.2]
    matrix = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, (900, 3))) % 3)
    table = bf.rater_table(certain(matrix, truth, [0, 1, 2]), columns="all").set_index("rater")
    observed = (matrix == truth[:, None]).mean(axis=0)
    np.testing.assert_allclose(table["accuracy"].sort_index(), observed, atol=0.015)
    recall = np.array([(matrix[truth == k] == k).mean(axis=0) for k in range(3)])
    columns = [f"sensitivity[{k}]" for k in range(3)]
    np.testing.assert_allclose(table[columns].sort_index().T, recall, atol=0.03)
    balanced = table["balanced_accuracy"].sort_index()
    np.testing.assert_allclose(balanced, recall.mean(axis=0), atol=0.02)
    assert np.allclose(table.filter(regex=r"^bias\[\d\]$").sum(axis=1), 0.0)


def test_copies_of_a_response_count_once():
    truth = np.arange(30) % 2
    rows = pd.DataFrame({"item": np.tile(np.arange(30), 2), "rater": np.repeat([0, 1], 30)})
    rows["label"] = np.where(rows["item"] % 5 == 0, 1 - rows["item"] % 2, rows["item"] % 2)
    tables = []
    for copies in (1, 4):
        responses = bf.Responses.from_long(pd.concat([rows] * copies), classes=[0, 1])
        tables.append(bf.rater_table(drawn_result([truth] * 400, [0, 1], responses)))
    one, four = ((table["high"] - table["low"]).mean() for table in tables)
    assert one == pytest.approx(four, rel=0.15)


def test_rules_have_precision_and_no_columns_without_meaning():
    rng = np.random.default_rng(1)
    truth, matrix = rng.integers(0, 2, 200), np.full((200, 6), -1)
    for rule in range(6):
        fires = rng.choice(200, 30, replace=False)
        matrix[fires, rule] = rule % 2
    result = certain(matrix, truth, [0, 1])
    table = bf.rater_table(result).set_index("rater").sort_index()
    assert table.columns.tolist() == [
        "responses", "accuracy", "low", "high", "coverage", "overlaps", "conflicts", "dispersion",
    ]  # fmt: skip
    result.attrs["dispersion"] = 7.0
    wide = bf.rater_table(result).set_index("rater").sort_index()
    assert ((wide["high"] - wide["low"]) > 1.4 * (table["high"] - table["low"])).all()
    assert bf.plots.plot_raters(result)[0].get_title() == "where a rule fires"
    plt.close("all")
    result["constant_data"].attrs["ordered_classes"] = 1
    refused("no 'confusion'", bf.plots.plot_graders, result)


def test_dispersion_is_measured_given_the_labels_where_no_model_has_it():
    """Pairs of eight rules share a label and, if dependent, half of the items of the class."""
    rng = np.random.default_rng(1)
    truth, half = np.arange(2000) % 2, np.arange(2000) // 2 % 2
    rule = np.arange(8)
    can_fire = truth[:, None] == rule % 2
    measured = []
    for inside in (0.1, 0.2):  # firing rate of a rule in its half of the items, of .1 on average
        rate = np.where(half[:, None] == rule // 2 % 2, inside, 0.2 - inside)
        matrix = np.where(rng.random((2000, 8)) < rate * can_fire, rule % 2, -1)
        measured.append(bf.rater_table(certain(matrix, truth, [0, 1]))["dispersion"].iloc[0])
    # 12 pairs beside 10 of dispersion two. Independent: each is one, its variance two
    alone, together = measured
    assert alone == pytest.approx((20 + 12) / 22, abs=4 * np.sqrt(2 * 12) / 22)
    # dependent: 4 pairs meet on 20 items, 8 on none, for which 6.7 are expected
    squares = (4 * (20 - 20 / 3) ** 2 + 8 * (20 / 3) ** 2) / (20 / 3)
    error = 4 * np.sqrt(4 * 20) * 2 * (20 - 20 / 3) / (20 / 3)  # numbers of meetings are Poisson
    assert together == pytest.approx((20 + squares) / 22, abs=error / 22)


def test_differences_are_paired_on_the_draws(result):
    ranks = bf.decisions.rank_raters(
        result, groups={m: "old" if m < 2 else "new" for m in range(5)}
    )
    quality = ranks["quality"].values
    np.testing.assert_allclose(ranks["difference"], quality[:, None] - quality, atol=1e-12)
    better = ranks["better"].values
    np.testing.assert_allclose(better + better.T, 1.0)
    assert (ranks["rater"].values == ranks["other"].values).all()
    old = ranks["quality"].sortby("rater").values[:2].mean()
    new = ranks["quality"].sortby("rater").values[2:].mean()
    difference = ranks["group_difference"].sel(group="old")
    assert float(difference) == pytest.approx(old - new)
    assert float(ranks["group_better"].sum()) == pytest.approx(1.0)


def test_results_without_joint_draws_have_their_parameters():
    counts = bf.datasets.caries()
    result = bf.sample(DawidSkene(counts), 40, chains=2, **QUIET)
    table = bf.rater_table(result).set_index("rater").sort_index()
    expected = result["posterior"]["sensitivity"].mean(("chain", "draw")).to_series()
    np.testing.assert_allclose(table["sensitivity"], expected.sort_index())
    votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, 0, 0], [-1, 1, -1]] * 4)
    point = bf.find_map(LabellingFunctions(votes))
    assert bf.rater_table(point)["accuracy"].between(0, 1).all()

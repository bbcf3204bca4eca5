"""Tables of raters, grades and difficult items, counted by hand."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from drawn_results import drawn_result
from refusals import refused
from rules import rules

import bayesfuse as bf
from bayesfuse.errors import ResponsesError
from bayesfuse.models import DawidSkene, ItemTypes, LabellingFunctions
from bayesfuse.observation.model import observed

QUIET = {"progressbar": False, "quiet": True}


def crowd():
    """Easy and hard items of three classes; the last has no responses, two have the same."""
    made = bf.datasets.simulate_dawid_skene(14, 5, 3, per_item=4, random_seed=3)
    matrix = np.full((16, 5), -1)
    matrix[made.responses.item, made.responses.rater] = made.responses.label
    matrix[14] = matrix[2]
    items = [f"item {n}" for n in range(16)]
    return bf.Responses.from_matrix(matrix, items=items, classes=[0, 1, 2])


def own_model(chain):
    """Types of a user's own model, with independent labels or a chain."""
    responses = crowd()
    with pm.Model(coords={"rater": responses.raters, "class": range(3)}) as model:
        share = pm.Dirichlet("type_of_class", np.ones((3, 24)))
        competence = pm.Beta("competence", 2.0, 1.0, dims="rater")
        first = pm.Dirichlet("first", np.ones(3))
        labels = bf.build.Independent(first)
        if chain:
            sequences = bf.Sequences.from_lengths([9, 7], items=responses.items)
            transition = pm.Dirichlet("transition", 1 + 4 * np.eye(3))
            labels = bf.build.MarkovChain(first, transition, sequences)
        channel = bf.build.Consensus(share, competence, pairs=[(0, 1), (2, 0)])
        bf.build.observe(responses, labels=labels, raters=channel, gold={"item 1": 2, "item 15": 0})
    return model


def types_by_hand(model, result, consensus, prefix=""):
    """Mean probabilities of types, (items, types): sums over all classes and types, by draw."""
    responses, draws = observed(model)[1].responses, result["posterior"].dataset
    found = np.zeros((responses.n_items, len(consensus)))
    places = list(np.ndindex(draws.sizes["chain"], draws.sizes["draw"]))
    for chain, draw in places:
        one = result.isel(chain=[chain], draw=[draw])
        labels = bf.label_probabilities(one, model).values
        at = draws.isel(chain=chain, draw=draw)
        share, looks = at[f"{prefix}type_of_class"].values, at[f"{prefix}competence"].values
        guess = at[f"{prefix}guess"].values if f"{prefix}guess" in at else np.full((5, 3), 1 / 3)
        rows = looks[:, None, None] * consensus + (1 - looks[:, None, None]) * guess[:, None]
        if f"{prefix}clean_confusion" in at:
            rows[:, -3:] = at[f"{prefix}clean_confusion"].values
        for n in range(responses.n_items):
            mine = responses.item == n
            given = rows[responses.rater[mine], :, responses.label[mine]].prod(axis=0)
            found[n] += labels[n] @ (share * given / (share @ given)[:, None]) / len(places)
    return found


@pytest.mark.parametrize("kind", ["independent", "chain", "item types"])
def test_difficulty_is_that_of_sums_over_classes_and_types(kind):
    if kind == "item types":
        model = ItemTypes(crowd(), clean=True, gold={"item 1": 2, "item 15": 0}, name="m")
    else:
        model = own_model(kind == "chain")
    result = bf.sample(model, 4, tune=5, chains=2, random_seed=1, **QUIET)
    rows = observed(model)[1].raters.dictionary(3).rows
    found = bf.decisions.difficulty(result, model, draws=8, ci_prob=0.8)
    types = types_by_hand(model, result, rows, "m::" if kind == "item types" else "")
    differ = 1 - (rows**2).sum(axis=1)
    np.testing.assert_allclose(found["disagreement"], types @ differ)
    np.testing.assert_allclose(found["consensus"], types @ rows)
    same = found["disagreement"].values[[2, 14]]  # of items with the same responses
    assert (same[0] == same[1]) == (kind != "chain")
    for n in range(16):
        for name, level in (("low", 0.1), ("high", 0.9)):
            end = float(found[name][n])
            assert (
                types[n, differ < end - 1e-9].sum() < level <= types[n, differ < end + 1e-9].sum()
            )


def hard_and_easy():
    """Twelve raters; on one item in four of class b most of them say c."""
    rng, item = np.random.default_rng(1), np.arange(160)
    truth = item % 3
    hard = (truth == 1) & (item % 4 == 0)
    row = np.array([[0.94, 0.03, 0.03], [0.03, 0.94, 0.03], [0.03, 0.03, 0.94], [0.02, 0.4, 0.58]])
    label = np.stack([rng.choice(3, p=row[z], size=12) for z in np.where(hard, 3, truth)])
    return bf.Responses.from_matrix(np.array(["a", "b", "c"], dtype=object)[label]), hard


@pytest.mark.slow
def test_hard_items_and_the_classes_they_are_confused_with():
    responses, hard = hard_and_easy()
    model = ItemTypes(responses)
    result = bf.sample(model, 60, chains=2, random_seed=1, **QUIET)
    found = bf.decisions.difficulty(result, model, draws=50)
    differ = found["disagreement"].values
    assert differ[hard].mean() > 0.35 and differ[~hard].mean() < 0.2
    assert (found["low"] <= found["high"]).all() and (found["high"] <= 1).all()
    assert np.isin(found["confused_with"].values[hard], ["b", "c"]).mean() > 0.8
    mistakes = found["mistakes"]
    pair = [mistakes.sel({"labelled": a, "class": b}) for a, b in ("cb", "bc")]
    assert float(sum(pair)) > 0.4 * float(mistakes.sum())  # one pair of three
    errors = bf.decisions.expected_errors(result, model, draws=5, random_seed=1)
    assert float(mistakes.sum()) == pytest.approx(float(errors["expected"]))
    best = bf.label_probabilities(result)
    assert (found["label"].values == best["class"].values[best.values.argmax(axis=1)]).all()
    np.testing.assert_allclose(found["error"], 1 - best.max("class"))
    wider, narrower = (
        bf.decisions.difficulty(result, model, draws=50, ci_prob=p) for p in (0.95, 0.5)
    )
    assert (wider["low"] <= narrower["low"]).all() and (wider["high"] >= narrower["high"]).all()


def test_models_without_types_are_refused():
    model = DawidSkene(bf.datasets.anesthesia())
    result = bf.find_map(model)
    answer = xr.DataTree.from_dict({"difficulty": xr.Dataset()})
    refused(r"Got: ci_prob=0\.5 of an answer", bf.decisions.difficulty, answer, ci_prob=0.5)
    refused(
        r"models\.ItemTypes.* Got: a model of Confusion", bf.decisions.difficulty, result, model
    )
    refused("draws", bf.decisions.difficulty, result, model, draws=0)


def overlaps_by_hand(responses):
    """Count the items of every rater, with responses of others, and with other labels of others."""
    frame = responses.to_frame()
    if "count" not in frame:
        frame["count"] = 1
    total = responses.multiplicity.sum()
    table = {}
    for rater, rows in frame.groupby("rater"):
        shares = np.zeros(3)
        for item, of_item in rows.groupby("item"):
            others = frame[(frame["item"] == item) & (frame["rater"] != rater)]
            differs = any((others["label"] != label).any() for label in of_item["label"])
            shares += of_item["count"].iloc[0] * np.array([1, len(others) > 0, differs])
        table[rater] = shares / total
    return table


def test_coverage_overlaps_and_conflicts(small):
    """Missing and repeated responses of three classes, and patterns with counts."""
    patterns = {"0.1": 4, "00.": 6, ".11": 3, "...": 5, "10.": 0}
    for responses in (small, bf.Responses.from_counts(patterns, missing=".")):
        table = bf.rater_table(responses).set_index("rater")
        for rater, expected in overlaps_by_hand(responses).items():
            shares = table.loc[rater, ["coverage", "overlaps", "conflicts"]]
            assert shares.tolist() == pytest.approx(expected)
    refused("by= is for", bf.rater_table, small, by=[0] * small.n_items)


def test_right_responses_are_counted(small):
    frame = small.to_frame()
    classes = np.resize(small.classes, small.n_items - 1)  # the last item is not known
    truth = dict(zip(small.items[:-1].tolist(), classes.tolist(), strict=True))
    result = bf.find_map(DawidSkene(small))
    for source in (small, result):
        table = bf.rater_table(source, truth=truth).set_index("rater")
        for rater, rows in frame.groupby("rater"):
            known = rows["item"].isin(truth)
            right = (rows["item"].map(truth) == rows["label"])[known]
            assert table.loc[rater, "known"] == known.sum()
            assert table.loc[rater, "known_accuracy"] == pytest.approx(right.mean())
        more = truth | {"not in the table": small.classes[0], -7: "of no class"}
        pd.testing.assert_frame_equal(
            bf.rater_table(source, truth=pd.Series(more)), bf.rater_table(source, truth=more)
        )
        pd.testing.assert_frame_equal(
            bf.rater_table(source, truth=more), bf.rater_table(source, truth=truth)
        )
        with pytest.raises(ResponsesError, match="items that are in the table"):
            bf.rater_table(source, truth={-7: small.classes[0]})


@pytest.mark.slow
def test_accuracies_of_labelling_functions():
    """And wider where rules depend on each other."""
    responses, _ = rules(2, copies=2)
    tables = []
    for dispersion in ({}, {"dispersion": 6.0}):
        model = LabellingFunctions(responses, [0.5, 0.5], **dispersion)
        result = bf.sample(model, draws=40, chains=2, random_seed=1, **QUIET)
        table = bf.rater_table(result)
        assert (table["low"] <= table["accuracy"]).all()
        assert (table["accuracy"] <= table["high"]).all()
        tables.append(table)
    copies = tables[0][tables[0]["rater"].isin([0, 14, 15])]
    assert np.ptp(copies["accuracy"]) < 0.05 and copies["coverage"].nunique() == 3
    narrow, wide = ((table["high"] - table["low"]).mean() for table in tables)
    assert wide > 1.5 * narrow


SHORT = {"draws": 20, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}


def table(classes, ordered=None):
    rng = np.random.default_rng(1)
    names = np.array(classes)[rng.integers(0, 3, (20, 4))]
    return bf.Responses.from_matrix(names, classes=classes, ordered=ordered)


def test_grades_of_known_probabilities():
    share = [[0.5, 0.5, 0.0], [0.04, 0.95, 0.01], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]
    labels = xr.DataArray(
        share, dims=("item", "class"), coords={"item": list("abcd"), "class": [10, 20, 40]}
    )
    found = bf.decisions.item_grades(labels, ci_prob=0.8)
    assert found["mean"].values == pytest.approx([15, 19.8, 33, 40])
    assert found["sd"].values[0] == pytest.approx(5)
    assert found["median"].values.tolist() == [10, 20, 40, 40]
    assert found["low"].values.tolist() == [10, 20, 10, 40]
    assert found["high"].values.tolist() == [20, 20, 40, 40]


def test_bias_is_the_mean_of_given_minus_true_grades():
    words = ["low", "middle", "high"]
    result = bf.sample(DawidSkene(table(words, ordered=True)), **SHORT)
    raters = bf.rater_table(result, columns="all").set_index("rater").sort_index()
    share = bf.label_probabilities(result).values.mean(axis=0)
    axes = bf.plots.plot_confusion(result, most=None)
    rows = np.array([ax.images[0].get_array() for ax in axes])
    gap = np.arange(3) - np.arange(3)[:, None]
    bias = np.einsum("k,mkc,kc->m", share, rows, gap)
    assert raters["grade_bias"].to_numpy() == pytest.approx(bias)
    error = np.einsum("k,mkc,kc->m", share, rows, np.abs(gap))
    assert raters["grade_error"].to_numpy() == pytest.approx(error)
    assert (raters["grade_bias_low"] < raters["grade_bias"]).all()
    assert (raters["grade_bias"] < raters["grade_bias_high"]).all()
    assert "precision" not in raters
    refused(r'raters="graded".* Got: ', bf.plots.plot_graders, result)


def test_classes_without_an_order_are_refused():
    result = bf.sample(DawidSkene(table(["low", "middle", "high"])), **SHORT)
    assert not any(name.startswith("grade") for name in bf.rater_table(result))
    for function in (bf.decisions.item_grades, bf.plots.plot_graders):
        refused(r"need ordered classes.* Got: ", function, result)


def made(said, draws, classes, gold=None):
    return drawn_result(draws, classes, bf.Responses.from_matrix(said, classes=classes), gold)


SAID = [["n", "y"], ["n", "n"], ["y", "y"], ["y", None]]


def test_responses_to_known_items_are_counted_beside_abilities():
    result = made(SAID, [[0, 0, 1, 1], [0, 0, 1, 0]] * 20, ["n", "y"], gold=[0, -1, 1, -1])
    table = bf.rater_table(result, ci_prob=0.9).set_index("rater")
    first, second = table.loc[0], table.loc[1]
    assert first["responses"] == 4 and second["responses"] == 3
    assert first[["known", "known_accuracy"]].tolist() == [2, 1.0]
    assert second[["known", "known_accuracy"]].tolist() == [2, 0.5]
    assert first["accuracy"] > second["accuracy"]


def test_groups_of_items_have_rows_of_their_own():
    result = made(SAID, [[0, 0, 2, 2], [0, 0, 2, 1]] * 20, ["n", "x", "y"])
    table = bf.rater_table(result, by=["a", "a", "a", "b"], columns="all")
    assert sorted(table[["group", "rater", "responses"]].values.tolist()) == [
        ["a", 0, 3],
        ["a", 1, 3],
        ["b", 0, 1],
    ]
    assert np.isfinite(table.filter(regex="accuracy|sensitivity|bias")).all(axis=None)
    assert "known" not in table
    abilities_of_a = table[table["group"] == "a"].set_index("rater")["accuracy"]
    assert abilities_of_a[0] > abilities_of_a[1]


def test_without_responses():
    result = made(SAID, [[0, 0, 1, 1]], ["n", "y"])
    del result["observed_data"]
    refused(r"no .confusion. among", bf.rater_table, result)


def test_raters_of_a_result_whose_table_has_silence():
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=40)
    votes = np.where(rng.random((40, 4)) < 0.8, truth[:, None], 1 - truth[:, None])
    votes = np.where(rng.random((40, 4)) < 0.4, -1, votes)
    table = bf.Responses.from_matrix(votes, abstain=-1)
    result = bf.find_map(bf.models.LabellingFunctions(table))
    by_rater = bf.rater_table(result, truth=dict(enumerate(truth))).set_index("rater")
    alone = bf.rater_table(table, truth=dict(enumerate(truth))).set_index("rater")
    columns = ["responses", "coverage", "overlaps", "conflicts", "known", "known_accuracy"]
    pd.testing.assert_frame_equal(by_rater[columns].sort_index(), alone[columns])


def test_variables_by_label_are_summarised():
    drawn = np.random.default_rng(1).random((2, 30, 2))
    posterior = xr.Dataset({"rate": (("chain", "draw", "label"), drawn)}, {"label": ["x", "y"]})
    found = bf.summary(xr.DataTree.from_dict({"posterior": posterior}), round_to="none")
    assert found.index.tolist() == ["rate[x]", "rate[y]"]
    np.testing.assert_allclose(found["mean"], drawn.mean(axis=(0, 1)))


def test_a_summary_takes_the_arguments_of_arviz():
    """Also those that other functions here have, such as ``ci_prob``, and the names stay right."""
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 30, 2)), rng.random((2, 30, 3, 2))
    variables = {
        "a": (("chain", "draw", "class"), a),
        "b": (("chain", "draw", "group", "class"), b),
    }
    posterior = xr.Dataset(variables, {"class": ["-", "+"], "group": [1, 2, 3]})
    result = xr.DataTree.from_dict({"posterior": posterior})
    half = {"ci_kind": "eti", "ci_prob": 0.5, "round_to": "none"}
    table = bf.summary(result, **half)
    assert {"eti50_lb", "eti50_ub"} <= set(table.columns)
    assert table.loc["b[1, +]", "mean"] == pytest.approx(b[:, :, 0, 1].mean())
    ends = np.quantile(b[:, :, 2, 0], [0.25, 0.75])
    assert table.loc["b[3, -]", ["eti50_lb", "eti50_ub"]].tolist() == pytest.approx(ends, abs=0.02)


def test_raters_of_label_sets_before_a_fit():
    frame = pd.DataFrame(
        {"item": [1, 1, 2, 2], "rater": [*"xyxy"], "label": ["a;b", "a", "b", "c"]}
    )
    sets = bf.Responses.from_label_sets(frame, separator=";")
    table = bf.rater_table(sets, truth={1: ["a", "b"]}).set_index("rater")
    assert table["known"].tolist() == [3, 3]  # whether item 1 has a, b and c
    assert table["known_accuracy"].to_dict() == {"x": 1.0, "y": pytest.approx(2 / 3)}

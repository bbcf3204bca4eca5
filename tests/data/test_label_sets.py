"""Sets of labels in all forms of tables, and what a rater was not asked about."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf

read = bf.Responses.from_label_sets


def answers(sets):
    """Return the answers as a mapping of (item, rater, label)."""
    table, n_labels = sets.questions, sets.n_labels
    return {
        (
            sets.items[question // n_labels],
            sets.raters[rater // n_labels],
            sets.labels[question % n_labels],
        ): bool(label)
        for question, rater, label in zip(table.item, table.rater, table.label, strict=True)
    }


LISTS = {"item": [1, 1, 2], "rater": ["a", "b", "a"], "label": [["x", "y"], ["y"], []]}


def test_lists_text_columns_and_rows_are_the_same_sets():
    expected = answers(read(LISTS))
    assert expected[1, "a", "x"] and not expected[1, "b", "x"] and len(expected) == 6
    text = pd.DataFrame(LISTS | {"label": ["y # x", "y", ""]})
    assert answers(read(text, separator="#")) == expected
    columns = pd.DataFrame(
        {"task": [1, 1, 2], "worker": list("aba"), "x": [1, 0, 0], "y": [1, 1, 0]}
    )
    assert answers(read(columns)) == expected
    rows = pd.DataFrame(  # pandas 2 reads files with NaN, and keeps None
        {"item": [1, 1, 1, 2], "rater": list("aaba"), "label": ["x", "y", "y", np.nan]}
    )
    with pytest.warns(UserWarning, match="1 missing cells and no empty set"):
        long = answers(read(rows))
    assert long == {key: answer for key, answer in expected.items() if key[0] == 1}


@pytest.mark.parametrize("name", ["labels", "Tags", "categories", "label"])
def test_usual_names_of_the_column_of_sets_are_recognised(name):
    frame = {"item": [1, 2], "annotator": ["a", "a"], name: ["cat;dog", ""]}
    assert read(frame, separator=";").labels.tolist() == ["cat", "dog"]


def test_a_label_that_a_rater_was_not_asked_about_is_missing():
    asked = answers(read(LISTS, asked={"a": ["x"]}, labels=["x", "y"]))
    assert asked == {
        (1, "a", "x"): True,
        (1, "a", "y"): True,  # given, so it was asked
        (1, "b", "x"): False,
        (1, "b", "y"): True,
        (2, "a", "x"): False,
    }
    columns = pd.DataFrame({"item": [1, 2], "rater": ["a", "a"], "x": [1, np.nan], "y": [0, 1]})
    assert (2, "a", "x") not in answers(read(columns))


def test_order_of_the_labels_in_a_set_does_not_matter():
    sets = ["x#y", "y#z", "x#z", "x", "y", "z"] * 20
    turned = ["#".join(reversed(labels.split("#"))) for labels in sets]
    frame = pd.DataFrame(
        {"item": list(range(120)) * 2, "rater": ["a"] * 120 + ["b"] * 120, "label": sets + turned}
    )
    table = read(frame, separator="#")
    assert table.masi() == 1.0 and table.questions.agreement() == 1.0
    measures, _ = bf.agreement(table, random_seed=1)
    assert (measures.query("measure == 'agreement'")["value"] == 1.0).all()


def test_masi_weighs_the_jaccard_index():
    cells = [["x", "y"], ["y"], ["x", "y"], ["y", "z"], ["x"], ["y"], [], []]
    frame = {"item": [1, 1, 2, 2, 3, 3, 4, 4], "rater": list("abababab"), "label": cells}
    expected = np.mean([1 / 2 * 2 / 3, 1 / 3 * 1 / 3, 0.0, 1.0])
    assert read(frame).masi() == pytest.approx(expected)
    assert np.isnan(read({"item": [1], "rater": ["a"], "label": [["x"]]}).masi())


def test_agreement_is_that_of_single_labels_by_label():
    frame = pd.DataFrame(
        {"item": [1, 1, 2, 2, 3, 3], "rater": list("ababab"), "x": [1, 1, 0, 1, 1, 1], "y": [0] * 6}
    )
    measures, pairs = bf.agreement(read(frame), random_seed=1)
    alone, _ = bf.agreement(
        bf.Responses.from_long(frame.rename(columns={"x": "label"})[["item", "rater", "label"]]),
        random_seed=1,
    )
    of_label = measures.query("group == 'x'").set_index("measure")["value"]
    assert of_label["agreement"] == alone.set_index("measure")["value"]["agreement"]
    assert measures["measure"].iloc[0] == "MASI" and pairs["group"].unique().tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("frame", "settings", "message"),
    [
        ({"item": [1], "rater": ["a"], "x": [2]}, {}, "entries 0 and 1"),
        ({"item": [1], "rater": ["a"]}, {}, "entries 0 and 1"),
        ({"rater": ["a"], "label": ["x"]}, {}, "column of items"),
        (LISTS, {"labels": ["x"]}, "among labels="),
        (LISTS, {"asked": {"c": ["x"]}}, "no rater or no label"),
        (LISTS, {"asked": {"a": ["q"]}}, "no rater or no label"),
        ([[1, 2]], {}, "columns of items and raters"),
    ],
)
def test_errors_state_the_rule(frame, settings, message):
    with pytest.raises(bf.errors.ResponsesError, match=message):
        read(frame, **settings)


def test_empty_cells_that_pandas_read_as_missing_are_noted(tmp_path):
    path = tmp_path / "tags.csv"
    path.write_text("item,rater,label\n1,a,cat;dog\n2,a,\n1,b,cat\n2,b,\n")
    with pytest.warns(UserWarning, match=r"2 missing cells and no empty set.*keep_default_na"):
        read(pd.read_csv(path), separator=";")
    sets = read(pd.read_csv(path, keep_default_na=False), separator=";")  # warnings are errors
    assert answers(sets)[2, "a", "cat"] is False


def test_labels_that_are_spelt_alike_are_one_on_request():
    cells = ["cat; Dog", "Cat", "dog;cat ", ""]
    frame = {"item": [1, 1, 2, 2], "rater": ["a", "b", "a", "b"], "label": cells}
    with pytest.warns(UserWarning, match=r"4 different labels: 'Cat' \(1\), 'cat' \(2\)"):
        assert read(frame, separator=";").n_labels == 4
    sets = read(frame, separator=";", normalise=True)
    assert sets.n_labels == 2
    assert answers(sets)[1, "b", "cat"] and not answers(sets)[2, "b", "cat"]
    declared = read(frame, separator=";", normalise=True, labels=["CAT", "DOG", "cow"])
    assert declared.labels.tolist() == ["CAT", "DOG", "cow"]
    bf.models.LabelProfiles(declared, gold={1: "cat;DOG"})  # refuses labels of other names
    columns = pd.DataFrame({"item": [1], "Cat": [1], "dog ": [0]})
    for truth in ({1: "cat"}, {1: {"CAT ": True, "Dog": False}}, columns):
        table = bf.rater_table(sets, truth=truth).set_index("rater")
        assert table["known_accuracy"].to_dict() == {"a": 0.5, "b": 1.0}
    for first, last in ((1, 0), (0, 1)):  # two spellings of one label are united
        known = bf.rater_table(sets, truth={1: {"CAT": first, "cat": last}}).set_index("rater")
        assert known["known_accuracy"].to_dict() == {"a": 1.0, "b": 1.0}
    for cells in (["dog", {"cat": True}], [{"cat": True}, "dog"]):
        with pytest.raises(bf.errors.ResponsesError, match="Got: both for item 1"):
            bf.rater_table(sets, truth=pd.Series(cells, [1, 1]))
    with pytest.raises(bf.errors.ResponsesError, match="label 'dog'"):
        bf.models.LabelProfiles(read(LISTS), gold={1: ["dog"]})


JOINED = {
    "none given": (None, ["cat;dog", "cat", "dog", "dog"], "separator=';' .*'cat;dog'"),
    "another": (";", ["cat, dog", "cat", "dog", ""], r"joined by ','.*labels \['cat, dog'\]"),
    "none alone": ("|", ["cat;dog", "dog;cow", "cow;cat", ""], "joined by ';'"),
    "not used": ("|", ["cat;dog", "cow;pig", "", ""], "joined by ';'"),
    "both": (";", ["cat;dog", "cat,dog", "dog", "cat"], "write ';' in its place"),
    "spaces": (None, ["cat dog", "cat", "dog", "dog"], "joined by ' '"),
    "lists": (None, ["['cat', 'dog']", "['cat']", "[]", "[]"], "ast.literal_eval"),
    "parts of lists": (",", ["[cat, dog]", "[cat]", "[dog]", "[]"], "ast.literal_eval"),
}


@pytest.mark.parametrize(("separator", "cells", "message"), JOINED.values(), ids=JOINED)
def test_labels_that_stay_joined_are_pointed_out(separator, cells, message):
    frame = {"item": [1, 1, 2, 2], "rater": list("abab"), "label": cells}
    with pytest.warns(UserWarning, match=message):
        names = read(frame, separator=separator).labels.tolist()
    read(frame, separator=separator, labels=names)  # warnings are errors


def test_names_of_labels_may_have_separators_and_spaces():
    names = [["Paris, France", "hot dog"], ["Rome, Italy"], ["dog", "non-toxic"], ["R&B/soul"]]
    cells = {"item": [1, 1, 2, 2], "rater": list("abab")}
    assert read(cells | {"label": names}).n_labels == 6
    text = ["; ".join(own) for own in names]
    assert read(cells | {"label": text}, separator=";").n_labels == 6


def test_an_unknown_argument_is_refused_by_the_name_that_users_call():
    for name in ("from_label_sets", "from_partial_answers", "from_probabilities", "from_scores"):
        with pytest.raises(TypeError, match=rf"^Responses\.{name}\(\)"):
            getattr(bf.Responses, name)(LISTS, colour="red")


def test_cells_of_one_word_may_be_no_label():
    """A skipped task is missing, as in tables of one label, and "none" is pointed out."""
    cells = {"item": [1, 2, 3], "rater": list("aab"), "label": ["x", "skip", "none, y"]}
    with pytest.warns(UserWarning, match=r"1 cells \['skip'\] are read as missing"):
        sets = read(cells, separator=",")
    assert sets.labels.tolist() == ["none", "x", "y"] and sets.questions.n_responses == 6
    assert read(cells, separator=",", labels=["x", "y", "none", "skip"]).questions.n_responses == 12
    with pytest.warns(UserWarning, match=r"1 cells \['none'\] count as a label"):
        read(cells | {"label": ["x", "y", "none"]})


def test_columns_are_suggested():
    table = {"Ticket": [1, 1, 2, 2], "Coder": [*"abab"], "Tags": ["x,y", "x", "", "y"]}
    with pytest.raises(bf.errors.ResponsesError, match=r"item= \(did you mean 'Ticket'"):
        read(table, separator=",")


def test_intervals_of_many_items_take_bounded_memory(monkeypatch):
    rows = {"item": [1, 1, 2, 2, 3, 3], "rater": list("ababab")}
    rows["label"] = [["x"], ["x", "y"], ["y"], ["y"], ["x"], ["y"]]
    sets = read(rows)
    at_once = bf.agreement(sets, draws=50, random_seed=1).measures
    sizes = []

    class Weights(np.random.Generator):
        def multinomial(self, total, share, size):
            sizes.append(size * len(share))
            return super().multinomial(total, share, size)

    monkeypatch.setattr("bayesfuse.checks.agreement.MAX_WEIGHTS", 12)
    rng = Weights(np.random.default_rng(1).bit_generator)
    in_parts = bf.agreement(sets, draws=50, random_seed=rng).measures
    assert max(sizes) <= 12
    pd.testing.assert_frame_equal(in_parts, at_once)

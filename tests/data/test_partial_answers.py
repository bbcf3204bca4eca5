"""Answers of several classes: reading, and label probabilities against enumeration."""

from itertools import product

import numpy as np
import pytest

import bayesfuse as bf

FRAME = {
    "item": [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6],
    "rater": ["x", "y"] * 6,
    "label": ["A|B", "C", "not A", "B", "A", "not B|C", "C", "C", ["B", "C"], "B", "A", "A|C"],
}
ALLOWED = ["AB", "C", "BC", "B", "A", "A", "C", "C", "BC", "B", "A", "AC"]


@pytest.fixture(scope="module")
def table():
    return bf.Responses.from_partial_answers(FRAME)


def likelihood(confusion):
    """Return p(answers | class or type): the rows of a rater summed over the allowed classes."""
    weight = np.ones((6, confusion.shape[1]))
    for row, allowed in enumerate(ALLOWED):
        columns = ["ABC".index(name) for name in allowed]
        weight[row // 2] *= confusion[row % 2][:, columns].sum(axis=1)
    return weight


def test_items_of_partial_answers_alone_are_among_those_to_label_next():
    frame = {"item": [1, 1, 2, 2, 3], "rater": [*"xyxy", "x"]}
    frame["label"] = ["A|B", "B|C", "A", "C", "not A"]
    responses = bf.Responses.from_partial_answers(frame)
    result = bf.find_map(bf.models.DawidSkene(responses))
    assert set(bf.decisions.next_items(result, random_seed=1)["item"]) == {1, 2, 3}


def test_answers_of_one_class_are_labels_and_others_statements(table):
    labels = table.classes[table.label].tolist()
    assert labels == [name for name in ALLOWED if len(name) == 1]
    sets = [sorted(table.classes[row > 0].tolist()) for row in table.stated.probability]
    assert sets == [sorted(name) for name in ALLOWED if len(name) > 1]
    alone = bf.Responses.from_partial_answers(
        {"item": [1], "rater": ["x"], "label": ["A"]}, classes=["A", "B"]
    )
    assert alone.stated is None


def test_label_probabilities_are_those_of_summed_likelihoods(table):
    model = bf.models.DawidSkene(table)
    result = bf.find_map(model)
    point = result["point"]
    joint = point["prevalence"].values * likelihood(point["confusion"].values)
    expected = joint / joint.sum(axis=1, keepdims=True)
    assert np.allclose(bf.label_probabilities(result, model), expected)


def test_label_probabilities_of_item_types_sum_over_types_and_answers(table):
    model = bf.models.ItemTypes(table, consensus="levels", trust=1.0)
    result = bf.sample(
        model, 3, tune=5, chains=1, sweeps=1, random_seed=1, progressbar=False, quiet=True
    )
    draws = {name: values[0] for name, values in result["posterior"].items()}
    rows = result["constant_data"]["consensus"].values  # (types, answers), and classes by type
    expected = []
    for competence, guess, share in zip(
        *(draws[name].values for name in ("competence", "guess", "type_share")), strict=True
    ):
        answer = competence[:, None, None] * rows + ((1 - competence)[:, None] * guess)[:, None]
        joint = likelihood(answer) * share @ rows
        expected.append(joint / joint.sum(axis=1, keepdims=True))
    assert np.allclose(bf.label_probabilities(result), np.mean(expected, axis=0))


@pytest.mark.slow
def test_label_probabilities_in_sequence_are_those_of_all_paths(table):
    model = bf.models.HiddenMarkov(
        table, bf.Sequences.from_lengths([6], items=[1, 2, 3, 4, 5, 6]), raters="confusion"
    )
    result = bf.find_map(model)
    point = result["point"]
    weight = likelihood(point["confusion"].values)
    initial, transition = point["initial"].values, point["transition"].values
    probability = np.zeros((6, 3))
    for path in product(range(3), repeat=6):
        steps = transition[path[:-1], path[1:]].prod()
        probability[range(6), path] += initial[path[0]] * steps * weight[range(6), path].prod()
    probability /= probability.sum(axis=1, keepdims=True)
    assert np.allclose(bf.label_probabilities(result, model), probability)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        (["A", "not A|B"], {"classes": ["A", "B"]}, "allow a class"),
        (["A", ""], {"classes": ["A", "B"]}, "must have a label in every row"),
        (["A", "|"], {"classes": ["A", "B"]}, "empty answer"),
        (["A", "Q"], {"classes": ["A", "B"]}, "name classes"),
        (["A, B", "A"], {"classes": ["A", "B"]}, "separator="),
    ],
)
def test_answers_that_allow_nothing_are_refused(labels, settings, message):
    frame = {"item": [1, 2], "rater": ["x", "x"], "label": labels}
    with pytest.raises(bf.errors.ResponsesError, match=message):
        bf.Responses.from_partial_answers(frame, **settings)


def test_skipped_answers_are_left_out_as_by_other_readers():
    rows = {"item": [1, 1, 2, 3], "rater": list("xyxz"), "label": ["A|B", "B", "not A", "?"]}
    with pytest.warns(UserWarning, match=r"1 response '\?' is read as missing"):
        table = bf.Responses.from_partial_answers(rows)
    assert table.classes.tolist() == ["A", "B"] and table.items.tolist() == [1, 2, 3]
    assert table.raters.tolist() == ["x", "y"] and table.n_responses == 2
    rows["label"] = [["A", "B"], ["B"], ["B"], ["A"]]  # lists are no marks
    assert bf.Responses.from_partial_answers(rows).n_responses == 3


def test_classes_that_hold_the_names_of_others_are_noted():
    frame = {"item": [1, 1, 2], "rater": list("xyx"), "label": ["fox or wolf", "fox", "wolf"]}
    with pytest.warns(UserWarning, match="'fox or wolf' holds .* separator=' or '; else classes="):
        assert bf.Responses.from_partial_answers(frame).n_classes == 3
    sets = bf.Responses.from_partial_answers(frame, separator=" or ")
    assert repr(sets).startswith("Responses: 2 responses and 1 partial answer to 2 items")
    kinds = ["fox or wolf", "fox", "wolf"]
    assert bf.Responses.from_partial_answers(frame, classes=kinds).n_classes == 3


def test_classes_are_in_the_order_of_other_readers():
    frame = {"item": [1, 2, 3], "rater": list("xyx")}
    labels = ["healthy", "glaucoma", "healthy|glaucoma"]
    table = bf.Responses.from_partial_answers({**frame, "label": labels})
    assert table.classes.tolist() == ["healthy", "glaucoma"] and table.label.tolist() == [0, 1]
    numbers = bf.Responses.from_partial_answers({**frame, "label": [10, 2, 10]})
    assert numbers.classes.tolist() == [2, 10]

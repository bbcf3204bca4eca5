"""Wrong uses of a newcomer end in a sentence with the remedy, or in an answer that says so."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError

LONG = pd.DataFrame({"item": list("aabb"), "rater": list("xyxy"), "label": list("nyyy")})
WIDE = pd.DataFrame({"x": [0, 1, 1, 0], "y": [0, 1, 0, 0], "z": [1, 1, 1, 0]})
TABLE = bf.Responses.from_matrix(WIDE)
MODEL = bf.models.DawidSkene(WIDE)
POINT = bf.find_map(MODEL)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bf.fuse(POINT), r"DataFrame or a two-dimensional array.*Got: DataTree"),
        (lambda: bf.fuse(WIDE.replace(0, -1)), r"classes=\[-1, 1\]"),
        (lambda: bf.fuse(WIDE.to_dict()), "orient='index'"),
        (
            lambda: bf.fuse(LONG.rename(columns=lambda name: f"my {name}")),
            "name the columns by item=, rater=",
        ),
        (
            lambda: bf.fuse(LONG.rename(columns={"label": "said"}), rater="worker"),
            r"give rater= \(did you mean 'rater'.* no column 'worker' and no column 'label'",
        ),
        (lambda: bf.predict(POINT, LONG), "undeclared|not declared|among"),
        (lambda: bf.DawidSkene, r"bf\.models\.DawidSkene"),
        (lambda: bf.fuse(LONG, ordered=True), "as an ordered categorical"),
        (lambda: bf.fuse(WIDE, missing=-1), r"missing= of bf\.Responses\.from_matrix"),
        (lambda: bf.fuse(WIDE * 0), r"classes= of bf\.Responses\.from_long"),
        (lambda: bf.fuse(WIDE.astype(object).replace({1: "y"})), "astype"),
        (lambda: bf.fuse(WIDE, gold={"0": 0}), r"such as \[0, 1, 2, …\]; leave out .* Got: '0'"),
        (
            lambda: bf.fuse(WIDE, gold_error=0.1),
            r"needs known labels .* Got: gold_error=0\.1 alone",
        ),
        (lambda: bf.fuse(WIDE, gold={}, gold_error=0.1), "needs known labels"),
        (
            lambda: bf.fuse(
                bf.Responses.from_matrix(WIDE, abstain=0, classes=[1, 2]), groups=[["x", "y"]]
            ),
            r"groups have no abstentions: leave out groups=",
        ),
        (
            lambda: bf.spans(pd.Series(list("OBI"), [0, 1, 1]), bf.Sequences.from_lengths([2])),
            r"An item has one true class\. Got: labels \['B', 'I'\] for item 1",
        ),
        (lambda: bf.fuse(WIDE, gold=np.zeros(4)), r"dict\(zip\(items, labels\)\).*ndarray"),
        (lambda: bf.rater_table(WIDE, truth=[0, 1]), r"truth=.*Got: list"),
        (lambda: bf.spans(LONG, bf.Sequences.from_lengths([4])), r"bf\.draw_labels\(result\)"),
        (lambda: bf.sample(MODEL, seed=1), r"is random_seed=, as in PyMC\. Got: seed=1"),
        (lambda: bf.fit(MODEL, rng=2), r"random_seed=, .* Got: rng=2"),
        (lambda: bf.sample(MODEL, target_accept=0.9), r"no effect .*Got: \['target_accept'\]"),
        (lambda: bf.sample(MODEL, chain=2), r"its own arguments .*Got: \['chain'\]"),
        (lambda: bf.average([POINT, POINT]), r"results must be a mapping .* Got: list"),
        (lambda: bf.average(POINT), r"map names to results.* Got: one result"),
        (lambda: bf.fuse("table.csv"), r"path of a CSV.*Got: 'table\.csv' \(No such file"),
        (lambda: bf.fuse(TABLE, item="task"), r"columns of a DataFrame.* Got: {'item': 'task'}"),
        (lambda: bf.sample(TABLE), r"such as bf\.models\.DawidSkene\(responses\)\. Got: Responses"),
        (lambda: bf.rater_table(POINT, MODEL), r"Got: a model \(DawidSkene\), which results make"),
        (lambda: bf.rater_table(POINT, "day"), r"frame\.groupby\('item'\)\['day'\]\.first\(\)"),
        (lambda: bf.build.Potts(1.0, [(0, 1)]), r"such as bf\.Graph\.from_edges.*Got: list"),
    ],
)
def test_the_error_names_the_remedy(call, message):
    with pytest.raises((ModelError, ResponsesError, AttributeError), match=message) as error:
        call()
    assert len(str(error.value)) < 500 and "\n" not in str(error.value)


def at_once(table, **inputs):
    with pytest.warns(bf.errors.QuickAnswerWarning):
        return bf.fuse(table, minutes=1e-9, random_seed=1, progressbar=False, **inputs)


def test_items_of_sequences_and_graphs_need_no_responses():
    sequences = bf.Sequences.from_lengths([2, 3], items=list("xybza"))
    answers = [at_once(LONG, sequences=sequences)]
    answers.append(at_once(LONG, graph=bf.Graph.from_edges([("a", "b"), ("b", "c")])))
    assert [answer.labels()["item"].tolist() for answer in answers] == [[*"xybza"], [*"abc"]]
    code = answers[0].explain()
    space = {"frame": LONG, "sequences": sequences}
    exec(code[: code.index("results = ")], space)
    assert space["responses"].items.tolist() == [*"xybza"]
    order = bf.Sequences.from_lengths([2], items=list("ba"))
    assert at_once(LONG, sequences=order).labels()["item"].tolist() == [*"ba"]  # as in the shell
    table = bf.Responses.from_long(LONG)  # whose order is the user's
    assert at_once(table, sequences=order).labels()["item"].tolist() == [*"ab"]
    with pytest.raises(ResponsesError, match="declare those without responses"):
        bf.fuse(LONG.replace("a", "A"), sequences=sequences)


def test_repeated_responses_are_counted_as_they_were_given():
    table = pd.concat([LONG, LONG, LONG.head(1)])
    (counted,) = [line for line in bf.checks.identifiability(table).problems if "copies" in line]
    answer = at_once(table)
    assert "Check that 5 responses are not copies" in counted
    assert counted in answer.attrs["limits"].splitlines()
    assert not any("copies" in line for line in answer.advice)


@pytest.mark.slow
def test_draws_above_the_default_are_made():
    settings = {"draws": 400, "minutes": 5, "checks": False, "progressbar": False}
    answer = bf.fuse(WIDE, random_seed=1, **settings)
    assert answer["comparison"]["draws"].max() == 4 * 400


@pytest.mark.parametrize("mark", [" ", "-1", "NA", "None", "Unsure"])
def test_classes_that_may_be_marks_are_pointed_out(mark):
    labelled = LONG.assign(label=[mark, "n", "y", "y"])
    table = bf.Responses.from_long(labelled, classes=[mark, "n", "y"])
    found = bf.checks.identifiability(table)
    assert f"The class {mark!r} looks like a mark of missing responses" in found.problems[-1]


@pytest.mark.parametrize("name", ["panel_reference", "Ground truth"])
def test_columns_named_as_known_labels_are_no_raters(name):
    with pytest.raises(ResponsesError, match="known labels are given by gold="):
        bf.fuse(WIDE.assign(**{name: 1}))
    at_once(WIDE.assign(preferences=1))


def test_a_class_that_no_known_label_has_is_stated():
    """A tie that judges call and people never do has a share of zero, and counts as a class."""
    matrix = np.tile([["A", "A", "tie"], ["B", "tie", "B"], ["A", "A", "A"]], (10, 1))
    known = {item: labels[0] for item, labels in enumerate(matrix.tolist())}
    table = bf.Responses.from_matrix(matrix)
    problems = bf.checks.identifiability(table, known).problems
    assert any("No known label is of the class tie" in problem for problem in problems)
    assert not bf.checks.identifiability(table, known | {0: "tie"}).problems


@pytest.mark.parametrize(
    ("table", "gold", "problem"),
    [
        (WIDE[["x"]], None, "Only one rater responded"),
        (WIDE[["x", "y"]], None, "With two raters"),
        (LONG.assign(item=list("abcd")), None, "No item has responses of two raters"),
        (np.kron(np.eye(2, dtype=int), np.array([[1, 2, 1], [2, 2, 1]])) - 1, None, "2 parts"),
        (bf.Responses.from_matrix(WIDE, classes=[0, 1, 2]), None, "No response names the class 2"),
        (WIDE.reindex([*WIDE.index, 9]), None, "Items without responses: 1 (9)"),
        (LONG.assign(label=[0.1, 0.2, 0.3, 0.4]), None, "4 classes for 4 responses"),
        (np.tile(WIDE["x"], 5)[:, None], dict(enumerate(np.tile(WIDE["x"], 5))), None),
        (WIDE, None, None),
    ],
)
def test_what_a_table_cannot_tell(table, gold, problem):
    found = bf.checks.identifiability(table, gold)
    if problem is None:
        assert not found.problems and "No other problem" in str(found)
    else:
        assert any(problem in line for line in found.problems)
        assert all(line.endswith(".") for line in found.problems)


def test_two_tests_need_two_populations():
    """Hui and Walter (1980): six parameters, and six degrees of freedom instead of three."""
    table, populations = bf.datasets.tuberculosis()
    alone = bf.checks.identifiability(table)
    assert alone.facts[["parameters", "degrees_of_freedom"]].tolist() == [5, 3]
    assert alone.questions["answer"].tolist() == ["no"] * 3
    both = bf.checks.identifiability(table, populations=populations)
    assert both.facts[["parameters", "degrees_of_freedom"]].tolist() == [6, 6]
    assert both.questions["answer"].tolist() == ["with assumptions"] * 3
    assert "whose class shares differ" in both.questions["because"]["labels"]


@pytest.mark.parametrize("n_raters", [3, 14])
def test_degrees_of_freedom_of_responses_to_some_items(n_raters):
    """Of three classes and two raters per item: pairs of a chain of raters, counted one by one."""
    pairs = [(n, n + 1) for n in range(n_raters - 1)]
    rows = [(i, r, (i + r) % 3) for i, pair in enumerate(pairs) for r in pair]
    found = bf.checks.identifiability(pd.DataFrame(rows, columns=["item", "rater", "label"]))
    assert found.facts["degrees_of_freedom"] == 2 * n_raters + 4 * len(pairs)
    assert found.facts["meetings"] == len(pairs)


def test_raters_who_never_differ_are_a_problem():
    said = np.repeat([[0], [1]], [15, 10], axis=0) + np.zeros((1, 4), dtype=int)
    (problem,) = bf.checks.identifiability(said).problems
    assert problem.startswith("All responses to an item agree (of 25 items with several)")
    said[0, 3] = 1
    assert bf.checks.identifiability(said).problems == []


@pytest.mark.parametrize("seed", range(5))
def test_raters_are_judged_in_parts_with_an_odd_cycle(seed):
    networkx = pytest.importorskip("networkx", reason="has another test for bipartite graphs")
    rng = np.random.default_rng(seed)
    edges = rng.permutation(np.array([(i, j) for i in range(14) for j in range(i)]))[:13]
    rows = [(n, int(r), int(rng.integers(2))) for n, pair in enumerate(edges) for r in pair]
    frame = pd.DataFrame(rows, columns=["item", "rater", "label"])
    graph = networkx.Graph(edges.tolist())
    parts = list(networkx.connected_components(graph))
    bipartite = [networkx.is_bipartite(graph.subgraph(part)) for part in parts]
    found = bf.checks.identifiability(frame)
    assert found.facts["parts"] == len(parts)
    left = sum(len(part) for part, two in zip(parts, bipartite, strict=True) if two)
    because = found.questions.at["raters", "because"]
    if all(bipartite):
        assert found.questions.at["raters", "answer"] == "no"
    else:
        assert (f"not of {left} raters" in because) == bool(left)

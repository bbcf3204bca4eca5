"""The command line with items in sequence and on a graph."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import FAST, SETTINGS, fails, tables

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.models import HiddenMarkov, MarkovRandomField

LENGTHS = {"ode": 7, "elegy": 4, "sonnet": 14, "haiku": 3, "ballad": 12}


@pytest.fixture
def poems(folder):
    """Words in sequence, three readers: ``words.csv`` with one row per word, ``said.csv``.

    Rows are shuffled, positions have gaps and other orders as numbers than as text, names of words
    say nothing, and nobody read the last word of the ballad.
    """
    rng = np.random.default_rng(3)
    poem = np.repeat(list(LENGTHS), list(LENGTHS.values()))
    place = np.concatenate([5 + 3 * np.arange(size) for size in LENGTHS.values()])
    words = pd.DataFrame({"word": rng.permutation(len(poem)) + 100, "poem": poem, "line": place})
    truth = (np.arange(len(poem)) // 3) % 2
    said = np.where(rng.random((3, len(poem))) < 0.8, truth, 1 - truth)
    rows = pd.concat(
        [words.assign(reader=name, tone=own) for name, own in zip("ABC", said, strict=True)]
    )
    rows["tone"] = rows["tone"].map({0: "grave", 1: "merry"})
    rows = rows[rows["word"] != words["word"].iloc[-1]].sample(frac=1, random_state=0)
    rows[["word", "reader", "tone"]].to_csv("said.csv", index=False)
    rows.to_csv("both.csv", index=False)
    words.sample(frac=1, random_state=1).to_csv("words.csv", index=False)
    return words


def read(arguments):
    return read_tables(parse(arguments))


def hidden_markov(*arguments, table="said.csv", items="words.csv", then=main):
    columns = ["--item", "word", "--rater", "reader", "--label", "tone"]
    columns += ["--sequence", "poem", "--position", "line"]
    listed = ["--items", items] if items else []
    return then(["fit", table, "--model", "hidden-markov", *columns, *listed, *FAST,
                 "--output", "result.nc", *arguments])  # fmt: skip


@pytest.mark.slow
def test_sequences_are_written_in_their_order(poems, pictures):
    """Labels, probabilities and path are those of the same model in Python."""
    assert hidden_markov("--quiet") == 0
    labels = pd.read_csv("result-labels.csv")
    names = "word poem line tone probability path probability_grave probability_merry mcse"
    assert labels.columns.tolist() == names.split()
    expected = poems.sort_values(["poem", "line"])
    assert labels["word"].tolist() == expected["word"].tolist()
    assert labels["poem"].tolist() == expected["poem"].tolist()
    assert labels["line"].tolist() == expected["line"].tolist()

    sequences = bf.Sequences.from_table(poems, item="word", sequence="poem", position="line")
    responses = bf.Responses.from_long(
        pd.read_csv("said.csv"), item="word", rater="reader", label="tone",
        items=sequences.items.tolist(),
    )  # fmt: skip
    model = HiddenMarkov(responses, sequences)
    result = bf.sample(model, **SETTINGS)
    probability = bf.label_probabilities(result)
    columns = labels[["probability_grave", "probability_merry"]].to_numpy()
    np.testing.assert_allclose(columns, probability.values)
    assert labels["path"].tolist() == bf.decode(result, model).values.tolist()
    assert probability["item"].values.tolist() == labels["word"].tolist()
    assert Path("result.png").read_bytes().startswith(b"\x89PNG")


def test_places_may_stand_beside_the_responses(poems):
    answered = pd.read_csv("words.csv").merge(pd.read_csv("both.csv")[["word"]].drop_duplicates())
    answered.to_csv("answered.csv", index=False)
    apart = hidden_markov(items="answered.csv", then=read)
    beside = hidden_markov(table="both.csv", items=None, then=read)
    assert len(apart.places) == 39
    pd.testing.assert_frame_equal(apart.responses.to_frame(), beside.responses.to_frame())
    for column in ("sequence", "position"):
        assert apart.places[column].tolist() == beside.places[column].tolist()
    assert apart.sequences.items.tolist() == beside.sequences.items.tolist()


@pytest.mark.parametrize(
    "positions",
    [
        ["2", "9", "10"],
        ["-1e3", "-2", "0.25"],
        ["9007199254740992", "9007199254740993", "9007199254740994"],
        ["2026-01-31", "2026-01-31T23:59", "2026-02-01 00:00"],
        ["2026-01-31T23:30+01:00", "2026-01-31T23:00Z", "2026-01-31T23:00-01:00"],
    ],
)
def test_positions_are_ordered_as_numbers_or_times_and_stay_as_they_were(folder, positions):
    rows = [
        f"{item},{rater},{item % 2},s,{positions[item]}" for rater in "ab" for item in (2, 0, 1)
    ]
    Path("rows.csv").write_text("\n".join(["item,rater,label,sequence,position", *rows]))
    found = read(["fit", "rows.csv", "--model", "hidden-markov", "--output", "a.nc"])
    assert found.sequences.items.tolist() == [0, 1, 2] == found.responses.items.tolist()
    assert found.places["position"].tolist() == positions


def test_bio_tags_follow_their_rules(folder, capsys):
    """Everybody says that one span goes on where another begins, which no path may believe."""
    tags = ["O", "B-LOC", "I-PER", "O", "B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O", "I-LOC"]
    frame = pd.DataFrame(
        [(f"{s}.{t}", rater, tag, s, t)
         for s in range(4) for t, tag in enumerate(tags[: 12 - s]) for rater in "abc"],
        columns=["item", "rater", "label", "sequence", "position"],
    )  # fmt: skip
    frame.to_csv("tags.csv", index=False)
    arguments = ["fit", "tags.csv", "--model", "hidden-markov", *FAST, "--output", "a.nc"]
    assert main([*arguments, "--spans", "spans.csv"]) == 0
    sequences = bf.Sequences.from_table(frame.drop_duplicates("item"))
    found = bf.spans(tables("a.nc"), sequences)
    pd.testing.assert_frame_equal(pd.read_csv("spans.csv"), found, rtol=1e-5)
    transition = tables("a.nc")["posterior"]["transition"]
    assert not transition.sel({"class": "O", "next_class": "I-PER"}).any()
    labels = pd.read_csv("a-labels.csv")
    for _, path in labels.groupby("sequence")["path"]:
        for before, after in pairwise(["O", *path]):
            assert not after.startswith("I-") or before[2:] == after[2:], path.tolist()
    lines = capsys.readouterr().out.splitlines()
    assert "Sequences: 42 items in 4 sequences, 9 to 12 long" in lines
    mean = float(transition.sel({"class": "O", "next_class": "B-PER"}).mean())
    (line,) = (line for line in lines if line.startswith("transition[O, B-PER] "))
    assert f" {mean:.2f} (" in line
    spans = ["fit", "tags.csv", "--spans", "s.csv"]
    fails(capsys, main([*spans, "--model", "dawid-skene"]), "--spans lists spans of items in seq")
    assert read(spans).sequences.n_sequences == 4  # columns of the usual names
    frame.rename(columns={"position": "n"}).to_csv("tags.csv")
    fails(capsys, main(spans), "no column 'position': give the names of columns by")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda words: words.rename(columns={"line": "verse"}), "has no column 'line'"),
        (lambda words: words.assign(line=5), "must have different positions"),
        (lambda words: words.assign(line="first"), "positions must be numbers or times"),
        (lambda words: words.assign(line="22:47"), "Got: '22:47' in column 'line'"),
        (lambda words: words.assign(line=words["line"].where(words["line"] > 5)),
         "every item needs 'word' and 'poem' and 'line'. Got: a missing value in line 2 of "),
        (lambda words: pd.concat([words, words.iloc[:1].assign(poem="epic")]),
         "an item must have one row in the table of items. Got: several for item"),
        (lambda words: words.iloc[1:], "must be among the declared ones"),
    ],
)  # fmt: skip
def test_sequences_that_cannot_be(poems, no_sampling, capsys, change, word):
    change(poems).to_csv("changed.csv", index=False)
    fails(capsys, hidden_markov(items="changed.csv"), word)


def test_places_beside_the_responses_that_cannot_be(poems, no_sampling, capsys):
    rows = pd.read_csv("both.csv")

    def changed(column, value):
        frame = rows.astype(object)
        frame.loc[0, column] = value
        frame.to_csv("changed.csv", index=False)
        return hidden_markov(table="changed.csv", items=None)

    rule = (
        "an item must have the same sequence and position in all its rows. Got: several for item "
    )
    fails(capsys, changed("poem", "epic"), f"{rule}'{rows['word'][0]}' in changed.csv")
    fails(capsys, changed("line", None), "Got: a missing value in line 2 of changed.csv")
    fails(capsys, hidden_markov(items=None), "said.csv has no column 'poem'")


@pytest.fixture
def islands(folder):
    """Two coasts and an islet: ``said.csv``, ``roads.csv`` with weights, ``all.csv``.

    Town i was answered by nobody; town z stands in no road.
    """
    rng = np.random.default_rng(8)
    towns = list("abcdefghijklm")
    truth = np.array([0] * 6 + [1] * 7)
    frame = pd.DataFrame(
        [(town, spy, "wet" if (rng.random() < 0.75) == label else "dry")
         for town, label in zip(towns, truth, strict=True) if town != "i" for spy in "PQR"]
        + [("z", "P", "dry")],
        columns=["item", "rater", "label"],
    )  # fmt: skip
    frame.to_csv("said.csv", index=False)
    roads = [*pairwise(towns), ("a", "e"), ("g", "k")]
    edges = pd.DataFrame(roads, columns=["here", "there"])
    edges["weight"] = np.where(edges["here"] == "f", 0.25, 1.5)
    edges.to_csv("roads.csv", index=False)
    pd.DataFrame({"item": ["z", *towns[::-1]]}).to_csv("all.csv", index=False)
    return edges


def field(*arguments, table="said.csv", graph="roads.csv"):
    return main(["fit", table, "--model", "markov-random-field", "--graph", graph, *FAST,
                 "--output", "result.nc", *arguments])  # fmt: skip


@pytest.mark.slow
def test_fields_are_those_of_python(islands):
    """And of the same items in order of their names, the unanswered and the isolated too."""
    assert field("--quiet") == 0
    labels = pd.read_csv("result-labels.csv")
    assert labels.columns.tolist() == ["item", "label", "probability", "probability_dry",
                                       "probability_wet", "mcse"]  # fmt: skip
    items = [*"abcdefghijklm", "z"]
    assert labels["item"].tolist() == items
    responses = bf.Responses.from_long(pd.read_csv("said.csv"), items=items)
    graph = bf.Graph.from_edges(islands[["there", "here"]], islands["weight"], items=items)
    result = bf.sample(MarkovRandomField(responses, graph), **SETTINGS)
    columns = labels[["probability_dry", "probability_wet"]].to_numpy()
    np.testing.assert_allclose(columns, bf.label_probabilities(result).values)
    assert tables()["posterior"]["coupling"].equals(result["posterior"]["coupling"])


def read_edges(graph):
    options = ["--model", "markov-random-field", "--graph", graph, "--output", "r.nc"]
    return read_tables(parse(["fit", "said.csv", *options]))


def test_edges_without_weights_count_one(islands):
    islands[["here", "there"]].to_csv("plain.csv", index=False)
    assert read_edges("plain.csv").graph.weights.tolist() == [1.0] * 14
    assert sorted(read_edges("roads.csv").graph.weights) == [0.25] + [1.5] * 13


@pytest.mark.slow
def test_report_of_a_field(islands, capsys):
    assert field("--items", "all.csv") == 0
    assert pd.read_csv("result-labels.csv")["item"].tolist() == ["z", *"mlkjihgfedcba"]
    printed = capsys.readouterr().out
    assert "Graph: 14 items, 14 edges" in printed
    mean = float(tables()["posterior"]["coupling"].mean())
    assert re.search(rf"^coupling +{mean:.2f} \(", printed, re.MULTILINE)


def test_names_of_digits_are_one_kind_in_all_files(folder):
    """Town 10 of the edges is text because 007 is, and the responses' 10 with it."""
    rows = [f"{item},{rater},{item // 10}" for item in (9, 10, 11) for rater in "ab"]
    Path("said.csv").write_text("\n".join(["item,rater,label", *rows]))
    for last, items in (("007", ["007", "10", "11", "9"]), ("7", [7, 9, 10, 11])):
        Path("roads.csv").write_text(f"here,there\n9,10\n10,11\n10,{last}\n")
        found = read_edges("roads.csv")
        assert found.responses.items.tolist() == items == found.graph.items.tolist()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("here\na\n", "a table of edges must have two columns of items"),
        ("a,b\nb,c\n", "must hold column names, else an edge would be lost. Got: 'a'"),
        ("here,there\na,b\nb,\n", "an edge needs two items, and a weight if others have one. "
         "Got: a missing value in line 3 of edges.csv"),
        ("here,there,weight\na,b,far\n", "weights must be numbers. Got: could not convert string "
         "to float: 'far' in edges.csv"),
        ("here,there,weight\na,b,0\n", "Weights of edges must be positive and finite"),
        ("here,there\nB,A\n", "Got: edges between other items only, such as 'A', in edges.csv"),
    ],
)  # fmt: skip
def test_graphs_that_cannot_be(islands, no_sampling, capsys, content, word):
    Path("edges.csv").write_text(content)
    fails(capsys, field(graph="edges.csv"), word)


def test_edges_to_items_that_are_not_listed(islands, no_sampling, capsys):
    Path("edges.csv").write_text("here,there\na,b\nb,atlantis\n")
    status = field("--items", "all.csv", graph="edges.csv")
    fails(capsys, status, "must be among the declared ones", "Got: 'atlantis' in row 1")
    fails(capsys, field("--labels", "roads.csv"), "roads.csv twice")

"""The command line with items on a graph."""

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
from bayesfuse.models import MarkovRandomField


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
@pytest.mark.parametrize("edges", ["given", "drawn"])
def test_fields_are_those_of_python(islands, edges):
    """And of the same items in order of their names, the unanswered and the isolated too."""
    assert field("--edges", edges, "--quiet") == 0
    labels = pd.read_csv("result-labels.csv")
    assert labels.columns.tolist() == ["item", "label", "probability_dry", "probability_wet",
                                       "mcse"]  # fmt: skip
    items = [*"abcdefghijklm", "z"]
    assert labels["item"].tolist() == items
    responses = bf.Responses.from_long(pd.read_csv("said.csv"), items=items)
    graph = bf.Graph.from_edges(islands[["there", "here"]], islands["weight"], items=items)
    result = bf.sample(MarkovRandomField(responses, graph, edges=edges), **SETTINGS)
    columns = labels[["probability_dry", "probability_wet"]].to_numpy()
    np.testing.assert_allclose(columns, bf.label_probabilities(result).values)
    assert tables()["posterior"]["coupling"].equals(result["posterior"]["coupling"])


def read(graph):
    options = ["--model", "markov-random-field", "--graph", graph, "--output", "r.nc"]
    return read_tables(parse(["fit", "said.csv", *options]))


def test_edges_without_weights_count_one(islands):
    islands[["here", "there"]].to_csv("plain.csv", index=False)
    assert read("plain.csv").graph.weights.tolist() == [1.0] * 14
    assert sorted(read("roads.csv").graph.weights) == [0.25] + [1.5] * 13


@pytest.mark.slow
def test_report_of_a_field(islands, capsys):
    assert field("--items", "all.csv") == 0
    assert pd.read_csv("result-labels.csv")["item"].tolist() == ["z", *"mlkjihgfedcba"]
    printed = capsys.readouterr().out
    assert "Graph: 14 items, 14 edges" in printed
    assert f"Coupling {float(tables()['posterior']['coupling'].mean()):.2f} (" in printed


@pytest.mark.slow
def test_report_says_what_is_not_exact(islands, capsys):
    """Nuts sums labels out by belief propagation, which is exact only where nothing runs round."""
    assert field("--sampler", "nuts") == 0
    assert tables().attrs["sampler"] == "nuts"
    warned = "\nLabels were summed out by belief propagation, which is not exact here; gibbs is.\n"
    assert warned in capsys.readouterr().out


def test_names_of_digits_are_one_kind_in_all_files(folder):
    """Town 10 of the edges is text because 007 is, and the responses' 10 with it."""
    rows = [f"{item},{rater},{item // 10}" for item in (9, 10, 11) for rater in "ab"]
    Path("said.csv").write_text("\n".join(["item,rater,label", *rows]))
    for last, items in (("007", ["007", "10", "11", "9"]), ("7", [7, 9, 10, 11])):
        Path("roads.csv").write_text(f"here,there\n9,10\n10,11\n10,{last}\n")
        found = read("roads.csv")
        assert found.responses.items.tolist() == items == found.graph.items.tolist()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("here\na\n", "a table of edges must have two columns of items"),
        ("a,b\nb,c\n", "must hold column names, else an edge would be lost. Got: 'a'"),
        ("here,there\na,b\nb,\n", "an edge needs two items, and a weight if others have one. "
         "Got: a missing value in row 1 of edges.csv"),
        ("here,there,weight\na,b,far\n", "weights must be numbers. Got: could not convert string "
         "to float: 'far' in edges.csv"),
        ("here,there,weight\na,b,0\n", "Weights of edges must be positive and finite"),
        ("here,there\na,b\nb,a\n", "An edge must be given once"),
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

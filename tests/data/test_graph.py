"""Graphs, sequences and simulated tables: every way to build one, who is whose neighbour."""

import pickle
from datetime import time
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from refusals import refused, refused_table
from scipy import sparse

import bayesfuse as bf
from bayesfuse.models import MarkovRandomField
from bayesfuse.testing import assert_frequencies


def named_edges(graph):
    ends = graph.items[graph.edges].tolist()
    return set(zip(map(frozenset, ends), graph.weights.tolist(), strict=True))


def random_graph(n_items=30, n_edges=60, seed=3):
    rng = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(n_items), 2)))
    edges = rng.permuted(pairs[rng.choice(len(pairs), n_edges, replace=False)], axis=1)
    return bf.Graph.from_edges(edges, rng.uniform(0.5, 2.0, n_edges), items=range(n_items))


def test_neighbours_are_those_of_the_edges():
    """Whatever the order of the edges and of their ends: every edge is there twice, no other."""
    graph = random_graph()
    assert (graph.edges[:, 0] < graph.edges[:, 1]).all()
    assert (np.lexsort(graph.edges.T[::-1]) == np.arange(60)).all()
    found = []
    for n in range(graph.n_items):
        around = graph.neighbour[graph.start[n] : graph.start[n + 1]]
        assert (np.diff(around) > 0).all()
        for at in range(graph.start[n], graph.start[n + 1]):
            assert set(graph.edges[graph.edge[at]]) == {n, graph.neighbour[at]}
            assert graph.weight[at] == graph.weights[graph.edge[at]]
        found += [(n, m) for m in around]
    assert len(found) == 120
    assert {tuple(sorted(pair)) for pair in found} == set(map(tuple, graph.edges.tolist()))
    assert graph.degree.sum() == 120


@pytest.mark.parametrize("case", ["random", "grid", "corners", "no edges"])
def test_neighbours_have_different_colours(case):
    graph = {
        "random": random_graph(),
        "grid": bf.Graph.grid((7, 5)),
        "corners": bf.Graph.grid((7, 5), neighbours=8),
        "no edges": bf.Graph.from_edges([], items="abc"),
    }[case]
    assert (graph.colour[graph.edges[:, 0]] != graph.colour[graph.edges[:, 1]]).all()
    n_colours = graph.colour.max() + 1
    assert n_colours <= graph.degree.max() + 1
    assert n_colours == {"grid": 2, "corners": 4, "no edges": 1}.get(case, n_colours)
    assert sorted(graph.colour_order.tolist()) == list(range(graph.n_items))
    for c in range(n_colours):
        own = graph.colour_order[graph.colour_start[c] : graph.colour_start[c + 1]]
        assert (graph.colour[own] == c).all() and len(own) == (graph.colour == c).sum()


@pytest.mark.parametrize(
    ("shape", "neighbours", "reach"), [((4, 3), 4, 1), ((4, 3), 8, 2), ((3, 2, 4), 26, 3)]
)
def test_cells_of_a_grid_touch(shape, neighbours, reach):
    graph = bf.Graph.grid(shape, neighbours=neighbours)
    cells = list(product(*map(range, shape)))
    touching = {
        (one, other)
        for (one, here), (other, there) in combinations(enumerate(cells), 2)
        if np.abs(np.subtract(here, there)).max() == 1
        and np.abs(np.subtract(here, there)).sum() <= reach
    }
    assert set(map(tuple, graph.edges.tolist())) == touching
    assert bf.Graph.grid(shape).n_edges <= graph.n_edges


def test_the_ways_to_build_a_graph_agree():
    networkx = pytest.importorskip("networkx", reason="reads networkx graphs")
    graph = random_graph()
    expected = named_edges(graph)
    matrix = graph.to_scipy()
    assert (matrix != matrix.T).nnz == 0
    other = networkx.Graph()
    other.add_nodes_from(range(30))
    other.add_weighted_edges_from(np.column_stack([graph.edges, graph.weights]))
    frame = pd.DataFrame(graph.items[graph.edges], columns=["item", "neighbour"])
    for again in (
        bf.Graph.from_scipy(matrix),
        bf.Graph.from_scipy(sparse.triu(matrix)),
        bf.Graph.from_networkx(other),
        bf.Graph.from_edges(frame[["neighbour", "item"]], graph.weights, items=range(30)),
        pickle.loads(pickle.dumps(graph)),
    ):
        assert named_edges(again) == expected
        assert again.items.tolist() == list(range(30))


def test_items_of_edges_keep_their_names():
    graph = bf.Graph.from_edges([("b", "a"), ("c", "b")])
    assert graph.items.tolist() == ["a", "b", "c"] and graph.edges.tolist() == [[0, 1], [1, 2]]
    backwards = bf.Graph.from_edges([(1.0, 2.5)], items=[2.5, 1, 0])
    assert backwards.items.tolist() == [2.5, 1, 0] and backwards.edges.tolist() == [[0, 1]]
    big = 2**53
    graph = bf.Graph.from_edges([(big, big + 1), (big + 2, 2**63)], items=None)
    assert graph.items.tolist() == [big, big + 1, big + 2, 2**63]


def test_odd_graphs_of_networkx_are_refused():
    networkx = pytest.importorskip("networkx", reason="reads networkx graphs")
    for graph, told in (
        (networkx.grid_2d_graph(2, 2), "all text, all numbers or all times"),  # tuples
        (networkx.DiGraph([(0, 1)]), "DiGraph"),
        (networkx.MultiGraph([(0, 1), (0, 1)]), "more than once"),
    ):
        refused_table(told, bf.Graph.from_networkx, graph)


@pytest.mark.parametrize("kind", ["tree", "leaf"])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (2**40, 1), (0, 2.0**700), (0, 2.0**-700)])
def test_nearest_neighbours_by_all_distances(kind, k, offset, scale):
    """Whole numbers, whose distances are exact at any offset, times a power of two."""
    rng = np.random.default_rng(k)
    whole = rng.integers(-1000, 1000, size=(23, 3 if kind == "tree" else 20))
    distance = ((whole[:, None] - whole) ** 2).sum(axis=2)
    np.fill_diagonal(distance, 2**40)
    assert (np.diff(np.sort(distance, axis=1), axis=1) > 0).all()  # no ties
    nearest = np.argsort(distance, axis=1)[:, :k]
    expected = {tuple(sorted((n, m))) for n in range(23) for m in nearest[n].tolist()}
    graph = bf.Graph.nearest_neighbours((whole + offset) * scale, k)
    assert set(map(tuple, graph.edges.tolist())) == expected


def test_whole_numbers_beyond_those_of_floats_keep_their_distances():
    moments = 2**60 + np.array([0, 1, 5, 7, 8])  # 256 of them are one float
    graph = bf.Graph.nearest_neighbours(moments[:, None], k=1)
    assert graph.edges.tolist() == [[0, 1], [2, 3], [3, 4]]


def test_rows_at_no_distance_are_neighbours():
    copies = bf.Graph.nearest_neighbours(pd.DataFrame(np.zeros((5, 2)), index=list("vwxyz")), k=1)
    assert copies.items.tolist() == list("vwxyz")
    assert copies.degree.min() >= 1 and (copies.edges[:, 0] != copies.edges[:, 1]).all()


def test_components_and_forests():
    graph = bf.Graph.from_edges([("a", "b"), ("c", "d"), ("d", "e")], items=list("abcdef"))
    assert graph.is_forest
    assert [set(np.flatnonzero(graph.component == c)) for c in range(3)] == [{0, 1}, {2, 3, 4}, {5}]
    circle = bf.Graph.from_edges([("a", "b"), ("c", "d"), ("d", "e"), ("c", "e")])
    assert not circle.is_forest


def test_a_graph_follows_the_order_of_responses():
    graph = random_graph()
    order = np.random.default_rng(0).permutation(30)
    responses = bf.Responses.from_matrix(np.arange(30)[:, None] % 2, items=order)
    assert (responses.items[graph.places(responses)] == graph.items).all()
    ordered = graph.ordered(responses)
    assert ordered.items.tolist() == order.tolist()
    assert named_edges(ordered) == named_edges(graph)
    assert ordered.ordered(responses) is ordered


SKEW = sparse.csr_matrix([[0.0, 1.0], [2.0, 0.0]])
MASKED = np.ma.array([[0.0], [1.0]], mask=[[0], [1]])
of_edges, of_scipy = bf.Graph.from_edges, bf.Graph.from_scipy
grid, nearest = bf.Graph.grid, bf.Graph.nearest_neighbours


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: of_edges([(0, 1), (1, 1)]), "[1, 1] (1 such)"),
        (lambda: of_edges([(0, 1), (0, 1)]), "[0, 1] more than once"),
        (lambda: of_edges([(0, 1)], [-1.0]), "-1.0 for edge [0, 1]"),
        (lambda: of_edges([(0, 1), (1, 2)], [1.0]), "shape (1,)"),
        (lambda: of_edges([(0, 7)], items=[0, 1]), "7 in row 0"),
        (lambda: of_edges([(1, "a")], items=["a", 1, 2.5]), "all text, all numbers or all times"),
        (lambda: of_edges([("a", None)]), "missing value in row 0"),
        (lambda: of_edges([(0, 1)], items=[0, 1, 1]), "1 more than once"),
        (lambda: of_edges([]), "no items"),
        (lambda: of_edges([(0, 1)], ["heavy"]), "one number for each"),
        (lambda: of_edges(np.ma.array([[1, 2]], mask=[[0, 1]])), "missing value in row 0"),
        (lambda: of_edges(SKEW), "from_scipy"),
        (lambda: of_scipy(np.eye(2)), "ndarray"),
        (lambda: of_scipy(sparse.eye_array(2, 3)), "(2, 3)"),
        (lambda: of_scipy(SKEW), "1.0 and 2.0 for [0, 1]"),
        (lambda: of_scipy(sparse.eye_array(2)), "itself"),
        (lambda: of_scipy(SKEW.T @ SKEW, items=["a"]), "1 names"),
        (lambda: grid((3, 0)), "(3, 0)"),
        (lambda: grid((3, 3), neighbours=6), "must be 4 "),
        (lambda: grid((2, 2), items="abc"), "3 names"),
        (lambda: nearest(np.eye(3), 3), "Got: 3"),
        (lambda: nearest([[np.inf], [1.0]], 1), "missing values"),
        (lambda: nearest(MASKED, 1), "missing values"),
        (lambda: nearest(SKEW, 1), "of a sparse matrix its toarray()"),
    ],
)
def test_bad_graphs_are_refused(build, told):
    refused_table(told, build)


def test_models_read_matrices_and_networkx():
    networkx = pytest.importorskip("networkx", reason="reads networkx graphs")
    responses = bf.Responses.from_matrix([[0], [1], [0]])
    for graph in (sparse.eye_array(3, k=1), networkx.path_graph(3)):
        assert bf.build.Potts(coupling=1.0, graph=graph).graph.edges.tolist() == [[0, 1], [1, 2]]
        assert MarkovRandomField(responses, graph)["responses"] is not None
    refused(
        r"graph= must be a bf\.Graph.*Got: ndarray", bf.build.Potts, coupling=1.0, graph=np.eye(3)
    )


def test_graph_and_responses_must_have_the_same_items():
    responses = bf.Responses.from_matrix([[0], [1], [0]])
    refused_table(r"\[3\] not among them \(1 such\)", bf.Graph.grid((2, 2)).places, responses)
    refused_table(r"\[2\] missing \(1 such\)", bf.Graph.grid((1, 2)).ordered, responses)


def test_sequences_from_a_table_in_any_order():
    columns = {"token": list("cadbe"), "line": list("xxwxw"), "at": [30, 10, 2, 20, 1]}
    frame = pd.DataFrame(columns)
    found = bf.Sequences.from_table(frame, item="token", sequence="line", position="at")
    assert found.items.tolist() == ["e", "d", "a", "b", "c"]
    assert found.names.tolist() == ["w", "x"] and found.lengths.tolist() == [2, 3]
    again = bf.Sequences.from_table(found.to_frame())
    assert again.items.tolist() == found.items.tolist()
    rows = {name: frame[name].to_numpy() for name in frame}
    by_row = bf.Sequences.from_table(rows, item="token", sequence="line", position=None)
    assert by_row.items.tolist() == ["d", "e", "c", "a", "b"]


@pytest.mark.parametrize("kind", ["uint8", "Int64", "object"])
def test_lengths_of_any_whole_numbers(kind):
    lengths = pd.Series([100, 100, 1]).astype(kind)
    sequences = bf.Sequences.from_lengths(lengths)
    assert sequences.start.dtype == np.int64 and sequences.start.tolist() == [0, 100, 200, 201]
    assert sequences.to_frame()["position"].tolist()[199:] == [99, 0]


TABLE = {"item": [0, 1, 2], "sequence": [0, 0, 1], "position": [0, 1, 0]}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"item": [0, 1, 1]}, r"frame\['sequence'\].*Got: 1 in sequences 0 and 1"),
        ({"item": [0, 0, 1]}, "drop_duplicates.*Got: 0 in several rows"),
        ({"position": [1, 1, 0]}, "0 and 1 at one position"),
        ({"position": [1, "a", 0]}, "Got"),
        ({"sequence": ["x", None, "x"]}, "missing value in row 1"),
        ({"item": [], "sequence": [], "position": []}, "no rows"),
        ({"sequence": [0, 1]}, r"'sequence' of shape \(2,\)"),
    ],
)
def test_bad_tables_of_sequences_are_refused(columns, told):
    refused_table(told, bf.Sequences.from_table, TABLE | columns)


@pytest.mark.parametrize(
    ("lengths", "names", "told"),
    [
        ([2, 0], {}, "length 0 of sequence number 1"),
        ([1.5], {}, "float64"),
        ([], {}, r"shape \(0,\)"),
        ([2**62, 2**62], {}, "Got: 9223372036854775808"),
        (np.ma.array([1, 2], mask=[0, 1]), {}, "object"),
        ([2, 1], {"items": ["a"]}, "1 names"),
        ([2, 1], {"names": ["a", "a"]}, "'a' more than once"),
    ],
)
def test_bad_lengths_are_refused(lengths, names, told):
    refused_table(told, bf.Sequences.from_lengths, lengths, **names)


def test_accuracies_are_on_the_diagonal_and_labels_from_the_rows():
    made = bf.datasets.simulate_dawid_skene(
        9000, 2, 3, accuracy=(0.7, 0.8), prevalence=[0.5, 0.2, 0.3], random_seed=2
    )
    own = np.diagonal(made.confusion, axis1=1, axis2=2)
    assert ((own >= 0.7) & (own <= 0.8)).all()
    np.testing.assert_allclose(made.confusion.sum(axis=-1), 1.0)
    table = made.responses
    truth = made.truth[table.item]
    assert_frequencies(np.bincount(made.truth), np.array([0.5, 0.2, 0.3]), "truths")
    for m, k in np.ndindex(2, 3):
        seen = np.bincount(table.label[(table.rater == m) & (truth == k)], minlength=3)
        assert_frequencies(seen, made.confusion[m, k], f"labels of rater {m} for class {k}")


def items_in_order(positions, sequence="x"):
    """Items, named by their rows, in the order of positions."""
    table = {"item": range(len(positions)), "sequence": sequence, "position": positions}
    return bf.Sequences.from_table(pd.DataFrame(table)).items.tolist()


@pytest.mark.parametrize(
    "night",
    [
        ["23:59:00", "23:59:30", "00:00:00"],
        ["00:00:00", "23:59:30", "23:59:00"],  # rows in another order
        ["11:30 PM", "11:59 pm", "12:01 a.m."],
        [time(23, 59), time(23, 59, 30), time(0, 0)],
    ],
)
def test_times_of_the_day_that_pass_midnight_are_noted(night):
    with pytest.warns(UserWarning, match="1 of 1 sequences seem to pass midnight, such as 'x'"):
        items_in_order(night)


@pytest.mark.parametrize(
    "positions",
    [
        ["9:00", "9:30", "10:00"],
        ["8:00 am", "12:30 PM", "1:00 pm"],
        ["9:00:00.25", "9:00:00.5"],
        ["00:00:30", "23:59:30", "24:00:00", "100:00:00"],  # hours since the beginning
        ["-1", "2", "10", "10.25", "10.5"],
        ["2026-01-31 23:59", "2026-02-01T00:00"],
        ["week 2", "week 10", "week 10 b"],
        pd.Categorical(["8", "9", "10"]),
        pd.Categorical(["8", "9", "10"], ["8", "9", "10"], ordered=True),
        pd.Categorical(["early", "deep", "late"], ["early", "deep", "late"]),
        pd.date_range("2026-01-31 23:59", periods=3, freq="30s"),
    ],
)
def test_positions_in_text_sort_as_what_they_mean(positions):
    order = list(range(len(positions)))
    assert items_in_order(positions) == order  # warnings are errors
    assert items_in_order(positions[::-1]) == order[::-1]


def test_dates_in_text_that_begin_with_the_day_are_refused():
    refused_table("year.*dayfirst=True.*'31/01/2026'", items_in_order, ["31/01/2026", "1/2/26"])


@pytest.mark.parametrize("item", [["night", "epoch"], "night,epoch"])
def test_items_of_several_columns_are_refused_with_a_remedy(item):
    frame = pd.DataFrame(
        {"night": [1, 1], "epoch": [1, 2], "scorer": ["a", "b"], "stage": ["N1", "N2"]}
    )
    refused_table("one column.*agg", bf.fuse, frame, item=item, rater="scorer", label="stage")
    refused_table("one column.*agg", bf.Sequences.from_table, frame, item=item, sequence="night")

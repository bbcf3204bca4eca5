"""What is said and shown of labels on graphs: quiet where the model is right, loud where not."""

from itertools import combinations

import numpy as np
import pytest
from refusals import refused, refused_table

import bayesfuse as bf
from bayesfuse.checks import neighbour_agreement, phase_transition
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, MarkovRandomField
from bayesfuse.plots import plot_check, plot_graph, plot_grid

QUIET = {"progressbar": False, "quiet": True}
SHAPE = 16, 20


def squares():
    """Three regions of one class each."""
    truth = np.zeros(SHAPE, dtype=int)
    truth[3:12, 2:9] = 1
    truth[6:14, 11:19] = 2
    return truth.ravel()


def crowd(truth, seed, asked=0.7):
    """Four raters, right in two of three responses."""
    rng = np.random.default_rng(seed)
    other = rng.integers(0, 3, (len(truth), 4))
    answers = np.where(rng.random(other.shape) < 0.5, truth[:, None], other)
    answers[rng.random(other.shape) > asked] = -1
    return bf.Responses.from_matrix(answers, classes=[0, 1, 2])


@pytest.fixture(scope="module")
def regions():
    model = DawidSkene(crowd(squares(), 0))
    return model, bf.sample(model, 100, chains=2, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def point():
    return bf.find_map(DawidSkene(crowd(squares(), 0)))


@pytest.mark.slow
def test_items_that_form_regions_fail_the_check_of_independence(regions):
    model, result = regions
    graph = bf.Graph.grid(SHAPE)
    found = neighbour_agreement(result, model, graph, random_seed=0)
    majority = model.responses.votes().argmax(axis=1)
    kept = (model.responses.per_item[graph.edges] > 0).all(axis=1)
    one, other = majority[graph.edges[kept]].T
    assert found.attrs["observed"] == pytest.approx((one == other).mean())
    both = [((one == k) & (other == k)).mean() for k in range(3)]
    np.testing.assert_allclose(found["observed"], both)
    assert found.attrs["p_value"] < 0.02 and found["unusual"].values[1:].all()
    assert found.attrs["replicated"] < found.attrs["observed"] - 0.1
    assert "agree more than the model expects" in found.attrs["verdict"]
    title = f"3 classes, {found['unusual'].sum().item()} unusual"
    assert plot_check(found).get_title().startswith(title)
    # the same items in another place have no regions
    shuffled = np.random.default_rng(5).permutation(graph.items)
    elsewhere = bf.Graph.from_edges(shuffled[graph.edges], items=shuffled)
    found = neighbour_agreement(result, model, elsewhere, random_seed=0)
    assert found.attrs["p_value"] > 0.05 and not found["unusual"].any()
    assert "no evidence against" in found.attrs["verdict"]


def test_edges_count_by_weight_and_in_the_order_of_names(regions):
    model, result = regions
    edges = [(7, 3), (3, 100), (100, 101)]
    graph = bf.Graph.from_edges(edges, [1.0, 2.0, 4.0], items=range(319, -1, -1))
    found = neighbour_agreement(result, model, graph, draws=2)
    majority = model.responses.votes().argmax(axis=1)
    known = [
        weight
        for (one, other), weight in zip(edges, [1.0, 2.0, 4.0], strict=True)
        if (model.responses.per_item[[one, other]] > 0).all()
    ]
    same = [majority[one] == majority[other] for one, other in edges]
    assert len(known) == 3
    assert found.attrs["observed"] == pytest.approx(np.dot(same, known) / sum(known))


def test_edges_to_unknown_items_are_refused(regions):
    model, result = regions
    refused(r"give graph=.*Independent", neighbour_agreement, result, model)
    with pytest.raises(ModelError, match="no edge between"):
        empty = bf.Graph.from_edges([], items=range(320))
        neighbour_agreement(result, model, empty)
    refused_table("not among them", neighbour_agreement, result, model, bf.Graph.grid((40, 40)))


def test_maps_show_label_and_uncertainty(point):
    order = np.random.default_rng(0).permutation(320)
    probability = bf.label_probabilities(point).sel(item=order)
    label, uncertain = (ax.images[0] for ax in plot_grid(probability, SHAPE))
    drawn = label.to_rgba(label.get_array()).reshape(-1, 4)
    best = probability.argmax("class").values
    of_class = [np.unique(drawn[best == k], axis=0) for k in range(3)]
    assert len(np.unique(np.concatenate(of_class), axis=0)) == 3 == sum(map(len, of_class))
    sure = probability.max("class").values
    np.testing.assert_allclose(uncertain.get_array().ravel(), 1 - sure)


def test_a_graph_shows_every_item_and_edge(point):
    graph = bf.Graph.grid(SHAPE)
    place = np.column_stack(np.unravel_index(np.arange(320), SHAPE))
    ax = plot_graph(point, graph, layout=place)
    assert len(ax.collections[0].get_segments()) == graph.n_edges
    drawn = np.concatenate([dots.get_offsets() for dots in ax.collections[1:]])
    assert sorted(map(tuple, drawn)) == sorted(map(tuple, place.astype(float)))
    hollow = [dots for dots in ax.collections[1:] if (dots.get_facecolor() == 1).all()]
    per_item = np.bincount(point["constant_data"]["item_index"].values, minlength=320)
    assert sum(len(dots.get_offsets()) for dots in hollow) == (per_item == 0).sum() > 0
    by_name = plot_graph(point, graph, layout=dict(enumerate(place)))
    segments = [one.collections[0].get_segments() for one in (ax, by_name)]
    np.testing.assert_array_equal(*segments)


def test_graphs_of_few_or_lone_items_have_a_picture():
    responses = bf.Responses.from_matrix([[0, 0], [1, 1], [0, 1]])
    small = bf.find_map(DawidSkene(responses))
    for edges in ([], [(0, 1)], [(0, 1), (1, 2)]):
        ax = plot_graph(small, bf.Graph.from_edges(edges, items=range(3)))
        assert ax.get_title() == f"3 items, {len(edges)} edges"


BAD = {
    "shape": (lambda r: plot_grid(r, (3, 3)), "(3, 3) for 320 items"),
    "items": (lambda r: plot_graph(r, bf.Graph.grid((40, 9))), "item [320, 321, 322"),
    "layout": (lambda r: plot_graph(r, bf.Graph.grid(SHAPE), layout=[[0, 1]]), "shape (1, 2)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_pictures_are_refused(case, point):
    draw, told = BAD[case]
    refused(told, draw, point)


def field(responses, **options):
    model = MarkovRandomField(responses, bf.Graph.grid(SHAPE), **options)
    return model, bf.sample(model, 100, chains=2, random_seed=1, **QUIET)


@pytest.mark.slow
def test_too_strong_a_coupling_fails_the_check():
    """Neighbours that never differ: regions merge, and differently from chain to chain."""
    model, result = field(crowd(squares(), 0), trust=20.0)
    found = phase_transition(result, model, random_seed=0)
    assert found.attrs["trouble"] and found.attrs["above"] == 1.0
    assert found.attrs["collapsed"] or found.attrs["apart"]
    assert found["z"].max() > 3 and found["lost"].any()


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_unanswered_items_of_one_class_are_reported(together):
    """Three arcs of answered items, and twenty unanswered: a clique beside one arc, or one each."""
    truth = np.repeat([0, 1, 2], 20)
    answers = np.full((80, 3), -1)
    answers[:60] = truth[:, None]
    edges = [(n, n + 1) for n in range(59)]
    if together:
        edges += [(29, 60), (30, 61), (31, 62), *combinations(range(60, 80), 2)]
    else:
        edges += [(3 * n, 60 + n) for n in range(20)]
    responses = bf.Responses.from_matrix(answers, classes=[0, 1, 2])
    model = MarkovRandomField(responses, bf.Graph.from_edges(edges), trust=6.0)
    result = bf.sample(model, 100, chains=2, random_seed=1, **QUIET)
    found = phase_transition(result, model, random_seed=0)
    assert found.attrs["one_class"] == found.attrs["trouble"] == together
    assert ("Nearly all items without responses" in found.attrs["verdict"]) == together
    assert (found["unanswered"].max() > 0.95) == together


def test_phases_without_kept_labels_or_a_graph(regions):
    model = MarkovRandomField(crowd(squares(), 0), bf.Graph.grid(SHAPE), trust=2.0)
    point = bf.find_map(model)
    found = phase_transition(point, model, random_seed=0)
    assert not found.attrs["trouble"] and found.sizes["chain"] == 1
    refused("Independent labels", phase_transition, regions[1], regions[0])

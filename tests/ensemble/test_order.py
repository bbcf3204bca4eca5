"""Evidence on the order and the graph of items, and weights of models with and without them."""

from dataclasses import replace

import numpy as np
import pytest
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.ensemble.candidates import sides
from bayesfuse.ensemble.evidence import Evidence, OrderEvidence, measure_neighbours, measure_order
from bayesfuse.ensemble.inputs import Inputs


def chain_of_labels(seed=1, n_items=600, n_raters=5, stay=0.9):
    """Return responses with independent errors to a chain of three classes, and its sequences."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(n_items, dtype=int)
    for n in range(1, n_items):
        truth[n] = truth[n - 1] if rng.random() < stay else rng.integers(3)
    wrong = rng.random((n_items, n_raters)) < 0.35
    answers = np.where(wrong, rng.integers(0, 3, wrong.shape), truth[:, None])
    responses = bf.Responses.from_matrix(answers, classes=range(3))
    return responses, bf.Sequences.from_lengths([60] * (n_items // 60))


@pytest.fixture(scope="module")
def chain():
    return chain_of_labels()


@pytest.mark.parametrize("raters", with_slow(["confusion", "types"], "types"))
def test_order_helps_in_a_chain_and_not_where_items_are_shuffled(chain, raters):
    responses, sequences = chain
    in_order = measure_order(responses, sequences, raters)
    assert in_order.gain > 3 * in_order.error > 0.0 and in_order.weight > 0.7
    items = np.random.default_rng(2).permutation(responses.items)
    shuffled = bf.Sequences.from_lengths([60] * 10, items=items.tolist())
    without = measure_order(responses, shuffled, raters)
    assert without.gain < 2 * without.error and without.weight < 0.6


def test_one_sequence_has_no_standard_error(chain):
    responses, _ = chain
    evidence = measure_order(responses, bf.Sequences.from_lengths([600]), "confusion")
    assert evidence.gain > 0.0 and np.isnan(evidence.error)


def test_evidence_may_be_of_some_sequences(chain, monkeypatch):
    whole = measure_order(*chain, "confusion")
    monkeypatch.setattr("bayesfuse.ensemble.order.MAX_RESPONSES", 1500)
    part = measure_order(*chain, "confusion")
    assert part.error > whole.error and abs(part.gain - whole.gain) < 5 * part.error


def test_models_with_order_have_the_weight_of_the_order(chain):
    responses, sequences = chain
    of_types, of_classes = OrderEvidence(0.01, 0.001, 0.7), OrderEvidence(0.1, 0.001, 0.9)
    evidence = Evidence(unmeasured=0.5, order_of_types=of_types, order_of_classes=of_classes)
    weights = {
        side.candidates[0].name: side.weight
        for side in sides(Inputs(responses, sequences), evidence)
    }
    names = "sequences", "independent errors, unpooled", "types in sequence", "consensus"
    expected = dict(zip(names, (0.45, 0.05, 0.35, 0.15), strict=True))
    assert weights == pytest.approx(expected, abs=1e-4)


def on_graph(kind, seed=1, n_items=300):
    """Return responses to items of unequal classes, a graph, and the true labels."""
    rng = np.random.default_rng(seed)
    made = bf.datasets.simulate_responses(
        rng.choice(3, n_items, p=[0.6, 0.25, 0.15]), 5, 3, accuracy=(0.45, 0.8), random_seed=rng
    )
    truth = made.truth
    pairs = np.unique(np.sort(rng.integers(0, n_items, (40 * n_items, 2)), axis=1), axis=0)
    first, second = pairs[pairs[:, 0] < pairs[:, 1]].T
    alike = truth[first] == truth[second]
    chosen = {"alike": alike, "opposite": ~alike, "random": np.ones_like(alike)}[kind]
    edges = np.stack([first, second], axis=1)[chosen]
    edges = rng.permutation(edges)[: 2 * n_items]
    return made.responses, bf.Graph.from_edges(edges, items=range(n_items)), truth


@pytest.mark.parametrize("kind", ["random", "opposite"])
def test_neighbours_help_only_where_they_are_alike(kind):
    without = measure_neighbours(*on_graph(kind)[:2])
    assert without.gain < 2 * without.error and without.weight < (0.5 if kind == "random" else 0.05)
    alike = measure_neighbours(*on_graph("alike")[:2])
    assert alike.gain > 5 * alike.error > 0.0 and alike.weight > 0.9


def test_evidence_on_neighbours_ignores_the_order_of_items():
    responses, graph, _ = on_graph("alike", n_items=100)
    expected = measure_neighbours(responses, graph)
    items = np.random.default_rng(3).permutation(graph.items).tolist()
    edges = graph.items[graph.edges]
    other = bf.Graph.from_edges(edges, 3.0 * graph.weights, items=items)
    assert measure_neighbours(responses, other).gain == pytest.approx(expected.gain, rel=1e-6)


def test_a_graph_without_edges_gains_nothing():
    made = bf.datasets.simulate_dawid_skene(30, 5, 2, random_seed=1)
    found = measure_neighbours(made.responses, bf.Graph.from_edges([], items=range(30)))
    assert found.gain == 0.0 and 0.0 < found.weight < 0.5


def test_models_with_neighbours_have_the_weight_of_these():
    responses, graph, _ = on_graph("random", n_items=40)
    evidence = Evidence(unmeasured=0.0, neighbours=OrderEvidence(0.01, 0.001, 0.7))
    both = sides(Inputs(responses, graph=graph), evidence)
    assert [side.weight for side in both] == pytest.approx([0.7, 0.3])
    halves = sides(Inputs(responses, graph=graph), replace(evidence, unmeasured=0.5))
    assert [side.weight for side in halves] == pytest.approx([0.7, 0.15, 0.15])
    assert [side.rivals for side in halves] == [True, False, False]
    # one rater cannot be left out
    unknown = sides(Inputs(responses, graph=graph), Evidence(unmeasured=0.0))
    assert [side.weight for side in unknown] == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["alike", "random", "opposite"])
def test_a_graph_does_not_cost_where_neighbours_are_not_alike(kind):
    options = {"minutes": 2, "draws": 60, "checks": False, "random_seed": 1, "progressbar": False}
    gains = []
    for seed in range(3):
        responses, graph, truth = on_graph(kind, seed)
        known = dict(enumerate(truth.tolist()))
        losses = [
            bf.checks.label_scores(bf.fuse(responses, **structure, **options), known)["log_loss"]
            for structure in ({}, {"graph": graph})
        ]
        gains.append(float(losses[0] - losses[1]))
    assert min(gains) > (0.05 if kind == "alike" else -0.02)
    assert np.mean(gains) > -0.005


@pytest.mark.slow
def test_the_answer_states_what_the_order_is_worth(chain):
    responses, sequences = chain
    options = {"minutes": 5, "draws": 50, "checks": False, "random_seed": 1, "progressbar": False}
    fused = bf.fuse(responses, sequences=sequences, **options)
    assert "The order of the items predicts a rater who is left out better by" in str(fused)


@pytest.mark.slow
def test_the_order_of_a_poor_model_has_no_weight(monkeypatch):
    """Types of items have one row for all raters, whose rows differ here; the chain adds to a poor
    model. Its weight is not the gain of the order alone, but also that of the model it extends."""
    rng = np.random.default_rng(1)
    truth = np.zeros(1000, dtype=int)
    for n in range(1, 1000):
        truth[n] = truth[n - 1] if rng.random() < 0.6 else rng.integers(4)
    rows = 0.3 * np.eye(4) + 0.7 * rng.dirichlet(np.ones(4), (10, 4))
    made = bf.datasets.simulate_responses(truth, 10, 4, confusion=rows, random_seed=rng)
    sequences = bf.Sequences.from_lengths([50] * 20)
    # as if errors were clearly dependent, and the order of types as useful as it can be
    found = Evidence(0.3, 0.01, order_of_types=OrderEvidence(0.004, 0.001, 0.9))
    monkeypatch.setattr("bayesfuse.ensemble.fuse.examine", lambda inputs: found)
    options = {"draws": 100, "checks": False, "random_seed": 1, "progressbar": False}
    fused = bf.fuse(made.responses, sequences=sequences, minutes=5, **options)
    weight = fused["comparison"].to_dataset().to_dataframe()["weight"]
    assert weight["types in sequence"] < 0.01 and weight["clean items"] > 0.5
    labels = bf.label_probabilities(fused).values.argmax(axis=1)
    assert (labels == truth).mean() > 0.85

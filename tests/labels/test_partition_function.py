"""log Z of labels on graphs: enumeration, trees, Onsager, and errors that say what they are."""

from itertools import combinations, product

import numpy as np
import pytest
from communities import communities
from scipy.special import ellipk, logsumexp

import bayesfuse as bf
from bayesfuse.labels import partition_function
from bayesfuse.labels.couplings import drawn_agreement, reach, weakest_bond
from bayesfuse.labels.partition_function import (
    exact_log_z,
    integrated,
    log_partition,
    planted_partition,
)

LOOSE = bf.Graph.from_edges(
    [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (5, 6)], [0.5, 1.7, 1.0, 0.3, 2.0, 1.1], items=range(8)
)
SMALL = {
    "grid": (bf.Graph.grid((3, 3)), [0.5, 0.3, 0.2]),
    "two classes": (bf.Graph.grid((3, 4)), [0.7, 0.3]),
    "corners": (bf.Graph.grid((3, 3), neighbours=8), [0.2, 0.8]),
    "weights, a lone item": (LOOSE, [0.6, 0.3, 0.1]),
    "no edges": (bf.Graph.from_edges([], items=range(4)), [0.6, 0.4]),
    "all joined": (bf.Graph.from_edges(list(combinations(range(6), 2))), [0.55, 0.45]),
}


def enumerate_prior(graph, prevalence, coupling):
    """Sum over all labellings: log Z, E[S] and the variance of S at one coupling."""
    y = np.array(list(product(range(len(prevalence)), repeat=graph.n_items)))
    agree = (y[:, graph.edges[:, 0]] == y[:, graph.edges[:, 1]]) @ graph.weights
    log_joint = np.log(prevalence)[y].sum(axis=1) + coupling * agree
    log_z = logsumexp(log_joint)
    share = np.exp(log_joint - log_z)
    mean = share @ agree
    return log_z, mean, share @ (agree - mean) ** 2


@pytest.mark.parametrize("case", SMALL)
def test_small_graphs_by_enumeration(case):
    graph, prevalence = SMALL[case][0], np.array(SMALL[case][1])
    table = log_partition(graph, prevalence, 4.0)
    assert table.exact and not table.error.any() and table.method == "elimination"
    found = [enumerate_prior(graph, prevalence, c) for c in table.coupling[::8]]
    between = [enumerate_prior(graph, prevalence, c) for c in (0.01, 0.777, 3.99)]
    log_z, slope, variance = np.array(found).T
    np.testing.assert_allclose(table.log_z[::8], log_z, rtol=0, atol=1e-10)
    np.testing.assert_allclose(table.slope[::8], slope, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(table.bend[::8], variance, rtol=2e-3, atol=1e-4)
    log_z, slope, _ = np.array(between).T
    np.testing.assert_allclose(table.at([0.01, 0.777, 3.99])[0], log_z, rtol=0, atol=1e-6)
    np.testing.assert_allclose(table.at([0.01, 0.777, 3.99])[1], slope, rtol=1e-5, atol=1e-7)


def spread_weights(n, spread, seed):
    return np.exp(spread * np.random.default_rng(seed).normal(size=n))


def path(weights):
    ends = np.arange(len(weights))
    return bf.Graph.from_edges(np.column_stack([ends, ends + 1]), weights)


@pytest.mark.parametrize("tabulate", [log_partition, planted_partition])
@pytest.mark.parametrize(("n_classes", "spread"), [(3, 2.0), (50, 0.0), (2, 3.0)])
def test_a_path_of_weights_of_any_spread(n_classes, spread, tabulate):
    """Every edge multiplies Z by (e^βw + K − 1) / K; up to where even the weakest agree."""
    weights = spread_weights(399, spread, 1)
    graph = path(weights)
    table = tabulate(graph, np.full(n_classes, 1 / n_classes), reach(graph, n_classes))
    coupling = np.geomspace(1e-2 / weights.max(), 1e2 / weights.min(), 500)[:, None]
    differ = (n_classes - 1) * np.exp(-coupling * weights)
    log_z, slope = table.at(coupling[:, 0])
    expected = (coupling * weights + np.log1p(differ) - np.log(n_classes)).sum(axis=1)
    np.testing.assert_allclose(log_z, expected, rtol=1e-12, atol=2e-4)
    share = (weights / (1 + differ)).sum(axis=1)
    np.testing.assert_allclose(slope, share, rtol=2e-6)
    # per unit of log coupling, which is what a posterior depends on
    np.testing.assert_allclose(coupling[:, 0] * (slope - share), 0, atol=0.01)


@pytest.mark.parametrize("circles", [False, True])
def test_tables_of_unequal_weights_against_elimination_at_any_coupling(circles):
    """With a field there is no closed form; on circles strong edges hold weak ones."""
    rng = np.random.default_rng(4)
    if circles:
        edges = bf.Graph.grid((4, 12)).edges
    else:  # several trees
        edges = [(i, int(rng.integers(max(0, i - 20), i))) for i in range(1, 300) if i % 60]
    graph = bf.Graph.from_edges(edges, spread_weights(len(edges), 1.5, 5))
    prevalence = np.array([0.6, 0.3, 0.1])
    table = log_partition(graph, prevalence, reach(graph, 3))
    coupling = np.geomspace(1e-2 / graph.weights.max(), 1e2 / graph.weights.min(), 150)
    log_z, slope = exact_log_z(graph, prevalence, coupling)
    found = table.at(coupling)
    np.testing.assert_allclose(found[0], log_z, rtol=1e-12, atol=2e-4)
    np.testing.assert_allclose(found[1], slope, rtol=2e-6)
    assert table.knots[-1, 0] * weakest_bond(graph) > 40 and len(table.knots) < 500


def test_weakest_bond_is_on_the_maximum_spanning_forest():
    weights = [0.1, 2.0, 3.0, 0.5, 4.0]  # a triangle held by 2 and 3, with a tail of 0.5 and 4
    graph = bf.Graph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], weights)
    assert weakest_bond(graph) == 0.5
    triangle = bf.Graph.from_edges([(0, 1), (1, 2), (0, 2)], weights[:3])
    assert weakest_bond(triangle) == 2.0


@pytest.mark.slow
def test_drawn_tables_reach_agreement_of_weak_edges():
    """Where they ended by the mean weight, log Z was 9 to 17 nats off at β = 8, error 0.38."""
    graph = path(spread_weights(199, 1.5, 1))
    most = reach(graph, 2)
    exact = log_partition(graph, np.array([0.5, 0.5]), most)
    z = []
    for seed in range(3):
        table = drawn(graph, np.array([0.5, 0.5]), most, sweeps=40, random_seed=seed)
        off = table.at(8.0)[0] - np.log1p(np.expm1(8.0 * graph.weights) / 2).sum()
        assert abs(off) < 5  # five errors or less
        assert table.coupling[-1] == most
        error = np.append(table.error, table.tail[:, 4])
        z.append((table.knots[1:, 1] - exact.at(table.knots[1:, 0])[0]) / error[1:])
        assert table.knots[-1, 0] * graph.weights.min() > 5
    assert np.abs(np.concatenate(z)).max() < 5
    assert 0.2 < np.mean([np.mean(one**2) for one in z]) ** 0.5 < 2.5


def test_strong_couplings_do_not_overflow():
    graph = bf.Graph.grid((3, 30))
    table = log_partition(graph, np.array([0.5, 0.5]), 2000.0)
    expected = table.coupling[-1] * graph.n_edges - 89 * np.log(2)
    np.testing.assert_allclose(table.log_z[-1], expected, rtol=1e-12)


def drawn(graph, prevalence, most, **options):
    """Tabulate by draws even what could be summed out."""
    found = drawn_agreement(graph, prevalence, most, **options)
    return integrated(graph, prevalence, most, found)


def onsager(coupling):
    """Share of agreeing edges on the infinite grid with two classes (Onsager 1944)."""
    twice = coupling  # 2 J of the Ising model, whose J is half the coupling
    modulus = 2 * np.sinh(twice) / np.cosh(twice) ** 2
    inner = 1 + 2 / np.pi * (2 * np.tanh(twice) ** 2 - 1) * ellipk(modulus**2)
    return (1 + inner / np.tanh(twice) / 2) / 2


@pytest.mark.slow
def test_energy_of_a_large_torus_is_onsagers():
    cell = np.arange(32 * 32).reshape(32, 32)
    ends = [np.column_stack([cell.ravel(), np.roll(cell, 1, axis).ravel()]) for axis in (0, 1)]
    graph = bf.Graph.from_edges(np.concatenate(ends))
    table = drawn(graph, np.array([0.5, 0.5]), 1.6, sweeps=60)
    away = (table.coupling > 0) & (np.abs(table.coupling - np.log1p(np.sqrt(2))) > 0.12)
    expected = onsager(table.coupling[away])
    z = (table.slope[away] / graph.n_edges - expected) / (table.slope_error[away] / graph.n_edges)
    assert np.abs(z).max() < 5 and z.std() < 1.8
    np.testing.assert_allclose(table.slope[away] / graph.n_edges, expected, atol=0.006)
    assert abs(table.critical - np.log1p(np.sqrt(2))) < 0.04


def test_slope_is_the_derivative_beyond_the_table():
    table = drawn(bf.Graph.grid((5, 5)), np.array([0.5, 0.5]), 2.0, sweeps=20)
    step = 1e-5
    for coupling in (0.0, 0.31, 1.2, 1.999, 2.0, 2.3, 7.0):
        low, high = max(coupling - step, 0.0), coupling + step
        middle = table.at((low + high) / 2)[1]
        difference = (table.at(high)[0] - table.at(low)[0]) / (high - low)
        np.testing.assert_allclose(difference, middle, rtol=1e-6)
    fine = table.at(np.linspace(0, 9, 2000))
    assert (np.diff(fine[1]) >= 0).all() and fine[1][-1] <= table.total_weight
    assert table.at(500.0)[1] > 0.999 * table.total_weight


def test_tables_are_kept_by_graph_prevalence_and_range():
    graph, even = bf.Graph.grid((6, 5)), np.array([0.5, 0.5])
    first = log_partition(graph, even, 1.0)
    assert log_partition(bf.Graph.grid((6, 5)), even, 1.0) is first
    for other in (
        log_partition(bf.Graph.grid((5, 6)), even, 1.0),
        log_partition(graph, np.array([0.4, 0.6]), 1.0),
        log_partition(graph, even, 1.1),
    ):
        assert other is not first
    partition_function._tables.clear()
    one, other = (drawn(graph, even, 1.0, sweeps=6).log_z for _ in "12")
    np.testing.assert_array_equal(one, other)


def test_planted_partition_constant():
    """Forests with a flat field do not tell; a block model's coupling is found at its truth."""
    tree = bf.Graph.from_edges([(0, 1), (1, 2), (1, 3)], [0.5, 1.0, 2.0])
    flat = np.full(3, 1 / 3)
    one, other = log_partition(tree, flat, 4.0), planted_partition(tree, flat, 4.0)
    np.testing.assert_allclose(one.log_z, other.log_z, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.slope, other.slope, rtol=1e-12)
    np.testing.assert_allclose(one.bend, other.bend, rtol=1e-3, atol=1e-5)
    truth = np.random.default_rng(2).integers(0, 4, 3000)
    graph = communities(truth, degree=5, within=0.9)
    ends = truth[graph.edges]
    agree = np.count_nonzero(ends[:, 0] == ends[:, 1])
    table = planted_partition(graph, np.full(4, 0.25), 8.0)
    coupling = np.linspace(0, 8, 4001)
    best = coupling[np.argmax(coupling * agree - table.at(coupling)[0])]
    np.testing.assert_allclose(best, np.log(0.9 / (0.1 / 3)), atol=0.01)  # odds of 27


def test_bethe_coupling():
    assert bf.Graph.grid((1, 9)).bethe_coupling(2) == np.inf
    ring = bf.Graph.from_edges(np.column_stack([np.arange(50), np.roll(np.arange(50), 1)]))
    assert ring.bethe_coupling(3) == np.inf
    complete = bf.Graph.from_edges(list(combinations(range(5), 2)), np.full(10, 2.0))
    np.testing.assert_allclose(complete.bethe_coupling(4), np.log(3) / 2)

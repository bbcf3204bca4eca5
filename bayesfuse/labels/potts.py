"""Labels on a graph: the Potts model, a Markov random field in which neighbours tend to agree."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.labels import belief_propagation, potts_kernels
from bayesfuse.labels.base import LabelPrior, Marginal, Words
from bayesfuse.labels.belief_propagation import ROUNDS, TOLERANCE
from bayesfuse.labels.couplings import reach
from bayesfuse.labels.partition_function import (
    PartitionTable,
    draw_forest,
    log_partition,
    rooted,
    sum_leaves,
)
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.numerics.threads import check, shared, side_by_side
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.positive import POSITIVE

MIN_THREADED_ITEMS, TASK_ITEMS = 100_000, 25_000
"""Items from which on threads share a sweep, and items of one colour for each piece of work."""

CLUSTERS = 0.25
"""Share of sweeps with a Swendsen–Wang move, which takes as long as two to four Gibbs sweeps: with
weak responses it gives six times the effective draws of the coupling per second."""

BURN_IN = 20  # sweeps, each with a cluster move, after labels are initialised
PRIOR_SWEEPS = 400  # further sweeps for draws from the prior
MAX_MODE_PASSES = 1000  # maximum passes of iterated conditional modes
PASSES = 10  # of these or of messages, between which Python notices interruptions


class Potts(LabelPrior):
    r"""Potts model: labels of neighbours on a graph tend to agree.

    .. math:: p(y) = \frac{1}{Z(\beta)} \prod_n \pi_{y_n}
              \prod_{\text{edges } nm} \exp(\beta\, w_{nm}\, 1[y_n = y_m])

    Labels are drawn jointly on a forest, otherwise by single-site sweeps and Swendsen–Wang cluster
    moves. Belief propagation sums them out (NUTS, EM), exactly on a forest only.

    Parameters
    ----------
    coupling : tensor or number
        β > 0 of an edge of weight one. For a variable, Z is tabulated as a function of β, which
        takes some time when the model is built. The paper's trust δ is 2 β (eqs. 6 and 28).
    graph : Graph
        Adjacency of the items; the same items as in the responses, in any order.
    prevalence : array-like, shape (classes,), optional
        π, the share of every class without neighbours. Default uniform. It cannot be a variable,
        because Z would have to be tabulated in as many dimensions as there are classes.

    Notes
    -----
    The approximate evidence is the Bethe log partition function of the posterior
    minus log Z of the prior, not minus its Bethe approximation, which is least accurate without
    responses.

    References
    ----------
    Traganitis & Giannakis (2020), section V, eqs. 5, 6, 28; Besag (1986), Journal of the Royal
    Statistical Society B 48, 259–302; Higdon (1998), Journal of the American Statistical
    Association 93, 585–595.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.build.Potts(coupling=1.0, graph=bf.Graph.from_edges([(0, 1), (1, 2)]))
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1], [0]]))
    >>> likelihood = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]])
    >>> posterior = prior.marginal((np.array(1.0),), likelihood, np.zeros(3), structure)
    >>> posterior.probability.round(3).tolist()
    [[0.812, 0.188], [0.676, 0.324], [0.812, 0.188]]
    """

    declared = (Parameter("coupling", POSITIVE),)
    words = Words(
        "belief propagation", "iterated conditional modes", "Gibbs and Swendsen–Wang sweeps"
    )
    capabilities = Capabilities(
        exact=False, adds_up=False, linear=False, decodes_exactly=False, moves_labels=True
    )
    needs = ("graph",)
    marginal_kernel = staticmethod(belief_propagation.marginal)

    def __init__(self, coupling: Any, graph: Graph, prevalence: ArrayLike | None = None) -> None:
        if not hasattr(coupling, "type"):
            coupling = np.asarray(coupling, dtype=float)
            if coupling.ndim > 0 or not (np.isfinite(coupling) and coupling > 0):
                raise ModelError(
                    "The coupling must be one positive number, because neighbours tend to agree; "
                    f"for independent items use bf.build.Independent. Got: {coupling}."
                )
        self.parameters = {"coupling": coupling}
        self._fixed = float(coupling) if isinstance(coupling, np.ndarray) else None
        self.graph = as_graph(graph)
        if self.graph.is_forest:
            self.capabilities = replace(self.capabilities, exact=True, moves_labels=False)
        self.table: PartitionTable | None = None
        """log Z of the prior over the coupling, set by :meth:`structure` if that is inferred."""
        self._prevalence: Array | None = None
        if prevalence is not None:
            values = np.asarray(prevalence, dtype=float)
            if values.ndim != 1 or not np.isfinite(values).all() or (values <= 0).any():
                raise ModelError(
                    "The prevalence of labels on a graph must be one positive number per class, "
                    f"not a variable: see bf.build.Potts. Got: {prevalence!r}."
                )
            self._prevalence = values / values.sum()

    def settings(self):
        return {} if self._prevalence is None else {"prevalence": self._prevalence.tolist()}

    def structure(self, responses: Responses) -> Structure:
        graph, n_classes = self.graph.ordered(responses), responses.n_classes
        prevalence = self.prevalence((), n_classes, (), np)
        require_shape("prevalence", prevalence.shape, classes=n_classes)
        weight = potts_kernels.without_repeats(graph.weight)
        row = np.repeat(np.arange(graph.n_items, dtype=np.int32), graph.degree)
        reverse = np.lexsort((row, graph.neighbour)).astype(np.int32)
        forest, colours = rooted(graph), (graph.colour_order, graph.colour_start)
        arrays = prevalence, graph.start, graph.neighbour, weight, reverse, forest[0]
        return (*arrays, *forest[1:], *colours, *self._tabulate(graph, arrays))

    def defining(self, structure):
        return structure[:4]  # prevalence, start, neighbour and weight determine the rest

    def _tabulate(self, graph: Graph, arrays: tuple[NDArray[Any], ...]) -> tuple[Any, Any]:
        """Return log Z of the prior as a function of the coupling, knots and total weight."""
        prevalence, *rows = arrays
        total_weight = np.asarray(graph.weights.sum())
        if self._fixed is None:
            self.table = self._inferred(graph, prevalence)
            return self.table.knots, total_weight
        flat = np.ones((graph.n_items, len(prevalence)))
        message, _ = _propagate(prevalence, flat, self._fixed, *rows)
        log_z, _, _, slope = belief_propagation.bethe(  # exact on a forest
            prevalence, flat, np.zeros(len(flat)), self._fixed, *rows[:-1], message
        )
        return np.array([[0.0] * 4, [self._fixed, log_z, slope, 0.0]]), total_weight

    def _inferred(self, graph: Graph, prevalence: Array) -> PartitionTable:
        """Return log Z over couplings, for an inferred coupling."""
        return log_partition(graph, prevalence, reach(graph, len(prevalence)))

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        prevalence, *rows, _, order, parent, above, colours, begin, _, _ = structure
        if potts_kernels.impossible(likelihood):
            return np.where(likelihood.any(axis=1), 0, -1)
        graph = float(log_parameters[0]), *rows
        if self.graph.is_forest:
            forest, coupling = (order, parent, above), complex(graph[0])
            return draw_forest(*forest, prevalence * likelihood, coupling, seed_of(rng))
        if previous is not None:
            labels = previous.copy()
        else:
            cumulative = (prevalence * likelihood).cumsum(axis=1)  # without the edges
            labels = draw_columns(cumulative, rng).astype(np.int32)
        arguments, sweeps = (labels, prevalence, likelihood), BURN_IN if previous is None else 1
        for _ in range(sweeps):
            check()
            clusters = sweeps > 1 or rng.random() < CLUSTERS
            penalty = self._size_penalty(labels, graph[0], len(prevalence), rng)
            if clusters:
                potts_kernels.swendsen_wang(*arguments, graph, seed_of(rng), *penalty)
            _sweep(arguments, graph, colours, begin, seed_of(rng), penalty)
        return labels

    def _size_penalty(self, labels, coupling, n_classes, rng=None):
        """Return the last arguments of :func:`potts_kernels.write_size_field`: penalty, known."""
        return 0.0, True

    def conditional(self, log_parameters, labels, likelihood, log_scale, structure):
        prevalence, *graph = structure[:4]
        arguments = prevalence, likelihood, log_scale, float(log_parameters[0])
        return potts_kernels.conditionals(labels, *arguments, *graph)

    def joint(self, responses, unit):
        if not self.graph.is_forest:
            raise ModelError(
                "The joint log likelihood of items on a graph is tractable only on a forest; on "
                "other graphs compare models by item. Got: a graph of "
                f"{self.graph.n_items} items and {self.graph.n_edges} edges, with cycles."
            )
        graph = self.graph.ordered(responses)
        forest, tree = rooted(graph), graph.component
        prevalence = self.prevalence((), responses.n_classes, (), np)
        # sets are taken out at once if no tree joins items of several
        one_unit_per_tree = len(np.unique(np.stack([tree, unit]), axis=1)[0]) == tree.max() + 1
        sets = (
            [np.full(len(unit), True)]
            if one_unit_per_tree
            else [unit == u for u in range(unit.max() + 1)]
        )

        def evidence(log_parameters, likelihood, log_scale):
            coupling = complex(log_parameters[0])
            with_responses, by_set = sum_leaves(*forest, prevalence * likelihood, coupling)[0], []
            for members in sets:
                others = prevalence * np.where(members[:, None], 1.0, likelihood)
                unseen, _ = sum_leaves(*forest, others, coupling)
                by_set.append((with_responses - unseen).real + np.where(members, log_scale, 0.0))
            return np.bincount(unit, by_set[0]) if one_unit_per_tree else np.sum(by_set, axis=1)

        return evidence

    def sample_counts(self, drawn, structure, n_classes):
        _, start, neighbour, weight, *_ = structure
        if drawn.ndim == 2:  # labels drawn independently with these probabilities
            row = np.repeat(np.arange(len(drawn)), np.diff(start))
            same = (drawn[row] * drawn[neighbour]).sum(axis=1)
            return (np.asarray(0.5 * (weight * same).sum()),)
        return (np.asarray(potts_kernels.agreement(drawn, start, neighbour, weight)),)

    def used(self, expected, log_parameters, structure):
        return (expected[0] + self._log_z(log_parameters, structure)[1],)

    def log_weight(self, log_parameters, counts, structure):
        coupling = float(log_parameters[0])
        return coupling * float(counts[0]) - self._log_z(log_parameters, structure)[0]

    def _log_z(self, log_parameters, structure):
        *_, knots, total_weight = structure
        return potts_kernels.interpolate(float(log_parameters[0]), knots, float(total_weight))

    def decode(self, log_parameters, likelihood, structure):
        """Return the best mode of iterated conditional modes from two starts."""
        prevalence, start, neighbour, weight, *_ = structure
        graph = float(log_parameters[0]), start, neighbour, weight
        if potts_kernels.impossible(likelihood):
            return np.where(likelihood.any(axis=1), 0, -1)
        scale = np.zeros(len(likelihood))
        beliefs = self.marginal(log_parameters, likelihood, scale, structure).probability
        candidates = []
        for initial in ((prevalence * likelihood).argmax(axis=1), beliefs.argmax(axis=1)):
            labels = initial.astype(np.int32)
            done = PASSES
            for _ in range(MAX_MODE_PASSES // PASSES):
                if check() and done < PASSES:
                    break
                done = potts_kernels.iterate_modes(labels, prevalence, likelihood, *graph, PASSES)
            with np.errstate(divide="ignore"):
                item_terms = np.log(prevalence * likelihood)[np.arange(len(labels)), labels].sum()
            edge_terms = graph[0] * potts_kernels.agreement(labels, start, neighbour, weight)
            candidates.append((item_terms + edge_terms, labels))
        return max(candidates, key=lambda one: one[0])[1].astype(np.int64)

    def log_prob(self, log_parameters, labels, structure):
        prior_term = np.log(structure[0])[labels].sum()
        counts = self.sample_counts(labels.astype(np.int32), structure, len(structure[0]))
        return float(prior_term + self.log_weight(log_parameters, counts, structure))

    def simulate(self, log_parameters, possible, structure, rng):
        """As in the contract; approximately if there are cycles."""
        labels: NDArray[np.int32] = self.draw(log_parameters, possible, structure, rng)
        for _ in range(0 if self.graph.is_forest else PRIOR_SWEEPS):
            labels = self.draw(log_parameters, possible, structure, rng, labels)
        return labels

    def prevalence(self, parameters, n_classes, structure, xp):
        """Return π, the share of every class without neighbours."""
        if self._prevalence is None:
            return np.full(n_classes, 1 / n_classes)
        return self._prevalence

    def marginal(self, log_parameters, likelihood, log_scale, structure):
        (coupling,), (prevalence, *rows) = log_parameters, structure[:6]
        message, _ = _propagate(prevalence, likelihood, float(coupling), *rows)
        total, log_evidence, probability, expected = belief_propagation.at_messages(
            coupling, likelihood, log_scale, message, *structure
        )
        return Marginal(total, log_evidence, probability, (expected,))

    def converged(self, log_parameters, likelihood, structure):
        prevalence, *rows = structure[:6]
        return _propagate(prevalence, likelihood, float(log_parameters[0]), *rows)[1] <= TOLERANCE


def _propagate(
    prevalence: Array, likelihood: Array, coupling: float, *rows: NDArray[Any]
) -> tuple[Array, float]:
    """Pass messages by :func:`belief_propagation.pass_messages`, a few rounds at a time."""
    graph = coupling, *rows
    message = np.ones((rows[1].size, likelihood.shape[1]))
    stale = np.ones(len(likelihood), dtype=np.bool_)
    done, change = 0, np.inf
    while done < ROUNDS and change > TOLERANCE:
        check()
        until = min(done + PASSES, ROUNDS)
        done, change = belief_propagation.pass_messages(
            prevalence, likelihood, graph, message, stale, done, until
        )
    return message, change


def _sweep(
    arguments: tuple[Any, ...],
    graph: tuple[Any, ...],
    order: NDArray[np.int32],
    begin: Integers,
    seed: np.uint64,
    penalty: tuple[float, bool],
) -> None:
    """Draw the labels in place, each given its neighbours; threads share large colours."""
    if len(order) < MIN_THREADED_ITEMS or penalty != (0.0, True) or not shared():
        potts_kernels.gibbs_sweep(*arguments, *graph, order, seed, *penalty)
        return
    coupling, start, _, weight = graph
    graph = *graph, potts_kernels.factors(coupling, start, weight, len(arguments[1]))
    part = partial(potts_kernels.gibbs_part, *arguments, graph, order, seed)
    for first, last in pairwise(begin.tolist()):
        ends = np.linspace(first, last, 2 + (last - first) // TASK_ITEMS, dtype=int).tolist()
        side_by_side(part, ends[:-1], ends[1:])


def seed_of(rng: np.random.Generator) -> np.uint64:
    """Return a seed for a kernel."""
    return rng.integers(0, 2**64, dtype=np.uint64)

"""Labels on a graph: the Potts model, a Markov random field of labels that tend to agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.labels import (
    belief_propagation,
    elimination,
    mean_field,
    potts_evidence,
    potts_kernels,
)
from bayesfuse.labels.base import LabelPrior, Words
from bayesfuse.labels.couplings import bethe_coupling
from bayesfuse.labels.partition_function import (
    PartitionTable,
    interpolate,
    log_partition,
)
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.positive import POSITIVE

CLUSTERS = 0.25
"""Share of sweeps with a Swendsen–Wang move, which costs as much as two to four Gibbs sweeps.

Where responses say little it multiplies the effective draws of the coupling per second by six (one
rater of accuracy 0.6 on a grid), where they say much it costs a few per cent of them.
"""

SETTLE = 20
"""Sweeps, with as many cluster moves, for labels that begin anew."""

REACH, LARGEST = 4.0, 6.0
"""Tables of log Z end at so many times the coupling at which order may set in, at most so high."""

FROM_PRIOR = 400
"""Sweeps more for labels of the prior, with cluster moves in their share."""

MODES = 1000
"""Passes of iterated conditional modes at most; they need a handful."""


class Potts(LabelPrior):
    r"""Labels of neighbours that tend to be the same, on any graph.

    .. math:: p(y) = \frac{1}{Z(\beta)} \prod_n \pi_{y_n}
              \prod_{\text{edges } nm} \exp(\beta\, w_{nm}\, 1[y_n = y_m])

    Gibbs sampling is exact: where no edges form a circle, labels are drawn anew, elsewhere by
    sweeps over the items and by Swendsen–Wang moves of whole clusters, from where they were. What
    has the labels summed out (NUTS, EM) uses belief propagation, which is exact where no edges form
    a circle, and an approximation elsewhere.

    Parameters
    ----------
    coupling : tensor or number
        β > 0 of an edge of weight one. A variable of the model is inferred, for which Z is needed
        as a function of β; that is what takes a while when the model is built, once per graph.
    graph : Graph
        Who is whose neighbour. Its items must be those of the responses, in any order.
    prevalence : array-like, shape (classes,), optional
        π, which every class would have without neighbours. Default all equal.

    Notes
    -----
    Traganitis & Giannakis's trust δ counts half per edge: β = δ / 2 (their eqs. 6 and 28).

    The prevalence is numbers, not a variable: Z depends on it in as many dimensions as there are
    classes, and no table holds that. Little is lost, since with neighbours and responses at hand
    it seldom decides a label; the shares of the classes follow from the labels.

    The approximate evidence is the Bethe (or mean field) log partition function of the posterior
    less the log Z of the prior itself, not the latter's Bethe approximation: responses pull labels
    apart from each other, so that the former is good where the latter, without any, is at its
    worst.

    References
    ----------
    Traganitis & Giannakis (2020), section V, eqs. 5, 6, 28; Besag (1986), Journal of the Royal
    Statistical Society B 48, 259–302; Higdon (1998), Journal of the American Statistical
    Association 93, 585–595.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0], [1], [0]])
    >>> prior = bf.Potts(coupling=1.0, graph=bf.Graph.from_edges([(0, 1), (1, 2)]))
    >>> structure = prior.structure(responses)
    >>> likelihood = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]])
    >>> prior.marginal((np.array(1.0),), likelihood, np.zeros(3), structure).probability.round(3)
    array([[0.812, 0.188],
           [0.676, 0.324],
           [0.812, 0.188]])
    """

    declared = (Parameter("coupling", POSITIVE),)
    words = Words(
        "belief propagation", "iterated conditional modes", "Gibbs and Swendsen–Wang sweeps"
    )
    adds_up = False
    linear = False
    decodes_exactly = False
    marginal_kernel = staticmethod(potts_evidence.marginal)

    def __init__(self, coupling: Any, graph: Graph, prevalence: ArrayLike | None = None) -> None:
        if not hasattr(coupling, "type"):
            coupling = np.asarray(coupling, dtype=float)
            if coupling.ndim > 0 or not (np.isfinite(coupling) and coupling > 0):
                raise ModelError(
                    "The coupling must be one positive number, because neighbours tend to agree; "
                    f"without neighbours take bf.Independent. Got: {coupling}."
                )
        self.parameters = {"coupling": coupling}
        self._fixed = float(coupling) if isinstance(coupling, np.ndarray) else None
        self.graph = as_graph(graph)
        self.exact = self._drawn_anew = self.graph.is_forest
        self.moves_labels = not self.exact
        self.table: PartitionTable | None = None
        """log Z of the prior over the coupling, once :meth:`structure` was asked for it."""
        self._prevalence = None if prevalence is None else _shares(prevalence)

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        graph, n_classes = self.graph.ordered(responses), responses.n_classes
        prevalence = self.prevalence((), n_classes, np)
        require_shape("prevalence", prevalence.shape, classes=n_classes)
        weight = potts_kernels.once(graph.weight)
        row = np.repeat(np.arange(graph.n_items, dtype=np.int32), graph.degree)
        reverse = np.lexsort((row, graph.neighbour)).astype(np.int32)
        order = potts_kernels.breadth_first(graph.start, graph.neighbour)
        arrays = prevalence, graph.start, graph.neighbour, weight, reverse, order
        return (*arrays, graph.colour_order, *self._tabulate(graph, arrays))

    def defining(self, structure):
        return structure[:4]  # prevalence, start, neighbour and weight determine the rest

    def _tabulate(
        self, graph: Graph, arrays: tuple[NDArray[Any], ...]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return log Z of the prior as a function of the coupling, knots and total weight."""
        prevalence, *rows = arrays
        total_weight = np.asarray(graph.weights.sum())
        if self._fixed is not None:  # belief propagation is exact on a forest
            flat = np.ones((graph.n_items, len(prevalence)))
            at = prevalence, flat, self._fixed, *rows
            message, *_ = belief_propagation.propagate(*at, belief_propagation.ROUNDS)
            log_z, _, _, slope = belief_propagation.bethe(
                prevalence, flat, np.zeros(len(flat)), self._fixed, *rows[:-1], message
            )
            return np.array([[0.0] * 4, [self._fixed, log_z, slope, 0.0]]), total_weight
        field = np.log(prevalence)
        self.table = log_partition(graph, field, reach(graph, len(field)))
        return self.table.knots, total_weight

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        prevalence, start, neighbour, weight, _, order, colours, *_ = structure
        (coupling,) = log_parameters
        if potts_kernels.impossible(likelihood):
            return np.where(likelihood.any(axis=1), 0, -1)
        graph = float(coupling), start, neighbour, weight
        if self._drawn_anew:
            return belief_propagation.draw_forest(prevalence, likelihood, *graph, order, _seed(rng))
        sweeps = 1 if previous is not None else SETTLE
        if previous is None:
            labels = potts_kernels.begin(prevalence, likelihood, _seed(rng))
        else:
            labels = previous.copy()
        for _ in range(sweeps):
            if sweeps > 1 or rng.random() < CLUSTERS:
                potts_kernels.swendsen_wang(labels, prevalence, likelihood, *graph, _seed(rng))
            potts_kernels.gibbs_sweep(labels, prevalence, likelihood, *graph, colours, _seed(rng))
        return labels

    def given(self, log_parameters, labels, likelihood, log_scale, structure):
        prevalence, start, neighbour, weight, *_ = structure
        return potts_kernels.conditionals(
            labels,
            prevalence,
            likelihood,
            log_scale,
            float(log_parameters[0]),
            start,
            neighbour,
            weight,
        )

    def joint(self, responses, unit):
        if not self.graph.is_forest:
            raise ModelError(
                "The joint log likelihood of items on a graph can be computed only where no edges "
                "form a circle; elsewhere compare the model with others by item. Got: a graph of "
                f"{self.graph.n_items} items and {self.graph.n_edges} edges, with circles."
            )
        prevalence = self.prevalence((), responses.n_classes, np)
        trees = elimination.trees_of(self.graph.ordered(responses), unit)

        def evidence(log_parameters, likelihood, log_scale):
            coupling = float(log_parameters[0])
            return elimination.evidence(trees, prevalence, likelihood, log_scale, coupling)

        return evidence

    def tally(self, drawn, structure, n_classes):
        _, start, neighbour, weight, *_ = structure
        if drawn.ndim == 2:
            return (np.asarray(potts_kernels.soft_agreement(drawn, start, neighbour, weight)),)
        return (np.asarray(potts_kernels.agreement(drawn, start, neighbour, weight)),)

    def used(self, expected, log_parameters, structure):
        return (expected[0] + self._log_z(log_parameters, structure)[1],)

    def log_weight(self, log_parameters, counts, structure):
        coupling = float(log_parameters[0])
        return coupling * float(counts[0]) - self._log_z(log_parameters, structure)[0]

    def _log_z(self, log_parameters, structure):
        *_, knots, total_weight = structure
        return interpolate(float(log_parameters[0]), knots, float(total_weight))

    def decode(self, log_parameters, likelihood, structure):
        """Return the best of what iterated modes reach from several starts: a mode, if not the."""
        prevalence, start, neighbour, weight, *_ = structure
        graph = float(log_parameters[0]), start, neighbour, weight
        if potts_kernels.impossible(likelihood):
            return np.where(likelihood.any(axis=1), 0, -1)
        scale = np.zeros(len(likelihood))
        own = (prevalence * likelihood).argmax(axis=1)
        believed = self.marginal(log_parameters, likelihood, scale, structure).probability
        found = []
        for begun in (own, believed.argmax(axis=1)):
            labels = begun.astype(np.int32)
            potts_kernels.iterate_modes(labels, prevalence, likelihood, *graph, MODES)
            with np.errstate(divide="ignore"):
                own_part = np.log(prevalence * likelihood)[np.arange(len(labels)), labels].sum()
            pull = graph[0] * potts_kernels.agreement(labels, start, neighbour, weight)
            found.append((own_part + pull, labels))
        return max(found, key=lambda one: one[0])[1].astype(np.int64)

    def log_prob(self, log_parameters, labels, structure):
        own = np.log(structure[0])[labels].sum()
        counts = self.tally(labels.astype(np.int32), structure, len(structure[0]))
        return float(own + self.log_weight(log_parameters, counts, structure))

    def simulate(self, log_parameters, possible, structure, rng):
        """Draw as the contract says; where there are circles only near the prior, by sweeps.

        Every sweep leaves the prior given the known labels as it is.
        """
        labels: NDArray[np.int32] = self.draw(log_parameters, possible, structure, rng)
        for _ in range(0 if self._drawn_anew else FROM_PRIOR):
            labels = self.draw(log_parameters, possible, structure, rng, labels)
        return labels

    def prevalence(self, parameters: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return π, the share of every class without neighbours."""
        if self._prevalence is None:
            return np.full(n_classes, 1 / n_classes)
        return self._prevalence

    def converged(self, log_parameters, likelihood, structure):
        prevalence, start, neighbour, weight, reverse, order, *_ = structure
        graph = float(log_parameters[0]), start, neighbour, weight, reverse
        *_, change = belief_propagation.propagate(
            prevalence, likelihood, *graph, order, belief_propagation.ROUNDS
        )
        return change <= belief_propagation.TOLERANCE

    @staticmethod
    def marginal_jax(*arguments: Any) -> Any:
        """Return what every item adds to the total (items,), in ``jax.numpy``."""
        coupling, log_lik, prevalence, start, neighbour, weight, reverse, _, _, *table = arguments
        terms = belief_propagation.bethe_jax(
            prevalence, log_lik, coupling, start, neighbour, weight, reverse
        )
        return terms - potts_evidence.interpolate_jax(coupling, *table) / log_lik.shape[0]


class MeanFieldPotts(Potts):
    """The same prior, its labels summed out by mean field: a lower bound of the evidence.

    Worse than belief propagation, which it is here to be compared with, but it cannot fail to
    converge. What is drawn by Gibbs sampling is the same.

    Parameters
    ----------
    coupling, graph, prevalence
        As in :class:`Potts`.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0], [1], [0]])
    >>> graph = bf.Graph.from_edges([(0, 1), (1, 2)])
    >>> likelihood, scale = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]]), np.zeros(3)
    >>> for prior in (bf.MeanFieldPotts(1.0, graph), bf.Potts(1.0, graph)):
    ...     structure = prior.structure(responses)
    ...     round(prior.marginal((np.array(1.0),), likelihood, scale, structure).total, 3)
    -2.236
    -2.114
    """

    words = Potts.words._replace(summing="mean field")
    marginal_kernel = staticmethod(potts_evidence.marginal_mean_field)

    def __init__(self, coupling: Any, graph: Graph, prevalence: ArrayLike | None = None) -> None:
        super().__init__(coupling, graph, prevalence)
        self.exact = self.graph.n_edges == 0
        self.moves_labels = not self.exact  # probabilities are better taken from drawn labels

    def converged(self, log_parameters, likelihood, structure):
        prevalence, start, neighbour, weight, _, order, *_ = structure
        graph = float(log_parameters[0]), start, neighbour, weight
        *_, change = mean_field.settle(
            prevalence, likelihood, *graph, order, belief_propagation.ROUNDS
        )
        return change <= belief_propagation.TOLERANCE

    @staticmethod
    def marginal_jax(*arguments: Any) -> Any:
        """Return what every item adds to the total (items,), in ``jax.numpy``."""
        coupling, log_lik, prevalence, start, neighbour, weight, _, _, _, *table = arguments
        terms = mean_field.bound_jax(prevalence, log_lik, coupling, start, neighbour, weight)
        return terms - potts_evidence.interpolate_jax(coupling, *table) / log_lik.shape[0]


def reach(graph: Graph, n_classes: int) -> float:
    """Return where a table of log Z may end: beyond, hardly any neighbours disagree."""
    mean = float(graph.weights.mean()) if graph.n_edges else 1.0
    return min(REACH * bethe_coupling(graph, n_classes), LARGEST / mean)


def paper_coupling(trust: Any, responses: Responses) -> float:
    """Return the coupling of an edge from the paper's δ, of which every edge counts half.

    Raises
    ------
    ModelError
        Neither "paper", which is the number of raters, nor a positive number.
    """
    delta = responses.n_raters if trust == "paper" else trust
    number = isinstance(delta, int | float | np.number) and not isinstance(delta, bool)
    if not (number and 0 < delta < np.inf):
        raise ModelError(
            f"trust must be 'infer', 'paper' or a positive number, the paper's δ. Got: {trust!r}."
        )
    return float(delta) / 2


def _seed(rng: np.random.Generator) -> np.uint64:
    return rng.integers(0, 2**64, dtype=np.uint64)


def _shares(prevalence: ArrayLike) -> Array:
    given = np.asarray(prevalence, dtype=float)
    if given.ndim != 1 or not np.isfinite(given).all() or (given <= 0).any():
        raise ModelError(
            "The prevalence of labels on a graph must be one positive number per class, and no "
            f"variable: see bf.Potts. Got: {prevalence!r}."
        )
    return given / given.sum()

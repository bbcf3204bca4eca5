"""Labels in sequences: a hidden Markov chain per sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import require_kind
from bayesfuse.labels import forward_backward
from bayesfuse.labels.base import LabelPrior, Words
from bayesfuse.labels.stationary import marginal_stationary, stationary
from bayesfuse.numerics.kernels import Array, fill, inner
from bayesfuse.numerics.rows import shares
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import InChain
from bayesfuse.parameters.simplex import SIMPLEX

SOFT_ITERATIONS = 20  # Baum–Welch steps of soft_counts; few, because these are starting values


@inner
def draw_in_chain(tables, likelihood, labels, rng, structure):
    """Draw the labels of all sequences; see :class:`InChain`."""
    uniform = np.empty(labels.size)
    for n in range(labels.size):
        uniform[n] = rng.random()
    drawn = forward_backward.draw_labels(
        tables[0], tables[1], likelihood, structure[0], structure[1], uniform
    )
    for n in range(labels.size):
        labels[n] = drawn[n]
        if drawn[n] < 0:
            return False
    return True


@inner
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count first labels and pairs of neighbours."""
    begun, followed = forward_backward.count(labels, structure[0], structure[1], n_classes)
    fill(counts[0], begun)
    fill(counts[1], followed)


class MarkovChain(LabelPrior):
    r"""Markov chain of labels, :math:`p(y) = \rho_{y_1} \prod_t A_{y_{t-1} y_t}`.

    Sequences share the parameters and are independent given them. Zeros in the parameters are
    structural. Items without responses count as items.

    Parameters
    ----------
    initial : tensor or array, shape (classes,)
        Probability of every class for the first item of a sequence, ρ.
    transition : tensor or array, shape (classes, classes)
        ``transition[k, j]`` is the probability that class j follows class k.
    sequences : Sequences
        The order of the items; the same items as in the responses, in any order.

    References
    ----------
    Rabiner (1989), A tutorial on hidden Markov models, Proceedings of the IEEE 77, 257–286.
    Traganitis & Giannakis (2020), section IV (their transition matrix is the transpose of ours).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.MarkovChain(
    ...     initial=[0.5, 0.5],
    ...     transition=[[0.9, 0.1], [0.2, 0.8]],
    ...     sequences=bf.Sequences.from_lengths([3]),
    ... )
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [0, 0]])
    >>> structure = prior.structure(responses)
    >>> likelihood = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]])
    >>> log_rows = tuple(np.log(value) for value in prior.parameters.values())
    >>> prior.marginal(log_rows, likelihood, np.zeros(3), structure).probability.round(3)
    array([[0.843, 0.157],
           [0.83 , 0.17 ],
           [0.893, 0.107]])
    >>> prior.decode(log_rows, likelihood, structure)
    array([0, 0, 0])
    """

    declared: tuple[Parameter, ...] = (
        Parameter("initial", SIMPLEX, ("class",)),
        Parameter("transition", SIMPLEX, ("class", "next_class")),
    )
    words = Words("forward–backward")
    unit = "sequence"
    needs: tuple[str, ...] = ("sequences",)
    marginal_kernel = staticmethod(forward_backward.marginal)

    def __init__(self, initial: Any, transition: Any, sequences: Sequences) -> None:
        self.parameters = {"initial": initial, "transition": transition}
        self.sequences = sequences

    def structure(self, responses):
        return self.sequences.places(responses), self.sequences.start

    def defining(self, structure):
        return structure

    def units(self, responses: Responses) -> NDArray[Any]:
        return self.sequences.names

    def part(self, structure, units):
        place, start = structure
        size = start[units + 1] - start[units]
        begin = np.concatenate([[0], np.cumsum(size)])
        row = np.repeat(start[units] - begin[:-1], size) + np.arange(begin[-1])
        return place[row], (np.arange(begin[-1]), begin)

    def in_chain(self, *, copies):
        return None if copies else InChain(count_in_chain, draw=draw_in_chain)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        require_kind("sequences", self.sequences, Sequences)
        super().check(shapes, responses)

    def both(self, log_parameters: tuple[Array, ...]) -> tuple[Array, Array]:
        """Return the logarithms of the initial and the transition probabilities."""
        initial, transition = log_parameters
        return initial, transition

    def seconds(self, n_items, n_classes):
        return 20e-9 * n_items + 0.5e-9 * n_items * n_classes**2

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        # drawn here, because a Generator in a kernel costs microseconds, and seconds to compile
        uniform = rng.random(len(likelihood))
        return forward_backward.draw_labels(
            *self.both(log_parameters), likelihood, *structure, uniform
        )

    def tally(self, drawn, structure, n_classes):
        if drawn.ndim == 2:
            return soft_counts(drawn, *structure)
        return forward_backward.count(drawn, *structure, n_classes)

    def decode(self, log_parameters, likelihood, structure):
        return forward_backward.decode(*self.both(log_parameters), likelihood, *structure)

    def log_prob(self, log_parameters, labels, structure):
        initial, transition = self.both(log_parameters)
        place, start = structure
        path = labels[place]
        first = np.zeros(len(path), dtype=bool)
        first[start[:-1]] = True
        follows = np.flatnonzero(~first)
        steps = transition[path[follows - 1], path[follows]]
        return float(initial[path[first]].sum() + steps.sum())

    def unit_of(self, responses: Responses) -> NDArray[np.int64]:
        sequence = np.empty(responses.n_items, dtype=np.int64)
        number = np.arange(self.sequences.n_sequences)
        sequence[self.sequences.places(responses)] = np.repeat(number, self.sequences.lengths)
        return sequence

    def prevalence(self, parameters, n_classes, structure, xp):
        return self.of_lengths(self.sequences.lengths, parameters, xp)

    @staticmethod
    def of_lengths(lengths: NDArray[np.int64], parameters: tuple[Any, ...], xp: Any) -> Any:
        """Return the expected share of every class in sequences of these lengths."""
        initial, transition = parameters
        # number of sequences longer than t, for t = 0, 1, …
        longer = len(lengths) - np.bincount(lengths).cumsum()[:-1]
        return initial @ _polynomial(longer / lengths.sum(), transition, xp)


class StationaryMarkovChain(MarkovChain):
    r"""Markov chain that begins in its stationary distribution, :math:`\rho = \rho A`.

    For excerpts of long sequences. The first labels then also inform the transition, whose
    conditional is not Dirichlet: Gibbs proposes Dirichlet draws in a Metropolis step, which
    accepts nearly all.

    Parameters
    ----------
    transition : tensor or array, shape (classes, classes)
        As in :class:`MarkovChain`, with a unique stationary distribution.
    sequences : Sequences

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.StationaryMarkovChain(
    ...     transition=[[0.9, 0.1], [0.3, 0.7]], sequences=bf.Sequences.from_lengths([3, 2])
    ... )
    >>> prior.prevalence((np.array([[0.9, 0.1], [0.3, 0.7]]),), 2, (), np).round(3)
    array([0.75, 0.25])
    """

    declared = MarkovChain.declared[1:]
    counts_all = False
    marginal_kernel = staticmethod(marginal_stationary)

    def __init__(self, transition: Any, sequences: Sequences) -> None:
        self.parameters = {"transition": transition}
        self.sequences = sequences

    def both(self, log_parameters: tuple[Array, ...]) -> tuple[Array, Array]:
        (transition,) = log_parameters
        with np.errstate(divide="ignore"):
            return np.log(stationary(transition)), transition

    def tally(self, drawn, structure, n_classes):
        return super().tally(drawn, structure, n_classes)[1:]

    def uncounted(self, log_parameters, drawn, structure):
        place, start = structure
        initial, _ = self.both(log_parameters)
        return float(initial[drawn[place[start[:-1]]]].sum())

    def prevalence(self, parameters, n_classes, structure, xp):
        return _solve_stationary(parameters[0], xp)


def soft_counts(
    weight: Array, place: NDArray[np.int64], start: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return expected first labels (k,) and pairs (k, k) from label probabilities (items, k).

    Products of neighbours' probabilities would underestimate dependence, Baum–Welch does not.
    """
    share = weight.mean(axis=0)
    path = weight[place]
    first = np.zeros(len(path), dtype=bool)
    first[start[:-1]] = True
    follows = np.flatnonzero(~first)
    begun, followed = path[first].sum(axis=0), path[follows - 1].T @ path[follows]
    likelihood = np.divide(weight, share, out=np.zeros_like(weight), where=share > 0)
    log_scale = np.zeros(len(weight))
    with np.errstate(divide="ignore"):
        for _ in range(SOFT_ITERATIONS):
            *_, begun, followed = forward_backward.marginal(
                np.log(shares(begun)), np.log(shares(followed)), likelihood, log_scale, place, start
            )
    return begun, followed


def _polynomial(weight: Array, matrix: Any, xp: Any) -> Any:
    """Return the sum of weighted powers 0, 1, … of a matrix (Paterson & Stockmeyer 1973)."""
    size = math.isqrt(len(weight) - 1) + 1
    n_blocks = -(-len(weight) // size)
    blocks = np.zeros((n_blocks, size))
    blocks.ravel()[: len(weight)] = weight
    n = matrix.shape[0]
    low = _powers(matrix, size, xp)
    sums = (blocks @ low.reshape((size, n * n))).reshape((n_blocks, n, n))
    return (sums @ _powers(low[-1] @ matrix, n_blocks, xp)).sum(axis=0)


def _powers(matrix: Any, size: int, xp: Any) -> Any:
    """Return the powers 0, …, size − 1 of a matrix, by doubling."""
    found, power = xp.eye(matrix.shape[0])[None], matrix
    for _ in range((size - 1).bit_length()):
        found = xp.concatenate([found, found @ power])
        power = power @ power
    return found[:size]


def _solve_stationary(transition: Any, xp: Any) -> Any:
    """Solve ρ = ρ A with sum one, if the solution is unique."""
    n_classes = transition.shape[0]
    matrix = xp.eye(n_classes) - transition.T + 1.0
    return xp.linalg.solve(matrix, xp.ones((n_classes, 1)))[:, 0]

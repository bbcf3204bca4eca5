"""Labels in sequences: a hidden Markov chain per sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.known import read_classifier
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.labels import forward_backward
from bayesfuse.labels.base import LabelPrior, Words
from bayesfuse.labels.independent import log_word
from bayesfuse.numerics.kernels import Array, inner
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
    drawn = forward_backward.draw_labels(tables[0], tables[1], likelihood, uniform, *structure)
    for n in range(labels.size):
        labels[n] = drawn[n]
        if drawn[n] < 0:
            return False
    return True


@inner
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count first labels and pairs of neighbours."""
    forward_backward.count(labels, counts[0], counts[1], structure[0], structure[1])


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
    >>> initial, transition = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> prior = bf.MarkovChain(initial, transition, bf.Sequences.from_lengths([3]))
    >>> structure = prior.structure(bf.Responses.from_matrix([[0, 0], [1, 0], [0, 0]]))
    >>> likelihood = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]])
    >>> log_rows = np.log(initial), np.log(transition)
    >>> prior.marginal(log_rows, likelihood, np.zeros(3), structure).probability.round(3)
    array([[0.843, 0.157],
           [0.83 , 0.17 ],
           [0.893, 0.107]])
    """

    declared: tuple[Parameter, ...] = (
        Parameter("initial", SIMPLEX, ("class",)),
        Parameter("transition", SIMPLEX, ("class", "next_class")),
    )
    words = Words("forward–backward")
    unit = "sequence"
    needs: tuple[str, ...] = ("sequences",)
    marginal_kernel = staticmethod(forward_backward.marginal)
    axes: tuple[int, ...] = ()  # of the parameters, before those of classes

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
        place, start, *_ = structure
        units = np.sort(units)
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
        given = *self.both(log_parameters), likelihood, uniform
        return forward_backward.draw_labels(*given, *structure)

    def tally(self, drawn, structure, n_classes):
        if drawn.ndim == 2:
            return soft_counts(drawn, *structure[:2])
        counts = [np.empty((*self.axes, *(n_classes,) * dims)) for dims in (1, 2)]
        forward_backward.count(drawn, *counts, *structure[:3])
        return tuple(counts)

    def decode(self, log_parameters, likelihood, structure):
        return forward_backward.decode(*self.both(log_parameters), likelihood, *structure)

    def unit_of(self, responses: Responses) -> NDArray[np.int64]:
        sequence = np.empty(responses.n_items, dtype=np.int64)
        number = np.arange(self.sequences.n_sequences)
        sequence[self.sequences.places(responses)] = np.repeat(number, self.sequences.lengths)
        return sequence

    def prevalence(self, parameters, n_classes, structure, xp):
        return self.of_lengths(self.sequences.lengths, parameters, xp)

    @staticmethod
    def of_lengths(lengths: NDArray[np.int64], parameters: Sequence[Any], xp: Any) -> Any:
        """Return the expected share of every class in sequences of these lengths."""
        initial, transition = parameters
        # number of sequences longer than t, for t = 0, 1, …
        longer = len(lengths) - np.bincount(lengths).cumsum()[:-1]
        return initial @ _polynomial(longer / lengths.sum(), transition, xp)


class PopulationMarkovChain(MarkovChain):
    r"""Markov chains of labels, :math:`p(y) = \rho_{g y_1} \prod_t A_{g y_{t-1} y_t}`.

    As :class:`MarkovChain`, with an initial distribution and a transition for every population g of
    sequences: words in newspapers and in letters, nights of patients and of healthy people.

    Parameters
    ----------
    initial : tensor or array, shape (populations, classes)
    transition : tensor or array, shape (populations, classes, classes)
    sequences : Sequences
    population : array of int, shape (sequences,)
        Population of every sequence, in the order of ``sequences.names``.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> initial = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> transition = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> sequences = bf.Sequences.from_lengths([2, 2])
    >>> prior = bf.PopulationMarkovChain(initial, transition, sequences, population=[1, 0])
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1], [0], [1]]))
    >>> likelihood = np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    >>> log_rows = np.log(initial), np.log(transition)
    >>> prior.marginal(log_rows, likelihood, np.zeros(4), structure).probability.round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5], [0.9, 0.1], [0.82, 0.18]]
    """

    declared = (
        Parameter("initial", SIMPLEX, ("population", "class")),
        Parameter("transition", SIMPLEX, ("population", "class", "next_class")),
    )
    needs: tuple[str, ...] = ("sequences", "populations")

    @classmethod
    def anew(cls, values, settings, **places):
        population = places.pop("populations")
        return cls(**values, **places, population=population)

    def __init__(
        self, initial: Any, transition: Any, sequences: Sequences, population: ArrayLike
    ) -> None:
        number = np.asarray(population)
        if number.dtype.kind not in "iu" or number.shape != sequences.names.shape:
            raise ModelError(
                "population must hold the number of every sequence's population, from 0. Got: "
                f"{number.dtype} of shape {number.shape} for {sequences.n_sequences} sequences."
            )
        order = np.argsort(number, kind="stable")
        super().__init__(initial, transition, _reordered(sequences, order))
        self.population = number[order]
        shape: Any = getattr(getattr(initial, "type", initial), "shape", ())
        known = shape[0] if len(shape) == 2 and shape[0] is not None else 0
        self.axes = (max(known, int(number.max(initial=0)) + 1),)

    def check(self, shapes, responses):
        if self.population.min(initial=0) < 0:
            raise ModelError(f"Populations are numbered from 0. Got: {int(self.population.min())}.")
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"population": self.axes[0]}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        cut = np.searchsorted(self.population, np.arange(self.axes[0] + 1))
        return (*super().structure(responses), cut)

    def part(self, structure, units):
        items, chain = super().part(structure, units)
        return items, (*chain, np.searchsorted(np.sort(units), structure[2]))

    def tally(self, drawn, structure, n_classes):
        if drawn.ndim == 1:
            return super().tally(drawn, structure, n_classes)
        begun = np.zeros((*self.axes, n_classes))
        followed = np.zeros((*self.axes, n_classes, n_classes))
        for p, (low, high) in enumerate(pairwise(structure[2])):
            if low < high:
                items, chain = self.part(structure, np.arange(low, high))
                begun[p], followed[p] = soft_counts(drawn[items], *chain[:2])
        return begun, followed

    def prevalence(self, parameters, n_classes, structure, xp):
        found: Any = 0.0
        for p in np.unique(self.population):
            lengths, rows = self.sequences.lengths[self.population == p], [v[p] for v in parameters]
            found = found + lengths.sum() * self.of_lengths(lengths, rows, xp)
        return found / len(self.sequences.items)


def _reordered(sequences: Sequences, order: NDArray[np.int64]) -> Sequences:
    """Return the same sequences in another order."""
    parts = np.split(sequences.items, sequences.start[1:-1])
    start = np.concatenate([[0], np.cumsum(sequences.lengths[order])])
    return Sequences(sequences.names[order], np.concatenate([parts[s] for s in order]), start)


class InformedMarkovChain(MarkovChain):
    r"""Markov chain of labels of items with a classifier's probabilities :math:`\hat p`.

    .. math:: p(y) \propto \rho_{y_1} \prod_t A_{y_{t-1} y_t} \prod_t \hat p_{t y_t} / \bar p_{y_t}

    The ratio is the likelihood of the inputs of the classifier, up to a factor, by Bayes' theorem.
    So the inputs count as observed, like responses, and initial and transition keep their Dirichlet
    conditionals. The log evidence is relative to that of the inputs, and comparable only between
    models with the same classifier.

    Parameters
    ----------
    initial, transition, sequences
        As in :class:`MarkovChain`.
    classifier : array or DataFrame, shape (items, classes)
        Probabilities from a classifier that saw none of the responses to these items.
    shares : array-like, shape (classes,), optional
        Mean probabilities :math:`\bar p` over the items of the fit. Default: of ``classifier``.

    References
    ----------
    Bourlard & Morgan (1994), Connectionist speech recognition, Kluwer, chapter 7 (scaled
    likelihoods).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> initial, transition = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> sequences, classifier = bf.Sequences.from_lengths([2]), np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> prior = bf.InformedMarkovChain(initial, transition, sequences, classifier)
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1]]))
    >>> log_rows = np.log(initial), np.log(transition)
    >>> prior.marginal(log_rows, np.ones((2, 2)), np.zeros(2), structure).probability.round(2)
    array([[0.52, 0.48],
           [0.47, 0.53]])
    """

    needs: tuple[str, ...] = ("sequences", "classifier")

    def __init__(
        self,
        initial: Any,
        transition: Any,
        sequences: Sequences,
        classifier: Any,
        shares: ArrayLike | None = None,
    ) -> None:
        super().__init__(initial, transition, sequences)
        self.classifier = classifier
        self.shares = None if shares is None else np.asarray(shares, dtype=float)

    def settings(self):
        return {} if self.shares is None else {"shares": self.shares.tolist()}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        probability = read_classifier(responses, self.classifier)
        shares = probability.mean(axis=0) if self.shares is None else self.shares
        log_ratio = log_word(probability) - log_word(shares)
        evidence: Array = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
        place, start = super().structure(responses)
        return place, start, np.array([0, len(start) - 1]), evidence

    def defining(self, structure):
        place, start, _, evidence = structure
        return place, start, evidence

    def part(self, structure, units):
        items, chain = super().part(structure, units)
        return items, (*chain, np.array([0, len(units)]), structure[3][items])

    in_chain = MarkovChain.in_chain

    def uncounted(self, log_parameters, drawn, structure):
        return float(np.log(structure[3][np.arange(len(drawn)), drawn]).sum())


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

"""Labels in sequences: a hidden Markov chain per sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.known import read_classifier
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import require_kind
from bayesfuse.labels import forward_backward
from bayesfuse.labels.base import LabelPrior, Words, count_populations, require_population
from bayesfuse.labels.independent import log_word
from bayesfuse.numerics.kernels import Array, inner, kernel
from bayesfuse.numerics.rows import shares
from bayesfuse.parameters.capabilities import Capabilities, SweepKernels
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import Integers, Structure, Tables
from bayesfuse.parameters.simplex import SIMPLEX

SOFT_ITERATIONS = 20  # Baum–Welch steps of soft_counts; few, because these are starting values


@inner
def draw_in_chain(tables, likelihood, labels, rng, structure):
    """Draw the labels of all sequences; see :class:`SweepKernels`."""
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


@kernel
def stationary(log_transition):
    """Return the stationary distribution of a transition matrix.

    By the elimination of Grassmann, Taksar & Heyman (1985), Operations Research 33, 1107–1116: it
    has no subtractions, so small probabilities are accurate. Zeros if the distribution is not
    unique. Rows are normalised first.
    """
    square, n_classes = np.ascontiguousarray(log_transition), log_transition.shape[0]
    rows = forward_backward.padded(square.reshape(1, n_classes, n_classes))[0][0]
    for k in range(n_classes):
        rows[k] /= rows[k].sum()
    share = np.zeros(n_classes)
    for k in range(n_classes - 1, 0, -1):
        leaving = 0.0
        for j in range(k):
            leaving += rows[k, j]
        if leaving == 0.0:
            return share
        for i in range(k):
            rows[i, k] /= leaving
            for j in range(k):
                rows[i, j] += rows[i, k] * rows[k, j]
    share[0] = total = 1.0
    for k in range(1, n_classes):
        for i in range(k):
            share[k] += share[i] * rows[i, k]
        total += share[k]
    for k in range(n_classes):
        share[k] /= total
    return share


@kernel
def marginal_stationary(log_transition, likelihood, log_scale, place, start):
    """As :func:`forward_backward.marginal`, with stationary first labels.

    The expected counts of the transition are the derivative of the log evidence: the counts of
    pairs, and a part from the first labels through the stationary distribution, which may be
    negative and sums to zero in every row.
    """
    share = stationary(log_transition)
    total, log_evidence, probability, initial_counts, transition_counts = forward_backward.marginal(
        np.log(share), log_transition, likelihood, log_scale, place, start
    )
    if total == -np.inf:
        return total, log_evidence, probability, transition_counts
    # Kemeny & Snell: a change dA of A changes ρ by ρ dA Z with Z = (I − A + 1 ρ)⁻¹
    rows = np.exp(log_transition)
    rows /= rows.sum(axis=1).reshape(-1, 1)
    # classes in which no sequence can begin have no counts
    pull = initial_counts / np.maximum(share, forward_backward.LEAST_PREDICTED)
    value = np.linalg.solve(np.eye(len(share)) - rows + share, pull)
    transition_counts += share.reshape(-1, 1) * rows * (value - (rows @ value).reshape(-1, 1))
    return total, log_evidence, probability, transition_counts


class MarkovChain(LabelPrior):
    r"""Markov chain of labels, :math:`p(y) = \rho_{y_1} \prod_t A_{y_{t-1} y_t}`.

    Sequences share the parameters and are independent given them. Zeros in the parameters are
    structural. Items without responses count as items.

    Parameters
    ----------
    initial : tensor or array, shape (classes,) or (populations, classes)
        Probability of every class for the first item of a sequence, ρ.
    transition : tensor or array, shape (classes, classes) or (populations, classes, classes)
        ``transition[k, j]`` is the probability that class j follows class k.
    sequences : Sequences
        The order of the items; the same items as in the responses, in any order.
    population : array of int, shape (sequences,), optional
        Population of every sequence, in the order of ``sequences.names``, if each has rows of its
        own: words in newspapers and in letters, nights of patients and of healthy people.
    classifier : array or DataFrame, shape (items, classes), optional
        Probabilities :math:`\hat p` from a classifier that saw none of the responses to these
        items. They multiply p(y) by :math:`\prod_t \hat p_{t y_t} / \bar p_{y_t}`, which is the
        likelihood of the inputs of the classifier, up to a factor, by Bayes' theorem. So the log
        evidence is comparable only between models with the same classifier.
    shares : array-like, shape (classes,), optional
        Mean probabilities :math:`\bar p` over the items of the fit. Default: of ``classifier``.

    References
    ----------
    Rabiner (1989), A tutorial on hidden Markov models, Proceedings of the IEEE 77, 257–286.
    Traganitis & Giannakis (2020), section IV (their transition matrix is the transpose of ours).
    Bourlard & Morgan (1994), Connectionist speech recognition, Kluwer, chapter 7 (classifiers).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> initial, transition = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> prior = bf.build.MarkovChain(initial, transition, bf.Sequences.from_lengths([3]))
    >>> structure = prior.structure(bf.Responses.from_matrix([[0, 0], [1, 0], [0, 0]]))
    >>> likelihood = np.array([[0.8, 0.2], [0.4, 0.6], [0.8, 0.2]])
    >>> log_rows = np.log(initial), np.log(transition)
    >>> prior.marginal(log_rows, likelihood, np.zeros(3), structure).probability.round(2).tolist()
    [[0.84, 0.16], [0.83, 0.17], [0.89, 0.11]]
    """

    declared: tuple[Parameter, ...] = (
        Parameter("initial", SIMPLEX, ("class",)),
        Parameter("transition", SIMPLEX, ("class", "next_class")),
    )
    words = Words("forward–backward")
    capabilities = Capabilities(
        compiled=SweepKernels(count_in_chain, draw=draw_in_chain), separable=True
    )
    unit = "sequence"
    needs: tuple[str, ...] = ("sequences",)
    marginal_kernel = staticmethod(forward_backward.marginal)
    population: Integers | None = None
    axes: tuple[int, ...] = ()  # of the parameters, before those of classes
    classifier: Any = None
    shares: Array | None = None

    def __init__(
        self,
        initial: Any,
        transition: Any,
        sequences: Sequences,
        *,
        population: ArrayLike | None = None,
        classifier: Any = None,
        shares: ArrayLike | None = None,
    ) -> None:
        self.parameters = {"initial": initial, "transition": transition}
        self.sequences = sequences
        if population is not None:
            self._divide(np.asarray(population))
        if classifier is not None:
            self.needs += ("classifier",)
        self.classifier = classifier
        self.shares = None if shares is None else np.asarray(shares, dtype=float)

    def _divide(self, number: NDArray[Any]) -> None:
        """Store the populations of the sequences, each of which has its own rows."""
        require_population(number, self.sequences.n_sequences, "sequence")
        self.population = number
        self.capabilities = replace(self.capabilities, compiled=None)
        self.axes = (count_populations(self.parameters["initial"], number),)
        self.needs += ("populations",)
        self.declared = tuple(
            Parameter(parameter.name, parameter.support, ("population", *parameter.dims))
            for parameter in self.declared
        )

    @classmethod
    def rebuild_for(cls, values, settings, **places):
        if "populations" in places:
            places["population"] = places.pop("populations")
        return super().rebuild_for(values, settings, **places)

    def settings(self):
        return {} if self.shares is None else {"shares": self.shares.tolist()}

    def structure(self, responses: Responses) -> Structure:
        """Return places and starts; populations of sequences, and evidence of a classifier."""
        chain = self.sequences.places(responses), self.sequences.start
        of = np.zeros(len(chain[1]) - 1, dtype=int) if self.population is None else self.population
        if self.classifier is None:
            return chain if self.population is None else (*chain, of)
        probability = read_classifier(responses, self.classifier)
        share = probability.mean(axis=0) if self.shares is None else self.shares
        log_ratio = log_word(probability) - log_word(share)
        evidence = np.exp(log_ratio - log_ratio.max(axis=1, keepdims=True))
        return *chain, of, evidence

    def defining(self, structure):
        return structure

    def units(self, responses: Responses) -> NDArray[Any]:
        return self.sequences.names

    def part(self, structure, units):
        place, start, *more = structure
        units = np.sort(units)
        size = start[units + 1] - start[units]
        begin = np.concatenate([[0], np.cumsum(size)])
        items = place[np.repeat(start[units] - begin[:-1], size) + np.arange(begin[-1])]
        of_part = [array[at] for array, at in zip(more, (units, items), strict=False)]
        return items, (np.arange(begin[-1]), begin, *of_part)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        require_kind("sequences", self.sequences, Sequences)
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        of_populations = {"population": self.axes[0]} if self.axes else {}
        return super().sizes(name, shape, responses) | of_populations

    def both(self, log_parameters: Tables) -> tuple[Array, Array]:
        """Return the logarithms of the initial and the transition probabilities."""
        initial, transition = log_parameters
        return initial, transition

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        # drawn here, because a Generator in a kernel costs microseconds, and seconds to compile
        uniform = rng.random(len(likelihood))
        arguments = *self.both(log_parameters), likelihood, uniform
        return forward_backward.draw_labels(*arguments, *structure)

    def sample_counts(self, drawn, structure, n_classes):
        counts = [np.zeros((*self.axes, *(n_classes,) * dims)) for dims in (1, 2)]
        if drawn.ndim == 1:
            forward_backward.count(drawn, *counts, *structure[:3])
            return tuple(counts)
        for p in range(self.axes[0] if self.axes else 1):
            in_population = structure[2] == p if self.axes else np.full(len(structure[1]) - 1, True)
            if in_population.any():
                items, (place, start, *_) = self.part(structure, np.flatnonzero(in_population))
                at = p if self.axes else ...
                counts[0][at], counts[1][at] = soft_counts(drawn[items], place, start)
        return tuple(counts)

    def uncounted(self, log_parameters, drawn, structure):
        if self.classifier is None:
            return 0.0
        return float(np.log(structure[3][np.arange(len(drawn)), drawn]).sum())

    def decode(self, log_parameters, likelihood, structure):
        return forward_backward.decode(*self.both(log_parameters), likelihood, *structure)

    def unit_of(self, responses: Responses) -> Integers:
        sequence = np.empty(responses.n_items, dtype=np.int64)
        number = np.arange(self.sequences.n_sequences)
        sequence[self.sequences.places(responses)] = np.repeat(number, self.sequences.lengths)
        return sequence

    def prevalence(self, parameters, n_classes, structure, xp):
        (initial, transition), lengths = parameters, self.sequences.lengths
        if self.population is None:
            return _share_of_classes(lengths, initial, transition, xp)
        share: Any = 0.0
        for p in np.unique(self.population):
            population_lengths = lengths[self.population == p]
            share = share + population_lengths.sum() * _share_of_classes(
                population_lengths, initial[p], transition[p], xp
            )
        return share / lengths.sum()


class StationaryMarkovChain(MarkovChain):
    r"""Markov chain that begins in its stationary distribution, :math:`\rho = \rho A`.

    For excerpts of long sequences. The conditional of the transition is not Dirichlet: Gibbs
    proposes Dirichlet draws in a Metropolis step, which accepts nearly all.

    Parameters
    ----------
    transition, sequences
        As in :class:`MarkovChain`; the stationary distribution must be unique.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.build.StationaryMarkovChain(
    ...     transition=[[0.9, 0.1], [0.3, 0.7]], sequences=bf.Sequences.from_lengths([3, 2])
    ... )
    >>> prior.prevalence((np.array([[0.9, 0.1], [0.3, 0.7]]),), 2, (), np).round(3)
    array([0.75, 0.25])
    """

    declared = MarkovChain.declared[1:]
    capabilities = Capabilities(sufficient=False, separable=True)
    marginal_kernel = staticmethod(marginal_stationary)

    def __init__(self, transition: Any, sequences: Sequences) -> None:
        self.parameters = {"transition": transition}
        self.sequences = sequences

    def both(self, log_parameters: Tables) -> tuple[Array, Array]:
        (transition,) = log_parameters
        with np.errstate(divide="ignore"):
            return np.log(stationary(transition)), transition

    def sample_counts(self, drawn, structure, n_classes):
        return super().sample_counts(drawn, structure, n_classes)[1:]

    def uncounted(self, log_parameters, drawn, structure):
        place, start = structure
        initial, _ = self.both(log_parameters)
        return float(initial[drawn[place[start[:-1]]]].sum())

    def prevalence(self, parameters, n_classes, structure, xp):
        # ρ = ρ A with sum one, if the solution is unique
        matrix = xp.eye(n_classes) - parameters[0].T + 1.0
        return xp.linalg.solve(matrix, xp.ones((n_classes, 1)))[:, 0]


def soft_counts(weight: Array, place: Integers, start: Integers) -> tuple[Array, Array]:
    """Return expected first labels (k,) and pairs (k, k) from label probabilities (items, k).

    Pairs are counted by Baum–Welch: products of neighbours' probabilities underestimate dependence.
    """
    share = weight.mean(axis=0)
    path = weight[place]
    follows = np.delete(np.arange(len(path)), start[:-1])
    initial_counts = path[start[:-1]].sum(axis=0)
    transition_counts = path[follows - 1].T @ path[follows]
    likelihood = np.divide(weight, share, out=np.zeros_like(weight), where=share > 0)
    log_scale = np.zeros(len(weight))
    with np.errstate(divide="ignore"):
        for _ in range(SOFT_ITERATIONS):
            *_, initial_counts, transition_counts = forward_backward.marginal(
                np.log(shares(initial_counts)),
                np.log(shares(transition_counts)),
                likelihood,
                log_scale,
                place,
                start,
            )
    return initial_counts, transition_counts


def _share_of_classes(lengths: Integers, initial: Any, transition: Any, xp: Any) -> Any:
    """Return the expected share of every class in sequences of these lengths."""
    # number of sequences longer than t, for t = 0, 1, …
    longer = len(lengths) - np.bincount(lengths).cumsum()[:-1]
    return initial @ _polynomial(longer / lengths.sum(), transition, xp)


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
    powers, power = xp.eye(matrix.shape[0])[None], matrix
    for _ in range((size - 1).bit_length()):
        powers = xp.concatenate([powers, powers @ power])
        power = power @ power
    return powers[:size]

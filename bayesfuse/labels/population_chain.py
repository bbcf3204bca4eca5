"""Labels in sequences that belong to populations: a hidden Markov chain each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError
from bayesfuse.labels import forward_backward
from bayesfuse.labels.chain import MarkovChain
from bayesfuse.numerics.kernels import kernel
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import SIMPLEX

# Sequences are ordered by population, which begin at ``cut``. So every population is a table of its
# own for the kernels of one chain.


@kernel
def marginal(log_initial, log_transition, likelihood, log_scale, place, start, cut):
    """As :func:`forward_backward.marginal`, population by population."""
    total, log_evidence = 0.0, np.empty(start.size - 1)
    probability = np.empty(likelihood.shape)
    begun, followed = np.zeros(log_initial.shape), np.zeros(log_transition.shape)
    for p in range(cut.size - 1):
        begin = start[cut[p] : cut[p + 1] + 1]
        item = place[begin[0] : begin[-1]]
        if item.size == 0:
            continue
        sum_, evidence, own, first, pairs = forward_backward.marginal(
            log_initial[p],
            log_transition[p],
            likelihood[item],
            log_scale[item],
            np.arange(item.size),
            begin - begin[0],
        )
        total += sum_
        log_evidence[cut[p] : cut[p + 1]] = evidence
        probability[item] = own
        begun[p], followed[p] = first, pairs
    return total, log_evidence, probability, begun, followed


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
    >>> prior = bf.PopulationMarkovChain(
    ...     initial=[[0.5, 0.5], [0.5, 0.5]],
    ...     transition=[[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]],
    ...     sequences=bf.Sequences.from_lengths([2, 2]),
    ...     population=[1, 0],
    ... )
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1], [0], [1]]))
    >>> likelihood = np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    >>> log_rows = tuple(np.log(value) for value in prior.parameters.values())
    >>> prior.marginal(log_rows, likelihood, np.zeros(4), structure).probability.round(2)
    array([[0.9 , 0.1 ],
           [0.5 , 0.5 ],
           [0.9 , 0.1 ],
           [0.82, 0.18]])
    """

    declared = (
        Parameter("initial", SIMPLEX, ("population", "class")),
        Parameter("transition", SIMPLEX, ("population", "class", "next_class")),
    )
    needs: tuple[str, ...] = ("sequences", "populations")
    marginal_kernel = staticmethod(marginal)

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
        self.n_populations = max(known, int(number.max(initial=0)) + 1)

    def check(self, shapes, responses):
        if self.population.min(initial=0) < 0:
            raise ModelError(f"Populations are numbered from 0. Got: {int(self.population.min())}.")
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"population": self.n_populations}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        cut = np.searchsorted(self.population, np.arange(self.n_populations + 1))
        return (*super().structure(responses), cut)

    def part(self, structure, units):
        *chain, cut = structure
        units = np.sort(units)
        items, own = super().part(tuple(chain), units)
        return items, (*own, np.searchsorted(units, cut))

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        uniform, labels = rng.random(len(likelihood)), np.empty(len(likelihood), dtype=np.int64)
        for _, rows, item, chain in _parts(structure, log_parameters):
            given = *rows, likelihood[item], *chain, uniform[item]
            labels[item] = forward_backward.draw_labels(*given)
        return labels

    def tally(self, drawn, structure, n_classes):
        begun = np.zeros((self.n_populations, n_classes))
        followed = np.zeros((self.n_populations, n_classes, n_classes))
        for p, _, item, chain in _parts(structure):
            begun[p], followed[p] = super().tally(drawn[item], chain, n_classes)
        return begun, followed

    def decode(self, log_parameters, likelihood, structure):
        labels = np.empty(len(likelihood), dtype=np.int64)
        for _, rows, item, chain in _parts(structure, log_parameters):
            labels[item] = forward_backward.decode(*rows, likelihood[item], *chain)
        return labels

    def log_prob(self, log_parameters, labels, structure):
        total = 0.0
        for _, rows, item, chain in _parts(structure, log_parameters):
            total += super().log_prob(rows, labels[item], chain)
        return total

    def prevalence(self, parameters, n_classes, structure, xp):
        found, n_items = 0.0, len(self.sequences.items)
        for _, rows, item, (_, start) in _parts(structure, parameters):
            found = found + len(item) / n_items * self.of_lengths(np.diff(start), rows, xp)
        return found


def _reordered(sequences: Sequences, order: NDArray[np.int64]) -> Sequences:
    """Return the same sequences in another order."""
    parts = np.split(sequences.items, sequences.start[1:-1])
    start = np.concatenate([[0], np.cumsum(sequences.lengths[order])])
    return Sequences(sequences.names[order], np.concatenate([parts[s] for s in order]), start)


def _parts(
    structure: tuple[Any, ...], tables: tuple[Any, ...] = ()
) -> Iterator[tuple[int, tuple[Any, ...], Any, tuple[Any, Any]]]:
    """Yield the populations that have sequences: number, rows of tables, items, structure."""
    place, start, cut = structure
    for p, (low, high) in enumerate(pairwise(cut)):
        if low < high:
            begin = start[low : high + 1]
            item = place[begin[0] : begin[-1]]
            yield (
                p,
                tuple(each[p] for each in tables),
                item,
                (np.arange(len(item)), begin - begin[0]),
            )

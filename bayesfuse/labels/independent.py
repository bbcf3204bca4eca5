"""Independent labels: one prevalence for all items, one per population, or one per item."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.labels.base import LabelPrior, Words, count_populations, require_population
from bayesfuse.numerics.kernels import TINY, Array, clear, exponentials, inner, kernel
from bayesfuse.numerics.rows import split
from bayesfuse.parameters.capabilities import Capabilities, SweepKernels
from bayesfuse.parameters.contract import REAL, Parameter, Role, Support
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.simplex import SIMPLEX

ANEW = """write the model for the new items, and call bf.label_probabilities(xr.DataTree(children=\
{"posterior": result["posterior"]}), new_model)"""  # where parameters are those of single items
MIN_PROBABILITY = 1e-6  # of a classifier: zero would overrule all raters

# Every kernel takes the prevalences of all populations as rows and, by ``place``, which of them is
# an item's. Where there is one row, ``place`` is not read: compilers then make a loop without it,
# which takes two thirds of the time.


@inner
def weigh_in_logs(log_prevalence, likelihood, weight):
    """Fill in the weights of an item's classes, divided by exp(scale); return scale and sum."""
    top, total = -np.inf, 0.0
    for k in range(weight.size):
        weight[k] = log_prevalence[k] + math.log(likelihood[k]) if likelihood[k] > 0.0 else -np.inf
        top = max(top, weight[k])
    for k in range(weight.size):
        weight[k] = math.exp(weight[k] - top) if weight[k] > -np.inf else 0.0
        total += weight[k]
    return top, total


@kernel
def marginal(log_prevalence, likelihood, log_scale, multiplicity, place):
    """Bayes' rule by item: total, log evidence (n,), probability (n, k), class counts (p, k)."""
    n_items, n_classes = likelihood.shape
    prevalence, expected = np.exp(log_prevalence), np.zeros(log_prevalence.shape)
    sum_all, several = 0.0, len(prevalence) > 1
    log_evidence = np.empty(n_items)
    probability = np.empty((n_items, n_classes))
    for n in range(n_items):
        at, scale, total = place[n] if several else 0, 0.0, 0.0
        for k in range(n_classes):
            probability[n, k] = prevalence[at, k] * likelihood[n, k]
            total += probability[n, k]
        if total < TINY:  # underflow, or no class is possible
            scale, total = weigh_in_logs(log_prevalence[at], likelihood[n], probability[n])
        if total == 0.0:
            log_evidence[n] = -np.inf
            if multiplicity[n] > 0:  # patterns that never occurred may be impossible
                sum_all = -np.inf
            continue
        log_evidence[n] = log_scale[n] + scale + math.log(total)
        sum_all += multiplicity[n] * log_evidence[n]
        for k in range(n_classes):
            probability[n, k] /= total
            expected[at, k] += multiplicity[n] * probability[n, k]
    return sum_all, log_evidence, probability, expected


@kernel
def draw_in_chain(tables, likelihood, labels, rng, structure):
    """Draw the label of every item, or the labels of its copies; see :class:`SweepKernels`."""
    log_prevalence, multiplicity, place = tables[0], structure[0], structure[1]
    prevalence, several = exponentials(log_prevalence), len(log_prevalence) > 1
    weight = np.empty(prevalence.shape[1])  # added up for labels
    for n in range(len(labels)):
        at, total = place[n] if several else 0, 0.0
        for k in range(weight.size):
            joint = prevalence[at, k] * likelihood[n, k]
            total += joint
            weight[k] = total if labels.ndim == 1 else joint
        if total < TINY:
            _, total = weigh_in_logs(log_prevalence[at], likelihood[n], weight)
            for k in range(1, weight.size if labels.ndim == 1 else 0):
                weight[k] += weight[k - 1]
        if labels.ndim == 1:
            if total == 0.0:
                return False
            left, label = rng.random() * total, 0
            for k in range(weight.size - 1):  # branches would be mispredicted
                label += weight[k] <= left
            labels[n] = label
        else:
            if total == 0.0 and multiplicity[n] > 0:
                return False
            split(multiplicity[n], weight, total, rng, labels[n])
    return True


@kernel
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count the labels, or those of copies, of every population."""
    place, several = structure[1], len(counts[0]) > 1
    clear(counts[0])
    for n in range(len(labels)):
        at = place[n] if several else 0
        if labels.ndim == 1:
            counts[0][at, labels[n]] += 1.0
        else:
            for k in range(n_classes):
                counts[0][at, k] += labels[n, k]


class Independent(LabelPrior):
    r"""Labels that are independent given their prevalence.

    :math:`p(y_n = k) = \pi_k`, the same for all items; :math:`\pi_{g_n k}`, that of the item's
    population; or :math:`\pi_{nk}`, of the item itself.

    Parameters
    ----------
    prevalence : tensor or array, shape (classes,), (populations, classes) or (items, classes)
        Probability of every class; rows sum to one.
    log_odds : tensor or array, of the same shapes, optional
        In its place: log-odds of the classes, each row up to a constant (a softmax follows), as a
        regression has. Small probabilities keep their digits.
    population : array of int, shape (items,), optional
        The population of every item, in the order of ``responses.items``: the row of
        ``prevalence`` that holds for it. Without it, rows are those of items.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28. Populations: Hui & Walter (1980),
    Biometrics 36, 167–171. Log-odds by a regression: Raykar et al. (2010), Journal of Machine
    Learning Research 11, 1297–1322.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.build.Independent(prevalence=np.array([0.9, 0.1]))
    >>> likelihood, log_scale = np.array([[0.2, 0.8], [0.5, 0.5]]), np.zeros(2)
    >>> structure = prior.structure(bf.Responses.from_matrix([[0, 1], [1, 1]]))
    >>> posterior = prior.marginal((np.log([[0.9, 0.1]]),), likelihood, log_scale, structure)
    >>> posterior.probability.round(3).tolist()
    [[0.692, 0.308], [0.9, 0.1]]
    """

    declared = (Parameter("prevalence", SIMPLEX, ("class",), Role.CLASS_SHARES),)
    words = Words("sum over classes")
    capabilities = Capabilities(
        compiled=SweepKernels(count_in_chain, draw=draw_in_chain, axes=2),
        exchangeable=True,
        merges=True,
        separable=True,
    )
    marginal_kernel = staticmethod(marginal)
    inputs: tuple[NDArray[Any], ...] = ()
    """What is known of items by row, where log-odds follow from it: for :meth:`defining`."""

    def __init__(
        self, prevalence: Any = None, *, log_odds: Any = None, population: ArrayLike | None = None
    ) -> None:
        if prevalence is not None and log_odds is not None:
            raise ModelError("Give prevalence or log_odds, one of the two. Got: both.")
        name, value = ("prevalence", prevalence) if log_odds is None else ("log_odds", log_odds)
        support: Support = SIMPLEX if log_odds is None else REAL
        if not hasattr(value, "owner") and np.ndim(value) == 2 and population is None:
            # items of which the same is known can be merged
            value, population = np.unique(np.asarray(value), axis=0, return_inverse=True)
        elif population is not None:
            self.needs = ("populations",)
        self.parameters = {name: value}
        self.population = None if population is None else np.asarray(population).ravel()
        self.axis, self.n_populations = None, 1
        if self.population is not None:
            self.axis = "population"
            self.n_populations = count_populations(value, self.population)
        elif np.ndim(value) == 2:
            self.axis = "item"
        if self.axis is not None:
            self.declared = (Parameter(name, support, (self.axis, "class")),)
        elif log_odds is not None:
            self.declared = (Parameter(name, support, ("class",)),)
        if log_odds is not None or self.axis == "item":
            self.capabilities = replace(self.capabilities, compiled=None)

    @classmethod
    def rebuild_for(cls, values, settings, **places):
        populations = places.get("populations")
        ((name, value),) = values.items()
        if value.ndim == 2 and populations is None:
            raise ModelError(
                "Labels of new items need a prevalence of their own or of a population, because "
                f"that of others is not theirs: {ANEW}. Got: {name} of {len(value)} single items."
            )
        return cls(**{name: value}, population=populations)

    def check(self, shapes, responses):
        if self.population is not None:
            require_population(self.population, responses.n_items, "item")
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        of_populations = {} if self.population is None else {"population": self.n_populations}
        return super().sizes(name, shape, responses) | of_populations

    def kinds(self, responses):
        return super().kinds(responses) if self.population is None else self.population

    def subset(self, items):
        if self.population is None:
            return self
        other = copy.copy(self)
        other.population = self.population[items]
        return other

    def structure(self, responses: Responses) -> Structure:
        place = np.arange(responses.n_items if self.axis == "item" else 1)
        if self.population is not None:
            place = self.population
        return responses.multiplicity, place.astype(np.int32)

    def _n_rows(self, place: NDArray[np.int32]) -> int:
        """Return the number of rows of the kernels' table."""
        if self.population is not None:
            return self.n_populations
        return 1 if self.axis is None else len(place)

    def defining(self, structure):
        return () if self.population is None else (structure[1], *self.inputs)

    def part(self, structure, units):
        multiplicity, place = structure
        return units, (multiplicity[units], place if len(place) == 1 else place[units])

    def expand(self, values, n_classes, xp):
        (table,) = values
        if "log_odds" in self.parameters:
            table = _log_shares(table, xp)
        return (table if self.axis is not None else table[None],)

    def collapse(self, counts):
        return super().collapse((counts[0][0],) if self.axis is None else counts)

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        (log_prevalence,), (multiplicity, place) = log_parameters, structure
        drawn: Any = np.empty(likelihood.shape)  # numbers of copies
        if (multiplicity == 1).all():
            drawn = np.empty(len(likelihood), dtype=np.int32)
        if draw_in_chain(log_parameters, likelihood, drawn, rng, structure):
            return drawn
        some = (likelihood > 0) & (log_prevalence > -np.inf)[place]
        return np.where(some.any(axis=1), 0, -1)

    def sample_counts(self, drawn, structure, n_classes):
        counts = (np.empty((self._n_rows(structure[1]), n_classes)),)
        count_in_chain((), drawn, counts, structure, n_classes)
        return counts

    def decode(self, log_parameters, likelihood, structure):
        with np.errstate(divide="ignore"):
            return np.argmax(log_parameters[0][structure[1]] + np.log(likelihood), axis=1)

    def simulate(self, log_parameters, possible, structure, rng):
        multiplicity, place = structure
        return self.draw(log_parameters, possible, (np.ones_like(multiplicity), place), rng)

    def prevalence(self, parameters, n_classes, structure, xp):
        (rows,) = parameters
        if "log_odds" in self.parameters:
            rows = xp.exp(_log_shares(rows, xp))
        if self.axis is None:
            return rows
        multiplicity, place = structure
        share = np.bincount(place, multiplicity, self._n_rows(place)) / multiplicity.sum()
        return (share[:, None] * rows).sum(axis=0)


def _log_shares(log_odds: Any, xp: Any) -> Any:
    """Return the logarithms of the probabilities in proportion to exp(log_odds), row by row."""
    above = log_odds - log_odds.max(axis=-1, keepdims=True)
    return above - xp.log(xp.exp(above).sum(axis=-1, keepdims=True))


def log_word(probability: Array) -> Array:
    """Return the log probabilities of a classifier (items, classes), bounded below."""
    return np.log(np.maximum(probability, MIN_PROBABILITY))


@dataclass(frozen=True)
class ItemRows:
    """Inputs of items, with one row for all items with the same values."""

    kind: Integers  # the row of every item (items,)
    population: Integers | None  # (rows,)
    covariates: Array | None  # standardised (rows, covariates)
    word: Array | None  # centred log probabilities of a classifier (rows, classes)

    @classmethod
    def build(
        cls, n_items: int, population: Integers | None, covariates: Array | None, word: Array | None
    ) -> ItemRows:
        """Merge items with equal populations (items,), covariates and words (items, …)."""
        numbers: Any = None if population is None else population[:, None]
        inputs = numbers, covariates, word
        table = np.hstack(
            [np.zeros((n_items, 0)), *(columns for columns in inputs if columns is not None)]
        )
        _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
        number, x, item_word = (None if columns is None else columns[first] for columns in inputs)
        return cls(
            kind.ravel(), None if number is None else number[:, 0].astype(np.int64), x, item_word
        )

    @property
    def n_kinds(self) -> int:
        """Number of rows."""
        return int(self.kind.max(initial=0)) + 1

    @property
    def inputs(self) -> tuple[NDArray[Any], ...]:
        """All values by row, rounded, so that digests do not depend on rounding errors."""
        inputs = self.population, self.covariates, self.word
        return tuple(np.round(known, 9) + 0 for known in inputs if known is not None)

    def log_odds(self, share: Any, slope: Any, scale: Any, xp: Any) -> Any:
        """Return log-odds (rows, classes), up to a constant, from shares of an average item."""
        moved = xp.log(share)
        moved = moved[None] if self.population is None else moved[self.population]
        if self.covariates is not None:
            moved = moved + xp.dot(self.covariates, slope)
        return moved if self.word is None else moved + scale * self.word

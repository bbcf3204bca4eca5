"""Independent labels with a common prevalence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.labels.base import LabelPrior, Words
from bayesfuse.numerics.kernels import TINY, Array, kernel, rescale
from bayesfuse.numerics.rows import invert
from bayesfuse.parameters.contract import Parameter, Role
from bayesfuse.parameters.simplex import SIMPLEX


@kernel
def marginal(log_prevalence, likelihood, log_scale, multiplicity):
    """Bayes' rule by item: total, log evidence (n,), probability (n, k), class counts (k,)."""
    n_items, n_classes = likelihood.shape
    prevalence, expected = np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        prevalence[k], expected[k] = math.exp(log_prevalence[k]), 0.0
    sum_all = 0.0
    log_evidence = np.empty(n_items)
    probability = np.empty((n_items, n_classes))
    for n in range(n_items):
        shift, total = log_scale[n], 0.0
        for k in range(n_classes):
            probability[n, k] = prevalence[k] * likelihood[n, k]
            total += probability[n, k]
        if total < TINY:  # underflow, or no class is possible
            for k in range(n_classes):
                probability[n, k] = -np.inf
                if likelihood[n, k] > 0.0:
                    probability[n, k] = log_prevalence[k] + math.log(likelihood[n, k])
            shift += rescale(probability, n)
            total = 0.0
            for k in range(n_classes):
                total += probability[n, k]
            if total == 0.0:  # all classes are impossible
                log_evidence[n] = -np.inf
                if multiplicity[n] > 0:  # patterns that never occurred may be impossible
                    sum_all = -np.inf
                continue
        log_evidence[n] = shift + math.log(total)
        sum_all += multiplicity[n] * log_evidence[n]
        for k in range(n_classes):
            probability[n, k] /= total
            expected[k] += multiplicity[n] * probability[n, k]
    return sum_all, log_evidence, probability, expected


# For two and four classes, the usual numbers, unrolled loops take a quarter of the time. Separate
# kernels, because only those that are called are compiled.


@kernel
def draw_of_two(prevalence, likelihood, uniform):
    """As :func:`draw_labels`."""
    labels, sound = np.empty(uniform.size, dtype=np.int32), True
    assert likelihood.shape[1] == 2  # gives the compiler the stride of the rows
    p0, p1 = prevalence[0], prevalence[1]
    for n in range(uniform.size):
        up_to_0 = p0 * likelihood[n, 0]
        total = up_to_0 + p1 * likelihood[n, 1]
        labels[n] = up_to_0 <= uniform[n] * total
        sound &= total >= TINY
    return labels, sound


@kernel
def draw_of_four(prevalence, likelihood, uniform):
    """As :func:`draw_labels`."""
    labels, sound = np.empty(uniform.size, dtype=np.int32), True
    assert likelihood.shape[1] == 4
    p0, p1, p2, p3 = prevalence[0], prevalence[1], prevalence[2], prevalence[3]
    for n in range(uniform.size):
        up_to_0 = p0 * likelihood[n, 0]
        up_to_1 = up_to_0 + p1 * likelihood[n, 1]
        up_to_2 = up_to_1 + p2 * likelihood[n, 2]
        total = up_to_2 + p3 * likelihood[n, 3]
        left = uniform[n] * total
        labels[n] = np.int32(up_to_0 <= left) + (up_to_1 <= left) + (up_to_2 <= left)
        sound &= total >= TINY
    return labels, sound


@kernel
def draw_of_any(prevalence, likelihood, uniform):
    """As :func:`draw_labels`."""
    labels, sound = np.empty(uniform.size, dtype=np.int32), True
    n_classes = prevalence.size
    up_to = np.empty(n_classes)  # cumulative weights of the classes
    for n in range(uniform.size):
        total = 0.0
        for k in range(n_classes):
            total += prevalence[k] * likelihood[n, k]
            up_to[k] = total
        left = uniform[n] * total
        label = 0
        for k in range(n_classes - 1):  # branches would be mispredicted
            label += up_to[k] <= left
        labels[n] = label
        sound &= total >= TINY
    return labels, sound


DRAWS = {2: draw_of_two, 4: draw_of_four}
"""Kernels by the number of classes; for other numbers :func:`draw_of_any`."""


def draw_labels(prevalence: Array, likelihood: Array, uniform: Array) -> tuple[Any, bool]:
    """Draw labels by inversion of ``uniform`` (n,); return also whether no weights underflowed."""
    drawn: tuple[Any, bool] = DRAWS.get(len(prevalence), draw_of_any)(
        prevalence, likelihood, uniform
    )
    return drawn


class Independent(LabelPrior):
    r"""Labels that are independent given the prevalence, :math:`p(y_n = k) = \pi_k`.

    Parameters
    ----------
    prevalence : tensor or array, shape (classes,)
        Probability of every class; sums to one.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.Independent(prevalence=np.array([0.9, 0.1]))
    >>> likelihood, log_scale = np.array([[0.2, 0.8], [0.5, 0.5]]), np.zeros(2)
    >>> found = prior.marginal(
    ...     (np.log([0.9, 0.1]),), likelihood, log_scale, prior.structure(bf.Responses.from_matrix(
    ...     [[0, 1], [1, 1]])))
    >>> found.probability.round(3)
    array([[0.692, 0.308],
           [0.9  , 0.1  ]])
    """

    declared = (Parameter("prevalence", SIMPLEX, ("class",), Role.CLASS_SHARES),)
    words = Words("sum over classes")
    merges = True
    marginal_kernel = staticmethod(marginal)
    # A multiplicity, and whether all of it are ones: checking in every sweep takes 5 to 10 µs of 80
    _plain: tuple[Any, bool] = None, True

    def __init__(self, prevalence: Any) -> None:
        self.parameters = {"prevalence": prevalence}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        return (responses.multiplicity,)

    def part(self, structure, units):
        (multiplicity,) = structure
        return units, (multiplicity[units],)

    def draw(self, log_parameters, likelihood, structure, rng, previous=None):
        (log_prevalence,), (multiplicity,) = log_parameters, structure
        if self._plain[0] is not multiplicity:
            self._plain = multiplicity, bool((multiplicity == 1).all())
        plain = self._plain[1]
        if plain:
            uniform = rng.random(len(likelihood))
            labels, sound = draw_labels(np.exp(log_prevalence), likelihood, uniform)
            if sound:
                return labels
        found = marginal(log_prevalence, likelihood, np.zeros(len(likelihood)), multiplicity)
        _, log_evidence, probability, _ = found
        impossible = log_evidence == -np.inf
        if plain:
            return np.where(impossible, -1, invert(probability.cumsum(axis=1), uniform))
        if (impossible & (multiplicity > 0)).any():
            return np.where(impossible, -1, 0)
        return rng.multinomial(multiplicity, probability).astype(float)

    def tally(self, drawn, structure, n_classes):
        if drawn.ndim == 2:
            return (drawn.sum(axis=0),)
        return (np.bincount(drawn, minlength=n_classes).astype(float),)

    def decode(self, log_parameters, likelihood, structure):
        with np.errstate(divide="ignore"):
            return np.argmax(log_parameters[0] + np.log(likelihood), axis=1)

    def log_prob(self, log_parameters, labels, structure):
        return float(log_parameters[0][labels].sum())

    def simulate(self, log_parameters, possible, structure, rng):
        return self.draw(log_parameters, possible, (np.ones_like(structure[0]),), rng)

    def prevalence(self, parameters: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        return parameters[0]

    @staticmethod
    def marginal_jax(log_prevalence, log_lik, multiplicity):
        from jax.scipy.special import logsumexp

        return logsumexp(log_prevalence + log_lik, axis=1)

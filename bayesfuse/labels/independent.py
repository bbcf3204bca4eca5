"""Independent labels: every item draws its class from the same prevalence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bayesfuse.errors import require_shape
from bayesfuse.labels.base import LabelPrior
from bayesfuse.responses import Responses


@njit(cache=True, nogil=True)
def marginal(log_prevalence, log_lik, multiplicity):
    """Softmax of every item: total, log evidence (n,), probability (n, k), class counts (k,)."""
    n_items, n_classes = log_lik.shape
    sum_all = 0.0
    log_evidence = np.empty(n_items)
    probability = np.empty((n_items, n_classes))
    expected = np.zeros(n_classes)
    for n in range(n_items):
        top = -np.inf
        for k in range(n_classes):
            probability[n, k] = log_prevalence[k] + log_lik[n, k]
            top = max(top, probability[n, k])
        if top == -np.inf:  # no class can explain the item: its probability is nobody's
            log_evidence[n] = -np.inf
            probability[n] = 0.0
            if multiplicity[n] > 0:  # a pattern that never occurred may be impossible
                sum_all = -np.inf
            continue
        total = 0.0
        for k in range(n_classes):
            probability[n, k] = math.exp(probability[n, k] - top)
            total += probability[n, k]
        log_evidence[n] = top + math.log(total)
        sum_all += multiplicity[n] * log_evidence[n]
        for k in range(n_classes):
            probability[n, k] /= total
            expected[k] += multiplicity[n] * probability[n, k]
    return sum_all, log_evidence, probability, expected


@njit(cache=True, nogil=True)
def draw_labels(log_prevalence, log_lik, rng):
    """One label per item, by inversion; −1 where no class is possible."""
    n_items, n_classes = log_lik.shape
    labels = np.empty(n_items, dtype=np.int64)
    weight = np.empty(n_classes)
    for n in range(n_items):
        top = -np.inf
        for k in range(n_classes):
            weight[k] = log_prevalence[k] + log_lik[n, k]
            top = max(top, weight[k])
        if top == -np.inf:
            labels[n] = -1
            continue
        total = 0.0
        for k in range(n_classes):
            weight[k] = math.exp(weight[k] - top)
            total += weight[k]
        left = rng.random() * total
        label = -1
        for k in range(n_classes):
            if weight[k] > 0.0:  # rounding must not end in a class of probability zero
                label = k
                if left < weight[k]:
                    break
                left -= weight[k]
        labels[n] = label
    return labels


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
    >>> log_lik = np.log([[0.2, 0.8], [0.5, 0.5]])
    >>> prior.marginal((np.log([0.9, 0.1]),), log_lik, (np.array([1, 1]),)).probability.round(3)
    array([[0.692, 0.308],
           [0.9  , 0.1  ]])
    """

    method = "sum over classes"
    merges = True
    marginal_kernel = staticmethod(marginal)

    def __init__(self, prevalence: Any) -> None:
        self.parameters = {"prevalence": prevalence}

    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        return (responses.multiplicity,)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        require_shape("prevalence", shapes["prevalence"], classes=responses.n_classes)

    def draw(self, log_parameters, log_lik, structure, rng):
        (log_prevalence,), (multiplicity,) = log_parameters, structure
        if multiplicity.max() == 1 == multiplicity.min():
            return draw_labels(log_prevalence, log_lik, rng)
        total, log_evidence, probability, _ = marginal(log_prevalence, log_lik, multiplicity)
        if total == -np.inf:
            return np.where(log_evidence == -np.inf, -1, 0)
        return rng.multinomial(multiplicity, probability).astype(float)

    def tally(self, drawn, structure, n_classes):
        if drawn.ndim == 2:
            return (drawn.sum(axis=0),)
        return (np.bincount(drawn, minlength=n_classes).astype(float),)

    def decode(self, log_parameters, log_lik, structure):
        return np.argmax(log_parameters[0] + log_lik, axis=1)

    def log_prob(self, log_parameters, labels, structure):
        return float(log_parameters[0][labels].sum())

    def simulate(self, parameters, structure, rng):
        return rng.choice(len(parameters[0]), size=len(structure[0]), p=parameters[0])

    def prevalence(self, parameters: tuple[Any, ...], xp: Any) -> Any:
        return parameters[0]

    @staticmethod
    def marginal_jax(log_prevalence, log_lik, multiplicity):
        from jax.scipy.special import logsumexp

        return logsumexp(log_prevalence + log_lik, axis=1)

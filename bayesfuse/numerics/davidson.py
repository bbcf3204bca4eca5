"""Strengths of systems from uncertain outcomes of pairs: Bradley–Terry with ties and an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from bayesfuse.numerics.kernels import Array

STRENGTH_SD, ORDER_SD, TIE_SD = 1.5, 0.5, 2.0
"""Standard deviations of the normal priors of strengths, of the advantage of the first of two
systems, and of the log weight of a tie, in log-odds."""

LEAST_INFORMATION = 0.1  # of a direction, as a multiple of that of the prior


@dataclass(frozen=True)
class Davidson:
    r"""Outcomes of pairs of systems, known by their likelihood.

    System i is shown first, and j second. Outcomes are a win of i, a win of j and a tie, with
    probabilities in proportion to :math:`e^{s_i + d}`, :math:`e^{s_j}` and
    :math:`e^{t + (s_i + s_j) / 2}` (Davidson 1970; Davidson & Beaver 1977), summed out with their
    ``likelihood`` (pairs, 3). Parameters are strengths s, the advantage d of being first, and t. In
    pairs that were shown in both orders, d is multiplied by ``order``, the difference of the shares
    of judges who saw i first and second.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    likelihood: Array
    n_systems: int
    order: Array

    @property
    def precision(self) -> Array:
        """Precisions of the priors, (parameters,)."""
        sd = np.full(self.n_systems + 2, STRENGTH_SD)
        sd[-2:] = ORDER_SD, TIE_SD
        return sd**-2.0

    def designs(self) -> list[csr_array]:
        """Return the log weight of every outcome as a linear map of the parameters."""
        n_pairs, order, tie = len(self.first), self.n_systems, self.n_systems + 1
        every = np.arange(n_pairs)
        entries: list[list[tuple[NDArray[np.int64], Any]]] = [
            [(self.first, 1.0), (np.full(n_pairs, order), self.order)],
            [(self.second, 1.0)],
            [(self.first, 0.5), (self.second, 0.5), (np.full(n_pairs, tie), 1.0)],
        ]
        shape = n_pairs, self.n_systems + 2
        return [
            csr_array(
                (
                    np.concatenate([np.broadcast_to(size, n_pairs) for _, size in terms]),
                    (np.tile(every, len(terms)), np.concatenate([at for at, _ in terms])),
                ),
                shape=shape,
            )
            for terms in entries
        ]

    def fit(self) -> tuple[Array, csr_array, Array]:
        """Return the mode, the score of every pair (pairs, parameters), and a covariance."""
        designs, precision = self.designs(), self.precision
        possible = self.likelihood.any(axis=0)  # without ties, theirs is no outcome

        def outcomes(parameters: Array) -> tuple[Array, Array, Array]:
            """Return probabilities before and after the responses, and log likelihoods."""
            log = np.stack([design @ parameters for design in designs], axis=1)
            log[:, ~possible] = -np.inf
            weight = np.exp(log - log.max(axis=1, keepdims=True))
            prior = weight / weight.sum(axis=1, keepdims=True)
            joint = prior * self.likelihood
            total = joint.sum(axis=1)
            return prior, joint / total[:, None], np.log(total)

        def loss(parameters: Array) -> tuple[float, Array]:
            prior, posterior, log_likelihood = outcomes(parameters)
            score = sum(
                design.T @ column
                for design, column in zip(designs, (posterior - prior).T, strict=True)
            )
            value = 0.5 * precision @ parameters**2 - log_likelihood.sum()
            return float(value), precision * parameters - score

        start = np.zeros(self.n_systems + 2)
        mode: Array = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-4}).x
        prior, posterior, _ = outcomes(mode)
        scores = sum(
            design.multiply((after - before)[:, None])
            for design, before, after in zip(designs, prior.T, posterior.T, strict=True)
        )
        spreads = [_spread(designs, chance) for chance in (prior, posterior)]
        information = spreads[0] - spreads[1] + np.diag(precision)
        # uncertain outcomes may leave a direction without information, where the prior has some
        scale = np.sqrt(precision)
        values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
        half = vectors / np.sqrt(np.maximum(values, LEAST_INFORMATION)) / scale[:, None]
        return mode, csr_array(scores), half @ half.T


def _spread(designs: list[csr_array], chance: Array) -> Array:
    """Return the summed covariance of the designs of outcomes with probabilities (pairs, 3)."""
    n_pairs, n_parameters = designs[0].shape
    total, mean = csr_array((n_parameters, n_parameters)), csr_array((n_pairs, n_parameters))
    for design, column in zip(designs, chance.T, strict=True):
        weighted = design.multiply(column[:, None])
        total, mean = total + design.T @ weighted, mean + weighted
    covariance: Array = (total - mean.T @ mean).toarray()
    return covariance


def draw_parameters(
    model: Davidson, cluster: NDArray[np.int64], number: int, rng: np.random.Generator
) -> Array:
    """Draw the parameters (number, parameters) by a Bayesian bootstrap over clusters of pairs.

    A draw is one step of Newton's method from the mode, with random weights of clusters and random
    means of the priors.
    """
    mode, scores, covariance = model.fit()
    n_clusters = int(cluster.max()) + 1
    member = csr_array(
        (np.ones(len(cluster)), (cluster, np.arange(len(cluster)))), (n_clusters, len(cluster))
    )
    of_cluster = (member @ scores).toarray()
    drawn = np.empty((number, len(mode)))
    for row in drawn:
        weight = rng.exponential(size=n_clusters)
        row[:] = (weight / weight.mean() - 1.0) @ of_cluster
    drawn += np.sqrt(model.precision) * rng.standard_normal(drawn.shape)
    return mode + drawn @ covariance

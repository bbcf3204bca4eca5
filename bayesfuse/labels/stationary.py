"""Chains of labels that begin in the stationary distribution of their transition."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfuse.data.sequences import Sequences
from bayesfuse.labels import forward_backward
from bayesfuse.labels.chain import MarkovChain
from bayesfuse.labels.forward_backward import padded
from bayesfuse.numerics.kernels import Array, kernel


@kernel
def stationary(log_transition):
    """Return the stationary distribution of a transition matrix.

    By the elimination of Grassmann, Taksar & Heyman (1985), Operations Research 33, 1107–1116: it
    has no subtractions, so small probabilities are accurate. Zeros if the distribution is not
    unique. Rows are normalised first.
    """
    n_classes = log_transition.shape[0]
    rows, _ = padded(log_transition)
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
    n_classes = log_transition.shape[0]
    share = stationary(log_transition)
    total, log_evidence, probability, begun, followed = forward_backward.marginal(
        np.log(share), log_transition, likelihood, log_scale, place, start
    )
    if total == -np.inf:
        return total, log_evidence, probability, followed
    # Kemeny & Snell: a change dA of A changes ρ by ρ dA Z with Z = (I − A + 1 ρ)⁻¹
    rows = padded(log_transition)[0][:, :n_classes]
    matrix = np.empty((n_classes, n_classes))
    pull = np.empty(n_classes)
    for k in range(n_classes):
        size = rows[k].sum()
        for j in range(n_classes):
            rows[k, j] /= size
            matrix[k, j] = share[j] - rows[k, j]
        matrix[k, k] += 1.0
        pull[k] = begun[k] / share[k] if share[k] > 0.0 else 0.0
    value = np.linalg.solve(matrix, pull)
    for k in range(n_classes):
        mean = 0.0
        for j in range(n_classes):
            mean += rows[k, j] * value[j]
        for j in range(n_classes):
            followed[k, j] += share[k] * rows[k, j] * (value[j] - mean)
    return total, log_evidence, probability, followed


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


def _solve_stationary(transition: Any, xp: Any) -> Any:
    """Solve ρ = ρ A with sum one, if the solution is unique."""
    n_classes = transition.shape[0]
    matrix = xp.eye(n_classes) - transition.T + 1.0
    return xp.linalg.solve(matrix, xp.ones((n_classes, 1)))[:, 0]

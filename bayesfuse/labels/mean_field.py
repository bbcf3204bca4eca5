r"""Mean field on a Potts model: the best approximation by independent labels.

Label probabilities q maximise a lower bound of the log partition function,

.. math:: \sum_n \sum_k q_{nk} (\log \pi_k + \ell_{nk} - \log q_{nk})
          + \beta \sum_{\text{edges}} w_{nm} \sum_k q_{nk} q_{mk} ,

one item at a time (Zhang 1992, IEEE Transactions on Signal Processing 40, 2570–2583). At
convergence the bound is stationary in q, so its derivatives ignore the dependence of q.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.labels.belief_propagation import ROUNDS, TOLERANCE
from bayesfuse.labels.partition_function import interpolate
from bayesfuse.labels.potts_kernels import relative
from bayesfuse.numerics.kernels import inner, kernel


@inner
def lean(n, log_prevalence, likelihood, coupling, start, neighbour, weight, probability, logs):
    """Write the log weights of item n by class given its neighbours; return the top."""
    for k in range(logs.size):
        logs[k] = 0.0
    for e in range(start[n], start[n + 1]):
        pull = coupling * (weight[0] if weight.size == 1 else weight[e])
        for k in range(logs.size):
            logs[k] += pull * probability[neighbour[e], k]
    top = -np.inf
    for k in range(logs.size):
        own = math.log(likelihood[n, k]) if likelihood[n, k] > 0.0 else -np.inf
        logs[k] += log_prevalence[k] + own
        top = max(top, logs[k])
    return top


@kernel
def settle(prevalence, likelihood, coupling, start, neighbour, weight, order, rounds):
    """Return the probabilities (items, classes) at convergence, the rounds and the last change."""
    n_items, n_classes = likelihood.shape
    log_prevalence, logs = np.log(prevalence), np.empty(n_classes)
    probability = np.full((n_items, n_classes), 1.0 / n_classes)
    done, change = 0, np.inf
    while done < rounds and change > TOLERANCE:
        change = 0.0
        for i in range(n_items):
            n = order[n_items - 1 - i] if done % 2 else order[i]
            top = lean(
                n, log_prevalence, likelihood, coupling, start, neighbour, weight, probability, logs
            )
            if top == -np.inf:
                continue
            total = relative(logs, logs)
            for k in range(n_classes):
                change = max(change, abs(logs[k] / total - probability[n, k]))
                probability[n, k] = logs[k] / total
        done += 1
    return probability, done, change


@kernel
def bound(prevalence, likelihood, log_scale, coupling, start, neighbour, weight, probability):
    """Return the bound of log Z, evidence by item given its neighbours, and expected agreement."""
    n_items, n_classes = likelihood.shape
    log_prevalence, logs = np.log(prevalence), np.empty(n_classes)
    log_evidence = np.empty(n_items)
    log_z = agreement = 0.0
    for n in range(n_items):
        top = lean(
            n, log_prevalence, likelihood, coupling, start, neighbour, weight, probability, logs
        )
        same, with_own, without = 0.0, 0.0, 0.0
        for e in range(start[n], start[n + 1]):
            w = weight[0] if weight.size == 1 else weight[e]
            for k in range(n_classes):
                same += w * probability[n, k] * probability[neighbour[e], k]
        log_z += log_scale[n] - 0.5 * coupling * same
        agreement += 0.5 * same
        log_evidence[n] = -np.inf
        if top == -np.inf:
            log_z = -np.inf
            continue
        for k in range(n_classes):
            if logs[k] > -np.inf:
                with_own += math.exp(logs[k] - top)
        log_evidence[n] = log_scale[n] + top + math.log(with_own)
        for k in range(n_classes):
            q = probability[n, k]
            if q > 0.0:
                log_z += q * (logs[k] - math.log(q))
        for k in range(n_classes):
            logs[k] = log_prevalence[k]
        for e in range(start[n], start[n + 1]):
            w = weight[0] if weight.size == 1 else weight[e]
            for k in range(n_classes):
                logs[k] += coupling * w * probability[neighbour[e], k]
        pulled = logs.max()
        for k in range(n_classes):
            without += math.exp(logs[k] - pulled)
        log_evidence[n] -= pulled + math.log(without)
    return log_z, log_evidence, agreement


@kernel
def marginal(coupling, likelihood, log_scale, *structure):
    """As :func:`belief_propagation.marginal`, by mean field."""
    prevalence, start, neighbour, weight, _, order, _, _, knots, total_weight = structure
    beta = coupling.item()
    graph = beta, start, neighbour, weight
    probability, _, _ = settle(prevalence, likelihood, *graph, order, ROUNDS)
    total, log_evidence, agreement = bound(prevalence, likelihood, log_scale, *graph, probability)
    of_prior, rate = interpolate(beta, knots, total_weight.item())
    return total - of_prior, log_evidence, probability, np.asarray(agreement - rate)


def bound_jax(prevalence, log_lik, coupling, start, neighbour, weight):
    """Return the bound, stationary in the probabilities, by item (items,), in ``jax.numpy``."""
    import jax.numpy as jnp
    from jax import lax
    from jax.nn import softmax
    from jax.ops import segment_sum
    from jax.scipy.special import xlogy

    n_items = log_lik.shape[0]
    row = jnp.repeat(jnp.arange(n_items), jnp.diff(start), total_repeat_length=neighbour.size)
    own = jnp.log(prevalence) + log_lik

    def pull(coupling, q):
        weights = jnp.broadcast_to(coupling * weight, neighbour.shape)
        return segment_sum(weights[:, None] * q[neighbour], row, num_segments=n_items)

    def step(state):
        q, done, _ = state
        new = softmax(fixed[0] + pull(fixed[1], q), axis=1)
        return (q + new) / 2, done + 1, jnp.abs(new - q).max()

    fixed = lax.stop_gradient(own), lax.stop_gradient(coupling)
    begin = jnp.full(log_lik.shape, 1 / log_lik.shape[1]), 0, jnp.inf
    going = lambda state: (state[1] < 10 * ROUNDS) & (state[2] > TOLERANCE)  # noqa: E731
    q, *_ = lax.while_loop(going, step, begin)
    # zeros, which damping has not reached
    q = lax.stop_gradient(softmax(own + pull(coupling, q), axis=1))
    energy = jnp.where(q > 0, q * own, 0.0) + q * pull(coupling, q) / 2
    return (energy - xlogy(q, q)).sum(axis=1)

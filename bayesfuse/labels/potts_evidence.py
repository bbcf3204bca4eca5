"""The evidence of labels on a graph: approximate log Z of the posterior minus that of the prior."""

from __future__ import annotations

import numpy as np

from bayesfuse.labels import belief_propagation, mean_field
from bayesfuse.labels.partition_function import interpolate
from bayesfuse.numerics.kernels import kernel


@kernel
def marginal(
    coupling,
    likelihood,
    log_scale,
    prevalence,
    start,
    neighbour,
    weight,
    reverse,
    order,
    colours,
    colour_start,
    knots,
    total_weight,
):
    """Sum the labels out by belief propagation: total, evidence by item, probability, derivative.

    The evidence of an item is conditional on all other responses and does not add up to the total.
    """
    beta = coupling.item()
    message, _, _ = belief_propagation.propagate(
        prevalence,
        likelihood,
        beta,
        start,
        neighbour,
        weight,
        reverse,
        order,
        belief_propagation.ROUNDS,
    )
    total, log_evidence, probability, agreement = belief_propagation.bethe(
        prevalence, likelihood, log_scale, beta, start, neighbour, weight, reverse, message
    )
    of_prior, rate = interpolate(beta, knots, total_weight.item())
    return total - of_prior, log_evidence, probability, np.asarray(agreement - rate)


@kernel
def marginal_mean_field(
    coupling,
    likelihood,
    log_scale,
    prevalence,
    start,
    neighbour,
    weight,
    reverse,
    order,
    colours,
    colour_start,
    knots,
    total_weight,
):
    """As :func:`marginal`, by mean field."""
    beta = coupling.item()
    probability, _, _ = mean_field.settle(
        prevalence, likelihood, beta, start, neighbour, weight, order, belief_propagation.ROUNDS
    )
    total, log_evidence, agreement = mean_field.bound(
        prevalence, likelihood, log_scale, beta, start, neighbour, weight, probability
    )
    of_prior, rate = interpolate(beta, knots, total_weight.item())
    return total - of_prior, log_evidence, probability, np.asarray(agreement - rate)


def interpolate_jax(coupling, knots, total_weight):
    """As :func:`interpolate`, log Z only, in ``jax.numpy``."""
    import jax.numpy as jnp

    at = jnp.clip(jnp.searchsorted(knots[:, 0], coupling, side="right") - 1, 0, len(knots) - 2)
    (start, log_z, s0, b0), (end, _, s1, b1) = knots[at], knots[at + 1]
    h = end - start
    t = jnp.clip((coupling - start) / h, 0.0, 1.0)
    c2, c3 = 3 * (s1 - s0) - h * (2 * b0 + b1), 2 * (s0 - s1) + h * (b0 + b1)
    inside = log_z + h * t * (s0 + t * (h * b0 / 2 + t * (c2 / 3 + t * c3 / 4)))
    last, slope, bend = knots[-1, 0], knots[-1, 2], knots[-1, 3]
    back = (len(knots) - 1) // 2
    bend = jnp.where(bend > 0, bend, (slope - knots[back, 2]) / (last - knots[back, 0]))
    step = jnp.maximum(coupling - last, 0.0)
    missing = total_weight - slope
    curved = (missing > 1e-9 * total_weight) & (bend > 0)
    rate = jnp.where(curved, bend / jnp.where(curved, missing, 1.0), 1.0)
    left = missing * jnp.exp(-rate * step)
    beyond = jnp.where(curved, total_weight * step - (missing - left) / rate, slope * step)
    return inside + beyond

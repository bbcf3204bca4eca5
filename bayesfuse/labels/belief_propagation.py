"""Labels of a Potts model summed out by belief propagation.

The message of an item n to a neighbour j sums out the part of the graph beyond their edge: it is
r + (1 − r) h(k) with r = exp(−β w) and h the normalised product of the item's own weights and the
messages from its other neighbours. At convergence the Bethe approximation of the log partition
function is stationary in the messages (Yedidia, Freeman & Weiss 2005, IEEE Transactions on
Information Theory 51, 2282–2312), so its derivatives are the beliefs. Both are exact on a forest.
Messages are between r and one; products over neighbours move to logarithms when they become small.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.labels.potts_kernels import MIN_DISAGREEMENT, MIN_PRODUCT, interpolate
from bayesfuse.numerics.kernels import inner, kernel

TOLERANCE = 1e-9  # messages that change less than this have converged
ROUNDS = 500  # maximum number of passes over all items, in both directions
PATIENCE = 30  # rounds after which messages are damped by half


@inner
def disagreement(coupling, weight):
    """Return exp(−coupling · weight) of every entry of the graph's rows, or one for all."""
    r = np.empty(weight.size)
    for e in range(weight.size):
        r[e] = max(math.exp(-coupling * weight[e]), MIN_DISAGREEMENT)
    return r


@inner
def write_weights(n, prevalence, likelihood, start, message, share):
    """Write item n's relative weights; return log top, and log sum without likelihood."""
    n_classes = share.size
    top, top_before = -np.inf, -np.inf
    for k in range(n_classes):
        product, logs = 1.0, 0.0
        for e in range(start[n], start[n + 1]):
            product *= message[e, k]
            if product < MIN_PRODUCT:
                logs += math.log(product)
                product = 1.0
        logs += math.log(prevalence[k] * product)
        top_before = max(top_before, logs)
        share[k] = logs
    total_before = 0.0
    for k in range(n_classes):
        total_before += math.exp(share[k] - top_before)
        share[k] = share[k] + math.log(likelihood[n, k]) if likelihood[n, k] > 0.0 else -np.inf
        top = max(top, share[k])
    if top == -np.inf:  # all classes are impossible: send uniform messages
        for k in range(n_classes):
            share[k] = 1.0
        return -np.inf, top_before + math.log(total_before)
    for k in range(n_classes):
        share[k] = math.exp(share[k] - top) if share[k] > -np.inf else 0.0
    return top, top_before + math.log(total_before)


@inner
def send_messages(n, share, r, start, neighbour, reverse, message, cavity, damping, stale):
    """Send the messages of item n to neighbours, then ``stale``; return the largest change."""
    n_classes, change = share.size, 0.0
    for e in range(start[n], start[n + 1]):
        total = 0.0
        for k in range(n_classes):
            cavity[k] = share[k] / message[e, k]
            total += cavity[k]
        disagree, moved = r[0] if r.size == 1 else r[e], 0.0
        for k in range(n_classes):
            sent = disagree + (1.0 - disagree) * cavity[k] / total
            previous = message[reverse[e], k]
            moved = max(moved, abs(sent - previous))
            message[reverse[e], k] = sent + damping * (previous - sent)
        stale[neighbour[e]] |= moved > TOLERANCE
        change = max(change, moved)
    return change


@kernel
def pass_messages(prevalence, likelihood, graph, message, stale, done, rounds):
    """Pass messages (entries, classes) in place until they converge; return rounds and last change.

    ``done`` rounds have been made before. ``graph`` ends with ``reverse``, the position of every
    entry in the neighbour's row, and ``order``, breadth first: a round goes from its end to its
    beginning and back, which is exact on a forest.
    """
    coupling, start, neighbour, weight, reverse, order = graph
    n_items, n_classes = likelihood.shape
    r = disagreement(coupling, weight)
    share, cavity = np.empty(n_classes), np.empty(n_classes)
    change = np.inf
    while done < rounds and change > TOLERANCE:
        change = 0.0
        damping = 0.5 if done > PATIENCE else 0.0
        for i in range(2 * n_items):
            n = order[n_items - 1 - i] if i < n_items else order[i - n_items]
            if not stale[n]:
                continue
            stale[n] = False
            write_weights(n, prevalence, likelihood, start, message, share)
            moved = send_messages(
                n, share, r, start, neighbour, reverse, message, cavity, damping, stale
            )
            stale[n] |= damping > 0.0 and moved > TOLERANCE  # damped, so not converged
            change = max(change, moved)
        done += 1
    return done, change


@kernel
def bethe(prevalence, likelihood, log_scale, coupling, start, neighbour, weight, reverse, message):
    """Return log Z, evidence of items given the others, probabilities and expected agreement."""
    n_items, n_classes = likelihood.shape
    r = disagreement(coupling, weight)
    probability, log_evidence = np.empty((n_items, n_classes)), np.empty(n_items)
    share = np.empty(n_classes)
    log_z = agreement = 0.0
    for n in range(n_items):
        top, log_before = write_weights(n, prevalence, likelihood, start, message, share)
        total = 0.0
        for k in range(n_classes):
            total += share[k]
        for k in range(n_classes):
            probability[n, k] = share[k] / total
        log_z += log_scale[n] + top + math.log(total)
        log_evidence[n] = log_scale[n] + top + math.log(total) - log_before
    for n in range(n_items):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n:
                agree, total_n, total_m = 0.0, 0.0, 0.0
                for k in range(n_classes):
                    cavity_n = probability[n, k] / message[e, k]
                    cavity_m = probability[m, k] / message[reverse[e], k]
                    agree += cavity_n * cavity_m
                    total_n += cavity_n
                    total_m += cavity_m
                w = weight[0] if weight.size == 1 else weight[e]
                disagree = r[0] if r.size == 1 else r[e]
                agree /= total_n * total_m
                edge_sum = disagree + (1.0 - disagree) * agree
                log_z += coupling * w - math.log(edge_sum)
                agreement += w * agree / edge_sum
    return log_z, log_evidence, probability, agreement


@kernel
def marginal(coupling, likelihood, log_scale, *structure):
    """Sum the labels out; the evidence of an item is given all others and does not add up."""
    prevalence, start, neighbour, weight, reverse, order = structure[:6]
    graph = coupling.item(), start, neighbour, weight, reverse, order
    message = np.ones((neighbour.size, likelihood.shape[1]))
    stale = np.ones(len(likelihood), dtype=np.bool_)
    pass_messages(prevalence, likelihood, graph, message, stale, 0, ROUNDS)
    return at_messages(coupling, likelihood, log_scale, message, *structure)


@kernel
def at_messages(coupling, likelihood, log_scale, message, *structure):
    """Return the outputs of :func:`marginal` at these messages."""
    prevalence, start, neighbour, weight, reverse = structure[:5]
    knots, total_weight = structure[-2:]
    beta = coupling.item()
    graph = start, neighbour, weight, reverse
    total, log_evidence, probability, agreement = bethe(
        prevalence, likelihood, log_scale, beta, *graph, message
    )
    log_z_of_prior, rate = interpolate(beta, knots, total_weight.item())
    return total - log_z_of_prior, log_evidence, probability, np.asarray(agreement - rate)

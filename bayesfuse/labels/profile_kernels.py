"""Compiled functions of sets of labels: profiles of items summed out, and drawn."""

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel
from bayesfuse.numerics.rows import pick

# Classes of a question are 0 (the item does not have the label) and 1. Rows of the label rates are
# (p, 1 − p), p the probability of class 1.


@inner
def weigh_profiles(log_share, rate, likelihood, label, first, last, weight):
    """Fill in the posterior of an item's profile; return its log evidence, −inf if impossible."""
    top, total = -np.inf, 0.0
    for z in range(weight.size):
        weight[z] = log_share[z]
        for q in range(first, last):
            joint = rate[z, label[q], 1] * likelihood[q, 0]
            joint += rate[z, label[q], 0] * likelihood[q, 1]
            weight[z] += math.log(joint) if joint > 0.0 else -np.inf
        top = max(top, weight[z])
    if top == -np.inf:
        return top
    for z in range(weight.size):
        weight[z] = math.exp(weight[z] - top)
        total += weight[z]
    for z in range(weight.size):
        weight[z] /= total
    return top + math.log(total)


@kernel
def marginal(log_share, log_rate, likelihood, log_scale, start, label):
    """Sum profiles and labels out: see :class:`bayesfuse.build.Marginal`."""
    n_profiles, rate = log_share.size, np.exp(log_rate)
    probability, log_evidence = np.zeros(likelihood.shape), np.empty(start.size - 1)
    shares, rates = np.zeros(n_profiles), np.zeros(log_rate.shape)
    weight, total = np.empty(n_profiles), 0.0
    for n in range(start.size - 1):
        first, last = start[n], start[n + 1]
        log_evidence[n] = weigh_profiles(log_share, rate, likelihood, label, first, last, weight)
        if log_evidence[n] > -np.inf:
            for z in range(n_profiles):
                shares[z] += weight[z]
                for q in range(first, last):
                    without = rate[z, label[q], 1] * likelihood[q, 0]
                    with_label = rate[z, label[q], 0] * likelihood[q, 1]
                    if without + with_label > 0.0:
                        share = weight[z] / (without + with_label)
                        probability[q, 0] += share * without
                        probability[q, 1] += share * with_label
                        rates[z, label[q], 0] += share * with_label
                        rates[z, label[q], 1] += share * without
            for q in range(first, last):
                log_evidence[n] += log_scale[q]
        total += log_evidence[n]
    return total, log_evidence, probability, shares, rates


@kernel
def draw_labels(log_share, log_rate, likelihood, uniform, start, label):
    """Draw profiles and labels jointly: class + 2 × profile of every question, or −1."""
    n_profiles, rate = log_share.size, np.exp(log_rate)
    drawn, weight = np.full(len(likelihood), -1), np.empty(n_profiles)
    for n in range(start.size - 1):
        first, last = start[n], start[n + 1]
        if weigh_profiles(log_share, rate, likelihood, label, first, last, weight) > -np.inf:
            z = pick(weight, uniform[first, 0])
            for q in range(first, last):
                without = rate[z, label[q], 1] * likelihood[q, 0]
                with_label = rate[z, label[q], 0] * likelihood[q, 1]
                has_label = uniform[q, 1] * (without + with_label) >= without
                drawn[q] = 2 * z + (1 if has_label else 0)
    return drawn

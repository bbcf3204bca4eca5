"""Recursions along one sequence of labels in logarithms, where probabilities would underflow."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inlined, inner, kernel
from bayesfuse.numerics.rows import pick


@inner
def log_sum(values):
    """Return the logarithm of the sum of the exponentials."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@kernel
def log_forward(log_initial, log_transition, likelihood, item, filtered, predicted):
    """Filter as :func:`forward_backward.forward`; all probabilities are logarithms."""
    n_classes = log_transition.shape[0]
    terms = np.empty(n_classes)
    log_evidence = 0.0
    for t in range(item.size):
        for j in range(n_classes):
            if t == 0:
                predicted[t, j] = log_initial[j]
                continue
            for k in range(n_classes):
                terms[k] = filtered[t - 1, k] + log_transition[k, j]
            predicted[t, j] = log_sum(terms)
        for k in range(n_classes):
            filtered[t, k] = predicted[t, k] + math.log(likelihood[item[t], k])
        for k in range(n_classes):
            terms[k] = filtered[t, k]
        scale = log_sum(terms)
        if scale == -np.inf:
            return scale
        for k in range(n_classes):
            filtered[t, k] -= scale
        log_evidence += scale
    return log_evidence


@kernel
def log_backward(log_transition, item, filtered, predicted, probability, transitions):
    """Smooth as :func:`forward_backward.backward`, with complete ``transitions`` (k, k)."""
    n_classes = log_transition.shape[0]
    for k in range(n_classes):
        probability[item[item.size - 1], k] = math.exp(filtered[item.size - 1, k])
    for t in range(item.size - 1, 0, -1):
        for k in range(n_classes):
            total = 0.0
            for j in range(n_classes):
                share = probability[item[t], j]
                if share > 0.0 and log_transition[k, j] > -np.inf:
                    both = filtered[t - 1, k] + log_transition[k, j] - predicted[t, j]
                    share *= math.exp(both)  # p(label t − 1 = k | label t = j)
                    transitions[k, j] += share
                    total += share
            probability[item[t - 1], k] = total


@inlined
def log_backward_draw(log_transition, item, filtered, uniform, labels):
    """Draw as :func:`forward_backward.backward_draw`."""
    n_classes = log_transition.shape[0]
    weight = np.empty(n_classes)
    following = -1
    for t in range(item.size - 1, -1, -1):
        for k in range(n_classes):
            weight[k] = filtered[t, k]
            if following >= 0:
                weight[k] += log_transition[k, following]
        scale = log_sum(weight)
        for k in range(n_classes):
            weight[k] = math.exp(weight[k] - scale)
        following = pick(weight, uniform[item[t]])
        labels[item[t]] = following

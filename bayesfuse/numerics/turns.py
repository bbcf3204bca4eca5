"""Moves of a prevalence, and of the matrices that start at the truth: see ``inference/turning``."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import TINY, inner, kernel

WIDEST = 0.5  # radians of the widest turns, of square roots: from even odds to 8 to 92


@kernel
def mixing_of(log_shares, angle, aside, turned):
    """Turn shares by an angle towards ``aside`` (classes,), which is overwritten, into ``turned``.

    Returns the matrix that mixes the rows of the classes, and whether shares are positive.
    """
    n_classes = log_shares.size
    s, mixing = np.empty(n_classes), np.empty((n_classes, n_classes))
    inside, length = 0.0, 0.0
    for k in range(n_classes):
        s[k] = math.exp(log_shares[k] / 2)
        inside += s[k] * aside[k]
    for k in range(n_classes):
        aside[k] -= s[k] * inside
        length += aside[k] * aside[k]
    length = math.sqrt(length)
    near = 0.0
    for k in range(n_classes):
        aside[k] = math.cos(angle) * s[k] + math.sin(angle) * aside[k] / length
        if not aside[k] > 0.0:
            return mixing, False
        near += s[k] * aside[k]
        turned[k] = 2.0 * math.log(aside[k])
    for k in range(n_classes):
        for j in range(n_classes):
            rotation = 2.0 * aside[k] * s[j] - (s[k] + aside[k]) * (s[j] + aside[j]) / (1.0 + near)
            if k == j:
                rotation += 1.0
            mixing[k, j] = rotation * s[j] / aside[k]
    return mixing, True


@inner
def turn_rows(log_shares, log_rows, shares_prior, rows_prior, least, rng):
    """Turn shares (1, classes) and matrices (raters, classes, labels) in place, by a random angle.

    Returns the log ratio of the proposal's and the prior's densities, -inf where a row would leave
    the simplex. Priors are concentrations, (1, classes) and (raters times classes, labels).
    """
    n_raters, n_classes, n_labels = log_rows.shape
    angle = WIDEST * (least / WIDEST) ** rng.random()
    aside, turned = np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        aside[k] = rng.standard_normal()
        if log_shares[0, k] == -np.inf:
            return -np.inf
    mixing, possible = mixing_of(log_shares[0], angle, aside, turned)
    if not possible:
        return -np.inf
    log_ratio, moved, mixed = 0.0, 0.0, np.empty((n_classes, n_labels))
    for k in range(n_classes):
        moved += turned[k] - log_shares[0, k]
        log_ratio += (shares_prior[0, k] - 1.0) * (turned[k] - log_shares[0, k])
        log_shares[0, k] = turned[k]
    # uniform on the sphere is a Dirichlet of halves; a column of a matrix scales by det(mixing)
    log_ratio += 0.5 * (1.0 - n_raters * (n_labels - 1.0)) * moved
    for m in range(n_raters):
        for j in range(n_classes):
            for c in range(n_labels):
                if log_rows[m, j, c] == -np.inf:
                    return -np.inf
                row = math.exp(log_rows[m, j, c])
                for k in range(n_classes):
                    before = mixed[k, c] if j > 0 else 0.0
                    mixed[k, c] = before + mixing[k, j] * row
        for k in range(n_classes):
            for c in range(n_labels):
                if not mixed[k, c] > 0.0:
                    return -np.inf
                new = math.log(mixed[k, c])
                prior = rows_prior[m * n_classes + k, c]
                log_ratio += (prior - 1.0) * (new - log_rows[m, k, c])
                log_rows[m, k, c] = new
    return log_ratio


@inner
def log_evidence(log_shares, likelihood, log_scale, multiplicity):
    """Return the log evidence of independent items with these shares, (1, classes)."""
    shares, total, product = np.empty(log_shares.shape[1]), 0.0, 1.0
    for k in range(shares.size):
        shares[k] = math.exp(log_shares[0, k])
    for n in range(len(likelihood)):
        evidence = 0.0
        for k in range(shares.size):
            evidence += shares[k] * likelihood[n, k]
        if evidence < TINY:
            top = -np.inf
            for k in range(shares.size):
                if likelihood[n, k] > 0.0:
                    top = max(top, log_shares[0, k] + math.log(likelihood[n, k]))
            if top == -np.inf:
                if multiplicity[n] > 0:
                    return -np.inf
                continue
            evidence = 0.0
            for k in range(shares.size):
                if likelihood[n, k] > 0.0:
                    evidence += math.exp(log_shares[0, k] + math.log(likelihood[n, k]) - top)
            total += multiplicity[n] * (top + math.log(evidence) + log_scale[n])
            continue
        if multiplicity[n] == 1 and log_scale[n] == 0.0:
            product *= evidence
            if not 1e-15 < product < 1e15:  # one logarithm for many items
                total += math.log(product)
                product = 1.0
        else:
            total += multiplicity[n] * (math.log(evidence) + log_scale[n])
    return total + math.log(product)

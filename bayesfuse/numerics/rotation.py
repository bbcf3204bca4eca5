"""Rotations of the prevalence, at which all pairs of raters agree as often as before."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel

MAX_ANGLE = 0.5  # radians between square roots of prevalences: from even odds to 8 to 92


@kernel
def rotate(log_shares, matrices, min_angle, rng):
    """Rotate shares (classes,) and a tuple of matrices (raters, classes, answers) in place.

    With s = √π, rotated to t by Q, every matrix Θ becomes diag(t)⁻¹ Q diag(s) Θ (Jaffe, Nadler &
    Kluger 2015, eq. 5 and theorem 2). Returns the log ratio of the proposal's densities, −inf where
    a row would leave the simplex.
    """
    n_classes = log_shares.size
    # angles of any order of magnitude: no tuning is needed
    angle = MAX_ANGLE * (min_angle / MAX_ANGLE) ** rng.random()
    direction, log_rotated = np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        direction[k] = rng.standard_normal()
        if log_shares[k] == -np.inf:
            return -np.inf
    mixing, is_inside = _mixing_matrix(log_shares, angle, direction, log_rotated)
    if not is_inside:
        return -np.inf
    log_shift, n_free = 0.0, 0.0
    for k in range(n_classes):
        log_shift += log_rotated[k] - log_shares[k]
        log_shares[k] = log_rotated[k]
    for log_rows in matrices:
        if not _mix(mixing, log_rows):
            return -np.inf
        n_free += log_rows.shape[0] * (log_rows.shape[2] - 1.0)
    # uniform on the sphere is a Dirichlet of halves; a column of a matrix scales by det(mixing)
    return 0.5 * (1.0 - n_free) * log_shift


@inner
def _mixing_matrix(log_shares, angle, direction, log_rotated):
    """Rotate shares towards ``direction``, which is overwritten.

    Returns the matrix that mixes the rows of the classes, and whether the shares are positive.
    """
    n_classes = log_shares.size
    s, mixing = np.empty(n_classes), np.empty((n_classes, n_classes))
    projection, length = 0.0, 0.0
    for k in range(n_classes):
        s[k] = math.exp(log_shares[k] / 2)
        projection += s[k] * direction[k]
    for k in range(n_classes):
        direction[k] -= s[k] * projection
        length += direction[k] * direction[k]
    length = math.sqrt(length)
    t, cosine = direction, 0.0
    for k in range(n_classes):
        t[k] = math.cos(angle) * s[k] + math.sin(angle) * direction[k] / length
        if not t[k] > 0.0:
            return mixing, False
        cosine += s[k] * t[k]
        log_rotated[k] = 2.0 * math.log(t[k])
    for k in range(n_classes):
        for j in range(n_classes):
            rotation = 2.0 * t[k] * s[j] - (s[k] + t[k]) * (s[j] + t[j]) / (1.0 + cosine)
            if k == j:
                rotation += 1.0
            mixing[k, j] = rotation * s[j] / t[k]
    return mixing, True


@inner
def _mix(mixing, log_rows):
    """Mix the rows of every matrix in place; return whether all entries are positive."""
    n_raters, n_classes, n_answers = log_rows.shape
    mixed = np.empty((n_classes, n_answers))
    for m in range(n_raters):
        for j in range(n_classes):
            for c in range(n_answers):
                if log_rows[m, j, c] == -np.inf:
                    return False
                p = math.exp(log_rows[m, j, c])
                for k in range(n_classes):
                    before = mixed[k, c] if j > 0 else 0.0
                    mixed[k, c] = before + mixing[k, j] * p
        for k in range(n_classes):
            for c in range(n_answers):
                if not mixed[k, c] > 0.0:
                    return False
                log_rows[m, k, c] = math.log(mixed[k, c])
    return True

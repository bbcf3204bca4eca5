"""Products of the residuals of two responses to one item."""

from __future__ import annotations

import math

from bayesfuse.numerics.kernels import kernel


@kernel
def products(start, rater, label, truth, rows, copies):
    """Sum products of residuals over pairs of responses to items with these labels, and scales.

    ``start`` (items + 1,) are the first responses of items, ``rows`` (raters, classes, classes)
    probabilities of responses. The scale of a product is that of two standard deviations. The last
    sum is the number of wrong responses.
    """
    n_items, n_classes = len(truth), rows.shape[2]
    product_sum, scale_sum, wrong = 0.0, 0.0, 0.0
    for n in range(n_items):
        k = truth[n]
        product, scale = 0.0, 0.0
        for c in range(n_classes):
            total, squares, deviations, variances = 0.0, 0.0, 0.0, 0.0
            for i in range(start[n], start[n + 1]):
                chance = rows[rater[i], k, c]
                residual = (label[i] == c) - chance
                total += residual
                squares += residual * residual
                variance = max(chance * (1.0 - chance), 0.0)
                deviations += math.sqrt(variance)
                variances += variance
            product += total * total - squares
            scale += deviations * deviations - variances
        product_sum += copies[n] * product / 2.0
        scale_sum += copies[n] * scale / 2.0
        for i in range(start[n], start[n + 1]):
            wrong += copies[n] * (label[i] != k)
    return product_sum, scale_sum, wrong

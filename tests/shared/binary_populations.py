"""Binary raters that several test files share: exact populations, samples, their moments."""

import itertools

import numpy as np
import pandas as pd
import xarray as xr

import bayesfuse as bf

SENSITIVITY = np.array([0.9, 0.7, 0.6, 0.8, 0.3])
SPECIFICITY = np.array([0.6, 0.8, 0.5, 0.9, 0.4])  # the last one is worse than random
PREVALENCE = 0.3


def joint(prevalence, confusion):
    """Enumerate all patterns of conditionally independent raters: patterns, P(pattern, class)."""
    raters, classes, _ = confusion.shape
    patterns = np.array(list(itertools.product(range(classes), repeat=raters)))
    chance = np.stack(
        [prevalence[k] * confusion[np.arange(raters), k, patterns].prod(1) for k in range(classes)],
        axis=1,
    )
    return patterns, chance


def exact(prevalence, confusion):
    """Return the whole population as counts so large that n/(n - 1) is one to 1e-12."""
    patterns, chance = joint(prevalence, confusion)
    return bf.Responses.from_counts(patterns, np.round(chance.sum(1) * 1e14).astype(np.int64))


def two_class(sensitivity=SENSITIVITY, specificity=SPECIFICITY):
    rows = [[specificity, 1 - specificity], [1 - sensitivity, sensitivity]]
    return np.moveaxis(np.array(rows), -1, 0)


def population():
    return exact([1 - PREVALENCE, PREVALENCE], two_class())


def true_v(prevalence=PREVALENCE):
    b = 2 * prevalence - 1
    return np.sqrt(1 - b**2) * (SENSITIVITY + SPECIFICITY - 1)


def sample(rng, items, sensitivity, specificity, prevalence, answered=1.0, truth=None):
    """Labels of so many items, or of those with a given truth; −1 where nobody answered."""
    if truth is None:
        truth = rng.random((items, 1)) < prevalence
    chance = np.where(truth, sensitivity, 1 - specificity)
    says = rng.random(chance.shape) < chance
    return np.where(rng.random(says.shape) < answered, says.astype(int), -1)


def sampling_variance(one, other, q, n):
    """Variance of the sample covariance of ±1 labels with these means and this covariance."""
    fourth = 0.0
    for x, y in itertools.product((-1, 1), repeat=2):
        chance = (1 + x * one + y * other + x * y * (q + one * other)) / 4
        fourth += chance * (x - one) ** 2 * (y - other) ** 2
    both = (1 - one**2) * (1 - other**2)
    return (fourth - (n - 2) / (n - 1) * q**2 + both / (n - 1)) / n


def moments(q, items=1000, mean=None):
    """Build what ``covariance`` returns from population moments."""
    q = np.asarray(q, dtype=float)
    mean = np.zeros(len(q)) if mean is None else mean
    overlap = np.broadcast_to(np.asarray(items), q.shape).copy()
    variance = sampling_variance(mean[:, None], mean, q, np.maximum(overlap, 2))
    pair = ("rater", "other")
    names = np.arange(len(q))
    return xr.Dataset(
        {
            "mean": ("rater", mean),
            "covariance": (pair, q),
            "variance": (pair, variance),
            "overlap": (pair, overlap),
        },
        coords={"rater": names, "other": names},
    )


def messy():
    """Missing and repeated responses and identical items, with the table behind them."""
    rng = np.random.default_rng(7)
    rows = [
        {"item": n, "rater": m, "label": int(rng.random() < 0.3 + 0.1 * m)}
        for n in range(25)
        for m in range(5)
        for _ in range(rng.choice([0, 1, 3]))
    ]
    return bf.Responses.from_long(pd.DataFrame(rows))

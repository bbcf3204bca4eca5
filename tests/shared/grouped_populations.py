"""Binary raters in groups that several test files share: exact populations, and samples."""

from itertools import product

import numpy as np

import bayesfuse as bf

GROUP = np.array([0, 0, 0, 1, 2, 2, 2, 3])
PREVALENCE = 0.6
OUTER = np.array([[0.8, 0.7, 0.9, 0.8], [0.6, 0.8, 0.7, 0.9]])  # of verdicts: ψ, η
INNER = np.array(
    [[0.9, 0.7, 0.8, 1.0, 0.9, 0.6, 0.8, 1.0], [0.8, 0.9, 0.6, 1.0, 0.7, 0.9, 0.8, 1.0]]
)


def population(group=GROUP, prevalence=PREVALENCE, outer=OUTER, inner=INNER):
    """Return all response patterns (0, 1) and their probabilities given either truth."""
    patterns = np.array(list(product([0, 1], repeat=len(group))))
    given = []
    for truth in (0, 1):
        likelihood = np.ones(len(patterns))
        for g in range(outer.shape[1]):
            own = group == g
            positive = outer[0, g] if truth else 1 - outer[1, g]
            yes = np.where(patterns[:, own], inner[0, own], 1 - inner[0, own]).prod(axis=1)
            no = np.where(patterns[:, own], 1 - inner[1, own], inner[1, own]).prod(axis=1)
            likelihood *= positive * yes + (1 - positive) * no
        given.append(likelihood)
    given = np.array(given)
    return patterns, given, np.array([1 - prevalence, prevalence]) @ given


def exact_responses(*arguments, digits=14, **keywords):
    """Counts are exact where all parameters are multiples of 0.1."""
    patterns, given, probability = population(*arguments, **keywords)
    counts = np.rint(probability * 10**digits).astype(np.int64)
    return bf.Responses.from_counts(patterns, counts, classes=[0, 1]), patterns, given


def overall(group=GROUP, outer=OUTER, inner=INNER):
    return outer[:, group] * inner + (1 - outer[:, group]) * (1 - inner[::-1])


def simulate(rng, n_items, sizes, outer=(0.5, 0.8), inner=(0.7, 0.9)):
    """Jaffe et al. 2016, section 5.1: groups of these sizes, b = 0."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    truth = rng.random(n_items) < 0.5
    verdict = answer(rng, truth[:, None], rng.uniform(*outer, (2, len(sizes))))
    labels = answer(rng, verdict[:, group], rng.uniform(*inner, (2, len(group))))
    return truth, group, labels.astype(int)


def answer(rng, truth, rates):
    positive = np.where(truth, rates[0], 1 - rates[1])
    return rng.random(positive.shape) < positive

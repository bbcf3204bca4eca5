"""Steps of EM for repeated responses, which state the verdict of a rater on an item."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel

SMALLEST = 2.3e-308  # a normal number


@inner
def normalize(logs, row):
    """Replace a row of logarithms by probabilities, and return the logarithm of their sum."""
    top = -math.inf
    for k in range(logs.shape[1]):
        top = max(top, logs[row, k])
    total = 0.0
    for k in range(logs.shape[1]):
        logs[row, k] = math.exp(logs[row, k] - top)
        total += logs[row, k]
    for k in range(logs.shape[1]):
        logs[row, k] /= total
    return top + math.log(total)


@inner
def weigh(pair, begin, label, rater, log_rows, mass):
    """Set a row of ``mass`` to probabilities of the responses of a pair by verdict.

    They are divided by the greatest, of which the logarithm is returned.
    """
    m, top = rater[pair], -math.inf
    for v in range(mass.shape[1]):
        total = 0.0
        for i in range(begin[pair], begin[pair + 1]):
            total += log_rows[m, v, label[i]]
        mass[pair, v] = total
        top = max(top, total)
    for v in range(mass.shape[1]):
        mass[pair, v] = math.exp(mass[pair, v] - top)
    return top


@kernel
def sum_labels(begin, label, rater, weight, classes, prior, counts):
    """Set ``counts`` (raters, classes, labels) to responses of pairs by class, and ``prior``.

    ``begin`` (pairs + 1,) are the first responses of pairs of an item and a ``rater``, of
    ``weight`` (pairs,) and with probabilities of ``classes`` (pairs, classes).
    """
    n_classes = classes.shape[1]
    for m in range(counts.shape[0]):
        for k in range(n_classes):
            for j in range(n_classes):
                counts[m, k, j] = prior[k, j]
    for p in range(len(rater)):
        m = rater[p]
        for i in range(begin[p], begin[p + 1]):
            for k in range(n_classes):
                counts[m, k, label[i]] += weight[p] * classes[p, k]


@kernel
def update_verdicts(first, begin, label, rater, copies, log_rows, labels, right, verdicts, others):
    """Update labels (items, classes) and verdicts (pairs, classes); return the log likelihood.

    ``first`` (items + 1,) are the first pairs of items, which stand for ``copies`` each. ``others``
    (pairs, classes) become probabilities of labels by the responses of other raters. Also returned
    are the right verdicts of raters and the number of their pairs.
    """
    n_items, n_classes = labels.shape
    n_right, n_pairs = np.zeros(len(right)), np.zeros(len(right))
    by_class = np.empty(verdicts.shape)
    prior = np.empty(n_classes)
    total = 0.0
    for k in range(n_classes):
        prior[k] = 1.0
        for n in range(n_items):
            prior[k] += labels[n, k] * copies[n]
        total += prior[k]
    for k in range(n_classes):
        prior[k] = math.log(prior[k] / total)
    evidence = 0.0
    for n in range(n_items):
        for k in range(n_classes):
            labels[n, k] = prior[k]
        for p in range(first[n], first[n + 1]):
            share = right[rater[p]]
            top = weigh(p, begin, label, rater, log_rows, verdicts)
            total = 0.0
            for k in range(n_classes):
                total += verdicts[p, k]
            for k in range(n_classes):
                wrong = max((1.0 - share) * (total - verdicts[p, k]), 0.0) / (n_classes - 1.0)
                by_class[p, k] = math.log(max(share * verdicts[p, k] + wrong, SMALLEST)) + top
                labels[n, k] += by_class[p, k]
        for p in range(first[n], first[n + 1]):
            m = rater[p]
            for k in range(n_classes):
                others[p, k] = labels[n, k] - by_class[p, k]
            normalize(others, p)
            # the verdict given all responses: right, or another class with equal probabilities
            total, is_right = 0.0, 0.0
            for k in range(n_classes):
                chance, likelihood = others[p, k], verdicts[p, k]
                same = right[m] * chance * likelihood
                wrong = (1.0 - right[m]) * (1.0 - chance) * likelihood / (n_classes - 1.0)
                verdicts[p, k] = same + wrong
                is_right += same
                total += same + wrong
            total = max(total, SMALLEST)
            for k in range(n_classes):
                verdicts[p, k] /= total
            n_right[m] += copies[n] * is_right / total
            n_pairs[m] += copies[n]
        evidence += copies[n] * normalize(labels, n)
    return evidence, n_right, n_pairs


@kernel
def update_classes(begin, label, rater, copies, others, log_rows, verdict, classes):
    """Update classes of pairs (pairs, classes), and return the log likelihood by rater.

    ``others`` are log probabilities by other raters, ``verdict``
    (raters, classes, classes) probabilities of verdicts by class, and ``log_rows`` (raters,
    classes, labels) log probabilities of responses by verdict.
    """
    n_pairs, n_classes = classes.shape
    evidence = np.zeros(len(verdict))
    mass = np.empty(classes.shape)
    for p in range(n_pairs):
        m = rater[p]
        top = weigh(p, begin, label, rater, log_rows, mass)
        for k in range(n_classes):
            total = 0.0
            for v in range(n_classes):
                total += verdict[m, k, v] * mass[p, v]
            classes[p, k] = others[p, k] + math.log(max(total, SMALLEST)) + top
        evidence[m] += copies[p] * normalize(classes, p)
    return evidence

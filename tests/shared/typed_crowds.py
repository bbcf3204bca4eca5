"""Tables for items of several types, and their sum over types, without the package's kernels."""

import numpy as np
from scipy.special import logsumexp

import bayesfuse as bf


def random_rows(shape, seed, concentration=1.0):
    """Rows of probabilities."""
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], concentration), shape[:-1])


def random_crowd(n_items, n_raters, n_classes, seed):
    """Responses with gaps and repeats; the last item and the last rater have none."""
    rng = np.random.default_rng(seed)
    item, rater = np.nonzero(rng.random((n_items, n_raters)) < 0.8)
    again = rng.random(len(item)) < 0.2
    item, rater = np.append(item, item[again]), np.append(rater, rater[again])
    label = rng.choice(n_classes, len(item), p=rng.dirichlet(np.full(n_classes, 5.0)))
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(n_items + 1),
        raters=range(n_raters + 1),
        classes=range(n_classes),
    )


def unknown(responses):
    """Known classes of items: none."""
    return np.full(responses.n_items, -1)


def by_type(share, confusion, responses):
    """Return log p(type, responses to n | truth), (items, classes, types), response by response."""
    with np.errstate(divide="ignore"):
        log_share, log_confusion = np.log(share), np.log(confusion)
    found = np.tile(log_share, (responses.n_items, 1, 1))
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        found[n] += log_confusion[m, :, c]
    return found


def summed(share, confusion, responses, gold=None):
    """Return log p(responses to n | truth), (items, classes); −inf for what gold rules out."""
    found = logsumexp(by_type(share, confusion, responses), axis=2)
    for n, k in (gold or {}).items():
        found[n, np.arange(found.shape[1]) != k] = -np.inf
    return found


def answers(truth, accuracy, n_raters, rng, n_classes=2):
    """Return a matrix of answers, right with probability ``accuracy`` (one per item)."""
    right = rng.random((len(truth), n_raters)) < np.broadcast_to(accuracy, truth.shape)[:, None]
    wrong = (truth[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    return np.where(right, truth[:, None], wrong)


def hard_crowd(seed, *, n_items=300, n_raters=8, n_classes=2):
    """Return responses and truth; on two items in five most raters are taken in, or nearly so."""
    rng = np.random.default_rng(seed)
    size = np.arange(2.0, n_classes + 2)
    truth = rng.choice(n_classes, n_items, p=size / size.sum())
    hard, mistaken = rng.random(n_items) < 0.4, rng.random(n_items) < 0.5
    share = np.where(hard, np.where(mistaken, 0.3, 0.7), 0.95)
    right = rng.random((n_items, n_raters)) < share[:, None]
    said = np.where(right, truth[:, None], (truth[:, None] + 1) % n_classes)
    said[rng.random(said.shape) < 0.1] = -1
    return bf.Responses.from_matrix(said, classes=range(n_classes)), truth

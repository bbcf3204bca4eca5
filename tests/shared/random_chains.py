"""Random chains and likelihoods that several test files share."""

import numpy as np


def random_chain(n_classes, seed, *, zeros=0.0):
    """Log initial and transition probabilities, some of them zero but none absorbing."""
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.ones(n_classes))
    transition = rng.dirichlet(np.ones(n_classes), n_classes)
    gone = rng.random((n_classes, n_classes)) < zeros
    every = np.arange(n_classes)
    gone[every, every] = gone[every, (every + 1) % n_classes] = False
    transition[gone] = 0.0
    if zeros:
        initial[-1] = 0.0
    with np.errstate(divide="ignore"):
        return (
            np.log(initial / initial.sum()),
            np.log(transition / transition.sum(axis=1, keepdims=True)),
        )


def shuffled(lengths, seed):
    """A chain's structure arrays whose items stand in the table in another order."""
    size = int(np.sum(lengths))
    place = np.random.default_rng(seed).permutation(size)
    return place, np.concatenate([[0], np.cumsum(lengths)])


def shares(counts):
    with np.errstate(divide="ignore", invalid="ignore"):
        return counts / counts.sum(axis=-1, keepdims=True)


def random_log_lik(size, n_classes, seed, *, spread=2.0):
    log_lik = np.random.default_rng(seed).normal(0, spread, (size, n_classes))
    log_lik[1] = 0.0  # nobody answered
    log_lik[2] -= 5000.0  # whose probabilities underflow
    log_lik[-1, 0] = -np.inf  # a class ruled out
    return log_lik


def relative(log_lik):
    """Return likelihoods (items, classes) relative to the largest of an item, and log scales."""
    log_scale = log_lik.max(axis=1)
    return np.exp(log_lik - log_scale[:, None]), log_scale

"""Graphs whose communities are the classes of their items, with responses to these."""

import numpy as np

import bayesfuse as bf


def communities(truth, degree, within, rng=1):
    """A stochastic block model with a share of edges within classes, on average of a degree."""
    rng = np.random.default_rng(rng)
    n_edges = round(len(truth) * degree / 2)
    inside, pairs = round(within * n_edges), []
    for count, same in ((inside, True), (n_edges - inside, False)):
        drawn = np.sort(rng.integers(0, len(truth), (20 * count, 2)), axis=1)
        agree = truth[drawn[:, 0]] == truth[drawn[:, 1]]
        fits = drawn[(agree == same) & (drawn[:, 0] < drawn[:, 1])]
        pairs.append(rng.permutation(np.unique(fits, axis=0))[:count])
    return bf.Graph.from_edges(np.concatenate(pairs), items=range(len(truth)))

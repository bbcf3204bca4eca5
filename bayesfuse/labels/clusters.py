"""Compiled Swendsen–Wang moves of labels on a graph, for the density of ``potts_kernels``."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.labels.potts_kernels import SMALL, choose, uniform
from bayesfuse.numerics.kernels import inner, kernel


@inner
def root_of(parent, n):
    """Return the root of n's tree, halving the path to it."""
    while parent[n] != n:
        parent[n] = parent[parent[n]]
        n = parent[n]
    return n


@inner
def bond(labels, coupling, start, neighbour, weight, seed, parent):
    """Join neighbours of one label with probability 1 − exp(−coupling · weight)."""
    one = weight.size == 1
    broken = math.exp(-coupling * weight[0]) if one else 0.0
    for n in range(labels.size):
        parent[n] = n
    for n in range(labels.size):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n and labels[m] == labels[n]:
                if not one:
                    broken = math.exp(-coupling * weight[e])
                if uniform(seed, e) >= broken:
                    top, other = root_of(parent, n), root_of(parent, m)
                    if top != other:
                        parent[max(top, other)] = min(top, other)


@kernel
def swendsen_wang(labels, prevalence, likelihood, coupling, start, neighbour, weight, seed):
    """Draw, in place, the label of every cluster: of neighbours that bonds join.

    A cluster's label has the product of its items' weights, which leaves the density with its
    fields invariant (Swendsen & Wang 1987, Physical Review Letters 58, 86–88; with fields, Higdon
    1998, Journal of the American Statistical Association 93, 585–595). Returns the number of
    clusters.
    """
    n_items, n_classes = labels.size, prevalence.size
    parent = np.empty(n_items, dtype=np.int32)
    bond(labels, coupling, start, neighbour, weight, seed, parent)
    place = np.empty(n_items, dtype=np.int32)  # number of the cluster of every root
    n_clusters = 0
    for n in range(n_items):  # a root is the first of its cluster
        parent[n] = root_of(parent, n)
        if parent[n] == n:
            place[n] = n_clusters
            n_clusters += 1
    product = np.ones((n_clusters, n_classes))
    logs = np.zeros((n_clusters, n_classes))
    for n in range(n_items):
        c = place[parent[n]]
        for k in range(n_classes):
            product[c, k] *= prevalence[k] * likelihood[n, k]
            if product[c, k] < SMALL:
                value = product[c, k]
                logs[c, k] += math.log(value) if value > 0.0 else -np.inf
                product[c, k] = 1.0
    chosen = np.empty(n_clusters, dtype=np.int32)
    share = np.empty(n_classes)
    first = 2 * neighbour.size  # beyond the numbers of the bonds
    for c in range(n_clusters):
        top = -np.inf
        for k in range(n_classes):
            logs[c, k] += math.log(product[c, k])
            top = max(top, logs[c, k])
        total = 0.0
        for k in range(n_classes):
            share[k] = math.exp(logs[c, k] - top) if logs[c, k] > -np.inf else 0.0
            total += share[k]
        chosen[c] = choose(share, total, uniform(seed, first + c))
    for n in range(n_items):
        labels[n] = chosen[place[parent[n]]]
    return n_clusters

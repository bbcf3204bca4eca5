"""Compiled sweeps over labels on a graph: Gibbs, Swendsen–Wang, conditionals, iterated modes.

They are for labels y (items,) with p(y) ∝ ∏_n π[y_n] L[n, y_n] ∏_edges exp(β w 1[y_n = y_m]), with
L the likelihood (items, classes), of any scale by item, and ones for the prior. Graphs are in
compressed rows: the neighbours of n are ``neighbour[start[n]:start[n + 1]]``, every edge being in
both of its rows, with ``weight`` of the same length, or of length one if all weights are equal.

Random numbers are SplitMix64 (Steele, Lea & Flood 2014, OOPSLA, 453–472): number i of a sweep is a
hash of ``seed + i · GOLDEN``. It takes a nanosecond and has no state, so the order of the items is
irrelevant; a NumPy Generator gives one seed per sweep.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import Array, inner, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)

MAX_LOG_FACTOR = 600.0
"""Sums of couplings above this are kept as logarithms: their exponentials would overflow."""

MIN_PRODUCT = 1e-15  # products below this are moved to logarithms
MIN_DISAGREEMENT = 1e-130  # minimum of exp(−β w), so that disagreement is never impossible


def without_repeats(weight: Array) -> Array:
    """Return weights as the kernels take them: one if all are equal."""
    return weight[:1] if len(weight) and weight.min() == weight.max() else weight


@inner
def uniform(seed, i):
    """Return number i of the stream of a seed, in [0, 1)."""
    z = seed + np.uint64(i + 1) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def agreement_factors(coupling, start, weight):
    """Return exp(coupling · weight) of every entry, or one for all; none if products overflow."""
    factor = np.empty(weight.size)
    for e in range(weight.size):
        factor[e] = math.exp(coupling * weight[e])
    for n in range(start.size - 1):
        total = 0.0
        if weight.size == 1:
            total = weight[0] * (start[n + 1] - start[n])
        else:
            for e in range(start[n], start[n + 1]):
                total += weight[e]
        if coupling * total > MAX_LOG_FACTOR:
            return factor[:0]
    return factor


@inner
def write_exponentials(logs, share):
    """Write exponentials relative to the largest into ``share``; return their sum."""
    top, total = -np.inf, 0.0
    for k in range(share.size):
        top = max(top, logs[k])
    for k in range(share.size):
        share[k] = math.exp(logs[k] - top) if logs[k] > -np.inf else 0.0
        total += share[k]
    return total


@inner
def write_conditional(n, labels, prevalence, likelihood, graph, share):
    """Write the weights of item n given its neighbours into ``share`` (k,); return their sum.

    ``graph`` is coupling, rows and :func:`agreement_factors`; if these are empty, logarithms are
    summed.
    """
    coupling, start, neighbour, weight, factor = graph
    row = min(n, likelihood.shape[0] - 1)  # of one row for all items, that one
    for k in range(share.size):
        share[k] = prevalence[k] * likelihood[row, k]
    if factor.size == 0:
        for k in range(share.size):
            share[k] = math.log(share[k]) if share[k] > 0.0 else -np.inf
        for e in range(start[n], start[n + 1]):
            share[labels[neighbour[e]]] += coupling * weight[0 if weight.size == 1 else e]
        return write_exponentials(share, share)
    if factor.size == 1:
        times = factor[0]
        for e in range(start[n], start[n + 1]):
            share[labels[neighbour[e]]] *= times
    else:
        for e in range(start[n], start[n + 1]):
            share[labels[neighbour[e]]] *= factor[e]
    total = 0.0
    for k in range(share.size):
        total += share[k]
    return total


@inner
def pick_class(share, total, u):
    """Return the class that a uniform number falls into."""
    left, up_to, label = u * total, 0.0, 0
    for k in range(share.size - 1):  # no branch, which the processor could only guess
        up_to += share[k]
        label += up_to <= left
    return label


@kernel
def write_size_field(field, prevalence, size, size_penalty, known):
    """Write into ``field`` the weights of the classes of one more item, by their sizes n.

    They are those of exp(−crowding · Σ n_k²) and, unless the shares of the classes are known, of
    ∏ n_k!, for a flat prior of the shares.
    """
    smallest = size.min()
    for k in range(size.size):
        field[k] = prevalence[k] * math.exp(-2.0 * size_penalty * (size[k] - smallest))
        if not known:
            field[k] *= size[k] + 1.0


@kernel
def gibbs_sweep(
    labels, prevalence, likelihood, coupling, start, neighbour, weight, order, seed, *size_penalty
):
    """Draw, in place, every label given its neighbours; an order by colour is the fastest."""
    graph = coupling, start, neighbour, weight, factors(coupling, start, weight, prevalence.size)
    gibbs_part(labels, prevalence, likelihood, graph, order, seed, 0, order.size, *size_penalty)


@kernel
def factors(coupling, start, weight, n_classes):
    """Return factors of a neighbour's class, or odds by their number; none if these overflow."""
    factor = agreement_factors(coupling, start, weight)
    if n_classes > 2 or weight.size != 1 or factor.size == 0:
        return factor
    max_degree = 0
    for n in range(start.size - 1):
        max_degree = max(max_degree, start[n + 1] - start[n])
    odds = np.empty(2 * max_degree + 1)
    for j in range(odds.size):
        odds[j] = math.exp(coupling * weight[0] * (j - max_degree))
    return odds


@kernel
def gibbs_part(
    labels, prevalence, likelihood, graph, order, seed, first, last, size_penalty=0.0, known=True
):
    """Sweep over a range of the order; ``graph`` is coupling, rows and :func:`factors`.

    The density is multiplied by the factors of :func:`write_size_field`.
    """
    coupling, start, neighbour, weight, factor = graph
    sizes_matter = size_penalty > 0.0 or not known
    if prevalence.size == 2 and weight.size == 1 and factor.size > 0:
        if not sizes_matter:
            rows = start, neighbour, factor, order
            sweep_two_classes(labels, prevalence, likelihood, *rows, seed, first, last)
            return
        factor = agreement_factors(coupling, start, weight)
    conditional_graph = coupling, start, neighbour, weight, factor
    share, field = np.empty(prevalence.size), prevalence.copy()
    size = np.zeros(prevalence.size, dtype=np.int64)
    for n in range(labels.size if sizes_matter else 0):
        size[labels[n]] += 1
    for i in range(first, last):
        n = order[i]
        if sizes_matter:
            size[labels[n]] -= 1
            write_size_field(field, prevalence, size, size_penalty, known)
        total = write_conditional(n, labels, field, likelihood, conditional_graph, share)
        labels[n] = pick_class(share, total, uniform(seed, i))
        if sizes_matter:
            size[labels[n]] += 1


@inner
def sweep_two_classes(
    labels, prevalence, likelihood, start, neighbour, odds, order, seed, begin, end
):
    """Sweep for two classes and equal weights, by a table instead of products over neighbours."""
    max_degree = (odds.size - 1) // 2
    for i in range(begin, end):
        n = order[i]
        first, last = start[n], start[n + 1]
        ones = 0
        for e in range(first, last):
            ones += labels[neighbour[e]]
        zero = prevalence[0] * likelihood[n, 0]
        one = prevalence[1] * likelihood[n, 1] * odds[2 * ones - (last - first) + max_degree]
        labels[n] = uniform(seed, i) * (zero + one) >= zero


@kernel
def agreement(labels, start, neighbour, weight):
    """Sum the weights of the edges whose items have one label."""
    total, is_uniform = 0.0, weight.size == 1
    for n in range(labels.size):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n and labels[m] == labels[n]:
                total += weight[0 if is_uniform else e]
    return total


@kernel
def conditionals(labels, prevalence, likelihood, log_scale, coupling, start, neighbour, weight):
    """Return probabilities (items, classes) and log evidence (items,) given neighbours' labels."""
    n_items, n_classes = likelihood.shape
    probability, log_evidence = np.empty((n_items, n_classes)), np.empty(n_items)
    share, flat = np.empty(n_classes), np.ones((1, n_classes))
    graph = coupling, start, neighbour, weight, agreement_factors(coupling, start, weight)
    for n in range(n_items):
        total_before = write_conditional(n, labels, prevalence, flat, graph, share)
        total = 0.0
        for k in range(n_classes):
            joint = share[k] * likelihood[n, k]
            probability[n, k] = joint
            total += joint
        log_evidence[n] = log_scale[n] - np.inf
        if total > 0.0:
            log_evidence[n] = log_scale[n] + math.log(total / total_before)
            for k in range(n_classes):
                probability[n, k] /= total
    return probability, log_evidence


@kernel
def iterate_modes(labels, prevalence, likelihood, coupling, start, neighbour, weight, max_passes):
    """Set labels to conditional modes until none changes (Besag 1986); return the passes."""
    share = np.empty(prevalence.size)
    graph = coupling, start, neighbour, weight, share[:0]  # products may underflow
    for sweep in range(max_passes):
        changed = False
        for n in range(labels.size):
            write_conditional(n, labels, prevalence, likelihood, graph, share)
            best = labels[n]
            for k in range(share.size):
                if share[k] > share[best]:
                    best = k
            changed |= best != labels[n]
            labels[n] = best
        if not changed:
            return sweep + 1
    return max_passes


@kernel
def impossible(likelihood):
    """Return whether some item has no possible class."""
    for n in range(likelihood.shape[0]):
        some = False
        for k in range(likelihood.shape[1]):
            some |= likelihood[n, k] > 0.0
        if not some:
            return True
    return False


@inner
def root_of(parent, n):
    """Return the root of n's tree, halving the path to it."""
    while parent[n] != n:
        parent[n] = parent[parent[n]]
        n = parent[n]
    return n


@inner
def join_clusters(labels, coupling, start, neighbour, weight, seed, parent):
    """Join neighbours of one label with probability 1 − exp(−coupling · weight)."""
    is_uniform = weight.size == 1
    broken = math.exp(-coupling * weight[0]) if is_uniform else 0.0
    for n in range(labels.size):
        parent[n] = n
    for n in range(labels.size):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n and labels[m] == labels[n]:
                if not is_uniform:
                    broken = math.exp(-coupling * weight[e])
                if uniform(seed, e) >= broken:
                    root, other_root = root_of(parent, n), root_of(parent, m)
                    if root != other_root:
                        parent[max(root, other_root)] = min(root, other_root)


@kernel
def swendsen_wang(labels, prevalence, likelihood, graph, seed, size_penalty=0.0, known=True):
    """Draw, in place, the label of every cluster of bonded neighbours; return their number.

    The product of the items' weights leaves the density with its fields invariant (Swendsen & Wang
    1987, Physical Review Letters 58, 86–88; with fields, Higdon 1998). Clusters are drawn in turn
    if their sizes matter, as in :func:`write_size_field`.
    """
    coupling, start, neighbour, weight = graph
    n_items, n_classes = labels.size, prevalence.size
    parent = np.empty(n_items, dtype=np.int32)
    join_clusters(labels, coupling, start, neighbour, weight, seed, parent)
    cluster_of_root = np.empty(n_items, dtype=np.int32)  # number of the cluster of every root
    n_clusters = 0
    for n in range(n_items):  # a root is the first of its cluster
        parent[n] = root_of(parent, n)
        if parent[n] == n:
            cluster_of_root[n] = n_clusters
            n_clusters += 1
    product = np.ones((n_clusters, n_classes))
    logs = np.zeros((n_clusters, n_classes))
    for n in range(n_items):
        c = cluster_of_root[parent[n]]
        for k in range(n_classes):
            product[c, k] *= prevalence[k] * likelihood[n, k]
            if product[c, k] < MIN_PRODUCT:
                value = product[c, k]
                logs[c, k] += math.log(value) if value > 0.0 else -np.inf
                product[c, k] = 1.0
    chosen = np.empty(n_clusters, dtype=np.int32)
    share = np.empty(n_classes)
    size, cluster_size = np.zeros(n_classes), np.zeros(n_clusters)
    for n in range(n_items):
        size[labels[n]] += 1.0
        cluster_size[cluster_of_root[parent[n]]] += 1.0
    first_number = 2 * neighbour.size  # beyond the numbers of the bonds
    for n in range(n_items):
        if parent[n] != n:
            continue
        c = cluster_of_root[n]
        size[labels[n]] -= cluster_size[c]
        for k in range(n_classes):
            logs[c, k] += math.log(product[c, k]) - 2.0 * size_penalty * cluster_size[c] * size[k]
            if not known:
                logs[c, k] += math.lgamma(size[k] + cluster_size[c] + 1.0) - math.lgamma(
                    size[k] + 1.0
                )
        total = write_exponentials(logs[c], share)
        chosen[c] = pick_class(share, total, uniform(seed, first_number + c))
        size[chosen[c]] += cluster_size[c]
    for n in range(n_items):
        labels[n] = chosen[cluster_of_root[parent[n]]]
    return n_clusters


@kernel
def interpolate(coupling, knots, total_weight):
    """Return log Z and its derivative, by a cubic through slopes and bends and its integral."""
    last = len(knots) - 1
    if coupling >= knots[last, 0]:
        step = coupling - knots[last, 0]
        log_z, slope, curvature = knots[last, 1], knots[last, 2], knots[last, 3]
        slope_left = total_weight - slope
        if curvature <= 0.0:  # slopes that noise made equal
            back = last // 2
            curvature = (slope - knots[back, 2]) / (knots[last, 0] - knots[back, 0])
        if slope_left <= 1e-9 * total_weight or curvature <= 0.0:
            return log_z + step * slope, slope
        rate = curvature / slope_left
        remaining = slope_left * math.exp(-rate * step)
        return log_z + total_weight * step - (
            slope_left - remaining
        ) / rate, total_weight - remaining
    i = np.searchsorted(knots[:, 0], coupling, side="right") - 1
    h = knots[i + 1, 0] - knots[i, 0]
    t = (coupling - knots[i, 0]) / h
    s0, s1, b0, b1 = knots[i, 2], knots[i + 1, 2], h * knots[i, 3], h * knots[i + 1, 3]
    c2, c3 = 3 * (s1 - s0) - 2 * b0 - b1, 2 * (s0 - s1) + b0 + b1
    slope = s0 + t * (b0 + t * (c2 + t * c3))
    return knots[i, 1] + h * t * (s0 + t * (b0 / 2 + t * (c2 / 3 + t * c3 / 4))), slope

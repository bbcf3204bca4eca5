r"""Compiled sweeps over labels on a graph: Gibbs, conditionals, iterated modes.

All are for the density of labels y (items,) in a Potts model with a field for every item,

.. math:: p(y) \propto \prod_n \pi_{y_n} L_{n y_n}
          \prod_{\text{edges}} \exp(\beta w_{nm} 1[y_n = y_m]) ,

with L the likelihood (items, classes), of any scale by item, and ones for the prior. Graphs are in
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

LARGEST = 600.0
"""Sums of couplings above this are kept as logarithms: their exponentials would overflow."""


SMALL = 1e-15
"""Products below this are moved to logarithms."""


def once(weight: Array) -> Array:
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
def strongest(coupling, start, weight):
    """Return the largest sum of couplings at one item."""
    most = 0.0
    for n in range(start.size - 1):
        total = 0.0
        if weight.size == 1:
            total = weight[0] * (start[n + 1] - start[n])
        else:
            for e in range(start[n], start[n + 1]):
                total += weight[e]
        most = max(most, total)
    return coupling * most


@inner
def pull(coupling, weight):
    """Return exp(coupling · weight) of every entry of the graph's rows, or one for all."""
    factor = np.empty(weight.size)
    for e in range(weight.size):
        factor[e] = math.exp(coupling * weight[e])
    return factor


@inner
def log_weigh(n, labels, prevalence, likelihood, coupling, start, neighbour, weight, share):
    """As :func:`weigh`, in logarithms, for couplings whose exponentials overflow."""
    n_classes, one = share.size, weight.size == 1
    row = min(n, likelihood.shape[0] - 1)  # of one row for all items, that one
    top = -np.inf
    for k in range(n_classes):
        value = prevalence[k] * likelihood[row, k]
        share[k] = math.log(value) if value > 0.0 else -np.inf
    for e in range(start[n], start[n + 1]):
        share[labels[neighbour[e]]] += coupling * weight[0 if one else e]
    for k in range(n_classes):
        top = max(top, share[k])
    total = 0.0
    for k in range(n_classes):
        share[k] = math.exp(share[k] - top) if share[k] > -np.inf else 0.0
        total += share[k]
    return total


@inner
def weigh(n, labels, prevalence, likelihood, factor, start, neighbour, share):
    """Write the weights of item n given its neighbours into ``share`` (k,); return their sum."""
    row = min(n, likelihood.shape[0] - 1)  # of one row for all items, that one
    for k in range(share.size):
        share[k] = prevalence[k] * likelihood[row, k]
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
def choose(share, total, u):
    """Return the class that a uniform number falls into."""
    left, up_to, label = u * total, 0.0, 0
    for k in range(share.size - 1):  # no branch, which the processor could only guess
        up_to += share[k]
        label += up_to <= left
    return label


@kernel
def gibbs_sweep(labels, prevalence, likelihood, coupling, start, neighbour, weight, order, seed):
    """Draw, in place, the label of every item given its neighbours, in the order given.

    Any order leaves the density invariant. An order by colour, in which items do not follow a
    neighbour, is faster: successive items do not depend on each other.
    """
    factor = factors(coupling, start, weight, prevalence.size)
    graph = coupling, start, neighbour, weight, factor
    sweep_range(labels, prevalence, likelihood, graph, order, seed, 0, order.size)


@kernel
def gibbs_part(labels, prevalence, likelihood, graph, order, seed, first, last):
    """Sweep over the items from ``first`` to before ``last`` of the order alone.

    Items of one colour may be swept by several threads: none depends on another. The draws are
    those of :func:`gibbs_sweep`. ``graph`` is its four arguments and their :func:`sweep_factors`.
    """
    sweep_range(labels, prevalence, likelihood, graph, order, seed, first, last)


@kernel
def sweep_factors(coupling, start, weight, n_classes):
    """Return what :func:`gibbs_part` takes for ``factor``."""
    return factors(coupling, start, weight, n_classes)


@inner
def factors(coupling, start, weight, n_classes):
    """Return factors of a neighbour's class: by entry of the graph's rows or one for all.

    For two classes and equal weights, odds by twice the neighbours in class 1 minus all. None where
    exponentials would overflow.
    """
    if strongest(coupling, start, weight) > LARGEST:
        return np.empty(0)
    if n_classes > 2 or weight.size > 1 or weight.size == 0:
        return pull(coupling, weight)
    most = 0
    for n in range(start.size - 1):
        most = max(most, start[n + 1] - start[n])
    odds = np.empty(2 * most + 1)
    for j in range(odds.size):
        odds[j] = math.exp(coupling * weight[0] * (j - most))
    return odds


@inner
def sweep_range(labels, prevalence, likelihood, graph, order, seed, first, last):
    """Sweep over a range of the order."""
    coupling, start, neighbour, weight, factor = graph
    if prevalence.size == 2 and weight.size == 1 and factor.size > 0:
        rows = start, neighbour, factor, order
        sweep_two(labels, prevalence, likelihood, *rows, seed, first, last)
        return
    share = np.empty(prevalence.size)
    for i in range(first, last):
        n = order[i]
        if factor.size == 0:
            total = log_weigh(
                n, labels, prevalence, likelihood, coupling, start, neighbour, weight, share
            )
        else:
            total = weigh(n, labels, prevalence, likelihood, factor, start, neighbour, share)
        labels[n] = choose(share, total, uniform(seed, i))


@inner
def sweep_two(labels, prevalence, likelihood, start, neighbour, odds, order, seed, begin, end):
    """Sweep for two classes and equal weights, by a table instead of products over neighbours."""
    most = (odds.size - 1) // 2
    for i in range(begin, end):
        n = order[i]
        first, last = start[n], start[n + 1]
        ones = 0
        for e in range(first, last):
            ones += labels[neighbour[e]]
        zero = prevalence[0] * likelihood[n, 0]
        one = prevalence[1] * likelihood[n, 1] * odds[2 * ones - (last - first) + most]
        labels[n] = uniform(seed, i) * (zero + one) >= zero


@kernel
def agreement(labels, start, neighbour, weight):
    """Sum the weights of the edges whose items have one label."""
    total, one = 0.0, weight.size == 1
    for n in range(labels.size):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n and labels[m] == labels[n]:
                total += weight[0 if one else e]
    return total


@kernel
def conditionals(labels, prevalence, likelihood, log_scale, coupling, start, neighbour, weight):
    """Return p(label n | labels of its neighbours, responses), (items, classes), and evidence.

    The evidence (items,) is the log probability of the responses to n given its neighbours' labels.
    """
    n_items, n_classes = likelihood.shape
    probability, log_evidence = np.empty((n_items, n_classes)), np.empty(n_items)
    share, flat = np.empty(n_classes), np.ones((1, n_classes))
    log_scaled = strongest(coupling, start, weight) > LARGEST
    factor = pull(coupling, weight) if not log_scaled else np.empty(0)
    for n in range(n_items):
        if log_scaled:
            before = log_weigh(
                n, labels, prevalence, flat, coupling, start, neighbour, weight, share
            )
        else:
            before = weigh(n, labels, prevalence, flat, factor, start, neighbour, share)
        total = 0.0
        for k in range(n_classes):
            value = share[k] * likelihood[n, k]
            probability[n, k] = value
            total += value
        log_evidence[n] = log_scale[n] - np.inf
        if total > 0.0:
            log_evidence[n] = log_scale[n] + math.log(total / before)
            for k in range(n_classes):
                probability[n, k] /= total
    return probability, log_evidence


@kernel
def iterate_modes(labels, prevalence, likelihood, coupling, start, neighbour, weight, most):
    """Set the label of every item, in place, to its conditional mode until none changes.

    Iterated conditional modes (Besag 1986, Journal of the Royal Statistical Society B 48,
    259–302): every change raises the joint probability. Returns the number of passes.
    """
    n_items, n_classes = likelihood.shape
    score = np.empty(n_classes)
    one = weight.size == 1
    for sweep in range(most):
        changed = False
        for n in range(n_items):
            for k in range(n_classes):
                value = prevalence[k] * likelihood[n, k]
                score[k] = math.log(value) if value > 0.0 else -np.inf
            for e in range(start[n], start[n + 1]):
                score[labels[neighbour[e]]] += coupling * weight[0 if one else e]
            best = labels[n]
            for k in range(n_classes):
                if score[k] > score[best]:
                    best = k
            changed |= best != labels[n]
            labels[n] = best
        if not changed:
            return sweep + 1
    return most


@kernel
def begin(prevalence, likelihood, seed):
    """Draw labels without the edges."""
    n_items, n_classes = likelihood.shape
    labels, share = np.empty(n_items, dtype=np.int32), np.empty(n_classes)
    for n in range(n_items):
        total = 0.0
        for k in range(n_classes):
            share[k] = prevalence[k] * likelihood[n, k]
            total += share[k]
        labels[n] = choose(share, total, uniform(seed, n))
    return labels


@kernel
def impossible(likelihood):
    """Say whether some item has no possible class."""
    for n in range(likelihood.shape[0]):
        some = False
        for k in range(likelihood.shape[1]):
            some |= likelihood[n, k] > 0.0
        if not some:
            return True
    return False


@kernel
def soft_agreement(probability, start, neighbour, weight):
    """Return the expected agreement of labels drawn independently with these probabilities."""
    total, one = 0.0, weight.size == 1
    for n in range(probability.shape[0]):
        for e in range(start[n], start[n + 1]):
            m = neighbour[e]
            if m < n:
                same = 0.0
                for k in range(probability.shape[1]):
                    same += probability[n, k] * probability[m, k]
                total += weight[0 if one else e] * same
    return total


@kernel
def breadth_first(start, neighbour):
    """Return the items in breadth-first order."""
    n_items = start.size - 1
    order, seen = np.empty(n_items, dtype=np.int32), np.zeros(n_items, dtype=np.bool_)
    last = 0
    for root in range(n_items):
        if seen[root]:
            continue
        seen[root] = True
        order[last] = root
        first, last = last, last + 1
        while first < last:
            n = order[first]
            first += 1
            for e in range(start[n], start[n + 1]):
                if not seen[neighbour[e]]:
                    seen[neighbour[e]] = True
                    order[last] = neighbour[e]
                    last += 1
    return order

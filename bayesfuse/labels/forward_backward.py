"""Recursions along sequences of labels: forward, backward, drawing, the best path.

They use probabilities, scaled at every step, without exponentials per item and class. A floor keeps
improbable values above zero, so zero always means impossible. Where the floor could matter (the
responses to an item almost exclude all predicted classes, or a class is almost unreachable), the
sequence is repeated in logarithms, which cannot fail. Arrays over classes are padded with zeros to
``width``, a multiple of four, because loops in blocks of four keep their sums in registers. Buffers
have one row per item of the sequence, in order; ``item`` holds the items' positions in the table.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.labels.log_forward_backward import log_backward, log_backward_draw, log_forward
from bayesfuse.numerics.kernels import inlined, inner, kernel
from bayesfuse.numerics.rows import pick

# Relative to the largest of an item: the floor adds 1e-150 / LEAST_SCALE of the mass, an error of
# 1e-20 relative to predicted probabilities of LEAST_PREDICTED, below rounding.
FLOOR = 1e-150
LOG_FLOOR = math.log(FLOOR)
LEAST_SCALE = 1e-30
LEAST_PREDICTED = 1e-100


@kernel
def padded(log_transition):
    """Return exp of square matrices with the floor, transposed (p, classes, width); keep zeros."""
    n_populations, n_classes, _ = log_transition.shape
    shape = n_populations, n_classes, (n_classes + 3) // 4 * 4
    rows, transposed = np.zeros(shape), np.zeros(shape)
    for p in range(n_populations):
        for k in range(n_classes):
            for j in range(n_classes):
                if log_transition[p, k, j] > -np.inf:
                    rows[p, k, j] = math.exp(max(log_transition[p, k, j], LOG_FLOOR))
                    transposed[p, j, k] = rows[p, k, j]
    return rows, transposed


@inner
def multiply(vectors, t, matrix, result, u):
    """Write ``vectors[t] @ matrix`` into ``result[u]``; the matrix is (classes, width)."""
    n_rows, width = matrix.shape
    first = vectors[t, 0]
    for j in range(width):
        result[u, j] = first * matrix[0, j]
    k = 1
    while k + 2 <= n_rows:
        one, two = vectors[t, k], vectors[t, k + 1]
        for j in range(width):
            result[u, j] += one * matrix[k, j] + two * matrix[k + 1, j]
        k += 2
    if k < n_rows:
        one = vectors[t, k]
        for j in range(width):
            result[u, j] += one * matrix[k, j]


@inlined
def out_of_reach(filtered, predicted, t, transition):
    """Whether some possible class has almost no predicted probability."""
    for j in range(transition.shape[0]):
        if predicted[t, j] < LEAST_PREDICTED:
            for k in range(transition.shape[0]):
                if filtered[t - 1, k] > 0.0 and transition[k, j] > 0.0:
                    return True
    return False


@inlined
def weigh(predicted, filtered, t, likelihood, n):
    """Multiply predicted probabilities by the likelihood of item n, relative to its largest entry.

    Writes ``filtered[t]``; returns its sum and the largest entry. Possible classes stay above zero.
    """
    top, total = 0.0, 0.0
    for k in range(likelihood.shape[1]):
        top = max(top, likelihood[n, k])
    for k in range(likelihood.shape[1]):
        weight = max(likelihood[n, k] / top, FLOOR) if likelihood[n, k] > 0.0 else 0.0
        filtered[t, k] = predicted[t, k] * weight
        total += filtered[t, k]
    return total, top


@kernel
def forward(log_initial, transition, likelihood, item, filtered, predicted):
    """Filter: ``p(label t | responses before t)`` and ``p(label t | responses up to t)``.

    Returns the log evidence of the sequence, and whether it is accurate.
    """
    n_classes = transition.shape[0]
    log_evidence, scale = 0.0, 1.0
    for t in range(item.size):
        if t == 0:
            for k in range(n_classes):
                predicted[0, k] = math.exp(log_initial[k])
                if predicted[0, k] < LEAST_PREDICTED and log_initial[k] > -np.inf:
                    return 0.0, False
        else:
            multiply(filtered, t - 1, transition, predicted, t)
            least = 1.0
            for j in range(n_classes):
                least = min(least, predicted[t, j])
            if least < LEAST_PREDICTED and out_of_reach(filtered, predicted, t, transition):
                return 0.0, False
        n = item[t]
        total, least = 0.0, 1.0
        for k in range(n_classes):
            value = predicted[t, k] * likelihood[n, k]
            filtered[t, k] = value
            total += value
            least = min(least, value)
        if least < FLOOR or total < LEAST_SCALE:
            total, top = weigh(predicted, filtered, t, likelihood, n)
            if top == 0.0:
                return -np.inf, True
            if total < LEAST_SCALE:
                return 0.0, False
            log_evidence += math.log(top)
        share = 1.0 / total
        for k in range(n_classes):
            filtered[t, k] *= share
        scale *= total
        if not LEAST_SCALE < scale < 1.0 / LEAST_SCALE:  # one logarithm for many items
            log_evidence += math.log(scale)
            scale = 1.0
    return log_evidence + math.log(scale), True


@inlined
def backward(transposed, item, filtered, predicted, probability, pairs):
    """Smooth: write ``p(label t | all responses)`` into ``probability``, and add up pairs.

    ``pairs`` (classes, width) lacks the factor ``transition``; ``predicted`` is overwritten.
    """
    n_classes, width = transposed.shape
    now, here = np.empty((1, width)), np.int64(0)  # a literal would be compiled once more
    last = item.size - 1
    for k in range(n_classes):
        now[0, k] = filtered[last, k]
    for t in range(last, -1, -1):
        n = item[t]
        for k in range(n_classes):
            probability[n, k] = now[0, k]
        if t == 0:
            break
        for j in range(n_classes):
            # impossible classes are zero for any divisor
            predicted[t, j] = now[0, j] / max(predicted[t, j], LEAST_PREDICTED)
        multiply(predicted, t, transposed, now, here)
        for k in range(n_classes):
            now[0, k] *= filtered[t - 1, k]
    add_pairs(filtered, predicted, last, pairs)


@inlined
def add_pairs(filtered, ratio, size, pairs):
    """Add the products of ``filtered[t, k]`` and ``ratio[t + 1, j]`` over t to ``pairs[k, j]``."""
    n_classes, width = pairs.shape
    t = 0
    while t + 4 <= size:  # four at a time, because each pass reads and writes all pairs
        for k in range(n_classes):
            f0, f1, f2, f3 = (
                filtered[t, k],
                filtered[t + 1, k],
                filtered[t + 2, k],
                filtered[t + 3, k],
            )
            for j in range(width):
                pairs[k, j] += (
                    f0 * ratio[t + 1, j]
                    + f1 * ratio[t + 2, j]
                    + f2 * ratio[t + 3, j]
                    + f3 * ratio[t + 4, j]
                )
        t += 4
    while t < size:
        for k in range(n_classes):
            f0 = filtered[t, k]
            for j in range(width):
                pairs[k, j] += f0 * ratio[t + 1, j]
        t += 1


@inlined
def backward_draw(transposed, item, filtered, uniform, labels):
    """Draw the labels from the last to the first, each given the next."""
    n_classes = transposed.shape[0]
    weight = np.empty(n_classes)
    following = -1
    for t in range(item.size - 1, -1, -1):
        total = 0.0
        for k in range(n_classes):
            weight[k] = filtered[t, k]
            if following >= 0:
                weight[k] *= transposed[following, k]
            total += weight[k]
        following = pick(weight, uniform[item[t]] * total)
        labels[item[t]] = following


@inner
def longest(start):
    """Return the length of the longest sequence."""
    most = np.int64(0)
    for s in range(start.size - 1):
        most = max(most, start[s + 1] - start[s])
    return most


@inlined
def buffers(start, n_classes):
    """Return two arrays of zeros for the longest sequence, (items, width)."""
    shape = longest(start), (n_classes + 3) // 4 * 4
    return np.zeros(shape), np.zeros(shape)


@inlined
def filter_any(log_initial, log_transition, transition, likelihood, item, filtered, predicted):
    """Filter by :func:`forward`, or by :func:`log_forward` where that is inaccurate.

    Returns the log evidence of the sequence, and whether :func:`forward` was accurate.
    """
    log_evidence, safe = forward(log_initial, transition, likelihood, item, filtered, predicted)
    if not safe:
        log_evidence = log_forward(
            log_initial, log_transition, likelihood, item, filtered, predicted
        )
    return log_evidence, safe


@inlined
def by_population(log_initial, log_transition):
    """Return both tables with a first axis of populations."""
    n_classes = log_transition.shape[-1]
    initials = np.ascontiguousarray(log_initial).reshape(-1, n_classes)
    return initials, np.ascontiguousarray(log_transition).reshape(-1, n_classes, n_classes)


@kernel
def marginal(
    log_initial, log_transition, likelihood, log_scale, place, start, of=None, evidence=None
):
    """Sum the labels out of all sequences.

    Sequence s is of population ``of[s]``, which has tables of its own; without ``of`` there is one.
    ``evidence`` (n, k) multiplies the likelihood. Returns total, log evidence (sequences,),
    probability (n, k), and the expected counts of both tables.
    """
    emission = likelihood if evidence is None else likelihood * evidence
    n_items, n_classes = emission.shape
    initials, transitions = by_population(log_initial, log_transition)
    transition, transposed = padded(transitions)
    total, log_evidence = 0.0, np.empty(start.size - 1)
    probability, pairs = np.zeros((n_items, n_classes)), np.zeros(transition.shape)
    initial_counts, transition_counts = np.zeros(initials.shape), np.zeros(transitions.shape)
    filtered, predicted = buffers(start, n_classes)
    for s in range(start.size - 1):
        p = 0 if of is None else of[s]
        item = place[start[s] : start[s + 1]]
        log_evidence[s], safe = filter_any(
            initials[p], transitions[p], transition[p], emission, item, filtered, predicted
        )
        if log_evidence[s] > -np.inf:
            if safe:
                backward(transposed[p], item, filtered, predicted, probability, pairs[p])
            else:
                log_backward(
                    transitions[p], item, filtered, predicted, probability, transition_counts[p]
                )
            for k in range(n_classes):
                initial_counts[p, k] += probability[item[0], k]
            for n in item:
                log_evidence[s] += log_scale[n]
        total += log_evidence[s]
    for p in range(len(transition_counts)):
        for k in range(n_classes):
            for j in range(n_classes):
                transition_counts[p, k, j] += transition[p, k, j] * pairs[p, k, j]
    counts = (
        initial_counts.reshape(log_initial.shape),
        transition_counts.reshape(log_transition.shape),
    )
    return total, log_evidence, probability, counts[0], counts[1]


@kernel
def draw_labels(
    log_initial, log_transition, likelihood, uniform, place, start, of=None, evidence=None
):
    """Draw all labels from their joint posterior; −1 in impossible sequences."""
    emission = likelihood if evidence is None else likelihood * evidence
    initials, transitions = by_population(log_initial, log_transition)
    transition, transposed = padded(transitions)
    labels = np.empty(place.size, dtype=np.int64)
    filtered, predicted = buffers(start, emission.shape[1])
    for s in range(start.size - 1):
        p = 0 if of is None else of[s]
        item = place[start[s] : start[s + 1]]
        log_evidence, safe = filter_any(
            initials[p], transitions[p], transition[p], emission, item, filtered, predicted
        )
        if log_evidence == -np.inf:
            for n in item:
                labels[n] = -1
        elif safe:
            backward_draw(transposed[p], item, filtered, uniform, labels)
        else:
            log_backward_draw(transitions[p], item, filtered, uniform, labels)
    return labels


@kernel
def decode(log_initial, log_transition, likelihood, place, start, of=None, evidence=None):
    """Find the most probable path of every sequence (Viterbi); −1 in impossible sequences."""
    emission = likelihood if evidence is None else likelihood * evidence
    initials, transitions = by_population(log_initial, log_transition)
    n_items, n_classes = emission.shape
    labels = np.empty(n_items, dtype=np.int64)
    came_from = np.empty((longest(start), n_classes), dtype=np.int64)
    best, previous = np.empty(n_classes), np.empty(n_classes)
    for s in range(start.size - 1):
        p = 0 if of is None else of[s]
        item = place[start[s] : start[s + 1]]
        for k in range(n_classes):
            best[k] = initials[p, k] + math.log(emission[item[0], k])
        for t in range(1, item.size):
            for k in range(n_classes):
                previous[k] = best[k]
            for j in range(n_classes):
                top, where = -np.inf, 0
                for k in range(n_classes):
                    value = previous[k] + transitions[p, k, j]
                    if value > top:
                        top, where = value, k
                came_from[t, j] = where
                best[j] = top + math.log(emission[item[t], j])
        label = np.argmax(best)
        possible = best[label] > -np.inf
        for t in range(item.size - 1, -1, -1):
            labels[item[t]] = label if possible else -1
            if t > 0:
                label = came_from[t, label]
    return labels


@kernel
def count(labels, initial_counts, transition_counts, place, start, of=None):
    """Write the numbers of first labels (k,) and of pairs of neighbours (k, k), by population."""
    first, pairs = by_population(initial_counts, transition_counts)
    first[:], pairs[:] = 0.0, 0.0
    for s in range(start.size - 1):
        p = 0 if of is None else of[s]
        label = labels[place[start[s]]]
        first[p, label] += 1.0
        for t in range(start[s] + 1, start[s + 1]):
            after = labels[place[t]]
            pairs[p, label, after] += 1.0
            label = after

"""Kernels of :class:`bayesfuse.Consensus`: the types of items, and who looked, given responses.

``types`` (3, types) holds the first answer, the second (−1 if there is none) and the setting of
every type; ``values`` (settings, 3) the log probabilities of the first, the second and every other
answer.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import share_out


@inner
def prepare(log_competence, log_guess, values):
    """Return log probabilities by cell: of no, then (as differences) first and second answers."""
    n_raters, n_answers = log_guess.shape
    n_settings = values.shape[0]
    table = np.zeros((n_raters * n_answers, 3 * n_settings))
    for m in range(n_raters):
        looks = math.exp(log_competence[m, 0])
        for c in range(n_answers):
            row, guess = m * n_answers + c, math.exp(log_competence[m, 1] + log_guess[m, c])
            for s in range(n_settings):
                rest = looks * math.exp(values[s, 2]) + guess
                if rest > 0.0:
                    table[row, s] = math.log(rest)
                    for role in range(2):
                        own = looks * math.exp(values[s, role]) + guess
                        table[row, (role + 1) * n_settings + s] = math.log(own / rest)
                else:  # who never looks never guesses c
                    table[row, s] = -np.inf
    return table


@inner
def weigh(weight, lead, table, cell, begin, end, types):
    """Multiply the responses to an item by type (1, types); return the log of what divided them.

    ``lead`` (classes + 1, 2 settings) is for sums by answer; its last row is of all answers.
    """
    first, second, setting = types[0], types[1], types[2]
    n_classes, n_settings = lead.shape[0] - 1, lead.shape[1] // 2
    for k in range(n_classes + 1):
        for s in range(2 * n_settings):
            lead[k, s] = 0.0
    for r in range(begin, end):
        row = np.int64(cell[r])
        c = row % n_classes
        for s in range(n_settings):
            lead[n_classes, s] += table[row, s]
        for s in range(2 * n_settings):
            lead[c, s] += table[row, n_settings + s]
    for z in range(types.shape[1]):
        s = setting[z]
        weight[0, z] = lead[n_classes, s] + lead[first[z], s]
        if second[z] >= 0:
            weight[0, z] += lead[second[z], n_settings + s]
    return rescale(weight, 0)


@inner
def looked_share(log_competence, log_guess, row, z, types, values):
    """Return the probability that a rater who gave this answer to an item of type z looked."""
    n_answers = log_guess.shape[1]
    m, c = row // n_answers, row % n_answers
    role = 0 if c == types[0, z] else (1 if c == types[1, z] else 2)
    looks = math.exp(log_competence[m, 0] + values[types[2, z], role])
    total = looks + math.exp(log_competence[m, 1] + log_guess[m, c])
    return looks / total if total > 0.0 else 0.0


@kernel
def likelihood(log_share, log_competence, log_guess, start, cell, gold, kind, types, values):
    """Sum over the types of every class: (items, classes), and the rows' log scale."""
    _, n_classes, n_types = log_share.shape
    table = prepare(log_competence, log_guess, values)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    lead = np.empty((n_classes + 1, 2 * values.shape[0]))
    found, log_scale = np.zeros((gold.size, n_classes)), np.empty(gold.size)
    for n in range(gold.size):
        log_scale[n] = weigh(weight, lead, table, cell, start[n], start[n + 1], types)
        known = 1 if gold[n] >= 0 else 0
        for k in range(n_classes):
            if known == 0 or gold[n] == k:
                for z in range(n_types):
                    found[n, k] += share[known, k, z] * weight[0, z]
    return found, log_scale


@inner
def divide(number, share, weight, rng, joint, parts):
    """Divide items of a class among the types, in ``parts``; ``joint`` is overwritten."""
    total = 0.0
    for z in range(weight.size):
        joint[z] = share[z] * weight[z]
        total += joint[z]
    share_out(number, joint, total, rng, parts)


@inlined
def is_blank(by_kind, gold, first, last):
    """Whether an item is left out of the counts by kind, for want of responses and a class.

    Its type would be drawn from the prior, and parameters drawn given it would only move less.
    """
    return by_kind.shape[1] > 0 and gold < 0 and first == last


@inlined
def count_given(log_share, log_competence, log_guess, given, by_kind, rng, structure):
    """Divide items among types, and responses by look or guess; ``given`` is (items, classes)."""
    start, cell, gold, kind, types, values = structure
    _, n_classes, n_types = log_share.shape
    table = prepare(log_competence, log_guess, values)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    lead = np.empty((n_classes + 1, 2 * values.shape[0]))
    by_class, of_type = np.zeros(log_share.shape), np.empty(n_types)
    joint, parts = np.empty(n_types), np.empty(n_types)
    looked, guessed = np.zeros(log_competence.shape), np.zeros(log_guess.shape)
    for n in range(gold.size):
        if is_blank(by_kind, gold[n], start[n], start[n + 1]):
            continue
        weigh(weight, lead, table, cell, start[n], start[n + 1], types)
        known = 1 if gold[n] >= 0 else 0
        for z in range(n_types):
            of_type[z] = 0.0
        for k in range(n_classes):
            if given[n, k] != 0.0:
                divide(given[n, k], share[known, k], weight[0], rng, joint, parts)
                for z in range(n_types):
                    by_class[known, k, z] += parts[z]
                    of_type[z] += parts[z]
        for z in range(n_types):
            if of_type[z] == 0.0:
                continue
            if by_kind.shape[1] > 0:
                by_kind[known, kind[n], z] += of_type[z]
            for r in range(start[n], start[n + 1]):
                row = np.int64(cell[r])
                m, c = row // n_classes, row % n_classes
                part = looked_share(log_competence, log_guess, row, z, types, values)
                if rng is None:
                    own_part = part * of_type[z]
                else:
                    own_part = np.float64(rng.binomial(np.int64(of_type[z]), part))
                looked[m, 0] += own_part
                looked[m, 1] += of_type[z] - own_part
                guessed[m, c] += of_type[z] - own_part
    return by_class, looked, guessed


@kernel
def expected(log_share, log_competence, log_guess, given, *structure):
    """Divide the weights of every item and class among the types, and count."""
    none = np.empty((2, 0, log_share.shape[2]))
    return count_given(log_share, log_competence, log_guess, given, none, None, structure)


@kernel
def count_copies(log_share, log_competence, log_guess, copies, by_kind, rng, *structure):
    """Draw the types of items that stand for several, ``copies`` of each class, and who looked."""
    return count_given(log_share, log_competence, log_guess, copies, by_kind, rng, structure)


@kernel
def share_of_types(log_share, log_competence, log_guess, given, *structure):
    """Divide every item among the types, its classes being ``given``: (items, types)."""
    start, cell, gold, _, types, values = structure
    _, n_classes, n_types = log_share.shape
    table = prepare(log_competence, log_guess, values)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    lead = np.empty((n_classes + 1, 2 * values.shape[0]))
    joint, parts = np.empty(n_types), np.empty(n_types)
    found = np.zeros((gold.size, n_types))
    for n in range(gold.size):
        weigh(weight, lead, table, cell, start[n], start[n + 1], types)
        known = 1 if gold[n] >= 0 else 0
        for k in range(n_classes):
            if given[n, k] != 0.0:
                divide(given[n, k], share[known, k], weight[0], None, joint, parts)
                for z in range(n_types):
                    found[n, z] += parts[z]
    return found


@kernel
def draw_types(log_share, log_competence, log_guess, labels, by_kind, rng, *structure):
    """Draw the type of every item (−1 if blank) given its label; count them, by kind, too."""
    start, cell, gold, kind, types, values = structure
    _, n_classes, n_types = log_share.shape
    table = prepare(log_competence, log_guess, values)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    lead = np.empty((n_classes + 1, 2 * values.shape[0]))
    drawn, up_to = np.full(gold.size, -1), np.empty(n_types)
    by_class = np.zeros(log_share.shape)
    for n in range(gold.size):
        uniform = rng.random()
        if is_blank(by_kind, gold[n], start[n], start[n + 1]):
            continue
        weigh(weight, lead, table, cell, start[n], start[n + 1], types)
        known, k, total = 1 if gold[n] >= 0 else 0, labels[n], 0.0
        for z in range(n_types):
            total += share[known, k, z] * weight[0, z]
            up_to[z] = total
        left, z_drawn = uniform * total, 0
        for z in range(n_types - 1):  # branches would be mispredicted
            z_drawn += up_to[z] <= left
        drawn[n] = z_drawn
        by_class[known, k, z_drawn] += 1.0
        if by_kind.shape[1] > 0:
            by_kind[known, kind[n], z_drawn] += 1.0
    return drawn, by_class


@kernel
def count_cells(drawn, start, cell, n_cells, types, n_settings):
    """Count responses by cell and by role and setting of the type: (cells, 3 settings)."""
    n_classes = types[0].max() + 1
    found = np.zeros((n_cells, 3 * n_settings))
    for n in range(drawn.size):
        z = drawn[n]
        if z < 0:
            continue
        for r in range(start[n], start[n + 1]):
            row = np.int64(cell[r])
            c = row % n_classes
            role = 0 if c == types[0, z] else (1 if c == types[1, z] else 2)
            found[row, role * n_settings + types[2, z]] += 1.0
    return found

"""Kernels of :class:`bayesfuse.Consensus`: the types of items, and who looked, given responses.

``types`` (3, types) holds the first answer, the second (−1 if there is none) and the setting of
every type; ``values`` (settings, 3) the log probabilities of the first, the second and every other
answer.
"""

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


@inlined
def begin(log_share, log_competence, log_guess, values):
    """Return the table of :func:`prepare`, shares, and scratch for :func:`weigh`."""
    _, n_classes, n_types = log_share.shape
    weight, lead = np.empty((1, n_types)), np.empty((n_classes + 1, 2 * values.shape[0]))
    return prepare(log_competence, log_guess, values), np.exp(log_share), weight, lead


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


@inlined
def role_of(c, z, types):
    """Return whether an answer is the first (0) or second (1) of a type, or another (2)."""
    return 0 if c == types[0, z] else (1 if c == types[1, z] else 2)


@kernel
def likelihood(log_share, log_competence, log_guess, start, cell, gold, kind, types, values):
    """Sum over the types of every class: (items, classes), and the rows' log scale."""
    table, share, weight, lead = begin(log_share, log_competence, log_guess, values)
    n_classes, n_types = share.shape[1:]
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
    table, share, weight, lead = begin(log_share, log_competence, log_guess, values)
    n_classes, n_types = share.shape[1:]
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
                # how probably who gave this answer to an item of type z looked
                looks = math.exp(log_competence[m, 0] + values[types[2, z], role_of(c, z, types)])
                total = looks + math.exp(log_competence[m, 1] + log_guess[m, c])
                part = looks / total if total > 0.0 else 0.0
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
    table, share, weight, lead = begin(log_share, log_competence, log_guess, values)
    n_classes, n_types = share.shape[1:]
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
    """Draw the type of every item given its label, and count types, by kind, too.

    Also count responses by cell, and by role and setting of the type: (cells, 3 settings).
    """
    start, cell, gold, kind, types, values = structure
    table, share, weight, lead = begin(log_share, log_competence, log_guess, values)
    n_types, n_classes, n_settings = share.shape[2], log_guess.shape[1], values.shape[0]
    up_to, by_class = np.empty(n_types), np.zeros(log_share.shape)
    cells = np.zeros((log_guess.size, 3 * n_settings))
    for n in range(gold.size):
        uniform = rng.random()
        if is_blank(by_kind, gold[n], start[n], start[n + 1]):
            continue
        weigh(weight, lead, table, cell, start[n], start[n + 1], types)
        known, k, total = 1 if gold[n] >= 0 else 0, labels[n], 0.0
        for z in range(n_types):
            total += share[known, k, z] * weight[0, z]
            up_to[z] = total
        left, drawn = uniform * total, 0
        for z in range(n_types - 1):  # branches would be mispredicted
            drawn += up_to[z] <= left
        by_class[known, k, drawn] += 1.0
        if by_kind.shape[1] > 0:
            by_kind[known, kind[n], drawn] += 1.0
        for r in range(start[n], start[n + 1]):
            row = np.int64(cell[r])
            role = role_of(row % n_classes, drawn, types)
            cells[row, role * n_settings + types[2, drawn]] += 1.0
    return by_class, cells

"""Kernels of :class:`bayesfuse.build.Consensus`: item types, and looks, given responses.

``types`` (3, types) holds the first answer, the second (−1 if there is none) and the setting of
every type; ``values`` (settings, 3) the log probabilities of the first, the second and every other
answer. Clean types come after these, one per class: answers follow the rows ``log_clean`` of the
raters (raters, clean types, answers), of which there are no or as many types as classes.

Cells after those of answers are of statements: ``stated`` (statements, 1 + answers) holds the rater
and probabilities of hidden answers, as in :class:`bayesfuse.build.Stated`.
"""

import math

import numpy as np

from bayesfuse.numerics.kernels import inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import share_out, split
from bayesfuse.numerics.tables import SMALLEST


@inlined
def role_of(c, z, types):
    """Return whether an answer is the first (0) or second (1) of a type, or another (2)."""
    return 0 if c == types[0, z] else (1 if c == types[1, z] else 2)


@inlined
def column_of(c, z, types, n_settings):
    """Return the column of an answer to items of type z: by role and setting, or clean type."""
    if z < types.shape[1]:
        return role_of(c, z, types) * n_settings + types[2, z]
    return 3 * n_settings + z - types.shape[1]


@inner
def fill_hidden(hidden, statement, z, table, types, n_settings):
    """Fill in how probable a statement and its hidden answers are; return the sum."""
    n_answers, total = hidden.size, 0.0
    for c in range(n_answers):
        row = np.int64(statement[0]) * n_answers + c
        column = column_of(c, z, types, n_settings)
        if column >= 3 * n_settings:
            height = table[row, column]
        else:
            height = table[row, column % n_settings]
            if column < 2 * n_settings:
                height += table[row, n_settings + column]
        hidden[c] = statement[1 + c] * math.exp(height)
        total += hidden[c]
    return total


@inner
def prepare(log_competence, log_guess, log_clean, values, types, stated):
    """Return log probabilities by cell: of other answers, then differences for the first two.

    Last columns are log probabilities by clean type. Those of statements are by type.
    """
    n_raters, n_answers = log_guess.shape
    n_settings, n_clean = values.shape[0], log_clean.shape[1]
    table = np.zeros((n_raters * n_answers, 3 * n_settings + n_clean))
    for m in range(n_raters):
        looks = math.exp(log_competence[m, 0])
        for c in range(n_answers):
            row, guess = m * n_answers + c, math.exp(log_competence[m, 1] + log_guess[m, c])
            for k in range(n_clean):
                table[row, 3 * n_settings + k] = log_clean[m, k, c]
            for s in range(n_settings):
                otherwise = looks * math.exp(values[s, 2]) + guess
                if otherwise > 0.0:
                    table[row, s] = math.log(otherwise)
                    for role in range(2):
                        with_look = looks * math.exp(values[s, role]) + guess
                        table[row, (role + 1) * n_settings + s] = math.log(with_look / otherwise)
                else:  # zero competence and zero guess probability
                    table[row, s] = -np.inf
    by_type = np.empty((stated.shape[0], types.shape[1] + n_clean))
    for i in range(by_type.shape[0]):
        weigh_statement(by_type[i], stated[i], log_competence, log_guess, log_clean, values, types)
    return table, by_type


@inner
def weigh_statement(weight, statement, log_competence, log_guess, log_clean, values, types):
    """Fill in log probabilities of a statement by type, hidden answers summed out."""
    m, stated = np.int64(statement[0]), statement[1:]
    looks, guessed = math.exp(log_competence[m, 0]), 0.0
    n_consensus = types.shape[1]
    for c in range(stated.size):
        guessed += stated[c] * math.exp(log_competence[m, 1] + log_guess[m, c])
    for z in range(n_consensus):
        s, first = types[2, z], stated[types[0, z]]
        second = stated[types[1, z]] if types[1, z] >= 0 else 0.0
        look = first * math.exp(values[s, 0]) + second * math.exp(values[s, 1])
        look += max(1.0 - first - second, 0.0) * math.exp(values[s, 2])
        total = looks * look + guessed
        weight[z] = math.log(total) if total > 0.0 else -np.inf
    for k in range(weight.size - n_consensus):
        total = 0.0
        for c in range(stated.size):
            total += stated[c] * math.exp(log_clean[m, k, c])
        weight[n_consensus + k] = math.log(total) if total > 0.0 else -np.inf


@inlined
def begin(log_share, log_competence, log_guess, log_clean, values, types, stated):
    """Return the tables of :func:`prepare`, shares, and scratch for :func:`weigh`."""
    _, n_classes, n_types = log_share.shape
    weight, lead = np.empty((1, n_types)), np.empty((n_classes + 1, 2 * values.shape[0]))
    tables = prepare(log_competence, log_guess, log_clean, values, types, stated)
    return tables, np.exp(log_share), weight, lead


@inner
def weigh(weight, lead, tables, cell, begin, end, types):
    """Multiply the responses to an item by type (1, types); return the log of the divisor.

    ``lead`` (classes + 1, 2 settings) is for sums by answer; its last row is of all answers.
    """
    table, by_type = tables
    first, second, setting = types[0], types[1], types[2]
    n_classes, n_settings = lead.shape[0] - 1, lead.shape[1] // 2
    n_consensus = types.shape[1]
    n_clean = weight.shape[1] - n_consensus
    for k in range(n_classes + 1):
        for s in range(2 * n_settings):
            lead[k, s] = 0.0
    for z in range(weight.shape[1]):
        weight[0, z] = 0.0
    for r in range(begin, end):
        row = np.int64(cell[r])
        if row >= table.shape[0]:
            for z in range(weight.shape[1]):
                weight[0, z] += by_type[row - table.shape[0], z]
            continue
        c = row % n_classes
        for k in range(n_clean):
            weight[0, n_consensus + k] += table[row, 3 * n_settings + k]
        for s in range(n_settings):
            lead[n_classes, s] += table[row, s]
        for s in range(2 * n_settings):
            lead[c, s] += table[row, n_settings + s]
    for z in range(n_consensus):
        s = setting[z]
        weight[0, z] += lead[n_classes, s] + lead[first[z], s]
        if second[z] >= 0:
            weight[0, z] += lead[second[z], n_settings + s]
    return rescale(weight, 0)


@kernel
def likelihood(log_share, log_competence, log_guess, log_clean, *structure):
    """Sum over the types of every class: (items, classes), and the rows' log scale."""
    start, cell, stated, gold, _, types, values = structure
    tables, share, weight, lead = begin(
        log_share, log_competence, log_guess, log_clean, values, types, stated
    )
    n_classes, n_types = share.shape[1:]
    product, log_scale = np.zeros((gold.size, n_classes)), np.empty(gold.size)
    for n in range(gold.size):
        log_scale[n] = weigh(weight, lead, tables, cell, start[n], start[n + 1], types)
        known = 1 if gold[n] >= 0 else 0
        for k in range(n_classes):
            if known == 0 or gold[n] == k:
                for z in range(n_types):
                    product[n, k] += share[known, k, z] * weight[0, z]
    return product, log_scale


@inner
def divide(number, share, weight, rng, joint, parts):
    """Divide items among types, in ``parts``; ``joint`` is overwritten."""
    total = 0.0
    for z in range(weight.size):
        joint[z] = share[z] * weight[z]
        total += joint[z]
    if rng is None:
        share_out(number, joint, total, None, parts)
    elif number == 1:
        left, up_to, drawn = rng.random() * total, 0.0, 0
        for z in range(weight.size - 1):  # branches would be mispredicted
            up_to += joint[z]
            drawn += up_to <= left
        parts[:] = 0.0
        parts[drawn] = 1.0
    else:
        split(number, joint, total, rng, parts)


@inner
def note_hidden(number, z, statement, types, cells, table, n_settings, rng):
    """Count the hidden answers of a statement on items of type z, drawn by an ``rng``."""
    n_answers = statement.size - 1
    hidden, parts = np.empty(n_answers), np.empty(n_answers)
    total = fill_hidden(hidden, statement, z, table, types, n_settings)
    if total == 0.0:
        return
    share_out(number, hidden, total, rng, parts)
    for c in range(n_answers):
        row = np.int64(statement[0]) * n_answers + c
        cells[row, column_of(c, z, types, n_settings)] += parts[c]


@inlined
def note(number, z, responses, types, cells, table, n_settings, n_classes, rng):
    """Count the responses to items of type z by cell, and by role and setting of the type.

    ``responses`` are the first to an item, that after its last, the cells of all, and statements.
    """
    begin, end, cell, stated = responses
    for r in range(begin, end):
        row = np.int64(cell[r])
        if row < cells.shape[0]:
            cells[row, column_of(row % n_classes, z, types, n_settings)] += number
        else:
            statement = stated[row - cells.shape[0]]
            note_hidden(number, z, statement, types, cells, table, n_settings, rng)


@kernel
def count_types(log_share, log_competence, log_guess, log_clean, labels, by_kind, rng, *structure):
    """Divide items, of classes (items,) or numbers by class, among types; count these by kind, too.

    Also count responses as :func:`note` does, (cells, 3 settings + clean types).
    """
    start, cell, stated, gold, kind, types, values = structure
    tables, share, weight, lead = begin(
        log_share, log_competence, log_guess, log_clean, values, types, stated
    )
    n_settings = values.shape[0]
    n_classes, n_types = share.shape[1:]
    by_class, of_type = np.zeros(log_share.shape), np.empty(n_types)
    joint, parts = np.empty(n_types), np.empty(n_types)
    cells = np.zeros((log_guess.size, tables[0].shape[1]))
    for n in range(gold.size):
        weigh(weight, lead, tables, cell, start[n], start[n + 1], types)
        known = 1 if gold[n] >= 0 else 0
        # Where neither responses nor a class are known, the type is drawn from the prior, and
        # parameters drawn given it would only move less.
        blank = rng is not None and by_kind.shape[1] > 0 and not known and start[n] == start[n + 1]
        of_type[:] = 0.0
        for k in range(n_classes):
            number = np.float64(labels[n] == k) if labels.ndim == 1 else labels[n, k]
            if number == 0.0:
                continue
            divide(number, share[known, k], weight[0], rng, joint, parts)
            if not blank:
                for z in range(n_types):
                    by_class[known, k, z] += parts[z]
                    of_type[z] += parts[z]
        for z in range(n_types):
            if of_type[z] != 0.0:
                if by_kind.shape[1] > 0:
                    by_kind[known, kind[n], z] += of_type[z]
                responses = start[n], start[n + 1], cell, stated
                note(of_type[z], z, responses, types, cells, tables[0], n_settings, n_classes, rng)
    return by_class, cells


@kernel
def look(cells, log_competence, log_guess, values, rng):
    """Divide responses, as :func:`note` counts them, by look (raters, 2) and guess."""
    n_classes, n_settings = log_guess.shape[1], values.shape[0]
    looked, guessed = np.zeros(log_competence.shape), np.zeros(log_guess.shape)
    for row in range(cells.shape[0]):
        m, c = row // n_classes, row % n_classes
        guess = math.exp(log_competence[m, 1] + log_guess[m, c])
        for i in range(3 * n_settings):
            number = cells[row, i]
            if number == 0.0:
                continue
            by_look = math.exp(log_competence[m, 0] + values[i % n_settings, i // n_settings])
            part = by_look / max(by_look + guess, SMALLEST)
            if rng is None:
                looked_part = number * part
            elif number == 1.0:
                looked_part = np.float64(rng.random() < part)
            else:
                looked_part = np.float64(rng.binomial(np.int64(number), part))
            looked[m, 0] += looked_part
            looked[m, 1] += number - looked_part
            guessed[m, c] += number - looked_part
    return looked, guessed


@kernel
def count_clean(cells, log_clean):
    """Return the counts of :func:`note` for clean types, (raters, clean types, answers)."""
    n_raters, n_clean, n_classes = log_clean.shape
    first, counts = cells.shape[1] - n_clean, np.empty(log_clean.shape)
    for m in range(n_raters):
        for k in range(n_clean):
            for c in range(n_classes):
                counts[m, k, c] = cells[m * n_classes + c, first + k]
    return counts


@kernel
def expected(log_share, log_competence, log_guess, log_clean, labels, *structure):
    """Divide the weights of every item and class among the types, and count."""
    none = np.empty((2, 0, log_share.shape[2]))
    by_class, cells = count_types(
        log_share, log_competence, log_guess, log_clean, labels, none, None, *structure
    )
    looked, guessed = look(cells, log_competence, log_guess, structure[-1], None)
    return by_class, looked, guessed, count_clean(cells, log_clean)


@kernel
def likelihood_of_type(log_competence, log_guess, start, cell, gold, class_of_type, types, values):
    """Return p(responses, known class | type), (items, types), and the rows' log scale."""
    n_classes, n_types = log_guess.shape[1], types.shape[1]
    no_clean = np.empty((log_guess.shape[0], 0, n_classes))
    none = np.empty((0, n_classes + 1))
    tables = prepare(log_competence, log_guess, no_clean, values, types, none)
    weight, lead = np.empty((1, n_types)), np.empty((n_classes + 1, 2 * values.shape[0]))
    product, log_scale = np.empty((gold.size, n_types)), np.empty(gold.size)
    for n in range(gold.size):
        log_scale[n] = weigh(weight, lead, tables, cell, start[n], start[n + 1], types)
        for z in range(n_types):
            product[n, z] = weight[0, z]
            if gold[n] >= 0:
                product[n, z] *= class_of_type[z, gold[n]]
    return product, log_scale


@kernel
def cells_of_types(drawn, shape, start, cell, gold, class_of_type, types, values):
    """Count responses as :func:`note` does, given types (items,) or their weights (items, types).

    ``shape`` holds the numbers of raters and classes; types may be numbered on from ``types``.
    """
    n_types, n_settings = types.shape[1], values.shape[0]
    cells = np.zeros((shape[0] * shape[1], 3 * n_settings))
    none = np.empty((0, 1))  # statements, which :class:`ConsensusOfType` does not take
    for n in range(gold.size):
        responses = start[n], start[n + 1], cell, none
        if drawn.ndim == 1:
            z = np.int64(drawn[n]) % n_types
            note(1.0, z, responses, types, cells, none, n_settings, shape[1], None)
        else:
            for z in range(n_types):
                if drawn[n, z] > 0.0:
                    number = drawn[n, z]
                    note(number, z, responses, types, cells, none, n_settings, shape[1], None)
    return cells


@kernel
def expected_of_type(log_competence, log_guess, weight, *structure):
    """Count looks and guesses expected at weights of types (items, types)."""
    cells = cells_of_types(weight, log_guess.shape, *structure)
    return look(cells, log_competence, log_guess, structure[-1], None)

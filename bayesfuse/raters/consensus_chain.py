"""A compiled chain of :class:`bayesfuse.Consensus` over independent labels.

Labels are summed out, which the stepwise sweeps condition on: given the parameters the types of
items are drawn at once, and only known classes say more of them. Types in turn with their shares,
and looks in turn with competences, guesses and what is above these, are drawn several times.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import clear, exponentials, fill, inner, kernel
from bayesfuse.numerics.rows import draw_rows, split
from bayesfuse.numerics.tables import SMALLEST, draw_pooled
from bayesfuse.raters.consensus_kernels import prepare, weigh

OF_TYPES, OF_LOOKS = 10, 5
"""Rounds of types and their shares, and of looks, competences and guesses, in a sweep."""

TRUST_STEPS, STRIDE = 5, 0.3
"""Metropolis steps of the trust in a sweep, and their standard deviation in logarithms."""


@inner
def say(said, log_rows, trust):
    """Write what every consensus row says of the class: (types, classes)."""
    n_types, n_classes = log_rows.shape
    for z in range(n_types):
        top, total = -np.inf, 0.0
        for k in range(n_classes):
            top = max(top, log_rows[z, k])
        for k in range(n_classes):
            said[z, k] = math.exp(trust * (log_rows[z, k] - top))
            total += said[z, k]
        for k in range(n_classes):
            said[z, k] = max(said[z, k] / total, SMALLEST)


@inner
def _trust_density(known, said, log_trust, mean, sd):
    found = -0.5 * ((log_trust - mean) / sd) ** 2
    for z in range(known.shape[0]):
        for k in range(known.shape[1]):
            if known[z, k] > 0.0:
                found += known[z, k] * math.log(said[z, k])
    return found


@inner
def _draw_trust(trust, known, said, log_rows, mean, sd, rng):
    """Move the logarithm of the trust given the types of items of known class."""
    if known.sum() == 0.0:
        trust[0] = math.exp(mean + sd * rng.standard_normal())
        say(said, log_rows, trust[0])
        return
    now, other = math.log(trust[0]), np.empty(said.shape)
    height = _trust_density(known, said, now, mean, sd)
    for _ in range(TRUST_STEPS):
        proposed = now + STRIDE * rng.standard_normal()
        say(other, log_rows, math.exp(proposed))
        there = _trust_density(known, other, proposed, mean, sd)
        if math.log(1.0 - rng.random()) < there - height:
            now, height = proposed, there
            fill(said, other)
    trust[0] = math.exp(now)


@inner
def _draw_types(weight, shares, said, data, cells, by_type, known, rng):
    """Draw types (items, types) given their shares, and count items and the cells of responses.

    Items without responses and of unknown class are left out: their types say nothing.
    """
    start, cell, gold, copies, types, n_settings = data
    n_items, n_types = weight.shape
    own, up_to, parts = np.empty(n_types), np.empty(n_types), np.zeros(n_types)
    clear(by_type)
    clear(known)
    clear(cells)
    for n in range(n_items):
        k = gold[n]
        if k < 0 and start[n] == start[n + 1]:
            continue
        total = 0.0
        for z in range(n_types):
            own[z] = shares[z] * weight[n, z]
            if k >= 0:
                own[z] *= said[z, k]
            total += own[z]
            up_to[z] = total
        if copies[n] == 1:
            uniform, first = rng.random() * total, 0
            for z in range(n_types - 1):  # branches would be mispredicted
                first += up_to[z] <= uniform
            last = first + 1
            parts[first] = 1.0
        else:
            split(copies[n], own, total, rng, parts)
            first, last = 0, n_types
        for z in range(first, last):
            if parts[z] == 0.0:
                continue
            by_type[0, z] += parts[z]
            if k >= 0:
                known[z, k] += parts[z]
            for r in range(start[n], start[n + 1] if cells.shape[0] > 0 else start[n]):
                row = np.int64(cell[r])
                c = row % said.shape[1]
                role = 0 if c == types[0, z] else (1 if c == types[1, z] else 2)
                cells[row, role * n_settings + types[2, z]] += parts[z]
            parts[z] = 0.0


@inner
def _draw_looks(cells, values, log_competence, log_guess, looked, guessed, rng):
    """Draw who looked: (raters, 2), and the guesses (raters, answers) of all others."""
    n_answers, n_settings = log_guess.shape[1], values.shape[0]
    clear(looked)
    clear(guessed)
    says = exponentials(values)
    for m in range(log_guess.shape[0]):
        looks = math.exp(log_competence[m, 0])
        for c in range(n_answers):
            row, guess = m * n_answers + c, math.exp(log_competence[m, 1] + log_guess[m, c])
            for role in range(3):
                for s in range(n_settings):
                    number = cells[row, role * n_settings + s]
                    if number == 0.0:
                        continue
                    own = looks * says[s, role]
                    share = own / (own + guess) if own > 0.0 else 0.0
                    if number == 1.0:
                        drawn = 1.0 if rng.random() < share else 0.0
                    else:
                        drawn = float(rng.binomial(np.int64(number), share))
                    looked[m, 0] += drawn
                    looked[m, 1] += number - drawn
                    guessed[m, c] += number - drawn


@kernel
def chain(n_draws, n_sweeps, first, shares, competence, guess, data, values, rng):
    """Make draws, written from ``first`` on unless negative.

    ``shares`` are the log shares (1, types), their prior, the trust (1,), mean and deviation of its
    logarithm (NaN if it is given), log consensus rows, and draws of shares and trust. Competences
    and guesses are log rows, their pool (of guesses none if they are even), and draws of the rows.
    """
    log_share, share_prior, trust, mean, sd, log_rows, kept_shares, kept_trust = shares
    log_competence, pool, kept_competence = competence
    log_guess, guess_pool, kept_guess = guess
    start, cell, gold, copies, types, n_settings = data
    n_types, n_classes = log_rows.shape
    n_raters = log_guess.shape[0]
    weight, lead = np.empty((gold.size, n_types)), np.empty((n_classes + 1, 2 * n_settings))
    said, known = np.empty((n_types, n_classes)), np.zeros((n_types, n_classes))
    by_type, no_cells = np.zeros((1, n_types)), np.empty((0, 3 * n_settings))
    cells = np.empty((n_raters * n_classes, 3 * n_settings))
    looked, guessed = np.empty((n_raters, 2)), np.empty((n_raters, n_classes))
    own_prior, guess_prior = np.ones((n_raters, 2)), np.ones((n_raters, n_classes))
    say(said, log_rows, trust[0])
    for made in range(n_draws):
        for sweep in range(n_sweeps):
            at = first + made if first >= 0 and sweep == n_sweeps - 1 else -1
            table = prepare(log_competence, log_guess, values)
            for n in range(gold.size):
                weigh(weight[n : n + 1], lead, table, cell, start[n], start[n + 1], types)
            for turn in range(OF_TYPES):
                into = cells if turn == OF_TYPES - 1 else no_cells
                own = exponentials(log_share)
                _draw_types(weight, own[0], said, data, into, by_type, known, rng)
                draw_rows(share_prior, by_type, log_share, rng)
            if not math.isnan(sd):
                _draw_trust(trust, known, said, log_rows, mean, sd, rng)
            for turn in range(OF_LOOKS):
                last = at if turn == OF_LOOKS - 1 else -1
                _draw_looks(cells, values, log_competence, log_guess, looked, guessed, rng)
                draw_pooled(pool, looked, own_prior, last, rng)
                draw_rows(own_prior, looked, log_competence, rng)
                if guess_pool is not None:
                    draw_pooled(guess_pool, guessed, guess_prior, last, rng)
                    draw_rows(guess_prior, guessed, log_guess, rng)
        if first >= 0:
            fill(kept_shares[first + made], log_share)
            kept_trust[first + made] = trust[0]
            fill(kept_competence[first + made], log_competence)
            if guess_pool is not None:
                fill(kept_guess[first + made], log_guess)
    return n_draws

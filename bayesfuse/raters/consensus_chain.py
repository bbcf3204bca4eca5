"""A compiled chain of :class:`bayesfuse.build.Consensus`, with independent labels summed out."""

import math

import numpy as np

from bayesfuse.numerics.kernels import clear, exponentials, fill, inner, kernel
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.slice_sampling import slice_from
from bayesfuse.numerics.tables import SMALLEST, draw_pooled
from bayesfuse.parameters.pool import ROUNDS, STRIDE
from bayesfuse.raters.consensus_kernels import count_clean, divide, look, note, prepare, weigh
from bayesfuse.raters.consensus_kinds import draw_kinds, kinds_density, kinds_of, thin_shares

# Draws of looks, competences and guesses in a sweep. Two are enough, because competences are also
# drawn with looks summed out; the interpreted sweep cannot, and has COMPETENCE_ROUNDS.
COLLAPSED_ROUNDS = 2
RANDOM_PAIRS = 0.5  # share of pairs of types at random, not neighbours
WIDTH, MAX_WIDTHS = 4.0, 8  # of slices of log-odds, which are wide where few items are of a type
MIN_PRODUCT = 1e-100  # smaller products are added up as logarithms


@inner
def fill_class_of_type(class_of_type, log_rows, trust):
    """Write the probability of the classes given the type, (types, classes)."""
    n_types, n_classes = log_rows.shape
    for z in range(n_types):
        top, total = -np.inf, 0.0
        for k in range(n_classes):
            top = max(top, log_rows[z, k])
        for k in range(n_classes):
            class_of_type[z, k] = math.exp(trust * (log_rows[z, k] - top))
            total += class_of_type[z, k]
        for k in range(n_classes):
            class_of_type[z, k] = max(class_of_type[z, k] / total, SMALLEST)


@inner
def _trust_density(known, class_of_type, log_trust, mean, sd, log_share, kinds):
    height = -0.5 * ((log_trust - mean) / sd) ** 2
    if kinds is not None:
        height += kinds_density(class_of_type, log_share, kinds)
    for z in range(known.shape[0]):
        for k in range(known.shape[1]):
            if known[z, k] > 0.0:
                height += known[z, k] * math.log(class_of_type[z, k])
    return height


@inner
def _draw_trust(trust, known, class_of_type, log_rows, mean, sd, log_share, kinds, rng):
    """Update the logarithm of the trust given types."""
    if kinds is None and known.sum() == 0.0:
        trust[0] = math.exp(mean + sd * rng.standard_normal())
        fill_class_of_type(class_of_type, log_rows, trust[0])
        return
    now, other = math.log(trust[0]), np.empty(class_of_type.shape)
    height = _trust_density(known, class_of_type, now, mean, sd, log_share, kinds)
    for _ in range(ROUNDS):
        proposed = now + STRIDE * rng.standard_normal()
        fill_class_of_type(other, log_rows, math.exp(proposed))
        there = _trust_density(known, other, proposed, mean, sd, log_share, kinds)
        if math.log(1.0 - rng.random()) < there - height:
            now, height = proposed, there
            fill(class_of_type, other)
    trust[0] = math.exp(now)


@inner
def _log_share(odds):
    """Return the logarithm of a share of these log-odds."""
    return min(odds, 0.0) - math.log1p(math.exp(-abs(odds)))


@inner
def _pair_density(odds, arguments):
    """Return the log density of the log-odds of two shares given their sum, types summed out."""
    share_prior, other_prior, others, slope, copies = arguments
    share = 1.0 / (1.0 + math.exp(-odds))
    height = share_prior * _log_share(odds) + other_prior * _log_share(-odds)
    product = 1.0
    for n in range(others.size):
        likelihood = others[n] + slope[n] * share
        if copies[n] == 1:  # logarithms take longer than products
            product *= likelihood
            if product < MIN_PRODUCT:
                height += math.log(product)
                product = 1.0
        elif copies[n] == -1:  # normalises the shares of types of an item
            product /= likelihood
            if product > 1.0 / MIN_PRODUCT:
                height += math.log(product)
                product = 1.0
        else:
            height += copies[n] * math.log(likelihood)
    return height + math.log(product)


@inner
def _draw_shares(log_share, share_prior, weight, total, copies, others, slope, rng):
    """Draw shares by pairs of types that share their sum; ``total`` (items,) is of all types."""
    n_items, n_types = weight.shape
    for z in range(n_types):
        other = (z + 1) % n_types
        if rng.random() < RANDOM_PAIRS:
            other = (z + rng.integers(1, n_types)) % n_types
        top = max(log_share[0, z], log_share[0, other])
        log_sum = top + math.log(
            math.exp(log_share[0, z] - top) + math.exp(log_share[0, other] - top)
        )
        both = math.exp(log_sum)
        now = log_share[0, z] - log_share[0, other]
        share = 1.0 / (1.0 + math.exp(-now))
        for n in range(n_items):
            slope[n] = both * (weight[n, z] - weight[n, other])
            others[n] = max(total[n] - slope[n] * share, both * weight[n, other])
        arguments = share_prior[z], share_prior[other], others, slope, copies
        level = math.log(1.0 - rng.random()) + _pair_density(now, arguments)
        there = slice_from(_pair_density, arguments, now, level, WIDTH, rng, MAX_WIDTHS)
        if math.isnan(there):
            there = now
        log_share[0, z] = log_sum + _log_share(there)
        log_share[0, other] = log_sum + _log_share(-there)
        share = math.exp(_log_share(there))
        for n in range(n_items):
            total[n] = others[n] + slope[n] * share


@inner
def _draw_types(weight, shares, table, data, cells, by_type, known, kinds, rng):
    """Draw types given their shares; count items and cells, except uninformative items."""
    start, cell, stated, gold, copies, types, n_settings = data
    n_items, n_types = gold.size, weight.shape[1]
    joint, parts = np.empty(n_types), np.empty(n_types)
    clear(by_type)
    clear(known)
    clear(cells)
    if kinds is not None:
        clear(kinds[2][4])
    for n in range(n_items):
        k = gold[n]
        if k < 0 and start[n] == start[n + 1]:
            continue
        divide(copies[n], shares, weight[n], rng, joint, parts)
        for z in range(n_types):
            if parts[z] == 0.0:
                continue
            by_type[0, z] += parts[z]
            if k >= 0:
                known[z, k] += parts[z]
            elif kinds is not None:
                kinds[2][4][kinds[2][0][n], z] += parts[z]
            responses = start[n], start[n + 1], cell, stated
            note(parts[z], z, responses, types, cells, table, n_settings, known.shape[1], rng)


@inner
def _look_density(odds, arguments):
    """Return the log density of the log-odds of a competence, looks summed out."""
    prior, by_look, guess, number = arguments
    height = prior[0] * _log_share(odds) + prior[1] * _log_share(-odds)
    looks, guesses = math.exp(_log_share(odds)), math.exp(_log_share(-odds))
    for i in range(by_look.size):
        likelihood = looks * by_look[i] + guesses * guess[i]
        height += number[i] * math.log(max(likelihood, SMALLEST))
    return height


@inner
def _draw_competence(prior, cells, values, log_competence, log_guess, rng):
    """Draw competences given guesses, looks summed out: guesses hide how often raters look."""
    n_classes, n_settings = log_guess.shape[1], values.shape[0]
    by_look, guess, number = np.empty((3, n_classes * 3 * n_settings))
    for m in range(log_guess.shape[0]):
        size = 0
        for c in range(n_classes):
            for i in range(3 * n_settings):
                if cells[m * n_classes + c, i] > 0.0:
                    by_look[size] = math.exp(values[i % n_settings, i // n_settings])
                    guess[size] = math.exp(log_guess[m, c])
                    number[size] = cells[m * n_classes + c, i]
                    size += 1
        arguments = prior[m], by_look[:size], guess[:size], number[:size]
        now = log_competence[m, 0] - log_competence[m, 1]
        level = math.log(1.0 - rng.random()) + _look_density(now, arguments)
        odds = slice_from(_look_density, arguments, now, level, WIDTH, rng, MAX_WIDTHS)
        if math.isnan(odds):
            odds = now
        log_competence[m, 0], log_competence[m, 1] = _log_share(odds), _log_share(-odds)


@inner
def _weigh_types(weight, total, type_share, class_of_type, tables, lead, data, are_alike):
    """Fill in likelihoods by type (rows, types), and their means over types (rows,)."""
    start, cell, _, gold, _, types, _ = data
    for n in range(gold.size):
        weigh(weight[n : n + 1], lead, tables, cell, start[n], start[n + 1], types)
        total[n] = 0.0
        for z in range(weight.shape[1]):
            if are_alike and gold[n] >= 0:
                weight[n, z] *= class_of_type[z, gold[n]]
            total[n] += type_share[0, z] * weight[n, z]


@inner
def _draw_raters(cells, values, competence, guess, guess_pool, at, rng):
    """Draw looks, then competences and guesses with their pools, in turn."""
    log_competence, pool, _, competence_prior = competence
    log_guess, _, guess_prior = guess
    for round_ in range(COLLAPSED_ROUNDS):
        last = at if round_ == COLLAPSED_ROUNDS - 1 else -1
        looked, guessed = look(cells, log_competence, log_guess, values, rng)
        draw_pooled(pool, looked, competence_prior, last, rng)
        draw_rows(competence_prior, looked, log_competence, rng)
        if guess_pool is not None:
            draw_pooled(guess_pool, guessed, guess_prior, last, rng)
            draw_rows(guess_prior, guessed, log_guess, rng)
        _draw_competence(competence_prior, cells, values, log_competence, log_guess, rng)


@inner
def draw_clean(prior, cells, log_clean, rng):
    """Draw rows of raters on clean types, (raters, clean types, answers)."""
    counts = count_clean(cells, log_clean)
    for m in range(log_clean.shape[0]):
        draw_rows(prior[m], counts[m], log_clean[m], rng)


@kernel
def chain(
    n_draws,
    n_sweeps,
    first,
    shares,
    competence,
    guess,
    guess_pool,
    clean,
    data,
    values,
    kinds,
    divisors,
    rng,
):
    """Make draws, written from ``first`` on unless negative.

    ``shares`` are the log shares (1, types), their prior, the trust (1,), mean and deviation of its
    logarithm (NaN if it is given), log consensus rows, and draws of shares and trust; competences
    log rows, pool, draws and prior; guesses log rows, draws and prior, given if there is no pool;
    ``clean`` log rows, draws and prior of clean types.
    ``kinds`` is None, or the argument of :func:`draw_kinds`; ``divisors`` are copies of rows of
    weights, negative where these normalise.
    """
    log_share, share_prior, trust, mean, sd, log_rows, stored_shares, stored_trust = shares
    log_competence, _, stored_competence, _ = competence
    log_guess, stored_guess, _ = guess
    log_clean, stored_clean, clean_prior = clean
    stated, types, n_settings = data[2], data[5], data[6]
    n_types, n_classes = log_rows.shape
    n_raters, n_rows = log_guess.shape[0], divisors.size
    weight, lead = np.empty((n_rows, n_types)), np.empty((n_classes + 1, 2 * n_settings))
    class_of_type, known = np.empty((n_types, n_classes)), np.zeros((n_types, n_classes))
    total, others, slope = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    by_type = np.zeros((1, n_types))
    cells = np.empty((n_raters * n_classes, 3 * n_settings + log_clean.shape[1]))
    fill_class_of_type(class_of_type, log_rows, trust[0])
    for made in range(n_draws):
        for sweep in range(n_sweeps):
            at = first + made if first >= 0 and sweep == n_sweeps - 1 else -1
            tables = prepare(log_competence, log_guess, log_clean, values, types, stated)
            type_share = exponentials(log_share)
            are_alike = kinds is None
            _weigh_types(weight, total, type_share, class_of_type, tables, lead, data, are_alike)
            if kinds is not None:
                draw_kinds(log_share, class_of_type, weight, data, kinds, at, rng)
                for n in range(n_rows):
                    total[n] = 0.0
                    for z in range(n_types):
                        total[n] += type_share[0, z] * weight[n, z]
            _draw_shares(log_share, share_prior[0], weight, total, divisors, others, slope, rng)
            type_share = exponentials(log_share)
            table = tables[0]
            _draw_types(weight, type_share[0], table, data, cells, by_type, known, kinds, rng)
            draw_rows(share_prior, by_type, log_share, rng)
            if kinds is not None:
                thin_shares(log_share, weight, kinds, share_prior.sum(), type_share, rng)
            if not math.isnan(sd):
                _draw_trust(trust, known, class_of_type, log_rows, mean, sd, log_share, kinds, rng)
            _draw_raters(cells, values, competence, guess, guess_pool, at, rng)
            draw_clean(clean_prior, cells, log_clean, rng)
        if first >= 0:
            fill(stored_shares[first + made], log_share)
            stored_trust[first + made] = trust[0]
            fill(stored_competence[first + made], log_competence)
            if guess_pool is not None:
                fill(stored_guess[first + made], log_guess)
            if log_clean.shape[1] > 0:
                fill(stored_clean[first + made], log_clean)
    return n_draws


def begin_chain(table, structure, pools, clean, rows, stored_rows, values, storage, rng):
    """Return the chain and its arguments: see :meth:`RaterChannel.compiled_chain`."""
    start, cell, stated, gold, kind, types, settings = structure
    share_pool, stored_share = pools["share"], storage["share"]
    log_share = np.array(values["share"]["type_share"], dtype=float)[None]
    share_prior = np.array(share_pool.concentration, dtype=float)[None]
    trust = np.array([float(share_pool.trust_at(values["share"]))])
    mean_sd = (np.nan, np.nan) if share_pool.fixed else share_pool.trust_prior
    stored_types = stored_share["type_share"]
    stored_trust = stored_share.get("trust", np.empty(len(stored_types)))
    shares = log_share, share_prior, trust, *mean_sd
    shares += share_pool.log_consensus, stored_types, stored_trust
    n_raters, n_classes = table.n_raters, table.n_classes

    def pooled(name):
        pool = pools[name].in_chain(values[name], storage[name])
        return np.array(rows[name], dtype=float), pool, stored_rows[name]

    competence = *pooled("competence"), np.ones((n_raters, 2))
    log_guess, guess_pool = np.full((n_raters, n_classes), -math.log(n_classes)), None
    stored_guess = np.empty((0, n_raters, n_classes))
    if "guess" in pools:
        log_guess, guess_pool, stored_guess = pooled("guess")
    guess = log_guess, stored_guess, np.ones((n_raters, n_classes))
    no_rows = np.empty((n_raters, 0, n_classes))
    clean_rows = no_rows, no_rows[None], no_rows
    if clean is not None:
        name = "clean_confusion"
        prior = np.ascontiguousarray(clean.concentration, dtype=float)
        clean_rows = np.array(rows[name], dtype=float), stored_rows[name], prior
    data = start, cell, stated, gold, table.multiplicity, types, len(settings)
    kinds, divisors = None, table.multiplicity
    if share_pool.known is not None:
        kinds = kinds_of(share_pool.known, table, kind, gold, values, storage)
        _, copies, total_copies, *_ = kinds[2][2]
        divisors = np.append(copies, -total_copies)
    raters = competence, guess, guess_pool, clean_rows
    return chain, (shares, *raters, data, settings, kinds, divisors, rng)

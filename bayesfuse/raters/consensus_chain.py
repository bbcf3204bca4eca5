"""A compiled chain of :class:`bayesfuse.Consensus` over independent labels, which it sums out."""

import math

import numpy as np

from bayesfuse.numerics.grades import slice_from
from bayesfuse.numerics.kernels import clear, exponentials, fill, inner, kernel
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.tables import SMALLEST, draw_pooled
from bayesfuse.parameters.pool import ROUNDS, STRIDE
from bayesfuse.raters.consensus_kernels import divide, look, note, prepare, weigh
from bayesfuse.raters.consensus_kinds import draw_kinds, kinds_density, kinds_of, thin_shares

OF_LOOKS = 2  # rounds of looks, competences and guesses in a sweep
OTHERS = 0.5  # share of pairs of types at random, not neighbours
WIDTH, STEPS = 4.0, 8  # of slices of log-odds, which are wide where hardly an item is of a type
SMALL = 1e-100  # products below this are added up as logarithms


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
def _trust_density(known, said, log_trust, mean, sd, log_share, kinds):
    found = -0.5 * ((log_trust - mean) / sd) ** 2
    if kinds is not None:
        found += kinds_density(said, log_share, kinds)
    for z in range(known.shape[0]):
        for k in range(known.shape[1]):
            if known[z, k] > 0.0:
                found += known[z, k] * math.log(said[z, k])
    return found


@inner
def _draw_trust(trust, known, said, log_rows, mean, sd, log_share, kinds, rng):
    """Move the logarithm of the trust given types: of items of known class, unless kinds differ."""
    if kinds is None and known.sum() == 0.0:
        trust[0] = math.exp(mean + sd * rng.standard_normal())
        say(said, log_rows, trust[0])
        return
    now, other = math.log(trust[0]), np.empty(said.shape)
    height = _trust_density(known, said, now, mean, sd, log_share, kinds)
    for _ in range(ROUNDS):
        proposed = now + STRIDE * rng.standard_normal()
        say(other, log_rows, math.exp(proposed))
        there = _trust_density(known, other, proposed, mean, sd, log_share, kinds)
        if math.log(1.0 - rng.random()) < there - height:
            now, height = proposed, there
            fill(said, other)
    trust[0] = math.exp(now)


@inner
def _log_share(odds):
    """Return the logarithm of a share of these log-odds."""
    return min(odds, 0.0) - math.log1p(math.exp(-abs(odds)))


@inner
def _pair_density(odds, given):
    """Return the log density of the log-odds of two shares given their sum, types summed out."""
    each, rest, slope, copies = given
    share = 1.0 / (1.0 + math.exp(-odds))
    found = each * (_log_share(odds) + _log_share(-odds))
    product = 1.0
    for n in range(rest.size):
        own = rest[n] + slope[n] * share
        if copies[n] == 1:  # logarithms take longer than products
            product *= own
            if product < SMALL:
                found += math.log(product)
                product = 1.0
        elif copies[n] == -1:  # what normalises the shares of an item
            product /= own
            if product > 1.0 / SMALL:
                found += math.log(product)
                product = 1.0
        else:
            found += copies[n] * math.log(own)
    return found + math.log(product)


@inner
def _draw_shares(log_share, each, weight, total, copies, rest, slope, rng):
    """Draw shares by pairs of types that share their sum; ``total`` (items,) is of all types."""
    n_items, n_types = weight.shape
    for z in range(n_types):
        other = (z + 1) % n_types
        if rng.random() < OTHERS:
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
            rest[n] = max(total[n] - slope[n] * share, both * weight[n, other])
        given = each, rest, slope, copies
        level = math.log(1.0 - rng.random()) + _pair_density(now, given)
        there = slice_from(_pair_density, given, now, level, WIDTH, rng, STEPS)
        if math.isnan(there):
            there = now
        log_share[0, z] = log_sum + _log_share(there)
        log_share[0, other] = log_sum + _log_share(-there)
        share = math.exp(_log_share(there))
        for n in range(n_items):
            total[n] = rest[n] + slope[n] * share


@inner
def _draw_types(weight, shares, data, cells, by_type, known, kinds, rng):
    """Draw types given their shares; count items and cells, but not where nothing is known."""
    start, cell, gold, copies, types, _ = data
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
            note(parts[z], z, start[n], start[n + 1], cell, types, cells, known.shape[1])


@inner
def _look_density(odds, given):
    """Return the log density of the log-odds of a competence, looks summed out."""
    prior, said, guess, number = given
    found = prior[0] * _log_share(odds) + prior[1] * _log_share(-odds)
    looks, guesses = math.exp(_log_share(odds)), math.exp(_log_share(-odds))
    for i in range(said.size):
        own = looks * said[i] + guesses * guess[i]
        found += number[i] * math.log(max(own, SMALLEST))
    return found


@inner
def _draw_competence(prior, cells, values, log_competence, log_guess, rng):
    """Draw competences given guesses, looks summed out: guesses hide how often raters look."""
    n_classes, n_settings = log_guess.shape[1], values.shape[0]
    said, guess, number = np.empty((3, n_classes * cells.shape[1]))
    for m in range(log_guess.shape[0]):
        size = 0
        for c in range(n_classes):
            for i in range(cells.shape[1]):
                if cells[m * n_classes + c, i] > 0.0:
                    said[size] = math.exp(values[i % n_settings, i // n_settings])
                    guess[size] = math.exp(log_guess[m, c])
                    number[size] = cells[m * n_classes + c, i]
                    size += 1
        given = prior[m], said[:size], guess[:size], number[:size]
        now = log_competence[m, 0] - log_competence[m, 1]
        level = math.log(1.0 - rng.random()) + _look_density(now, given)
        odds = slice_from(_look_density, given, now, level, WIDTH, rng, STEPS)
        if math.isnan(odds):
            odds = now
        log_competence[m, 0], log_competence[m, 1] = _log_share(odds), _log_share(-odds)


@kernel
def chain(
    n_draws,
    n_sweeps,
    first,
    shares,
    competence,
    guess,
    guess_pool,
    data,
    values,
    kinds,
    divisors,
    rng,
):
    """Make draws, written from ``first`` on unless negative.

    ``shares`` are the log shares (1, types), their prior, the trust (1,), mean and deviation of its
    logarithm (NaN if it is given), log consensus rows, and draws of shares and trust; competences
    log rows, pool and draws; guesses log rows and draws, given if there is no pool.
    ``kinds`` is None, or what :func:`draw_kinds` takes; ``divisors`` are copies of rows of
    weights, negative where these normalise.
    """
    log_share, share_prior, trust, mean, sd, log_rows, kept_shares, kept_trust = shares
    log_competence, pool, kept_competence = competence
    log_guess, kept_guess = guess
    start, cell, gold, _, types, n_settings = data
    n_types, n_classes = log_rows.shape
    n_raters, n_rows = log_guess.shape[0], gold.size
    if kinds is not None:
        n_rows += kinds[0][3].shape[0]
    weight, lead = np.empty((n_rows, n_types)), np.empty((n_classes + 1, 2 * n_settings))
    said, known = np.empty((n_types, n_classes)), np.zeros((n_types, n_classes))
    total, rest, slope = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    by_type = np.zeros((1, n_types))
    cells = np.empty((n_raters * n_classes, 3 * n_settings))
    own_prior, guess_prior = np.ones((n_raters, 2)), np.ones((n_raters, n_classes))
    say(said, log_rows, trust[0])
    for made in range(n_draws):
        for sweep in range(n_sweeps):
            at = first + made if first >= 0 and sweep == n_sweeps - 1 else -1
            table = prepare(log_competence, log_guess, values)
            own = exponentials(log_share)
            for n in range(gold.size):
                weigh(weight[n : n + 1], lead, table, cell, start[n], start[n + 1], types)
                total[n] = 0.0
                for z in range(n_types):
                    if kinds is None and gold[n] >= 0:
                        weight[n, z] *= said[z, gold[n]]
                    total[n] += own[0, z] * weight[n, z]
            if kinds is not None:
                draw_kinds(log_share, said, weight, data, kinds, at, rng)
                for n in range(n_rows):
                    total[n] = 0.0
                    for z in range(n_types):
                        total[n] += own[0, z] * weight[n, z]
            _draw_shares(log_share, share_prior[0, 0], weight, total, divisors, rest, slope, rng)
            own = exponentials(log_share)
            _draw_types(weight, own[0], data, cells, by_type, known, kinds, rng)
            draw_rows(share_prior, by_type, log_share, rng)
            if kinds is not None:
                thin_shares(log_share, weight, kinds, share_prior.sum(), own, rng)
            if not math.isnan(sd):
                _draw_trust(trust, known, said, log_rows, mean, sd, log_share, kinds, rng)
            for turn in range(OF_LOOKS):
                last = at if turn == OF_LOOKS - 1 else -1
                looked, guessed = look(cells, log_competence, log_guess, values, rng)
                draw_pooled(pool, looked, own_prior, last, rng)
                draw_rows(own_prior, looked, log_competence, rng)
                if guess_pool is not None:
                    draw_pooled(guess_pool, guessed, guess_prior, last, rng)
                    draw_rows(guess_prior, guessed, log_guess, rng)
                _draw_competence(own_prior, cells, values, log_competence, log_guess, rng)
        if first >= 0:
            fill(kept_shares[first + made], log_share)
            kept_trust[first + made] = trust[0]
            fill(kept_competence[first + made], log_competence)
            if guess_pool is not None:
                fill(kept_guess[first + made], log_guess)
    return n_draws


def begin_chain(table, structure, pools, rows, kept_rows, values, kept, rng):
    """Return the chain and its arguments: see :meth:`RaterChannel.compiled_chain`."""
    start, cell, gold, kind, types, settings = structure
    own = pools["share"]
    log_share = np.array(values["share"]["type_share"], dtype=float)[None]
    each = np.full(log_share.shape, own.concentration / log_share.size)
    trust = np.array([float(own.trust_at(values["share"]))])
    mean_sd = (np.nan, np.nan) if own.fixed else own.trust_prior
    kept_shares = kept["share"]["type_share"]
    kept_trust = kept["share"].get("trust", np.empty(len(kept_shares)))
    shares = log_share, each, trust, *mean_sd, own.log_consensus, kept_shares, kept_trust

    def drawn(name):
        pool = pools[name].in_chain(values[name], kept[name])
        return np.array(rows[name], dtype=float), pool, kept_rows[name]

    n_raters, n_classes = table.n_raters, table.n_classes
    guess, guess_pool = np.full((n_raters, n_classes), -math.log(n_classes)), None
    kept_guess = np.empty((0, n_raters, n_classes))
    if "guess" in pools:
        guess, guess_pool, kept_guess = drawn("guess")
    data = start, cell, gold, table.multiplicity, types, len(settings)
    kinds = None if own.known is None else kinds_of(own.known, table, kind, gold, values, kept)
    competence = drawn("competence")
    divisors = table.multiplicity
    if kinds is not None:
        _, copies, total_copies, *_ = kinds[2][2]
        divisors = np.append(copies, -total_copies)
    return chain, (
        shares,
        competence,
        (guess, kept_guess),
        guess_pool,
        data,
        settings,
        kinds,
        divisors,
        rng,
    )

"""Passes of collapsed variational Bayes over items of hidden types: see :func:`visit_items`."""

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel
from bayesfuse.numerics.tables import SMALLEST

# Products of so many probabilities, none below the least, stay far from underflow; those of more
# responses are continued as logarithms.
BLOCK, MIN_PROBABILITY = 12, 1e-20


@inner
def _at_others(r, m, c, on_consensus, look, state, prior):
    """Return competence and probability of a guess c of rater m, response r taken out.

    ``on_consensus`` is the probability that the item is not of a clean type.
    """
    looks, guesses, totals = state
    mean, concentration, guess_prior = prior
    competence = (concentration * mean + looks[m] - look[r]) / (
        concentration + looks[m] + totals[m] - on_consensus
    )
    guess = 1.0 / guesses.shape[1]
    if guess_prior.size > 0:
        guessed = on_consensus - look[r]
        guess = (guess_prior[c] + guesses[m, c] - guessed) / (guess_prior[-1] + totals[m] - guessed)
    return competence, max((1.0 - competence) * guess, MIN_PROBABILITY)


@inner
def _to_logs(products, logs):
    """Add the logarithms of products, which become one."""
    product, log = products.reshape(-1), logs.reshape(-1)
    for i in range(product.size):
        if product[i] != 1.0:
            log[i] += math.log(product[i])
            product[i] = 1.0


@inner
def _multiply_consensus(
    begin, end, cell, on_consensus, look, state, prior, mu, n_levels, product, logs, inverse
):
    """Multiply probabilities of responses by setting, of any answer and of the two of a type.

    ``product`` (1 + 2 classes, settings) are those of other answers, then by answer the ratios for
    the first and the second of a type; ``inverse`` (responses, 3, settings) the competence divided
    by probabilities by role. Only settings from ``n_levels`` on have a second answer.
    """
    n_classes, n_settings = (product.shape[0] - 1) // 2, mu.shape[1]
    for r in range(begin, end):
        m, c = np.int64(cell[r]) // n_classes, np.int64(cell[r]) % n_classes
        a, guess = _at_others(r, m, c, on_consensus, look, state, prior)
        i = r - begin
        for s in range(n_settings):
            other, first = a * mu[2, s] + guess, a * mu[0, s] + guess
            of_other = 1.0 / other
            inverse[i, 2, s] = a * of_other
            inverse[i, 0, s] = a / first
            product[0, s] *= other
            product[1 + c, s] *= first * of_other
        for s in range(n_levels, n_settings):
            second = a * mu[1, s] + guess
            product[1 + n_classes + c, s] *= second * inverse[i, 2, s] / a
            inverse[i, 1, s] = a / second
        if (i + 1) % BLOCK == 0:
            _to_logs(product, logs)


@inner
def _multiply_clean(begin, end, cell, own, clean, clean_prior, product, logs):
    """Multiply probabilities of responses by clean type; ``own`` is the item's part in counts."""
    counts, totals = clean
    n_classes = product.size
    for r in range(begin, end):
        row = np.int64(cell[r])
        m, c = row // n_classes, row % n_classes
        for k in range(n_classes):
            product[k] *= (clean_prior[c, k] + counts[row, k] - own[k]) / (
                clean_prior[n_classes, k] + totals[m, k] - own[k]
            )
        if (r - begin + 1) % BLOCK == 0:
            _to_logs(product, logs)


@inner
def _weigh(weight, types, product, logs, clean_product, clean_logs, in_logs):
    """Fill in the likelihood of the responses to an item by type, up to a constant."""
    first, second, setting = types[0], types[1], types[2]
    n_classes, n_consensus = (product.shape[0] - 1) // 2, types.shape[1]
    if not in_logs:
        for z in range(n_consensus):
            s = setting[z]
            weight[z] = product[0, s] * product[1 + first[z], s]
            if second[z] >= 0:
                weight[z] *= product[1 + n_classes + second[z], s]
        for k in range(weight.size - n_consensus):
            weight[n_consensus + k] = clean_product[k]
        return
    top = -np.inf
    for z in range(n_consensus):
        s = setting[z]
        weight[z] = logs[0, s] + logs[1 + first[z], s]
        if second[z] >= 0:
            weight[z] += logs[1 + n_classes + second[z], s]
        top = max(top, weight[z])
    for k in range(weight.size - n_consensus):
        weight[n_consensus + k] = clean_logs[k]
        top = max(top, clean_logs[k])
    for z in range(weight.size):
        weight[z] = math.exp(weight[z] - top)


@inner
def _look(begin, end, cell, copies, on_consensus, before, by_role, mu, n_levels, inverse, sums):
    """Update the probabilities that raters looked, given types by role (3, classes, settings)."""
    look, (looks, guesses, totals) = sums
    n_classes, n_settings = by_role.shape[1], mu.shape[1]
    for r in range(begin, end):
        m, c = np.int64(cell[r]) // n_classes, np.int64(cell[r]) % n_classes
        i, new = r - begin, 0.0
        for s in range(n_settings):
            others = by_role[0, 0, s] - by_role[1, c, s] - by_role[2, c, s]
            new += others * mu[2, s] * inverse[i, 2, s]
            new += by_role[1, c, s] * mu[0, s] * inverse[i, 0, s]
        for s in range(n_levels, n_settings):
            new += by_role[2, c, s] * mu[1, s] * inverse[i, 1, s]
        change = copies * (new - look[r])
        change_of_guess = copies * (on_consensus - before) - change
        looks[m] += change
        guesses[m, c] += change_of_guess
        totals[m] += change_of_guess
        look[r] = new


@kernel
def visit_items(probability, look, total, state, clean, prior, shares, data, labels):
    r"""Update the types of all items in turn; return the largest change of a type's probability.

    ``probability`` (items, types) of the hidden types and ``look`` (responses,), the probability
    that the rater looked, are updated with the sums that they enter, as zeroth-order collapsed
    variational Bayes does (Asuncion, Welling, Smyth & Teh 2009, UAI): with the item's part in all
    sums taken out,

    .. math:: q_n(z) \propto \frac{\alpha_z + N_z}{\lambda_z} S_{nz} \prod_m (a_m \mu_{z x_{nm}} +
        (1 - a_m) g_{m x_{nm}}),

    where the factors of a clean type are :math:`\theta_{m z x_{nm}}` instead.

    ``total`` (types,) are the N; ``state`` looks (raters,), guesses by answer and in all; ``clean``
    counts of clean types (cells, clean types) and in all (raters, clean types); ``prior`` mean and
    concentration of competences, and concentrations of guesses by answer, with their sum (empty
    for even guesses), and of clean rows (answers and sum, clean types); ``shares`` the α, the λ,
    and ``tilt`` (kinds, types), the S.
    """
    start, cell, gold, kind, types, values, copies = data
    class_of_type, exp_odds = labels
    share_prior, rate, tilt = shares
    competence_prior, clean_prior = prior[:3], prior[3]
    n_types, n_classes = class_of_type.shape
    n_consensus, n_settings = types.shape[1], values.shape[0]
    n_clean = n_types - n_consensus
    first, second, setting = types[0], types[1], types[2]
    n_levels = n_settings
    for z in range(n_consensus):
        if second[z] >= 0:
            n_levels = min(n_levels, setting[z])
    n_most = np.int64(0)
    for n in range(gold.size):
        n_most = max(n_most, np.int64(start[n + 1]) - np.int64(start[n]))
    mu, inverse = np.exp(values.T).copy(), np.empty((n_most, 3, n_settings))
    product, logs = (
        np.ones((1 + 2 * n_classes, n_settings)),
        np.zeros((1 + 2 * n_classes, n_settings)),
    )
    clean_product, clean_logs, own = np.ones(n_clean), np.zeros(n_clean), np.empty(n_clean)
    by_role, weight = np.empty((3, n_classes, n_settings)), np.empty(n_types)
    largest = 0.0
    for n in range(gold.size):
        begin, end = np.int64(start[n]), np.int64(start[n + 1])
        in_logs = end - begin >= BLOCK
        product[:] = 1.0
        before = 1.0
        for k in range(n_clean):
            own[k] = probability[n, n_consensus + k]
            before -= own[k]
        _multiply_consensus(
            begin, end, cell, before, look, state, competence_prior, mu, n_levels, product, logs,
            inverse,
        )  # fmt: skip
        if n_clean > 0:
            clean_product[:] = 1.0
            _multiply_clean(begin, end, cell, own, clean, clean_prior, clean_product, clean_logs)
        if in_logs:
            _to_logs(product, logs)
            _to_logs(clean_product, clean_logs)
        _weigh(weight, types, product, logs, clean_product, clean_logs, in_logs)
        if in_logs:
            logs[:] = 0.0
            clean_logs[:] = 0.0
        mass = 0.0
        for z in range(n_types):
            weight[z] *= max(share_prior[z] + total[z] - probability[n, z], SMALLEST) / rate[z]
            if gold[n] >= 0:
                weight[z] *= class_of_type[z, gold[n]] * exp_odds[kind[n], gold[n]]
            else:
                weight[z] *= tilt[kind[n], z]
            mass += weight[z]
        by_role[:] = 0.0
        on_consensus = 0.0
        for z in range(n_types):
            new = weight[z] / mass
            change = new - probability[n, z]
            largest = max(largest, abs(change))
            total[z] += copies[n] * change
            probability[n, z] = new
            if z >= n_consensus:
                continue
            on_consensus += new
            s = setting[z]
            by_role[0, 0, s] += new  # of all types of this setting
            by_role[1, first[z], s] += new
            if second[z] >= 0:
                by_role[2, second[z], s] += new
        sums = look, state
        _look(
            begin, end, cell, copies[n], on_consensus, before, by_role, mu, n_levels, inverse, sums
        )
        for r in range(begin, end if n_clean > 0 else begin):
            row = np.int64(cell[r])
            for k in range(n_clean):
                change = copies[n] * (probability[n, n_consensus + k] - own[k])
                clean[0][row, k] += change
                clean[1][row // n_classes, k] += change
    return largest

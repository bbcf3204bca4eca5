"""Passes of collapsed variational Bayes over items of hidden types: see :func:`visit_items`."""

import math

import numpy as np

from bayesfuse.numerics.kernels import inlined, kernel
from bayesfuse.numerics.tables import SMALLEST


@inlined
def _at_others(r, m, c, look, state, prior):
    """Return competence and probability of a guess c of rater m, response r taken out."""
    looks, guesses, totals = state
    mean, concentration, guess_prior = prior
    competence = (concentration * mean + looks[m] - look[r]) / (
        concentration + looks[m] + totals[m] - 1.0
    )
    guess = 1.0 / guesses.shape[1]
    if guess_prior.size > 0:
        guessed = 1.0 - look[r]
        guess = (guess_prior[c] + guesses[m, c] - guessed) / (guess_prior[-1] + totals[m] - guessed)
    return competence, (1.0 - competence) * guess


@kernel
def visit_items(probability, look, total, state, prior, share_prior, rate, tilt, data, labels):
    r"""Update the types of all items in turn; return the largest change of a class probability.

    ``probability`` (items, types) of the hidden types and ``look`` (responses,), the probability
    that the rater looked, are updated with the sums that they enter, as zeroth-order collapsed
    variational Bayes does (Asuncion, Welling, Smyth & Teh 2009, UAI): with the item's part in all
    sums taken out,

    .. math:: q_n(z) \propto \frac{\alpha + N_z}{\lambda_z} S_{nz} \prod_m (a_m \mu_{z x_{nm}} +
        (1 - a_m) g_{m x_{nm}}).

    ``total`` (types,) are the N; ``state`` looks (raters,), guesses by answer and in all;
    ``prior`` mean and concentration of competences, and concentrations of guesses by answer, with
    their sum (empty for even guesses); ``rate`` (types,) the λ; ``tilt`` (kinds, types) the S.
    """
    start, cell, gold, kind, types, values, copies = data
    class_of_type, log_odds = labels
    looks, guesses, totals = state
    n_settings, n_types, n_classes = values.shape[0], types.shape[1], class_of_type.shape[1]
    first, second, setting = types[0], types[1], types[2]
    mu = np.exp(values)
    common, lead = np.empty(n_settings), np.empty((2, n_classes, n_settings))
    by_role, weight = np.empty((3, n_classes, n_settings)), np.empty(n_types)
    largest = 0.0
    for n in range(gold.size):
        begin, end = start[n], start[n + 1]
        common[:], lead[:], by_role[:] = 0.0, 0.0, 0.0
        for r in range(begin, end):
            m, c = np.int64(cell[r]) // n_classes, np.int64(cell[r]) % n_classes
            a, guess = _at_others(r, m, c, look, state, prior)
            for s in range(n_settings):
                other = math.log(max(a * mu[s, 2] + guess, SMALLEST))
                common[s] += other
                lead[0, c, s] += math.log(max(a * mu[s, 0] + guess, SMALLEST)) - other
                lead[1, c, s] += math.log(max(a * mu[s, 1] + guess, SMALLEST)) - other
        top, mass = -np.inf, 0.0
        for z in range(n_types):
            s = setting[z]
            weight[z] = common[s] + lead[0, first[z], s]
            if second[z] >= 0:
                weight[z] += lead[1, second[z], s]
            item_prior = max(share_prior + total[z] - probability[n, z], SMALLEST) / rate[z]
            if gold[n] >= 0:
                item_prior *= class_of_type[z, gold[n]] * log_odds[kind[n], gold[n]]
            else:
                item_prior *= tilt[kind[n], z]
            weight[z] += math.log(max(item_prior, SMALLEST))
            top = max(top, weight[z])
        for z in range(n_types):
            weight[z] = math.exp(weight[z] - top)
            mass += weight[z]
        for z in range(n_types):
            new = weight[z] / mass
            largest = max(largest, abs(new - probability[n, z]))
            total[z] += copies[n] * (new - probability[n, z])
            probability[n, z] = new
            s = setting[z]
            by_role[0, 0, s] += new  # of all types of this setting
            by_role[1, first[z], s] += new
            if second[z] >= 0:
                by_role[2, second[z], s] += new
        for r in range(begin, end):
            m, c = np.int64(cell[r]) // n_classes, np.int64(cell[r]) % n_classes
            a, guess = _at_others(r, m, c, look, state, prior)
            new = 0.0
            for s in range(n_settings):
                parts = by_role[1, c, s], by_role[2, c, s]
                others = by_role[0, 0, s] - parts[0] - parts[1]
                new += others * a * mu[s, 2] / max(a * mu[s, 2] + guess, SMALLEST)
                new += parts[0] * a * mu[s, 0] / max(a * mu[s, 0] + guess, SMALLEST)
                new += parts[1] * a * mu[s, 1] / max(a * mu[s, 1] + guess, SMALLEST)
            change = copies[n] * (new - look[r])
            looks[m] += change
            guesses[m, c] -= change
            totals[m] -= change
            look[r] = new
    return largest

"""Prior log-odds of items (populations, covariates, a classifier) in chains of item types."""

import math

import numpy as np

from bayesfuse.numerics.kernels import exponentials, fill, inner
from bayesfuse.numerics.log_odds import draw_log_odds
from bayesfuse.numerics.rows import draw_gamma, normalise_row
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.parameters.item_log_odds import CONTRASTS, SCALES
from bayesfuse.parameters.pool import LOWEST


@inner
def kinds_density(class_of_type, log_share, kinds):
    """Return the log density of the types of items by kind, classes summed out."""
    _, _, (_, _, (_, _, total_copies, _, _), odds, by_kind), _ = kinds
    n_types, n_classes = class_of_type.shape
    height, average = 0.0, np.zeros(n_classes)
    for z in range(n_types):
        for k in range(n_classes):
            average[k] += math.exp(log_share[0, z]) * class_of_type[z, k]
    for r in range(odds.shape[0]):
        if total_copies[r] == 0.0:
            continue
        total = 0.0
        for k in range(n_classes):
            total += average[k] * odds[r, k]
        height -= total_copies[r] * math.log(total)
        for z in range(n_types):
            if by_kind[r, z] > 0.0:
                likelihood = 0.0
                for k in range(n_classes):
                    likelihood += class_of_type[z, k] * odds[r, k]
                height += by_kind[r, z] * math.log(likelihood)
    return height


@inner
def _fill_likelihood(likelihood, weight, gold, shares, class_of_type):
    """Fill in the likelihood of classes (items, classes), relative to the largest of an item."""
    n_types, n_classes = class_of_type.shape
    for n in range(gold.size):
        top = 0.0
        for k in range(n_classes):
            likelihood[n, k] = 0.0
            if gold[n] < 0 or gold[n] == k:
                for z in range(n_types):
                    likelihood[n, k] += shares[0, z] * weight[n, z] * class_of_type[z, k]
                top = max(top, likelihood[n, k])
        for k in range(n_classes):
            likelihood[n, k] /= max(top, SMALLEST)


@inner
def _weigh_by_kind(weight, odds, log_odds, class_of_type, gold, kind):
    """Multiply ``weight`` by the prior of types given the kind, and normalisers in more rows."""
    n_items, (n_types, n_classes) = gold.size, class_of_type.shape
    for r in range(log_odds.shape[0]):
        top = -np.inf
        for k in range(n_classes):
            top = max(top, log_odds[r, k])
        for k in range(n_classes):
            odds[r, k] = math.exp(max(log_odds[r, k] - top, LOWEST))
        for z in range(n_types):
            weight[n_items + r, z] = 0.0
            for k in range(n_classes):
                weight[n_items + r, z] += class_of_type[z, k] * odds[r, k]
    for n in range(n_items):
        r = kind[n]
        for z in range(n_types):
            if gold[n] >= 0:
                weight[n, z] *= class_of_type[z, gold[n]] * odds[r, gold[n]]
            else:
                weight[n, z] *= weight[n_items + r, z]


@inner
def draw_kinds(log_share, class_of_type, weight, data, kinds, at, rng):
    """Move log-odds with types summed out; multiply ``weight`` by the likelihood of types.

    Rows of ``weight`` after those of items normalise the shares of types by kind.
    """
    gold = data[3]
    state, design, (kind, likelihood, rows, odds, _), storage = kinds
    n_types, n_classes = class_of_type.shape
    average, shares = np.zeros(n_classes), exponentials(log_share)
    for z in range(n_types):
        for k in range(n_classes):
            average[k] += shares[0, z] * class_of_type[z, k]
    _fill_likelihood(likelihood, weight, gold, shares, class_of_type)
    draw_log_odds(state[0], state[1], state[2], state[3], design, average, rows, rng)
    _weigh_by_kind(weight, odds, state[3], class_of_type, gold, kind)
    if at >= 0:
        fill(storage[0][at], state[0])
        fill(storage[1][at], state[1])
        for i in range(len(storage[2])):
            storage[2][i][at] = math.exp(state[2][i])


@inner
def thin_shares(log_share, weight, kinds, concentration, before, rng):
    """Divide shares, drawn as if items were alike, by rates that account for their kinds.

    See :class:`bayesfuse.parameters.pool.ConsensusShares`; ``before`` are the earlier shares.
    """
    _, _, (kind, _, (_, _, total_copies, _, _), _, _), _ = kinds
    n_items, n_types = kind.size, log_share.shape[1]
    rate = np.ones(n_types)
    all_types = draw_gamma(concentration, rng)
    for r in range(total_copies.size):
        if total_copies[r] == 0.0:
            continue
        total = 0.0
        for z in range(n_types):
            total += before[0, z] * weight[n_items + r, z]
        latent = draw_gamma(total_copies[r], rng) / (all_types * total)
        for z in range(n_types):
            rate[z] += latent * weight[n_items + r, z]
    for z in range(n_types):
        log_share[0, z] -= math.log(rate[z])
    normalise_row(log_share, 0)


def kinds_of(known, table, kind, gold, values, storage):
    """Return state and design of the log-odds, items by kind with scratch, and stored draws."""
    n_draws, n_types = storage["share"]["type_share"].shape
    informed = (table.per_item > 0) | (gold >= 0)  # other items carry no information
    copies = np.where(informed, table.multiplicity, 0).astype(float)
    total_copies = np.bincount(kind, copies, known.n_kinds)
    order = np.argsort(kind, kind="stable")
    start = np.searchsorted(kind[order], np.arange(known.n_kinds + 1))
    likelihood = np.empty((len(kind), known.n_classes))
    rows = likelihood, copies, total_copies, order, start
    by_kind, odds = np.zeros((known.n_kinds, n_types)), np.empty((known.n_kinds, known.n_classes))
    state = known.state(values["share"])
    drawn = storage["share"]
    contrasts = [
        drawn.get(name, np.empty((n_draws, *value.shape)))
        for name, value in zip(CONTRASTS, state, strict=False)
    ]
    scales = tuple(drawn.get(name, np.empty(n_draws)) for name in SCALES)
    return state, known.design, (kind, likelihood, rows, odds, by_kind), (*contrasts, scales)

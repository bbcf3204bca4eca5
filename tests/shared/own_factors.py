"""A rater channel, a support and a label prior as a user would write them, outside the package."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

import bayesfuse as bf
from bayesfuse.numerics.kernels import apply_gold, inner, kernel, rescale
from bayesfuse.parameters.contract import REAL, Coordinates, Parameter, Prior, Support
from bayesfuse.parameters.simplex import PROBABILITY


@dataclass(frozen=True)
class TruncatedBeta(Prior):
    """Numbers p uniform on (low, 1), which kernels take as log rows (p, 1 − p)."""

    low: np.ndarray

    def rows(self, p):
        return np.log(np.stack([p, 1 - p], axis=-1))

    def centre(self):
        return self.rows((1 + self.low) / 2)

    def log_density(self, value):
        return 0.0

    def maximise(self, statistic, value):
        share = (statistic[..., 0] + 1e-9) / (statistic.sum(axis=-1) + 2e-9)
        return self.rows(np.clip(share, self.low + 1e-9, 1 - 1e-9))

    def draw(self, statistic, value, rng):
        given = beta(1 + statistic[..., 0], 1 + statistic[..., 1])
        below = given.cdf(self.low)
        p = given.ppf(below + (1 - below) * rng.random(self.low.shape))
        return self.rows(np.clip(p, self.low + 1e-12, 1 - 1e-12))


@dataclass(frozen=True)
class Compiled(Coordinates):
    """Log rows against PyMC's coordinate on an interval (low, 1)."""

    low: np.ndarray

    def read(self, value):
        p = self.low + (1 - self.low) / (1 + np.exp(-value))
        return np.log(np.stack([p, 1 - p], axis=-1))

    def write(self, value):
        p = np.exp(value[..., 0])
        return np.log(p - self.low) - np.log(1 - p)

    def natural(self, value):
        return np.exp(value[..., 0])


class AboveChance(Support):
    """Probabilities above a bound, of a uniform prior."""

    def require(self, name, value):
        assert np.all((np.asarray(value) > 0) & (np.asarray(value) < 1))

    def to_kernel(self, value, xp=np):
        return xp.stack([xp.log(value), xp.log1p(-value)], axis=-1)

    def from_kernel(self, value):
        return np.exp(value[..., 0])

    def coordinates(self, model, variable):
        if type(variable.owner.op).__name__ != "UniformRV":
            return None
        return Compiled(self.prior(variable).low)

    def prior(self, variable):
        low = variable.owner.inputs[2].eval()
        return TruncatedBeta(np.broadcast_to(low, variable.shape.eval()))


@inner
def log_easy(log_ease, log_skill, cell, n_classes, k):
    """Log probability that an item of class k is easy and has these answers."""
    found = log_ease
    for r in range(cell.size):
        m, label = cell[r] // n_classes, cell[r] % n_classes
        found += log_skill[m, 0] if label == k else log_skill[m, 1] - math.log(n_classes - 1)
    return found


@kernel
def likelihood(log_ease, log_skill, classes, start, cell, gold):
    n_items, n_classes = gold.size, classes.size
    found, log_scale = np.empty((n_items, n_classes)), np.empty(n_items)
    for n in range(n_items):
        at = n if len(log_ease) > 1 else 0
        own = cell[start[n] : start[n + 1]]
        for k in range(n_classes):
            easy = log_easy(log_ease[at, 0], log_skill, own, n_classes, k)
            found[n, k] = np.logaddexp(easy, log_ease[at, 1] - own.size * math.log(n_classes))
        apply_gold(found, n, gold[n], -np.inf)
        log_scale[n] = rescale(found, n)
    return found, log_scale


@kernel
def count(log_ease, log_skill, weight, chosen, classes, start, cell, gold):
    """Weigh what easy items use; ``chosen`` (n,) draws which are easy, below zero it weighs."""
    n_classes = classes.size
    ease, skill = np.zeros_like(log_ease), np.zeros_like(log_skill)
    for n in range(gold.size):
        at = n if len(log_ease) > 1 else 0
        own = cell[start[n] : start[n + 1]]
        for k in range(n_classes):
            easy = log_easy(log_ease[at, 0], log_skill, own, n_classes, k)
            hard = log_ease[at, 1] - own.size * math.log(n_classes)
            share = 1.0 / (1.0 + math.exp(hard - easy))
            if chosen[n] >= 0:
                share = 1.0 if chosen[n] < share else 0.0
            ease[at, 0] += weight[n, k] * share
            ease[at, 1] += weight[n, k] * (1.0 - share)
            for r in range(start[n], start[n + 1]):
                m, label = cell[r] // n_classes, cell[r] % n_classes
                skill[m, 0 if label == k else 1] += weight[n, k] * share
    return ease, skill


@kernel
def expected(log_ease, log_skill, weight, classes, start, cell, gold):
    return count(log_ease, log_skill, weight, np.full(gold.size, -1.0), classes, start, cell, gold)


class Guessing(bf.build.RaterChannel):
    """Whether an item is easy is hidden; on hard ones everybody guesses.

    ``skill`` (raters,) is the probability to be right on easy items, ``ease`` that an item is
    easy, one number or one by item.
    """

    declared = (Parameter("ease", PROBABILITY, ()), Parameter("skill", AboveChance(), ("rater",)))
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    def __init__(self, ease, skill):
        self.parameters = {"ease": ease, "skill": skill}
        self.by_item = getattr(ease, "ndim", 0) == 1
        if self.by_item:
            self.declared = (Parameter("ease", PROBABILITY, ("item",)), self.declared[1])

    def structure(self, responses, gold):
        return np.arange(responses.n_classes), responses.start, responses.cell, gold

    def expand(self, values, n_classes, xp):
        ease, skill = values
        return (ease if self.by_item else ease[None]), skill

    def collapse(self, counts):
        ease, skill = counts
        return (ease if self.by_item else ease[0]), skill

    def sample_counts(self, tables, drawn, structure, rng):
        classes, *_, gold = structure
        weight = np.eye(len(classes))[drawn] if drawn.ndim == 1 else drawn
        return count(*tables, weight, rng.random(len(gold)), *structure)

    def confusion(self, tables, n_classes, xp):
        ease, skill = (xp.exp(table) for table in tables)
        right, wrong = skill[:, :1, None], skill[:, 1:, None] / (n_classes - 1)
        own = np.eye(n_classes) * right + (1 - np.eye(n_classes)) * wrong
        share = ease[:, 0].mean()
        return share * own + (1 - share) / n_classes

    def simulate(self, tables, truth, responses, rng):
        ease, skill = np.exp(tables[0])[:, 0], np.exp(tables[1])[:, 0]
        easy = (rng.random(len(truth)) < ease)[responses.item]
        right = rng.random(len(responses.rater)) < skill[responses.rater]
        away = rng.integers(1, responses.n_classes, len(right))
        informed = (truth[responses.item] + np.where(right, 0, away)) % responses.n_classes
        return np.where(easy, informed, rng.integers(0, responses.n_classes, len(right)))


@kernel
def marginal(log_prior, likelihood, log_scale, multiplicity):
    probability = np.exp(log_prior) * likelihood
    total = probability.sum(axis=1)
    probability /= total.reshape(-1, 1)
    log_evidence = np.log(total) + log_scale
    return log_evidence.sum(), log_evidence, probability, probability.copy()


class ByItem(bf.build.LabelPrior):
    """Independent labels with log-odds (items, classes) of their own, as a regression has."""

    declared = (Parameter("log_odds", REAL, ("item", "class")),)
    marginal_kernel = staticmethod(marginal)

    def __init__(self, log_odds):
        self.parameters = {"log_odds": log_odds}

    def structure(self, responses):
        return (responses.multiplicity,)

    def expand(self, values, n_classes, xp):
        (odds,) = values
        return (odds - xp.log(xp.exp(odds).sum(axis=1, keepdims=True)),)

    def draw(self, tables, likelihood, structure, rng, previous=None):
        probability = np.exp(tables[0]) * likelihood
        up_to = probability.cumsum(axis=1)
        drawn = (up_to < rng.random((len(up_to), 1)) * up_to[:, -1:]).sum(axis=1)
        return np.where(up_to[:, -1] > 0, drawn, -1)

    def sample_counts(self, drawn, structure, n_classes):
        return (np.eye(n_classes)[drawn] if drawn.ndim == 1 else drawn,)

    def decode(self, tables, likelihood, structure):
        return (np.exp(tables[0]) * likelihood).argmax(axis=1)

    def log_prob(self, tables, labels, structure):
        return float(tables[0][np.arange(len(labels)), labels].sum())

    def prevalence(self, parameters, n_classes, structure, xp):
        (odds,) = self.expand(parameters, n_classes, xp)
        return xp.exp(odds).mean(axis=0)

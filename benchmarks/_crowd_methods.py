"""The methods that ``crowds.py`` compares: models of this package, and crowd-kit's aggregators.

A method is a function of the responses, a seed, known labels (a dict, or None) and the settings,
and returns label probabilities (item, class). A new one is one line in ``METHODS``. crowd-kit's
aggregators have their default settings and get the seed where they take one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from _shared import QUIET
from scipy import sparse

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes

try:
    from crowdkit import aggregation as peers
except ImportError:
    peers = None
    MISSING = 'crowd-kit is not installed and left out: pip install -e ".[benchmarks]"'
else:
    MISSING = None

MOST_PAIRS = 10_000
"""Largest number of pairs of raters for M-MSR, which has several dense matrices of its square."""


class LeftOut(Exception):
    """A method cannot be run on a table; the message says why."""


@dataclass(frozen=True)
class Settings:
    draws: int  # kept draws of each of four chains


@dataclass(frozen=True)
class Method:
    """A function from responses, seed, known labels and settings to label probabilities.

    Attributes of the probabilities: ``labels_only`` if the method gives labels only, shared among
    tied classes (then only accuracy is scored), and ``note``, a line to print.
    """

    fit: Callable[..., xr.DataArray]
    random: bool = True
    gold: bool = True  # whether known labels are used
    peer: bool = False  # of another package


def as_labels(values, responses, **attributes):
    coords = {"item": responses.items, "class": responses.classes}
    return xr.DataArray(values, coords, ("item", "class"), attrs=attributes)


def vote_shares(responses, seed, gold, settings):
    """Return the shares of the votes, with one more vote spread over all classes.

    Without it a share of zero would have an infinite loss.
    """
    votes = responses.votes() + 1 / responses.n_classes
    return as_labels(votes / votes.sum(axis=1, keepdims=True), responses)


def mode(model, **options):
    """Return a method that takes the label probabilities at the posterior mode of a model."""

    def fit(responses, seed, gold, settings):
        with warnings.catch_warnings():  # a collapse is a result here; its scores are printed
            warnings.simplefilter("ignore", bf.errors.CollapseWarning)
            found = bf.find_map(model(responses, gold=gold, **options))
        return bf.label_probabilities(found)

    return fit


def sampled(model, **options):
    """Return a method that samples a model of this package."""

    def fit(responses, seed, gold, settings):
        built = model(responses, gold=gold, **options)
        found = bf.sample(
            built, draws=settings.draws, random_seed=seed, log_likelihood=False, **QUIET
        )
        return bf.label_probabilities(found)

    return fit


def fitted(model, **options):
    """Return a method that fits a model of this package by collapsed variational Bayes."""

    def fit(responses, seed, gold, settings):
        built = model(responses, gold=gold, **options)
        result = bf.fit(built, "cavi", draws=200, random_seed=seed, log_likelihood=False)
        return bf.label_probabilities(result)

    return fit


def stack(responses, seed, gold, settings):
    """Average the sampled models by weights from leave-one-out, which the note tells.

    Above a Pareto shape k̂ of 0.7 importance sampling is unreliable for some item, and so are the
    weights.
    """
    channels = {"Dawid–Skene": "confusion", "class-conditional": "class", "one coin": "coin"}
    results = {}
    for name, raters in channels.items():
        model = DawidSkene(responses, raters=raters, gold=gold)
        results[name] = bf.sample(
            model, draws=settings.draws, random_seed=seed, log_likelihood=True, **QUIET
        )
    with warnings.catch_warnings():  # ArviZ's, of Pareto shapes, which are printed
        warnings.simplefilter("ignore", UserWarning)
        both = bf.average(results)
    found = both["comparison"].dataset
    columns = (found[name].values for name in ("model", "weight", "worst_pareto_k"))
    told = [f"{name} {weight:.2f} (k̂ {k:.2f})" for name, weight, k in zip(*columns, strict=True)]
    note = "weights: " + ", ".join(told)
    return bf.label_probabilities(both).assign_attrs(note=note)


def fused(responses, seed, gold, settings):
    """Return the answer of bf.fuse at its default settings; the note tells its weights."""
    found = bf.fuse(responses, gold=gold, random_seed=seed, progressbar=False)
    table = found["comparison"].dataset.to_dataframe()
    told = [f"{name} {row.weight:.2f} ({row.outcome})" for name, row in table.iterrows()]
    return bf.label_probabilities(found).assign_attrs(note="weights: " + ", ".join(told))


def table_of(responses):
    return pd.DataFrame(
        {"task": responses.item, "worker": responses.rater, "label": responses.label}
    )


def from_table(found, responses, **attributes):
    """Return crowd-kit's table of scores; classes and items without any response are not in it."""
    found = found.reindex(index=range(responses.n_items), columns=range(responses.n_classes))
    values = found.to_numpy(dtype=float, copy=True)
    said = np.bincount(responses.label, minlength=responses.n_classes) > 0
    values[:, ~said] = 0.0
    values[responses.per_item == 0] = 1 / responses.n_classes
    if not np.isfinite(values).all():
        raise LeftOut("some of its scores are not finite")
    return as_labels(values, responses, **attributes)


def crowd_kit(make):
    """Return a method around an aggregator of crowd-kit, made by a function of the seed."""

    def fit(responses, seed, gold, settings):
        return from_table(make(seed).fit_predict_proba(table_of(responses)), responses)

    return fit


def crowd_kit_dawid_skene(responses, seed, gold, settings):
    item = {name: n for n, name in enumerate(responses.items.tolist())}
    label = {name: k for k, name in enumerate(responses.classes.tolist())}
    known = pd.Series({item[name]: label[given] for name, given in gold.items()}) if gold else None
    found = peers.DawidSkene().fit_predict_proba(table_of(responses), known)
    return from_table(found, responses)


def crowd_kit_skills(make):
    """Return a method that weighs votes by the skills of one of crowd-kit's aggregators.

    This is what their own ``predict_proba`` does, after a check that fails with recent versions of
    scikit-learn.
    """

    def fit(responses, seed, gold, settings):
        table = table_of(responses)
        votes = peers.MajorityVote().fit_predict_proba(table, make().fit(table).skills_)
        return from_table(votes, responses)

    return fit


def crowd_kit_mmsr(responses, seed, gold, settings):
    """Return the labels with the largest score, ties shared; the scores are no probabilities."""
    given = np.ones(len(responses.item))
    shape = responses.n_raters, responses.n_items
    answered = sparse.csr_matrix((given, (responses.rater, responses.item)), shape)
    pairs = ((answered @ answered.T).nnz - responses.n_raters) // 2
    if pairs > MOST_PAIRS:
        raise LeftOut(f"{pairs:,} pairs of raters share items, which takes too much memory")
    found = peers.MMSR(random_state=seed).fit_predict_score(table_of(responses))
    score = from_table(found, responses).values
    best = score == score.max(axis=1, keepdims=True)
    return as_labels(best / best.sum(axis=1, keepdims=True), responses, labels_only=True)


METHODS = {
    "bf.fuse": Method(fused),
    "vote shares": Method(vote_shares, random=False, gold=False),
    "Dawid–Skene, EM": Method(mode(DawidSkene), random=False),
    "Dawid–Skene, Gibbs": Method(sampled(DawidSkene)),
    "Dawid–Skene, pooled": Method(sampled(DawidSkene, pooled=True)),
    "consensus": Method(sampled(ItemTypes, consensus="levels")),
    "even guesses": Method(sampled(ItemTypes, consensus="levels", guesses="even")),
    "competing classes": Method(sampled(ItemTypes)),
    "consensus, variational": Method(fitted(ItemTypes, consensus="levels")),
    "clean items, variational": Method(fitted(ItemTypes, consensus="levels", clean=True)),
    "even guesses, variational": Method(fitted(ItemTypes, consensus="levels", guesses="even")),
    "competing, variational": Method(fitted(ItemTypes)),
    "one coin, Gibbs": Method(sampled(DawidSkene, raters="coin")),
    "class-conditional, Gibbs": Method(sampled(DawidSkene, raters="class")),
}
STACK = {"stack": Method(stack)}
PEERS = {
    "crowd-kit Dawid–Skene": Method(crowd_kit_dawid_skene, random=False, peer=True),
    "crowd-kit GLAD": Method(
        crowd_kit(lambda seed: peers.GLAD()), random=False, gold=False, peer=True
    ),
    "crowd-kit MACE": Method(
        # given a whole number, all of its ten restarts begin at the same values
        crowd_kit(lambda seed: peers.MACE(random_state=np.random.RandomState(seed))),
        gold=False,
        peer=True,
    ),
    "crowd-kit M-MSR": Method(crowd_kit_mmsr, gold=False, peer=True),
    "crowd-kit Wawa": Method(
        crowd_kit_skills(lambda: peers.Wawa()), random=False, gold=False, peer=True
    ),
    "crowd-kit ZeroBasedSkill": Method(
        crowd_kit_skills(lambda: peers.ZeroBasedSkill()), random=False, gold=False, peer=True
    ),
}


def methods(with_stack=False):
    """Return by name the methods that can be run here."""
    return METHODS | (STACK if with_stack else {}) | (PEERS if peers else {})

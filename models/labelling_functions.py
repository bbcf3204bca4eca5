"""Labelling functions: rules that label few items each, with dependent errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pymc as pm

import bayesfuse as bf
from bayesfuse.data.arrays import shown
from bayesfuse.data.known import gold_labels, read_shares
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, require_positive
from bayesfuse.inference import em
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.pymc.model import LabelModel
from bayesfuse.raters import dependence
from bayesfuse.raters.dependence import Groups
from bayesfuse.raters.votes import NOBODY

ITEMS = 5.0  # of every class, that the prior of the class shares is worth
ROUNDS = 100  # steps in which typical votes are made as frequent as votes are


class LabellingFunctions(LabelModel):
    r"""Rules that mostly abstain, a :class:`pymc.Model`.

    The number of votes on an item tells nothing of its class. The class is drawn from the shares of
    the classes, and each vote from the shares that the votes of all rules have in the class::

        class_shares ──► truth (item) ──► votes (item) ◄── vote_share (class, vote)

    So silence is no evidence: with silence modelled rule by rule, dependent rules decide the labels
    by what they do not say. With item n of class k, the votes v and :math:`c_v` the label of v:

    .. math::

        \pi &\sim \mathrm{Dir}(a), \qquad y_n \sim \pi, \qquad
        x_{ni} \sim \psi_{y_n}, \quad i = 1 \dots \text{number of votes} \\
        \psi_k &\sim \mathrm{Dir}(s\, p_{kv} + (\varphi - 1)\, n_v\, p'_{kv}), \qquad
        p'_{kv} \propto s\, p_{kv} + g_{kv}, \qquad
        p_{kv} \propto \pi_k b_v\, \omega^{[c_v = k]}, \quad \textstyle\sum_k p_{kv} = 1

    with b such that votes are as frequent as they are, ω the ``odds``, s the ``weight``, φ the
    ``dispersion``, n the numbers of votes and g those on items known to be of class k.

    Nothing but silence speaks for a class for which no rule votes. With such a class votes are
    :class:`bayesfuse.build.Firing`: there or not, independently given the class, with the rates
    :math:`\theta_{vk}` ("firing", vote × class), Beta(2, 2) in the class of the vote and
    Beta(1, 2ω − 1) in others, plus typical rates of φ − 1 times the items.

    Parameters
    ----------
    responses : bf.Responses, DataFrame or array
        The votes. Every source counts as applied to every item.
    class_shares : array or mapping, optional
        Known shares of the classes, or a 90 % interval (low, high) for every class, by class or in
        order. By default inferred around even shares, with a prior that weighs as much as five
        items of each class, and φ − 1 times the items: votes cannot tell them from eager rules.
    groups : "copies", None, mapping or list of lists, default "copies"
        Sources of one group give one vote for a label together. None keeps all sources apart;
        copies meet more often than two rules without errors could.
    odds, weight : float, default 8 and 5
        How many times more probable a vote is in its own class than in another, on average, and how
        many votes of a source this prior counts for.
    dispersion : float, optional
        How far sources are from independent given the class, for which it is 1. By default measured
        before the fit, by how often they meet.
    gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Shares that are no probabilities or cannot sum to one; odds or a dispersion too small; one
        rule for one class, without known labels.

    Notes
    -----
    In the sense of quasi-likelihood, votes say less of the quality of their rule by a factor of the
    dispersion, so the prior is given as many votes more, and known labels move it. Where rules are
    independent given the class and their silence is known, :class:`bayesfuse.build.Abstaining` is
    more accurate.

    References
    ----------
    Ratner et al. (2016), Data programming, NeurIPS. Wedderburn (1974), Biometrika 61, 439–447
    (dispersion).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    >>> model = bf.models.LabellingFunctions(votes, class_shares=[0.5, 0.5])
    >>> list(model.coords["vote"])
    ['0: 1', '1: 1', '2: 0']
    """

    def __init__(
        self,
        responses: Table,
        class_shares: Any = None,
        *,
        groups: Any = "copies",
        odds: float = 8.0,
        weight: float = 5.0,
        dispersion: float | None = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        self.require_one_table("the dependence of rules is measured on all of their votes at once")
        responses, gold = self.responses, self.gold
        _require_above("odds", odds, "a vote is for a class, not against it")
        require_positive("weight", weight)
        n_classes, n_items = responses.n_classes, int(responses.multiplicity.sum())
        known, concentration = read_shares(class_shares, responses)
        known_shares = known if concentration is None else concentration / concentration.sum()
        shares = np.full(n_classes, 1.0 / n_classes) if known_shares is None else known_shares
        concentration = np.full(n_classes, ITEMS) if concentration is None else concentration
        free = {} if known is not None else {"prevalence": Dirichlet(concentration)}
        mode = partial(_mode, responses, shares=shares, free=free, gold=gold)
        # nothing speaks for a class without votes, so silence has to
        silence_counts = not np.bincount(responses.label, minlength=n_classes).all()

        source = np.arange(responses.n_raters)
        column = dependence.numbered(responses, source)
        if isinstance(groups, str) and groups == "copies":
            meeting = shares
            if silence_counts and known_shares is None:
                # sources of a rare class meet often, so their silence has to give its share first
                channel = bf.build.Firing(None, column)
                meeting = mode(channel, {"firing": _firing_prior(channel, odds, n_classes)})[2]
            column = dependence.columns(responses, meeting)
        elif groups is not None:
            assignment = Groups.read(groups, responses).assignment
            source = np.where(assignment >= 0, responses.n_raters + assignment, source)
            column = dependence.numbered(responses, source)

        votes = bf.build.Firing(None, column) if silence_counts else bf.build.Votes(None, column)
        number = votes.numbers(responses)
        is_class_of_vote = np.eye(n_classes)[votes.label_of]  # (votes, classes)
        known_counts = votes.by_class(responses, gold_labels(responses, gold))
        if silence_counts:
            _require_two_votes(votes, responses, gold)
            prior = _firing_prior(votes, odds, n_classes)
            lift = (1.0 + is_class_of_vote * (odds - 1.0)) * shares
            typical = lift / lift.sum(axis=1, keepdims=True)
        else:
            typical = _typical(number, is_class_of_vote, shares, odds)
            prior = Dirichlet((weight * typical).T)
        if dispersion is None:
            observation, rows, _ = mode(votes, {votes.declared[0].name: prior})
            probability = observation.marginal(rows).probability
            rate = np.exp(rows[votes.declared[0].name])
            if silence_counts:
                of_pairs = dependence.firing_dispersion(votes, observation.table, rate, probability)
            else:
                of_pairs = dependence.dispersion(votes, observation.table, rate, probability)
            dispersion = max(of_pairs, 1.0)
        elif dispersion != 1:
            _require_above("dispersion", dispersion, "independent sources have one")
        doubt = float(dispersion) - 1.0
        centre = weight * typical + known_counts
        centre /= centre.sum(axis=1, keepdims=True)
        self.notes |= {"dispersion": f"{dispersion:.3g}", "vote_weight": f"{weight:g}"}

        self.add_coord("vote", _names(votes, responses))
        if known is not None:
            prevalence = pm.Data("prevalence", known, dims="class")
        else:
            if known_shares is None:
                concentration = concentration + doubt * n_items * shares
            prevalence = pm.Dirichlet("prevalence", concentration, dims="class")
        expected = number[:, None] * centre  # items with a vote, by class
        if silence_counts:
            silent = np.maximum(n_items * shares - expected, expected / 20.0)
            fires, misses = np.moveaxis(prior.concentration, -1, 0)
            rate = pm.Beta(
                "firing", fires + doubt * expected, misses + doubt * silent, dims=("vote", "class")
            )
            raters: bf.build.Votes = bf.build.Firing(rate, column)
        else:
            concentration = prior.concentration + doubt * expected.T
            share = pm.Dirichlet("vote_share", concentration, dims=("class", "vote"))
            raters = bf.build.Votes(share, column)
        bf.build.observe(
            responses, labels=bf.build.Independent(prevalence), raters=raters, gold=gold
        )


def _require_above(name: str, value: Any, reason: str) -> None:
    if require_positive(name, value) <= 1.0:
        raise ModelError(f"{name} must be above one, because {reason}. Got: {value!r}.")


def _names(votes: bf.build.Votes, responses: bf.Responses) -> list[str]:
    """Name every vote by its sources and its label."""
    names: list[list[str]] = [[] for _ in range(votes.n_votes)]
    for source, label in zip(*np.nonzero(votes.column != NOBODY), strict=True):
        names[votes.column[source, label]].append(str(responses.raters[source]))
    labels = listed(responses.classes)
    return [
        f"{' = '.join(sources)}: {labels[label]}"
        for sources, label in zip(names, votes.label_of, strict=True)
    ]


def _typical(number: Array, is_class_of_vote: Array, shares: Array, odds: float) -> Array:
    """Return classes of every vote's items (votes, classes), by iterative proportional fitting."""
    lift = 1.0 + is_class_of_vote * (odds - 1.0)
    target = number / number.sum()
    base = target
    for _ in range(ROUNDS):
        share = base[:, None] * lift / (base @ lift)
        joint = share * shares
        base = base * target / joint.sum(axis=1)
        base /= base.sum()
    shares_of: Array = joint / joint.sum(axis=1, keepdims=True)
    return shares_of


def _firing_prior(votes: bf.build.Votes, odds: float, n_classes: int) -> Dirichlet:
    """Return the prior of rates: Beta(2, 2) in the class of a vote, ``odds`` times less outside."""
    is_class_of_vote = np.eye(n_classes)[votes.label_of].astype(bool)
    fires, misses = (
        np.where(is_class_of_vote, 2.0, 1.0),
        np.where(is_class_of_vote, 2.0, 2.0 * odds - 1.0),
    )
    return Dirichlet(np.stack([fires, misses], axis=-1))


def _require_two_votes(votes: bf.build.Votes, responses: bf.Responses, gold: Any) -> None:
    if votes.n_votes > 1 or gold:
        return
    raise ModelError(
        "One rule for one class cannot tell hits from false alarms, because every share of the "
        "class explains how often it votes: add a rule, or known labels (gold=), from which "
        "bayesfuse.models.WeightedVotes estimates its accuracy. Got: votes of "
        f"{shown(responses.raters)} that count as one."
    )


def _mode(
    responses: bf.Responses,
    raters: bf.build.Votes,
    priors: dict[str, Any],
    *,
    shares: Array,
    free: dict[str, Any],
    gold: Any,
) -> tuple[ResponseModel, dict[str, Array], Array]:
    """Return items at a mode of the model for independent sources, its rows and class shares."""
    sample = np.unique(np.linspace(0, responses.n_items - 1, dependence.ITEMS).astype(np.int64))
    few = responses.take(sample)
    names = set(few.items.tolist())
    gold_by_item = dict({} if gold is None else gold)
    known = {item: label for item, label in gold_by_item.items() if item in names}
    observation = ResponseModel.build(few, bf.build.Independent(shares), raters, known)
    priors = priors | free
    rows = {"prevalence": np.log(shares)} | {name: prior.centre() for name, prior in priors.items()}
    rows = em.fit(observation, rows, priors).rows
    return observation, rows, np.exp(rows["prevalence"])

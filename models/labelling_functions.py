"""Labelling functions: rules that label few items each, with dependent errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray

import bayesfuse as bf
from bayesfuse.data.arrays import shown
from bayesfuse.data.known import gold_labels, read_shares
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, require_positive
from bayesfuse.inference import em
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import LabelModel
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Integers
from bayesfuse.raters import dependence
from bayesfuse.raters.dependence import Groups
from bayesfuse.raters.votes import NO_VOTE

Array = NDArray[np.float64]

ITEMS = 5.0  # of every class, that the prior of the class shares is worth
ROUNDS = 100  # steps in which typical votes are made as frequent as votes are


class LabellingFunctions(LabelModel):
    r"""Rules that mostly abstain, a :class:`pymc.Model`.

    The number of votes on an item is not evidence of its class. The class is drawn from the shares
    of the classes, and each vote from the shares that the votes of all rules have in the class::

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
    In the sense of quasi-likelihood, votes inform the quality of their rule less by a factor of the
    dispersion, so the prior is given as many votes more, and known labels move it. Where rules are
    independent given the class and their silence is known, :class:`bayesfuse.build.Abstaining` uses
    both.

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
        _require_above("odds", odds, "a vote is for a class, not against it")
        require_positive("weight", weight)
        if dispersion is not None and dispersion != 1:
            _require_above("dispersion", dispersion, "independent sources have one")
        responses, gold = self.responses, self.gold
        shares = ClassShares.read(class_shares, responses)
        column = _columns(responses, groups, shares, odds, gold)
        # nothing speaks for a class without votes, so silence has to
        silence_counts = _has_class_without_votes(responses)
        votes = bf.build.Firing(None, column) if silence_counts else bf.build.Votes(None, column)
        if silence_counts:
            _require_two_votes(votes, responses, gold)
        typical = _typical_classes(votes, responses, shares.mean, odds)
        if silence_counts:
            prior = _firing_prior(votes, odds, responses.n_classes)
        else:
            prior = Dirichlet((weight * typical).T)
        if dispersion is None:
            dispersion = _dispersion(votes, prior, responses, shares, gold)
        self.notes |= {"dispersion": f"{dispersion:.3g}", "vote_weight": f"{weight:g}"}
        doubt = float(dispersion) - 1.0
        centre = weight * typical + votes.by_class(responses, gold_labels(responses, gold))
        centre /= centre.sum(axis=1, keepdims=True)
        expected = votes.numbers(responses)[:, None] * centre  # items with a vote, by class

        self.add_coord("vote", _names(votes, responses))
        n_items = int(responses.multiplicity.sum())
        prevalence = shares.variable(doubt * n_items)
        if silence_counts:
            silent = np.maximum(n_items * shares.mean - expected, expected / 20.0)
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


@dataclass(frozen=True)
class ClassShares:
    """Shares of the classes: ``fixed`` (classes,), or a prior."""

    fixed: Array | None
    concentration: Array
    mean: Array
    is_informed: bool

    @classmethod
    def read(cls, class_shares: Any, responses: bf.Responses) -> ClassShares:
        """Read shares, intervals of shares, or None for a weak prior around even shares."""
        fixed, concentration = read_shares(class_shares, responses)
        default = np.full(responses.n_classes, ITEMS)
        if fixed is not None:
            return cls(fixed, default, fixed, True)
        if concentration is None:
            return cls(None, default, default / default.sum(), False)
        return cls(None, concentration, concentration / concentration.sum(), True)

    def variable(self, weight: float) -> Any:
        """Return the prevalence in a model, with a prior of ``weight`` more items by default."""
        if self.fixed is not None:
            return pm.Data("prevalence", self.fixed, dims="class")
        concentration = self.concentration
        if not self.is_informed:
            concentration = concentration + weight * self.mean
        return pm.Dirichlet("prevalence", concentration, dims="class")

    @property
    def priors(self) -> dict[str, Any]:
        """The prior of the prevalence, if it is free."""
        return {} if self.fixed is not None else {"prevalence": Dirichlet(self.concentration)}


def _require_above(name: str, value: Any, reason: str) -> None:
    if require_positive(name, value) <= 1.0:
        raise ModelError(f"{name} must be above one, because {reason}. Got: {value!r}.")


def _has_class_without_votes(responses: bf.Responses) -> bool:
    return not np.bincount(responses.label, minlength=responses.n_classes).all()


def _columns(
    responses: bf.Responses, groups: Any, shares: ClassShares, odds: float, gold: Any
) -> Integers:
    """Number the votes (raters, labels), those of a group or of near copies alike."""
    source = np.arange(responses.n_raters)
    column = dependence.numbered(responses, source)
    if groups is None:
        return column
    if not isinstance(groups, str) or groups != "copies":
        assignment = Groups.read(groups, responses).assignment
        source = np.where(assignment >= 0, responses.n_raters + assignment, source)
        return dependence.numbered(responses, source)
    mean = shares.mean
    if _has_class_without_votes(responses) and not shares.is_informed:
        # sources of a rare class meet often, so their silence has to give its share first
        votes = bf.build.Firing(None, column)
        prior = _firing_prior(votes, odds, responses.n_classes)
        mean = np.exp(_mode(votes, prior, responses, shares, gold)[1]["prevalence"])
    return dependence.columns(responses, mean)


def _names(votes: bf.build.Votes, responses: bf.Responses) -> list[str]:
    """Name every vote by its sources and its label."""
    names: list[list[str]] = [[] for _ in range(votes.n_votes)]
    for source, label in zip(*np.nonzero(votes.column != NO_VOTE), strict=True):
        names[votes.column[source, label]].append(str(responses.raters[source]))
    labels = listed(responses.classes)
    return [
        f"{' = '.join(sources)}: {labels[label]}"
        for sources, label in zip(names, votes.label_of, strict=True)
    ]


def _typical_classes(
    votes: bf.build.Votes, responses: bf.Responses, shares: Array, odds: float
) -> Array:
    """Return the classes of the items with every vote (votes, classes), for typical sources.

    If silence is not modelled, they are fitted to the numbers of votes by iterative proportional
    fitting.
    """
    lift = 1.0 + np.eye(responses.n_classes)[votes.label_of] * (odds - 1.0)
    if isinstance(votes, bf.build.Firing):
        joint = lift * shares
        return joint / joint.sum(axis=1, keepdims=True)
    number = votes.numbers(responses)
    target = number / number.sum()
    base = target
    for _ in range(ROUNDS):
        joint = base[:, None] * lift / (base @ lift) * shares
        base = base * target / joint.sum(axis=1)
        base /= base.sum()
    return joint / joint.sum(axis=1, keepdims=True)


def _firing_prior(votes: bf.build.Votes, odds: float, n_classes: int) -> Dirichlet:
    """Return the prior of rates: Beta(2, 2) in the class of a vote, ``odds`` times less outside."""
    is_class_of_vote = np.eye(n_classes)[votes.label_of].astype(bool)
    fires = np.where(is_class_of_vote, 2.0, 1.0)
    misses = np.where(is_class_of_vote, 2.0, 2.0 * odds - 1.0)
    return Dirichlet(np.stack([fires, misses], axis=-1))


def _require_two_votes(votes: bf.build.Votes, responses: bf.Responses, gold: Any) -> None:
    if votes.n_votes > 1 or (gold is not None and len(gold)):
        return
    raise ModelError(
        "One rule for one class cannot tell hits from false alarms, because every share of the "
        "class explains how often it votes: add a rule, or known labels (gold=), from which "
        "bayesfuse.models.WeightedVotes estimates its accuracy. Got: votes of "
        f"{shown(responses.raters)} that count as one."
    )


def _dispersion(
    votes: bf.build.Votes, prior: Dirichlet, responses: bf.Responses, shares: ClassShares, gold: Any
) -> float:
    """Return how much more sources meet than independent ones: one or more."""
    observation, rows = _mode(votes, prior, responses, shares, gold)
    probability = observation.marginal(rows).probability
    rate = np.exp(rows[votes.declared[0].name])
    is_firing = isinstance(votes, bf.build.Firing)
    measure = dependence.firing_dispersion if is_firing else dependence.dispersion
    return max(measure(votes, observation.table, rate, probability), 1.0)


def _mode(
    votes: bf.build.Votes, prior: Dirichlet, responses: bf.Responses, shares: ClassShares, gold: Any
) -> tuple[ResponseModel, dict[str, Array]]:
    """Return a sample of the items, and rows at a mode of the model for independent sources."""
    sample = np.unique(np.linspace(0, responses.n_items - 1, dependence.ITEMS).astype(np.int64))
    table = responses.take(sample)
    names = set(table.items.tolist())
    by_item = {} if gold is None else dict(gold)  # a Series, too
    known = {item: label for item, label in by_item.items() if item in names}
    observation = ResponseModel.build(table, bf.build.Independent(shares.mean), votes, known)
    priors = {votes.declared[0].name: prior} | shares.priors
    rows = {name: prior.centre() for name, prior in priors.items()}
    rows = {"prevalence": np.log(shares.mean)} | rows
    return observation, em.fit(observation, rows, priors).rows

"""Jaffe et al. (2016): groups of raters who share a source other than the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import bayesfuse as bf
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, NoGroupsWarning, warn
from bayesfuse.observation.evaluate import common_mean
from bayesfuse.observation.item_priors import independent_labels
from bayesfuse.observation.model import LabelModel, one_against_rest
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.parameters.variables import RaterGrouping
from bayesfuse.raters.dependence import Groups


class LatentGroup(LabelModel):
    """The latent-group model of Jaffe et al., a :class:`pymc.Model`.

    Every group of raters (who copied each other, learnt from the same examples) has a latent
    verdict on the item, drawn from the group's confusion row of the true class. Raters of the group
    respond to the verdict by their own confusion matrix, raters in no group to the true class, so
    ten raters of one group are at most as much evidence as one verdict::

        prevalence ──► truth (item) ──► verdict (item, group) ──► response (item, rater)
                                             ▲                          ▲
                                      group_confusion            rater_confusion

    Dirichlet rows with more weight on the diagonal identify classes twice: those of a verdict by
    its raters, and those of the truth by groups and raters in no group. A single group may still be
    opposed to the truth (a cartel), because its raters agree with each other.

    Parameters
    ----------
    responses, prevalence_prior, populations, covariates, classifier, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.
    groups : "moments", "posterior", mapping, sequence or Dataset, default "moments"
        Raters who share a source: a mapping from group names to lists of raters or from raters to
        groups (None: no group), a list of lists of raters, or a Dataset of
        :func:`bayesfuse.moments.find_groups`, which "moments" calls. "posterior" infers
        ``assignment``. A group of one rater counts as none: its verdicts are not identified.
    group_prior : array (classes, verdicts) or (groups, classes, verdicts), optional
        Concentration of the rows from truth to verdict. Default ``bf.priors.diagonal(classes)``.
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Prior of the rows from verdict (for raters in no group: truth) to label, as in
        :class:`bayesfuse.models.DawidSkene`, without mixtures for "posterior". Raters of a group
        repeat its verdict on nine items of ten by default, unless groups are inferred; with one
        prior for all, :func:`bayesfuse.update` takes new raters, who are in no group.
    share_prior : float, optional
        With "posterior", the prior probability that two raters share a source. Default one over
        the squared number of raters: the odds of no groups are from three to one to three to two.

    Attributes
    ----------
    groups : bayesfuse.raters.dependence.Groups
        The groups and their origin; with "posterior", the start of the chains.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Unknown raters, a rater in two groups, an empty group; priors of the wrong shape or sign.

    Notes
    -----
    If all raters but those of a group are another group instead, and the verdicts of the group are
    the truth, the responses are as probable. Only the prior, that raters repeat a verdict more
    faithfully than others are right, tells the two apart.

    ``confusion``, ``sensitivity`` and ``specificity`` are with respect to the truth (eq. 8), as in
    every model; ``rater_confusion``, ``verdict_sensitivity`` and ``verdict_specificity`` with
    respect to the verdict of the rater's group.

    Few independent sources that are weak do not identify the prevalence: give ``prevalence_prior``.
    If each half of the raters has its own source, chains stay in their mode, unless given ``gold``.

    References
    ----------
    Jaffe et al. (2016), Unsupervised ensemble learning with dependent classifiers, AISTATS.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.LatentGroup(bf.datasets.anesthesia(), groups={"ward": [2, 3]})
    >>> sorted(variable.name for variable in model.free_RVs)
    ['group_confusion', 'prevalence', 'rater_confusion']
    """

    def __init__(
        self,
        responses: Table | bf.io.Partitions,
        groups: Literal["moments", "posterior"]
        | Mapping[Any, Any]
        | Sequence[Any]
        | xr.Dataset = "moments",
        *,
        prevalence_prior: Any = None,
        group_prior: Any = None,
        confusion_prior: Any = None,
        share_prior: float | None = None,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        inferred = isinstance(groups, str) and groups == "posterior"
        if share_prior is not None and not inferred:
            raise ModelError(
                "share_prior needs groups='posterior', because other groups are fixed. Got: "
                f"{share_prior=}."
            )
        if isinstance(groups, str):
            self.require_one_table("groups are found from all responses at once; give groups=")
        self.groups = Groups.read("moments" if inferred else groups, self.responses)
        self.notes["groups"] = "posterior" if inferred else self.groups.origin
        group_names = list(self.groups.members)
        if inferred:
            group_names = _possible_groups(self.responses)
        elif isinstance(groups, str) and not group_names:
            _warn_without_groups(self.groups.origin)
        self.add_coords({"group": group_names, "verdict": self.responses.classes.tolist()})

        labels = independent_labels(
            self.responses, prevalence_prior, populations, covariates, classifier
        )
        inner = self._rater_confusion(confusion_prior, bool(group_names), inferred)
        outer, assignment = None, self.groups.assignment
        if group_names:
            n_groups = len(group_names)
            rows = bf.priors.groups(group_prior, n_groups, self.responses, alike=inferred)
            outer = bf.build.dirichlet("group_confusion", rows, dims=("group", "class", "verdict"))
        channel: bf.build.LatentGroups | bf.build.InferredGroups
        if inferred:
            alpha = bf.priors.sharing(share_prior, self.responses)
            assignment = RaterGrouping("assignment", alpha, n_groups, assignment, dims="rater")
            channel = bf.build.InferredGroups(outer, inner, assignment)
        else:
            channel = bf.build.LatentGroups(outer, inner, assignment)
            pm.Data("assignment", assignment, dims="rater")
        self.observe(labels=labels, raters=channel)
        self._name_verdict_rates(outer, inner, assignment)

    def _rater_confusion(self, prior: Any, has_groups: bool, inferred: bool) -> Any:
        """Register the rows from verdict (for raters in no group: truth) to label."""
        if not inferred and (prior is None or isinstance(prior, Mapping)):
            row = bf.priors.copied(self.responses.n_classes)
            grouped = [rater for raters in self.groups.members.values() for rater in raters]
            prior = dict.fromkeys(grouped, row) | dict(prior or {})
        rows = bf.priors.confusion(prior, self.responses)
        if inferred and isinstance(rows, DirichletMixture):
            raise ModelError(
                "groups='posterior' needs Dirichlet priors, because confusion rows are integrated "
                "out: give concentrations, or the groups. Got: a mixture as confusion_prior."
            )
        self.new_rater_defaults["rater_confusion"] = (
            "the group of a new rater is unknown" if has_groups else common_mean(rows)
        )
        return bf.build.dirichlet("rater_confusion", rows, dims=("rater", "verdict", "answer"))

    def _name_verdict_rates(self, outer: Any, inner: Any, assignment: Any) -> None:
        """Register sensitivity and specificity with respect to the verdict of a rater's group."""
        n_classes = self.responses.n_classes
        source = prevalence = self["prevalence"]  # distribution of the source of every rater
        if outer is not None:
            groups = np.arange(len(self.coords["group"]))
            member = pt.eq(pt.as_tensor(assignment)[:, None], groups)  # (raters, groups)
            verdicts = pt.dot(member.astype("float64"), pt.dot(prevalence, outer))
            source = pt.where(member.any(axis=1)[:, None], verdicts, prevalence)
        dims = ("rater",) if n_classes == 2 else ("rater", "class")
        rates = one_against_rest(inner, source, n_classes)
        for of, rate in zip(("sensitivity", "specificity"), rates, strict=True):
            pm.Deterministic(f"verdict_{of}", rate, dims=dims)


def _possible_groups(responses: bf.Responses) -> list[int]:
    """Number the groups that raters can form, at least two raters in each."""
    if responses.n_raters < 2:
        raise ModelError("To infer groups there must be at least two raters. Got: 1 rater.")
    return list(range(responses.n_raters // 2))


def _warn_without_groups(origin: str) -> None:
    why = "" if origin == "moments" else f" ({origin})"
    warn(
        f"Moments find no raters who share a source{why}, so this LatentGroup is Dawid and "
        "Skene's model; groups='posterior' infers the probability of every pair.",
        NoGroupsWarning,
    )

"""Jaffe et al. (2016): raters who share a source, which is not the truth.

Story: every item draws a true class from the prevalence. Every group of raters (who copied each
other, learnt from the same examples, read the same newspaper) forms a hidden verdict on the item:
the group's matrix says which, given the truth. A rater of the group sees the verdict and not the
truth, and answers by the rater's own matrix. Raters alone answer to the truth.

    prevalence ──► truth (item) ──► verdict (item, group) ──► response (item, rater)
                                         ▲                          ▲
                                  group_confusion            rater_confusion

Ten raters of one group are thus as much evidence as the one verdict behind them, however
unanimous they are.

Priors: Dirichlet rows with more weight on the diagonal, for groups and raters alike. Which class
is which has to be said twice. A verdict has its name from its raters: that most of them repeat it
rather than its opposite. The truth has its name from groups and raters alone: that they are better
than chance on the whole. One group may then be unrelated or opposed to the truth (a cartel): its
raters agree with each other, so its own matrix is what the data bend.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import bayesfuse as bf
from bayesfuse import priors
from bayesfuse.errors import ModelError, NoGroupsWarning
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.parameters.variables import partition
from bayesfuse.pymc.model import LabelModel, one_against_rest
from bayesfuse.raters.grouping import Groups, groups_at_most


class LatentGroup(LabelModel):
    """The latent-group model of Jaffe et al., a :class:`pymc.Model`.

    Parameters
    ----------
    responses : bf.Responses
        Who said what about which item.
    groups : "moments", "posterior", mapping, sequence or Dataset, default "moments"
        Which raters share a source. A mapping from group names to lists of raters or from raters
        to groups (None: alone), a list of lists of raters, what
        :func:`bayesfuse.moments.find_groups` returns; raters it does not mention are alone.
        "posterior" infers them: ``assignment`` is a variable of the model, and chains begin at the
        groups that moments find. "moments" finds them by that function; where the table cannot
        tell (fewer than four raters, say) every rater is alone. A group of one rater is a rater
        alone, because the responses do not tell a verdict that is wrong from a rater who misreports
        it.
    prevalence_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the prevalence. Default 1: every prevalence equally likely.
    group_prior : array (classes, verdicts) or (groups, classes, verdicts), optional
        Dirichlet concentration of the rows from truth to verdict. Default
        ``bf.priors.diagonal(classes)``.
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Dirichlet concentration of the rows from verdict (for raters alone: truth) to label, for
        all raters, for each, or by name. Default ``bf.priors.diagonal(classes)``. Mixtures, as
        ``bf.priors.robust``, only where groups are not to be inferred.
    share_prior : float, optional
        With "posterior", the prior probability that two raters share a source. Default one over
        the squared number of raters: the odds that everybody is alone are then three to one for two
        raters and fall to about three to two for many, so no group is found that the data do not
        ask for.
    max_groups : int, optional
        With "posterior", groups there may be at most. Default half as many as raters.
    gold : mapping of item name to class name, optional
        Items whose true class is known.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Attributes
    ----------
    groups : bayesfuse.raters.grouping.Groups
        Which raters share a source, and who said so; with "posterior", where chains begin.

    Raises
    ------
    bayesfuse.errors.ModelError
        Unknown raters, a rater in two groups, an empty group, more groups than raters; priors of
        the wrong shape, or not positive.
    bayesfuse.errors.ResponsesError
        Names of groups that are not all text, all numbers or all times.

    Warns
    -----
    bayesfuse.errors.NoGroupsWarning
        Moments find no groups.

    Notes
    -----
    ``confusion``, ``sensitivity`` and ``specificity`` are with respect to the truth (eq. 8), as in
    every model; ``rater_confusion``, ``verdict_sensitivity`` and ``verdict_specificity`` with
    respect to the verdict of the rater's group.

    A large group leaves few sources, and of weak ones all pairs fit any prevalence: only triples
    tell it, and intervals of it and of the accuracies are wide. If it is known, say so by
    ``prevalence_prior``; moment methods that label by the larger likelihood take it to be uniform.

    Of two halves of the raters, each with a source of its own, nothing but the prior says whose
    source is the truth. Chains stay on the side where they begin; ``gold`` labels settle it.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), Unsupervised ensemble learning with dependent
    classifiers, AISTATS, 351–360.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import LatentGroup
    >>> model = LatentGroup(bf.datasets.anesthesia(), groups={"ward": [2, 3], "night": [4, 5]})
    >>> model.groups.members
    {'ward': [2, 3], 'night': [4, 5]}
    >>> sorted(variable.name for variable in model.free_RVs)
    ['group_confusion', 'prevalence', 'rater_confusion']
    """

    def __init__(
        self,
        responses: bf.Responses,
        groups: Literal["moments", "posterior"]
        | Mapping[Any, Any]
        | Sequence[Any]
        | xr.Dataset = "moments",
        *,
        prevalence_prior: Any = None,
        group_prior: Any = None,
        confusion_prior: Any = None,
        share_prior: float | None = None,
        max_groups: int | None = None,
        gold: Mapping[Any, Any] | None = None,
        name: str = "",
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        inferred = isinstance(groups, str) and groups == "posterior"
        if not inferred and (share_prior is not None or max_groups is not None):
            raise ModelError(
                "share_prior and max_groups are for groups that are inferred, groups='posterior'. "
                f"Got: {share_prior=}, {max_groups=} for groups that are not."
            )
        self.groups = Groups.read("moments" if inferred else groups, responses)
        self.notes["groups"] = "posterior" if inferred else self.groups.origin
        names = self.groups.names
        if not names and isinstance(groups, str) and not inferred:
            why = "" if self.groups.origin == "moments" else f" ({self.groups.origin})"
            warnings.warn(
                f"Moments find no raters who share a source{why}, so this LatentGroup is Dawid and "
                "Skene's model; groups='posterior' gives every pair its probability.",
                NoGroupsWarning,
                stacklevel=3,
            )
        if inferred:
            names = list(range(groups_at_most(max_groups, responses)))
            self.groups = self.groups.largest(len(names))
        self.add_coords({"group": names, "verdict": responses.classes.tolist()})
        prevalence = pm.Dirichlet(
            "prevalence", priors.prevalence(prevalence_prior, responses), dims="class"
        )
        rows = priors.confusion(confusion_prior, responses)
        if inferred and isinstance(rows, DirichletMixture):
            raise ModelError(
                "Groups are inferred with the rows of groups and raters summed out, which is "
                "written for Dirichlet priors: give concentrations, or the groups. Got: a mixture "
                "as confusion_prior with groups='posterior'."
            )
        inner = bf.dirichlet("rater_confusion", rows, dims=("rater", "verdict", "answer"))
        outer, assignment = None, self.groups.assignment
        if names:
            rows = priors.groups(group_prior, len(names), responses, alike=inferred)
            outer = bf.dirichlet("group_confusion", rows, dims=("group", "class", "verdict"))
        if inferred:
            alpha = priors.sharing(share_prior, responses)
            assignment = partition(
                "assignment", responses.n_raters, len(names), alpha, start=assignment, dims="rater"
            )
            channel: bf.LatentGroups | bf.InferredGroups
            channel = bf.InferredGroups(outer, inner, assignment)
        else:
            channel = bf.LatentGroups(outer, inner, assignment)
            pm.Data("assignment", assignment, dims="rater")
        self.observe(labels=bf.Independent(prevalence), raters=channel)
        source = prevalence  # of the source of every rater: how often is it what
        if outer is not None:
            member = pt.eq(pt.as_tensor(assignment)[:, None], np.arange(len(names)))
            verdicts = pt.dot(member.astype("float64"), pt.dot(prevalence, outer))
            source = pt.where(member.any(axis=1)[:, None], verdicts, prevalence)
        dims = ("rater",) if responses.n_classes == 2 else ("rater", "class")
        rates = one_against_rest(inner, source, responses.n_classes)
        for of, rate in zip(("sensitivity", "specificity"), rates, strict=True):
            pm.Deterministic(f"verdict_{of}", rate, dims=dims)

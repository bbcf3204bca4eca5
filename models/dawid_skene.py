"""Dawid and Skene (1979): independent items, a confusion matrix per rater.

Story: every item draws a true class from the prevalence. Every rater has a confusion matrix: the
row of the true class says how often the rater gives each label. Given the truth the raters answer
independently of each other.

    prevalence ──► truth (item) ──► response (item, rater) ◄── confusion (rater)

Priors: Dirichlet rows. Without ground truth the labels are known only up to a relabelling of the
classes, and what breaks the tie is the belief that raters are better than chance. The default
therefore puts more weight on the diagonal; see :func:`bayesfuse.priors.diagonal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pymc as pm

import bayesfuse as bf
from bayesfuse import priors
from bayesfuse.pymc.model import LabelModel


class DawidSkene(LabelModel):
    """The model of Dawid and Skene, a :class:`pymc.Model`.

    Parameters
    ----------
    responses : bf.Responses
        Who said what about which item.
    prevalence_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the prevalence. Default 1: every prevalence equally likely.
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Dirichlet concentration of the confusion rows, for all raters, for each, or from rater
        names to arrays (the others keep the default). Default ``bf.priors.diagonal(classes)``.
        Or, in place of any of these, a mixture: ``bf.priors.robust(classes)`` keeps one odd
        rater from naming the classes. With ``raters="class"`` or ``"coin"`` the last axis is
        (right, wrong), and there are no mixtures.
    raters : {"confusion", "class", "coin"}, default "confusion"
        One confusion matrix per rater; or one accuracy per rater and true class, errors uniform
        (class-conditional); or one accuracy per rater.
    gold : mapping of item name to class name, optional
        Items whose true class is known.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Raises
    ------
    bayesfuse.errors.ModelError
        Priors of the wrong shape, or not positive.

    References
    ----------
    Dawid & Skene (1979), Maximum likelihood estimation of observer error-rates using the EM
    algorithm, Applied Statistics 28, 20–28.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> sorted(variable.name for variable in model.free_RVs)
    ['confusion', 'prevalence']
    """

    def __init__(
        self,
        responses: bf.Responses,
        *,
        prevalence_prior: Any = None,
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin"] = "confusion",
        gold: Mapping[Any, Any] | None = None,
        name: str = "",
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        concentration = priors.prevalence(prevalence_prior, responses)
        prevalence = pm.Dirichlet("prevalence", concentration, dims="class")
        channel = self.rater_channel(raters, confusion_prior)
        self.observe(labels=bf.Independent(prevalence), raters=channel)

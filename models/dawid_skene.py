"""Dawid and Skene (1979): independent items, a confusion matrix per rater.

Generative process: the true class of every item is drawn from the prevalence. Every rater has a
confusion matrix, whose row of the true class is the distribution of the rater's label. Responses
are independent given the true class.

    prevalence ──► truth (item) ──► response (item, rater) ◄── confusion (rater)

Priors: Dirichlet rows. Without ground truth the classes are identified only up to a permutation,
unless raters are assumed to be better than chance. The default therefore puts more weight on the
diagonal, see :func:`bayesfuse.priors.diagonal`.
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
        The responses of raters to items.
    prevalence_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the prevalence. Default 1 (uniform).
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Dirichlet concentration of the confusion rows, for all raters, for each, or by rater name
        (others keep the default). Default ``bf.priors.diagonal(classes)``. Any of these may be a
        mixture: with ``bf.priors.robust(classes)`` one odd rater cannot switch the classes. With
        ``raters="class"`` or ``"coin"`` the last axis is (right, wrong), without mixtures.
    raters : {"confusion", "class", "coin"}, default "confusion"
        One confusion matrix per rater; one accuracy per rater and true class, with uniform errors;
        or one accuracy per rater.
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

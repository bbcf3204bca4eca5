"""Dawid and Skene (1979): independent items, a confusion matrix per rater."""

from __future__ import annotations

from typing import Any, Literal

import bayesfuse as bf
from bayesfuse.data.tables import Table
from bayesfuse.observation.item_priors import independent_labels
from bayesfuse.observation.model import LabelModel


class DawidSkene(LabelModel):
    r"""The model of Dawid and Skene, a :class:`pymc.Model`.

    The true class of every item is drawn from the prevalence, and a rater's label from the row of
    that class in the rater's confusion matrix, independently of other responses::

        prevalence ──► truth (item) ──► response (item, rater) ◄── confusion (rater)

    .. math::

        \pi \sim \mathrm{Dir}(1, \dots, 1), \quad \theta_{mk} \sim \mathrm{Dir}(a_k), \quad
        y_n \sim \pi, \quad x_{nm} \sim \theta_{m y_n}

    The prevalence is uniform, because data usually determine it. Rows have more weight on the
    diagonal: without known labels, the classes are identified only by the assumption that raters
    are better than chance.

    Parameters
    ----------
    responses : bf.Responses, DataFrame or array
        With stated probabilities, raters are :class:`bayesfuse.build.Stated`; with silence they
        have rows "speech" over the labels and silence. Both need ``raters="confusion"`` without
        pooling.
    prevalence_prior : float or array, shape (classes,) or (populations, classes), optional
        Dirichlet concentration; a mapping by name for populations. Default 1 (uniform).
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Dirichlet concentration of the rows, for all raters, for each, or by rater name (others keep
        the default, ``bf.priors.diagonal(classes)``), or a mixture, ``bf.priors.robust(classes)``.
        With "coin" it is (right, wrong), the concentrations of the Beta prior of an accuracy, and
        with "class" (classes, 2), a pair for every class. A last column is for silence, by default
        nine times the sum of the others.
    raters : {"confusion", "class", "coin", "graded"}, default "confusion"
        A confusion matrix per rater; an accuracy per rater and true class, or per rater, with
        uniform errors; or, for ordered classes, thresholds and a precision.
    pooled : bool, default False
        Whether the raters share an inferred mean, of which ``confusion_prior`` is then the prior.
    populations : mapping, Series or array, shape (items,), optional
        The population of every item, by name or in order. Each has its own
        "population_prevalence"; "prevalence" is the share of every class in all.
    covariates : DataFrame or array, shape (items, covariates), optional
        Numeric predictors of the class. "slope" (covariate, other_class) is the change of the
        log-odds of a class against the first one per unit.
    classifier : DataFrame, DataArray or array, shape (items, classes), optional
        Class probabilities from a model that saw none of the responses. Their weight,
        "classifier_scale", is inferred: 1 takes them at face value, 0 ignores them.
    gold : mapping of item name to class name, DataFrame or path, optional
        Items whose true class is known.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Priors of the wrong shape or sign; items without population, covariates or probabilities.

    Notes
    -----
    With ``covariates`` or ``classifier``, "average_prevalence" (or "population_prevalence") is that
    of an item with average predictors. Slopes per standard deviation, "standard_slope", sum to zero
    over the classes, so that their order does not matter; their difference between two classes is
    Normal(0, τ), with τ ~ Gamma(2, 2), "slope_scale". The scale of a classifier is HalfNormal(1).

    With ``pooled=True`` rows are Dirichlet(κμ), with "confusion_mean" μ and
    "confusion_concentration" κ (class), the number of responses that the crowd counts for;
    accuracies are Beta(κp, κ(1 − p)). The prior of κ, Gamma(1, 0.1), has its mode at zero and a
    long tail. The density has poles, so use ``bf.sample``. A rare class may turn into one of hard
    items; ``bf.priors.diagonal(5, weight=200)``, say, counteracts that.

    With ``raters="graded"`` raters perceive a class's position on a line with noise, and cut the
    line at their own thresholds (:class:`bayesfuse.build.Graded`). Distances are in those of
    neighbouring classes on average, and these are Dirichlet(5), because all raters confuse close
    grades. Strictness, the mean shift of a rater's thresholds, is Normal(0, 1); the gaps between
    them, relative to those between the classes, log-normal(0, 0.5), which keeps their order;
    precision, one over the standard deviation of the noise, log-normal(log 2, 1). Guesses are
    uniform, at a rate of log-odds Normal(−3, 1.5). With ``pooled=True`` all vary around common
    means.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28. Paun et al. (2018), TACL 6, 571–585 (pooled
    rows). Hui & Walter (1980), Biometrics 36, 167–171 (populations). Raykar et al. (2010), JMLR 11,
    1297–1322 (covariates).

    Examples
    --------
    Two tests in two populations; with flat priors the mode is the published maximum likelihood:

    >>> import bayesfuse as bf
    >>> table, people = bf.datasets.tuberculosis()
    >>> model = bf.models.DawidSkene(table, populations=people, confusion_prior=[[1, 1], [1, 1]])
    >>> point = bf.find_map(model)["point"]
    >>> point["population_prevalence"].sel({"class": "+"}).round(4).values.tolist()
    [0.0268, 0.7168]
    """

    def __init__(
        self,
        responses: Table | bf.io.Partitions,
        *,
        prevalence_prior: Any = None,
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin", "graded"] = "confusion",
        pooled: bool = False,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        # π: of all items, of each population, or of each item given covariates or a classifier
        labels = independent_labels(
            self.responses, prevalence_prior, populations, covariates, classifier
        )
        # θ: free rows, or rows with fewer parameters
        channel = self.rater_channel(raters, confusion_prior, pooled)
        self.observe(labels=labels, raters=channel)

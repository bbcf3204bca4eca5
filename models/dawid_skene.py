"""Dawid and Skene (1979): independent items, a confusion matrix per rater."""

from __future__ import annotations

from typing import Any, Literal

import bayesfuse as bf
from bayesfuse.data.tables import Table
from bayesfuse.pymc.item_priors import independent_labels
from bayesfuse.pymc.model import LabelModel


class DawidSkene(LabelModel):
    """The model of Dawid and Skene, a :class:`pymc.Model`.

    The true class of every item is drawn from the prevalence. A rater's label is drawn from the row
    of the true class in the rater's confusion matrix, independently of other responses::

        prevalence ──► truth (item) ──► response (item, rater) ◄── confusion (rater)

    Rows have Dirichlet priors. Without known labels the classes are identified only by the
    assumption that raters are better than chance, so the default has more weight on the diagonal.

    Parameters
    ----------
    responses : bf.Responses, DataFrame or array
        The responses of raters to items.
    prevalence_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the prevalence. Default 1 (uniform). With ``populations``: for
        all of them, or (populations, classes), or a mapping by name.
    confusion_prior : array (classes, labels) or (raters, classes, labels), or mapping, optional
        Dirichlet concentration of the confusion rows, for all raters, for each, or by rater name
        (others keep the default). Default ``bf.priors.diagonal(classes)``. Mixtures are possible:
        with ``bf.priors.robust(classes)`` one odd rater cannot switch the classes. With
        ``raters="class"`` or ``"coin"`` the last axis is (right, wrong), without mixtures.
    raters : {"confusion", "class", "coin", "graded"}, default "confusion"
        One confusion matrix per rater; one accuracy per rater and true class, with uniform errors;
        one accuracy per rater; or, for ordered classes, thresholds and a precision per rater.
    pooled : bool, default False
        Whether the raters share an inferred mean, of which ``confusion_prior`` is then the prior.
    populations : mapping, Series or array, shape (items,), optional
        The population of every item, by item name or in the order of ``responses.items``. Each has
        its own "population_prevalence", and "prevalence" is the share of every class in all. Two
        populations of different prevalence identify two diagnostic tests.
    covariates : DataFrame or array, shape (items, covariates), optional
        Numeric predictors of the class, indexed by item. "slope" (covariate, other_class) is the
        change of the log-odds of a class against the first one per unit.
    classifier : DataFrame, DataArray or array, shape (items, classes), optional
        Class probabilities from a model that saw none of the responses. Their weight,
        "classifier_scale", is inferred: 1 takes them at face value, 0 ignores them.
    gold : mapping of item name to class name, DataFrame or path, optional
        Items whose true class is known.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Raises
    ------
    bayesfuse.errors.ModelError
        Priors of the wrong shape, or not positive; with ``pooled=True`` a prior by rater or a
        mixture; ``raters="graded"`` with unordered classes or a prior; collinear covariates.
    bayesfuse.errors.ResponsesError
        Items without population, covariates or probabilities, or that are not in the table; values
        that are missing, infinite or no probabilities.

    Notes
    -----
    With ``covariates`` or ``classifier``, "average_prevalence" (or "population_prevalence") is that
    of an item with average predictors, with the prior of a prevalence. Slopes per standard
    deviation, "standard_slope" (covariate, class), sum to zero over the classes, so that their
    order does not matter. The difference between the slopes of two classes is Normal(0, τ), with
    τ ~ Gamma(2, 2), "slope_scale"; the scale of a classifier is HalfNormal(1). Patterns of a table
    of counts count as often as they occur. These variables are drawn by NUTS next to Gibbs steps.

    Responses with silence (``abstain=`` where they are read, or ``responses.completed()``) have
    rows over the labels and silence, "speech" (rater, class, said); "confusion", "sensitivity" and
    "specificity" are then conditional on speaking. ``confusion_prior`` has a last column for
    silence, by default nine times the sum of the others: sources speak on a tenth of the items,
    whatever the class. Zeros are structural, for rules that never give some label. Responses with
    stated probabilities (``bf.Responses.from_probabilities``) have the channel
    :class:`bayesfuse.Stated`: the row "confusion" of a source is its calibration. Other values of
    ``raters``, and ``pooled=True``, need ``responses.without_silence()`` or
    ``responses.without_statements()``.

    With ``pooled=True`` rows are Dirichlet(κμ), with "confusion_mean" μ (class, answer) and
    "confusion_concentration" κ (class), the number of responses that the crowd counts for;
    accuracies are Beta(κp, κ(1 − p)), with "accuracy_mean" p and "accuracy_concentration" κ. The
    prior of κ, Gamma(1, 0.1), has its mode at zero and a tail that hundreds of responses outweigh.
    Use ``bf.sample``: the density has poles where concentrations are small, so ``bf.find_map``
    seldom finds a mode (its attribute ``converged``), and ``bf.fit`` uses ADVI. A rare class may
    turn into one of hard items, with any label, because one row of the mean identifies it instead
    of one of every rater. A larger ``confusion_prior`` counteracts that: on a crowd of 461 raters
    with a class of one item in thirty, the accuracy of the labels is 0.89 without pooling, 0.82
    with it, and 0.90 with ``bf.priors.diagonal(5, weight=200)``.

    With ``raters="graded"`` the classes are grades on a line. A rater perceives an item with noise
    and cuts the line at the rater's own thresholds (:class:`bayesfuse.Graded`)::

        position (class), strictness, threshold_gap, precision, guess_rate (rater) ──► confusion

    Distances are in those of neighbouring classes on average. Of the positions the ends are fixed,
    and the distances Dirichlet(5), because grades that are often confused are close for all raters.
    Strictness, the mean shift of thresholds from the middles between classes, is Normal(0, 1); gaps
    between thresholds, relative to those between the middles, log-normal(0, 0.5), which keeps their
    order; precision, one over the standard deviation of the noise, log-normal(log 2, 1) (at two a
    middle class is named rightly in 68 % of its items). Guesses are uniform over the grades, at a
    rate of log-odds Normal(−3, 1.5). With ``pooled=True`` all these vary around common means, with
    half-normal spreads of scale 1 (strictness, log precision), 0.5 (log gaps) and 1.5 (log-odds).
    ``threshold_gap`` and ``precision`` are drawn by slice sampling next to the labels.
    "confusion_mean" is the expected row of a new rater, an integral accurate to about .001.
    :func:`bayesfuse.grades` returns the grade of every item, :func:`bayesfuse.rater_grades` the
    strictness and precision of every rater.

    References
    ----------
    Dawid & Skene (1979), Maximum likelihood estimation of observer error-rates using the EM
    algorithm, Applied Statistics 28, 20–28. Paun, Carpenter, Chamberlain, Hovy, Kruschwitz &
    Poesio (2018), Comparing Bayesian models of annotation, Transactions of the ACL 6, 571–585
    (pooled rows). Hui & Walter (1980), Estimating the error rates of diagnostic tests, Biometrics
    36, 167–171 (populations). Raykar et al. (2010), Learning from crowds, Journal of Machine
    Learning Research 11, 1297–1322 (covariates).

    Examples
    --------
    Two tests in two populations; with flat priors the mode is the published maximum likelihood:

    >>> import bayesfuse as bf
    >>> table, people = bf.datasets.tuberculosis()
    >>> model = bf.models.DawidSkene(table, populations=people, confusion_prior=[[1, 1], [1, 1]])
    >>> point = bf.find_map(model)["point"]
    >>> point["population_prevalence"].sel({"class": "+"}).round(4).values.tolist()
    [0.0268, 0.7168]

    The sensitivity of a new rater for class 1, with its 89 % interval, from ``pooled=True``:

    >>> import numpy as np
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia(), pooled=True)
    >>> result = bf.sample(model, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> pool = result["posterior"].dataset
    >>> kappa_mu = pool["confusion_concentration"] * pool["confusion_mean"]
    >>> new = kappa_mu.copy(data=np.random.default_rng(1).standard_gamma(kappa_mu))
    >>> right = (new / new.sum("answer")).sel({"class": 1, "answer": 1})
    >>> right.quantile([0.055, 0.945]).round(1).values.tolist()
    [0.5, 1.0]
    """

    def __init__(
        self,
        responses: Table | bf.Partitions,
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
        responses = self.responses
        labels = independent_labels(
            responses, prevalence_prior, populations, covariates, classifier
        )
        self.observe(labels=labels, raters=self.rater_channel(raters, confusion_prior, pooled))

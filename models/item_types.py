"""Items of several types, easy and hard, and raters who look or guess.

In the model of Dawid and Skene errors are independent given the class. Real errors are not: on hard
items most raters give the same wrong label. Here every item has a hidden type, and the consensus of
the raters on a type counts as one opinion.

    type_share ──► type (item) ──► truth (item) ◄── class_of_type (type) ◄── trust, firmness
                        │                                   ▲
                        ▼                                   │
           response (item, rater) ◄── type_confusion ◄── consensus (type), competence, guess (rater)

Generative process: an item's type is drawn from the shares of the types, its true class from the
classes of its type. On items of a type, raters who look tend to say what its consensus row says,
and raters who do not look guess. The competence of a rater is the probability to look. Raters
differ beyond that: the rows of all raters for a type are drawn around what competence, consensus
and guess imply.

Priors and why:

* Shares of types are a truncated Dirichlet process whose concentration is Gamma(1, 1), so the data
  decide how many types are in use.
* Raters who look at items of a type mostly agree: consensus rows are Dirichlet(0.15), near corners.
* What a type's consensus says of the truth is one answer of a rater who is as good as the crowd:
  the class has the probabilities of the consensus row, raised to the power ``trust``. No unlabelled
  data can tell ``trust``, so without gold labels it keeps its prior, log-normal(0.2, 0.4): a little
  more than one answer, 0.6 to 2.7. With ``gold`` it is learnt, and so is ``firmness``: the smaller,
  the more alike in class are the items of a type. Its prior, log-normal(−2.5, 1.5), makes types
  nearly pure, which the next point needs.
* Every class occurs: the prior has seen one item of each, of unknown type and without responses.
  Where there are as many clear types as classes, this gives every class its type.
* Competence, guesses and rows of raters with few responses are near those of the crowd, whose means
  are inferred: competence around Beta(2, 1), guesses around a flat row. How near is inferred, too,
  under wide gamma priors, with means of 4, 5 and (for rows) 10 responses.

What is known of items (``populations=``, ``covariates=``, ``classifier=``) moves the log-odds of
their classes, from the shares of average items on. The shares of the types within a class stay as
they are: a covariate says what an item is, not how hard it is. Populations differ from the average
by shifts, whose standard deviation is inferred.

The constants were chosen among some forty by the labels of ten public crowds and of six simulated
tables; ``priors=`` takes others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse.errors import ModelError, require_count, require_number
from bayesfuse.parameters.contract import Support
from bayesfuse.parameters.pool import SCALE, SMALLEST, Member
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.parameters.tilted_rows import TiltedRows
from bayesfuse.parameters.typed_rows import Hyperpriors, TypedRows, says
from bayesfuse.pymc.item_priors import tilted_labels
from bayesfuse.pymc.model import LabelModel
from bayesfuse.raters import TypedConfusionByKind


class ItemTypes(LabelModel):
    r"""Items of hidden types, competent and guessing raters, a :class:`pymc.Model`.

    The first choice for labels by people: on real crowds its probabilities are far better
    calibrated than those of :class:`bayesfuse.models.DawidSkene`.

    Parameters
    ----------
    responses : bf.Responses
        The responses of raters to items.
    types : int, optional
        Maximum number of types, at least the number of classes. Default four times that. The number
        of types in use is inferred.
    competence : bool, default True
        Whether raters may guess. If not, they differ by their own rows only.
    own_rows : bool, default True
        Whether raters differ in more than competence and guesses. If not, rows are the mixture of
        consensus and guess, as in MACE.
    trust : float, optional
        The power :math:`\delta` to which a consensus is raised to give the classes of its type: the
        weight of the majority. At one the truth is like one more answer of a rater who looks. By
        default it has a log-normal prior and is learnt from ``gold``.
    every_class : int, default 1
        Number of imaginary items of every class in the prior, of unknown type, without responses.
    populations, covariates, classifier : optional
        What is known about items, as in :class:`bayesfuse.models.DawidSkene`.
    gold : mapping of item name to class name, optional
        Items whose true class is known: a hundred calibrate the labels of all others.
    name : str, optional
        Prefix of the model's variables, as in PyMC.
    priors : bayesfuse.parameters.typed_rows.Hyperpriors, optional
        Constants of the priors, each with a default.

    Raises
    ------
    bayesfuse.errors.ModelError
        Fewer types than classes; trust that is not positive; a negative number of imaginary items;
        collinear covariates.
    bayesfuse.errors.ResponsesError
        As in :class:`bayesfuse.models.DawidSkene`.

    Notes
    -----
    With item n, rater m, type z, class k and answer c:

    .. math::

        w &\sim \mathrm{Dir}(\alpha / L), \qquad
        \mu_z \sim \mathrm{Dir}(\beta), \qquad
        \phi_z \sim \mathrm{Dir}(\lambda \rho_z), \quad \rho_{zk} \propto \mu_{zk}^\delta \\
        z_n &\sim w, \qquad y_n \sim \phi_{z_n}, \qquad x_{nm} \sim \theta_{m z_n} \\
        \theta_{mz} &\sim \mathrm{Dir}(\kappa_z (a_m \mu_z + (1 - a_m)\, g_m)), \qquad
        a_m \sim \mathrm{Beta}(s \bar a, s (1 - \bar a)), \qquad
        g_m \sim \mathrm{Dir}(\gamma \bar g)

    Variables: ``type_share`` w, ``type_concentration`` α, ``consensus`` μ, ``class_of_type`` φ,
    ``trust`` δ, ``firmness`` λ, ``type_confusion`` θ, ``row_concentration`` κ, ``competence`` a,
    ``guess`` g, and for the latter two their ``…_mean`` and ``…_concentration``. Of these follow
    ``type_of_class``, the shares of the types within a class, and ``type_confusion_mean``, the
    expected row of a new rater. ``prevalence``, ``confusion``, ``sensitivity`` and ``specificity``
    are with respect to the truth, the mean over the types of a class. Types have no fixed numbers,
    so means by type over chains say nothing; ask by item.

    With ``populations``, ``covariates`` or ``classifier`` an item has types and classes with

    .. math:: p(z_n = z, y_n = k) \propto w_z \phi_{zk} e^{\eta_{nk}}, \qquad
        \eta_{nk} = b_{g_n k} + \sum_j \tilde x_{nj} \beta_{jk} + s \log \hat p_{nk},

    so the shares of the types within a class do not change. "average_prevalence" is that of
    :math:`\eta = 0`. "population_shift" b (population, class) sums to zero over the classes, and
    its difference between two classes is Normal(0, σ), with σ ~ Gamma(2, 2), "population_scale";
    "population_prevalence" follows. Slopes β and the scale s are as in
    :class:`bayesfuse.models.DawidSkene`; "prevalence" is the share over all items.
    Slopes, shifts and scales are drawn by NUTS next to Gibbs steps. Where items have few responses,
    chains may stay in different modes: compare them, or give ``gold``. On LabelMe with ten
    covariates, label probabilities of two chains of 200 draws differed by .004 on average, with an
    R-hat of up to 1.7 for single images. Accuracy and log-loss were .88 and .57 to .63 (.87 and .55
    for images without labels), against .87 and .71 (.87 and .53) of
    :class:`bayesfuse.models.DawidSkene` with the same covariates.

    The consensus of a type counts as one opinion on the class, however many raters share it, which
    keeps label probabilities calibrated. Where errors are independent given the class, the model of
    Dawid and Skene is better: on six simulated tables the log-loss of ItemTypes was higher by .01
    to .11, and by at most .01 with a hundred known labels.

    References
    ----------
    Hovy, Berg-Kirkpatrick, Vaswani & Hovy (2013), Learning whom to trust with MACE, NAACL-HLT
    (competence and guesses). Li, Rubinstein & Cohn (2019), Exploiting worker correlation for label
    aggregation in crowdsourcing, ICML (types within classes). Paun et al. (2018), Comparing
    Bayesian models of annotation, TACL 6 (pooled rows).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import ItemTypes
    >>> model = ItemTypes(bf.datasets.anesthesia(), types=8)
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> result["posterior"]["competence"].dims
    ('chain', 'draw', 'rater')
    """

    def __init__(
        self,
        responses: bf.Responses | bf.Partitions,
        *,
        types: int | None = None,
        competence: bool = True,
        own_rows: bool = True,
        trust: float | None = None,
        every_class: int = 1,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Mapping[Any, Any] | None = None,
        name: str = "",
        priors: Hyperpriors | None = None,
    ) -> None:
        super().__init__(responses, gold=gold, name=name)
        responses = self.responses
        n_classes, n_raters = responses.n_classes, responses.n_raters
        n_types = 4 * n_classes if types is None else types
        require_count("types", n_types, least=n_classes)
        require_count("every_class", every_class, least=0)
        if trust is not None and not require_number("trust", trust) > 0:
            raise ModelError(
                "trust must be positive, because it is the power to which the consensus is raised. "
                f"Got: {trust!r}."
            )
        self.add_coord("type", [f"type {z + 1}" for z in range(n_types)])
        hyper = Hyperpriors() if priors is None else priors
        members = _Members()

        spread = members.scale("type_concentration", hyper.type_concentration)
        share = members.rows("type_share", pt.ones(n_types) * spread / n_types, "type")
        flat = np.full((n_types, n_classes), hyper.consensus)
        consensus = members.rows("consensus", flat, ("type", "answer"))

        fixed = {} if trust is None else {"trust": np.asarray(float(trust))}
        power = members.log_normal("trust", hyper.trust) if trust is None else fixed["trust"]
        firmness = members.log_normal("firmness", hyper.firmness)
        said = firmness * says(pt.log(consensus), power, pt)
        class_of_type = members.rows("class_of_type", said, ("type", "class"))

        rows, newcomer = pt.repeat(consensus[None], n_raters, axis=0), consensus
        if competence:
            looking = members.share("competence_mean", hyper.competence_mean)
            near = members.scale("competence_concentration", hyper.competence_concentration)
            looks = members.share("competence", (near * looking, near * (1 - looking)), "rater")
            mean = members.rows("guess_mean", np.full(n_classes, hyper.guess_mean), "answer")
            near = members.scale("guess_concentration", hyper.guess_concentration)
            alike = pt.outer(pt.ones(n_raters), near * mean)
            guess = members.rows("guess", alike, ("rater", "answer"))
            rows = looks[:, None, None] * rows + (1 - looks[:, None, None]) * guess[:, None]
            newcomer = pm.Deterministic(
                "type_confusion_mean",
                looking * consensus + (1 - looking) * mean,
                dims=("type", "answer"),
            )
        if own_rows:
            near = members.scale("row_concentration", hyper.row_concentration, "type")
            rows = pm.Dirichlet(
                "type_confusion",
                pt.maximum(near[:, None] * rows, SMALLEST),
                dims=("rater", "type", "answer"),
            )

        # where all types rule a class out, its types have the shares that they have in all items
        joint = share[:, None] * pt.maximum(class_of_type, SMALLEST)
        labels, tilt = tilted_labels(
            responses, joint.sum(axis=0), populations, covariates, classifier
        )
        average = self["prevalence" if tilt is None else "average_prevalence"]
        if every_class:
            pm.Potential("every_class", every_class * pt.log(average).sum())
        settings = members, n_raters, n_types, n_classes, int(every_class), fixed, hyper
        self.newcomers["type_confusion"] = newcomer
        types = pm.Deterministic("type_of_class", (joint / average).T, dims=("class", "type"))
        channel = bf.TypedConfusion(types, rows)
        if tilt is None:
            self.pools.append(TypedRows(*settings))
        else:
            channel = TypedConfusionByKind(types, rows, tilt.kind)
            (parameter,) = labels.parameters
            kinds: Any = {"n_kinds": channel.n_kinds, "label_parameter": parameter}
            self.pools.append(TiltedRows(*settings, tilt=tilt.log_odds, **kinds))
        self.observe(labels=labels, raters=channel)


class _Members(dict[str, Member]):
    """Variables that Gibbs sampling draws together, registered with the model at hand."""

    def scale(self, role: str, prior: tuple[float, float], dims: Any = None) -> Any:
        shape, rate = prior
        return self._add(role, pm.Gamma(role, shape, rate, dims=dims), SCALE)

    def log_normal(self, role: str, prior: tuple[float, float]) -> Any:
        return self._add(role, pm.LogNormal(role, *prior), SCALE)

    def rows(self, role: str, concentration: Any, dims: Any) -> Any:
        concentration = pt.maximum(concentration, SMALLEST)
        return self._add(role, pm.Dirichlet(role, concentration, dims=dims), SIMPLEX)

    def share(self, role: str, concentration: tuple[Any, Any], dims: Any = None) -> Any:
        return self._add(role, pm.Beta(role, *concentration, dims=dims), PROBABILITY)

    def _add(self, role: str, variable: Any, support: Support) -> Any:
        self[role] = Member(variable, support)
        return variable

"""Labels in sequence: a hidden Markov chain of true classes, a confusion matrix per rater."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse.data.known import read_classifier, read_populations
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table
from bayesfuse.data.tags import mark_spans, spans_begin_with_b
from bayesfuse.errors import ModelError, require_choice, require_flag, require_kind
from bayesfuse.inference.cross_classify import cross_classify
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.pymc.evaluate import common_mean
from bayesfuse.pymc.model import LabelModel
from bayesfuse.raters.base import RaterChannel

RESPONSES_OF_ROW = 20  # on average, from which matrices by previous answers find better spans


class HiddenMarkov(LabelModel):
    """The hidden Markov label model, a :class:`pymc.Model`.

    The true class of the first item of a sequence is drawn from the initial distribution, that of
    every later item from the transition row of the class before it. Responses are as in Dawid and
    Skene::

        initial ──► truth 1 ──► truth 2 ──► … ◄── transition          (for every sequence)
                       │           │
                       ▼           ▼
                   responses   responses ◄── confusion                (item, rater)

    Priors of both are uniform, since data usually have many more transitions than parameters.

    Parameters
    ----------
    responses, confusion_prior, pooled, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.
    sequences : bf.Sequences
        The order of the items; the same items as in ``responses``, in any order.
    initial : {"free", "stationary"}, default "free"
        A parameter (for sequences with a natural beginning), or that of the transition (excerpts).
    initial_prior, transition_prior : float or array, optional
        Dirichlet concentrations, (classes,) and (class, next class). Default 1. Zeros rule out a
        first class or a transition.
    bio : bool, optional
        Whether classes are tags of spans (O, B-X and I-X, or O, B and I), with the priors of
        :func:`bayesfuse.priors.bio_transitions`. Default: if the names are such, no prior is
        given, and most spans of the majority vote begin with a B.
    raters : {"sequential", "confusion", "class", "coin", "graded"}, optional
        "sequential": a matrix for every rater and own previous answer, "sequential_confusion"
        (rater, previous, class, answer), of which "confusion" is the average; see
        :class:`bayesfuse.build.SequentialConfusion`. Default for tags of spans, without pooling,
        silence or stated probabilities, if there are 20 responses for every row of a rater's
        matrices, because it is worse with few; else "confusion".
    populations : mapping, Series or array, shape (sequences,), optional
        The population of every sequence, by name or in the order of ``sequences.names``. Each has
        its own "initial" and "transition".
    covariates : SciPy sparse matrix, DataFrame or array, shape (items, covariates), optional
        What is known of items, such as :func:`bayesfuse.io.token_features`. In two stages: the
        model without covariates is fitted by :func:`bayesfuse.find_map`, and multinomial
        regressions on its labels classify each fifth of the sequences by the others. Slopes are not
        drawn with the labels.
    classifier : DataFrame, DataArray or array, shape (items, classes), optional
        Class probabilities from a model that saw none of the responses to the item, taken at face
        value: see :class:`bayesfuse.build.MarkovChain`.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Options that exclude each other; priors of the wrong shape, negative, or that make a class
        unreachable or without successor; other items in the sequences.

    References
    ----------
    Traganitis & Giannakis (2020), Unsupervised ensemble classification with sequential and
    networked data, section IV; Nguyen et al. (2017), ACL, 299–309.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> model = bf.models.HiddenMarkov(responses, bf.Sequences.from_lengths([3, 2]))
    >>> sorted(variable.name for variable in model.free_RVs)
    ['confusion', 'initial', 'transition']
    """

    def __init__(
        self,
        responses: Table | bf.io.Partitions,
        sequences: bf.Sequences,
        *,
        initial: Literal["free", "stationary"] = "free",
        initial_prior: Any = None,
        transition_prior: Any = None,
        bio: bool | None = None,
        confusion_prior: Any = None,
        raters: Literal["sequential", "confusion", "class", "coin", "graded"] | None = None,
        pooled: bool = False,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        require_choice("initial", initial, "free", "stationary")
        stationary = initial == "stationary"
        if stationary and initial_prior is not None:
            raise ModelError(
                'initial_prior needs initial="free", because the transition determines a '
                f"stationary distribution. Got: initial_prior={initial_prior!r}."
            )
        if stationary and populations is not None:
            raise ModelError(
                'initial="stationary" is for sequences of one population: fit each on its own, or '
                "leave initial= out. Got: both."
            )
        require_kind("sequences", sequences, bf.Sequences)
        super().__init__(responses, gold=gold, name=name)
        responses = self.responses
        if covariates is not None or classifier is not None:
            arguments = {
                "initial='stationary'": stationary,
                "populations=": populations is not None,
                "covariates= and classifier=": covariates is not None and classifier is not None,
            }
            if both := [name for name, is_set in arguments.items() if is_set]:
                raise ModelError(
                    "Sequences with covariates, or with a classifier, have one population and a "
                    f"free first class; give one of the two. Got: {both[0]}."
                )
            self.require_one_table("a classifier is of all items")
        if covariates is not None:
            priors = {"initial_prior": initial_prior, "transition_prior": transition_prior}
            options = {"confusion_prior": confusion_prior, "raters": raters, "pooled": pooled}
            with pm.Model(model=None):  # not a part of this model
                alone = HiddenMarkov(responses, sequences, bio=bio, gold=gold, **priors, **options)
            probability = bf.label_probabilities(bf.find_map(alone)).values
            classifier = cross_classify(probability, covariates, responses, sequences)
        self.add_coord("next_class", responses.classes.tolist())
        has_priors = initial_prior is not None or transition_prior is not None or stationary
        if bio is None:
            bio = not has_priors and spans_begin_with_b(responses, sequences)
        require_flag("bio", bio)
        if bio and has_priors:
            raise ModelError(
                "bio=True chooses the priors of the first class and of transitions. Got: bio=True "
                "and others."
            )
        if bio:
            legal = bf.priors.bio_transitions(responses.classes.tolist())
            initial_prior, transition_prior = legal["initial_prior"], legal["transition_prior"]
        rows = bf.priors.transition(transition_prior, responses, irreducible=stationary)
        begin = None if stationary else bf.priors.initial(initial_prior, rows, responses)
        of: tuple[str, ...] = ()
        if populations is not None:
            names, number = read_populations(sequences.names, populations, unit="sequence")
            self.add_coord("population", listed(names))
            of, rows = ("population",), np.tile(rows, (len(names), 1, 1))
        transition = bf.build.dirichlet("transition", rows, dims=(*of, "class", "next_class"))
        labels: bf.build.MarkovChain
        if begin is None:
            labels = bf.build.StationaryMarkovChain(transition, sequences)
        else:
            begin = np.broadcast_to(begin, rows.shape[:-1]).copy()  # the same for all populations
            first = bf.build.dirichlet("initial", begin, dims=(*of, "class"))
            known: dict[str, Any] = {"population": number} if of else {}
            if classifier is not None:
                probability = read_classifier(responses, classifier)
                known = {"classifier": probability, "shares": probability.mean(axis=0)}
            labels = bf.build.MarkovChain(first, transition, sequences, **known)
        values, n_classes = tuple(labels.parameters.values()), responses.n_classes
        share = labels.prevalence(values, n_classes, labels.structure(responses), pt)
        pm.Deterministic("prevalence", share, dims="class")
        if raters is None:
            is_in_memory = isinstance(self.all_responses, bf.Responses) and not pooled
            has_only_labels = is_in_memory and responses.silent is None and responses.stated is None
            tags = bio or mark_spans(responses.classes.tolist())
            n_rows = responses.n_raters * (responses.n_classes + 1) * responses.n_classes
            enough = responses.n_responses >= RESPONSES_OF_ROW * n_rows
            raters = "sequential" if has_only_labels and tags and enough else "confusion"
        if raters == "sequential":
            channel = self._sequential(sequences, confusion_prior, pooled)
        else:
            channel = self.rater_channel(raters, confusion_prior, pooled)
        self.observe(labels=labels, raters=channel)

    def _sequential(self, sequences: bf.Sequences, prior: Any, pooled: bool) -> RaterChannel:
        """Register the rows of raters given their previous answers."""
        responses = self.responses
        self.require_one_table("the previous answer of a rater may be in another part")
        row_prior = bf.priors.confusion(prior, responses)
        if pooled or isinstance(row_prior, DirichletMixture):
            raise ModelError(
                'raters="sequential" has independent Dirichlet rows: for pooled rows or mixtures '
                f'give raters="confusion". Got: {"pooled=True" if pooled else "a mixture"}.'
            )
        rows = np.repeat(row_prior[:, None], responses.n_classes + 1, axis=1)
        self.new_rater_defaults["sequential_confusion"] = common_mean(rows)
        first = "first"
        while first in responses.classes.tolist():
            first += "_"
        self.add_coord("previous", [first, *map(str, responses.classes.tolist())])
        dims = ("rater", "previous", "class", "answer")
        variable = bf.build.dirichlet("sequential_confusion", rows, dims=dims)
        shares = bf.build.SequentialConfusion.shares_in(responses, sequences)
        return bf.build.SequentialConfusion(variable, sequences, shares)

"""Labels in sequence: a hidden Markov chain of true classes, a confusion matrix per rater."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse.checks.error_correlation import error_correlation, expected_correlation
from bayesfuse.data.known import read_classifier, read_populations
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table
from bayesfuse.data.tags import mark_spans, numbers_as_tags, spans_begin_with_b
from bayesfuse.errors import ModelError, require_choice, require_flag, require_kind
from bayesfuse.inference.cross_classify import cross_classify
from bayesfuse.models.item_types import CONCENTRATION, competence_and_guess, competing_pairs
from bayesfuse.observation.evaluate import common_mean
from bayesfuse.observation.model import LabelModel
from bayesfuse.parameters.consensus_table import ConsensusTable
from bayesfuse.parameters.dirichlet import DirichletMixture
from bayesfuse.raters.base import RaterChannel

RaterKind = Literal["types", "sequential", "confusion", "class", "coin", "graded"]
SMALL_CORRELATION = 0.015  # of raters' errors, below which a chain of classes has better labels
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
        Whether classes are tags of spans (O, B-X and I-X, or O, B and I, also as the numbers 0, 1
        and 2), with the priors of :func:`bayesfuse.priors.bio_transitions`. Default: if the names
        are such, no prior is given, and most spans of the majority vote begin with a B.
    raters : {"types", "sequential", "confusion", "class", "coin", "graded"}, optional
        "types": items have hidden types, as in :class:`bayesfuse.models.ItemTypes`, and the type of
        an item stays that of the item before with a probability of its own, "persistence"
        (:class:`bayesfuse.build.TypeChain`). "sequential": a matrix for every rater and own
        previous answer, "sequential_confusion" (rater, previous, class, answer), of which
        "confusion" is the average; see :class:`bayesfuse.build.SequentialConfusion`. Others are as
        in :class:`bayesfuse.models.DawidSkene`. The default is chosen by the table, see Notes.
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

    Notes
    -----
    A chain of classes takes what raters go on saying for what is there. Where they err on the same
    items, it is overconfident and often less accurate than the same model without an order. So
    the default is raters="types" in a table with nothing but labels and no other argument than
    ``sequences`` and ``gold``, unless the correlation of the raters' errors on an item is
    expected below .015 (posterior mean; up to three raters cannot show it). Types of neighbouring
    items are alike, but the class of an item is drawn given its own type, so
    repetition is no further evidence on it. Its "prevalence" is that in the long run, and the
    weight of the majority (``trust``) is averaged over its prior. The errors are those under a fit
    of :class:`bayesfuse.models.DawidSkene`, which takes seconds for large tables and is left out
    where ``raters=`` is given. :func:`bayesfuse.find_map` sets the shares of most types to zero,
    where the density has no maximum: labels can be used, shares not.

    For tags of spans, the default is raters="sequential", without pooling, silence or stated
    probabilities, if there are 20 responses for every row of a rater's matrices, because it is
    worse with few. All others have the default "confusion". The order may be of no use at all:
    :func:`bayesfuse.fuse` averages models with and without it, by how well they predict raters.

    References
    ----------
    Traganitis & Giannakis (2020), Unsupervised ensemble classification with sequential and
    networked data, section IV; Nguyen et al. (2017), ACL, 299–309.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> sequences = bf.Sequences.from_lengths([3, 2])
    >>> model = bf.models.HiddenMarkov(responses, sequences, raters="confusion")
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
        raters: RaterKind | None = None,
        pooled: bool = False,
        populations: Any = None,
        covariates: Any = None,
        classifier: Any = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        require_choice("initial", initial, "free", "stationary")
        require_kind("sequences", sequences, bf.Sequences)
        stationary = initial == "stationary"
        _require_compatible(stationary, initial_prior, populations, covariates, classifier)
        super().__init__(responses, gold=gold, name=name)
        if covariates is not None or classifier is not None:
            self.require_one_table("a classifier is of all items")
        given_priors = {"initial_prior": initial_prior, "transition_prior": transition_prior}
        chain_priors, asked_bio = given_priors, bio
        self.add_coord("next_class", self.responses.classes.tolist())
        has_priors = initial_prior is not None or transition_prior is not None or stationary
        if bio is None:
            bio = not has_priors and spans_begin_with_b(self.responses, sequences)
        require_flag("bio", bio)
        if bio and has_priors:
            raise ModelError(
                "bio=True chooses the priors of the first class and of transitions. Got: bio=True "
                "and others."
            )
        if bio:
            names = numbers_as_tags(self.responses.classes.tolist())
            chain_priors = bf.priors.bio_transitions(names)
        has_options = has_priors or bio or pooled or confusion_prior is not None
        has_options |= populations is not None or classifier is not None or covariates is not None
        if raters is None:
            raters = self._default_raters(bio, pooled, has_options)
        if raters == "types":
            if has_options:
                raise ModelError(
                    'raters="types" has a chain of types, which takes no priors of classes (nor '
                    "those of tags) and rows, no populations, covariates or classifier: leave them "
                    "out, or give "
                    'raters="confusion". Got: some of these.'
                )
            self._observe_types(sequences)
            return
        if covariates is not None:
            options = given_priors | {"confusion_prior": confusion_prior, "pooled": pooled}
            options |= {"raters": raters, "bio": asked_bio, "gold": gold}
            classifier = classify_by_covariates(self.responses, sequences, covariates, options)
        labels = self._chain(sequences, stationary, populations, classifier, **chain_priors)
        values = tuple(labels.parameters.values())
        structure = labels.structure(self.responses)
        share = labels.prevalence(values, self.responses.n_classes, structure, pt)
        pm.Deterministic("prevalence", share, dims="class")
        if raters == "sequential":
            channel = self._sequential(sequences, confusion_prior, pooled)
        else:
            channel = self.rater_channel(raters, confusion_prior, pooled)
        self.observe(labels=labels, raters=channel)

    def _chain(
        self,
        sequences: bf.Sequences,
        stationary: bool,
        populations: Any,
        classifier: Any,
        *,
        initial_prior: Any,
        transition_prior: Any,
    ) -> bf.build.MarkovChain:
        """Register the initial distribution and the transition, and return the label prior."""
        responses = self.responses
        rows = bf.priors.transition(transition_prior, responses, irreducible=stationary)
        if stationary:
            transition = bf.build.dirichlet("transition", rows, dims=("class", "next_class"))
            return bf.build.StationaryMarkovChain(transition, sequences)
        first = bf.priors.initial(initial_prior, rows, responses)
        dims: tuple[str, ...] = ()
        inputs: dict[str, Any] = {}
        if populations is not None:
            names, number = read_populations(sequences.names, populations, unit="sequence")
            self.add_coord("population", listed(names))
            dims, inputs = ("population",), {"population": number}
            rows = np.tile(rows, (len(names), 1, 1))
        if classifier is not None:
            probability = read_classifier(responses, classifier)
            inputs = {"classifier": probability, "shares": probability.mean(axis=0)}
        transition = bf.build.dirichlet("transition", rows, dims=(*dims, "class", "next_class"))
        first = np.broadcast_to(first, rows.shape[:-1]).copy()  # the same for all populations
        initial = bf.build.dirichlet("initial", first, dims=(*dims, "class"))
        return bf.build.MarkovChain(initial, transition, sequences, **inputs)

    def _default_raters(self, bio: bool, pooled: bool, has_options: bool) -> RaterKind:
        """Choose types unless raters err independently, rows by previous answers for tags."""
        responses = self.responses
        if pooled or not isinstance(self.all_responses, bf.Responses):
            return "confusion"
        if responses.silent is not None or responses.stated is not None:
            return "confusion"
        if not bio and not mark_spans(responses.classes.tolist()):
            return "confusion" if has_options or self._errors_are_nearly_independent() else "types"
        n_rows = responses.n_raters * (responses.n_classes + 1) * responses.n_classes
        enough = responses.n_responses >= RESPONSES_OF_ROW * n_rows
        return "sequential" if enough else "confusion"

    def _errors_are_nearly_independent(self) -> bool:
        """Whether the errors of raters are hardly correlated, as far as the table shows."""
        responses = self.responses
        has_few = np.count_nonzero(responses.per_rater) <= bf.priors.IDENTIFIED
        if has_few or responses.per_item.max(initial=0) < 2:
            return False
        with pm.Model(model=None):  # not a part of the model that is being built
            fit = bf.find_map(bf.models.DawidSkene(responses, gold=self.gold))
        point = fit["point"].dataset
        shares, rows = point["prevalence"].values, point["confusion"].values
        rng = np.random.default_rng(0)
        correlation, error = error_correlation(responses, shares, rows, rng)
        return expected_correlation(correlation, error) < SMALL_CORRELATION

    def _observe_types(self, sequences: bf.Sequences) -> None:
        """Register the chain of types, competent and guessing raters, and their responses."""
        responses = self.responses
        pairs = competing_pairs(responses)
        table = ConsensusTable(responses.n_classes, pairs)
        self.add_coord("type", table.names(responses.classes))
        n_types = len(table.rows)
        concentration = np.full(n_types, CONCENTRATION / n_types)
        share = pm.Dirichlet("type_share", concentration, dims="type")
        # at a mode no type lasts for ever, whose share in the long run would be one
        persistence = pm.Beta("persistence", 2.0, 2.0, dims="type")
        labels = bf.build.TypeChain(
            share, persistence, sequences, n_classes=responses.n_classes, pairs=pairs
        )
        prevalence = labels.prevalence((share, persistence), responses.n_classes, (), pt)
        pm.Deterministic("prevalence", prevalence, dims="class")
        raters = bf.build.ConsensusOfType(*competence_and_guess(self), pairs=pairs)
        self.observe(labels=labels, raters=raters)

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


def _require_compatible(
    stationary: bool, initial_prior: Any, populations: Any, covariates: Any, classifier: Any
) -> None:
    """Raise ModelError for options that exclude each other."""
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
    if covariates is None and classifier is None:
        return
    excluded = {
        "initial='stationary'": stationary,
        "populations=": populations is not None,
        "covariates= and classifier=": covariates is not None and classifier is not None,
    }
    if conflicts := [option for option, is_given in excluded.items() if is_given]:
        raise ModelError(
            "Sequences with covariates, or with a classifier, have one population and a free first "
            f"class; give one of the two. Got: {conflicts[0]}."
        )


def classify_by_covariates(
    responses: bf.Responses, sequences: bf.Sequences, covariates: Any, options: dict[str, Any]
) -> np.ndarray:
    """Return class probabilities (items, classes) from covariates, fitted without them first.

    The labels of a model without covariates train one regression for each fifth of the sequences.
    """
    with pm.Model(model=None):  # not a part of the model that is being built
        model = HiddenMarkov(responses, sequences, **options)
    probability = bf.label_probabilities(bf.find_map(model)).values
    return cross_classify(probability, covariates, responses, sequences)

"""Labels in sequence: a hidden Markov chain of true classes, a confusion matrix per rater.

Generative process: the true class of the first item of a sequence is drawn from the initial
distribution, that of every later item from the transition row of the class before it. Sequences
share both distributions and are independent. Responses are as in Dawid and Skene.

    initial ──► truth 1 ──► truth 2 ──► … ◄── transition          (for every sequence)
                   │           │
                   ▼           ▼
               responses   responses ◄── confusion                (item, rater)

Priors: Dirichlet rows. Those of confusion rows put more weight on the right label, which identifies
the classes (:func:`bayesfuse.priors.diagonal`); those of initial and transition are uniform, since
the data usually have many more transitions than parameters. A concentration of zero rules out a
transition or a first class, see :func:`bayesfuse.priors.bio_transitions` for spans.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import listed
from bayesfuse.data.tables import Table
from bayesfuse.data.tags import mark_spans, read_tags
from bayesfuse.errors import ModelError, require_flag, require_kind
from bayesfuse.pymc.item_priors import require_nothing_known
from bayesfuse.pymc.model import LabelModel


class HiddenMarkov(LabelModel):
    """The hidden Markov label model, a :class:`pymc.Model`.

    Parameters
    ----------
    responses : bf.Responses, DataFrame or array
        The responses of raters to items.
    sequences : bf.Sequences
        The order of the items; the same items as in ``responses``, in any order.
    initial : {"free", "stationary"}, default "free"
        The distribution of the first class is a parameter (for sequences with a natural beginning,
        like sentences), or the stationary distribution of the transition (for excerpts).
    initial_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the free initial distribution. Default 1. Zeros rule out a first
        class.
    transition_prior : float or array, shape (classes, classes), optional
        Dirichlet concentration of the transition rows (class, next class). Default 1. Zeros rule
        out a transition.
    bio : bool, optional
        Whether classes are tags of spans (O, B-X and I-X, or O, B and I), so that an inside tag is
        never first and follows a tag of its kind alone: the priors of
        :func:`bayesfuse.priors.bio_transitions`. Default: if the names are such, no prior is
        given, and most spans of the majority vote begin with a B.
    populations : mapping, Series or array, shape (sequences,), optional
        The population of every sequence, by its name or in the order of ``sequences.names``. Each
        has its own "initial" (population, class) and "transition" (population, class, next_class).
    covariates, classifier : None
        Not available: transition rows would differ from item to item.
    confusion_prior, raters, pooled, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.

    Raises
    ------
    bayesfuse.errors.ModelError
        Covariates or a classifier. Priors of the wrong shape, negative, or that make a class
        unreachable or without successor; ``initial="stationary"`` for transitions without a
        stationary distribution.
    bayesfuse.errors.ResponsesError
        Sequences and responses of different items.

    References
    ----------
    Traganitis & Giannakis (2020), Unsupervised ensemble classification with sequential and
    networked data, section IV; Nguyen et al. (2017), Aggregating and predicting sequence labels
    from crowd annotations, ACL, 299–309.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import HiddenMarkov
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> model = HiddenMarkov(responses, bf.Sequences.from_lengths([3, 2]))
    >>> sorted(variable.name for variable in model.free_RVs)
    ['confusion', 'initial', 'transition']
    """

    def __init__(
        self,
        responses: Table | bf.Partitions,
        sequences: bf.Sequences,
        *,
        initial: Literal["free", "stationary"] = "free",
        initial_prior: Any = None,
        transition_prior: Any = None,
        bio: bool | None = None,
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin", "graded"] = "confusion",
        pooled: bool = False,
        populations: Any = None,
        covariates: None = None,
        classifier: None = None,
        gold: Any = None,
        name: str = "",
    ) -> None:
        require_nothing_known(
            "Labels in sequence",
            "the transition rows would differ from item to item",
            "use populations= of sequences, or DawidSkene or ItemTypes without the order",
            covariates=covariates,
            classifier=classifier,
        )
        if initial not in ("free", "stationary"):
            raise ModelError(f"initial must be 'free' or 'stationary'. Got: {initial!r}.")
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
        self.add_coord("next_class", responses.classes.tolist())
        given_priors = initial_prior is not None or transition_prior is not None or stationary
        if bio is None:
            bio = not given_priors and _has_tags(responses, sequences)
        require_flag("bio", bio)
        if bio and given_priors:
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
        transition = bf.dirichlet("transition", rows, dims=(*of, "class", "next_class"))
        labels: bf.MarkovChain
        if begin is None:
            labels = bf.StationaryMarkovChain(transition, sequences)
        elif not of:
            first = bf.dirichlet("initial", begin, dims="class")
            labels = bf.MarkovChain(first, transition, sequences)
        else:
            begin = np.tile(begin, (len(rows), 1))
            first = bf.dirichlet("initial", begin, dims=(*of, "class"))
            labels = bf.PopulationMarkovChain(first, transition, sequences, number)
        given, n_classes = tuple(labels.parameters.values()), responses.n_classes
        share = labels.prevalence(given, n_classes, labels.structure(responses), pt)
        pm.Deterministic("prevalence", share, dims="class")
        self.observe(labels=labels, raters=self.rater_channel(raters, confusion_prior, pooled))


def _has_tags(responses: Any, sequences: bf.Sequences) -> bool:
    """Return whether classes are tags of spans, which begin with a B by the majority vote."""
    if not isinstance(responses, bf.Responses) or not mark_spans(responses.classes.tolist()):
        return False
    tags = read_tags(responses.classes.tolist())
    kind = np.array([tag.kind for tag in tags], dtype=object)
    begins = np.array([tag.begins for tag in tags])
    vote = responses.votes().argmax(axis=1)[sequences.places(responses)]
    new = np.append(True, kind[vote[1:]] != kind[vote[:-1]])
    new[sequences.start[:-1]] = True
    new &= [each is not None for each in kind[vote]]
    return bool(begins[vote[new]].mean() > 0.5) if new.any() else True

"""Labels in sequence: a hidden Markov chain of true classes, a confusion matrix per rater.

Story: the first item of a sequence draws its true class from the initial distribution, every later
one from the row of the transition matrix that belongs to the class before it. Sequences share both
and are independent otherwise. Raters answer as in Dawid and Skene: each by the row of their
confusion matrix that belongs to the item's class, independently given the classes.

    initial ──► truth 1 ──► truth 2 ──► … ◄── transition          (for every sequence)
                   │           │
                   ▼           ▼
               responses   responses ◄── confusion                (item, rater)

Priors: Dirichlet rows. The confusion rows lean towards the right answer, which is what tells the
classes apart (:func:`bayesfuse.priors.diagonal`); initial and transition are flat, since sequences
have far more neighbours than there are transitions to learn. A concentration of zero says that a
class never follows another, or never comes first: :func:`bayesfuse.bio_transitions` for spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pymc as pm
import pytensor.tensor as pt

import bayesfuse as bf
from bayesfuse import priors
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.pymc.model import LabelModel


class HiddenMarkov(LabelModel):
    """The hidden Markov label model, a :class:`pymc.Model`.

    Parameters
    ----------
    responses : bf.Responses
        Who said what about which item.
    sequences : bf.Sequences
        Which item follows which; the same items in any order.
    initial : {"free", "stationary"}, default "free"
        The first class of a sequence has a distribution of its own (sequences that begin, like
        sentences), or the transition's stationary one (cut out of something longer).
    initial_prior : float or array, shape (classes,), optional
        Dirichlet concentration of the free initial distribution. Default 1. Zeros stay zeros.
    transition_prior : float or array, shape (classes, classes), optional
        Dirichlet concentration of the transition rows (class, next class). Default 1. Zeros rule
        a transition out.
    confusion_prior, raters, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.

    Raises
    ------
    bayesfuse.errors.ModelError
        Priors of the wrong shape, negative, or that leave a class no way in or no way on;
        transitions without a stationary distribution where that is wanted.
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
        responses: bf.Responses,
        sequences: bf.Sequences,
        *,
        initial: Literal["free", "stationary"] = "free",
        initial_prior: Any = None,
        transition_prior: Any = None,
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin"] = "confusion",
        gold: Mapping[Any, Any] | None = None,
        name: str = "",
    ) -> None:
        if initial not in ("free", "stationary"):
            raise ModelError(f"initial must be 'free' or 'stationary'. Got: {initial!r}.")
        if initial == "stationary" and initial_prior is not None:
            raise ModelError(
                "A stationary chain begins as its transitions say; initial_prior is for "
                f'initial="free". Got: initial_prior={initial_prior!r}.'
            )
        require_kind("sequences", sequences, bf.Sequences)
        super().__init__(responses, gold=gold, name=name)
        self.add_coord("next_class", responses.classes.tolist())
        stationary = initial == "stationary"
        rows = priors.transition(transition_prior, responses, irreducible=stationary)
        begin = None if stationary else priors.initial(initial_prior, rows, responses)
        transition = bf.dirichlet("transition", rows, dims=("class", "next_class"))
        labels: bf.MarkovChain
        if begin is None:
            labels = bf.StationaryMarkovChain(transition, sequences)
        else:
            first = bf.dirichlet("initial", begin, dims="class")
            labels = bf.MarkovChain(first, transition, sequences)
        share = labels.prevalence(tuple(labels.parameters.values()), pt)
        pm.Deterministic("prevalence", share, dims="class")
        self.observe(labels=labels, raters=self.rater_channel(raters, confusion_prior))

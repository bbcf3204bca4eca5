"""Labels on a graph: neighbours tend to share a class, with a confusion matrix per rater."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

import bayesfuse as bf
from bayesfuse.data.graph import as_graph
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, require_choice, require_positive
from bayesfuse.models.item_types import competence_and_guess
from bayesfuse.observation.model import LabelModel
from bayesfuse.parameters.consensus_table import TRUST, ConsensusTable, class_given_type
from bayesfuse.parameters.variables import dirichlet
from bayesfuse.raters.base import RaterChannel

# Number of items of every class as which the prior of its types counts, for raters="types". Labels
# differ little from 30 to 1,000 on nine graphs; with 3, hard items were taken for easy ones.
AS_ITEMS = 200.0


class MarkovRandomField(LabelModel):
    r"""The Markov random field label model, a :class:`pymc.Model`.

    The joint probability of the labels is proportional to the product of their prevalences and of a
    factor exp(coupling) for every edge of weight one between items of one class. Responses are as
    in Dawid and Skene::

        coupling ──► truth ── truth ── truth        (along the edges of the graph)
                       │        │        │
                       ▼        ▼        ▼
                   responses responses responses ◄── confusion        (item, rater)

    Parameters
    ----------
    responses, confusion_prior, pooled, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.
    graph : bf.Graph
        Edges between items that tend to share a class; the same items as in ``responses``, in any
        order. SciPy's sparse matrices and networkx graphs are read, too.
    trust : "infer", "paper", or number, default "infer"
        Strength of the coupling: a variable with a half-normal prior, or the paper's δ, twice it,
        because the paper counts half per edge. "paper" is its choice for given graphs, δ the number
        of raters; for nearest-neighbour graphs it is about ``responses.per_item.mean() / 2``.
    edges : {"given", "drawn"}, default "given"
        Whether the graph is independent of the labels, as for pixels, or depends on them, as for
        citations (:class:`bayesfuse.build.PlantedPotts`): "given" makes communities look weakly
        coupled.
    prevalence : array-like, shape (classes,), optional
        External field: share of every class without neighbours. Default uniform; it cannot be
        inferred, see :class:`bayesfuse.build.Potts`.
    raters : {"confusion", "class", "coin", "graded", "types"}, default "confusion"
        As in :class:`bayesfuse.models.DawidSkene`, or "types": items have hidden types on which
        raters make the same errors, as in :class:`bayesfuse.models.ItemTypes`, or labels are too
        certain.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        Options that exclude each other; trust that is not positive; a graph of other items.

    Notes
    -----
    The pointwise log likelihood is that of an item's responses given the drawn labels of its
    neighbours, which is valid for leave-one-out, because these are drawn given all responses. It
    takes few values, so ``az.loo`` may warn of items that contradict their neighbours.

    References
    ----------
    Traganitis & Giannakis (2020), Unsupervised ensemble classification …, section V.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 1]])
    >>> model = bf.models.MarkovRandomField(responses, bf.Graph.grid((6,)))
    >>> sorted(variable.name for variable in model.free_RVs)
    ['confusion', 'coupling']
    """

    def __init__(
        self,
        responses: Table,
        graph: bf.Graph,
        *,
        trust: Literal["infer", "paper"] | float = "infer",
        edges: Literal["given", "drawn"] = "given",
        prevalence: ArrayLike | None = None,
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin", "graded", "types"] = "confusion",
        pooled: bool = False,
        gold: Any = None,
        name: str = "",
    ) -> None:
        require_choice("edges", edges, "given", "drawn")
        graph = as_graph(graph)
        super().__init__(responses, gold=gold, name=name)
        responses = self.responses
        self.require_one_table("labels on a graph depend on each other across partitions")
        if trust == "infer":
            # far below the critical coupling of a tree labels are nearly independent, far above it
            # all of one class; at 3 a link within a class is twenty times as likely
            drawn = edges == "drawn"
            scale = 3.0 if drawn else graph.bethe_coupling(responses.n_classes)
            coupling = pm.HalfNormal("coupling", scale if np.isfinite(scale) else 1.0)
        else:
            delta = responses.n_raters if trust == "paper" else require_positive("trust", trust)
            coupling = delta / 2
            pm.Data("coupling", coupling)
        prior = bf.build.PlantedPotts if edges == "drawn" else bf.build.Potts
        labels = prior(coupling, graph, prevalence)
        if raters == "types":
            channel = self._of_types(confusion_prior, pooled)
        else:
            channel = self.rater_channel(raters, confusion_prior, pooled)
        self.observe(labels=labels, raters=channel)
        if labels.table is not None:
            self.notes["log_z"] = repr(labels.table)

    def _of_types(self, confusion_prior: Any, pooled: bool) -> RaterChannel:
        """Register the parameters of competent and guessing raters on items of several types."""
        if confusion_prior is not None or pooled:
            raise ModelError(
                'raters="types" has no rows of single raters, so neither confusion_prior= nor '
                f"pooled=. Got: {confusion_prior=}, {pooled=}."
            )
        dictionary = ConsensusTable(self.responses.n_classes, ())
        self.add_coord("type", dictionary.names(self.responses.classes))
        class_of_type = class_given_type(np.log(dictionary.rows), np.exp(TRUST[0]))
        prior = AS_ITEMS * (class_of_type / class_of_type.sum(axis=0)).T
        share = dirichlet("type_of_class", prior, dims=("class", "type"))
        return bf.build.Consensus(share, *competence_and_guess(self))

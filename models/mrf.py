"""Labels on a graph: neighbours tend to be of one class, a confusion matrix per rater.

Story: pixels lie beside each other, documents cite each other, items resemble each other. Labels
are drawn all together: each class from its prevalence, and a labelling gains a factor exp(coupling)
for every edge of weight one whose two items agree. Raters answer as in Dawid and Skene: each by the
row of their confusion matrix that belongs to the item's class, independently given the classes.

    coupling ──► truth ── truth ── truth        (along the edges of the graph)
                   │        │        │
                   ▼        ▼        ▼
               responses responses responses ◄── confusion        (item, rater)

Priors: the confusion rows lean towards the right answer, which is what tells the classes apart
(:func:`bayesfuse.priors.diagonal`). The coupling is half-normal with the scale at which order
spreads through a tree of the graph's degrees (:func:`bayesfuse.labels.bethe_coupling`): labels of
a field that is worth the name are near it, below they are all but independent, far above they would
all be of one class, which nobody would ask raters about.

Citations and friendships are another story: there the labels come first and pairs of one class are
more often linked (``edges="drawn"``). A link that is twenty times as likely within a class is a
coupling of 3, the scale of the prior then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

import bayesfuse as bf
from bayesfuse.data.graph import as_graph
from bayesfuse.errors import ModelError, require_positive
from bayesfuse.labels import bethe_coupling, paper_coupling
from bayesfuse.pymc.model import LabelModel


class MarkovRandomField(LabelModel):
    r"""The Markov random field label model, a :class:`pymc.Model`.

    Parameters
    ----------
    responses : bf.Responses
        Who said what about which item.
    graph : bf.Graph
        Which items tend to be of one class; the same items in any order. A sparse matrix and a
        graph of networkx are read as :meth:`bf.Graph.from_scipy` and :meth:`from_networkx` do.
    trust : "infer", "paper", or number, default "infer"
        How much neighbours count. "infer" makes the coupling a variable of the model. A number is
        the paper's δ: the coupling is half of it, because the paper counts half per edge. "paper"
        is what the paper takes for graphs that are given, δ the number of raters; for neighbours
        in features it takes half the number of responses to an item; give
        ``responses.per_item.mean() / 2``, the same for all, for a field that is one.
    edges : {"given", "drawn"}, default "given"
        Whether the graph was there before the labels, as the pixels of an image were, or grew out
        of them, as communities do (:class:`bayesfuse.PlantedPotts`). It matters where the coupling
        is inferred: on a graph with many circles one that was given makes communities of
        similar size look like a weak coupling.
    prevalence : array-like, shape (classes,), optional
        Share of every class, neighbours apart. Default all equal; it cannot be inferred, see
        :class:`bayesfuse.Potts`.
    coupling_scale : float, optional
        Scale of the half-normal prior of an inferred coupling.
    approximation : {"belief propagation", "mean field"}
        How NUTS and EM sum the labels out. Gibbs sampling, the default, needs neither.
    confusion_prior, raters, gold, name : optional
        As in :class:`bayesfuse.models.DawidSkene`.

    Raises
    ------
    bayesfuse.errors.ModelError
        A trust that is no positive number and neither of those words; unknown edges or
        approximations.
    bayesfuse.errors.ResponsesError
        Graph and responses of different items.

    Notes
    -----
    The pointwise log likelihood of ``bf.sample`` is by item, of its responses given the drawn
    labels of its neighbours; importance sampling from it leaves an item's responses out although
    items are dependent, because those labels are drawn with the responses of all others and its
    own (:math:`p(x_n \mid x_{-n})^{-1} = E[p(x_n \mid y_{-n}, \theta)^{-1} \mid x]`). It takes few
    values, so ``az.loo`` may warn of Pareto shapes for items that contradict their neighbours; its
    ratios are bounded by those of the likelihoods.

    The result's attribute ``log_z`` says how the normalising constant was found and how exactly.

    References
    ----------
    Traganitis & Giannakis (2020), Unsupervised ensemble classification with sequential and
    networked data, section V.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import MarkovRandomField
    >>> responses = bf.Responses.from_matrix([[0, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 1]])
    >>> model = MarkovRandomField(responses, bf.Graph.grid((6,)))
    >>> sorted(variable.name for variable in model.free_RVs)
    ['confusion', 'coupling']
    """

    def __init__(
        self,
        responses: bf.Responses,
        graph: bf.Graph,
        *,
        trust: Literal["infer", "paper"] | float = "infer",
        edges: Literal["given", "drawn"] = "given",
        prevalence: ArrayLike | None = None,
        coupling_scale: float | None = None,
        approximation: Literal["belief propagation", "mean field"] = "belief propagation",
        confusion_prior: Any = None,
        raters: Literal["confusion", "class", "coin"] = "confusion",
        gold: Mapping[Any, Any] | None = None,
        name: str = "",
    ) -> None:
        if approximation not in ("belief propagation", "mean field"):
            raise ModelError(
                "approximation must be 'belief propagation' or 'mean field'. Got: "
                f"{approximation!r}."
            )
        if edges not in ("given", "drawn") or (edges, approximation) == ("drawn", "mean field"):
            raise ModelError(
                "edges must be 'given' or 'drawn', and drawn edges have no mean field. Got: "
                f"edges={edges!r}, approximation={approximation!r}."
            )
        graph = as_graph(graph)
        super().__init__(responses, gold=gold, name=name)
        if trust == "infer":
            scale = 3.0 if edges == "drawn" else bethe_coupling(graph, responses.n_classes)
            if coupling_scale is not None:
                scale = require_positive("coupling_scale", coupling_scale)
            coupling = pm.HalfNormal("coupling", scale if np.isfinite(scale) else 1.0)
        else:
            coupling = paper_coupling(trust, responses)
            pm.Data("coupling", coupling)
        prior = bf.PlantedPotts if edges == "drawn" else bf.Potts
        if approximation == "mean field":
            prior = bf.MeanFieldPotts
        labels = prior(coupling, graph, prevalence)
        self.observe(labels=labels, raters=self.rater_channel(raters, confusion_prior))
        if labels.table is not None:
            self.notes["log_z"] = repr(labels.table)

"""Weighted votes: a regression of known labels on responses and on the results of other models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import bayesfuse as bf
from bayesfuse.data.known import gold_labels
from bayesfuse.data.names import listed, places
from bayesfuse.data.tables import Table
from bayesfuse.data.vote_terms import Agreement, Terms, design_effect
from bayesfuse.errors import ModelError, require_kind, require_mapping, require_number
from bayesfuse.inference.weighted_votes import Known, by_part, sample_weights
from bayesfuse.observation.model import LabelModel
from bayesfuse.results.contents import constants, named
from bayesfuse.results.probabilities import label_probabilities, vote_shares

AS_GIVEN = 5.0  # known labels against which the given probabilities have even odds


class WeightedVotes(LabelModel):
    r"""Known labels on top of other models, a :class:`pymc.Model`.

    A hundred known labels weigh little against thousands of responses: where raters err together,
    other models keep believing them. This one describes known labels given responses::

        given label probabilities (item) ──► label (known item) ◄── responses (item)
        corrected? bias, trust               ▲
        weight_mean, weight_slope, weight_scale ──► weight (rater)

    With label probabilities :math:`p_j` of result j, their average :math:`\bar p`, and the share
    :math:`v_{nm}(k)` of rater m's responses to item n that are k (of stated probabilities, the
    centred logarithms), labels are drawn from :math:`\bar p_n` with probability ``as_given``, else:

    .. math::

        \log p(y_n = k) = b_k + \beta \log \bar p_{nk}
            + \textstyle\sum_j \gamma_j (\log p_{jnk} - \log \bar p_{nk})
            + \sum_m w_m v_{nm}(k) - \text{normaliser}

    Priors and why:

    * as given, 5 / (5 + known labels): three are no reason to rewrite what thousands say;
    * trust β ~ Normal(1, .7): from .2 where raters err together to 1.7 where few are competent;
    * bias b ~ ZeroSumNormal(.5): models mostly get the shares of the classes right;
    * weight w ~ Normal(weight_mean + weight_slope × competence, weight_scale), around zero, because
      the given probabilities have counted every vote already, with scales by which the votes of an
      item say about as much as these. Competence is how often the given labels agree.

    Parameters
    ----------
    responses : bf.Responses, DataFrame or array
        Responses and stated probabilities are inputs; where sources were silent is not.
    gold : mapping of item name to class name, DataFrame or path
        Known labels, the data of this model: at least one, of an item with responses.
    results : mapping of name to DataTree or DataArray, optional
        Results of the same responses, or their label probabilities (item, class), fitted without
        the known labels. Several have a trust of their own, too, γ. Default: vote shares.
    as_given : float, optional
        Prior probability that the given probabilities need no correction, at least 0, below 1.
    gold_error : float, default 0
        Probability that a known label is wrong (any other class, equally likely), at most .5.
    sequences : Sequences, optional
        The order of the items. Known labels of few sequences count less than as many drawn from
        all: the likelihood has the power one over their design effect (Kish 1965), estimated from
        how much the agreement of raters varies among sequences.
    name : str, optional
        Prefix of the model's variables, as in PyMC.

    Raises
    ------
    bayesfuse.errors.ModelError, bayesfuse.errors.ResponsesError
        No known labels, or contradicting ones; results that have seen them, or of other items.

    Notes
    -----
    ``bf.sample`` uses independence Metropolis; ``sampler="nuts"`` is for comparison, with
    ``as_given=0``. Results have ``label_draws`` (joint draws of all labels), and the log likelihood
    of known items for ``az.loo``. ``accuracy`` and other rates of raters are shares of the items
    they answered. The uncertainty behind the given probabilities is not carried along.

    References
    ----------
    Platt (1999), Probabilistic outputs for support vector machines (calibration by a logit).
    Tierney (1994), Annals of Statistics 22 (independence Metropolis).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> table = bf.datasets.simulate_dawid_skene(200, 5, 2, random_seed=1)
    >>> gold = {item: int(table.truth[item]) for item in range(30)}
    >>> model = bf.models.WeightedVotes(table.responses, gold)
    >>> result = bf.sample(model, 100, random_seed=1, progressbar=False)
    >>> result["posterior"]["weight"].dims, result["label_draws"]["label"].dims
    (('chain', 'draw', 'rater'), ('sample', 'item'))
    """

    instead = (
        "WeightedVotes describes known labels given the responses, so functions for models of "
        "responses do not apply. Use bf.sample(model), functions of its result alone, and "
        "for new items model.predict(result, responses). Got: a model of known labels."
    )

    def __init__(
        self,
        responses: Table,
        gold: Any,
        results: Mapping[str, Any] | None = None,
        *,
        as_given: float | None = None,
        gold_error: float = 0.0,
        sequences: bf.Sequences | None = None,
        name: str = "",
    ) -> None:
        if as_given is not None and require_number("as_given", as_given, most=1.0) == 1.0:
            raise ModelError(
                "as_given must be below one, or known labels could change nothing. Got: 1."
            )
        error = require_number("gold_error", gold_error, most=0.5)
        super().__init__(responses, gold=gold, name=name)
        self.require_one_table("known labels are of single items")
        if not self.responses.is_unweighted:
            raise ModelError(
                "Known labels are of single items: use the table with one row per response, "
                "responses.expand(). Got: a table of counts."
            )
        self.gold_codes = gold_labels(self.responses, self.gold)
        results = {} if results is None else results
        require_mapping("results", results)
        for result_name, member in results.items():
            _require_unseen(result_name, member)
        self.result_names = list(results)
        self.given_results = {
            name: member for name, member in results.items() if isinstance(member, xr.DataTree)
        }
        self.terms = _terms(self.responses, results)
        self.known = self._known_labels(as_given, error, sequences)
        self._note()
        self._observe_labels(self._logits())

    def _known_labels(
        self, as_given: float | None, error: float, sequences: bf.Sequences | None
    ) -> Known:
        """Return the items of known class that have responses, and the scales of the priors."""
        terms = self.terms
        items = np.flatnonzero((self.gold_codes >= 0) & terms.answered)
        if not len(items):
            raise ModelError(
                "WeightedVotes learns from known labels only, of items with responses. Without any "
                "use bayesfuse.models.ItemTypes, or bf.fuse for several models. Got: "
                f"{0 if self.gold is None else len(self.gold)} known labels, none of such an item."
            )
        effect = 1.0 if sequences is None else design_effect(terms, sequences, items)
        n_effective = len(items) / effect
        per_item = np.sqrt(terms.per_item)
        scales = {
            "bias": 0.5,
            "trust": 0.7,
            "own_trust": 0.3,
            "weight_slope": 1.0 / per_item,
            "weight_mean": 0.5 / per_item,
            "weight_scale": 1.5 / per_item,
            "as_given": AS_GIVEN / (AS_GIVEN + n_effective) if as_given is None else as_given,
        }
        return Known(terms, items, self.gold_codes[items], scales, error, effect)

    def _logits(self) -> Any:
        """Register the corrections, and return the log-odds (known items, classes)."""
        terms, known, scales = self.terms, self.known.items, self.known.scales
        bias = pm.ZeroSumNormal("bias", scales["bias"], dims="class")
        trust = pm.Normal("trust", 1.0, scales["trust"])
        mean = pm.Normal("weight_mean", 0.0, scales["weight_mean"])
        slope = pm.Normal("weight_slope", 0.0, scales["weight_slope"])
        scale = pm.HalfNormal("weight_scale", scales["weight_scale"])
        offset = pm.Normal("offset", 0.0, 1.0, dims="rater")
        weight = mean + slope * terms.competence + scale * offset
        weight = pm.Deterministic("weight", weight, dims="rater")
        base = terms.log_mean[known]  # (known items, classes)
        votes = terms.rows(known)[1].tocoo()
        voted = pt.zeros(base.size)[votes.row].inc(votes.data * weight[votes.col])
        logits = bias + trust * base + voted.reshape(base.shape)
        if len(self.result_names) > 1:
            self.add_coord("result", self.result_names)
            member = pm.Normal("own_trust", 0.0, scales["own_trust"], dims="result")
            logits = logits + (terms.deviations[known] * member).sum(axis=-1)
        if scales["as_given"]:
            corrected = pm.Bernoulli("corrected", 1.0 - scales["as_given"])
            logits = pt.switch(corrected, logits, base)
        return logits

    def _observe_labels(self, logits: Any) -> None:
        """Observe the known labels, each of which is wrong with the probability of an error."""
        known, error = self.known, self.known.error
        self.add_coord("known_item", self.responses.items[known.items].tolist())
        if error:
            wrong = error / (self.responses.n_classes - 1)
            probability = wrong + (1.0 - error - wrong) * pm.math.softmax(logits, axis=1)
            pm.Categorical("label", p=probability, observed=known.label, dims="known_item")
        else:
            pm.Categorical("label", logit_p=logits, observed=known.label, dims="known_item")
        if known.power < 1.0:
            label = pm.logp(self["label"], known.label)
            pm.Potential("design_effect", (known.power - 1.0) * label.sum())

    draw_posterior = sample_weights

    def predict(
        self, result: xr.DataTree, responses: bf.Responses, results: Mapping[str, Any] | None = None
    ) -> xr.DataTree:
        """Return the label probabilities of new items, as ``label_posterior``.

        Parameters
        ----------
        result : DataTree
            From ``bf.sample`` of this model.
        responses : Responses
            To the new items, with the classes of the model. Weights of new raters are drawn given
            their competence, how often they agree with the label probabilities of the new items.
        results : mapping of name to DataTree or DataArray, optional
            Those of the new items, from ``bf.predict``, under the names of the model's ``results``.
        """
        require_kind("responses", responses, bf.Responses)
        if listed(responses.classes) != listed(self.responses.classes):
            raise ModelError(
                "New responses must have the classes of the model, in their order (classes=). "
                f"Got: {listed(responses.classes)} for {listed(self.responses.classes)}."
            )
        results = {} if results is None else results
        if list(results) != self.result_names:
            raise ModelError(
                "Label probabilities of the new items are needed from the results of the model. "
                f"Got: {list(results)} for {self.result_names}."
            )
        terms = _terms(responses, results, self.terms.agreement)
        posterior = result["posterior"].dataset
        old = named(posterior, "weight")
        mean, slope, scale = (named(posterior, f"weight_{of}") for of in ("mean", "slope", "scale"))
        if old is None or mean is None or slope is None or scale is None:
            raise ModelError("The result must be of this model. Got: no weights of raters.")
        at = places(responses.raters, self.responses.raters)
        noise = np.random.default_rng(0).standard_normal((*mean.shape, len(at)))
        weight = mean.values[..., None] + slope.values[..., None] * terms.competence
        weight += scale.values[..., None] * noise
        weight[..., at >= 0] = old.values[..., at[at >= 0]]
        name = self.name_for("weight")
        posterior = posterior.drop_dims("rater")
        posterior = posterior.assign({name: (("chain", "draw", "rater"), weight)})
        parts = [part.sum(axis=2) for _, part in by_part(terms, posterior)]
        mean_of = sum(parts) / (posterior.sizes["chain"] * posterior.sizes["draw"])
        coords = {"item": responses.items, "class": responses.classes}
        labels = xr.Dataset({"probability": (("item", "class"), mean_of)}, coords)
        return xr.DataTree.from_dict({"label_posterior": labels})

    def _note(self) -> None:
        """Note in results where the known labels are not informative."""
        unused = int((self.gold_codes >= 0).sum()) - len(self.known.items)
        used, notes = np.unique(self.known.label), []
        if len(used) == 1:
            notes.append(
                f"All known labels are {self.responses.classes[used[0]]!s}, so nothing is known of "
                "errors on items of other classes."
            )
        if unused:
            notes.append(
                f"{unused:,} known labels are of items without responses and are not used."
            )
        if notes:
            self.notes["known_labels"] = " ".join(notes)


def _require_unseen(name: Any, result: Any) -> None:
    """Raise ModelError for a result that was fitted with known labels."""
    if isinstance(result, xr.DataTree) and "constant_data" in result.children:
        gold_of = constants(result).get("gold")
        if gold_of is not None and bool((gold_of >= 0).any()):
            raise ModelError(
                "Results must be fitted without the known labels (no gold=), because a model "
                "is no evidence on labels that it was fitted to. Got: a fit with "
                f"{int((gold_of >= 0).sum())} known labels in {name!r}."
            )


def _terms(
    responses: bf.Responses, results: Mapping[str, Any], agreement: Agreement | None = None
) -> Terms:
    """Return the inputs of a table: its votes, and the label probabilities of results."""
    given = []
    for name, result in results.items():
        own = label_probabilities(result)
        for dim, names in (("item", responses.items), ("class", responses.classes)):
            at = pd.Index(own[dim].values).get_indexer(pd.Index(names))
            if len(at) != own.sizes[dim] or (at < 0).any():
                raise ModelError(
                    f"Results must be of the {dim} names of the responses. Got: others in {name!r}."
                )
            own = own.isel({dim: at})
        given.append(np.asarray(own.values, dtype=float))
    given = given or [label_probabilities(vote_shares(responses)).values]
    return Terms.of(responses, given, agreement)

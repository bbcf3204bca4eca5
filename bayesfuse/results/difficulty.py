"""Difficulty of the items and confused classes, from a model of item types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_count
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.raters.consensus import Consensus
from bayesfuse.results.compatibility import observation_of, parameters
from bayesfuse.results.contents import evenly_spaced, require_result, stored_label_draws
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

DRAWS = 200  # posterior draws over which types are averaged


def difficulty(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
) -> xr.Dataset:
    r"""Return how hard every item is, the raters' consensus on it, and which classes are confused.

    Raters answer c to an item of type z with probability :math:`\mu_{zc}`, the consensus of the
    type. The difficulty of an item is the probability that two of them disagree, :math:`d_z = 1 -
    \sum_c \mu_{zc}^2`, averaged over the posterior of its hidden type. On clean types it is zero:
    their consensus is the class, and errors are those of single raters.

    Parameters
    ----------
    result : DataTree
        Of :class:`bayesfuse.models.ItemTypes`, of another model with the rater channel
        :class:`bayesfuse.build.Consensus`, or from ``bf.fuse``.
    model : pymc.Model, optional
        Needed where :func:`bayesfuse.decode` needs it.
    draws : int, default 200
        Number of evenly spaced posterior draws to average over.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset
        By item: ``disagreement``, the mean of :math:`d_z`, its interval ``low`` to ``high``, and
        ``consensus``, the mean of :math:`\mu_{zc}`; ``label``, the most probable class, the
        probability of its ``error``, and the next class, ``confused_with``. ``mistakes``
        (labelled, class): expected numbers of items by most probable and true class.

    Raises
    ------
    ModelError
        A model without item types; a result of another model; ``ci_prob`` of an answer of
        ``bf.fuse``, whose interval is stored.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.ItemTypes(bf.datasets.anesthesia())
    >>> result = bf.sample(model, 50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> disagreement = bf.decisions.difficulty(result)["disagreement"]
    >>> bool(disagreement.sel(item=20) < disagreement.sel(item=36))  # 36 has all four classes
    True
    """
    require_count("draws", draws)
    if model is None and "difficulty" in require_result(result).children:
        if ci_prob is not None:
            raise ModelError(
                "The difficulty in an answer of bf.fuse has the interval of az.rcParams when it "
                "was made; other intervals are those of the result of a model of item types, such "
                f'as fused["models/consensus"]. Got: ci_prob={ci_prob} of an answer.'
            )
        return result["difficulty"].to_dataset()
    observation = observation_of(result, model)
    ends = tails(ci_prob)
    channel = observation.raters
    if not isinstance(channel, Consensus):
        raise ModelError(
            "The difficulty of an item is that of its type, so the model must have item types: use "
            "bayesfuse.models.ItemTypes, or the rater channel bayesfuse.build.Consensus with your "
            f"label prior. Got: a model of {type(channel).__name__} raters."
        )
    rows = channel.dictionary(observation.table.n_classes).rows
    types = _types(result, model, observation, int(draws))  # (items of the table, types)
    differ = 1.0 - np.square(rows).sum(axis=1)
    order = np.argsort(differ)
    up_to = types[:, order].cumsum(axis=1)
    summaries = {"disagreement": types @ differ}
    for name, end in zip(("low", "high"), ends, strict=True):
        below = (up_to < end * up_to[:, -1:]).sum(axis=1)
        summaries[name] = differ[order[np.minimum(below, len(order) - 1)]]
    by_item = xr.Dataset(
        {name: ("item", observation.by_item(values)) for name, values in summaries.items()}
        | {"consensus": (("item", "answer"), observation.by_item(types @ rows))},
        {"item": observation.responses.items, "answer": observation.responses.classes},
    )
    labels = label_probabilities(result, model).transpose("item", "class")
    return with_labels(by_item, labels.values, observation.responses)


def with_labels(summaries: xr.Dataset, probability: Array, responses: Responses) -> xr.Dataset:
    """Return consensus and disagreement with labels, errors and mistakes by these probabilities."""
    n_items, n_classes = probability.shape
    best = probability.argmax(axis=1)
    others = probability.copy()
    others[np.arange(n_items), best] = -1.0
    # ties, such as zeros beside a known class, are broken by the consensus of the raters
    second = np.lexsort((summaries["consensus"].values, others), axis=1)[:, -1]
    mistakes = np.zeros((n_classes, n_classes))
    np.add.at(mistakes, best, probability * responses.multiplicity[:, None])
    np.fill_diagonal(mistakes, 0.0)
    labelled = {
        "label": ("item", responses.classes[best]),
        "error": ("item", 1.0 - probability[np.arange(n_items), best]),
        "confused_with": ("item", responses.classes[second]),
        "mistakes": (("labelled", "class"), mistakes),
    }
    names = dict.fromkeys(("labelled", "class"), responses.classes)
    return summaries.assign(labelled).assign_coords(names)


def _types(
    result: xr.DataTree, model: pm.Model | None, observation: ResponseModel, draws: int
) -> Array:
    """Return the mean probabilities of types, (table items, types), over some draws."""
    channel: Any = observation.raters
    labels = stored_label_draws(result) if observation.labels.capabilities.moves_labels else None
    values = parameters(result, model)
    n_chains, n_draws = next(iter(values.values())).shape[:2]
    total: Any = 0.0
    for one in evenly_spaced(draws, n_chains * n_draws):
        at = divmod(int(one), n_draws)
        rows = observation.rows({name: drawn[at] for name, drawn in values.items()})
        if labels is None:
            probability = observation.marginal_of_states(rows).probability
        else:
            probability = observation.conditional(rows, labels[at])[0]
        tables = observation.tables(rows)
        total = total + channel.types(tables, probability, observation.rater_structure) / draws
    return np.asarray(total)

"""Check whether labels collapsed, and on a graph whether chains are in different phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.predictive import expanded
from bayesfuse.errors import ModelError, require_count, require_seed
from bayesfuse.labels import Potts
from bayesfuse.labels.couplings import reach
from bayesfuse.labels.partition_function import log_partition
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.observation import ResponseModel
from bayesfuse.results.collapse import ONE_MODE_RHAT, lost_classes
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of, parameters
from bayesfuse.results.contents import (
    all_draws,
    evenly_spaced,
    stored_label_draws,
)
from bayesfuse.results.joint_labels import if_stored
from bayesfuse.results.probabilities import label_probabilities

DRAWS = 50  # replications of the responses given labels: enough for a standard deviation
MIN_Z = 4.0  # standard deviations by which raters agree more than collapsed labels explain
MAX_LOST_RATIO = 0.2  # of the share of labels to that of responses, for a class to count as lost
MIN_ONE_CLASS_SHARE = 0.95  # share of the items without responses in one class that is reported
PHASE_DISTANCE = 0.1  # share of the items (of the coupling) between chains in different phases


def collapse(
    result: xr.DataTree, model: pm.Model | None = None, *, random_seed: Any = None
) -> xr.Dataset:
    """Check whether the labels collapsed to one class, or lost a class that many responses name.

    With all items in one class, confusion matrices can explain any responses. If raters share few
    items, or give only one label each, such a solution can have the highest posterior density;
    equal shares times the number of items as ``prevalence_prior`` prevent it. A class that raters
    often name by mistake is lost rightly; the responses alone cannot show this.

    Parameters
    ----------
    result, model : as in :func:`bayesfuse.decode`
    random_seed : as in the other checks, so that all can be called alike; nothing is drawn

    Returns
    -------
    Dataset
        By class: ``favoured``, the number of items with a majority for it (tied classes share an
        item); ``expected``, its expected number of items by the label probabilities; ``lost``,
        whether it is favoured for at least 5 % of the items (and 20) but expected to have less than
        one item or 2 % of the favoured. By rater: ``one_label``, whether all responses (ten or
        more) give the same label. Only items of unknown class with responses count. Attributes:
        ``lost_share``, the share of the joint draws of the labels in which a class is lost,
        whatever its name (NaN without joint draws); ``collapsed``, whether any class is lost, or
        is in half of the draws (classes that are permuted between draws have similar means), or
        (of tags) half of the spans are; ``verdict``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> print(bf.checks.collapse(result).attrs["verdict"])
    Labels have not collapsed: every class that many responses name has items.
    """
    require_seed(random_seed)
    observation = observation_of(result, model)
    probability = label_probabilities(result, model).transpose("item", "class")
    return lost_classes(probability.values, observation, if_stored(result))


def phase_transition(
    result: xr.DataTree, model: pm.Model, *, draws: int = DRAWS, random_seed: Any = None
) -> xr.Dataset:
    """Check whether strongly coupled labels on a graph ignore the responses.

    Above the critical coupling, where the agreement of neighbours rises fastest, the prior favours
    labels of one class. This is usual for images, and harmless with enough responses.

    Parameters
    ----------
    result, model : a DataTree, and its pymc.Model with a :class:`bayesfuse.build.Potts` prior
    draws, random_seed : number of replications of the responses given the labels, and seed

    Returns
    -------
    Dataset
        By class: ``voted`` share of the responses, ``unanswered`` share of the items without
        responses. By chain: mean ``coupling``, ``share`` of every class among the items and whether
        it is ``lost`` (chain, class), ``expected`` agreement of raters given the labels and ``z``
        of the observed one. By ``step`` of a ``grid`` of couplings: the share of agreeing edges
        under the prior, ``from_random`` and ``from_one_class`` starts. Attributes: ``critical``
        coupling and the posterior probability of being ``above`` it; the raters' ``agreement``;
        ``collapsed`` (a class is lost, and raters agree more than the remaining labels explain),
        ``apart`` (chains in different phases), ``one_class`` (all items without responses have the
        same class), ``trouble`` (any of the three), ``verdict``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 0, 1]] * 20 + [[1, 1, 1, 1]] * 20)
    >>> model = bf.models.MarkovRandomField(responses, bf.Graph.grid((4, 10)))
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> bf.checks.phase_transition(result, model, random_seed=1).attrs["trouble"]
    False
    """
    observation = expanded(observation_of(result, model))
    table = _critical_table(observation)
    responses = observation.responses
    coupling = parameters(result, model)["coupling"].astype(float)
    probability = label_probabilities(result, model).values
    unanswered = probability[responses.per_item == 0]
    alone = unanswered.mean(axis=0) if len(unanswered) else np.full(len(probability[0]), np.nan)
    voted = np.bincount(responses.label, minlength=responses.n_classes) / responses.n_responses
    label_draws = stored_label_draws(result)
    if label_draws is None:
        share = np.tile(probability.mean(axis=0), (len(coupling), 1, 1))
    else:  # (chain, draw, class)
        shares = [(label_draws == k).mean(axis=2) for k in range(responses.n_classes)]
        share = np.stack(shares, axis=2)
    require_count("draws", draws)
    chain, replicated = _replicated(
        result, model, observation, max(draws, 2 * len(coupling)), require_seed(random_seed)
    )
    if label_draws is None:
        agreement_by_chain = [replicated] * len(coupling)
    else:
        agreement_by_chain = [replicated[chain == c] for c in range(len(coupling))]
    expected = np.array([agreement.mean() for agreement in agreement_by_chain])
    deviation = max(float(np.mean([one.std() for one in agreement_by_chain])), 1e-12)
    z = np.nan_to_num((responses.agreement() - expected) / deviation)  # 0 without shared items
    by_chain = share.mean(axis=1)
    lost = (voted > 0) & (by_chain < MAX_LOST_RATIO * voted)
    attrs: dict[str, Any] = {
        "critical": table.critical,
        "above": float((coupling >= table.critical).mean()),
        "agreement": responses.agreement(),
        "collapsed": bool((lost.any(axis=1) & (z > MIN_Z)).any()),
        "apart": _is_bimodal(coupling, share),
        "one_class": bool(np.nanmax(alone, initial=0.0) > max(MIN_ONE_CLASS_SHARE, by_chain.max())),
    }
    attrs["trouble"] = attrs["collapsed"] or attrs["apart"] or attrs["one_class"]
    lost_names = responses.classes[(lost & (z > MIN_Z)[:, None]).any(axis=0)]
    attrs["verdict"] = _in_words(attrs, float(coupling.mean()), lost_names)
    variables = {
        "voted": ("class", voted),
        "unanswered": ("class", alone),
        "coupling": ("chain", coupling.mean(axis=1)),
        "share": (("chain", "class"), by_chain),
        "lost": (("chain", "class"), lost),
        "expected": ("chain", expected),
        "z": ("chain", z),
        "grid": ("step", table.coupling),
        "from_random": ("step", table.by_start[0] / table.total_weight),
        "from_one_class": ("step", table.by_start[1] / table.total_weight),
    }
    coords = {"class": responses.classes, "chain": np.arange(len(coupling))}
    return xr.Dataset(variables, coords, attrs)


def _critical_table(observation: ResponseModel) -> Any:
    """Return the log partition function by the coupling, and the critical coupling."""
    labels = observation.labels
    if not isinstance(labels, Potts):
        raise ModelError(
            "The model must have labels on a graph, because only these have phases. Got: a model "
            f"of {type(labels).__name__} labels."
        )
    if not labels.graph.n_edges:
        raise ModelError(
            "The graph must have edges, because only neighbours can agree. Got: a graph of "
            f"{labels.graph.n_items} items without edges."
        )
    if labels.table is not None:
        return labels.table
    graph = labels.graph.ordered(observation.responses)  # the model's coupling is fixed
    prevalence = observation.label_structure[0]
    return log_partition(graph, prevalence, reach(graph, len(prevalence)))


def _replicated(
    result: xr.DataTree,
    model: pm.Model,
    observation: ResponseModel,
    draws: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], Array]:
    """Return the chains of evenly spaced draws, and the agreement of responses drawn at these."""
    sizes, labels = all_draws(result).sizes, stored_label_draws(result)
    up_to = label_probabilities(result, model).values.cumsum(axis=1)
    chosen = evenly_spaced(draws, sizes["chain"] * sizes["draw"])
    chain, draw = np.divmod(chosen, sizes["draw"])
    agreement = np.empty(draws)
    for n, rows in enumerate(evenly_spaced_rows(result, model, observation, draws)):
        if labels is None:  # those of the same draw are unknown
            truth = draw_columns(up_to, rng)
        else:
            truth = labels[chain[n], draw[n]].astype(np.int64)
        channel, _ = observation.channel_at(rows)
        label = channel.simulate(observation.tables(rows), truth, observation.responses, rng)
        agreement[n] = observation.responses.relabelled(label).agreement()
    return chain, agreement


def _is_bimodal(coupling: Array, share: Array) -> bool:
    """Return whether the labels (or couplings) of chains differ by much and have not mixed."""
    import arviz as az

    if len(coupling) < 2:
        return False
    for series in (coupling / coupling.mean(), *np.moveaxis(share, 2, 0)):
        far = np.ptp(series.mean(axis=1)) > PHASE_DISTANCE
        if far and (np.ptp(series, axis=1).max() == 0 or float(az.rhat(series)) > ONE_MODE_RHAT):
            return True
    return False


def _in_words(attrs: dict[str, Any], coupling: float, lost: NDArray[Any]) -> str:
    side = "above" if coupling >= attrs["critical"] else "below"
    sentence = (
        f"The coupling ({coupling:.3g}) is {side} the critical one ({attrs['critical']:.3g})."
    )
    if not attrs["trouble"]:
        return f"{sentence} The labels follow the responses in all chains."
    troubles = {
        "collapsed": f"The labels collapsed: class {', '.join(map(str, lost))} is lost, and raters "
        "agree more often than the remaining labels explain. Use a weaker coupling, or infer it.",
        "apart": "The chains are in different phases: the posterior has several modes.",
        "one_class": "Nearly all items without responses have one class, because of the prior.",
    }
    return " ".join([sentence, *(trouble for name, trouble in troubles.items() if attrs[name])])

"""Whether labels on a graph collapse into one class, or chains into different phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.replicates import points, written_out
from bayesfuse.errors import ModelError, require_count, require_seed
from bayesfuse.labels import Potts
from bayesfuse.labels.partition_function import PartitionTable, log_partition
from bayesfuse.labels.potts import reach
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import invert
from bayesfuse.observation import Observation
from bayesfuse.results.access import kept_labels
from bayesfuse.results.points import evenly, parameters
from bayesfuse.results.probabilities import label_probabilities

DRAWS = 50
"""Replications of the responses given labels: enough for a standard deviation."""
FAR = 4.0
"""Standard deviations by which raters agree more than labels explain, where these are wrong."""
LOST = 0.2
"""A class is lost if labels have it so much less often than responses."""
NEARLY_ALL = 0.95
"""Share of the unanswered items that one class takes, to be told of."""
APART = 0.1
"""Share of the items (of the coupling) by which chains differ that are in different phases."""
MIXED = 1.1
"""R-hat up to which chains may have come from one distribution."""


def phase_transition(
    result: xr.DataTree, model: pm.Model, *, draws: int = DRAWS, random_seed: Any = None
) -> xr.Dataset:
    """Check whether labels on a graph still say what raters said.

    Strongly coupled labels go over into one class, which then explains all that raters say by
    their being bad. Three things can happen, and none shows in a label's probability, which is
    near one in any case:

    * the labels *collapse*: classes that raters name are lost, and raters agree with each other
      more often than the labels that are left can explain;
    * chains sit in different *phases*, one or more of them in a collapsed one;
    * *unanswered* items, whom only the prior tells, all get one class.

    Above the critical coupling, where the agreement of neighbours rises fastest, the prior alone
    prefers labels of one class. Regions of an image are above it, and it is no trouble as long as
    there are responses to hold them; it does say that unanswered regions follow what is around
    them.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``.
    model : pymc.Model
        The model it is of, with a :class:`bayesfuse.Potts` prior.
    draws : int, default 50
        Replications of the responses given the labels.
    random_seed : int, Generator, optional

    Returns
    -------
    Dataset
        By class: ``voted`` share of the responses, ``unanswered`` share of the items nobody
        answered (posterior mean, NaN without any). By chain: ``coupling`` (mean), ``share`` of
        every class among the items and whether it is ``lost`` (chain, class), the ``expected``
        agreement of raters given the labels and the ``z`` of the observed one. By ``step`` of a
        grid of couplings: ``grid`` and the share of the edges that agree in the prior,
        ``from_random`` and ``from_one_class`` starts. Attributes: ``critical`` coupling and the
        posterior probability to be ``above`` it; the raters' ``agreement``; ``collapsed``,
        ``apart`` (chains in different phases), ``one_class`` (among unanswered items),
        ``trouble`` (any of the three), ``verdict``.

    Raises
    ------
    ModelError
        A model without a graph, or without edges in it; a result of another model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import MarkovRandomField
    >>> answers = [[0, 0, 0, 1]] * 20 + [[1, 1, 1, 1]] * 20
    >>> model = MarkovRandomField(bf.Responses.from_matrix(answers), bf.Graph.grid((4, 10)))
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.checks.phase_transition(result, model, random_seed=1)
    >>> found.attrs["trouble"]
    False
    """
    observation = written_out(model, result)
    labels = observation.labels
    if not isinstance(labels, Potts):
        raise ModelError(
            "Phases are those of labels on a graph. Got: a model of "
            f"{type(labels).__name__} labels."
        )
    if not labels.graph.n_edges:
        raise ModelError(
            "Phases are of items that have neighbours, whose labels can agree. Got: a graph of "
            f"{labels.graph.n_items} items without edges."
        )
    responses = observation.responses
    coupling = parameters(result, model)["coupling"].astype(float)
    table = _table(labels, observation)
    probability = label_probabilities(result, model).values
    unanswered = probability[responses.per_item == 0]
    alone = unanswered.mean(axis=0) if len(unanswered) else np.full(len(probability[0]), np.nan)
    voted = np.bincount(responses.label, minlength=responses.n_classes) / responses.n_responses
    kept = kept_labels(result)
    share = _shares(kept, probability, len(coupling))
    chain, replicated = _agreements(result, model, observation, kept, draws, random_seed)
    own = [replicated[chain == c] if kept is not None else replicated for c in range(len(coupling))]
    expected = np.array([one.mean() for one in own])
    spread = max(float(np.mean([one.std() for one in own])), 1e-12)
    z = np.nan_to_num((responses.agreement() - expected) / spread)  # zero if none can be compared
    by_chain = share.mean(axis=1)
    lost = (voted > 0) & (by_chain < LOST * voted)
    attrs: dict[str, Any] = {
        "critical": table.critical,
        "above": float((coupling >= table.critical).mean()),
        "agreement": responses.agreement(),
        "collapsed": bool((lost.any(axis=1) & (z > FAR)).any()),
        "apart": _apart(coupling, share),
        "one_class": bool(np.nanmax(alone, initial=0.0) > max(NEARLY_ALL, by_chain.max())),
    }
    attrs["trouble"] = attrs["collapsed"] or attrs["apart"] or attrs["one_class"]
    lost_names = responses.classes[(lost & (z > FAR)[:, None]).any(axis=0)]
    attrs["verdict"] = _in_words(attrs, float(coupling.mean()), lost_names)
    found = {
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
    return xr.Dataset(found, coords, attrs)


def _table(labels: Potts, observation: Observation) -> PartitionTable:
    """Return the prior's table of couplings, which models with a fixed one do without."""
    if labels.table is not None:
        return labels.table
    graph = labels.graph.ordered(observation.responses)
    field = np.log(observation.label_structure[0])
    return log_partition(graph, field, reach(graph, len(field)))


def _shares(kept: NDArray[Any] | None, probability: Array, n_chains: int) -> Array:
    """Return the share of every class (chain, draw, class); of all draws at once if not kept."""
    if kept is None:
        return np.tile(probability.mean(axis=0), (n_chains, 1, 1))
    return np.stack([(kept == k).mean(axis=2) for k in range(probability.shape[1])], axis=2)


def _agreements(
    result: xr.DataTree,
    model: pm.Model,
    observation: Observation,
    kept: NDArray[Any] | None,
    draws: int,
    random_seed: Any,
) -> tuple[NDArray[np.int64], Array]:
    """Return what agreement of the raters the labels explain, draw by draw, and their chains.

    Responses are drawn anew given the labels of the same draw, or if they were not kept, given
    labels drawn by their probabilities.
    """
    require_count("draws", draws)
    responses, rng = observation.responses, require_seed(random_seed)
    n_chains, n_draws = parameters(result, model)["coupling"].shape
    draws = max(draws, 2 * n_chains)
    place = evenly(draws, n_chains * n_draws)
    up_to = label_probabilities(result, model).values.cumsum(axis=1)
    replicated = []
    for at, rows in zip(place, points(result, model, observation, draws), strict=True):
        if kept is None:
            truth = invert(up_to, rng.random(len(up_to)))
        else:
            truth = kept[divmod(at, n_draws)].astype(np.int64)
        channel, _ = observation.raters.at(rows, observation.rater_structure)
        label = channel.simulate(observation.tables(rows), truth, responses, rng)
        replicated.append(responses.relabelled(label).agreement())
    return place // n_draws, np.array(replicated)


def _apart(coupling: Array, share: Array) -> bool:
    """Say whether chains differ in their labels (or coupling) by much, and are not mixed."""
    import arviz as az

    if len(coupling) < 2:
        return False
    relative = coupling[:, :, None] / coupling.mean()
    for values in np.moveaxis(relative, 2, 0), np.moveaxis(share, 2, 0):
        for series in values:
            far = np.ptp(series.mean(axis=1)) > APART
            if far and (np.ptp(series, axis=1).max() == 0 or float(az.rhat(series)) > MIXED):
                return True
    return False


def _in_words(attrs: dict[str, Any], coupling: float, lost: NDArray[Any]) -> str:
    side = "above" if coupling >= attrs["critical"] else "below"
    said = [f"The coupling ({coupling:.3g}) is {side} the critical one ({attrs['critical']:.3g})."]
    if attrs["collapsed"]:
        names = ", ".join(map(str, lost))
        said.append(
            f"Labels have collapsed: class {names} is lost, and raters agree more often than the "
            "other labels explain. Take a weaker coupling, or infer it."
        )
    if attrs["apart"]:
        said.append("Chains are in different phases: more than one kind of labelling is stable.")
    if attrs["one_class"]:
        said.append("Unanswered items all but share one class, which only the prior says.")
    if not attrs["trouble"]:
        said.append("Labels say what the raters said, in all chains.")
    return " ".join(said)

"""Whether labels on a graph collapse into one class, or chains into different phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.replicates import points, written_out
from bayesfuse.errors import ModelError
from bayesfuse.labels import Potts
from bayesfuse.labels.partition_function import PartitionTable, log_partition
from bayesfuse.labels.potts import reach
from bayesfuse.observation import Observation
from bayesfuse.points import parameters
from bayesfuse.posterior import label_probabilities
from bayesfuse.simplex import Array

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
        By class: ``share`` of the answered items (posterior mean), ``voted`` share of the
        responses, ``unanswered`` share of the items nobody answered (NaN without any), ``lost``.
        By chain: ``coupling`` (mean) and, where the draws of the labels were kept, ``chain_share``
        (chain, class). By ``step`` of a grid of couplings: ``grid`` and the share of the edges
        that agree in the prior, ``from_random`` and ``from_one_class`` starts. Attributes:
        ``critical`` coupling and the posterior probability to be ``above`` it; ``agreement`` of
        the raters, ``expected_agreement`` given the labels and the ``z`` of the difference;
        ``collapsed``, ``apart`` (chains in different phases), ``one_class`` (among unanswered
        items), ``trouble`` (any of the three), ``verdict``.

    Raises
    ------
    ModelError
        A model without a graph; a result of another model.

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
    observation = written_out(model)
    labels = observation.labels
    if not isinstance(labels, Potts):
        raise ModelError(
            "Phases are those of labels on a graph. Got: a model of "
            f"{type(labels).__name__} labels."
        )
    responses = observation.responses
    coupling = parameters(result, model)["coupling"].astype(float)
    table = _table(labels, observation)
    critical = table.critical
    probability = label_probabilities(result).values
    answered = responses.per_item > 0
    share = probability[answered].mean(axis=0)
    alone = (
        probability[~answered].mean(axis=0) if not answered.all() else np.full_like(share, np.nan)
    )
    voted = np.bincount(responses.label, minlength=responses.n_classes) / responses.n_responses
    agreement = _agreement(result, model, observation, draws, random_seed)
    lost = (voted > 0) & (share < LOST * voted)
    by_chain = _by_chain(result, responses.n_classes)
    attrs: dict[str, Any] = {
        "critical": critical,
        "above": float((coupling >= critical).mean()),
        **agreement,
        "collapsed": bool(lost.any() and agreement["z"] > FAR),
        "apart": _apart(coupling, by_chain),
        "one_class": bool(np.nanmax(alone, initial=0.0) > max(NEARLY_ALL, share.max())),
    }
    attrs["trouble"] = attrs["collapsed"] or attrs["apart"] or attrs["one_class"]
    attrs["verdict"] = _in_words(attrs, coupling, lost, responses.classes)
    found: dict[str, Any] = {
        "share": ("class", share),
        "voted": ("class", voted),
        "unanswered": ("class", alone),
        "lost": ("class", lost),
        "coupling": ("chain", coupling.mean(axis=1)),
        "grid": ("step", table.coupling),
        "from_random": ("step", table.by_start[0] / table.total_weight),
        "from_one_class": ("step", table.by_start[1] / table.total_weight),
    }
    if by_chain is not None:
        found["chain_share"] = (("chain", "class"), by_chain.mean(axis=1))
    return xr.Dataset(found, {"class": responses.classes, "chain": np.arange(len(coupling))}, attrs)


def _table(labels: Potts, observation: Observation) -> PartitionTable:
    """Return the prior's table of couplings, which models with a fixed one do without."""
    if labels.table is not None:
        return labels.table
    graph = labels.graph.ordered(observation.responses)
    field = np.log(observation.label_structure[0])
    return log_partition(graph, field, reach(graph, len(field)))


def _agreement(
    result: xr.DataTree,
    model: pm.Model,
    observation: Observation,
    draws: int,
    random_seed: Any,
) -> dict[str, float]:
    """Hold the agreement of the raters against what labels and confusion explain.

    Labels are those of the draws where they were kept, else drawn by their probabilities.
    """
    rng = np.random.default_rng(random_seed)
    seen = observation.responses.agreement()
    if not np.isfinite(seen):  # no item with two responses
        return {"agreement": np.nan, "expected_agreement": np.nan, "z": 0.0}
    up_to = label_probabilities(result).values.cumsum(axis=1)
    replicated = []
    for rows in points(result, model, observation, draws):
        truth = (rng.random((len(up_to), 1)) * up_to[:, -1:] > up_to).sum(axis=1)
        channel, _ = observation.raters.at(rows, observation.rater_structure)
        label = channel.simulate(observation.tables(rows), truth, observation.responses, rng)
        replicated.append(observation.responses.relabelled(label).agreement())
    mean, deviation = float(np.mean(replicated)), float(np.std(replicated, ddof=1))
    return {
        "agreement": seen,
        "expected_agreement": mean,
        "z": (seen - mean) / max(deviation, 1e-12),
    }


def _by_chain(result: xr.DataTree, n_classes: int) -> Array | None:
    """Return the share of every class at every draw, (chain, draw, class), if labels were kept."""
    if "label_draws" not in result.children:
        return None
    label = result["label_draws"].dataset["label"].values
    return np.stack([(label == k).mean(axis=2) for k in range(n_classes)], axis=2)


def _apart(coupling: Array, by_chain: Array | None) -> bool:
    """Say whether chains differ in their labels (or coupling) by much, and are not mixed."""
    import arviz as az

    if len(coupling) < 2:
        return False
    series: list[tuple[NDArray[Any], float]] = [(coupling, float(coupling.mean()))]
    if by_chain is not None:
        series += [(by_chain[:, :, k], 1.0) for k in range(by_chain.shape[2])]
    for values, scale in series:
        if np.ptp(values.mean(axis=1)) > APART * scale and float(az.rhat(values)) > MIXED:
            return True
    return False


def _in_words(
    attrs: dict[str, Any], coupling: Array, lost: NDArray[np.bool_], classes: NDArray[Any]
) -> str:
    side = "above" if coupling.mean() >= attrs["critical"] else "below"
    mean, critical = f"{coupling.mean():.3g}", f"{attrs['critical']:.3g}"
    said = [f"The coupling ({mean}) is {side} the critical one ({critical})."]
    if attrs["collapsed"]:
        names = ", ".join(map(str, classes[lost]))
        said.append(
            f"Labels have collapsed: class {names} is lost, and raters agree on "
            f"{attrs['agreement']:.1%} of pairs where the labels explain "
            f"{attrs['expected_agreement']:.1%}. Take a weaker coupling, or infer it."
        )
    if attrs["apart"]:
        said.append("Chains are in different phases: more than one kind of labelling is stable.")
    if attrs["one_class"]:
        said.append("Unanswered items all but share one class, which only the prior says.")
    if not attrs["trouble"]:
        said.append("Labels say what the raters said, in all chains.")
    return " ".join(said)

"""Labels of a table, computed step by step from draws of the parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import storable
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ChunkedResponseModel, ResponseModel
from bayesfuse.results import draws as sums, joint_labels, schema
from bayesfuse.results.contents import identify_draws, spaced_rows
from bayesfuse.results.draws import Draws, accumulate
from bayesfuse.results.item_knowledge import ItemKnowledge, prior_knowledge

PRIOR_DRAWS = 50  # draws over which prior probabilities of the labels are averaged


@dataclass
class LabelSummary:
    """Groups of the labels of a table, None where they are not computed, or not yet.

    ``log_likelihood`` and ``draws`` by chain have no coordinates of chains and draws yet.
    """

    observation: ResponseModel | None
    probabilities: xr.Dataset | None = None
    draws: xr.Dataset | None = None
    log_likelihood: xr.Dataset | None = None
    knowledge: ItemKnowledge | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> set[str]:
        """Names of the groups that have been computed."""
        groups = {
            schema.LABEL_POSTERIOR: self.probabilities,
            schema.LABEL_DRAWS: self.draws,
            schema.LOG_LIKELIHOOD: self.log_likelihood,
        }
        return {name for name, group in groups.items() if group is not None}

    def add(self, summed: Draws) -> None:
        """Add sums over draws, and labels drawn with the parameters."""
        if summed.labels is not None:
            responses = summed.observation.responses
            self.draws = xr.Dataset(
                {"label": (("chain", "draw", "item"), summed.labels)},
                {"item": responses.items},
                {"classes": storable(responses.classes)},
            )
        self.probabilities = summed.label_posterior()
        names, pointwise = summed.by_unit()
        if pointwise is not None:
            self._set_log_likelihood(names, pointwise)

    def _set_log_likelihood(self, names: NDArray[Any], pointwise: Array) -> None:
        assert self.observation is not None
        prior = self.observation.labels
        self.log_likelihood = xr.Dataset(
            {self.observation.name: (("chain", "draw", prior.unit), pointwise)},
            {prior.unit: names},
            {"adds_up": int(prior.capabilities.adds_up)},
        )

    def compute(
        self,
        parameters: Mapping[str, Array],
        *,
        log_likelihood: bool | None = None,
        labels: NDArray[Any] | None = None,
        seconds: float = math.inf,
    ) -> None:
        """Sum the labels out at all draws; ``parameters`` and ``labels`` are (chain, draw, …).

        If all draws would take more than ``seconds``, fewer are used, without log likelihoods.
        """
        assert self.observation is not None
        sizes = next(iter(parameters.values())).shape[:2]
        if isinstance(self.observation, ChunkedResponseModel):
            self._compute_partitions(self.observation, parameters, sizes, log_likelihood)
            return
        options: dict[str, Any] = {"log_likelihood": log_likelihood, "seconds": seconds}
        self.add(accumulate(self.observation, parameters, labels, sizes, **options))

    def _compute_partitions(
        self,
        observation: ChunkedResponseModel,
        parameters: Mapping[str, Array],
        sizes: tuple[int, ...],
        log_likelihood: bool | None,
    ) -> None:
        """Compute the labels of all partitions, but not more than 10⁸ probabilities."""
        n_items = observation.partitions.n_items
        if n_items * len(observation.partitions.classes) > sums.MAX_VALUES:
            self.attributes["labels"] = (
                "too many to be kept here: bf.io.label_partitions writes them"
            )
            return
        if log_likelihood is None:
            log_likelihood = sizes[0] * sizes[1] * n_items <= sums.MAX_VALUES
        summaries = observation.parts.map(_sum_partition, (parameters, sizes, log_likelihood))
        labels, units, pointwise = zip(*summaries, strict=True)
        options: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal"}
        options |= {"join": "override", "compat": "override"}
        self.probabilities = xr.concat(labels, "item", **options)
        if log_likelihood:
            self._set_log_likelihood(np.concatenate(units), np.concatenate(pointwise, axis=2))

    def draw(
        self, parameters: Mapping[str, Array], posterior: xr.Dataset, seconds: float = math.inf
    ) -> None:
        """Draw all labels jointly at some draws, and average the prior's knowledge of items.

        The seed follows from the posterior, so equal draws have equal labels.
        """
        observation = self.observation
        if observation is None or isinstance(observation, ChunkedResponseModel):
            return
        n_chains, n_draws = next(iter(parameters.values())).shape[:2]
        points = spaced_rows(observation, parameters, min(PRIOR_DRAWS, n_chains * n_draws))
        self.knowledge = prior_knowledge(observation, points)
        if joint_labels.max_stored_draws(observation):
            values = posterior[identify_draws(posterior)[0]]
            seed = fingerprint.seed_of(values.mean(["chain", "draw"]).values)
            self.draws = joint_labels.sample(observation, parameters, seed, seconds)


def summarize_labels(
    observation: ResponseModel,
    parameters: Mapping[str, Array],
    posterior: xr.Dataset,
    *,
    log_likelihood: bool | None = None,
    labels: NDArray[Any] | None = None,
) -> LabelSummary:
    """Return everything that draws (chain, draw, …) imply for the labels."""
    summary = LabelSummary(observation)
    summary.compute(parameters, log_likelihood=log_likelihood, labels=labels)
    summary.draw(parameters, posterior)
    return summary


def _sum_partition(
    part: ResponseModel, parameters: Mapping[str, Array], sizes: tuple[int, int], pointwise: bool
) -> tuple[Any, ...]:
    """Return labels of a partition, names of its units and their log likelihoods."""
    summed = accumulate(part, parameters, None, sizes, log_likelihood=pointwise)
    return summed.label_posterior(), *summed.by_unit()

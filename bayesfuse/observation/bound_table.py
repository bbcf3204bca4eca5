"""Responses, a label prior and a rater channel bound together: names, tables and structures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayesfuse.data import fingerprint
from bayesfuse.data.known import gold_labels
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.contract import Support
from bayesfuse.parameters.factor import Integers, LogParameters, Structure, Tables
from bayesfuse.raters.base import RaterChannel

MAX_CHANNELS = 4  # stored channels at index parameters; without, sweeps take up to 3 times as long


@dataclass(frozen=True, eq=False, repr=False)
class BoundTable:
    """A table with the factors of its likelihood.

    ``table`` is the input of the kernels, with equal items of ``responses`` merged if possible;
    ``inverse`` (items,) are positions there, ``gold`` (items,) known classes, else −1.
    """

    responses: Responses
    table: Responses
    inverse: Integers
    gold: Integers
    labels: LabelPrior
    raters: RaterChannel
    label_structure: Structure
    arranged: Structure | None = None  # the channel's structure if not that of ``table``
    name: str = "responses"  # in a PyMC model
    rows_name: str = "response"  # their dimension there
    prediction: Mapping[str, Any] | None = None  # where these find parameters, as JSON holds it

    @classmethod
    def build(
        cls,
        responses: Responses,
        labels: LabelPrior,
        raters: RaterChannel,
        gold: Mapping[Any, Any] | None = None,
    ) -> Self:
        """Fit responses, prior, channel and gold labels together."""
        raters.require_table(responses)
        if (labels.class_of_state is not None) != raters.capabilities.by_state:
            raise ModelError(
                "A label prior over types (bf.build.TypeChain) needs a channel of responses given "
                "types (bf.build.ConsensusOfType), and the channel such a prior. Got: "
                f"{type(labels).__name__} and {type(raters).__name__}."
            )
        known = gold_labels(responses, gold)
        table, inverse = responses, np.arange(responses.n_items)
        kinds = _kinds_of(responses, labels, raters, known)
        if kinds is not None:
            table, inverse = responses.condensed(kinds)
        elif not responses.is_unweighted:
            raise ModelError(
                f"{type(labels).__name__} needs one row per item, because each has its own place "
                "among the others: call responses.expand(). Got: a table of counts."
            )
        structure = labels.subset(_firsts(responses, table, inverse)).structure(table)
        factors = labels.without_parameters(), raters.without_parameters()
        return cls(responses, table, inverse, known, *factors, structure)

    @cached_property
    def rater_structure(self) -> Structure:
        """The channel's structure, made on demand: blocks have their own."""
        if self.arranged is not None:
            return self.arranged
        return self.raters.subset(self.firsts).structure(self.table, self.table_gold)

    @cached_property
    def firsts(self) -> Integers:
        """The first item of ``responses`` for every item of ``table``."""
        return _firsts(self.responses, self.table, self.inverse)

    def channel_at(self, rows: Mapping[str, Any]) -> tuple[RaterChannel, Structure]:
        """Return the channel, and its structure, at the index parameters in ``rows``.

        The last ones are stored, one for each chain on a thread: sweeps use them several times.
        """
        if not self.indices:
            return self.raters, self.rater_structure
        key = b"".join(np.asarray(rows[name]).tobytes() for name in self.indices)
        channel = self._channels.get(key)
        if channel is None:
            channel = self.raters.at(rows, self.rater_structure)
            if len(self._channels) >= MAX_CHANNELS:
                self._channels.clear()
            self._channels[key] = channel
        return channel

    @cached_property
    def _channels(self) -> dict[bytes, tuple[RaterChannel, Structure]]:
        return {}

    @cached_property
    def table_gold(self) -> Integers:
        """Known class of every item of ``table``, −1 where unknown."""
        merged = np.full(self.table.n_items, -1)
        merged[self.inverse] = self.gold  # merged items agree in it
        return merged

    @property
    def full_structure(self) -> Structure:
        """The label prior's structure for the items of ``responses``."""
        if self.table is self.responses:
            return self.label_structure
        return self.labels.structure(self.responses)

    @property
    def unit_of_item(self) -> Integers:
        """The index of the unit of every item of ``responses``, (items,)."""
        return self.labels.unit_of(self.responses)

    @property
    def n_responses(self) -> int:
        """Number of responses, copies of an item included, but at least one."""
        return max(int(self.responses.per_rater.sum()), 1)

    def known_by(self, name: str, value: Any, why: str) -> Any:
        """Return "sequences" or "graph" as given or known to the labels, or raise ModelError."""
        known = getattr(self.labels, name, None) if value is None else value
        if known is None:
            raise ModelError(
                f"{why}: give {name}=. Got: a model of {type(self.labels).__name__} labels, and no "
                f"{name}."
            )
        return known

    def by_item(self, values: Array) -> Array:
        """Return values of the items of ``table`` for the items of ``responses``."""
        return values if self.table is self.responses else values[self.inverse]

    @property
    def by_item_names(self) -> list[str]:
        """Names of the parameters with an entry for every item."""
        declared = (*self.labels.used_parameters, *self.raters.used_parameters)
        return [parameter.name for parameter in declared if "item" in parameter.dims]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters, the label prior's first."""
        return (*self.labels.parameters, *self.raters.parameters)

    def support(self, name: str) -> Support:
        """Return the set in which the parameter ``name`` lives."""
        return (self.labels if name in self.labels.parameters else self.raters).support(name)

    def rows(self, values: Mapping[str, Any]) -> LogParameters:
        """Return log rows from the parameters' values."""
        with np.errstate(divide="ignore"):  # zero is a legal probability
            return {**self.labels.to_kernel(values), **self.raters.to_kernel(values)}

    def label_tables(self, rows: LogParameters) -> Tables:
        """Return the arguments that the label prior's kernels take first."""
        values = tuple(rows[name] for name in self.labels.parameters)
        return self.labels.expand(values, self.table.n_classes, np)

    def tables(self, rows: LogParameters) -> Tables:
        """Return the arguments that the channel's kernels take first."""
        values = tuple(rows[name] for name in self.raters.parameters)
        return self.raters.expand(values, self.table.n_classes, np)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Short hashes of the data, and of the label prior and the channel."""
        return {
            **fingerprint.of_responses(self.responses),
            "gold": fingerprint.of_gold(self.responses, self.gold),
            "labels": type(self.labels).__name__,
            "structure": fingerprint.of_arrays(self.labels.defining(self.label_structure)),
            "channel": type(self.raters).__name__,
            "density": self.raters.density,
            "groups": fingerprint.of_arrays(self.raters.defining()),
        }

    @cached_property
    def counted_names(self) -> tuple[str, ...]:
        """Names of the parameters that labels inform by counts of their entries."""
        return tuple(name for name in self.names if self.support(name).counts)

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Names of the whole-numbered parameters, which the channel draws itself."""
        return tuple(name for name in self.names if self.support(name).discrete)

    @property
    def redraws(self) -> bool:
        """Whether sweeps leave the draw of hidden variables to the channel, with the priors."""
        return bool(self.indices) or self.raters.capabilities.redraws


def _firsts(responses: Responses, table: Responses, inverse: Integers) -> Integers:
    """Return the first item of ``responses`` for every item of ``table``."""
    return inverse if table is responses else np.unique(inverse, return_index=True)[1]


def _kinds_of(
    responses: Responses, labels: LabelPrior, raters: RaterChannel, known: Integers
) -> Integers | None:
    """Return a number that merged items must share besides responses; None if none may be."""
    kinds = [factor.kinds(responses) for factor in (labels, raters)]
    if any(kind is None for kind in kinds):
        return None
    varying = [kind for kind in kinds if kind is not None and kind.any()]
    if not varying:
        return known
    return np.unique(np.column_stack([known, *varying]), axis=0, return_inverse=True)[1].ravel()

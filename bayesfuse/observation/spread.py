"""Responses in partitions: parameters go out to these and counts come back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.known import found_in, require_gold, unknown_item
from bayesfuse.data.partitions import Layout, Partitions, read
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.cluster import Parts
from bayesfuse.observation.blocks import Summed, ask, in_blocks
from bayesfuse.observation.counts import Rows, total_of
from bayesfuse.observation.observation import Observation
from bayesfuse.raters.base import RaterChannel

PER_RESPONSE, PER_ITEM = 20, 100  # bytes of a partition once its labels were drawn, about


@dataclass(frozen=True)
class Recipe:
    """What makes observations of partitions."""

    layout: Layout
    labels: LabelPrior
    raters: RaterChannel
    gold: Mapping[Any, Any]


def prepare(recipe: Recipe, source: Any) -> Observation:
    """Read a partition and return its observation."""
    frame = read(recipe.layout, source)
    try:
        table = recipe.layout.table(frame)
        sequences = recipe.layout.sequences(frame)
    except ResponsesError as error:
        where = "" if hasattr(source, "columns") else f" ({source})"
        raise ResponsesError(f"{error}{where}") from error
    labels = recipe.labels
    if labels.needs:
        labels = labels.anew(labels.parameters, labels.settings(), sequences=sequences)
    gold = _of_table(recipe.gold, table)
    return in_blocks(Observation.build(table, labels, recipe.raters, gold))


def _of_table(gold: Mapping[Any, Any], table: Responses) -> dict[Any, Any]:
    """Return the gold labels of the items of a table."""
    return dict(compress(gold.items(), found_in(table, gold)))


@dataclass(frozen=True, eq=False)
class Spread(Summed):
    """An observation in partitions; ``table`` and ``responses`` are the first, with all raters."""

    partitions: Any = None
    known_items: Mapping[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        partitions: Partitions,
        labels: LabelPrior,
        raters: RaterChannel,
        gold: Mapping[Any, Any] | None = None,
    ) -> Spread:
        """Fit partitions, prior and channel together."""
        head = partitions.head
        _require_parts(labels, raters, partitions)
        if gold is not None:
            require_gold(gold)
        known = dict({} if gold is None else gold)
        seen = Observation.build(head, labels, raters, _of_table(known, head))
        fields = {name: getattr(seen, name) for name in seen.__dataclass_fields__}
        spread = cls(**fields, partitions=partitions, known_items=known)
        if known:
            found = np.any(spread.parts.map(_gold_items, (known,)), axis=0)
            for item in compress(known, ~found):
                raise unknown_item(item)
        return spread

    @cached_property
    def pilot(self) -> Observation:
        """The first partition alone, where fits begin."""
        names = Observation.__dataclass_fields__
        return in_blocks(Observation(**{name: getattr(self, name) for name in names}))

    @cached_property
    def parts(self) -> Parts:
        """The observations of all partitions."""
        labels: Any = copy.copy(self.labels)
        if hasattr(labels, "sequences"):
            labels.sequences = None  # every partition has its own
        recipe = Recipe(self.partitions.layout, labels, self.raters, self.known_items)
        sizes = self.partitions.per_partition @ [PER_ITEM, PER_RESPONSE]
        return Parts(prepare, recipe, self.partitions.sources, sizes.tolist())

    @property
    def n_responses(self) -> int:
        return self.partitions.n_responses

    def over_parts(self, method: str, arguments: tuple[Any, ...], *seeds: Any) -> Any:
        return self.parts.add(total_of, ask, (method, arguments), *seeds)

    def require_possible_at(self, rows: Rows) -> None:
        self.parts.map(Observation.require_possible_at, (rows,))

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        own = super().fingerprint
        cuts = fingerprint.of_arrays([self.partitions.per_partition])
        return own | {"responses": f"{self.partitions.content}{cuts}", "items": ""}

    def refuse(self, *arguments: Any, **others: Any) -> NoReturn:
        """Raise ModelError: this would look at the first partition alone."""
        raise ModelError(
            "Only fits and label probabilities go through all partitions; this needs all items "
            "at hand, in a table from Responses.from_long (of some items, say). Got: responses in "
            f"{self.partitions.n_partitions} partitions."
        )

    part = marginal = likelihood = expected_given = draw = given = tally = refuse
    simulate = redraw = known_by = refuse


def _require_parts(labels: LabelPrior, raters: RaterChannel, partitions: Partitions) -> None:
    """Raise ModelError unless every partition can be seen by itself."""
    why = ""
    if type(labels).part is LabelPrior.part:
        why = f"{type(labels).__name__} labels depend on each other across partitions"
    elif not labels.counts_all:
        why = f"{type(labels).__name__} labels need more than counts"
    elif set(labels.needs) - {"sequences"} or labels.taken(np.arange(0)) is not labels:
        why = "populations and covariates of items are not columns of the table"
    elif raters.taken(np.arange(0)) is not raters:
        why = "what is known of items is not a column of the table"
    elif any(parameter.support.discrete for parameter in raters.used_parameters):
        why = "groups must be given, because they are found from all responses at once"
    elif any("item" in p.dims for p in (*labels.used_parameters, *raters.used_parameters)):
        why = "some parameters belong to single items"
    elif labels.needs and partitions.layout.sequence is None:
        why = "sequences must be a column: read the table with sequence= and position="
    if why:
        raise ModelError(
            "Responses in partitions are for models whose partitions are independent given the "
            f"parameters; read others with Responses.from_long. Got: {why}."
        )


def _gold_items(part: Observation, gold: Mapping[Any, Any]) -> NDArray[np.bool_]:
    return found_in(part.responses, gold)

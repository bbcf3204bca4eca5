"""Large tables in parts: blocks of units for threads, or partitions that do not fit into memory.

The blocks depend on the sizes of the table alone, and every part has random numbers of its own, so
results do not depend on the number of threads or workers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.known import is_in_table, require_gold, unknown_item
from bayesfuse.data.partitions import Layout, Partitions, read
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.labels.base import LabelPrior, Marginal
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.cluster import Parts
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation.response_model import ResponseModel
from bayesfuse.parameters.factor import (
    Counts,
    Integers,
    LogParameters,
    Tables,
    Used,
    total_of,
)
from bayesfuse.raters.base import RaterChannel
from bayesfuse.raters.confusion import Confusion

BLOCK_ENTRIES = (
    2**20
)  # entries (responses and items times classes): a millisecond, in a core's own cache
MIN_BLOCKS = 4  # smaller tables are not cut
ENTRIES_PER_TABLE = 16  # least entries of a block by entry of the channel's tables, which it reads
PER_RESPONSE, PER_ITEM = 20, 100  # bytes of a partition once its labels were drawn, about


def in_blocks(observation: ResponseModel) -> ResponseModel:
    """Return the observation in blocks, if it is large and its units are independent."""
    can = observation.labels.capabilities
    if observation.indices or observation.by_item_names or _number(observation) < MIN_BLOCKS:
        return observation
    if not can.separable or not can.sufficient:
        return observation
    return BlockedResponseModel(**fields_of(observation))


def fields_of(observation: ResponseModel) -> dict[str, Any]:
    """Return the arguments of an observation of one table."""
    return {name: getattr(observation, name) for name in ResponseModel.__dataclass_fields__}


def through_matrices(responses: Responses, gold: Integers) -> ResponseModel:
    """Return the response model of independent labels and confusion matrices, items merged."""
    labels, raters = Independent(None), Confusion(None)
    table, inverse = responses.condensed(gold)
    structure = labels.structure(table)
    return in_blocks(ResponseModel(responses, table, inverse, gold, labels, raters, structure))


def through_channel(
    raters: RaterChannel, responses: Responses, gold: Mapping[Any, Any] | None
) -> ResponseModel:
    """Return the response model of independent labels and a rater channel."""
    return in_blocks(ResponseModel.build(responses, Independent(None), raters, gold))


def with_matrices(observation: ResponseModel) -> ResponseModel:
    """Return an observation with a confusion matrix for every rater."""
    return replace(observation, raters=Confusion(None), arranged=None)


def streams(rng: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Return a stream of random numbers for every block, independent of the others."""
    key = rng.integers(0, 2**63, size=2).tolist()
    seeds = (np.random.SeedSequence([*key, block]) for block in range(count))
    return [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]


class SummedResponseModel(ResponseModel):
    """A response model in parts, over which log evidence and counts are summed."""

    parts: Any
    redraws = False  # parts have counts alone
    shared = True

    def over_parts(self, method: str, arguments: tuple[Any, ...], *by_part: Any) -> Any:
        """Sum the results of a method of the parts, for common arguments and those of each part."""

        def of(part: ResponseModel, *by_part: Any) -> Any:
            return call_method(part, method, arguments, *by_part)

        return total_of(side_by_side(of, self.parts, *by_part))

    def expected(self, rows: LogParameters) -> tuple[float, Counts]:
        total, counts = self.over_parts("expected", (rows,))
        return total, counts

    def of_tables(self, label_tables: Tables, tables: Tables) -> Used:
        return self.over_parts("of_tables", (label_tables, tables))

    def evidence(self, rows: LogParameters) -> tuple[float, None]:
        return float(self.over_parts("log_evidence", (rows,))), None

    def draw_counts(self, rows, rng, evaluated=None, drawn_by=None):
        count = len(self.parts)
        by_part = streams(rng, count), [None] * count, [drawn_by] * count  # as arguments of a part
        return self.over_parts("draw_counts", (rows,), *by_part)


def call_method(part: ResponseModel, method: str, arguments: tuple[Any, ...], *by_part: Any) -> Any:
    """Call a method of a part."""
    return getattr(part, method)(*arguments, *by_part)


class BlockedResponseModel(SummedResponseModel):
    """An observation that is evaluated, and its labels drawn, block by block."""

    @cached_property
    def parts(self) -> list[ResponseModel]:
        """The observations of the blocks."""
        return side_by_side(self.part, self.units_by_block)

    @cached_property
    def units_by_block(self) -> list[Integers]:
        """The units of every block: as many entries in each."""
        unit = self.labels.unit_of(self.table)
        n_units = len(self.labels.units(self.table))
        ends = _ends(self, np.bincount(unit, self.table.per_item + 1.0, minlength=n_units))
        return [units for units in np.split(np.arange(n_units), ends) if len(units)]

    @cached_property
    def items_by_block(self) -> list[Integers]:
        """The items of every block, in the order in which its observation has them."""
        return [self.labels.part(self.label_structure, units)[0] for units in self.units_by_block]

    def marginal(self, rows: LogParameters) -> Marginal:
        shape = self.table.n_items, self.table.n_classes
        probability, log_evidence = np.empty(shape), np.empty(len(self.labels.units(self.table)))

        def fill(part: ResponseModel, items: Any, units: Any) -> tuple[float, Tables]:
            marginal = part.marginal(rows)
            probability[items], log_evidence[units] = marginal.probability, marginal.log_evidence
            return marginal.total, marginal.expected

        totals, used = zip(
            *side_by_side(fill, self.parts, self.items_by_block, self.units_by_block), strict=True
        )
        return Marginal(sum(totals), log_evidence, probability, total_of(used))

    def counts_from_labels(self, probability: Array, rows: LogParameters) -> Counts:
        def of(part: ResponseModel, items: Any) -> Counts:
            return part.counts_from_labels(probability[items], rows)

        return total_of(side_by_side(of, self.parts, self.items_by_block))


def _ends(observation: ResponseModel, load: NDArray[Any]) -> Integers:
    """Return where blocks end that have as many entries each, even shares for two threads."""
    load, count = load.cumsum(), 2 * -(-_number(observation) // 2)
    return np.searchsorted(load, load[-1] * np.arange(1, count) / count)


def _number(observation: ResponseModel) -> int:
    """Return the number of blocks into which a table can be cut."""
    table = observation.table
    entries = (table.n_responses + 2 * table.n_items) * table.n_classes
    tables = table.n_raters * table.n_classes**2
    return entries // max(BLOCK_ENTRIES, ENTRIES_PER_TABLE * tables)


@dataclass(frozen=True)
class Recipe:
    """Factors and settings from which observations of partitions are made."""

    layout: Layout
    labels: LabelPrior
    raters: RaterChannel
    gold: Mapping[Any, Any]


def prepare(recipe: Recipe, source: Any) -> ResponseModel:
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
        labels = labels.rebuild_for(labels.parameters, labels.settings(), sequences=sequences)
    gold = _of_table(recipe.gold, table)
    return in_blocks(ResponseModel.build(table, labels, recipe.raters, gold))


def _of_table(gold: Mapping[Any, Any], table: Responses) -> dict[Any, Any]:
    """Return the gold labels of the items of a table."""
    return dict(compress(gold.items(), is_in_table(table, gold)))


@dataclass(frozen=True, eq=False)
class ChunkedResponseModel(SummedResponseModel):
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
    ) -> ChunkedResponseModel:
        """Fit partitions, prior and channel together."""
        head = partitions.head
        _require_parts(labels, raters, partitions)
        if gold is not None:
            require_gold(gold)
        known = dict({} if gold is None else gold)
        first_part = ResponseModel.build(head, labels, raters, _of_table(known, head))
        spread = cls(**fields_of(first_part), partitions=partitions, known_items=known)
        if known:
            is_present = np.any(spread.parts.map(_gold_items, (known,)), axis=0)
            for item in compress(known, ~is_present):
                raise unknown_item(item)
        return spread

    @cached_property
    def first_chunk(self) -> ResponseModel:
        """The first partition alone, where fits begin."""
        return in_blocks(ResponseModel(**fields_of(self)))

    @cached_property
    def parts(self) -> Parts:
        """The observations of all partitions."""
        labels: Any = copy.copy(self.labels)
        if "sequences" in labels.needs:
            labels.sequences = None  # every partition has its own
        recipe = Recipe(self.partitions.layout, labels, self.raters, self.known_items)
        sizes = self.partitions.per_partition @ [PER_ITEM, PER_RESPONSE]
        return Parts(prepare, recipe, self.partitions.sources, sizes.tolist())

    @property
    def n_responses(self) -> int:
        return self.partitions.n_responses

    def over_parts(self, method: str, arguments: tuple[Any, ...], *by_part: Any) -> Any:
        return self.parts.add(total_of, call_method, (method, arguments), *by_part)

    def require_possible_at(self, rows: LogParameters) -> None:
        self.parts.map(ResponseModel.require_possible_at, (rows,))

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        base = super().fingerprint
        cuts = fingerprint.of_arrays([self.partitions.per_partition])
        return base | {"responses": f"{self.partitions.content}{cuts}", "items": ""}

    def refuse(self, *arguments: Any, **others: Any) -> NoReturn:
        """Raise ModelError: this would look at the first partition alone."""
        raise ModelError(
            "Only fits and label probabilities go through all partitions; this needs all items "
            "at hand, in a table from Responses.from_long (of some items, say). Got: responses in "
            f"{self.partitions.n_partitions} partitions."
        )

    part = marginal = likelihood = counts_from_labels = draw = conditional = sample_counts = refuse
    simulate = simulate_table = known_by = refuse


def _require_parts(labels: LabelPrior, raters: RaterChannel, partitions: Partitions) -> None:
    """Raise ModelError unless the partitions are independent given the parameters."""
    reason = ""
    if not labels.capabilities.separable:
        reason = f"{type(labels).__name__} labels depend on each other across partitions"
    elif not labels.capabilities.sufficient:
        reason = f"{type(labels).__name__} labels need more than counts"
    elif set(labels.needs) - {"sequences"} or labels.subset(np.arange(0)) is not labels:
        reason = "populations and covariates of items are not columns of the table"
    elif raters.subset(np.arange(0)) is not raters:
        reason = "what is known of items is not a column of the table"
    elif any(parameter.support.discrete for parameter in raters.used_parameters):
        reason = "groups must be given, because they are found from all responses at once"
    elif any("item" in p.dims for p in (*labels.used_parameters, *raters.used_parameters)):
        reason = "some parameters belong to single items"
    elif labels.needs and partitions.layout.sequence is None:
        reason = "sequences must be a column: read the table with sequence= and position="
    if reason:
        raise ModelError(
            "Responses in partitions are for models whose partitions are independent given the "
            f"parameters; read others with Responses.from_long. Got: {reason}."
        )


def _gold_items(part: ResponseModel, gold: Mapping[Any, Any]) -> NDArray[np.bool_]:
    return is_in_table(part.responses, gold)

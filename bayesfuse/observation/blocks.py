"""Large tables in blocks of units, on which threads work side by side.

The blocks depend on the sizes of the table alone, and every block has random numbers of its own, so
results do not depend on the number of threads.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.labels.base import LabelPrior, Marginal
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import side_by_side
from bayesfuse.observation.counts import Counts, Rows, Used, total_of
from bayesfuse.observation.observation import Observation
from bayesfuse.raters.confusion import Confusion

BLOCK = 2**20  # entries (responses and items times classes): a millisecond, in a core's own cache
LEAST = 4  # tables of fewer blocks are not cut
TABLE = 16  # entries of a block for each of the channel's tables, which every block looks through


def in_blocks(observation: Observation) -> Observation:
    """Return the observation in blocks, if it is large and its units are independent."""
    labels, raters = observation.labels, observation.raters
    declared = (*labels.used_parameters, *raters.used_parameters)
    if (
        observation.indices
        or any("item" in parameter.dims for parameter in declared)
        or _number(observation) < LEAST
    ):
        return observation
    fields = {name: getattr(observation, name) for name in observation.__dataclass_fields__}
    if type(labels).part is LabelPrior.part:
        return RatersInBlocks(**fields)
    return Blocks(**fields) if labels.counts_all else observation


def through_matrices(responses: Responses, gold: NDArray[np.int64]) -> Observation:
    """See responses through independent labels and confusion matrices, merged where possible."""
    labels, raters = Independent(None), Confusion(None)
    table, inverse = responses.condensed(gold)
    structure = labels.structure(table)
    return in_blocks(Observation(responses, table, inverse, gold, labels, raters, structure))


def streams(rng: np.random.Generator, count: int) -> list[np.random.SeedSequence]:
    """Draw the seeds of blocks, which then draw numbers whatever the others do."""
    key = rng.integers(0, 2**63, size=2).tolist()
    return [np.random.SeedSequence([*key, block]) for block in range(count)]


def generator(seed: np.random.SeedSequence) -> np.random.Generator:
    """Return the random numbers of a block."""
    return np.random.Generator(np.random.SFC64(seed))


class Summed(Observation):
    """An observation in parts: what a fit asks of it is added up over these."""

    parts: Any
    redraws = False  # parts have counts alone
    shared = True

    def over_parts(self, method: str, arguments: tuple[Any, ...], *seeds: Any) -> Any:
        """Add up what a method of the parts returns, with a seed each if it draws."""

        def of(part: Observation, *seed: Any) -> Any:
            return ask(part, method, arguments, *seed)

        return total_of(side_by_side(of, self.parts, *seeds))

    def expected(self, rows: Rows) -> tuple[float, Counts]:
        total, counts = self.over_parts("expected", (rows,))
        return total, counts

    def of_tables(self, label_tables: tuple[Array, ...], tables: tuple[Array, ...]) -> Used:
        return self.over_parts("of_tables", (label_tables, tables))

    def evidence(self, rows: Rows) -> tuple[float, None]:
        return float(self.over_parts("log_evidence", (rows,))), None

    def draw_counts(self, rows, rng, seen=None, by=None):
        return self.over_parts("draw_counts", (rows, None, by), streams(rng, len(self.parts)))


def ask(part: Observation, method: str, arguments: tuple[Any, ...], seed: Any = None) -> Any:
    """Call a method of a part; one that draws takes random numbers after the parameters."""
    if seed is not None:
        return part.draw_counts(arguments[0], generator(seed), *arguments[1:])
    return getattr(part, method)(*arguments)


class Blocks(Summed):
    """An observation that is evaluated, and its labels drawn, block by block."""

    @cached_property
    def parts(self) -> list[Observation]:
        """The observations of the blocks."""
        return side_by_side(self.part, self.cut)

    @cached_property
    def cut(self) -> list[NDArray[np.int64]]:
        """The units of every block: as many entries in each."""
        unit = self.labels.unit_of(self.table)
        n_units = len(self.labels.units(self.table))
        ends = _ends(self, np.bincount(unit, self.table.per_item + 1.0, minlength=n_units))
        return [units for units in np.split(np.arange(n_units), ends) if len(units)]

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """The items of every block, in the order in which its observation has them."""
        return [self.labels.part(self.label_structure, units)[0] for units in self.cut]

    def marginal(self, rows: Rows) -> Marginal:
        shape = self.table.n_items, self.table.n_classes
        probability, log_evidence = np.empty(shape), np.empty(len(self.labels.units(self.table)))

        def fill(part: Observation, items: Any, units: Any) -> tuple[float, tuple[Array, ...]]:
            found = part.marginal(rows)
            probability[items], log_evidence[units] = found.probability, found.log_evidence
            return found.total, found.expected

        totals, used = zip(*side_by_side(fill, self.parts, self.places, self.cut), strict=True)
        return Marginal(sum(totals), log_evidence, probability, total_of(used))

    def expected_given(self, probability: Array, rows: Rows) -> Counts:
        def of(part: Observation, items: Any) -> Counts:
            return part.expected_given(probability[items], rows)

        return total_of(side_by_side(of, self.parts, self.places))


class RatersInBlocks(Observation):
    """An observation with dependent labels: only the responses are in blocks."""

    shared = True

    @cached_property
    def cut(self) -> list[slice]:
        """The items of every block: as many entries in each."""
        ends = _ends(self, self.table.per_item + 1.0).tolist()
        return [slice(*each) for each in pairwise([0, *ends, self.table.n_items])]

    @cached_property
    def structures(self) -> list[tuple[Any, ...]]:
        """The channel's structure of every block."""

        def of(items: slice) -> tuple[Any, ...]:
            number = np.arange(self.table.n_items)[items]
            raters = self.raters.taken(self.firsts[items])
            return raters.structure(self.table.take(number), self.table_gold[items])

        return side_by_side(of, self.cut)

    def likelihood(self, rows: Rows) -> tuple[Array, Array]:
        likelihood = np.empty((self.table.n_items, self.table.n_classes))
        log_scale, tables = np.empty(self.table.n_items), self.tables(rows)

        def fill(items: slice, structure: tuple[Any, ...]) -> None:
            found = self.raters.likelihood_kernel(*tables, *structure)
            likelihood[items], log_scale[items] = found

        side_by_side(fill, self.cut, self.structures)
        return likelihood, log_scale

    def tally(self, rows: Rows, drawn: NDArray[Any], rng: np.random.Generator) -> Counts:
        tables = self.tables(rows)

        def of(items: slice, structure: tuple[Any, ...], seed: Any) -> tuple[Array, ...]:
            return self.raters.tally(tables, drawn[items], structure, generator(seed))

        seeds = streams(rng, len(self.cut))
        counts = side_by_side(of, self.cut, self.structures, seeds)
        return self.counted(drawn, total_of(counts))


def _ends(observation: Observation, load: NDArray[Any]) -> NDArray[np.int64]:
    """Return where blocks end that have as many entries each, even shares for two threads."""
    load, count = load.cumsum(), 2 * -(-_number(observation) // 2)
    return np.searchsorted(load, load[-1] * np.arange(1, count) / count)


def _number(observation: Observation) -> int:
    """Return the number of blocks into which a table can be cut."""
    table = observation.table
    entries = (table.n_responses + 2 * table.n_items) * table.n_classes
    tables = table.n_raters * table.n_classes**2
    return entries // max(BLOCK, TABLE * tables)

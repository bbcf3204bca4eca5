"""Responses seen through a label prior and a rater channel: numbers only, no PyMC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.arrays import narrow, plain, shown
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ImpossibleDataError, ModelError, ResponsesError
from bayesfuse.labels.base import LabelPrior, Marginal
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.contract import Statistic, Support
from bayesfuse.raters.base import RaterChannel

Rows = dict[str, Array]
"""Log rows of every parameter by name: the point at which a model is evaluated."""


@dataclass(frozen=True, eq=False)
class Observation:
    """A label prior × rater channel over fixed responses, evaluated at log rows.

    EM, Gibbs and the posterior's passes over its draws are written against this class, the
    PyTensor Ops against the same kernels.

    Attributes
    ----------
    responses : Responses
        As the user gave them.
    table : Responses
        What the kernels see: identical items merged where the prior allows it and it pays.
    inverse : ndarray of int64, shape (items,)
        Position of every item of ``responses`` in ``table``.
    gold : ndarray of int64, shape (items,)
        Known class of every item of ``responses``, −1 where unknown.
    labels, raters : LabelPrior, RaterChannel
        Without their parameters.
    """

    responses: Responses
    table: Responses
    inverse: NDArray[np.int64]
    gold: NDArray[np.int64]
    labels: LabelPrior
    raters: RaterChannel
    label_structure: tuple[Any, ...]
    rater_structure: tuple[Any, ...]
    name: str = "responses"
    """What a PyMC model calls the responses."""
    rows_name: str = "response"
    """What it calls their dimension."""

    @classmethod
    def build(
        cls,
        responses: Responses,
        labels: LabelPrior,
        raters: RaterChannel,
        gold: Mapping[Any, Any] | None = None,
    ) -> Observation:
        """Fit responses, prior and channel together.

        Parameters
        ----------
        gold : mapping of item name to class name, optional
            Items whose true class is known.
        """
        known = gold_labels(responses, gold)
        if labels.merges:
            table, inverse = responses.condensed(known)
        elif responses.is_plain:
            table, inverse = responses, np.arange(responses.n_items)
        else:
            raise ModelError(
                f"{type(labels).__name__} needs one row per item, because each has its own place "
                "among the others: call responses.expand(). Got: a table of counts."
            )
        gold_there = _for_table(known, inverse, table)
        structures = labels.structure(table), raters.structure(table, gold_there)
        return cls(responses, table, inverse, known, labels.bare(), raters.bare(), *structures)

    def part(self, units: NDArray[np.int64]) -> Observation:
        """Return the observation of some of the units of ``table`` alone, given by number."""
        items, label_structure = self.labels.part(self.label_structure, units)
        table = self.table.take(items)
        gold = self.table_gold[items]
        return replace(
            self,
            responses=table,
            table=table,
            inverse=np.arange(len(items)),
            gold=gold,
            label_structure=label_structure,
            rater_structure=self.raters.structure(table, gold),
        )

    @property
    def table_gold(self) -> NDArray[np.int64]:
        """Known class of every item of ``table``, −1 where unknown."""
        return _for_table(self.gold, self.inverse, self.table)

    @property
    def n_responses(self) -> int:
        """Number of responses, copies of an item included, but at least one."""
        return max(int(self.responses.per_rater.sum()), 1)

    def known_by(self, name: str, given: Any, why: str) -> Any:
        """Return the "sequences" or the "graph" that a user gives or else the labels know.

        Raises
        ------
        ModelError
            Neither; ``why`` says what they are needed for.
        """
        found = getattr(self.labels, name, None) if given is None else given
        if found is None:
            raise ModelError(
                f"{why}: give {name}=. Got: a model of {type(self.labels).__name__} labels and "
                "none."
            )
        return found

    def by_item(self, values: Array) -> Array:
        """Return what belongs to the items of ``table`` for the items of ``responses``."""
        return values if self.table is self.responses else values[self.inverse]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all parameters, the label prior's first."""
        return (*self.labels.parameters, *self.raters.parameters)

    def support(self, name: str) -> Support:
        """Return the set in which the parameter ``name`` lives."""
        return (self.labels if name in self.labels.parameters else self.raters).support(name)

    def rows(self, values: Mapping[str, Any]) -> Rows:
        """Return log rows from the parameters' values."""
        with np.errstate(divide="ignore"):  # zero is a legal probability
            return {**self.labels.to_kernel(values), **self.raters.to_kernel(values)}

    def label_rows(self, rows: Rows) -> tuple[Array, ...]:
        """Return the arguments that the label prior's kernels take first."""
        return tuple(rows[name] for name in self.labels.parameters)

    def tables(self, rows: Rows) -> tuple[Array, ...]:
        """Return the arguments that the channel's kernels take first."""
        own = tuple(rows[name] for name in self.raters.parameters)
        return self.raters.expand(own, self.table.n_classes, np)

    def likelihood(self, rows: Rows) -> tuple[Array, Array]:
        """Return p(responses to n | truth k), (table items, classes), and the rows' log scale."""
        channel, structure = self.raters.at(rows, self.rater_structure)
        likelihood, log_scale = channel.likelihood_kernel(*self.tables(rows), *structure)
        return likelihood, log_scale

    def marginal(self, rows: Rows) -> Marginal:
        """Sum the labels out (over the items of ``table``)."""
        return self.labels.marginal(
            self.label_rows(rows), *self.likelihood(rows), self.label_structure
        )

    def expected(self, rows: Rows) -> tuple[float, Rows]:
        """Return the log evidence and the expected counts of every parameter's row entries.

        The counts are the derivative of the log evidence with respect to the log rows.
        """
        marginal = self.marginal(rows)
        used = self.labels.used(marginal.expected, self.label_rows(rows), self.label_structure)
        return marginal.total, self._named(used, self._weighed(rows, marginal.probability))

    def expected_given(self, probability: Array, rows: Rows) -> Rows:
        """Return the expected counts if labels had these probabilities (table items, classes).

        What channels hide besides the labels is weighed at ``rows``.
        """
        copies = probability * self.table.multiplicity[:, None]
        label_counts = self.labels.tally(copies, self.label_structure, self.table.n_classes)
        # labels that do not come from these rows may use what the rows rule out
        possible = [np.greater(row, -np.inf) for row in self.label_rows(rows)]
        label_counts = tuple(map(np.multiply, label_counts, possible))
        return self._named(label_counts, self._weighed(rows, probability))

    def _weighed(self, rows: Rows, probability: Array) -> tuple[Array, ...]:
        weight = probability * self.table.multiplicity[:, None]
        channel, structure = self.raters.at(rows, self.rater_structure)
        counts: tuple[Array, ...] = channel.expected_kernel(*self.tables(rows), weight, *structure)
        return counts

    def draw(
        self,
        rows: Rows,
        rng: np.random.Generator,
        previous: NDArray[Any] | None = None,
        seen: tuple[Array, Array] | None = None,
    ) -> NDArray[Any]:
        """Draw the labels of ``table`` from their posterior at these parameters.

        Priors with ``keeps_labels`` go on from the ``previous`` ones. ``seen`` is what
        :meth:`likelihood` returns there, if that is known.
        """
        likelihood, _ = self.likelihood(rows) if seen is None else seen
        drawn = self.labels.draw(
            self.label_rows(rows), likelihood, self.label_structure, rng, previous
        )
        if drawn.min() < 0:
            self.require_possible(self.marginal(rows))
        return drawn

    def given(self, rows: Rows, labels: NDArray[Any]) -> tuple[Array, Array]:
        """Return label probabilities given all other labels, and evidence by item, of ``table``."""
        return self.labels.given(
            self.label_rows(rows), labels, *self.likelihood(rows), self.label_structure
        )

    def converged(self, rows: Rows) -> bool:
        """Say whether summing the labels out, if it iterates, comes to an end at these rows."""
        likelihood, _ = self.likelihood(rows)
        return self.labels.converged(self.label_rows(rows), likelihood, self.label_structure)

    def tally(self, rows: Rows, drawn: NDArray[Any], rng: np.random.Generator) -> Rows:
        """Count the row entries that drawn labels use, as :meth:`draw` returns them."""
        label_counts = self.labels.tally(drawn, self.label_structure, self.table.n_classes)
        channel, structure = self.raters.at(rows, self.rater_structure)
        return self._named(label_counts, channel.tally(self.tables(rows), drawn, structure, rng))

    def redraw(
        self,
        rows: Rows,
        drawn: NDArray[Any],
        priors: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> tuple[dict[str, Any], dict[str, Statistic]]:
        """Draw what the channel draws itself given labels; return what they say of the rest."""
        label_counts = self.labels.tally(drawn, self.label_structure, self.table.n_classes)
        found, counts = self.raters.redraw(
            rows, self.tables(rows), drawn, priors, self.rater_structure, rng
        )
        return found, self.statistics(rows, self._named(label_counts, counts))

    def statistics(self, rows: Rows, counts: Rows) -> dict[str, Statistic]:
        """Return what labels say of every parameter: counts, or where they are not all, functions.

        Parameters without counts of their own have a log-likelihood, other parameters as in
        ``rows``.
        """
        label_counts = tuple(counts[name] for name in self.labels.parameters)

        def log_weight_of(name: str) -> Callable[[float], float]:
            def log_weight(value: float) -> float:
                at = self.label_rows(rows | {name: np.asarray(value)})
                return self.labels.log_weight(at, label_counts, self.label_structure)

            return log_weight

        return counts | {name: log_weight_of(name) for name in self._weighed_names}

    def known(self, indices: Mapping[str, Any]) -> Observation:
        """Return the observation that is left when the index parameters are known."""
        if not indices:
            return self
        channel, structure = self.raters.at(indices, self.rater_structure)
        left = replace(self, raters=channel, rater_structure=structure)
        left.__dict__["fingerprint"] = self.fingerprint  # what was observed is the same
        return left

    def accepts(
        self, rows: Rows, proposed: Rows, drawn: NDArray[Any], rng: np.random.Generator
    ) -> bool:
        """Decide on label parameters proposed from Dirichlet conditionals given drawn labels.

        Always true where the counts of the labels say all there is to say (Metropolis–Hastings:
        what is left of the ratio is what :meth:`tally` leaves out).
        """
        if self.labels.counts_all:
            return True
        old, new = (
            self.labels.uncounted(self.label_rows(at), drawn, self.label_structure)
            for at in (rows, rows | proposed)
        )
        return bool(np.log(rng.random()) < new - old)

    def require_possible(self, marginal: Marginal) -> None:
        """Raise ImpossibleDataError if some unit has probability zero."""
        broken = np.flatnonzero(marginal.log_evidence == -np.inf)
        if len(broken) == 0:
            return
        unit = self.labels.unit
        name = self.labels.units(self.table).tolist()[broken[0]]
        raise ImpossibleDataError(
            f"Every {unit} must be possible under some labels, else there is no posterior: a zero "
            "in the prior or a gold label rules out what was observed. Got: probability zero for "
            f"{unit} {name!r} ({len(broken)} such)."
        )

    def simulate(
        self, rows: Rows, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw truths (items,) given the known ones and, given them, a label for every response.

        Known truths stay as they are, and where labels depend on each other, others are drawn given
        them. An item that stands for several is drawn once.
        """
        labels, n_classes = self.labels, self.table.n_classes
        merged = self.table is not self.responses
        structure = labels.structure(self.responses) if merged else self.label_structure
        known = self.gold[:, None]
        possible = ((known < 0) | (known == np.arange(n_classes))).astype(float)
        truth = labels.simulate(self.label_rows(rows), possible, structure, rng)
        truth = np.where(self.gold >= 0, self.gold, truth)
        if truth.min(initial=0) < 0:
            self.require_possible(self.marginal(rows))
        channel, _ = self.raters.at(rows, self.rater_structure)
        return truth, channel.simulate(self.tables(rows), truth, self.responses, rng)

    def _named(self, label_counts: tuple[Array, ...], counts: tuple[Array, ...]) -> Rows:
        return dict(zip(self._counted, (*label_counts, *self.raters.collapse(counts)), strict=True))

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What was observed, and through which prior and channel, in a few letters each."""
        return {
            **fingerprint.of_responses(self.responses),
            "gold": fingerprint.of_gold(self.responses, self.gold),
            "labels": type(self.labels).__name__,
            "structure": fingerprint.of_arrays(self.labels.defining(self.label_structure)),
            "channel": type(self.raters).__name__,
            "groups": fingerprint.of_arrays(self.raters.defining()),
        }

    @cached_property
    def _counted(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.indices)

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Names of the channel's parameters without counts, which it draws itself."""
        return tuple(p.name for p in self.raters.used_parameters if not p.support.counts)

    @cached_property
    def _weighed_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.labels.used_parameters if not p.support.counts)


def _for_table(
    gold: NDArray[np.int64], inverse: NDArray[np.int64], table: Responses
) -> NDArray[np.int64]:
    """Return the known classes of merged items, which agree in them."""
    merged = np.full(table.n_items, -1)
    merged[inverse] = gold
    return merged


def gold_labels(responses: Responses, gold: Mapping[Any, Any] | None) -> NDArray[np.int64]:
    """Return the known class of every item as its number, −1 where unknown.

    Raises
    ------
    ResponsesError
        Gold for an item or of a class that the responses do not have; two classes for one item.
    """
    known = np.full(responses.n_items, -1)
    if gold is None or len(gold) == 0:
        return known
    if not isinstance(gold, Mapping | pd.Series):
        raise ResponsesError(
            "gold= is a mapping (a dict, a pandas Series) from item names to class names. Got: "
            f"{type(gold).__name__}."
        )
    said = zip(*gold.items(), strict=True)
    items, labels = map(_places, said, (responses.items, responses.classes))
    for (item, label), place, code in zip(gold.items(), items, labels, strict=True):
        if place < 0:
            raise ResponsesError(
                f"Gold labels must be of items that are in the table. Got: {item!r}, which is not."
            )
        if code < 0:
            raise ResponsesError(
                f"Gold labels must be among the classes {shown(responses.classes)}; leave out "
                f"items whose class is not known. Got: {label!r} for item {item!r}."
            )
        if known[place] not in (-1, code):
            raise ResponsesError(
                f"An item has one true class. Got: gold labels {label!r} and "
                f"{plain(responses.classes[known[place]])!r} for item {item!r}."
            )
        known[place] = code
    return known


def _places(given: Sequence[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """Return where what a user says stands among names, −1 where it does not."""
    return places(narrow(np.fromiter(given, dtype=object, count=len(given))), names)

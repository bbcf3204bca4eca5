"""Responses seen through a label prior and a rater channel: numbers only, no PyMC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.known import gold_labels
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.labels.base import LabelPrior, Marginal
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import check
from bayesfuse.parameters.contract import Statistic, Support
from bayesfuse.parameters.factor import Counts, LogParameters, Used, weight_of
from bayesfuse.raters.base import RaterChannel


@dataclass(frozen=True, eq=False, repr=False)
class ResponseModel:
    """A label prior × rater channel over fixed responses, evaluated at values of the parameters.

    ``table`` is what the kernels see, with like items of ``responses`` merged if worthwhile;
    ``inverse`` (items,) are positions there, ``gold`` (items,) known classes, else −1.
    """

    responses: Responses
    table: Responses
    inverse: NDArray[np.int64]
    gold: NDArray[np.int64]
    labels: LabelPrior
    raters: RaterChannel
    label_structure: tuple[Any, ...]
    arranged: tuple[Any, ...] | None = None  # the channel's structure if not that of ``table``
    name: str = "responses"  # in a PyMC model
    rows_name: str = "response"  # their dimension there
    prediction: Mapping[str, Any] | None = None  # where these find parameters, as JSON holds it

    shared = False  # whether threads or a cluster divide one sweep among them

    @classmethod
    def build(
        cls,
        responses: Responses,
        labels: LabelPrior,
        raters: RaterChannel,
        gold: Mapping[Any, Any] | None = None,
    ) -> ResponseModel:
        """Fit responses, prior, channel and gold labels together."""
        raters.require_table(responses)
        known = gold_labels(responses, gold)
        items = np.arange(responses.n_items)
        table, inverse, kinds = responses, items, _kinds_of(responses, labels, raters, known)
        if kinds is not None:
            table, inverse = responses.condensed(kinds)
        elif not responses.is_unweighted:
            raise ModelError(
                f"{type(labels).__name__} needs one row per item, because each has its own place "
                "among the others: call responses.expand(). Got: a table of counts."
            )
        if table is not responses:
            items = np.unique(inverse, return_index=True)[1]
        structure = labels.subset(items).structure(table)
        return cls(
            responses,
            table,
            inverse,
            known,
            labels.without_parameters(),
            raters.without_parameters(),
            structure,
        )

    @cached_property
    def rater_structure(self) -> tuple[Any, ...]:
        """The channel's structure, made when it is first asked for: blocks have their own."""
        if self.arranged is not None:
            return self.arranged
        return self.raters.subset(self.firsts).structure(self.table, self.table_gold)

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first item of ``responses`` for every item of ``table``."""
        if self.table is self.responses:
            return np.arange(self.table.n_items)
        return np.unique(self.inverse, return_index=True)[1]

    def part(self, units: NDArray[np.int64]) -> ResponseModel:
        """Return the observation of some of the units of ``table`` alone, given by number."""
        declared = (*self.labels.used_parameters, *self.raters.used_parameters)
        if by_item := [parameter.name for parameter in declared if "item" in parameter.dims]:
            raise ModelError(
                "Batches of items share all parameters; leave batch_size= out where some belong to "
                f"single items. Got: {by_item}."
            )
        items, label_structure = self.labels.part(self.label_structure, units)
        table = self.table.take(items)
        return ResponseModel(
            table,
            table,
            np.arange(len(items)),
            self.table_gold[items],
            self.labels,
            self.raters.subset(self.firsts[items]),
            label_structure,
            name=self.name,
        )

    @property
    def first_chunk(self) -> ResponseModel:
        """What fits begin with: all, or the first partition."""
        return self

    @property
    def unit_of_item(self) -> NDArray[np.int64]:
        """The index of the unit of every item of ``responses``, (items,)."""
        return self.labels.unit_of(self.responses)

    @cached_property
    def table_gold(self) -> NDArray[np.int64]:
        """Known class of every item of ``table``, −1 where unknown."""
        merged = np.full(self.table.n_items, -1)
        merged[self.inverse] = self.gold  # merged items agree in it
        return merged

    @property
    def full_structure(self) -> tuple[Any, ...]:
        """The label prior's structure for the items of ``responses``."""
        if self.table is self.responses:
            return self.label_structure
        return self.labels.structure(self.responses)

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
        """Return what belongs to the items of ``table`` for the items of ``responses``."""
        return values if self.table is self.responses else values[self.inverse]

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

    def label_tables(self, rows: LogParameters) -> tuple[Array, ...]:
        """Return the arguments that the label prior's kernels take first."""
        values = tuple(rows[name] for name in self.labels.parameters)
        return self.labels.expand(values, self.table.n_classes, np)

    def tables(self, rows: LogParameters) -> tuple[Array, ...]:
        """Return the arguments that the channel's kernels take first."""
        values = tuple(rows[name] for name in self.raters.parameters)
        return self.raters.expand(values, self.table.n_classes, np)

    def likelihood(self, rows: LogParameters) -> tuple[Array, Array]:
        """Return p(responses to n | truth k), (table items, classes), and the rows' log scale."""
        check()  # every computation on all responses begins here
        channel, structure = self.raters.at(rows, self.rater_structure)
        likelihood, log_scale = channel.likelihood_kernel(*self.tables(rows), *structure)
        return likelihood, log_scale

    def marginal(self, rows: LogParameters) -> Marginal:
        """Sum the labels out (over the items of ``table``)."""
        return self.labels.marginal(
            self.label_tables(rows), *self.likelihood(rows), self.label_structure
        )

    def evidence(self, rows: LogParameters) -> tuple[float, tuple[Array, Array] | None]:
        """Return the log evidence, and what :meth:`likelihood` returns if it is there anyway."""
        likelihood = self.likelihood(rows)
        marginal = self.labels.marginal(self.label_tables(rows), *likelihood, self.label_structure)
        return marginal.total, likelihood

    def log_evidence(self, rows: LogParameters) -> float:
        """Return the log evidence alone."""
        return self.evidence(rows)[0]

    def of_tables(self, label_tables: tuple[Array, ...], tables: tuple[Array, ...]) -> Used:
        """Return log evidence and counts at the kernels' tables, which PyMC's density makes."""
        check()
        labels, raters = self.labels, self.raters
        likelihood, log_scale = raters.likelihood_kernel(*tables, *self.rater_structure)
        marginal = labels.marginal(label_tables, likelihood, log_scale, self.label_structure)
        weight = marginal.probability * self.table.multiplicity[:, None]
        counts = raters.expected_kernel(*tables, weight, *self.rater_structure)
        return marginal.total, marginal.expected, counts

    def statistics(self, rows: LogParameters, counts: Counts) -> dict[str, Statistic]:
        """Return counts or log-likelihoods by parameter, all others as in ``rows``."""

        def log_weight_of(name: str) -> Callable[[Any], float]:
            def of_labels(value: Any) -> float:
                tables = self.label_tables(rows | {name: np.asarray(value)})
                return self.labels.log_weight(tables, counts.labels, self.label_structure)

            def of_raters(value: Any) -> float:
                return weight_of(self.tables(rows | {name: np.asarray(value)}), counts.raters)

            return of_raters if name in self.raters.parameters else of_labels

        return {**counts, **{name: log_weight_of(name) for name in self.weighed}}

    def expected(self, rows: LogParameters) -> tuple[float, Counts]:
        """Return the log evidence and its derivative by the log tables: the expected counts."""
        marginal = self.marginal(rows)
        used = self.labels.used(marginal.expected, self.label_tables(rows), self.label_structure)
        return marginal.total, self._counts(used, self._weighed(rows, marginal.probability))

    def counts_from_labels(self, probability: Array, rows: LogParameters) -> Counts:
        """Return expected counts at label probabilities (table items, classes) and ``rows``."""
        copies = probability * self.table.multiplicity[:, None]
        label_counts = self.labels.sample_counts(copies, self.label_structure, self.table.n_classes)
        # labels that do not come from these rows may use what the rows rule out
        possible = [np.greater(table, -np.inf) for table in self.label_tables(rows)]
        label_counts = tuple(map(np.multiply, label_counts, possible))
        return self._counts(label_counts, self._weighed(rows, probability))

    def _weighed(self, rows: LogParameters, probability: Array) -> tuple[Array, ...]:
        weight = probability * self.table.multiplicity[:, None]
        channel, structure = self.raters.at(rows, self.rater_structure)
        return channel.expected_kernel(*self.tables(rows), weight, *structure)

    def draw(
        self,
        rows: LogParameters,
        rng: np.random.Generator,
        previous: NDArray[Any] | None = None,
        seen: tuple[Array, Array] | None = None,
    ) -> NDArray[Any]:
        """Draw labels of ``table``, perhaps from ``previous`` on; ``seen`` is the likelihood."""
        likelihood, _ = self.likelihood(rows) if seen is None else seen
        drawn = self.labels.draw(
            self.label_tables(rows), likelihood, self.label_structure, rng, previous
        )
        if drawn.min() < 0:
            self.require_possible_at(rows)
        return drawn

    def conditional(self, rows: LogParameters, labels: NDArray[Any]) -> tuple[Array, Array]:
        """Return label probabilities given all other labels, and evidence by item, of ``table``."""
        return self.labels.conditional(
            self.label_tables(rows), labels, *self.likelihood(rows), self.label_structure
        )

    def converged(self, rows: LogParameters) -> bool:
        """Return whether summing the labels out converges at these rows."""
        likelihood, _ = self.likelihood(rows)
        return self.labels.converged(self.label_tables(rows), likelihood, self.label_structure)

    def sample_counts(
        self, rows: LogParameters, drawn: NDArray[Any], rng: np.random.Generator
    ) -> Counts:
        """Draw hidden variables of the channel, and count the entries that labels use."""
        channel, structure = self.raters.at(rows, self.rater_structure)
        return self.counted(drawn, channel.sample_counts(self.tables(rows), drawn, structure, rng))

    def draw_counts(
        self,
        rows: LogParameters,
        rng: np.random.Generator,
        seen: tuple[Array, Array] | None = None,
        by: tuple[RaterChannel, LogParameters] | None = None,
    ) -> Counts:
        """Draw labels (``by`` another channel and its rows) and count the entries they use."""
        if by is None:
            return self.sample_counts(rows, self.draw(rows, rng, seen=seen), rng)
        raters, at = by
        other = self if raters is self.raters else replace(self, raters=raters, arranged=None)
        return self.sample_counts(rows, other.draw(at, rng), rng)

    def counted(self, drawn: NDArray[Any], rater_counts: tuple[Array, ...]) -> Counts:
        """Return counts of drawn labels, those of the channel's tables given."""
        label_counts = self.labels.sample_counts(drawn, self.label_structure, self.table.n_classes)
        return self._counts(label_counts, rater_counts)

    def known(self, indices: Mapping[str, Any]) -> ResponseModel:
        """Return the observation that is left when the index parameters are known."""
        if not indices:
            return self
        channel, structure = self.raters.at(indices, self.rater_structure)
        left = replace(self, raters=channel, arranged=structure)
        left.__dict__["fingerprint"] = self.fingerprint  # what was observed is the same
        return left

    def require_possible_at(self, rows: LogParameters) -> None:
        """Raise ImpossibleDataError if some unit has probability zero at these rows."""
        broken = np.flatnonzero(self.marginal(rows).log_evidence == -np.inf)
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
        self, rows: LogParameters, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw truths (items,) given known ones and who spoke, and a label for every response."""
        channel, _ = self.raters.at(rows, self.rater_structure)
        truth = self._truths(
            rows, channel.fixed_feature_likelihood(self.tables(rows), self.responses), rng
        )
        return truth, channel.simulate(self.tables(rows), truth, self.responses, rng)

    def simulate_table(
        self, rows: LogParameters, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], Responses]:
        """Draw truths given the known ones and, given them, a table with who spoke drawn anew."""
        channel, _ = self.raters.at(rows, self.rater_structure)
        truth = self._truths(rows, None, rng)
        return truth, channel.redraw_fixed_features(self.tables(rows), truth, self.responses, rng)

    def _truths(
        self, rows: LogParameters, likelihood: Array | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        known = self.gold[:, None]
        possible = ((known < 0) | (known == np.arange(self.table.n_classes))).astype(float)
        if likelihood is not None:
            possible *= likelihood
        tables, structure = self.label_tables(rows), self.full_structure
        truth = self.labels.simulate(tables, possible, structure, rng)
        truth = np.where(self.gold >= 0, self.gold, truth)
        if truth.min(initial=0) < 0:
            self.require_possible_at(rows)
        return truth

    def _counts(self, labels: tuple[Array, ...], raters: tuple[Array, ...]) -> Counts:
        values = (*self.labels.collapse(labels), *self.raters.collapse(raters))
        return Counts(dict(zip(self.counted_names, values, strict=True)), labels, raters)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What was observed, and through which prior and channel, in a few letters each."""
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
    def weighed(self) -> tuple[str, ...]:
        """Names of the parameters that labels inform by a log-likelihood."""
        others = {*self.counted_names, *self.indices}
        return tuple(name for name in self.names if name not in others)

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Names of the whole-numbered parameters, which the channel draws itself."""
        return tuple(name for name in self.names if self.support(name).discrete)

    @property
    def redraws(self) -> bool:
        """Whether sweeps leave the draw of hidden variables to the channel, with the priors."""
        return bool(self.indices) or self.raters.capabilities.redraws


def _kinds_of(
    responses: Responses, labels: LabelPrior, raters: RaterChannel, known: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return what merged items must share besides responses, None if none may be merged."""
    kinds = [factor.kinds(responses) for factor in (labels, raters)]
    if any(kind is None for kind in kinds):
        return None
    varying = [kind for kind in kinds if kind is not None and kind.any()]
    if not varying:
        return known
    return np.unique(np.column_stack([known, *varying]), axis=0, return_inverse=True)[1].ravel()

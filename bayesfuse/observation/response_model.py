"""The likelihood of a label model, without PyMC: evaluated, counted, and labels drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.labels.base import Marginal
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.numerics.threads import check
from bayesfuse.observation.bound_table import BoundTable
from bayesfuse.parameters.contract import Statistic
from bayesfuse.parameters.factor import Counts, Integers, LogParameters, Tables, Used, weight_of
from bayesfuse.raters.base import RaterChannel

SHARPNESS = 2.0  # of hidden states at the start, to which class probabilities are raised


class ResponseModel(BoundTable):
    """A label prior × rater channel over fixed responses, evaluated at values of the parameters."""

    shared = False  # whether threads or a cluster divide one sweep among them

    def part(self, units: Integers) -> ResponseModel:
        """Return the response model of some units of ``table`` alone, by number."""
        if self.by_item_names:
            raise ModelError(
                "Batches of items share all parameters; leave batch_size= out where some belong to "
                f"single items. Got: {self.by_item_names}."
            )
        items, label_structure = self.labels.part(self.label_structure, units)
        table = self.table.take(items)
        inverse, gold = np.arange(len(items)), self.table_gold[items]
        factors = self.labels, self.raters.subset(self.firsts[items])
        return ResponseModel(table, table, inverse, gold, *factors, label_structure, name=self.name)

    @property
    def first_chunk(self) -> ResponseModel:
        """The data from which fits are initialised: all, or the first partition."""
        return self

    def likelihood(self, rows: LogParameters) -> tuple[Array, Array]:
        """Return p(responses to n | truth k), (table items, classes), and the rows' log scale."""
        check()  # every computation on all responses begins here
        channel, structure = self.channel_at(rows)
        likelihood, log_scale = channel.likelihood_kernel(*self.tables(rows), *structure)
        return likelihood, log_scale

    def marginal(self, rows: LogParameters) -> Marginal:
        """Sum the labels out (over the items of ``table``)."""
        marginal = self.marginal_of_states(rows)
        if self.labels.class_of_state is None:
            return marginal
        probability = marginal.probability @ self.labels.class_of_state
        known = np.flatnonzero(self.table_gold >= 0)
        probability[known] = np.eye(self.table.n_classes)[self.table_gold[known]]
        return marginal._replace(probability=probability)

    def marginal_of_states(self, rows: LogParameters) -> Marginal:
        """As :meth:`marginal`, with probabilities of hidden states, where the prior has some."""
        return self._marginal(rows, self.likelihood(rows))

    def evidence(self, rows: LogParameters) -> tuple[float, tuple[Array, Array] | None]:
        """Return the log evidence and, if it is at hand, the result of :meth:`likelihood`."""
        likelihood = self.likelihood(rows)
        return self._marginal(rows, likelihood).total, likelihood

    def _marginal(self, rows: LogParameters, likelihood: tuple[Array, Array]) -> Marginal:
        return self.labels.marginal(self.label_tables(rows), *likelihood, self.label_structure)

    def log_evidence(self, rows: LogParameters) -> float:
        """Return the log evidence alone."""
        return self.evidence(rows)[0]

    def of_tables(self, label_tables: Tables, tables: Tables) -> Used:
        """Return log evidence and counts at the kernels' tables, which PyMC's density makes."""
        check()
        likelihood, log_scale = self.raters.likelihood_kernel(*tables, *self.rater_structure)
        marginal = self.labels.marginal(label_tables, likelihood, log_scale, self.label_structure)
        weight = self._with_copies(marginal.probability)
        counts = self.raters.expected_kernel(*tables, weight, *self.rater_structure)
        return marginal.total, marginal.expected, counts

    def statistics(self, rows: LogParameters, counts: Counts) -> dict[str, Statistic]:
        """Return counts or log-likelihoods by parameter, all others as in ``rows``."""
        without_counts = set(self.names) - {*self.counted_names, *self.indices}
        log_weights = {
            name: partial(self._log_weight, rows, counts, name) for name in without_counts
        }
        return {**counts, **log_weights}

    def _log_weight(self, rows: LogParameters, counts: Counts, name: str, value: Any) -> float:
        """Return the log-likelihood of a parameter, given counts and all others."""
        rows = rows | {name: np.asarray(value)}
        if name in self.raters.parameters:
            return weight_of(self.tables(rows), counts.raters)
        return self.labels.log_weight(self.label_tables(rows), counts.labels, self.label_structure)

    def expected(self, rows: LogParameters) -> tuple[float, Counts]:
        """Return the log evidence and its derivative by the log tables: the expected counts."""
        marginal = self.marginal_of_states(rows)
        used = self.labels.used(marginal.expected, self.label_tables(rows), self.label_structure)
        return marginal.total, self._counts(used, self._expected_uses(rows, marginal.probability))

    def counts_from_labels(self, probability: Array, rows: LogParameters) -> Counts:
        """Return expected counts at label probabilities (table items, classes) and ``rows``."""
        if self.labels.class_of_state is not None:
            # a type is as probable as its classes are alike to those of the item
            probability = (probability @ self.labels.class_of_state.T) ** SHARPNESS
            probability /= probability.sum(axis=1, keepdims=True)
        weight = self._with_copies(probability)
        label_counts = self.labels.sample_counts(weight, self.label_structure, self.table.n_classes)
        # labels that do not come from these rows may use entries that are zero
        possible = [np.greater(table, -np.inf) for table in self.label_tables(rows)]
        label_counts = tuple(map(np.multiply, label_counts, possible))
        return self._counts(label_counts, self._expected_uses(rows, probability))

    def _with_copies(self, probability: Array) -> Array:
        return probability * self.table.multiplicity[:, None]

    def _expected_uses(self, rows: LogParameters, probability: Array) -> Tables:
        weight = self._with_copies(probability)
        channel, structure = self.channel_at(rows)
        return channel.expected_kernel(*self.tables(rows), weight, *structure)

    def draw(
        self,
        rows: LogParameters,
        rng: np.random.Generator,
        previous: NDArray[Any] | None = None,
        evaluated: tuple[Array, Array] | None = None,
    ) -> NDArray[Any]:
        """Draw labels of ``table``, perhaps from ``previous`` on; ``evaluated``: the likelihood."""
        likelihood, _ = self.likelihood(rows) if evaluated is None else evaluated
        drawn = self.labels.draw(
            self.label_tables(rows), likelihood, self.label_structure, rng, previous
        )
        if drawn.min() < 0:
            self.require_possible_at(rows)
        return drawn

    def classes_of(
        self, states: NDArray[Any], gold: Integers, rng: np.random.Generator
    ) -> NDArray[Any]:
        """Return the classes of drawn labels (items,): drawn given hidden states, or known."""
        by_state = self.labels.class_of_state
        if by_state is None:
            return self._without_states(states)
        drawn = draw_columns(by_state.cumsum(axis=1)[states % len(by_state)], rng)
        return np.where(states < 0, -1, np.where(gold >= 0, gold, drawn))

    def _without_states(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Return the classes of drawn labels, to which hidden states may be added."""
        if not self.labels.capabilities.adds_states:
            return drawn
        return np.where(drawn < 0, drawn, drawn % self.table.n_classes)

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
        channel, structure = self.channel_at(rows)
        classes = self._without_states(drawn)
        counts = channel.sample_counts(self.tables(rows), classes, structure, rng)
        return self.counted(drawn, counts)

    def draw_counts(
        self,
        rows: LogParameters,
        rng: np.random.Generator,
        evaluated: tuple[Array, Array] | None = None,
        drawn_by: tuple[RaterChannel, LogParameters] | None = None,
    ) -> Counts:
        """Draw labels, perhaps by another channel and its rows, and count the entries they use."""
        if drawn_by is None:
            return self.sample_counts(rows, self.draw(rows, rng, evaluated=evaluated), rng)
        raters, label_rows = drawn_by
        model = self if raters is self.raters else replace(self, raters=raters, arranged=None)
        return self.sample_counts(rows, model.draw(label_rows, rng), rng)

    def sample_assignments(
        self,
        rows: LogParameters,
        drawn: NDArray[Any],
        priors: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> tuple[dict[str, Any], Counts]:
        """Draw the parameters that the channel draws itself given labels, and count entries."""
        classes, at = self._without_states(drawn), self.channel_at(rows)
        sampled, rater_counts = self.raters.sample_assignments(
            rows, self.tables(rows), classes, priors, self.rater_structure, rng, at
        )
        return sampled, self.counted(drawn, rater_counts)

    def counted(self, drawn: NDArray[Any], rater_counts: Tables) -> Counts:
        """Return counts of drawn labels, those of the channel's tables given."""
        label_counts = self.labels.sample_counts(drawn, self.label_structure, self.table.n_classes)
        return self._counts(label_counts, rater_counts)

    def known(self, indices: Mapping[str, Any]) -> ResponseModel:
        """Return the response model given the index parameters."""
        if not indices:
            return self
        channel, structure = self.channel_at(indices)
        conditional_model = replace(self, raters=channel, arranged=structure)
        conditional_model.__dict__["fingerprint"] = self.fingerprint  # the data are the same
        return conditional_model

    def require_possible_at(self, rows: LogParameters) -> None:
        """Raise ImpossibleDataError if some unit has probability zero at these rows."""
        broken = np.flatnonzero(self.marginal(rows).log_evidence == -np.inf)
        if len(broken) == 0:
            return
        unit = self.labels.unit
        name = self.labels.units(self.table).tolist()[broken[0]]
        raise ImpossibleDataError(
            f"Every {unit} must be possible under some labels, else there is no posterior: a zero "
            "in the prior or a gold label rules out the responses. Got: probability zero for "
            f"{unit} {name!r} ({len(broken)} such)."
        )

    def simulate(self, rows: LogParameters, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """Draw truths (items,) given known ones and who spoke, and a label for every response."""
        channel, _ = self.channel_at(rows)
        pattern = channel.fixed_feature_likelihood(self.tables(rows), self.responses)
        truth = self._truths(rows, pattern, rng)
        answers = channel.simulate(self.tables(rows), truth, self.responses, rng)
        return self.classes_of(truth, self.gold, rng), answers

    def simulate_table(
        self, rows: LogParameters, rng: np.random.Generator
    ) -> tuple[Integers, Responses]:
        """Draw truths given the known ones and, given them, a table with who spoke drawn anew."""
        channel, _ = self.channel_at(rows)
        truth = self._truths(rows, None, rng)
        table = channel.redraw_fixed_features(self.tables(rows), truth, self.responses, rng)
        return self.classes_of(truth, self.gold, rng), table

    def _truths(
        self, rows: LogParameters, likelihood: Array | None, rng: np.random.Generator
    ) -> Integers:
        known = self.gold[:, None]
        possible = ((known < 0) | (known == np.arange(self.table.n_classes))).astype(float)
        if likelihood is not None:
            possible *= likelihood
        tables, structure = self.label_tables(rows), self.full_structure
        if self.labels.class_of_state is not None:
            possible = possible @ self.labels.class_of_state.T
            return self.labels.simulate(tables, possible, structure, rng)
        truth = self._without_states(self.labels.simulate(tables, possible, structure, rng))
        truth = np.where(self.gold >= 0, self.gold, truth)
        if truth.min(initial=0) < 0:
            self.require_possible_at(rows)
        return truth

    def _counts(self, labels: Tables, raters: Tables) -> Counts:
        values = (*self.labels.collapse(labels), *self.raters.collapse(raters))
        return Counts(dict(zip(self.counted_names, values, strict=True)), labels, raters)

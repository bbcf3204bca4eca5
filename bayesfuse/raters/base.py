"""The contract of rater channels, which tests check for every channel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.parameters.factor import Factor, Integers, Structure, Tables, made


class RaterChannel(Factor):
    """The distribution of responses given the truth, p(responses to n | truth k).

    The arguments of kernels are log tables, from the parameters by :meth:`expand`, and the arrays
    of ``structure``. The likelihood of item n is ``likelihood[n] * exp(log_scale[n])``: rows are
    scaled where their products would underflow. Known labels exclude the other classes.

    Subclasses have numba-compiled kernels: ``likelihood_kernel(*tables, *structure) -> (likelihood
    (items, classes), log_scale (items,))``, and ``expected_kernel(*tables, weight, *structure) ->
    arrays like the tables``: how often each entry is expected to have been used when item n is
    ``weight[n, k]`` times of class k; the derivative of ``sum(weight * log_lik)`` by the tables.

    In PyMC's density, kernels take parameters without counts (a partition) before the arrays of
    ``structure``. Elsewhere :meth:`at` returns the channel with these parameters known, and Gibbs
    sampling draws them by :meth:`sample_assignments`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.build.Confusion(None).density
    'the labels, given who responded to which item'
    """

    needs: ClassVar[tuple[str, ...]] = ()
    """Arguments of :meth:`rebuild_for` among those in the label prior's ``needs``."""

    likelihood_kernel: ClassVar[Callable[..., Any]]
    expected_kernel: ClassVar[Callable[..., Any]]

    @property
    def density(self) -> str:
        """The data of the likelihood, and the data conditioned on; only equal ones are compared."""
        return "the labels, given who responded to which item"

    @classmethod
    def rebuild_for(
        cls, values: Mapping[str, Any], settings: Mapping[str, Any], raters: Integers
    ) -> Self:
        """Return the channel of other ``raters``, −1 for new ones, from ``values`` at a draw."""
        return made(cls, {**values, **settings})

    @abstractmethod
    def structure(self, responses: Responses, gold: Integers) -> Structure:
        """Return the arrays that every kernel takes after the tables and weights."""

    def require_table(self, responses: Responses) -> None:
        """Raise ModelError if a table has silence or statements that the channel does not take."""
        for what, feature, channel in (
            ("silence", responses.silent, "bf.build.Abstaining"),
            ("statements", responses.stated, "bf.build.Stated"),
        ):
            if feature is not None and what not in self.capabilities.takes:
                raise ModelError(
                    f"This rater channel does not model {what}: use {channel}, which "
                    'DawidSkene, HiddenMarkov and MarkovRandomField use for raters="confusion" '
                    f"without pooling. For all others responses.without_{what}() leaves it out. "
                    f"Got: {type(self).__name__} for a table with {what}."
                )

    def defining(self) -> tuple[Integers, ...]:
        """Return the groups of raters, if they are not a parameter."""
        return ()

    @abstractmethod
    def sample_counts(
        self, tables: Tables, drawn: NDArray[Any], structure: Structure, rng: Generator
    ) -> Tables:
        """Draw latent variables, and count how often drawn labels use each table entry."""

    def at(self, rows: Mapping[str, Any], structure: Structure) -> tuple[RaterChannel, Structure]:
        """Return the channel, and its structure, for the parameters without counts in ``rows``."""
        return self, structure

    def require_priors(self, priors: Mapping[str, Any]) -> None:
        """Raise ModelError if :meth:`sample_assignments` does not support these priors of rows."""

    def sample_assignments(
        self,
        rows: Mapping[str, Any],
        tables: Tables,
        drawn: NDArray[Any],
        priors: Mapping[str, Any],
        structure: Structure,
        rng: Generator,
        channel_at: tuple[RaterChannel, Structure] | None = None,
    ) -> tuple[dict[str, Integers], Tables]:
        """Draw the parameters without counts, if any, given the labels, and the counts.

        ``channel_at`` is the result of :meth:`at` for ``rows``, if it is at hand.
        """
        return {}, self.sample_counts(tables, drawn, structure, rng)

    def compiled_chain(
        self,
        labels: Any,
        table: Responses,
        structure: Structure,
        pools: Mapping[str, Any],
        priors: Mapping[str, Any],
    ) -> Callable[..., Any] | None:
        """Return a function that initialises a compiled chain of all parameters, if there is one.

        ``pools`` are by the parameter below them, ``priors`` by the parameters without a pool. The
        function takes rows, arrays for draws of rows, values and arrays for draws of pool members
        by role, and a generator. It returns a compiled ``(draws, sweeps, first, *arguments) ->
        draws made``, and the arguments.
        """
        return None

    @abstractmethod
    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return ``p(response | truth)`` of every rater, shape (raters, classes, labels)."""

    @abstractmethod
    def simulate(
        self, tables: Tables, truth: Integers, responses: Responses, rng: Generator
    ) -> Integers:
        """Draw a label for every row of ``responses``, given the true labels (items,)."""

    def fixed_feature_likelihood(self, tables: Tables, responses: Responses) -> Array | None:
        """Return the likelihood (items, classes) of statements, which are kept; None if flat."""
        if responses.stated is None:
            return None
        nothing = np.zeros(responses.n_items + 1, dtype=np.uint32)
        soft = replace(responses, start=nothing, cell=responses.cell[:0])
        structure = self.structure(soft, np.full(responses.n_items, -1))
        product, _ = type(self).likelihood_kernel(*tables, *structure)
        return cast(Array, product)

    def redraw_fixed_features(
        self, tables: Tables, truth: Integers, responses: Responses, rng: Generator
    ) -> Responses:
        """Draw the whole table, including who responded, given the true labels."""
        return responses.relabelled(self.simulate(tables, truth, responses, rng))

    def state_about(self, responses: Responses, hidden: Integers, rng: Generator) -> Responses:
        """Return the table with statements about these hidden answers, one for each."""
        stated: Any = responses.stated
        about = draw_columns(stated.probability.cumsum(axis=1), rng)
        codes = np.append(responses.label, about - hidden)
        return self.from_response_codes(responses, codes)

    def response_codes(self, responses: Responses) -> tuple[Integers, Integers, int]:
        """Return items and codes of all outcomes in a table, and the number of codes.

        A code of a statement is by how many classes its numbers are moved back.
        """
        item, label = responses.item, responses.label
        if (stated := responses.stated) is not None:
            item, label = np.append(item, stated.item), np.append(label, 0 * stated.item)
        return item, label, responses.n_classes

    def from_response_codes(self, responses: Responses, codes: Integers) -> Responses:
        """Return the table with other responses, in the order of :meth:`response_codes`."""
        label, steps = np.split(codes, [responses.n_responses])
        table = responses.relabelled(label)
        if (stated := responses.stated) is None:
            return table
        column = (np.arange(responses.n_classes) + steps[:, None]) % responses.n_classes
        probability = np.take_along_axis(stated.probability, column, axis=1)
        return replace(table, stated=replace(stated, probability=probability))

    def from_truth(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return indices of the matrices with a free row for every class of the truth."""
        return {}

    def votes(self, responses: Responses) -> Array:
        """Return the votes for every label (items, classes), a group as one, for the start."""
        return responses.votes().astype(float)

    def log_lik(self, tables: Tables, structure: Structure) -> Array:
        """Return ``log p(responses to n | truth k)``, shape (items, classes)."""
        likelihood, log_scale = type(self).likelihood_kernel(*tables, *structure)
        with np.errstate(divide="ignore"):
            return np.log(likelihood) + log_scale[:, None]

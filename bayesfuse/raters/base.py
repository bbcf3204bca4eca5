"""The contract of rater channels, which tests check for every channel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array, inlined
from bayesfuse.parameters.factor import Factor, made

Tables = tuple[Array, ...]  # log tables that kernels take first
Structure = tuple[Any, ...]  # arrays that they take after these and weights
Labels = NDArray[np.int64]  # (items,), or of responses


@inlined
def apply_gold(likelihood, n, gold, nothing):
    """Exclude all classes of item n but the known one, in place; −1 means unknown."""
    if gold >= 0:
        for k in range(likelihood.shape[1]):
            if k != gold:
                likelihood[n, k] = nothing


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

    takes: ClassVar[tuple[str, ...]] = ()
    """Which of "silence" and "statements" tables may have."""

    redraws: ClassVar[bool] = False
    """Whether sweeps call :meth:`sample_assignments`, although all parameters have counts."""

    by_rater: ClassVar[tuple[str, ...] | None] = None
    """Names in :meth:`settings` of what has an entry per rater, which predictions take by name."""

    needs: ClassVar[tuple[str, ...]] = ()
    """What :meth:`rebuild_for` takes of what places new items, from the label prior's ``needs``."""

    least_sweeps: ClassVar[int] = 1
    """Sweeps of a draw, at least, where whole chains are compiled."""

    likelihood_kernel: ClassVar[Callable[..., Any]]
    expected_kernel: ClassVar[Callable[..., Any]]

    @property
    def density(self) -> str:
        """What the likelihood is a density of, given what: only the same are compared."""
        return "the labels, given who responded to which item"

    @classmethod
    def rebuild_for(
        cls, values: Mapping[str, Any], settings: Mapping[str, Any], raters: Labels
    ) -> Self:
        """Return the channel of other ``raters``, −1 for new ones, from ``values`` at a draw."""
        return made(cls, {**values, **settings})

    @abstractmethod
    def structure(self, responses: Responses, gold: Labels) -> Structure:
        """Return the arrays that every kernel takes after the tables and weights."""

    def require_table(self, responses: Responses) -> None:
        """Raise ModelError if a table has silence or statements that the channel does not take."""
        for what, feature, channel in (
            ("silence", responses.silent, "bf.build.Abstaining"),
            ("statements", responses.stated, "bf.build.Stated"),
        ):
            if feature is not None and what not in self.takes:
                raise ModelError(
                    f"Only some channels know what {what} in a table means: {channel}, which "
                    'DawidSkene, HiddenMarkov and MarkovRandomField use for raters="confusion" '
                    f"without pooling. For all others responses.without_{what}() leaves it out. "
                    f"Got: {type(self).__name__} for a table with {what}."
                )

    def defining(self) -> tuple[NDArray[Any], ...]:
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
    ) -> tuple[dict[str, Labels], Tables]:
        """Draw the parameters without counts, if any, given the labels, and the counts."""
        return {}, self.sample_counts(tables, drawn, structure, rng)

    def compiled_chain(
        self, labels: Any, table: Responses, structure: tuple[Any, ...], pools: Mapping[str, Any]
    ) -> Callable[..., Any] | None:
        """Return what begins a chain that draws all parameters in a way of its own, if any.

        Of rows, kept draws of rows, values and kept draws of members by pool and role, and random
        numbers it makes a compiled ``(draws, sweeps, first, *arguments) -> draws made``, and these.
        """
        return None

    @abstractmethod
    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return ``p(response | truth)`` of every rater, shape (raters, classes, labels)."""

    @abstractmethod
    def simulate(
        self, tables: Tables, truth: Labels, responses: Responses, rng: Generator
    ) -> Labels:
        """Draw a label for every row of ``responses``, given the true labels (items,)."""

    def fixed_feature_likelihood(self, tables: Tables, responses: Responses) -> Array | None:
        """Return the likelihood (items, classes) of what :meth:`simulate` keeps, None if even."""
        return None

    def redraw_fixed_features(
        self, tables: Tables, truth: Labels, responses: Responses, rng: Generator
    ) -> Responses:
        """Draw all that the model says of the responses, also who spoke, given the true labels."""
        return responses.relabelled(self.simulate(tables, truth, responses, rng))

    def response_codes(self, responses: Responses) -> tuple[Labels, Labels, int]:
        """Return items and codes of all that is said in a table, and the number of codes."""
        return responses.item, responses.label, responses.n_classes

    def from_response_codes(self, responses: Responses, codes: Labels) -> Responses:
        """Return the table with other responses, in the order of :meth:`response_codes`."""
        return responses.relabelled(codes)

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

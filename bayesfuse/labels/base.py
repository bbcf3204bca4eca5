"""What a label prior must be able to do: the contract every kernel is tested against."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.factor import Factor, weight_of


class Marginal(NamedTuple):
    """What is left when a label prior has summed the labels out.

    ``total`` is the log evidence of all responses, each item as often as it occurs;
    ``log_evidence`` (units,) is the log marginal likelihood of every unit that stands apart (an
    item, a sequence), ``probability`` (items, classes) the posterior label probabilities, and
    ``expected`` holds for every parameter how often each of its entries is expected to have been
    used: the derivative of ``total`` with respect to the log parameters (to positive parameters
    themselves), as ``probability`` (times the multiplicity) is the derivative with respect to the
    log-likelihoods.
    """

    total: float
    log_evidence: Array
    probability: Array
    expected: tuple[Array, ...]


class Words(NamedTuple):
    """How results describe what a label prior does: text only, never compared."""

    summing: str
    decoding: str = "most probable labels"
    moving: str = ""


class LabelPrior(Factor):
    """The prior of the true labels: parameters, and a structure that says which depend on which.

    A prior is written once as compiled kernels that know nothing of raters: they see log
    parameters, one matrix ``likelihood`` (items, classes), whose rows the raters may have scaled,
    and the arrays of ``structure``. NUTS, EM, Gibbs and the user all go through these kernels.

    Of parameters without counts (a coupling: :class:`bayesfuse.parameters.positive.Positive`)
    :meth:`tally` returns the sufficient statistic, and :meth:`log_weight` the log probability of
    labels that have it; Gibbs draws them from that and their prior, EM maximises it.

    Class attributes a leaf defines
    -------------------------------
    marginal_kernel : ``(*log_parameters, likelihood, log_scale, *structure) -> (total,
        log_evidence, probability, *expected)``, numba-compiled. The arrays it returns must not
        share memory, since PyTensor may overwrite one of them.
    marginal_jax : ``(*log_parameters, log_lik, *structure) -> log_evidence``, written in
        ``jax.numpy``, which differentiates it.
    """

    words: ClassVar[Words]
    """What results say of all this."""
    exact: bool = True
    """Whether the labels are summed out exactly."""
    moves_labels: bool = False
    """Whether labels cannot be drawn anew: a draw goes on from the previous ones."""
    decodes_exactly: ClassVar[bool] = True
    """Whether :meth:`decode` returns the most probable labels, else a mode of theirs."""
    adds_up: ClassVar[bool] = True
    """Whether the log evidence of the units adds up to the total.

    If not, a unit's is given all others: units are not independent, and leave-one-out needs that.
    """
    unit: ClassVar[str] = "item"
    """What stands apart given the parameters: the unit of leave-one-out."""
    merges: ClassVar[bool] = False
    """Whether items with the same responses may stand for each other."""
    linear: ClassVar[bool] = True
    """Whether the log probability of labels is linear in the kernels' tables."""
    counts_all: ClassVar[bool] = True
    """Whether :meth:`tally` says all about the prior's parameters; if not, :meth:`uncounted`."""

    marginal_kernel: ClassVar[Callable[..., Any]]

    def kinds(self, responses: Responses) -> NDArray[np.int64] | None:
        return super().kinds(responses) if self.merges else None

    @abstractmethod
    def structure(self, responses: Responses) -> tuple[NDArray[Any], ...]:
        """Return the arrays that every kernel takes last.

        The first is the multiplicity of the items if the prior ``merges``.
        """

    def defining(self, structure: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
        """Return the part of :meth:`structure` that says which items hang together, and how."""
        return ()

    def units(self, responses: Responses) -> NDArray[Any]:
        """Return the names of what stands apart, in the order of ``Marginal.log_evidence``."""
        return responses.items

    def part(
        self, structure: tuple[NDArray[Any], ...], units: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
        """Return the items of some units, and the structure of a table of these items alone."""
        raise ModelError(
            f"{type(self).__name__} cannot be fitted batch by batch, because its labels do not "
            "stand apart in units: leave batch_size= out. Got: a batch."
        )

    @abstractmethod
    def draw(
        self,
        log_parameters: tuple[Array, ...],
        likelihood: Array,
        structure: tuple[NDArray[Any], ...],
        rng: np.random.Generator,
        previous: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Draw the labels from their joint posterior.

        Priors with ``moves_labels`` go one step from the ``previous`` ones (which stay as they
        are); without these they begin anew, and the labels are near the posterior only.

        Returns labels (items,), or where an item stands for several, how many of them drew each
        class (items, classes). An item that no class can explain gets the label −1.
        """

    @abstractmethod
    def tally(
        self, drawn: NDArray[Any], structure: tuple[NDArray[Any], ...], n_classes: int
    ) -> tuple[Array, ...]:
        """Count for every parameter how often the drawn labels use each of its entries."""

    @abstractmethod
    def decode(
        self,
        log_parameters: tuple[Array, ...],
        likelihood: Array,
        structure: tuple[NDArray[Any], ...],
    ) -> NDArray[np.int64]:
        """Return the jointly most probable labels (items,)."""

    @abstractmethod
    def log_prob(
        self,
        log_parameters: tuple[Array, ...],
        labels: NDArray[np.int64],
        structure: tuple[NDArray[Any], ...],
    ) -> float:
        """Return the log prior probability of labels (items,): what enumeration sums over."""

    def uncounted(
        self,
        log_parameters: tuple[Array, ...],
        drawn: NDArray[np.int64],
        structure: tuple[NDArray[Any], ...],
    ) -> float:
        """Return the part of the labels' log probability that :meth:`tally` leaves out.

        Gibbs then takes Dirichlet draws given the counts as proposals, and accepts by this part.
        """
        return 0.0

    def given(
        self,
        log_parameters: tuple[Array, ...],
        labels: NDArray[Any],
        likelihood: Array,
        log_scale: Array,
        structure: tuple[NDArray[Any], ...],
    ) -> tuple[Array, Array]:
        """Return what the labels of all others say of each item, for priors that keep labels.

        Label probabilities (items, classes) and the log evidence (items,) of the item's responses.
        """
        raise NotImplementedError("Only priors that keep their labels condition on them.")

    def joint(
        self, responses: Responses, unit: NDArray[np.int64]
    ) -> Callable[[tuple[Array, ...], Array, Array], Array]:
        """Return what gives the log evidence of sets of items, for priors that do not add up.

        Of each set given all others, (sets,), from log parameters, likelihood and log scale;
        ``unit`` (items,) is the set every item is in.

        Raises
        ------
        ModelError
            It cannot be computed.
        """
        raise NotImplementedError("The log evidence of items adds up to that of sets of them.")

    def log_weight(
        self,
        log_parameters: tuple[Array, ...],
        counts: tuple[Array, ...],
        structure: tuple[NDArray[Any], ...],
    ) -> float:
        """Return the log probability of labels with these counts of their tables' entries."""
        return weight_of(log_parameters, counts)

    def used(
        self,
        expected: tuple[Array, ...],
        log_parameters: tuple[Array, ...],
        structure: tuple[NDArray[Any], ...],
    ) -> tuple[Array, ...]:
        """Return what :meth:`tally` gives in expectation, from ``Marginal.expected``."""
        return expected

    def converged(
        self,
        log_parameters: tuple[Array, ...],
        likelihood: Array,
        structure: tuple[NDArray[Any], ...],
    ) -> bool:
        """Say whether the marginal, if it iterates, came to an end."""
        return True

    def simulate(
        self,
        log_parameters: tuple[Array, ...],
        possible: Array,
        structure: tuple[NDArray[Any], ...],
        rng: np.random.Generator,
    ) -> NDArray[Any]:
        """Draw true labels (items,) from the prior, given those that are known.

        That is a draw from the posterior where nobody answered: ``possible`` (items, classes) holds
        ones, and zeros where a known label rules the class out. An item that stands for several is
        drawn once.
        """
        return self.draw(log_parameters, possible, structure, rng)

    @abstractmethod
    def prevalence(self, parameters: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return the share of every class (classes,); ``xp`` is numpy or pytensor.tensor."""

    def unit_of(self, responses: Responses) -> NDArray[np.int64]:
        """Return which of :meth:`units` every item belongs to, shape (items,)."""
        return np.arange(responses.n_items)

    @staticmethod
    @abstractmethod
    def marginal_jax(*arguments: Any) -> Any:
        """Return the log evidence of every unit, written in ``jax.numpy``."""

    def marginal(
        self,
        log_parameters: tuple[Array, ...],
        likelihood: Array,
        log_scale: Array,
        structure: tuple[NDArray[Any], ...],
    ) -> Marginal:
        """Sum the labels out."""
        total, log_evidence, probability, *expected = type(self).marginal_kernel(
            *log_parameters, likelihood, log_scale, *structure
        )
        return Marginal(total, log_evidence, probability, tuple(expected))

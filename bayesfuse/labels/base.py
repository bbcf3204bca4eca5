"""The contract of label priors, which tests check for every kernel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.factor import Factor, made, weight_of


class Marginal(NamedTuple):
    """The evidence and its derivatives, with the labels summed out: :meth:`LabelPrior.marginal`.

    ``total`` is the log evidence of all responses, items counted with multiplicity;
    ``log_evidence`` (units,) that of every independent unit (an item, a sequence); ``probability``
    (items, classes) the posterior label probabilities, which times the multiplicity are the
    derivative of ``total`` with respect to the log-likelihoods; ``expected`` the expected counts of
    the entries of every parameter, its derivative with respect to the log parameters (to positive
    parameters themselves).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.labels.Marginal._fields
    ('total', 'log_evidence', 'probability', 'expected')
    """

    total: float
    log_evidence: Array
    probability: Array
    expected: tuple[Array, ...]


Tables = tuple[Array, ...]  # log tables that kernels take first

Structure = tuple[NDArray[Any], ...]  # arrays that the kernels of a label prior take last


class Words(NamedTuple):
    """How results describe a label prior: text only."""

    summing: str
    decoding: str = "most probable labels"
    moving: str = ""


class LabelPrior(Factor):
    """The prior over the true labels: parameters, and the dependence structure of the items.

    A prior is a set of compiled kernels that do not depend on the rater channel: their arguments
    are log parameters, one matrix ``likelihood`` (items, classes), whose rows may be scaled by
    exp(``log_scale``) (items,), and the arrays of ``structure``. All fits share these kernels.

    For parameters without counts (a coupling: ``bayesfuse.parameters.positive.Positive``)
    :meth:`sample_counts` returns the sufficient statistic, and :meth:`log_weight` the log
    probability of labels with that statistic.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> prior = bf.build.Independent([0.7, 0.3])
    >>> structure = prior.structure(bf.Responses.from_matrix([[0], [1]]))
    >>> likelihood, log_scale = np.array([[0.8, 0.4], [0.2, 0.6]]), np.zeros(2)
    >>> found = prior.marginal((np.log([[0.7, 0.3]]),), likelihood, log_scale, structure)
    >>> found.probability.round(2).tolist()
    [[0.82, 0.18], [0.44, 0.56]]
    """

    words: ClassVar[Words]
    """How results describe the prior."""
    exact: bool = True
    """Whether the labels are summed out exactly."""
    moves_labels: bool = False
    """Whether labels are drawn by Markov chain Monte Carlo, from the previous labels."""
    decodes_exactly: ClassVar[bool] = True
    """Whether :meth:`decode` returns the most probable labels, not just a local mode."""
    adds_up: ClassVar[bool] = True
    """Whether the log evidence of units adds up to the total; if not, it is given all others."""
    unit: ClassVar[str] = "item"
    """What is independent given the parameters: the unit of leave-one-out."""
    merges: ClassVar[bool] = False
    """Whether items with the same responses can be merged."""
    linear: ClassVar[bool] = True
    """Whether the log probability of labels is linear in the log tables of the kernels."""
    counts_all: ClassVar[bool] = True
    """Whether :meth:`sample_counts` is sufficient; if not, :meth:`uncounted` completes it."""

    needs: tuple[str, ...] = ()
    """What places new items: arguments of ``bf.predict`` and of the constructor."""

    marginal_kernel: ClassVar[Callable[..., Any]]
    """Compiled: ``(*log_parameters, likelihood, log_scale, *structure) -> (total, log_evidence,
    probability, *expected)``, arrays of their own, since PyTensor may overwrite one of them."""

    @classmethod
    def rebuild_for(
        cls, values: Mapping[str, Any], settings: Mapping[str, Any], **places: Any
    ) -> Self:
        """Return the prior over other items, placed by what :attr:`needs` names.

        ``values`` are the parameters at some draw, for their shapes; ``settings`` the fitted ones.
        """
        return made(cls, {**values, **settings, **places})

    def kinds(self, responses: Responses) -> NDArray[np.int64] | None:
        return super().kinds(responses) if self.merges else None

    @abstractmethod
    def structure(self, responses: Responses) -> Structure:
        """Return the arrays that kernels take last: first the multiplicity, if it ``merges``."""

    def defining(self, structure: Structure) -> Structure:
        """Return the part of :meth:`structure` that determines the prior over the labels."""
        return ()

    def units(self, responses: Responses) -> NDArray[Any]:
        """Return the names of the units, in the order of ``Marginal.log_evidence``."""
        return responses.items

    def part(
        self, structure: Structure, units: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Structure]:
        """Return the items of some units, and the structure of a table of these items alone."""
        raise ModelError(
            f"{type(self).__name__} cannot be fitted in batches, because its items are not "
            "independent: fit without batch_size=. Got: a batch."
        )

    def seconds(self, n_items: int, n_classes: int) -> float:
        """Estimate the seconds of a draw beyond some nanoseconds per item and class."""
        return 0.0

    @abstractmethod
    def draw(
        self,
        log_parameters: Tables,
        likelihood: Array,
        structure: Structure,
        rng: np.random.Generator,
        previous: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Draw the labels from their joint posterior.

        Priors with ``moves_labels`` take one step from the ``previous`` labels (not in place);
        without these, labels are initialised and only approximately from the posterior. Returns
        labels (items,), or for merged items the number of copies that drew each class (items,
        classes); −1 if all classes are impossible.
        """

    @abstractmethod
    def sample_counts(
        self, drawn: NDArray[Any], structure: Structure, n_classes: int
    ) -> tuple[Array, ...]:
        """Count how often the drawn labels use each entry of every parameter."""

    @abstractmethod
    def decode(
        self, log_parameters: Tables, likelihood: Array, structure: Structure
    ) -> NDArray[np.int64]:
        """Return the jointly most probable labels (items,)."""

    def log_prob(
        self, log_parameters: Tables, labels: NDArray[np.int64], structure: Structure
    ) -> float:
        """Return the log prior probability of labels (items,)."""
        counts = self.sample_counts(labels, structure, log_parameters[0].shape[-1])
        counted = self.log_weight(log_parameters, counts, structure)
        return counted + self.uncounted(log_parameters, labels, structure)

    def uncounted(
        self, log_parameters: Tables, drawn: NDArray[np.int64], structure: Structure
    ) -> float:
        """Return the part of the labels' log probability that :meth:`sample_counts` does not cover.

        Gibbs proposes Dirichlet draws given the counts, and accepts them by this part.
        """
        return 0.0

    def conditional(
        self,
        log_parameters: Tables,
        labels: NDArray[Any],
        likelihood: Array,
        log_scale: Array,
        structure: Structure,
    ) -> tuple[Array, Array]:
        """Condition every item on the labels of all others, for priors with ``moves_labels``.

        Returns label probabilities (items, classes) and log evidence (items,).
        """
        raise NotImplementedError("Only priors with moves_labels condition on labels.")

    def joint(
        self, responses: Responses, unit: NDArray[np.int64]
    ) -> Callable[[tuple[Array, ...], Array, Array], Array]:
        """Return a function for the log evidence of sets of items, for priors without ``adds_up``.

        ``unit`` (items,) is the set of every item. The function takes log parameters, likelihood
        and log scale, and returns the evidence of each set given all others (sets,). ModelError if
        that is intractable.
        """
        raise NotImplementedError("The log evidence of items adds up to that of sets of items.")

    def log_weight(
        self, log_parameters: Tables, counts: tuple[Array, ...], structure: Structure
    ) -> float:
        """Return the log probability of labels with these counts."""
        return weight_of(log_parameters, counts)

    def used(
        self, expected: tuple[Array, ...], log_parameters: Tables, structure: Structure
    ) -> tuple[Array, ...]:
        """Return the expectation of :meth:`sample_counts`, from ``Marginal.expected``."""
        return expected

    def converged(self, log_parameters: Tables, likelihood: Array, structure: Structure) -> bool:
        """Return whether an iterative marginal converged."""
        return True

    def simulate(
        self,
        log_parameters: Tables,
        possible: Array,
        structure: Structure,
        rng: np.random.Generator,
    ) -> NDArray[Any]:
        """Draw true labels (items,) from the prior, merged items once, given the known labels.

        ``possible`` (items, classes) holds ones, and zeros where a known label excludes the class,
        or the likelihood of what predictive draws keep.
        """
        return self.draw(log_parameters, possible, structure, rng)

    @abstractmethod
    def prevalence(
        self, parameters: tuple[Any, ...], n_classes: int, structure: tuple[Any, ...], xp: Any
    ) -> Any:
        """Return the share of every class, over all items (classes,).

        ``parameters`` are values of the parameters, and ``xp`` is numpy or pytensor.tensor.
        """

    def unit_of(self, responses: Responses) -> NDArray[np.int64]:
        """Return the index of every item's unit in :meth:`units`, shape (items,)."""
        return np.arange(responses.n_items)

    def marginal(
        self, log_parameters: Tables, likelihood: Array, log_scale: Array, structure: Structure
    ) -> Marginal:
        """Sum the labels out."""
        total, log_evidence, probability, *expected = type(self).marginal_kernel(
            *log_parameters, likelihood, log_scale, *structure
        )
        return Marginal(total, log_evidence, probability, tuple(expected))

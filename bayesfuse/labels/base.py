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
from bayesfuse.parameters.factor import Factor, Integers, Structure, Tables, made, weight_of


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
    expected: Tables


class Words(NamedTuple):
    """How results describe a label prior: text only."""

    summing: str
    decoding: str = "most probable labels"
    moving: str = ""


def require_population(population: NDArray[Any], n_units: int, unit: str) -> None:
    """Raise ModelError unless there is a number from 0 for every unit."""
    is_number = population.dtype.kind in "iu" and population.shape == (n_units,)
    if not is_number or population.min(initial=0) < 0:
        raise ModelError(
            f"population must hold the number of every {unit}'s population, from 0, in order. Got: "
            f"{population.dtype} values of shape {population.shape} for {n_units} {unit}s"
            f"{', the least ' + str(population.min()) if is_number else ''}."
        )


def count_populations(parameter: Any, population: Integers) -> int:
    """Return the number of rows of a parameter by population; the last may have no items."""
    shape: Any = getattr(getattr(parameter, "type", parameter), "shape", ())
    n_rows = shape[0] if len(shape) == 2 and shape[0] is not None else 0
    return max(n_rows, int(population.max(initial=0)) + 1)


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
    >>> posterior = prior.marginal((np.log([[0.7, 0.3]]),), likelihood, log_scale, structure)
    >>> posterior.probability.round(2).tolist()
    [[0.82, 0.18], [0.44, 0.56]]
    """

    words: ClassVar[Words] = Words("sum over labels")
    """How results describe the prior."""
    unit: ClassVar[str] = "item"
    """What is independent given the parameters: the unit of leave-one-out."""
    needs: tuple[str, ...] = ()
    """Arguments of ``bf.predict`` and of the constructor that place new items."""
    class_of_state: Array | None = None
    """Class probabilities (states, classes) of the hidden states of items, where the labels of
    kernels are numbers of states (modulo their number), not classes."""

    marginal_kernel: ClassVar[Callable[..., Any]]
    """Compiled: ``(*log_parameters, likelihood, log_scale, *structure) -> (total, log_evidence,
    probability, *expected)``, arrays of their own, since PyTensor may overwrite one of them."""

    @classmethod
    def rebuild_for(
        cls, values: Mapping[str, Any], settings: Mapping[str, Any], **places: Any
    ) -> Self:
        """Return the prior over other items, placed by the arguments in :attr:`needs`.

        ``values`` are the parameters at some draw, for their shapes; ``settings`` the fitted ones.
        """
        return made(cls, {**values, **settings, **places})

    def kinds(self, responses: Responses) -> Integers | None:
        return super().kinds(responses) if self.capabilities.merges else None

    @abstractmethod
    def structure(self, responses: Responses) -> Structure:
        """Return the arrays that kernels take last: first the multiplicity, if it merges items."""

    def defining(self, structure: Structure) -> Structure:
        """Return the part of :meth:`structure` that determines the prior over the labels."""
        return ()

    def units(self, responses: Responses) -> NDArray[Any]:
        """Return the names of the units, in the order of ``Marginal.log_evidence``."""
        return responses.items

    def part(self, structure: Structure, units: Integers) -> tuple[Integers, Structure]:
        """Return the items of some units, and the structure of a table of these items alone."""
        raise ModelError(
            f"{type(self).__name__} cannot be fitted in batches, because its items are not "
            "independent: fit without batch_size=. Got: a batch."
        )

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

        Priors with ``moves_labels`` take one Markov step from the ``previous`` labels (not in
        place); without these, labels are initialised from an approximation. Returns labels
        (items,), −1 if all classes are impossible (with ``adds_states`` a class plus a hidden state
        times the number of classes), or for merged items the number of copies that
        drew each class (items, classes).
        """

    @abstractmethod
    def sample_counts(self, drawn: NDArray[Any], structure: Structure, n_classes: int) -> Tables:
        """Count how often the drawn labels use each entry of every parameter."""

    @abstractmethod
    def decode(self, log_parameters: Tables, likelihood: Array, structure: Structure) -> Integers:
        """Return the jointly most probable labels (items,)."""

    def log_prob(self, log_parameters: Tables, labels: Integers, structure: Structure) -> float:
        """Return the log prior probability of labels (items,)."""
        counts = self.sample_counts(labels, structure, log_parameters[0].shape[-1])
        counted = self.log_weight(log_parameters, counts, structure)
        return counted + self.uncounted(log_parameters, labels, structure)

    def uncounted(self, log_parameters: Tables, drawn: Integers, structure: Structure) -> float:
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
        self, responses: Responses, unit: Integers
    ) -> Callable[[Tables, Array, Array], Array]:
        """Return a function for the log evidence of sets of items, for priors without ``adds_up``.

        ``unit`` (items,) is the set of every item. The function takes log parameters, likelihood
        and log scale, and returns the evidence of each set given all others (sets,). ModelError if
        that is intractable.
        """
        raise NotImplementedError("The log evidence of items adds up to that of sets of items.")

    def log_weight(self, log_parameters: Tables, counts: Tables, structure: Structure) -> float:
        """Return the log probability of labels with these counts."""
        return weight_of(log_parameters, counts)

    def used(self, expected: Tables, log_parameters: Tables, structure: Structure) -> Tables:
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
        """Draw true labels (items,) given the known ones, from the prior, merged items once.

        ``possible`` (items, classes) is the likelihood of known labels (zero for excluded classes)
        and of features that predictive draws keep.
        """
        return self.draw(log_parameters, possible, structure, rng)

    @abstractmethod
    def prevalence(
        self, parameters: tuple[Any, ...], n_classes: int, structure: Structure, xp: Any
    ) -> Any:
        """Return the share of every class, over all items (classes,).

        ``parameters`` are values of the parameters, and ``xp`` is numpy or pytensor.tensor.
        """

    def unit_of(self, responses: Responses) -> Integers:
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

"""What a rater channel must be able to do: the contract every channel is tested against."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array, inlined
from bayesfuse.parameters.factor import Factor


@inlined
def reveal(likelihood, n, gold, nothing):
    """Rule out every class of item n but the known one, in place; −1 means unknown."""
    if gold >= 0:
        for k in range(likelihood.shape[1]):
            if k != gold:
                likelihood[n, k] = nothing


class RaterChannel(Factor):
    """How raters turn truths into responses: p(responses to n | truth k) for all n and k.

    Kernels see log tables, made from the log rows of the parameters by :meth:`expand`, followed
    by the arrays of ``structure``. The likelihood of item n is ``likelihood[n] *
    exp(log_scale[n])``: rows are scaled where their products would underflow, so that priors need
    no logarithms and no exponentials per item and class. Known labels are honoured here, by
    ruling the other classes out, so that no label prior needs to know about them.

    Class attributes a leaf defines
    -------------------------------
    likelihood_kernel : ``(*tables, *structure) -> (likelihood (items, classes), log_scale
        (items,))``, numba-compiled.
    expected_kernel : ``(*tables, weight, *structure) -> arrays like the tables``: how often each
        entry is expected to have been used when item ``n`` is ``weight[n, k]`` times of class
        ``k``; the derivative of ``sum(weight * log_lik)`` with respect to the tables.
    log_lik_jax : the log-likelihood (items, classes), written in ``jax.numpy``.

    Parameters without counts (:class:`bayesfuse.parameters.partition.Partition`) reach the kernels
    of PyMC's density before the arrays of ``structure``; everything else asks :meth:`at` for the
    channel that is left when they are known, and Gibbs sampling asks :meth:`redraw` to draw them.
    """

    likelihood_kernel: ClassVar[Callable[..., Any]]
    expected_kernel: ClassVar[Callable[..., Any]]

    @abstractmethod
    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the arrays that every kernel takes after the tables and weights."""

    def defining(self) -> tuple[NDArray[Any], ...]:
        """Return what says who shares a source, if that is not a parameter."""
        return ()

    @abstractmethod
    def tally(
        self,
        tables: tuple[Array, ...],
        drawn: NDArray[Any],
        structure: tuple[Any, ...],
        rng: np.random.Generator,
    ) -> tuple[Array, ...]:
        """Count how often drawn labels (as from ``LabelPrior.draw``) use each table entry.

        A channel with hidden variables of its own draws them here.
        """

    def at(
        self, rows: Mapping[str, Any], structure: tuple[Any, ...]
    ) -> tuple[RaterChannel, tuple[Any, ...]]:
        """Return the channel, and its structure, for the parameters without counts in ``rows``."""
        return self, structure

    def require_priors(self, priors: Mapping[str, Any]) -> None:
        """Raise ModelError if :meth:`redraw` is not written for these priors of the rows.

        Asked only where there are parameters that it draws.
        """

    def redraw(
        self,
        rows: Mapping[str, Any],
        tables: tuple[Array, ...],
        drawn: NDArray[Any],
        priors: Mapping[str, Any],
        structure: tuple[Any, ...],
        rng: np.random.Generator,
    ) -> tuple[dict[str, NDArray[np.int64]], tuple[Array, ...]]:
        """Draw the parameters without counts given the labels, if there are any.

        Returns them, and what :meth:`tally` counts when they are known.
        """
        return {}, self.tally(tables, drawn, structure, rng)

    @abstractmethod
    def confusion(self, tables: tuple[Any, ...], xp: Any) -> Any:
        """Return ``p(response | truth)`` of every rater, shape (raters, classes, labels)."""

    @abstractmethod
    def simulate(
        self,
        tables: tuple[Array, ...],
        truth: NDArray[np.int64],
        responses: Responses,
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """Draw a label for every row of ``responses``, given the true labels (items,)."""

    def from_truth(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Say which matrices start at the truth: places on the first axis, by parameter.

        Only those of parameters that hold one free row for every class; what mixes classes with
        each other mixes these rows. ``rows`` is asked for parameters without
        counts only.
        """
        return {}

    def votes(self, responses: Responses) -> Array:
        """Return how often every label was given to every item (items, classes), for a start.

        Channels of raters who repeat each other count what they repeat once.
        """
        return responses.votes().astype(float)

    def log_lik(self, tables: tuple[Array, ...], structure: tuple[Any, ...]) -> Array:
        """Return ``log p(responses to n | truth k)``, shape (items, classes)."""
        likelihood, log_scale = type(self).likelihood_kernel(*tables, *structure)
        with np.errstate(divide="ignore"):
            log_lik: Array = np.log(likelihood) + log_scale[:, None]
        return log_lik

    @staticmethod
    @abstractmethod
    def log_lik_jax(*arguments: Any) -> Any:
        """Return ``log_lik`` (items, classes), written in ``jax.numpy``."""

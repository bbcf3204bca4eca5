"""The contract of rater channels, which tests check for every channel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import product
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
def reveal(likelihood, n, gold, nothing):
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

    Attributes
    ----------
    likelihood_kernel : callable
        Of subclasses: ``(*tables, *structure) -> (likelihood (items, classes), log_scale
        (items,))``, numba-compiled.
    expected_kernel : callable
        Of subclasses: ``(*tables, weight, *structure) -> arrays like the tables``: how often each
        entry is expected to have been used when item ``n`` is ``weight[n, k]`` times of class
        ``k``; the derivative of ``sum(weight * log_lik)`` with respect to the tables.

    Notes
    -----
    In PyMC's density, kernels take parameters without counts (a partition) before the arrays of
    ``structure``. Elsewhere :meth:`at` returns the channel with these parameters known, and Gibbs
    sampling draws them by :meth:`redraw`.

    Examples
    --------
    The log-likelihood of two answers, by item and class:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [0, 1]])
    >>> channel = bf.Confusion(None)  # kernels take the tables, not the variables of a model
    >>> structure = channel.structure(responses, gold=np.array([-1, -1]))
    >>> table = np.log([[[0.8, 0.2], [0.4, 0.6]], [[0.9, 0.1], [0.3, 0.7]]])
    >>> np.exp(channel.log_lik((table,), structure)).round(2).tolist()
    [[0.72, 0.12], [0.08, 0.28]]
    """

    redraws: ClassVar[bool] = False
    """Whether sweeps call :meth:`redraw`, although all parameters have counts."""

    by_rater: ClassVar[tuple[str, ...] | None] = None
    """Names in :meth:`settings` of what has an entry per rater, which predictions take by name."""

    needs: ClassVar[tuple[str, ...]] = ()
    """What :meth:`anew` takes of what places new items, from the label prior's ``needs``."""

    least_sweeps: ClassVar[int] = 1
    """Sweeps of a draw, at least, where whole chains are compiled."""

    likelihood_kernel: ClassVar[Callable[..., Any]]
    expected_kernel: ClassVar[Callable[..., Any]]

    @property
    def density(self) -> str:
        """What the likelihood is a density of, given what: only the same are compared."""
        return "the labels, given who responded to which item"

    @classmethod
    def anew(cls, values: Mapping[str, Any], settings: Mapping[str, Any], raters: Labels) -> Self:
        """Return the channel of other raters, from their parameters ``values`` at some draw.

        ``settings`` are from :meth:`settings` of the fitted channel, those in ``by_rater`` for
        these raters; ``raters`` are indices among the fitted raters, −1 for new ones.
        """
        return made(cls, {**values, **settings})

    @abstractmethod
    def structure(self, responses: Responses, gold: Labels) -> Structure:
        """Return the arrays that every kernel takes after the tables and weights."""

    def require_silence(self, responses: Responses) -> None:
        """Raise ModelError unless the channel takes what the table says, or not, of silence."""
        if responses.silent is not None:
            raise ModelError(
                "Only some channels know what silence says: bf.Abstaining, which DawidSkene, "
                'HiddenMarkov and MarkovRandomField use for raters="confusion" without pooling. '
                "bf.Votes (LabellingFunctions) does not ask. For all others "
                "responses.without_silence() leaves silence out. Got: "
                f"{type(self).__name__} for a table with silence."
            )

    def require_statements(self, responses: Responses) -> None:
        """Raise ModelError unless the channel takes the probabilities in a table, if it has any."""
        if responses.stated is not None:
            raise ModelError(
                "Only bf.Stated knows what stated probabilities say of the truth; DawidSkene, "
                'HiddenMarkov and MarkovRandomField use it for raters="confusion" without pooling. '
                "For all others responses.without_statements() leaves probabilities out. Got: "
                f"{type(self).__name__} for a table with statements."
            )

    def defining(self) -> tuple[NDArray[Any], ...]:
        """Return the groups of raters, if they are not a parameter."""
        return ()

    @abstractmethod
    def tally(
        self, tables: Tables, drawn: NDArray[Any], structure: Structure, rng: Generator
    ) -> Tables:
        """Count how often drawn labels (as from ``LabelPrior.draw``) use each table entry.

        A channel with latent variables draws them here.
        """

    def at(self, rows: Mapping[str, Any], structure: Structure) -> tuple[RaterChannel, Structure]:
        """Return the channel, and its structure, for the parameters without counts in ``rows``."""
        return self, structure

    def require_priors(self, priors: Mapping[str, Any]) -> None:
        """Raise ModelError if :meth:`redraw` does not support these priors of the rows."""

    def redraw(
        self,
        rows: Mapping[str, Any],
        tables: Tables,
        drawn: NDArray[Any],
        priors: Mapping[str, Any],
        structure: Structure,
        rng: Generator,
    ) -> tuple[dict[str, Labels], Tables]:
        """Draw the parameters without counts, if any, given the labels, and :meth:`tally`.

        A channel that ``redraws`` may use the priors for a better draw of its hidden variables.
        """
        return {}, self.tally(tables, drawn, structure, rng)

    def own_chain(
        self, labels: Any, table: Responses, structure: tuple[Any, ...], pools: Mapping[str, Any]
    ) -> Callable[..., Any] | None:
        """Return a compiled chain that draws all parameters in a way of its own, if there is one.

        ``pools`` are by parameter. Called with rows, kept draws of rows, values and kept draws of
        members by pool and role, and random numbers, it returns a compiled function ``(draws,
        sweeps, first, *arguments) -> draws made`` and the arguments.
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

    def kept(self, tables: Tables, responses: Responses) -> Array | None:
        """Return the likelihood (items, classes) of what :meth:`simulate` keeps, up to a scale.

        None if that does not depend on the truth.
        """
        return None

    def redrawn(
        self, tables: Tables, truth: Labels, responses: Responses, rng: Generator
    ) -> Responses:
        """Draw all that the model says of the responses, also who spoke, given the true labels."""
        return responses.relabelled(self.simulate(tables, truth, responses, rng))

    def outcomes(self, responses: Responses, item: int) -> Iterator[Responses]:
        """Yield the table with all that might have been observed of an item in its place."""
        own = responses.item == item
        for answers in product(range(responses.n_classes), repeat=int(own.sum())):
            label = responses.label
            label[own] = answers
            yield responses.relabelled(label)

    def from_truth(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return which matrices condition on the truth: indices of the first axis, by parameter.

        Only those with a free row for every class, so that mixing classes mixes rows. Of ``rows``
        only parameters without counts are used.
        """
        return {}

    def votes(self, responses: Responses) -> Array:
        """Return the votes for every label (items, classes), a group as one, for the start."""
        return responses.votes().astype(float)

    def log_lik(self, tables: Tables, structure: Structure) -> Array:
        """Return ``log p(responses to n | truth k)``, shape (items, classes)."""
        likelihood, log_scale = type(self).likelihood_kernel(*tables, *structure)
        with np.errstate(divide="ignore"):
            return np.log(likelihood) + log_scale[:, None]

"""What a label prior or rater channel can do: declared once, and asked by all fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class SweepKernels(NamedTuple):
    """Compiled functions of a factor, of which chains of compiled sweeps are made.

    ``tables`` and ``counts`` are tuples with an array for each parameter, of its shape, with axes
    of length one inserted before the last up to ``axes``. ``labels`` are (items,), or (items,
    classes): copies of merged items. ``count(tables, labels, counts, structure, n_classes)`` and
    ``draw(tables, likelihood, labels, rng, structure) -> bool`` (False where no labels are
    possible) write in place; ``likelihood(tables, structure, n_classes)`` returns that and scale.
    """

    count: Callable[..., Any]
    draw: Callable[..., Any] | None = None
    likelihood: Callable[..., Any] | None = None
    axes: int = 0


@dataclass(frozen=True)
class Capabilities:
    """Properties of a factor on which fits and checks rely.

    A class whose factors differ narrows its own in ``__init__``, by :func:`dataclasses.replace`. A
    subclass that overrides a method in :data:`DESCRIBED` must declare its capabilities again.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.Confusion.capabilities.compiled is None, bf.Stated.capabilities.compiled is None
    (False, True)
    """

    compiled: SweepKernels | None = None
    """Functions of whole compiled chains; without any, sweeps are steps in Python."""
    exchangeable: bool = False
    """Whether a permutation of the classes, applied to both factors, leaves the likelihood."""

    exact: bool = True
    """Whether a label prior sums the labels out exactly."""
    adds_up: bool = True
    """Whether the log evidence of units adds up to the total; if not, it is given all others."""
    linear: bool = True
    """Whether the log probability of labels is linear in the log tables of the kernels."""
    sufficient: bool = True
    """Whether counts of labels are sufficient; if not, ``uncounted`` completes them."""
    decodes_exactly: bool = True
    """Whether ``decode`` returns the most probable labels, not a local mode."""
    merges: bool = False
    """Whether items with the same responses can be merged."""
    separable: bool = False
    """Whether ``part`` takes out units, for blocks on threads, partitions and batches."""
    moves_labels: bool = False
    """Whether labels are drawn by Markov chain Monte Carlo, from the previous labels."""

    takes: tuple[str, ...] = ()
    """Which of "silence" and "statements" a rater channel models."""
    independent: bool = False
    """Whether responses are independent given the class, with the rows of ``confusion``."""
    free_rows: bool = False
    """Whether every class has a free row for each rater in the first parameter."""
    redraws: bool = False
    """Whether sweeps call ``sample_assignments``, although all parameters have counts."""
    own_chain: bool = False
    """Whether ``compiled_chain`` may return a chain that draws all parameters."""
    min_sweeps: int = 1
    """Sweeps per draw, at least, where whole chains are compiled."""
    by_rater: tuple[str, ...] | None = None
    """Names in ``settings`` with an entry per rater, which predictions take by name.

    Empty if none has, or if ``rebuild_for`` takes them by itself; None if that is not declared.
    """


DESCRIBED = frozenset(
    {
        "collapse",
        "compiled_chain",
        "decode",
        "draw",
        "expand",
        "expected_kernel",
        "likelihood_kernel",
        "marginal_kernel",
        "part",
        "sample_assignments",
        "sample_counts",
        "structure",
    }
)
"""Methods and kernels of which capabilities are claims."""

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

    A class whose factors differ narrows its own in ``__init__``, by ``dataclasses.replace``. A
    subclass that overrides a method in ``DESCRIBED`` must declare its capabilities again.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> [channel.capabilities.compiled is None for channel in (bf.build.OneCoin, bf.build.Stated)]
    [False, True]
    """

    compiled: SweepKernels | None = None  # functions of compiled chains; else steps in Python
    exchangeable: bool = False  # permuting the classes in both factors leaves the likelihood

    # label priors
    exact: bool = True  # labels are summed out exactly
    adds_up: bool = True  # log evidence of units adds up to the total; else it is given all others
    linear: bool = True  # the log probability of labels is linear in the kernels' log tables
    sufficient: bool = True  # counts of labels are sufficient; else `uncounted` completes them
    decodes_exactly: bool = True  # `decode` returns the most probable labels, not a local mode
    merges: bool = False  # items with the same responses can be merged
    separable: bool = False  # `part` takes out units: for blocks, partitions and batches
    adds_states: bool = False  # draws are a class, plus a hidden state times the number of classes
    moves_labels: bool = False  # labels are drawn by Markov chain Monte Carlo, from previous ones

    # rater channels
    takes: tuple[str, ...] = ()  # of "silence" and "statements", those that are modelled
    independent: bool = False  # responses are independent given the class, by rows of `confusion`
    free_rows: bool = False  # the first parameter has a free row for every rater and class
    redraws: bool = False  # sweeps call `sample_assignments`, although all parameters have counts
    by_state: bool = False  # likelihoods are of hidden states: `class_of_state` of label priors
    own_chain: bool = False  # `compiled_chain` may return a chain that draws all parameters
    min_sweeps: int = 1  # sweeps per draw, at least, of compiled chains
    # names in `settings` with an entry per rater, which predictions take by name: empty if there
    # are none or `rebuild_for` takes them, None if that is not declared
    by_rater: tuple[str, ...] | None = None


DESCRIBED = frozenset(
    "collapse compiled_chain decode draw expand expected_kernel likelihood_kernel marginal_kernel"
    " part sample_assignments sample_counts structure".split()
)
"""Methods and kernels of which capabilities are claims."""

REQUIRED = {"part": "separable", "compiled_chain": "own_chain"}
"""Methods that are called only where a capability is declared."""

"""Consensus rows of item types: what raters who look answer on an item of each type."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.tables import SMALLEST

LEVELS = 0.02, 0.2, 0.4, 0.6, 0.8, 0.95  # of the consensus on a class, even (0) to unanimous (1)
PAIRS = (0.5, 0.4), (0.65, 0.3), (0.8, 0.17)  # of two that compete; all others share the rest
TRUST = 0.2, 0.5  # mean and standard deviation of the logarithm of the trust
N_TRUSTS = 15  # nodes of the average over the trust


def class_given_type(log_consensus: Any, trust: Any, xp: Any = np) -> Any:
    r"""Return :math:`\rho_{zk} \propto \mu_{zk}^\delta`, classes given a type (types, classes)."""
    raised = xp.exp(trust * (log_consensus - log_consensus.max(axis=-1, keepdims=True)))
    return raised / raised.sum(axis=-1, keepdims=True)


class ConsensusTable:
    """Consensus rows: one per class and level, three per ordered pair, and clean types."""

    def __init__(self, n_classes: int, pairs: Sequence[Sequence[int]], clean: bool = False) -> None:
        both = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        k, level, pair = np.arange(n_classes), np.arange(len(LEVELS)), np.arange(len(PAIRS))
        single = [np.repeat(k, len(level)), np.full(n_classes * len(level), -1)]
        double = np.repeat(both, len(pair), axis=0).T
        setting = np.tile(level, n_classes), len(level) + np.tile(pair, len(both))
        self.n_classes = n_classes
        self.n_clean = n_classes if clean else 0
        self.types = np.vstack([np.hstack([single, double]), np.hstack(setting)])
        p = 1 / n_classes + (1 - 1 / n_classes) * np.asarray(LEVELS)
        others = (1 - p) / max(n_classes - 1, 1)
        rows = list(zip(p, others, others, strict=True))
        if len(both):
            rows += [(one, two, (1 - one - two) / (n_classes - 2)) for one, two in PAIRS]
        self.values = np.log(rows)

    @cached_property
    def rows(self) -> Array:
        """The consensus rows, (types, answers); of clean types, the class is certain."""
        first, second, setting = self.types
        p = np.exp(self.values[setting])
        rows = np.repeat(p[:, 2:], self.n_classes, axis=1)
        z, paired = np.arange(len(first)), second >= 0
        rows[z[paired], second[paired]] = p[paired, 1]
        rows[z, first] = p[:, 0]
        certain = np.eye(self.n_classes)[: self.n_clean]
        return np.vstack([rows, np.maximum(certain, SMALLEST)])

    def names(self, classes: NDArray[Any]) -> list[str]:
        """Return the names of the types: answers and their probability."""
        text = [str(name) for name in classes.tolist()]
        share = np.exp(self.values[self.types[2], 0])
        names = [
            f"{text[first]}{f'|{text[second]}' if second >= 0 else ''} ({p:.2f})"
            for (first, second, _), p in zip(self.types.T, share, strict=True)
        ]
        return names + [f"{name} (clean)" for name in text[: self.n_clean]]

    def class_of_type(self) -> Array:
        """Return the class probabilities of types (types, classes), averaged over the trust."""
        log_rows, (mean, sd) = np.log(self.rows), TRUST
        deviation, weight = np.polynomial.hermite_e.hermegauss(N_TRUSTS)
        average = np.zeros(log_rows.shape)
        for z, share in zip(deviation, weight / weight.sum(), strict=True):
            average += share * class_given_type(log_rows, np.exp(mean + sd * z))
        return average


def shares_within_classes(share: Any, persistence: Any, class_of_type: Array) -> Any:
    """Return the long-run shares of the types of a chain within classes, (classes, types)."""
    long_run = share / (1.0 - persistence)
    joint = class_of_type.T * (long_run / long_run.sum())
    return joint / joint.sum(axis=1, keepdims=True)

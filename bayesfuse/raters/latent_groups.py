"""Raters in known groups: raters respond to the latent verdict of their group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.numerics.rows import invert
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.partition import ALONE, PARTITION
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters import verdicts
from bayesfuse.raters.base import RaterChannel, add_rows_jax, by_cell_jax, reveal_jax
from bayesfuse.raters.verdicts import arrange, cell_words


class LatentGroups(RaterChannel):
    r"""Raters who share a source: truth → verdict per item and group → responses of the group.

    The verdicts are summed out:

    .. math:: \log p(x_n \mid y_n = k) = \sum_{m\ \text{alone}} \log \theta_{m k x_{nm}}
              + \sum_g \log \sum_v \phi_{gkv} \prod_{m \in g} \theta_{m v x_{nm}}

    Parameters
    ----------
    group_confusion : tensor or array, shape (groups, classes, verdicts), or None
        :math:`\phi_{gkv}`, the probability that the verdict of group g is v if the truth is k.
        Verdicts are classes. None if there are no groups.
    rater_confusion : tensor or array, shape (raters, classes, labels)
        :math:`\theta_{mvc}`, the probability that rater m answers c if the verdict of the rater's
        group (for raters in no group, the truth) is v.
    assignment : array of int, shape (raters,)
        Group of every rater; −1 for none.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, section 2, eq. 8 and 19.

    Examples
    --------
    Two raters with a common verdict are little more evidence than one of them.

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[1, 1]], classes=[0, 1])
    >>> right = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> channel = bf.LatentGroups([[[0.7, 0.3], [0.3, 0.7]]], np.stack([right, right]), [0, 0])
    >>> rows = channel.to_kernel(channel.parameters)
    >>> structure = channel.structure(responses, gold=np.array([-1]))
    >>> np.exp(channel.log_lik(tuple(rows.values()), structure)).round(3)
    array([[0.25, 0.57]])
    """

    declared = (
        Parameter("group_confusion", SIMPLEX, ("group", "class", "verdict")),
        Parameter("rater_confusion", SIMPLEX, ("rater", "verdict", "answer")),
    )
    likelihood_kernel = staticmethod(verdicts.likelihood)
    expected_kernel = staticmethod(verdicts.expected)

    def __init__(self, group_confusion: Any, rater_confusion: Any, assignment: Any) -> None:
        self.parameters = {"group_confusion": group_confusion, "rater_confusion": rater_confusion}
        if group_confusion is None:
            del self.parameters["group_confusion"]
        self.assignment = whole(assignment)

    def settings(self):
        return {"assignment": self.assignment.tolist()}

    @classmethod
    def anew(cls, values, settings, raters):
        assignment = np.where(raters < 0, ALONE, np.asarray(settings["assignment"])[raters])
        return cls(values.get("group_confusion"), values["rater_confusion"], assignment)

    def defining(self):
        return (self.assignment,)

    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        words = cell_words(responses.n_raters * responses.n_classes)
        return (*arrange(responses.start, responses.cell, self.assignment, words), gold)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        super().check(shapes, responses)
        require_shape("assignment", self.assignment.shape, raters=responses.n_raters)
        known = shapes.get("group_confusion", (0,))[0]
        n_groups = int(self.assignment.max()) + 1 if known is None else known
        require_groups(self.assignment, n_groups)

    def sizes(self, name, shape, responses):
        n_groups = (shape[0] if shape else None) or int(self.assignment.max()) + 1
        return super().sizes(name, shape, responses) | {"group": n_groups}

    def expand(self, log_rows: tuple[Any, ...], n_classes: int, xp: Any) -> tuple[Any, ...]:
        if "group_confusion" in self.parameters:
            return log_rows
        return xp.zeros((0, n_classes, n_classes)), *log_rows

    def collapse(self, counts):
        return counts if "group_confusion" in self.parameters else counts[1:]

    def tally(self, tables, drawn, structure, rng):
        *arranged, _ = structure
        return verdicts.count(*tables, drawn, *arranged, rng)

    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return eq. 8: the group's matrix times the rater's own."""
        log_group, log_rater = tables
        own = xp.exp(log_rater)
        if self.assignment.max() == ALONE:
            return own
        through = xp.matmul(xp.exp(log_group)[np.maximum(self.assignment, 0)], own)
        return xp.where((self.assignment == ALONE)[:, None, None], own, through)

    def from_truth(self, rows):
        places = {"group_confusion": slice(None), "rater_confusion": self.assignment == ALONE}
        return {name: places[name] for name in self.parameters}

    def simulate(self, tables, truth, responses, rng):
        outer, inner = (np.exp(table).cumsum(axis=-1) for table in tables)
        item, rater = responses.item, responses.rater
        group = self.assignment[rater]
        grouped = group != ALONE
        source = truth[item]
        # a verdict per item and group with responses: never items × groups
        met, place = np.unique(item[grouped] * len(outer) + group[grouped], return_inverse=True)
        if len(met):
            of_item, of_group = np.divmod(met, len(outer))
            verdict = invert(outer[of_group, truth[of_item]], rng.random(len(met)))
            source[grouped] = verdict[place]
        return invert(inner[rater, source], rng.random(len(rater)))

    def votes(self, responses):
        """Count one vote per group and item, shared by its raters' labels."""
        group, item = self.assignment[responses.rater], responses.item
        n_groups = max(int(group.max(initial=ALONE)), ALONE) + 1
        grouped = group != ALONE
        _, place, size = np.unique(
            item[grouped] * n_groups + group[grouped], return_inverse=True, return_counts=True
        )
        weight = np.ones(len(item))
        weight[grouped] = 1.0 / size[place]
        flat = item * responses.n_classes + responses.label
        votes = np.bincount(flat, weight, responses.n_items * responses.n_classes)
        return votes.reshape(responses.n_items, responses.n_classes)

    @staticmethod
    def log_lik_jax(
        log_group, log_rater, row_start, row, pattern_start, pattern_cell, pattern_group, gold
    ):
        import jax.numpy as jnp
        from jax.scipy.special import logsumexp

        table = by_cell_jax(log_rater)
        if pattern_group.size:
            message = add_rows_jax(table, pattern_cell, pattern_start)[:, None, :]
            patterns = logsumexp(log_group[pattern_group] + message, axis=-1)
            table = jnp.concatenate([table, patterns])
        return reveal_jax(add_rows_jax(table, row, row_start), gold)


def whole(assignment: Any) -> NDArray[np.int64]:
    """Return an assignment as an array of integers, one per rater."""
    PARTITION.require("assignment", assignment)
    return np.asarray(assignment).astype(np.int64)


def require_groups(assignment: NDArray[np.int64], n_groups: int) -> None:
    """Raise ModelError if an assignment has groups without a confusion matrix."""
    if assignment.min() < ALONE or assignment.max() >= n_groups:
        raise ModelError(
            "assignment must hold indices of groups with a confusion matrix, or −1 for raters in "
            f"no group. Got: numbers from {assignment.min()} to {assignment.max()} and "
            f"{n_groups} groups."
        )

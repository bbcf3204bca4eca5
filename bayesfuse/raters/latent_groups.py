"""Raters in known or unknown groups: raters respond to the latent verdict of their group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.numerics.kernels import inner, kernel
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.partition import ALONE, PARTITION, number_groups
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters import verdicts
from bayesfuse.raters.base import RaterChannel
from bayesfuse.raters.partition_moves import GROUPS, Partition
from bayesfuse.raters.partition_weights import Answers, Point
from bayesfuse.raters.verdicts import arrange, cell_words


class LatentGroups(RaterChannel):
    r"""Raters who share a source: truth → verdict per item and group → responses of the group.

    The verdicts are summed out (Jaffe et al., 2016, AISTATS, section 2, eq. 8 and 19):

    .. math:: \log p(x_n \mid y_n = k) = \sum_{m\ \text{alone}} \log \theta_{m k x_{nm}}
              + \sum_g \log \sum_v \phi_{gkv} \prod_{m \in g} \theta_{m v x_{nm}}

    Parameters
    ----------
    group_confusion : tensor or array, shape (groups, classes, verdicts), or None
        :math:`\phi_{gkv}`, the probability that the verdict of group g, a class, is v if the truth
        is k. None if there are no groups.
    rater_confusion : tensor or array, shape (raters, classes, labels)
        :math:`\theta_{mvc}`, the probability that rater m answers c if the verdict of the rater's
        group (for raters in no group, the truth) is v.
    assignment : array of int, shape (raters,)
        Group of every rater; −1 for none.

    Examples
    --------
    Two raters with a common verdict, and their rows of the truth:

    >>> import numpy as np, bayesfuse as bf
    >>> right = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> rows = np.array([[[0.7, 0.3], [0.3, 0.7]]]), np.array([right, right])
    >>> channel = bf.build.LatentGroups(*rows, assignment=[0, 0])
    >>> channel.confusion(tuple(map(np.log, rows)), 2, np)[0].round(2).tolist()
    [[0.66, 0.34], [0.34, 0.66]]
    """

    declared = (
        Parameter("group_confusion", SIMPLEX, ("group", "class", "verdict")),
        Parameter("rater_confusion", SIMPLEX, ("rater", "verdict", "answer")),
    )
    capabilities = Capabilities(by_rater=())
    likelihood_kernel = staticmethod(verdicts.likelihood)
    expected_kernel = staticmethod(verdicts.expected)

    def __init__(self, group_confusion: Any, rater_confusion: Any, assignment: Any) -> None:
        self.parameters = {"group_confusion": group_confusion, "rater_confusion": rater_confusion}
        if group_confusion is None:
            del self.parameters["group_confusion"]
        self.assignment = as_assignment(assignment)

    def settings(self):
        return {"assignment": self.assignment.tolist()}

    @classmethod
    def rebuild_for(cls, values, settings, raters):
        assignment = np.where(raters < 0, ALONE, np.asarray(settings["assignment"])[raters])
        return cls(values.get("group_confusion"), values["rater_confusion"], assignment)

    def defining(self):
        return (self.assignment,)

    def structure(self, responses: Responses, gold: Integers) -> Structure:
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

    def expand(self, log_rows, n_classes, xp):
        if "group_confusion" in self.parameters:
            return log_rows
        return xp.zeros((0, n_classes, n_classes)), *log_rows

    def collapse(self, counts):
        return counts if "group_confusion" in self.parameters else counts[1:]

    def sample_counts(self, tables, drawn, structure, rng):
        return verdicts.count(*tables, drawn, rng, *structure)

    def confusion(self, tables, n_classes, xp):
        """Return eq. 8: the group's matrix times the rater's own."""
        return through_groups(tables, self.assignment, n_classes, xp)

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
            verdict = draw_columns(outer[of_group, truth[of_item]], rng)
            source[grouped] = verdict[place]
        return draw_columns(inner[rater, source], rng)

    def votes(self, responses):
        """Count one vote per group and item, shared by its raters' labels."""
        group, item = self.assignment[responses.rater], responses.item
        alone = -1 - np.arange(len(item))
        source = np.where(group == ALONE, alone, item * len(self.assignment) + group)
        _, place, size = np.unique(source, return_inverse=True, return_counts=True)
        flat = item * responses.n_classes + responses.label
        votes = np.bincount(flat, 1.0 / size[place], responses.n_items * responses.n_classes)
        return votes.reshape(responses.n_items, responses.n_classes)


def through_groups(tables: tuple[Any, ...], assignment: Any, n_classes: int, xp: Any) -> Any:
    """Return ``p(response | truth)`` of every rater, through the verdict of a group if in one."""
    log_group, log_rater = tables
    within, n_groups = xp.exp(log_rater), log_group.shape[0]
    group, number = assignment[:, None], xp.arange(n_groups)
    # a product with zeros and ones, because PyMC cannot vectorise an index over draws
    member = ((group >= number) & (group <= number)).astype("float64")
    outer = xp.matmul(member, xp.exp(log_group).reshape((n_groups, n_classes * n_classes)))
    through = xp.matmul(outer.reshape((-1, n_classes, n_classes)), within)
    return xp.where((group < 0)[:, :, None], within, through)


def as_assignment(assignment: Any) -> Integers:
    """Return an assignment as an array of integers, one per rater."""
    PARTITION.require("assignment", assignment)
    return np.asarray(assignment).astype(np.int64)


def require_groups(assignment: Integers, n_groups: int) -> None:
    """Raise ModelError if an assignment has groups without a confusion matrix."""
    if assignment.min() < ALONE or assignment.max() >= n_groups:
        raise ModelError(
            "assignment must hold indices of groups with a confusion matrix, or −1 for no group. "
            f"Got: numbers from {assignment.min()} to {assignment.max()} and {n_groups} groups."
        )


REASSIGNED = 2 / 3
"""Share of sweeps that reassign raters to existing groups; others may create or dissolve groups.

The latter take longer, but if groups are few and small, a tenth of the sweeps is not enough.
"""


@inner
def numbered(assignment, n_groups):
    """Whether all groups exist; generic step methods may propose any integer."""
    return assignment.min() >= -1 and assignment.max() < n_groups


@kernel
def likelihood(log_group, log_rater, assignment, start, cell, gold, words, *by_rater):
    """Arrange the responses by the assignment, and sum the verdicts out."""
    if not numbered(assignment, log_group.shape[0]):
        return np.zeros((gold.size, log_rater.shape[1])), np.zeros(gold.size)
    arranged = arrange(start, cell, assignment, words)
    return verdicts.likelihood(log_group, log_rater, *arranged, gold)


@kernel
def expected(log_group, log_rater, weight, assignment, start, cell, gold, words, *by_rater):
    """As :func:`likelihood`, for the expected counts."""
    if not numbered(assignment, log_group.shape[0]):
        return np.zeros_like(log_group), np.zeros_like(log_rater)
    arranged = arrange(start, cell, assignment, words)
    return verdicts.expected(log_group, log_rater, weight, *arranged, gold)


class InferredGroups(RaterChannel):
    r"""Raters who may share sources, with an unknown assignment to groups.

    Given the assignment this is :class:`LatentGroups`; :class:`bayesfuse.build.LabelGibbs` draws
    the assignment with the confusion matrices summed out.

    Parameters
    ----------
    group_confusion, rater_confusion : tensor or array
        As of :class:`LatentGroups`, for every possible group. Groups are exchangeable, so all have
        the same prior.
    assignment : tensor or array of int, shape (raters,)
        Group of every rater; −1 for none.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> rows = np.full((1, 2, 2), 0.5), np.full((3, 2, 2), 0.5)
    >>> channel = bf.build.InferredGroups(*rows, [0, -1, 0])
    >>> channel.confusion(tuple(map(np.log, rows)), 2, np).shape
    (3, 2, 2)
    """

    declared = (*LatentGroups.declared, Parameter("assignment", PARTITION, ("rater",)))
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    def __init__(self, group_confusion: Any, rater_confusion: Any, assignment: Any) -> None:
        self.parameters = {
            "group_confusion": group_confusion,
            "rater_confusion": rater_confusion,
            "assignment": assignment if hasattr(assignment, "type") else np.asarray(assignment),
        }

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        words = cell_words(responses.n_raters * responses.n_classes)
        item, rater = responses.small_columns
        order = np.argsort(rater, kind="stable")
        begin = np.searchsorted(rater[order], np.arange(responses.n_raters + 1)).astype(np.uint32)
        label = (responses.cell[order] % np.uint32(responses.n_classes)).astype(np.uint16)
        by_rater = begin, item[order].astype(np.uint32), label
        return responses.start, responses.cell, gold, words, *by_rater

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        super().check(shapes, responses)
        if isinstance(assignment := self.parameters["assignment"], np.ndarray):
            require_groups(as_assignment(assignment), shapes["group_confusion"][0] or 0)

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"group": (shape[0] if shape else 0) or 0}

    def expand(self, log_rows, n_classes, xp):
        return log_rows[:2]

    def at(self, rows, structure):
        """Return the channel of the assignment in ``rows``."""
        assignment = as_assignment(rows["assignment"])
        start, cell, gold, words, *_ = structure
        channel = LatentGroups(0, 0, assignment)  # kernels take tables, not these parameters
        return channel, (*arrange(start, cell, assignment, words), gold)

    def require_priors(self, priors):
        """Raise for mixtures, groups that are not exchangeable, and rows with structural zeros.

        Verdicts are proposed by rows fitted to a set of raters; zeros could exclude the set's
        responses.
        """
        rule = (
            "To infer groups, priors must be Dirichlet with positive concentrations, the same for "
            "all groups, because rows are integrated out, any rater may join any group, and the "
            "numbers of groups are arbitrary: give such priors, or the groups. Got: "
        )
        for name, prior in priors.items():
            if type(prior) is not Dirichlet:  # nor a mixture
                raise ModelError(f"{rule}a {type(prior).__name__} as prior of {name}.")
            alpha = prior.concentration
            if (alpha <= 0).any():
                zeros = alpha[(alpha <= 0).any(axis=-1)][0]
                raise ModelError(f"{rule}a row of {zeros.tolist()} in {name}.")
            if name == "group_confusion" and (alpha != alpha[:1]).any():
                other = int((alpha != alpha[:1]).any(axis=(1, 2)).argmax())
                both = f"{alpha[0].tolist()} for group 0, {alpha[other].tolist()} for group {other}"
                raise ModelError(f"{rule}{both}.")

    def sample_assignments(self, rows, tables, drawn, priors, structure, rng, channel_at=None):
        """Draw verdicts and, with all rows integrated out, the assignment."""
        start, cell, _, words, *by_rater = structure
        channel, arranged = channel_at or self.at(rows, structure)
        if "assignment" not in priors or not priors["assignment"].free:  # it is drawn elsewhere
            return {}, channel.sample_counts(tables, drawn, arranged, rng)
        assignment = np.asarray(rows["assignment"], dtype=np.int64).copy()
        reassigning = rng.random() < REASSIGNED
        if reassigning and 0 < len(set(assignment.tolist()) - {ALONE}) <= GROUPS:
            counts = tuple(map(np.zeros_like, tables))  # filled in below
        else:
            counts = channel.sample_counts(tables, drawn, arranged, rng)
        if drawn.ndim == 1:
            drawn = drawn.astype(np.int32, copy=False)
        marks = np.zeros(len(start) - 1, dtype=np.uint64)
        answers = Answers(words, marks, drawn, start, cell, *by_rater)
        outer, inner = (priors[f"{name}_confusion"].concentration for name in ("group", "rater"))
        point = Point(outer[0], inner, *tables)
        log_alpha = float(np.log(priors["assignment"].concentration))
        partition = Partition(assignment, counts[0], counts[1], answers, point, rng)
        if reassigning:
            partition.reassign(arranged[:-1], log_alpha)
        for _ in range(0 if reassigning else 2 + len(assignment) // 4):
            partition.move(log_alpha)
        number, order = number_groups(assignment, len(counts[0]))
        return {"assignment": number}, (counts[0][order], counts[1])

    def sample_counts(self, *arguments):
        raise NotImplementedError("The assignment must be known to count and to draw: see at().")

    simulate = sample_counts

    def confusion(self, tables, n_classes, xp):
        return through_groups(tables, self.parameters["assignment"], n_classes, xp)

    def from_truth(self, rows):
        assignment = np.asarray(rows["assignment"])
        # groups without raters do not inform the truth
        used = np.unique(assignment[assignment != ALONE])
        return {"group_confusion": used, "rater_confusion": assignment == ALONE}

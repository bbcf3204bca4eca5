"""Abilities of raters: how often their next response is right, one definition for every result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit, logit

from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.errors import ModelError
from bayesfuse.numerics.abilities import Logits, sweep
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.threads import check
from bayesfuse.parameters.pool import SharedMean
from bayesfuse.raters.dependence import dispersion_given_labels
from bayesfuse.results import schema
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    copies_of,
    evenly_spaced,
    known_classes,
    named,
    observed_labels,
    observed_rows,
    of_all_draws,
    require_result,
    require_rows,
    responses_of,
    stored as stored_variable,
)
from bayesfuse.results.group_shares import MIN_KNOWN, residuals
from bayesfuse.results.joint_labels import GROUP, stored
from bayesfuse.results.probabilities import label_probabilities

MOST, FEWEST = 4e8, 50  # draws × responses that are counted, and the smallest number of draws
WORK_PER_RATER = 30.0  # cost of drawing the ability of a rater on a class, in responses counted
FEWER = 8.0  # factor by which fewer responses are counted where time has run out
MAX_NUMBERS = 1e7  # in all draws of confusion matrices
ERRORS = np.linspace(-4.0, 4.0, 41)  # of the log-odds of dispersed votes, in standard deviations
MAX_LOGIT = 30.0
CHAINS = 4  # into which draws are divided
BURN, SWEEPS = 40, 2  # sweeps of the abilities at first, and for each draw of the labels
WRONG_WEIGHT = 1.0  # prior wrong responses of every class, split as those of all raters
MIX_SHAPE, MIX_RATE = 1.0, 0.02  # gamma prior of how alike raters' shares of the classes are


class Rows(NamedTuple):
    """Responses by column; copies of one rater for an item together count as one."""

    item: NDArray[np.int64]
    rater: NDArray[np.int64]
    label: NDArray[np.int64]
    weight: Array
    missed: Array  # known minus predicted probability of the label, zero for unknown items

    def at(self, chosen: NDArray[np.bool_]) -> Rows:
        """Return some of the responses."""
        item, rater, label, weight, missed = self
        integers = item[chosen], rater[chosen], label[chosen]
        return Rows(*integers, weight[chosen], missed[chosen])


def abilities(result: xr.DataTree, most: float = MOST) -> xr.Dataset:
    r"""Return draws of the abilities of raters, dims (chain, draw, rater, …).

    An ability is the probability that the next response to an item like these is right. For every
    joint draw of the true labels, right responses are counted, and abilities drawn given the
    counts, partially pooled over raters: logits by rater and class are a mean of the class, a level
    of the rater, and a deviation. ``accuracy`` weighs classes as the items that the rater meets do,
    ``balanced_accuracy`` alike; ``sensitivity``, ``specificity`` and ``confusion`` are of the same
    draws. Labelling functions have ``accuracy`` alone, the precision where they fire. Results
    without joint draws of the labels (of ``bf.find_map``, of counts) have the parameters instead.
    """
    result = require_result(result)
    if "posterior" in result.children and schema.ABILITIES in result["posterior"].attrs:
        return all_draws(result)
    if not has_joint_draws(result):
        return _of_parameters(result)
    return drawn_abilities(result, _rows(result), most)


def abilities_of_items(result: xr.DataTree, chosen: NDArray[np.bool_]) -> xr.Dataset:
    """Return abilities on some of the items."""
    rows = _rows(result)
    return drawn_abilities(result, rows.at(chosen[rows.item]))


def recalls(drawn: xr.Dataset, classes: list[Any]) -> dict[tuple[str, Any], xr.DataArray]:
    """Return how often every class is recognised (chain, draw, rater), by measure and true class.

    For rules, it is their precision, whose class is None.
    """
    if "sensitivity" not in drawn:
        return {("accuracy", None): stored_variable(drawn, "accuracy")}
    if "class" not in drawn["sensitivity"].dims:
        pairs = ("sensitivity", classes[-1]), ("specificity", classes[0])
        return {(name, truth): drawn[name] for name, truth in pairs}
    return {
        ("sensitivity", truth): drawn["sensitivity"].isel({"class": index}, drop=True)
        for index, truth in enumerate(classes)
    }


def quality(drawn: xr.Dataset) -> xr.DataArray:
    """Return the balanced accuracy, or the precision of rules, by which raters are ranked."""
    return drawn["balanced_accuracy" if "balanced_accuracy" in drawn else "accuracy"]


def has_joint_draws(result: xr.DataTree) -> bool:
    """Return whether right responses can be counted in joint draws of the labels."""
    needed = {GROUP, schema.LABEL_POSTERIOR, schema.OBSERVED_DATA}
    return set(result.children) >= needed and of_all_draws(result)


def is_of_rules(result: xr.DataTree) -> bool:
    """Return whether the raters are labelling functions, which vote for one class each."""
    members = result["models"].children.values() if "models" in result.children else [result]
    if any("vote" in all_draws(member).dims for member in members):
        return True
    try:
        return are_labelling_functions(responses_of(result))
    except ModelError:
        return False


def stored_abilities(result: xr.DataTree, in_haste: bool = False) -> xr.Dataset:
    """Return abilities as the posterior of an answer, from which all tables and plots read them."""
    drawn = abilities(result, MOST / FEWER if in_haste else MOST).astype(np.float32)
    drawn.attrs = {schema.ABILITIES: 1, "dispersion": dispersion_of(result)}
    return drawn


def _rows(result: xr.DataTree) -> Rows:
    """Return the responses, and by how much labels of known items were missed without them."""
    item, rater, label = require_rows(result, "The accuracy of raters")
    n_raters = constants(result).sizes["rater"]
    _, cell, repeats = np.unique(item * n_raters + rater, return_inverse=True, return_counts=True)
    missed, posterior = np.zeros(len(item)), result["label_posterior"].dataset
    if "left_out" in posterior:
        left_out = posterior["left_out"].transpose("item", "class").values
        probability = posterior["probability"].transpose("item", "class").values
        difference = probability[item, label] - left_out[item, label]
        missed = np.where(np.isfinite(difference), difference, 0.0)
    return Rows(item, rater, label, 1.0 / repeats[cell.ravel()], missed)


def drawn_abilities(result: xr.DataTree, rows: Rows, most: float = MOST) -> xr.Dataset:
    """Return abilities given the responses and joint draws of the labels."""
    labels, raters = stored(result), constants(result)["rater"].values
    classes = result["label_posterior"].dataset["class"].values
    size = len(raters), len(classes)
    gold = known_classes(result, labels.shape[1])
    work = max(len(rows.item) + WORK_PER_RATER * size[0] * size[1], 1.0)
    limits = max(most / work, FEWEST), MAX_NUMBERS / (size[0] * size[1] ** 2), len(labels)
    number = max(int(min(limits)), 1)
    labels = labels[evenly_spaced(number, len(labels))]
    is_rules = is_of_rules(result)
    counter = _Counter(rows, gold, size, is_rules)
    rng = np.random.default_rng(len(rows.item))  # the same abilities in every table and plot
    drawer = _Drawer(size, is_rules, dispersion_of(result))
    shift = counter.shifts(number, rng)
    drawn: list[dict[str, Array]] = []
    for sample, truth in enumerate(labels):
        check()
        drawn.append(drawer.draw(*counter.counts(truth), shift[sample], truth, rng))
    n_chains = CHAINS if number % CHAINS == 0 else 1
    return _as_dataset(
        {
            name: np.stack([one[name] for one in drawn]).reshape(
                n_chains, number // n_chains, *drawn[0][name].shape
            )
            for name in drawn[0]
        },
        raters,
        classes,
    )


class _Counter:
    """Counts responses by rater, true class and label, of known items and of others."""

    def __init__(
        self, rows: Rows, gold: NDArray[np.int64], size: tuple[int, int], is_rules: bool
    ) -> None:
        is_known = gold[rows.item] >= 0
        self.known, self.others = rows.at(is_known), rows.at(~is_known)
        self.size, self.is_rules = size, is_rules

    def _count(self, rows: Rows, truth: NDArray[Any]) -> Array:
        n_raters, n_classes = self.size
        if self.is_rules:  # right and wrong votes alone
            cell = rows.rater * 2 + (truth[rows.item] == rows.label)
            return np.bincount(cell, rows.weight, n_raters * 2).reshape(n_raters, 2)
        cell = (rows.rater * n_classes + truth[rows.item]) * n_classes + rows.label
        counts = np.bincount(cell, rows.weight, n_raters * n_classes**2)
        return counts.reshape(n_raters, n_classes, n_classes)

    def counts(self, truth: NDArray[Any]) -> tuple[Array, Array]:
        """Return the counts of known items, and of others, with these labels."""
        return self._count(self.known, truth), self._count(self.others, truth)

    def shifts(self, number: int, rng: np.random.Generator) -> Array:
        """Draw by how much labels of unknown items miss right responses (draws, raters).

        Known labels show it, as a mean residual by rater, partially pooled towards zero.
        """
        n_raters, rows = self.size[0], self.known
        if len(rows.item) < MIN_KNOWN or not rows.missed.any():
            return np.zeros((number, n_raters))
        left = np.column_stack([rows.missed, -rows.missed])
        return np.stack([residuals(left, rows.rater, n_raters, rng)[:, 0] for _ in range(number)])


class _Drawer:
    """Draws abilities given counts, one sweep after the other."""

    def __init__(self, size: tuple[int, int], is_rules: bool, dispersion: float) -> None:
        n_raters, n_classes = size
        self.logits = Logits.begin(n_raters, 1 if is_rules else n_classes)
        self.is_rules, self.has_started = is_rules, False
        self.dispersion = dispersion
        ones = np.ones(n_classes)
        self.mixes = SharedMean("mix", {}, ones, MIX_SHAPE, MIX_RATE, n_raters)
        self.mix_values = {"mean": np.log(ones / n_classes), "concentration": np.array(50.0)}

    def draw(
        self,
        known: Array,
        unknown: Array,
        shift: Array,
        truth: NDArray[Any],
        rng: np.random.Generator,
    ) -> dict[str, Array]:
        """Return abilities by name, (raters, …)."""
        if self.is_rules:
            return {"accuracy": self._precision(known, unknown, shift, rng)}
        total = unknown.sum(axis=2)
        right = np.diagonal(unknown, axis1=1, axis2=2)
        right = np.clip(right + shift[:, None] * total, 0.0, total)
        total, known_right = total + known.sum(axis=2), np.diagonal(known, axis1=1, axis2=2)
        recall = self._move(right + known_right, total, rng)
        counts, n_classes = known + unknown, total.shape[1]
        wrong = counts * (1.0 - np.eye(n_classes))
        pooled = wrong.sum(axis=0) + WRONG_WEIGHT * (1.0 - np.eye(n_classes))
        pooled *= WRONG_WEIGHT * (n_classes - 1) / pooled.sum(axis=1, keepdims=True)
        split = np.exp(draw_dirichlet(np.maximum(wrong + pooled, 1e-12), rng))
        split *= 1.0 - np.eye(n_classes)
        split /= split.sum(axis=2, keepdims=True)
        confusion = split * (1.0 - recall)[:, :, None]
        confusion[:, range(n_classes), range(n_classes)] = recall
        mix = self._mix(total, rng)
        share = rng.dirichlet(1.0 + np.bincount(truth, minlength=n_classes))
        return summaries(confusion, mix) | {"prevalence": share}

    def _move(self, right: Array, total: Array, rng: np.random.Generator) -> Array:
        for _ in range(SWEEPS if self.has_started else BURN):
            sweep(self.logits, right, total, rng)
        self.has_started = True
        logits = np.clip(self.logits.total(), -MAX_LOGIT, MAX_LOGIT)
        return np.asarray(expit(logits))

    def _precision(
        self, known: Array, unknown: Array, shift: Array, rng: np.random.Generator
    ) -> Array:
        """Draw the precision of rules, less certain where votes are dispersed.

        Numbers whose mean is about one, multiplied by a log-normal variable of log variance log φ,
        are φ times as dispersed as independent votes; log-odds err by as much. The error is drawn
        given the votes on items of known labels.
        """
        n_known, number = known.sum(axis=1), unknown.sum(axis=1)
        if self.dispersion <= 1.0:
            right = known[:, 1] + np.clip(unknown[:, 1] + shift * number, 0.0, number)
            return self._move(right[:, None], (n_known + number)[:, None], rng)[:, 0]
        precision = self._move(unknown[:, 1:], number[:, None], rng)
        logits = logit(precision) + ERRORS * np.sqrt(np.log(self.dispersion))  # (raters, errors)
        height = known[:, 1:] * logits - n_known[:, None] * np.logaddexp(0.0, logits)
        height += rng.gumbel(size=height.shape) - 0.5 * ERRORS**2  # the highest is a draw
        drawn = np.take_along_axis(logits, height.argmax(axis=1)[:, None], axis=1)[:, 0]
        return np.asarray(expit(drawn))

    def _mix(self, total: Array, rng: np.random.Generator) -> Array:
        """Draw the shares of the classes among the items that each rater meets."""
        rounded = np.rint(total)
        self.mix_values |= self.mixes.draw(self.mix_values, {"mix": rounded}, rng)
        prior = np.exp(self.mix_values["mean"]) * self.mix_values["concentration"]
        return np.exp(draw_dirichlet(np.maximum(prior + total, 1e-12), rng))


def summaries(confusion: Array, mix: Array) -> dict[str, Array]:
    """Return measures of confusion matrices (…, raters, classes, labels) by name.

    ``mix`` has the shares of the classes among the items of a rater (…, raters, classes).
    """
    recall = np.diagonal(confusion, axis1=-2, axis2=-1)
    n_classes = recall.shape[-1]
    answered = mix[..., None] * confusion
    accuracy = (mix * recall).sum(axis=-1)
    measures = {"accuracy": accuracy, "balanced_accuracy": recall.mean(axis=-1)}
    if n_classes == 2:
        measures |= {"sensitivity": recall[..., 1], "specificity": recall[..., 0]}
    else:
        wrong = answered.sum(axis=-2) - np.diagonal(answered, axis1=-2, axis2=-1)
        specificity = 1.0 - wrong / np.maximum(1.0 - mix, 1e-12)
        measures |= {"sensitivity": recall, "specificity": specificity}
    return measures | {"confusion": confusion, "bias": answered.sum(axis=-2) - mix}


def _as_dataset(drawn: dict[str, Array], raters: Any, classes: Any) -> xr.Dataset:
    dims = {"confusion": ("rater", "class", "answer"), "prevalence": ("class",)}
    coords = {"rater": raters, "class": classes, "answer": classes}
    variables = {}
    for name, values in drawn.items():
        names = dims.get(name, ("rater", "class")[: values.ndim - 2])
        variables[name] = ("chain", "draw", *names), values
    used = {dim for names, _ in variables.values() for dim in names}
    return xr.Dataset(variables, {dim: value for dim, value in coords.items() if dim in used})


def dispersion_of(result: xr.DataTree) -> float:
    """Return how dispersed the votes of rules are, measured here if no model of the result has."""
    nodes = result.subtree
    stated = [float(node.attrs["dispersion"]) for node in nodes if "dispersion" in node.attrs]
    if stated or not is_of_rules(result):
        return max(stated, default=1.0)
    probability = label_probabilities(result).transpose("item", "class").values
    return dispersion_given_labels(observed_labels(result), probability)


def _of_parameters(result: xr.DataTree) -> xr.Dataset:
    """Return the same from parameters, where labels have no joint draws."""
    draws, rows = all_draws(result), observed_rows(result)
    confusion, sensitivity = named(draws, "confusion"), named(draws, "sensitivity")
    has_labels = rows is not None and schema.LABEL_POSTERIOR in result.children
    has_labels = has_labels and of_all_draws(result)
    if has_labels and (is_of_rules(result) or (confusion is None and sensitivity is None)):
        return _expected(result)
    classes = class_names(result)
    if sensitivity is None or (
        confusion is not None and confusion.dims[2:] == ("rater", "class", "answer")
    ):
        confusion = stored_variable(draws, "confusion")
        values = confusion.transpose("chain", "draw", "rater", "class", "answer").values
    else:
        values = _two_by_two(result, sensitivity)
    mix = np.full(values.shape[2:4], 1.0 / len(classes))
    if rows is not None and has_labels:
        mix = _expected_mix(result, rows, values.shape[2])
    measures = summaries(values, np.broadcast_to(mix, values.shape[:-1]))
    prevalence = named(draws, "prevalence")
    if prevalence is not None and prevalence.dims == ("chain", "draw", "class"):
        measures["prevalence"] = prevalence.values
    raters = draws["rater"].values
    return _as_dataset(measures, raters, classes)


def _two_by_two(result: xr.DataTree, sensitivity: xr.DataArray) -> Array:
    """Return confusion matrices of sensitivities; wrong labels are split evenly."""
    dims = ("chain", "draw", "rater")
    if "class" in sensitivity.dims:
        recall = sensitivity.transpose(*dims, "class").values
    else:
        specificity = stored_variable(all_draws(result), "specificity")
        pair = specificity.transpose(*dims).values, sensitivity.transpose(*dims).values
        recall = np.stack(pair, axis=-1)
    n_classes = recall.shape[-1]
    confusion = np.repeat(((1.0 - recall) / (n_classes - 1))[..., None], n_classes, axis=-1)
    confusion[..., range(n_classes), range(n_classes)] = recall
    return confusion


def _expected_mix(result: xr.DataTree, rows: tuple[Any, ...], n_raters: int) -> Array:
    """Return the expected shares of the classes among the items of every rater."""
    item, rater, _ = rows
    probability = label_probabilities(result).transpose("item", "class").values
    copies = copies_of(result, len(probability))
    weighted = (probability * copies[:, None])[item]
    mix = np.stack([np.bincount(rater, column, n_raters) for column in weighted.T], axis=1)
    mix += probability.mean(axis=0) * 1e-9  # of all items, for raters without responses
    shares: Array = mix / mix.sum(axis=1, keepdims=True)
    return shares


def _expected(result: xr.DataTree) -> xr.Dataset:
    """Return the expected share of right responses, one draw without uncertainty."""
    item, rater, label = require_rows(result, "The accuracy of raters")
    probability = label_probabilities(result).transpose("item", "class").values
    known, copies = constants(result), copies_of(result, len(probability))
    size = known.sizes["rater"]
    number = np.bincount(rater, copies[item], size)
    right = np.bincount(rater, probability[item, label] * copies[item], size)
    accuracy = np.divide(right, number, out=np.full(size, np.nan), where=number > 0)
    return _as_dataset({"accuracy": accuracy[None, None]}, known["rater"].values, [])

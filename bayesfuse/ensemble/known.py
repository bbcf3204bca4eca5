"""Known labels on top of the models of ``bf.fuse``, which are fitted without them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.data.describing import FEW, in_one_line
from bayesfuse.data.known import gold_labels
from bayesfuse.data.names import listed
from bayesfuse.data.tags import legal_tags, spans_begin_with_b
from bayesfuse.decisions import errors_after
from bayesfuse.ensemble.average import CHAINS, MIXED, SHARED
from bayesfuse.ensemble.candidates import Inputs
from bayesfuse.errors import ModelError
from bayesfuse.inference.sample import sample
from bayesfuse.models import WeightedVotes
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.joint_labels import GROUP, reweighted
from bayesfuse.results.summaries import interval

DRAWS = 100  # draws of each chain, each with a draw of all labels
LARGE = 5e7  # probabilities in all draws of a chain, above which there are fewer
FEWEST = 25

MORE = (10, 50, 100)  # additional known labels of which the errors are told
SHOWN = 3  # raters named as believed most and least
CHOSEN = 3.0  # standard errors between known and other items above which they are said to differ


def hold_out_gold(inputs: Inputs, gold_error: float = 0.0) -> Inputs:
    """Return inputs with known labels in ``known``, where they are used on top of the models."""
    if inputs.gold is None:
        return inputs
    if inputs.graph is not None or not inputs.responses.is_unweighted:
        if gold_error:
            raise ModelError(
                "On graphs and in tables of counts models take known labels as certain: leave out "
                f"the doubtful ones. Got: gold_error={gold_error:g}."
            )
        return inputs
    if not (inputs.answered & (gold_labels(inputs.responses, inputs.gold) >= 0)).any():
        return inputs
    return replace(inputs, gold=None, known=inputs.gold, gold_error=gold_error)


def mend_tags(inputs: Inputs) -> Inputs:
    """Return inputs whose known tags are legal: a span of known tags begins with its B."""
    responses, sequences = inputs.responses, inputs.sequences
    if not inputs.gold or sequences is None or not spans_begin_with_b(responses, sequences):
        return inputs
    known_tags = gold_labels(responses, inputs.gold)
    legal = legal_tags(known_tags, responses, sequences)
    at = np.flatnonzero(legal != known_tags)
    tags = listed(responses.classes[legal[at]])
    mended = dict(zip(listed(responses.items[at]), tags, strict=True))
    return replace(inputs, gold=dict(inputs.gold) | mended, mended=mended)


def improve(children: dict[str, Any], inputs: Inputs, seed: int) -> list[str]:
    """Replace labels and raters of an answer by those given known labels; return the words."""
    words = []
    if inputs.mended:
        tags = [f"{in_one_line(item)} as {in_one_line(tag)}" for item, tag in inputs.mended.items()]
        more = ", …" if len(tags) > FEW else ""
        words.append(
            "Known tags that continue a span that has not begun were read as its beginning "
            f"({len(tags):,}): item {', '.join(tags[:FEW])}{more}."
        )
    if inputs.known is None:
        return words
    mixed = {name: children[name] for name in ("label_posterior", "constant_data")}
    drawn, members = children.get(GROUP), {MIXED: xr.DataTree.from_dict(mixed)}
    model = WeightedVotes(inputs.responses, inputs.known, members, gold_error=inputs.gold_error)
    result = sample(model, _draws(inputs), chains=CHAINS, random_seed=seed, progressbar=False)
    shared = [*SHARED, "accuracy"]
    for name in ("label_posterior", GROUP, "constant_data"):
        children[name] = result[name].dataset
    if inputs.sequences is not None and drawn is not None:  # keep what holds labels together
        labels, data = result["label_posterior"].dataset, mixed["constant_data"]
        children[GROUP] = reweighted(drawn, labels, inputs.sequences)
        order = {name: data[name] for name in data if str(name).startswith("sequence_")}
        children["constant_data"] = children["constant_data"].assign(order)
    children.setdefault("observed_data", result["observed_data"].dataset)  # vote shares have none
    children["posterior"] = result["posterior"].dataset[shared]
    children["known_labels"] = result
    return [*known_label_findings(result, model), *words]


def _draws(inputs: Inputs) -> int:
    size = inputs.responses.n_items * inputs.responses.n_classes
    return int(np.clip(LARGE / size, FEWEST, DRAWS))


def code(inputs: Inputs, seed: int) -> list[str]:
    """Return the calls that do the same to an average named ``fused``."""
    if inputs.known is None:
        return []
    doubt = f", gold_error={inputs.gold_error:g}" if inputs.gold_error else ""
    return [
        "# known labels, on top of the models, which have not seen them",
        f'model = WeightedVotes(responses, gold, {{"{MIXED}": fused}}{doubt})',
        f"fused = bf.sample(model, draws={_draws(inputs)}, chains={CHAINS}, random_seed={seed})",
    ]


def known_label_findings(result: xr.DataTree, model: WeightedVotes) -> list[str]:
    """Return what known labels said of the models and raters, in words."""
    items, label = model.known.items, model.known.label
    before = np.exp(model.terms.log_mean[items])
    before /= before.sum(axis=1, keepdims=True)
    agree = int((before.argmax(axis=1) == label).sum())
    words = [
        f"{len(items):,} known labels of items with responses: the models alone have {agree:,} of "
        "them right."
    ]
    if (gain := _gain(result, np.log(before[np.arange(len(label)), label]))) is not None:
        words.append(gain)
    draws = result["posterior"].dataset
    corrected = draws["corrected"].values.astype(bool)
    line = f"The probability that the models need no correction is {1 - corrected.mean():.2f}"
    if corrected.mean() > 0.2:
        trust = draws["trust"].values[corrected]
        draws_of_trust = xr.DataArray(trust[None], dims=("chain", "draw"))
        low, high = map(float, interval(draws_of_trust))
        line += f"; else their log-odds are multiplied by {trust.mean():.2f} ({low:.2f}–{high:.2f})"
    words.append(f"{line}.")
    if corrected.mean() > 0.8 and draws.sizes["rater"] > 2 * SHOWN:
        order = np.argsort(-draws["weight"].mean(("chain", "draw")).values, kind="stable")
        known = order[np.isin(order, model.terms.rows(items)[1].indices)]
        names = [in_one_line(name) for name in draws["rater"].values[known]]
        if len(names) > 2 * SHOWN:
            words.append(
                f"Believed more than the models do: {', '.join(names[:SHOWN])}; less: "
                f"{', '.join(names[-SHOWN:][::-1])}."
            )
    return [*words, *model.notes.values(), *_chosen(model), *_more(result)]


def _more(result: xr.DataTree) -> list[str]:
    """Return how many labels are expected to be wrong after more are known."""
    table = errors_after(result, MORE, random_seed=0)
    table = table[table["labels"].isin(MORE)]
    if table.empty:
        return []
    ranges = table.apply(lambda row: f"{row.wrong:.0f} ({row.low:.0f}–{row.high:.0f})", axis=1)
    random, uncertain = ranges.groupby(table["aim"], sort=False).agg(", ".join)
    numbers = ", ".join(f"{number:.0f}" for number in table["labels"].unique())
    return [
        f"After {numbers} more known labels, {random} are expected to be wrong if items are chosen "
        f"at random, {uncertain} if the least certain are. What they teach of raters comes on top."
    ]


def _gain(result: xr.DataTree, before: Array) -> str | None:
    """Return the loss on known items left out, with and without the others."""
    import arviz as az

    if len(before) < 5:
        return None
    with warnings.catch_warnings():  # nothing depends on these numbers
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto", UserWarning)
        after = az.loo(result, pointwise=True, reff=1.0).elpd_i.values.ravel()
    gain = after - before
    error = gain.std(ddof=1) / np.sqrt(len(before))
    return (
        f"Log-loss on a known item that is left out: {-after.mean():.2f} with the other known "
        f"labels, {-before.mean():.2f} without (difference {-gain.mean():+.2f} ± {error:.2f})."
    )


def _chosen(model: WeightedVotes) -> list[str]:
    """Return a warning if known items look chosen: surer or less sure than the others."""
    average = np.exp(model.terms.log_mean)
    top = average.max(axis=1) / average.sum(axis=1)
    not_known = model.terms.answered.copy()
    not_known[model.known.items] = False
    known, others = top[model.known.items], top[not_known]
    if len(known) < 10 or len(others) < 10:
        return []
    difference = known.mean() - others.mean()
    error = np.sqrt(known.var(ddof=1) / len(known) + others.var(ddof=1) / len(others))
    if abs(difference) < CHOSEN * max(error, 1e-12):
        return []
    how = "surer" if difference > 0 else "less sure"
    return [
        f"Known items look chosen, not random: the models are {how} of them than of the others "
        f"({known.mean():.2f} and {others.mean():.2f}). Expected errors hold for items like the "
        "known ones; bf.class_shares(chosen=…) takes those that are not typical."
    ]

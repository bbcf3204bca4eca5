"""Known labels on top of the models of ``bf.fuse``, which are fitted without them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.checks.advice import listing
from bayesfuse.data.describing import in_one_line
from bayesfuse.decisions import errors_after
from bayesfuse.ensemble.average import MIXED, SHARED
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.narrative import Finding
from bayesfuse.ensemble.schedule import CHAINS
from bayesfuse.inference.sample import sample
from bayesfuse.models import WeightedVotes
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.joint_labels import GROUP, reweighted
from bayesfuse.results.summaries import interval

DRAWS = 100  # draws of each chain, each with a draw of all labels
MAX_PROBABILITIES = 5e7  # in all draws of a chain, of which larger tables have fewer
MIN_DRAWS = 25

MORE_GOLD = (10, 50, 100)  # additional known labels after which errors are expected
MIN_KNOWN = 5  # known items of which a loss is estimated; twice as many show a selection
LISTED = 3  # raters named at either end, of those with the highest and lowest weights
SELECTION_THRESHOLD = 3.0  # standard errors of the difference between known and other items


@dataclass(frozen=True)
class Correction:
    """Groups of an answer that known labels replace, and what these show of the models."""

    groups: dict[str, xr.Dataset | xr.DataTree] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def correct(groups: Mapping[str, Any], inputs: Inputs, seed: int) -> Correction:
    """Return the labels and raters of an answer given the known labels."""
    mended = []
    if inputs.mended:
        tags = [f"{in_one_line(item)} as {in_one_line(tag)}" for item, tag in inputs.mended.items()]
        mended = [Finding("mended tags", {"count": len(tags), "tags": listing(tags)})]
    if inputs.known is None:
        silent = inputs.n_known and not inputs.has_judging_gold
        unused = [Finding("gold without responses", {"known": inputs.n_known})] if silent else []
        return Correction({}, [*unused, *mended])
    members = {name: groups[name] for name in ("label_posterior", "constant_data")}
    average = {MIXED: xr.DataTree.from_dict(members)}
    model = WeightedVotes(
        inputs.responses,
        inputs.known,
        average,
        gold_error=inputs.gold_error,
        sequences=inputs.sequences,
    )
    result = sample(model, _draws(inputs), chains=CHAINS, random_seed=seed, progressbar=False)
    replaced: dict[str, Any] = {
        name: result[name].dataset for name in ("label_posterior", GROUP, "constant_data")
    }
    if inputs.sequences is not None and GROUP in groups:  # keep the dependence between labels
        labels, data = replaced["label_posterior"], groups["constant_data"]
        replaced[GROUP] = reweighted(groups[GROUP], labels, inputs.sequences)
        order = {name: data[name] for name in data if str(name).startswith("sequence_")}
        replaced["constant_data"] = replaced["constant_data"].assign(order)
    if "observed_data" not in groups:  # of vote shares
        replaced["observed_data"] = result["observed_data"].dataset
    replaced["posterior"] = result["posterior"].dataset[list(SHARED)]
    replaced["known_labels"] = result
    return Correction(replaced, [*gold_findings(result, model), *mended])


def _draws(inputs: Inputs) -> int:
    size = inputs.responses.n_items * inputs.responses.n_classes
    return int(np.clip(MAX_PROBABILITIES / size, MIN_DRAWS, DRAWS))


def code(inputs: Inputs, seed: int) -> list[str]:
    """Return the calls that do the same to an average named ``fused``."""
    if inputs.known is None:
        return []
    options = f", gold_error={inputs.gold_error:g}" if inputs.gold_error else ""
    options += ", sequences=sequences" if inputs.sequences is not None else ""
    return [
        "# known labels, on top of the models, which are fitted without them",
        f'model = WeightedVotes(responses, gold, {{"{MIXED}": fused}}{options})',
        f"fused = bf.sample(model, draws={_draws(inputs)}, chains={CHAINS}, random_seed={seed})",
    ]


def gold_findings(result: xr.DataTree, model: WeightedVotes) -> list[Finding]:
    """Return what the known labels show of the models and the raters."""
    items, label = model.known.items, model.known.label
    before = np.exp(model.terms.log_mean[items])
    before /= before.sum(axis=1, keepdims=True)
    n_right = int((before.argmax(axis=1) == label).sum())
    findings = [Finding("right on gold", {"known": len(items), "right": n_right})]
    findings += _held_out_loss(result, np.log(before[np.arange(len(label)), label]))
    draws = result["posterior"].dataset
    corrected = draws["corrected"].values.astype(bool)
    values: dict[str, Any] = {"none": 1 - corrected.mean()}
    if corrected.mean() > 0.2:
        trust = draws["trust"].values[corrected]
        low, high = map(float, interval(xr.DataArray(trust[None], dims=("chain", "draw"))))
        values |= {"trust": trust.mean(), "low": low, "high": high}
    findings.append(Finding("correction" if "trust" in values else "no correction", values))
    if corrected.mean() > 0.8:
        order = np.argsort(-draws["weight"].mean(("chain", "draw")).values, kind="stable")
        has_gold = np.isin(order, model.terms.rows(items)[1].indices)
        names = [in_one_line(name) for name in draws["rater"].values[order[has_gold]]]
        if len(names) > 2 * LISTED:
            ends = {"higher": names[:LISTED], "lower": names[-LISTED:][::-1]}
            words = {end: ", ".join(raters) for end, raters in ends.items()}
            findings.append(Finding("rater weights", words))
    findings += [Finding("verdict", {"verdict": note}) for note in model.notes.values()]
    return [*findings, *_selection(model), *_errors_after_more_gold(result)]


def _errors_after_more_gold(result: xr.DataTree) -> list[Finding]:
    """Return how many labels are expected to be wrong after more are known."""
    table = errors_after(result, MORE_GOLD, random_seed=0)
    table = table[table["labels"].isin(MORE_GOLD)]
    if table.empty:
        return []
    ranges = table.apply(lambda row: f"{row.wrong:.0f} ({row.low:.0f}–{row.high:.0f})", axis=1)
    random, uncertain = ranges.groupby(table["aim"], sort=False).agg(", ".join)
    numbers = ", ".join(f"{number:.0f}" for number in table["labels"].unique())
    return [Finding("more gold", {"numbers": numbers, "random": random, "uncertain": uncertain})]


def _held_out_loss(result: xr.DataTree, before: Array) -> list[Finding]:
    """Return the loss on known items left out, with and without the others."""
    import arviz as az

    if len(before) < MIN_KNOWN:
        return []
    # draws without a correction have equal likelihoods, from which no tail can be estimated; refits
    # without the label gave a loss that differed by .002 to .05 on five tables
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto", UserWarning)
        after = az.loo(result, pointwise=True, reff=1.0).elpd_i.values.ravel()
    gain = after - before
    values = {
        "loss": -after.mean(),
        "models_alone": -before.mean(),
        "difference": -gain.mean(),
        "error": gain.std(ddof=1) / np.sqrt(len(before)),
        "likely": np.exp(after.mean()),  # geometric means
        "alone": np.exp(before.mean()),
    }
    return [Finding("held-out loss", values)]


def _selection(model: WeightedVotes) -> list[Finding]:
    """Return a finding if known items look chosen: surer or less sure than the others."""
    average = np.exp(model.terms.log_mean)
    top = average.max(axis=1) / average.sum(axis=1)
    is_known = np.zeros(len(top), dtype=bool)
    is_known[model.known.items] = True
    known, others = top[model.known.items], top[model.terms.answered & ~is_known]
    if min(len(known), len(others)) < 2 * MIN_KNOWN:
        return []
    difference = known.mean() - others.mean()
    error = np.sqrt(known.var(ddof=1) / len(known) + others.var(ddof=1) / len(others))
    if abs(difference) < SELECTION_THRESHOLD * max(error, 1e-12):
        return []
    how = "surer" if difference > 0 else "less sure"
    return [Finding("selected gold", {"how": how, "known": known.mean(), "others": others.mean()})]

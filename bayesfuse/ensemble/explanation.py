"""The calls of the public interface that give an answer of ``bf.fuse``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses
from bayesfuse.ensemble import diagnostics, known
from bayesfuse.ensemble.average import PREDICTED
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.ensemble.fits import SHARED_START, Fits
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.narrative import Finding
from bayesfuse.ensemble.schedule import CHAINS
from bayesfuse.results.rater_table import VOTES

ARGUMENTS = "sequences", "graph", "groups", "covariates", "gold"  # of bf.fuse and the models


def code_of_answer(
    inputs: Inputs,
    fits: Fits,
    evidence: Evidence,
    findings: Mapping[str, list[Finding]],
    weights: Mapping[str, float],
    seed: int,
    notes: list[str],
) -> str:
    """Return the calls of the public interface that give this answer, with notes on it."""
    complete, groups = fits.complete, fits.inputs.groups
    names = sorted({fit.candidate.model for fit in complete})
    arguments = [name for name in ARGUMENTS if getattr(inputs, name) is not None]
    has_estimated_groups = evidence.groups and groups == evidence.groups
    if inputs.known is not None:
        names, arguments = [*names, "WeightedVotes"], [*arguments, "gold"]
    lines = ["import bayesfuse as bf"]
    are_of_part = fits.are_of_part(inputs)
    imports = ["import numpy as np"] if are_of_part else []
    imports += ["import pandas as pd"] if "pd." in inputs.calls else []
    if imports:
        lines = [*imports, "", *lines]
    if names:
        lines.append(f"from bayesfuse.models import {', '.join(names)}")
    lines += ["", inputs.calls]
    if arguments:
        lines.append(f"# {', '.join(arguments)}: your arguments of bf.fuse")
    if has_estimated_groups:
        lines.append(f"groups = {dict(evidence.groups)!r}")
    if inputs.mended:
        lines.append(f"gold = dict(gold) | {dict(inputs.mended)!r}")
    gold_argument = ", gold" if inputs.gold is not None else ""
    if any(fit.start == SHARED_START for fit in complete):
        gold = gold_argument.replace("gold", "gold=gold")
        lines.append(f"{SHARED_START} = bf.find_map(bf.models.DawidSkene(responses{gold}))")
    lines += [f"# {note}" for note in notes]
    if are_of_part:
        lines += _part(inputs.responses, fits.inputs.responses, seed)
    lines.append("results = {}")
    for fit in complete:
        lines += [f"# {fit.candidate.why}", f"model = {fit.candidate.code(fits.inputs)}"]
        if fit.size is None:
            settings = {"start": fit.start} | {
                name: repr(value) for name, value in (fit.settings or {}).items()
            }
            options = ", ".join(f"{name}={value}" for name, value in settings.items())
            lines.append(f'result = bf.fit(model, "cavi", {options})')
        else:
            lines.append(
                f"result = bf.sample(\n    model, draws={fit.size.draws}, tune={fit.size.tune}, "
                f"chains={CHAINS}, start={fit.start},\n    "
                f'random_seed={seed}, precision="single", quiet=True,\n)'
            )
        calls = [finding.call for finding in findings.get(fit.name, []) if finding.call]
        lines += [f"print({call}.verdict)" for call in calls]
        if fit is fits.with_types and not are_of_part:
            draws = diagnostics.replicated(fits.inputs)
            lines.append(f"difficulty = bf.decisions.difficulty(result, model, draws={draws})")
        lines += [f"results[{fit.name!r}] = result", ""]
    if are_of_part:
        predicted = f"bf.predict(result, table, draws={PREDICTED})"
        lines += [
            f"results = {{name: {predicted} for name, result in results.items()}}",
            "responses = table",
        ]
    if VOTES in weights:
        lines.append(f"results[{VOTES!r}] = bf.vote_shares(responses{gold_argument})")
    shares = ", ".join(f"{name!r}: {weight:.6g}" for name, weight in weights.items())
    lines += [
        f"fused = bf.average(results, {{{shares}}})",
        *known.code(inputs, seed),
        "print(bf.label_probabilities(fused))",
        "print(bf.decisions.rank_items(fused))",
    ]
    return "\n".join(lines)


def _part(table: Responses, part: Responses, seed: int) -> list[str]:
    """Return the calls that take a part of the items: random ones, and some for their raters."""
    order = np.random.default_rng(seed).permutation(table.n_items)
    is_taken = np.isin(order, places(part.items, table.items))
    n_random = int(np.append(is_taken, False).argmin())
    more = np.sort(order[n_random:][is_taken[n_random:]]).tolist()
    taken = f"order[:{n_random}]"
    return [
        "table = responses",
        f"order = np.random.default_rng({seed}).permutation(table.n_items)",
        *([f"taken = np.append({taken}, {more})"] if more else []),
        f"responses = table.take(np.sort({'taken' if more else taken}))",
    ]

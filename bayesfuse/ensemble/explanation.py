"""The calls of the public interface that give an answer of ``bf.fuse``."""

from __future__ import annotations

from collections.abc import Mapping

from bayesfuse.ensemble import known, narrative
from bayesfuse.ensemble.average import VOTES
from bayesfuse.ensemble.candidates import Inputs
from bayesfuse.ensemble.schedule import CHAINS, Fit


def code_of_answer(
    inputs: Inputs,
    done: list[Fit],
    typed: Fit | None,
    weights: Mapping[str, float],
    seed: int,
    notes: list[str],
) -> str:
    """Return the calls of the public interface that give this answer, with notes on it."""
    names = sorted({fit.candidate.model for fit in done})
    others = ("sequences", "graph", "groups", "covariates", "gold")
    found = dict(inputs.evidence.groups)
    found = found if found and inputs.groups == found else {}
    given = [n for n in others if getattr(inputs, n) is not None and not (n == "groups" and found)]
    if inputs.known is not None:
        names, given = [*names, "WeightedVotes"], [*given, "gold"]
    lines = ["import bayesfuse as bf"]
    if names:
        lines.append(f"from bayesfuse.models import {', '.join(names)}")
    lines += ["", inputs.calls]
    if given:
        lines.append(f"# {', '.join(given)}: your arguments of bf.fuse")
    if found:
        lines.append(f"groups = {found!r}")
    if inputs.mended:
        lines.append(f"gold = dict(gold) | {dict(inputs.mended)!r}")
    lines += [*(f"# {note}" for note in notes), "results = {}"]
    for fit in done:
        size = f"draws={fit.size.draws}, tune={fit.size.tune}, chains={CHAINS}" if fit.size else ""
        call = (
            f"result = bf.sample(\n    model, {size}, start={fit.candidate.start!r},\n    "
            f'random_seed={seed}, precision="single", quiet=True,\n)'
        )
        lines += [
            f"# {fit.candidate.why}",
            f"model = {fit.candidate.code(inputs)}",
            f"result = bf.fit(model, {fit.code})" if fit.code else call,
            *(f"print({each.call}.verdict)" for each in fit.checks if each.call),
            *(
                [f"difficulty = bf.difficulty(result, model, draws={narrative.REPLICATED})"]
                * (fit is typed)
            ),
            f"results[{fit.candidate.name!r}] = result",
            "",
        ]
    if VOTES in weights:
        told = ", gold" if inputs.gold is not None else ""
        lines.append(f"results[{VOTES!r}] = bf.vote_shares(responses{told})")
    shares = ", ".join(f"{name!r}: {weight:.6g}" for name, weight in weights.items())
    lines += [
        f"fused = bf.average(results, {{{shares}}})",
        *known.code(inputs, seed),
        "print(bf.label_probabilities(fused))",
        "print(bf.decisions.rank_items(fused))",
    ]
    return "\n".join(lines)

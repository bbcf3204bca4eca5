"""The calls of the public interface that give an answer of ``bf.fuse``."""

from __future__ import annotations

from collections.abc import Mapping

from bayesfuse.ensemble import known, narrative
from bayesfuse.ensemble.candidates import Inputs
from bayesfuse.ensemble.schedule import CHAINS, Fit
from bayesfuse.results.rater_table import VOTES


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
    inferred = dict(inputs.evidence.groups)
    inferred = inferred if inferred and inputs.groups == inferred else {}
    arguments = [
        n for n in others if getattr(inputs, n) is not None and not (n == "groups" and inferred)
    ]
    if inputs.known is not None:
        names, arguments = [*names, "WeightedVotes"], [*arguments, "gold"]
    lines = ["import bayesfuse as bf"]
    if names:
        lines.append(f"from bayesfuse.models import {', '.join(names)}")
    lines += ["", inputs.calls]
    if arguments:
        lines.append(f"# {', '.join(arguments)}: your arguments of bf.fuse")
    if inferred:
        lines.append(f"groups = {inferred!r}")
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
            *(f"print({check.call}.verdict)" for check in fit.checks if check.call),
            *(
                [
                    "difficulty = bf.decisions.difficulty("
                    f"result, model, draws={narrative.REPLICATED})"
                ]
                * (fit is typed)
            ),
            f"results[{fit.candidate.name!r}] = result",
            "",
        ]
    if VOTES in weights:
        gold_argument = ", gold" if inputs.gold is not None else ""
        lines.append(f"results[{VOTES!r}] = bf.vote_shares(responses{gold_argument})")
    shares = ", ".join(f"{name!r}: {weight:.6g}" for name, weight in weights.items())
    lines += [
        f"fused = bf.average(results, {{{shares}}})",
        *known.code(inputs, seed),
        "print(bf.label_probabilities(fused))",
        "print(bf.decisions.rank_items(fused))",
    ]
    return "\n".join(lines)

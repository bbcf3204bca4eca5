"""An answer as plain calls of the public interface."""

from __future__ import annotations

from collections.abc import Mapping

from bayesfuse.answer.candidates import Inputs
from bayesfuse.answer.fits import Fit
from bayesfuse.answer.weights import VOTES


def of_answer(
    inputs: Inputs, done: list[Fit], typed: Fit | None, weights: Mapping[str, float], seed: int
) -> str:
    """Return the calls that give this answer."""
    names = sorted({fit.candidate.model for fit in done})
    lines = [
        "import bayesfuse as bf",
        f"from bayesfuse.models import {', '.join(names)}",
        "",
        *_given(inputs),
        "results = {}",
    ]
    for fit in done:
        size = fit.size.code() if fit.size else ""
        lines += [
            f"# {fit.candidate.why}",
            f"model = {fit.candidate.code(inputs)}",
            f"result = bf.sample(model, {size}, random_seed={seed}, "
            'precision="single", quiet=True)',
            *(f"print({each.call}.verdict)" for each in fit.checks if each.call),
            *(["difficulty = bf.difficulty(result, model)"] if fit is typed else []),
            f"results[{fit.candidate.name!r}] = result",
            "",
        ]
    if VOTES in weights:
        lines.append(f"results[{VOTES!r}] = {_votes(inputs)}")
    shares = ", ".join(f"{name!r}: {weight:.6g}" for name, weight in weights.items())
    lines += [
        f"fused = bf.average(results, {{{shares}}})",
        "print(bf.label_probabilities(fused))",
        "print(bf.decisions.rank_items(fused))",
    ]
    return "\n".join(lines)


def _given(inputs: Inputs) -> list[str]:
    """Return what the names of the user's data are, as comments."""
    lines = ["# responses is your table: bf.Responses.from_long(frame, item=…, rater=…, label=…)"]
    others = ("sequences", "graph", "groups", "covariates", "gold")
    names = [name for name in others if getattr(inputs, name) is not None]
    return [*lines, *([f"# {', '.join(names)}: as you gave them"] if names else [])]


def of_votes(inputs: Inputs) -> str:
    """Return the calls that give vote shares."""
    return f"import bayesfuse as bf\n\nfused = {_votes(inputs)}"


def _votes(inputs: Inputs) -> str:
    return f"bf.vote_shares(responses{', gold' if inputs.gold is not None else ''})"

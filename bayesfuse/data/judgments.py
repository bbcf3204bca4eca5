"""Judgments of MT-Bench, FastChat and Chatbot Arena as rows of item, judge and verdict."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pandas.api.types import is_list_like

MODELS = (("model_1", "model_2"), ("model_a", "model_b"))
WINNERS = {"model_1": "A", "model_a": "A", "model_2": "B", "model_b": "B"}
TURNED = {"A": "B", "B": "A"}
FAILED = -1  # the score of FastChat if the judge gave none


def standard_verdicts(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Return judgments as a table of verdicts and its arguments of ``read_verdicts``.

    Items are questions (with turns) and systems. None if the table has another layout.
    """
    question = [name for name in ("question_id", "id") if name in frame][:1]
    place = [*question, *(["turn"] if "turn" in frame else [])]
    models = next((pair for pair in MODELS if {*pair} <= {*frame}), None)
    if not question:
        return None
    if models is not None:
        return _pairs(frame, place, models)
    if not {"model", "judge", "score"} <= {*frame}:
        return None
    scores = frame[[*place, "model", "score"]].assign(judge=_judges(frame))
    scores["score"] = scores["score"].mask(scores["score"] == FAILED)
    return scores, {"item": [*place, "model"], "judge": "judge", "verdict": "score"}


def _pairs(
    frame: pd.DataFrame, place: list[str], models: tuple[str, str]
) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Return verdicts on pairs of systems; A is the first in the alphabet if a pair has two orders.

    Judges saw the other order of these if their row has it, or is of the second game, not of both.
    """
    first, second = (frame[model].astype(str) for model in models)
    is_turned = first > second
    alphabetical = first.where(~is_turned, second), second.where(~is_turned, first)
    keys = [*(frame[name] for name in place), *alphabetical]
    is_turned &= is_turned.groupby(keys).transform("nunique") > 1
    names = first.where(~is_turned, second), second.where(~is_turned, first)
    has_order = "m1_score" not in frame  # which scores of single answers have not
    parts = []
    for judges, winner, is_swapped in _winners(frame):
        verdict = winner.replace(WINNERS).mask(winner == first, "A").mask(winner == second, "B")
        # verdicts on swapped outputs name the place, as read_verdicts turns them back
        saw_other = (is_turned ^ is_swapped) & has_order
        verdict = verdict.where(is_turned == saw_other, verdict.replace(TURNED))
        columns = {"judge": judges, "verdict": verdict, "is_swapped": saw_other}
        parts.append(frame[place].assign(model_a=names[0], model_b=names[1], **columns))
    if not parts:
        return None
    settings = {"item": [*place, "model_a", "model_b"], "judge": "judge", "verdict": "verdict"}
    return pd.concat(parts, ignore_index=True), settings | {"swapped": "is_swapped"}


def _winners(frame: pd.DataFrame) -> list[tuple[Any, pd.Series, bool]]:
    """Return the winners by judge, and whether the judge saw the systems in the other order."""
    if "g1_winner" in frame:
        orders = [("g1_winner", False), ("g2_winner", True)]
        orders = orders[:1] if "m1_score" in frame or "g2_winner" not in frame else orders
        return [(_judges(frame), frame[name], is_swapped) for name, is_swapped in orders]
    if "winner" in frame:
        return [(_judges(frame), frame["winner"], False)]
    columns = {name.removeprefix("winner_"): frame[name]
               for name in frame if str(name).startswith("winner_")}  # fmt: skip
    if {"model_a", "model_b"} <= {*columns}:  # a column of 0 and 1 for every outcome
        outcomes = pd.DataFrame(columns).astype(float).fillna(0.0)
        winner = outcomes.idxmax(axis=1).where(outcomes.max(axis=1) > 0.0)  # else not judged
        return [(_judges(frame), winner, False)]
    return [(judge, winner, False) for judge, winner in columns.items()]


def _judges(frame: pd.DataFrame) -> Any:
    """Return names of judges: models without the names of their prompts, or all one."""
    if "judge" not in frame:
        return "judge"
    return frame["judge"].map(lambda name: name[0] if is_list_like(name) else name)

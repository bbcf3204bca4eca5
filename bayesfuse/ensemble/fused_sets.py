"""``bf.fuse`` of label sets: one answer for items that may have several labels."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.describing import as_columns, bullet, in_one_line, paragraph
from bayesfuse.data.known_sets import known_answers
from bayesfuse.data.label_sets import LabelSets
from bayesfuse.ensemble.candidates import Selection, Side
from bayesfuse.ensemble.diagnostics import chain_findings, label_precision
from bayesfuse.ensemble.fits import NO_TIME, Fits, Session, run
from bayesfuse.ensemble.fused import Fused, page_path
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.members import KNOWN, Candidate
from bayesfuse.ensemble.narrative import SURE, word
from bayesfuse.ensemble.sets_page import sets_as_page
from bayesfuse.errors import ModelError
from bayesfuse.results.label_sets import SETS, summarize_sets, table_of_sets

PROFILES = Candidate(
    "label profiles",
    "LabelProfiles",
    "labels of an item occur together, and raters differ from label to label",
    KNOWN,
    sweeps=(250, 200),
    start="majority",
)
SHOWN = 5  # rows of the tables in the text


class FusedSets(Fused):
    """The answer of :func:`bayesfuse.fuse` for label sets, an :class:`xarray.DataTree`.

    Group ``label_sets`` has the probability of every label (item, label) and of the set of an item;
    the other groups are those of the result of :class:`bayesfuse.models.LabelProfiles`.
    """

    __slots__ = ()

    def labels(self, costs: Any = None) -> pd.DataFrame:
        """Return a table of the most probable labels of every item.

        ``labels`` are those that are more probable than not, ``probability`` that this is the whole
        set, and ``probability[label]`` that the item has this label. With ``costs``, a mapping of
        labels to what it costs to miss them and to set them wrongly, labels are those of the least
        expected ``cost``.
        """
        return table_of_sets(self, costs)

    def probabilities(self) -> pd.DataFrame:
        """Return label probabilities as a DataFrame, items in the index, labels in the columns."""
        return self[SETS].dataset["probability"].to_pandas()

    def predict(self, responses: Any, *, draws: int = 400, **places: Any) -> Any:
        """Raise ModelError: label sets of new items are not predicted."""
        raise ModelError(
            "Label sets of new items are not predicted: call bf.fuse with the sets of all items. "
            f"Got: {type(responses).__name__}."
        )

    def overview(self, costs: Any = None) -> str:
        """Return the answer as text: labels, raters and checks."""
        sets = self.labels(costs)
        cost = (
            "" if costs is None else f"The expected cost of the sets is {sets['cost'].sum():.4g}."
        )
        sets = sets.sort_values("probability", kind="stable").head(SHOWN)
        rows = [
            [in_one_line(str(item)), in_one_line(", ".join(map(str, labels)) or "none"), f"{p:.2f}"]
            for item, labels, p in zip(
                sets["item"], sets["labels"], sets["probability"], strict=True
            )
        ]
        raters = self.raters()
        abilities = ["accuracy", "sensitivity", "specificity"]
        judged = [
            [in_one_line(str(row.rater)), f"{row.responses:,}"]
            + [f"{getattr(row, name):.2f}" for name in abilities]
            for row in raters.itertuples()
        ]
        parts = [
            cost,
            paragraph(self.headline),
            "Items with the least certain sets:",
            as_columns(["item", "labels", "probability"], rows),
            as_columns(["rater", "answers", *abilities], judged),
            "\n".join(map(bullet, self.checks)),
        ]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        if "headline" not in self.attrs:  # a group of the answer
            return super()._repr_html_()
        return f"<pre>{escape(self.overview())}</pre>"

    def report(self, path: str | Path, by: Any = None) -> Path:
        """Write the answer as one HTML page: shares of labels, sets, raters, and all as CSV."""
        if by is not None:
            raise ModelError(
                "Shares by group are of items with one label: group the rows of "
                f"fused.probabilities() by pandas. Got: by of type {type(by).__name__}."
            )
        path = page_path(path)
        path.write_text(sets_as_page(self), encoding="utf-8")
        return path


def fuse_sets(
    label_sets: LabelSets,
    gold: Any,
    others: Mapping[str, Any],
    draws: int | None,
    session: Session,
) -> FusedSets:
    """Return the answer of :func:`bayesfuse.fuse` for label sets; ``others`` must be empty."""
    if others:
        raise ModelError(
            "Label sets are fused with known sets (gold=) and nothing else: no model of this "
            "package joins them with other structure, and they have been read from their table. "
            "Got: label sets and "
            f"{', '.join(f'{name}=' for name in others)}."
        )
    if gold is not None:
        known_answers(label_sets, gold)  # raises errors in known sets before the fit
    # label sets in place of a table, which only the candidate reads
    inputs = Inputs(label_sets, gold=gold)  # type: ignore[arg-type]
    candidate = PROFILES.within(draws, label_sets.questions.n_responses)
    selection = Selection(inputs, [Side(1.0, [candidate])])
    fits = run(selection, Fits(inputs, []), session)
    if not fits.complete:
        outcome = fits.tried[0].outcome
        if outcome != NO_TIME:
            raise ModelError(f"The model of label sets was not fitted. Got: {outcome.rstrip('.')}.")
        raise ModelError(
            "The model of label sets needs more time, at least some seconds: give more minutes=. "
            f"Got: {session.schedule.seconds:g} s."
        )
    (fit,) = fits.complete
    result = fit.result
    groups: dict[str, Any] = {name: group.dataset for name, group in result.children.items()}
    groups[SETS] = summarize_sets(result, label_sets.items, label_sets.labels)
    fused = FusedSets.from_dict(groups)
    checks = word(chain_findings(*label_precision(result)))
    masi = label_sets.masi()
    agreement = "" if np.isnan(masi) else f" Raters agree on sets by {masi:.2f} (MASI)."
    size = fit.size
    lengths = "" if size is None else f"draws={size.draws}, tune={size.tune}, "
    fused.attrs = result.attrs | {
        "models": [fit.name],
        "weights": [1.0],
        "random_seed": session.seed,
        "headline": _headline(fused, label_sets) + agreement,
        "checks": "\n".join(checks),
        "advice": "",
        "advice_calls": "",
        "code": (
            "# responses = bf.Responses.from_label_sets(frame, …)\n"
            f"model = bf.models.{candidate.code(inputs)}\n"
            f"result = bf.sample(model, {lengths}start={fit.start}, random_seed={session.seed})"
        ),
    }
    return fused


def _headline(fused: FusedSets, label_sets: LabelSets) -> str:
    """Return the numbers of sure answers, and of sets that are expected to be right."""
    probability = fused[SETS].dataset["probability"].values
    sure = np.maximum(probability, 1.0 - probability)
    right = float(fused[SETS].dataset["set_probability"].sum())
    return (
        f"{np.count_nonzero(sure >= SURE):,} of {probability.size:,} labels "
        f"({len(label_sets.items):,} items × {label_sets.n_labels:,}) are sure (probability "
        f"{SURE} or more), {(1.0 - sure).sum():.0f} are expected to be wrong; {right:.0f} whole "
        "sets are expected to be right."
    )

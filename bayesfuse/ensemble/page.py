"""The page of an answer, and the same in small in a notebook, from the templates beside it."""

from __future__ import annotations

import re
from datetime import date
from importlib.metadata import version
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import xarray as xr

from bayesfuse.data.describing import in_one_line
from bayesfuse.ensemble import page_parts as parts
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import answered, coverage

if TYPE_CHECKING:
    from markupsafe import Markup

MAX_LABELS = 2_000  # rows of the table of labels; the CSV file has all
MAX_RATERS = 2_000
OF_CELL = 10  # labels and raters that a notebook shows

CALL = re.compile(
    r"\bbf(?:\.\w+)+(?:\([^()]*\))?|\bfused\.\w+\(\)|--[a-z-]+|\b[a-z_]+=\w*|bayesfuse(?:\.\w+)+"
    r"|\bresponses(?:\.\w+\(\))+"
)
BRACKETED = re.compile(r" \((?:[^()]|\([^()]*\))*\)")


def as_page(answer: xr.DataTree, by: Any = None) -> str:
    """Return an answer as a page that needs no other file, with shares by group."""
    return page_of(
        answer,
        "page.html",
        "Labels and raters",
        **_shared(answer, MAX_LABELS, MAX_RATERS),
        facts=answer.attrs.get("facts", "").splitlines(),
        read=answer.attrs.get("read", ""),
        meanings=parts.meanings(answer),
        certainty=parts.certainty(answer),
        groups=None if by is None else parts.shares_by_group(answer, by),
        label_name=parts.column_names(answer)[2],
        known=answer.attrs.get("known", "").splitlines(),
        models=parts.models(answer),
        spans=parts.spans_of_tags(answer, MAX_LABELS),
        csv=parts.as_csv(answer),
    )


def page_of(answer: xr.DataTree, template: str, heading: str, **values: Any) -> str:
    """Return a page with its frame: the file of the table, date, version, checks and code."""
    source = answer.attrs.get("source", "")
    return _render(
        template,
        heading=heading,
        source=in_one_line(source) if source else "",
        stem=PurePath(source).name.partition(".")[0] or "table",
        date=date.today().isoformat(),
        version=version("bayesfuse"),
        checks=answer.attrs["checks"].splitlines(),
        command=answer.attrs.get("command", ""),
        code=answer.attrs["code"],
        **values,
    )


def as_cell(answer: xr.DataTree) -> str:
    """Return the result, next steps, labels and raters as the output of a cell of a notebook."""
    return _render("cell.html", **_shared(answer, OF_CELL, OF_CELL))


def _shared(answer: xr.DataTree, n_labels: int, n_raters: int) -> dict[str, Any]:
    """Return the contents of page and cell."""
    notes = answer.attrs.get("notes", "").splitlines()
    limits = [answer.attrs.get("sources", ""), *answer.attrs.get("limits", "").splitlines()]
    return {
        "opening": answer.attrs.get("opening", answer.attrs["headline"]),
        "why_wide": answer.attrs.get("why_wide", ""),
        "coverage": f"{coverage():.0%}",
        "steps": answer.attrs["advice"].splitlines(),
        "limits": [line for line in limits if line and line not in notes],
        "notes": notes,
        "shares": parts.class_bars(answer),
        "legend": parts.class_legend(answer),
        "labels": parts.label_table(answer, n_labels),
        "all_answered": answered(answer).sizes["item"] == label_probabilities(answer).sizes["item"],
        "raters": parts.rater_rows(answer, n_raters),
        "chance": parts.chance(answer),
    }


def _render(template: str, **values: Any) -> str:
    """Return a template filled in."""
    import jinja2  # only pages need it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bayesfuse.ensemble"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"calls": _mark_calls, "plain": _without_calls}
    return environment.get_template(template).render(values).strip() + "\n"


def _without_calls(sentence: str) -> Markup:
    """Return a sentence without brackets that hold calls or options."""
    text = BRACKETED.sub(lambda match: "" if CALL.search(match[0]) else match[0], sentence)
    return _mark_calls(text)


def _mark_calls(sentence: str) -> Markup:
    """Return a sentence in which calls and options are code, and smaller where bracketed."""
    from markupsafe import Markup, escape

    text = CALL.sub(r"<code>\g<0></code>", str(escape(sentence)))
    return Markup(BRACKETED.sub(_smaller_if_code, text))


def _smaller_if_code(bracketed: re.Match[str]) -> str:
    text = bracketed[0]
    return f'<small class="call">{text}</small>' if "<code>" in text else text

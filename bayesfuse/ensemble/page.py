"""The page of an answer, and its picture and tables in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from bayesfuse.data.describing import in_one_line
from bayesfuse.results.contents import class_names
from bayesfuse.results.summaries import coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sections = Mapping[str, pd.DataFrame | list[str]]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1f2328; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p.headline { font-size: 1.15rem; }
img { width: 100%; min-width: 44rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #d8dee4;
         vertical-align: top; white-space: nowrap; }
td:nth-child(5) { white-space: normal; min-width: 11rem; }
summary { font-weight: bold; margin-top: 2rem; cursor: pointer; }
pre { background: #f6f8fa; padding: 1rem; font-size: .85rem; white-space: pre-wrap;
      overflow-wrap: anywhere; }
li { margin: .4rem 0; }
"""

WORDS = (
    "Lines through points and numbers in brackets are intervals that hold the true value with a "
    "probability of {:.0%}. "
    "Accuracy is the share of a rater's responses that are right. Sensitivity and specificity are "
    "the shares of the items of one class that a rater recognises{}, and balanced accuracy, in the "
    "picture, is their mean over the classes. "
    "Difficulty is the probability that two raters who look at an item disagree; the labels of "
    "hard items may be certain, and those of easy items uncertain."
)
"""Explanation of the pictures and tables."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bayesfuse: labels and raters</title>
<style>{style}</style>
</head>
<body>
<h1>Labels and raters</h1>
<p class="headline">{headline}</p>
<div class="wide"><img alt="Overview of labels and raters" src="{picture}"></div>
<p>{words}</p>
{known}
{sections}
<h2>The same in Python</h2>
<pre>{code}</pre>
</body>
</html>
"""


KNOWN = (
    "Accuracies of raters (crosses: by the models alone; circles: on known items), the "
    "calibration of known items that are left out, and the labels that are expected to be wrong "
    "after more are found out, or if the surest are accepted."
)


def picture(answer: xr.DataTree, size: tuple[float, float] = (13.6, 6.4)) -> Figure:
    """Return the overview of an answer as a figure, of a size in inches."""
    from matplotlib.figure import Figure  # not pyplot, which would keep it

    from bayesfuse.plots.overview import plot_overview

    figure = Figure(size, layout="constrained")
    plot_overview(answer, figure=figure)
    return figure


def as_page(answer: xr.DataTree, sections: Sections, lists: Mapping[str, pd.DataFrame]) -> str:
    """Return an answer as a page that needs no other file; ``lists`` are folded."""
    from bayesfuse.plots.panels import picture_of_known

    section = ""
    if (known := picture_of_known(answer)) is not None:
        image = f'<img alt="Known labels" src="{_as_png(known, 100)}">'
        section = f'<h2>Known labels</h2>\n<div class="wide">{image}</div>\n<p>{KNOWN}</p>'
    folded = [
        f"<details>\n<summary>{escape(title)}: {len(table):,}</summary>\n{_table(table)}</details>"
        for title, table in lists.items()
    ]
    return PAGE.format(
        style=STYLE,
        headline=escape(answer.attrs["headline"]),
        picture=_as_png(picture(answer, (10.6, 6.4)), 150),
        words=WORDS.format(coverage(), _of_two(class_names(answer))),
        known=section,
        sections="\n".join([*_parts(sections, "h2"), *folded]),
        code=escape(answer.attrs["code"]),
    )


def _of_two(classes: list[Any]) -> str:
    """Return in words which of two classes is the positive one."""
    if len(classes) != 2:
        return ""
    negative, positive = (escape(in_one_line(name)) for name in classes)
    return f" (sensitivity: the positive class, {positive}; specificity: {negative})"


def as_cell(answer: xr.DataTree, sections: Sections) -> str:
    """Return the same without the code, as the output of a cell of a notebook."""
    shown = (
        '<img alt="Overview of labels and raters" style="max-width: 100%" '
        f'src="{_as_png(picture(answer), 100)}">'
    )
    headline = f"<p>{escape(answer.attrs['headline'])}</p>"
    return "\n".join([headline, shown, *_parts(sections, "h4")])


def _parts(sections: Sections, heading: str) -> list[str]:
    parts = []
    for title, section in sections.items():
        parts.append(f"<{heading}>{escape(title)}</{heading}>")
        if isinstance(section, pd.DataFrame):
            parts.append(_table(section))
        else:
            items = "\n".join(f"<li>{escape(line)}</li>" for line in section)
            parts.append(f"<ul>\n{items}\n</ul>")
    return parts


def _table(section: pd.DataFrame) -> str:
    return f'<div class="wide">{section.to_html(index=False, border=0)}</div>'


def _as_png(figure: Figure, dpi: int) -> str:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

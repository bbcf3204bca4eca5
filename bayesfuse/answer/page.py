"""The page of an answer, and its picture and tables in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pandas as pd

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
    "the shares of the items of one class that a rater recognises, and balanced accuracy, in the "
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
<div class="wide"><img alt="Overview of labels and raters"
src="data:image/png;base64,{picture}"></div>
<p>{words}</p>
{sections}
<h2>The same in Python</h2>
<pre>{code}</pre>
</body>
</html>
"""


def as_page(told: Mapping[Any, Any], sections: Sections, lists: Sections, figure: Figure) -> str:
    """Return the words of an answer, its sections and picture as a page that needs no other file.

    ``told`` are the attributes of the answer; ``lists`` are folded.
    """
    folded = [
        f"<details>\n<summary>{escape(title)}: {len(table):,}</summary>\n{_table(table)}</details>"
        for title, table in lists.items()
        if isinstance(table, pd.DataFrame)
    ]
    return PAGE.format(
        style=STYLE,
        headline=escape(told["headline"]),
        picture=_as_png(figure, 150),
        words=WORDS.format(coverage()),
        sections="\n".join([*_parts(sections, "h2"), *folded]),
        code=escape(told["code"]),
    )


def as_cell(told: Mapping[Any, Any], sections: Sections, figure: Figure) -> str:
    """Return the same without the code, as the output of a cell of a notebook."""
    shown = (
        f'<img alt="Overview of labels and raters" style="max-width: 100%" '
        f'src="data:image/png;base64,{_as_png(figure, 100)}">'
    )
    return "\n".join([f"<p>{escape(told['headline'])}</p>", shown, *_parts(sections, "h4")])


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
    return base64.b64encode(file.getvalue()).decode("ascii")

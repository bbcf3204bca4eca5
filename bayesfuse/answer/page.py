"""An answer as one HTML page that needs no other file."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayesfuse import plots
from bayesfuse.answer.text import best_and_worst, least_certain, tried
from bayesfuse.results.summaries import coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bayesfuse.answer.fused import Fused

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1f2328; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
p.headline { font-size: 1.15rem; }
img { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #d8dee4;
         vertical-align: top; }
pre { background: #f6f8fa; padding: 1rem; overflow-x: auto; font-size: .85rem; }
li { margin: .4rem 0; }
"""


WORDS = (
    "Lines through points and numbers in brackets are intervals that hold the true value with a "
    "probability of {:.0%}. "
    "Accuracy is the share of items of a class that a rater recognises, averaged over the classes. "
    "Difficulty is the probability that two raters who look at an item disagree; hard items need "
    "not have uncertain labels, nor uncertain ones be hard."
)
"""What the pictures and tables show."""


def write_page(fused: Fused, path: Path) -> Path:
    """Write labels, raters, models, checks, advice and code as a page."""
    sections = [
        _picture(fused),
        f"<p>{WORDS.format(coverage())}</p>",
        _listed("What would help most next", fused.advice),
        _table("Raters", best_and_worst(fused)),
        _table("Items with the least certain labels", least_certain(fused)),
        _table("Models that were tried, with weights fixed beforehand", tried(fused)),
        _listed("What the checks of the models said", fused.checks),
        f"<h2>The same in Python</h2>\n<pre>{escape(fused.explain())}</pre>",
    ]
    page = "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>bayesfuse: labels and raters</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            "<h1>Labels and raters</h1>",
            f'<p class="headline">{escape(fused.headline)}</p>',
            *(section for section in sections if section),
            "</body>\n</html>\n",
        ]
    )
    path.write_text(page, encoding="utf-8")
    return path


def picture(fused: Fused) -> Figure:
    """Return the overview of an answer as a figure."""
    from matplotlib.figure import Figure  # not pyplot, which would keep it

    figure = Figure((13.6, 6.4), layout="constrained")  # inches
    plots.plot_overview(fused, figure=figure)
    return figure


def _picture(fused: Fused) -> str:
    file = BytesIO()
    picture(fused).savefig(file, format="png", dpi=150)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<p><img alt="Overview of labels and raters" src="data:image/png;base64,{data}"></p>'


def _table(title: str, table: pd.DataFrame) -> str:
    if not len(table):
        return ""
    rows = table.to_html(index=False, border=0)
    return f'<h2>{escape(title)}</h2>\n<div class="wide">{rows}</div>'


def _listed(title: str, lines: list[Any]) -> str:
    if not lines:
        return ""
    items = "\n".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{escape(title)}</h2>\n<ul>\n{items}\n</ul>"

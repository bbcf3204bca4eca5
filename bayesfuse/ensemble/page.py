"""The page of an answer, and its picture and tables in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Mapping
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

SECTIONS = """
{%- macro table(frame) -%}
<div class="wide">{{ frame.to_html(index=False, border=0) | safe }}</div>
{%- endmacro -%}
{%- macro listed(sections, heading) -%}
{% for title, section in sections.items() %}
<{{ heading }}>{{ title }}</{{ heading }}>
{% if section.columns is defined %}{{ table(section) }}{% else %}<ul>
{% for line in section %}<li>{{ line }}</li>
{% endfor %}</ul>{% endif %}
{% endfor %}
{%- endmacro -%}
"""

CELL = """
<p>{{ headline }}</p>
<img alt="Overview of labels and raters" style="max-width: 100%" src="{{ picture }}">
{{ listed(sections, "h4") }}
"""

PAGE = """
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>bayesfuse: labels and raters</title>
<style>
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
</style>
</head>
<body>
<h1>Labels and raters</h1>
<p class="headline">{{ headline }}</p>
<div class="wide"><img alt="Overview of labels and raters" src="{{ picture }}"></div>
<p>Lines through points and numbers in brackets are intervals that hold the true value with a
probability of {{ coverage }}. Accuracy is the probability that a rater's next response is right.
Sensitivity and specificity are the same for items of one class
{%- if classes | length == 2 %} (sensitivity: the positive class, {{ classes[1] }}; specificity:
{{ classes[0] }}){% endif %}, and balanced accuracy is their mean over the classes. Raters whose
accuracy is surely high come first.
Difficulty is the probability that two raters who look at an item disagree; the labels of hard items
may be certain, and those of easy items uncertain.</p>
{% if picture_of_gold %}
<h2>Known labels</h2>
<div class="wide"><img alt="Known labels" src="{{ picture_of_gold }}"></div>
<p>Accuracies of raters (crosses: by the models alone; circles: on known items), the calibration of
known items that are left out, and the labels that are expected to be wrong after more are known, or
if the surest are accepted.</p>
{% endif %}
{{ listed(sections, "h2") }}
{% for title, frame in lists.items() %}
<details>
<summary>{{ title }}: {{ "{:,}".format(frame | length) }}</summary>
{{ table(frame) }}</details>
{% endfor %}
<h2>The same in Python</h2>
<pre>{{ code }}</pre>
</body>
</html>
"""


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

    of_gold = picture_of_known(answer)
    return _render(
        PAGE,
        headline=answer.attrs["headline"],
        picture=_as_png(picture(answer, (10.6, 6.4)), 150),
        coverage=f"{coverage():.0%}",
        classes=[in_one_line(name) for name in class_names(answer)],
        picture_of_gold="" if of_gold is None else _as_png(of_gold, 100),
        sections=sections,
        lists=lists,
        code=answer.attrs["code"],
    )


def as_cell(answer: xr.DataTree, sections: Sections) -> str:
    """Return the same without the code, as the output of a cell of a notebook."""
    overview = _as_png(picture(answer), 100)
    return _render(CELL, headline=answer.attrs["headline"], picture=overview, sections=sections)


def _render(template: str, **values: Any) -> str:
    import jinja2  # only pages need it

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(SECTIONS + template).render(values).strip() + "\n"


def _as_png(figure: Figure, dpi: int) -> str:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"

"""The documentation site: ``make docs`` builds it, without the internet, into ``docs/_build``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

import bayesfuse

matplotlib.use("Agg")
# the gallery looks names of docstrings up where they were before they moved
warnings.filterwarnings("ignore", r"bf\.\w+ has moved", FutureWarning)
DOCS = Path(__file__).resolve().parent

DESCRIPTION = (
    "True labels and the quality of every rater from imperfect labels, with uncertainty: "
    "`bf.fuse(frame)` returns both. Models are PyMC models, results are ArviZ's DataTrees. Every "
    "function has an example in the reference (reference/index.html)."
)
SUMMARISED = {"Pages": "", "How-to": "howto/", "Explanation": "explanation/", "Models": "models/"}

project = "bayesfuse"
author = "The bayesfuse authors"
copyright = author
version = release = bayesfuse.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # the files of MathJax, which pages would load from another host
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery", "plots/*.ipynb", "plots/*.py", "sg_execution_times.rst"]
suppress_warnings = ["config.cache"]  # an option of the gallery is a function, which no cache holds

# Pages: MyST Markdown, and the notebooks with the outputs that they are kept with.
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # from another host, and no notebook has widgets

# The reference. Types are in the docstrings, so signatures give names and defaults only.
autosummary_generate = [str(page) for page in sorted((DOCS / "reference").glob("*.rst"))]
autosummary_context = {
    # Classes whose methods users call or, of contracts, write. Of others the page of the class
    # says all: the methods of a label prior or rater channel are those of its contract.
    "with_own_members": {"Fused"},  # and not those of xarray
    "with_members": {
        "Coordinates",
        "Graph",
        "LabelPrior",
        "Parameter",
        "Partitions",
        "Prior",
        "RaterChannel",
        "Responses",
        "Sequences",
        "Support",
    },
}
autodoc_typehints = "none"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
nitpicky = True
nitpick_ignore_regex = [  # documented elsewhere: links to other sites need the internet to be made
    (r"py:.*", r"(arviz|matplotlib|networkx|numba|numpy|pandas|pymc|pymc_extras|scipy|xarray)\..*"),
]

# The gallery: a page for every script in gallery/, run at build time. The reference orders them.
PLOTS = re.findall(r"^   (plot_\w+)$", (DOCS / "reference" / "plots.rst").read_text(), re.MULTILINE)


def place_in_gallery(script: str) -> int:
    """Return the place of the function that a script of the gallery shows."""
    return PLOTS.index(Path(script).stem)


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "plots",
    "filename_pattern": "/plot_",
    "within_subsection_order": place_in_gallery,
    "capture_repr": (),
    "backreferences_dir": "api/examples",
    "doc_module": ("bayesfuse",),
    "reference_url": {"bayesfuse": None},
    "download_all_examples": False,
    "min_reported_time": 3600,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "bayesfuse"
html_static_path = ["_static"]
html_css_files = ["bayesfuse.css"]
html_show_sourcelink = False
html_sidebars = {name: [] for name in ("index", "start", "migration", "changelog", "contributing")}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def copy_notebooks() -> None:
    """Put the notebooks, which stand beside docs/, where Sphinx finds them; old ones go."""
    target = DOCS / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(
        DOCS.parent / "notebooks", target, ignore=shutil.ignore_patterns(".ipynb_checkpoints")
    )


def write_help() -> None:
    """Keep what the command line says of itself, for its page of the reference."""
    (DOCS / "api").mkdir(exist_ok=True)
    for command in ("fit", "doctor", "demo"):
        run = subprocess.run(
            [sys.executable, "-m", "bayesfuse", command, "--help"],
            capture_output=True,
            check=True,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
            text=True,
        )
        (DOCS / "api" / f"{command}.txt").write_text(run.stdout, encoding="utf-8")


def summarise(text: str, link: str) -> str:
    """Return the title of a page as a link, and its question or first sentence."""
    title, *paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text)]
    prose = [part for part in paragraphs if re.match(r"\*\*Question|[A-Z`]", part)]
    first = " ".join(prose[0].split()).removeprefix("**Question.** ") if prose else ""
    sentence = re.split(r"(?<=[.?])\s", first)[0]
    sentence = re.sub(r"{[^}]*}", "", sentence)
    return f"- [{title.removeprefix('# ')}]({link}): {sentence}".removesuffix(": ")


def write_summary(app: Any, error: Exception | None) -> None:
    """Write llms.txt, a list of the pages in Markdown for assistants, into the site."""
    if error is not None or app.builder.name != "html":
        return
    lines = ["# bayesfuse", "", f"> {DESCRIPTION}", ""]
    for heading, folder in SUMMARISED.items():
        lines += [f"## {heading}", ""]
        for page in sorted(DOCS.glob(f"{folder}*.md")):
            name = page.relative_to(DOCS).with_suffix("")
            if name.name != "index" and (text := page.read_text(encoding="utf-8")).startswith("#"):
                lines.append(summarise(text, f"{name}.html"))
        lines.append("")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def setup(app: Any) -> None:
    """Add what follows a build."""
    app.connect("build-finished", write_summary)


copy_notebooks()
write_help()

"""The code of the guides prints what the pages state; the check of the built site finds faults."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import blocks, differences, run

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDERS = ("howto", "explanation", "models", "methods", "coming_from")
PAGES = sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))
QUICK = {"methods/parisi_2014.md"}
"""Takes a second or two. Every other page that has code compiles more or draws longer."""


def name(page):
    return page.relative_to(DOCS).as_posix()


def example(page):
    slow = () if name(page) in QUICK else (pytest.mark.slow,)
    return pytest.param(page, id=name(page), marks=slow)


@pytest.mark.filterwarnings("default")  # pages show what users see, warnings of few draws included
@pytest.mark.parametrize("page", [example(page) for page in PAGES if blocks(page)])
def test_page_prints_what_it_states(page):
    for block, printed in zip(blocks(page), run(page), strict=True):
        found = differences(block.stated, printed)
        assert not found, f"{name(page)}, line {block.line}: {found}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_page_is_in_the_list_of_its_folder(folder):
    tree = re.search(r"```{toctree}\n(.*?)```", (DOCS / folder / "index.md").read_text(), re.S)[1]
    listed = [line for line in tree.splitlines() if line and not line.startswith((":", "../"))]
    assert sorted(listed) == [
        page.stem for page in PAGES if page.parent.name == folder and page.stem != "index"
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_closed_and_outputs_follow_code(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.M)) % 2 == 0
    stated = len(re.findall(r"^```text$", text, re.M))
    assert stated == sum(bool(block.stated) for block in blocks(page))
    assert len(blocks(page)) == len(re.findall(r"^```python$", text, re.M))


def test_differences_are_found():
    stated = "rate 0.50 of 10\n"
    assert not differences(stated, "rate  0.52 of 10\n")
    assert "0.60" in differences(stated, "rate 0.60 of 10\n")
    assert differences(stated, "rate 0.50 of 11\n")
    assert differences(stated, "share 0.50 of 10\n")
    assert differences(stated, "")


@pytest.mark.slow
def test_graphs_of_the_models_are_those_of_the_code():
    """Names and shapes of all variables, in the pictures of the model cards."""
    place = DOCS / "models" / "draw_graphs.py"
    spec = importlib.util.spec_from_file_location("draw_graphs", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models = module.examples()
    assert {f"{card}.svg" for card in models} == {file.name for file in module.GRAPHS.iterdir()}
    for card, model in models.items():
        drawn = (module.GRAPHS / f"{card}.svg").read_text(encoding="utf-8")
        assert f"graphs/{card}.svg" in (DOCS / "models" / f"{card}.md").read_text(encoding="utf-8")
        names = {variable.name for variable in model.free_RVs + model.deterministics}
        missing = {each for each in names if not re.search(rf">{each}\b", drawn)}
        assert not missing, card


SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "check_links.py"


def check(folder, **pages):
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>")
    command = [sys.executable, SCRIPT, folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def link(name):
    return f'<a href="{name}">{name}</a>'


def test_a_sound_site_passes(tmp_path):
    (tmp_path / "x.js").touch()
    run = check(
        tmp_path,
        index=link("a.html#here") + link("https://www.pymc.io") + '<script src="x.js"></script>',
        a='<p id="here"></p>' + link("b.html"),
        b=link("c.html"),
        c=link("#") + link("index.html"),
        search="nobody leads here",
    )
    assert (run.returncode, run.stdout) == (0, "5 pages, 6 links\n"), run.stderr


def test_every_fault_of_a_site_is_named(tmp_path):
    run = check(
        tmp_path,
        index=link("a.html") + link("gone.html") + '<script src="https://cdn.org/x.js"></script>',
        a=link("b.html#gone"),
        b=link("c.html"),
        c=link("d.html"),
        d="four clicks away",
    )
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        "a.html: no such anchor: b.html#gone",
        "d.html: more than 3 clicks from the start",
        "index.html: loaded from another host: https://cdn.org/x.js",
        "index.html: no such file: gone.html",
    ]

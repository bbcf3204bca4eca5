"""The check of the built site finds what is wrong with it."""

import subprocess
import sys
from pathlib import Path

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


def test_whatever_is_wrong_is_named(tmp_path):
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

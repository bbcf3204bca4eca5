"""What tests of the command line share as fixtures."""

import signal

import pytest
from shell import draw_nothing, write_films

import bayesfuse as bf


@pytest.fixture(autouse=True)
def ctrl_c():
    """Let Ctrl-C interrupt, which background jobs of a shell, and their children, ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def short_tuning(monkeypatch):
    monkeypatch.setattr(bf.build.LabelGibbs, "default_tune_steps", 20)


@pytest.fixture
def folder(tmp_path, monkeypatch, request):
    """Work in a folder of its own that holds ``films.csv``, and draw no pictures by default."""
    monkeypatch.chdir(tmp_path)
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("bayesfuse.command_line.commands.draw", draw_nothing)
    write_films(tmp_path)
    return tmp_path


@pytest.fixture
def pictures():
    """Draw the pictures all the same."""


@pytest.fixture
def no_sampling(monkeypatch):
    monkeypatch.setattr(bf, "sample", lambda *_, **__: pytest.fail("sampled"))
    monkeypatch.setattr(bf, "fuse", lambda *_, **__: pytest.fail("fitted"))

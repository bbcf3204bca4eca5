"""What tests of the command line share as fixtures."""

import signal

import pytest
from shell import draw_nothing, write_films

import bayesfuse as bf
from bayesfuse.command_line import commands, outputs


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
def folder(tmp_path, monkeypatch):
    """Work in a folder of its own that holds ``films.csv``, and draw no pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "draw", draw_nothing)
    write_films(tmp_path)
    return tmp_path


@pytest.fixture
def pictures(folder, monkeypatch):
    """Draw the pictures all the same."""
    monkeypatch.setattr(commands, "draw", outputs.draw)


@pytest.fixture
def no_sampling(monkeypatch):
    monkeypatch.setattr(bf, "sample", lambda *_, **__: pytest.fail("sampled"))
    monkeypatch.setattr(bf, "fuse", lambda *_, **__: pytest.fail("fitted"))

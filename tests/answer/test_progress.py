"""What is done is said on stderr, where no terminal can show a bar."""

import sys
import time

import pytest

from bayesfuse.answer import progress as home
from bayesfuse.answer.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_ten_seconds(clock, capsys):
    with Progress(True) as progress:
        progress.say("comparing raters")
        advance = progress.count("fitting: [types]", 100)
        for _ in range(25):
            clock[0] += 1.0
            advance(2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "fitting: [types]: 20%, about 40 s left",
        "fitting: [types]: 40%, about 30 s left",
    ]
    assert home.EVERY == 10.0


@pytest.mark.parametrize("shown", [True, False])
def test_nothing_where_nothing_can_be_said(clock, monkeypatch, capsys, shown):
    if shown:
        monkeypatch.setattr(sys, "stderr", None)
    with Progress(shown) as progress:
        clock[0] += 60.0
        progress.say("comparing raters")
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""

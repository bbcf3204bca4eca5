"""Ctrl-C at any time: complete draws are written, and what began before is finished or removed."""

import itertools
import signal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from shell import films, fit, interrupt_in, tables

import bayesfuse as bf
from bayesfuse.answer import budget
from bayesfuse.command_line import commands

QUICK = ["--draws", "3", "--chains", "1"]


def names(folder):
    return {path.name for path in folder.iterdir()}


def press(*_, **__):
    signal.raise_signal(signal.SIGINT)


def test_interrupted_draws_are_written(folder, capsys, monkeypatch):
    """All chains end, with the draws that each of them has."""
    before = signal.getsignal(signal.SIGINT)
    tune = bf.LabelGibbs.default_tune_steps
    interrupt_in(monkeypatch, 4 * (tune + 30))
    assert fit("--chains", "4") == 130
    printed = capsys.readouterr()
    sizes = tables()["posterior"].sizes
    assert sizes["chain"] == 4 and 0 < sizes["draw"] < 40
    whole = f"4 chains of {sizes['draw']} draws"
    assert f"bayesfuse: interrupted; written: {whole}\n" in printed.err
    assert f"{whole} by gibbs" in printed.out
    assert len(pd.read_csv("result-labels.csv")) == 20
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupted_before_the_first_draw(folder, capsys, monkeypatch):
    interrupt_in(monkeypatch, 7)
    assert fit() == 130
    assert "interrupted before there were draws to write" in capsys.readouterr().err
    assert names(folder) == {"films.csv"}


@pytest.mark.parametrize("pressed", ["write_labels", "report", "write_netcdf", "draw"])
def test_interrupted_after_sampling(folder, capsys, monkeypatch, pressed):
    """Files that hold draws are finished; all else is left out."""
    plain = getattr(commands, pressed)

    def in_it(*arguments, **settings):
        press()
        if pressed == "write_netcdf":
            press()
        return plain(*arguments, **settings)

    monkeypatch.setattr(commands, pressed, in_it)
    assert fit(*QUICK) == 130
    said = capsys.readouterr()
    assert said.err.endswith("bayesfuse: interrupted; written: 1 chains of 3 draws\n")
    assert names(folder) == {"films.csv", "result.nc", "result-labels.csv"}
    assert ("rater " in said.out) == (pressed in ("write_netcdf", "draw"))
    assert tables()["posterior"].sizes["draw"] == 3
    assert len(pd.read_csv("result-labels.csv")) == 20


def test_interrupted_in_sampling_and_again_in_the_report(folder, capsys, monkeypatch):
    interrupt_in(monkeypatch, bf.LabelGibbs.default_tune_steps + 30)
    monkeypatch.setattr(commands, "report", press)
    assert fit("--chains", "1") == 130
    assert 0 < tables()["posterior"].sizes["draw"] < 40


def test_ctrl_c_for_others_is_left_alone(folder, monkeypatch):
    """A script that runs this in its background has shells ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt_in(monkeypatch, 5)
    assert fit("--quiet", *QUICK) == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_chains_end_with_the_time_and_go_on_with_resume(folder, capsys, monkeypatch):
    """What follows from the draws is that of all of them, as computed from the parameters."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__)  # a second for every look at it
    monkeypatch.setattr(budget, "time", clock)
    assert fit("--time", "12s", "--draws", "500000", "--thin", "50") == 0
    first = tables()
    ended = first["posterior"].sizes["draw"]
    assert 0 < ended < 10_000
    assert fit("--resume", "--draws", "500", "--seed", "2") == 0
    both = tables()
    assert both["posterior"].sizes == {**first["posterior"].sizes, "draw": ended + 10}
    assert both["posterior"].isel(draw=slice(ended)).equals(first["posterior"])
    expected = bf.label_probabilities(both, bf.models.DawidSkene(films()))
    np.testing.assert_allclose(bf.label_probabilities(both), expected, atol=1e-5)
    assert both["label_draws"].sizes["sample"] > 10
    capsys.readouterr()
    assert fit("--resume", "--model", "latent-group") == 2
    assert "of the same" in capsys.readouterr().err
    assert fit("--resume", "--pooled") == 2
    assert "--resume needs the options of the saved result" in capsys.readouterr().err

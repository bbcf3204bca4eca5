"""The command line loses nothing: full disks, links, errors, pipes that nobody reads, Ctrl-C."""

import io
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from shell import COLUMNS, films, fit, interrupt_in, tables

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.ensemble import schedule
from bayesfuse.inference.chains import Chain

REPORT = "bayesfuse.command_line.commands.report"
QUICK = ["--model", "dawid-skene", "--no-checks", "--draws", "3", "--chains", "1"]


def in_a_process(code, *arguments):
    """Run code where no file grows beyond sizes that it sets: HDF5 could end the process."""
    command = [sys.executable, "-c", "import sys\nfrom resource import *\n" + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


FULL = """setrlimit(RLIMIT_FSIZE, (8_000, 8_000))
from bayesfuse.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_links_stay_and_what_they_lead_to_is_written(folder):
    """One of them leads to nothing yet; modes stay, too."""
    Path("far").mkdir()
    Path("result.nc").symlink_to("far/new.nc")
    Path("far/old.csv").write_text("old")
    Path("far/old.csv").chmod(0o640)
    Path("labels.csv").symlink_to(folder / "far/old.csv")
    assert fit(*QUICK, "--labels", "labels.csv") == 0
    assert Path("result.nc").is_symlink() and Path("labels.csv").is_symlink()
    assert names(folder / "far") == {"new.nc", "old.csv"}
    assert tables("far/new.nc")["posterior"].sizes["draw"] == 3
    assert len(pd.read_csv("far/old.csv")) == 20
    assert Path("far/old.csv").stat().st_mode & 0o777 == 0o640
    umask = os.umask(0)
    os.umask(umask)
    assert Path("far/new.nc").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.slow
def test_a_full_disk_costs_only_what_does_not_fit(folder):
    """The labels take 2 kB, the NetCDF 30, the picture 40."""
    Path("result.nc").write_text("precious")
    asked = "fit", "films.csv", *COLUMNS, *QUICK, "--output", "result.nc"
    ended = in_a_process(FULL, *asked)
    assert ended.returncode == 2, ended.stderr
    assert "rater " in ended.stdout  # the report
    assert "cannot write result.nc: File too large" in ended.stderr
    assert "written: result-labels.csv" in ended.stderr and "Traceback" not in ended.stderr
    assert len(pd.read_csv("result-labels.csv")) == 20
    assert Path("result.nc").read_text() == "precious"
    assert names(folder) == {"films.csv", "result.nc", "result-labels.csv"}


def test_what_cannot_take_its_place_is_kept(folder, capsys, monkeypatch):
    """As where a folder has come to stand there while chains ran."""

    def stands_there(*_, **__):
        Path("result.nc").mkdir()
        return "report"

    monkeypatch.setattr(REPORT, stands_there)
    assert fit(*QUICK) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "cannot write result.nc: Is a directory; the contents are in" in said
    assert tables(said.split("are in ")[1].split(";")[0])["posterior"].sizes["draw"] == 3


def test_an_error_of_the_report_loses_no_draws(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(REPORT, broken)
    with pytest.raises(RuntimeError, match="of ours"):
        fit(*QUICK)
    assert tables()["posterior"].sizes["draw"] == 3


@pytest.mark.slow
def test_files_are_small_unless_asked(folder, capsys, monkeypatch):
    settings = ["--no-checks", "--draws", "8", "--chains", "1"]
    assert fit(*settings) == 0
    groups = [tables()[name].dataset for name in ("posterior", "log_likelihood")]
    assert {values.dtype.str for group in groups for values in group.values()} == {"<f4"}
    size = sum(values.nbytes for group in groups for values in group.values())
    monkeypatch.setattr("bayesfuse.command_line.commands.MAX_BYTES", size // 3)
    assert fit(*settings) == 0
    printed = capsys.readouterr().out
    assert "One draw in 4 was kept, so that the posterior takes about 0 MB. --thin 1" in printed
    assert tables()["posterior"].sizes["draw"] == 2
    assert fit(*settings, "--thin", "1") == 0
    assert tables()["posterior"].sizes["draw"] == 8


def test_thin_keeps_one_draw_in_so_many_of_the_same_work(folder, monkeypatch):
    """Draws are then those after more sweeps: the work is counted in these."""
    swept = []
    plain = Chain.advance

    def counted(self, seconds):
        before = self.done
        plain(self, seconds)
        swept.append((self.done - before) * self.sweeps)

    monkeypatch.setattr(Chain, "advance", counted)
    assert fit("--quiet", "--sweeps", "2", "--thin", "10") == 0
    assert sum(swept) == 2 * 2 * (40 + bf.build.LabelGibbs.default_tune_steps)
    assert tables()["posterior"].sizes["draw"] == 4


@pytest.fixture
def unread(monkeypatch):
    """A stdout whose reader goes away at once, as ``head`` does."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        yield


def test_a_closed_pipe_is_no_error(folder, capfd, unread):
    assert fit(*QUICK) == 0
    assert tables()["posterior"].sizes["draw"] == 3
    for arguments in (["--help"], ["fit", "--help"], ["--version"]):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(arguments)
    sys.stdout.flush()  # as Python does when it ends
    assert "error" not in capfd.readouterr().err


@pytest.mark.slow
def test_stdout_is_full_or_closed(folder, capsys, monkeypatch):
    with open("/dev/full", "w") as nothing:
        monkeypatch.setattr(sys, "stdout", nothing)
        assert fit(*QUICK) == 2
        nothing.flush()
    assert "cannot write the report: No space left on device" in capsys.readouterr().err
    assert tables()["posterior"].sizes["draw"] == 3
    monkeypatch.setattr(sys, "stdout", None)
    assert fit(*QUICK, output="other.nc") == 0
    assert tables("other.nc")["posterior"].sizes["draw"] == 3


def test_stdout_in_ascii(folder, monkeypatch):
    films = Path("films.csv").read_text().replace("Ada", "Adélaïde")
    Path("films.csv").write_text(films, encoding="utf-8")
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert fit(*QUICK) == 0
    sys.stdout.flush()
    assert b"Ad\\xe9la\\xefde" in shown.getvalue()
    assert b"\\u2013" not in shown.getvalue()  # intervals have plain dashes
    assert tables()["posterior"]["rater"].values.tolist() == ["Adélaïde", "Bo", "Cy"]


def press(*_, **__):
    signal.raise_signal(signal.SIGINT)


def test_interrupted_draws_are_written(folder, capsys, monkeypatch):
    """All chains end, with the draws that each of them has."""
    before = signal.getsignal(signal.SIGINT)
    tune = bf.build.LabelGibbs.default_tune_steps
    interrupt_in(monkeypatch, 4 * (tune + 30))
    assert fit("--chains", "4") == 130
    printed = capsys.readouterr()
    sizes = tables()["posterior"].sizes
    assert sizes["chain"] == 4 and 0 < sizes["draw"] < 40
    whole = f"4 chains of {sizes['draw']} draws"
    assert f"bayesfuse: interrupted; written: {whole}; continue with --resume\n" in printed.err
    assert f"{whole} by gibbs" in printed.out
    assert "Interrupted: fewer draws than asked" in printed.out
    assert len(pd.read_csv("result-labels.csv")) == 20
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupted_before_the_first_draw(folder, capsys, monkeypatch):
    interrupt_in(monkeypatch, 7)
    assert fit() == 130
    assert "interrupted before there was a result to write" in capsys.readouterr().err
    assert names(folder) == {"films.csv"}


@pytest.mark.parametrize("pressed", ["write_labels", "report", "write_netcdf", "draw"])
def test_interrupted_after_sampling(folder, capsys, monkeypatch, pressed):
    """Files that hold draws are finished; all else is left out."""
    commands = sys.modules["bayesfuse.command_line.commands"]
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
    assert said.err.count("bayesfuse: not written: ") == 1
    assert tables()["posterior"].sizes["draw"] == 3
    assert len(pd.read_csv("result-labels.csv")) == 20


def test_interrupted_in_sampling_and_again_in_the_report(folder, capsys, monkeypatch):
    interrupt_in(monkeypatch, bf.build.LabelGibbs.default_tune_steps + 30)
    monkeypatch.setattr(REPORT, press)
    assert fit("--chains", "1") == 130
    assert 0 < tables()["posterior"].sizes["draw"] < 40


def test_ctrl_c_for_others_is_left_alone(folder, monkeypatch):
    """A script that runs this in its background has shells ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt_in(monkeypatch, 5)
    assert fit("--quiet", *QUICK) == 0
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_resuming_makes_the_draws_that_are_missing(folder, monkeypatch):
    """And as many again as usual once none are missing."""
    monkeypatch.setattr("bayesfuse.command_line.commands.DRAWS", 30)
    draws = []
    complete = bf.sample

    def cut(model, n_draws, **settings):
        draws.append(n_draws)
        return complete(model, 12 if len(draws) == 1 else n_draws, **settings)

    monkeypatch.setattr(bf, "sample", cut)
    for options in ([], ["--resume"], ["--resume"], ["--resume", "--draws", "5"]):
        assert fit(*options, settings=["--chains", "2", "--seed", "1", "--no-checks"]) == 0
    assert draws == [30, 18, 30, 5]
    assert tables()["posterior"].sizes["draw"] == 65


def test_chains_end_with_the_time_limit_and_resume(folder, capsys, monkeypatch):
    """What follows from the draws is that of all of them, as computed from the parameters."""
    clock = SimpleNamespace(monotonic=itertools.count().__next__)  # a second for every look at it
    monkeypatch.setattr(schedule, "time", clock)
    assert fit("--time", "12s", "--draws", "500000", "--thin", "50") == 0
    first = tables()
    ended = first["posterior"].sizes["draw"]
    assert 0 < ended < 10_000
    drawn, printed = f"{50 * ended:,}", capsys.readouterr().out
    assert f"2 chains of {drawn} draws (one in 50 stored)" in printed
    assert f"ended after {drawn} of 500,000 draws" in printed and "with --resume." in printed
    assert "disagree" not in printed
    assert fit("--resume", "--draws", "500", "--seed", "2") == 0
    said = "--resume continues the 2 chains in result.nc, which hold one draw in 50\n"
    assert said in capsys.readouterr().err and tables().attrs["interrupted"] == 0
    both = tables()
    assert both["posterior"].sizes == {**first["posterior"].sizes, "draw": ended + 10}
    assert both["posterior"].isel(draw=slice(ended)).equals(first["posterior"])
    expected = bf.label_probabilities(both, bf.models.DawidSkene(films()))
    np.testing.assert_allclose(bf.label_probabilities(both), expected, atol=1e-5)
    assert both["label_draws"].sizes["sample"] > 10
    capsys.readouterr()
    assert fit("--resume", "--draws", "50", "--chains", "3") == 0
    assert "--resume continues the 2 chains in result.nc" in capsys.readouterr().err
    assert fit("--resume", "--model", "latent-group") == 2
    said = capsys.readouterr().err
    assert "error: --resume result.nc: " in said and "of the same" in said

"""The command line with raters who share a mean."""

import numpy as np
import pytest
from shell import draw_nothing, fails, fit, tables, write_films

from bayesfuse.command_line import commands


@pytest.fixture(autouse=True)
def films(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "draw", draw_nothing)
    write_films(tmp_path)


@pytest.mark.parametrize("raters", ["confusion", "coin"])
def test_critics_share_a_mean(raters, capsys):
    assert fit("--pooled", "--raters", raters) == 0
    name = "confusion" if raters == "confusion" else "accuracy"
    posterior = tables()["posterior"]
    assert {f"{name}_mean", f"{name}_concentration"} <= set(posterior.data_vars)
    assert np.isfinite(posterior[f"{name}_concentration"]).all()
    assert "Ada" in capsys.readouterr().out
    assert fit("--raters", raters) == 0
    assert f"{name}_mean" not in tables()["posterior"]


def test_options_that_exclude_each_other(capsys):
    fails(capsys, fit("--pooled", "--robust"), "--robust", "--pooled", "give one of the two")
    fails(
        capsys,
        fit("--pooled", "--model", "latent-group"),
        "--pooled belongs to --model dawid-skene or hidden-markov or markov-random-field",
    )

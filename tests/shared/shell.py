"""What tests of the command line share: a table, quick settings, what a failure prints."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.inference.chains import Chain

ONE = ["--model", "dawid-skene"]
SHORT = ["--draws", "40", "--chains", "2", "--seed", "1"]
SETTINGS = {"draws": 40, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
SETTINGS["precision"] = "single"
"""The same in Python."""

FAST = [*SHORT, "--no-checks"]
"""For all but the tests of the report's checks, which take as long as the draws."""

COLUMNS = ["--item", "film", "--rater", "critic", "--label", "verdict"]


def write_films(folder):
    """Write ``films.csv``: 20 films, 3 critics, 2 verdicts."""
    rng = np.random.default_rng(4)
    truth = rng.random(20) < 0.6
    wrong = rng.random((20, 3)) < [0.05, 0.2, 0.4]
    film, critic = np.indices((20, 3)).reshape(2, -1)
    verdict = np.where(truth[:, None] ^ wrong, "good", "bad").ravel()
    table = pd.DataFrame({"film": film + 1, "critic": np.array(["Ada", "Bo", "Cy"])[critic]})
    table.assign(verdict=verdict, note="x, y").to_csv(folder / "films.csv", index=False)


def films():
    """Read the table as in Python."""
    names = dict(zip(("item", "rater", "label"), COLUMNS[1::2], strict=True))
    return bf.Responses.from_long(pd.read_csv("films.csv"), **names)


def fit(*arguments, table="films.csv", columns=COLUMNS, output="result.nc", settings=FAST):
    return main(["fit", table, *ONE, *columns, *settings, "--output", str(output), *arguments])


def fails(capsys, status, *words):
    """Check that a command failed with one line on stderr, and nothing else, that has ``words``."""
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert printed.err.startswith("bayesfuse: error: ")
    assert printed.err.count("\n") == 1
    assert all(word in printed.err for word in words), printed.err


def draw_nothing(result, path):
    """Take the place of the picture, which takes a second."""
    Path(os.path.realpath(path)).write_text("picture")


def tables(path="result.nc"):
    return xr.load_datatree(path)


def interrupt_in(monkeypatch, step):
    """Press Ctrl-C in the given draw, counted over all chains."""
    steps = iter(range(1, 10**9))
    plain = Chain.advance

    def pressed(self, seconds):
        if next(steps) == step:
            signal.raise_signal(signal.SIGINT)
        return plain(self, 0.0)

    monkeypatch.setattr(Chain, "advance", pressed)

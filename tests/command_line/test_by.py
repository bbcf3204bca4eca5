"""``--by``: shares of the classes by groups of items."""

import io
from pathlib import Path

import pandas as pd
from shell import COLUMNS, fails, fit

from bayesfuse.__main__ import main

GROUPED = "grouped.csv"


def write_groups(of):
    films = pd.read_csv("films.csv")
    films.assign(year=films["film"].map(of)).to_csv(GROUPED, index=False)


def test_shares_are_printed_by_a_column_of_the_responses(folder, capsys):
    write_groups(lambda film: "old" if film <= 8 else "new")
    assert fit("--by", "year", table=GROUPED) == 0
    said = capsys.readouterr().out.split("year ")[1]
    assert said.splitlines()[0].split() == "class items known votes share new items".split()
    rows = [line.split() for line in said.splitlines()]
    assert rows[1][:3] == ["all", "items", "bad"] and rows[3][:3] == ["new", "bad", "12"]
    assert "new − old   bad" in said


def test_groups_of_the_table_of_items(folder, capsys):
    films = pd.DataFrame({"film": range(1, 21), "genre": ["a", "b"] * 10})
    films.to_csv("items.csv", index=False)
    assert fit("--by", "genre", "--items", "items.csv") == 0
    assert "a − b" in capsys.readouterr().out


def test_bad_groups(folder, capsys, no_sampling, monkeypatch):
    fails(capsys, fit("--by", "year"), "films.csv has no column 'year'")
    write_groups(lambda film: None if film == 3 else "x")
    fails(capsys, fit("--by", "year", table=GROUPED), "every item needs a group for --by year")
    films = pd.read_csv("films.csv")
    films.assign(year=films["critic"]).to_csv(GROUPED, index=False)
    fails(capsys, fit("--by", "year", table=GROUPED), "an item has one group in all its rows")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("films.csv").read_bytes())))
    fails(capsys, main(["fit", "-", *COLUMNS, "--by", "note"]), "--by needs a column of a file")

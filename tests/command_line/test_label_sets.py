"""Sets of labels in the shell: reading, known sets, files that are written, and refusals."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import fails

import bayesfuse as bf
from bayesfuse.__main__ import main

OPTIONS = ["--label-sets", ";", "--item", "post", "--label", "tags", "--seed", "1", "--draws", "40"]


@pytest.fixture
def posts(tmp_path, monkeypatch):
    """Write answers of three raters on 30 posts: b is where a is, and c elsewhere."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    truth = rng.random(30) < 0.5
    wrong = rng.random((30, 3)) < [0.05, 0.1, 0.3]
    rows = [
        (post + 1, rater, "a; b" if truth[post] != wrong[post, at] else ["c", ""][post % 2])
        for post in range(30)
        for at, rater in enumerate(["Ann", "Bo", "Cy"])
    ]
    pd.DataFrame(rows, columns=["post", "annotator", "tags"]).to_csv("posts.csv", index=False)
    pd.DataFrame({"post": [1, 3], "tags": ["A;c", ""]}).to_csv("known.csv", index=False)


def test_sets_are_read_and_written(posts, capsys):
    # another column has the name of one that is chosen
    pd.read_csv("posts.csv", keep_default_na=False).assign(item=9).to_csv("posts.csv", index=False)
    files = ["--normalise", "--gold", "known.csv", "--report", "page.html"]
    files += ["--rater-table", "raters.csv", "--labels", "labels.csv", "--output", "posts.nc"]
    assert main(["fit", "posts.csv", *OPTIONS, *files]) == 0
    printed = capsys.readouterr().out
    assert "30 items, 3 raters, 3 labels, 270 answers" in printed
    labels = pd.read_csv("labels.csv", keep_default_na=False).set_index("post")
    assert labels["labels"][1] == "a;c" and labels["labels"][3] == ""
    assert labels["probability[a]"][[1, 3]].tolist() == [1, 0]
    stored = bf.load("posts.nc")
    assert labels.index.tolist() == stored.labels()["item"].tolist() == [*range(1, 31)]
    assert set(pd.read_csv("raters.csv")["rater"]) == {"Ann", "Bo", "Cy"}
    assert "Download all as CSV" in Path("page.html").read_text()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--wide"], "--wide is not for sets of labels"),
        (["--costs", "costs.csv"], "--costs is not for sets"),
        (["--model", "dawid-skene"], "--label-sets belongs to"),
    ],
)
def test_options_of_other_tables_are_refused(posts, option, message, capsys):
    Path("costs.csv").write_text("true,no,yes\nno,0,1\nyes,1,0\n")
    fails(capsys, main(["fit", "posts.csv", *OPTIONS, *option]), message)


def test_a_missing_column_is_asked_for_by_the_names_of_the_file(posts, capsys):
    words = "by --item (did you mean 'post'?). Got: columns ['post', 'annotator', 'tags']"
    fails(capsys, main(["fit", "posts.csv", "--label-sets", ";"]), words)

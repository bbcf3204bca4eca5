"""The command line with items in sequence."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import FAST, SETTINGS, fails, tables

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.models import HiddenMarkov

LENGTHS = {"ode": 7, "elegy": 4, "sonnet": 14, "haiku": 3, "ballad": 12}


@pytest.fixture
def poems(folder):
    """Words in sequence, three readers: ``words.csv`` with one row per word, ``said.csv``.

    Rows are shuffled, positions have gaps and other orders as numbers than as text, names of words
    say nothing, and nobody read the last word of the ballad.
    """
    rng = np.random.default_rng(3)
    poem = np.repeat(list(LENGTHS), list(LENGTHS.values()))
    place = np.concatenate([5 + 3 * np.arange(size) for size in LENGTHS.values()])
    words = pd.DataFrame({"word": rng.permutation(len(poem)) + 100, "poem": poem, "line": place})
    truth = (np.arange(len(poem)) // 3) % 2
    said = np.where(rng.random((3, len(poem))) < 0.8, truth, 1 - truth)
    rows = pd.concat(
        [words.assign(reader=name, tone=own) for name, own in zip("ABC", said, strict=True)]
    )
    rows["tone"] = rows["tone"].map({0: "grave", 1: "merry"})
    rows = rows[rows["word"] != words["word"].iloc[-1]].sample(frac=1, random_state=0)
    rows[["word", "reader", "tone"]].to_csv("said.csv", index=False)
    rows.to_csv("both.csv", index=False)
    words.sample(frac=1, random_state=1).to_csv("words.csv", index=False)
    return words


def read(arguments):
    return read_tables(parse(arguments))


def hidden_markov(*arguments, table="said.csv", items="words.csv", then=main):
    columns = ["--item", "word", "--rater", "reader", "--label", "tone"]
    columns += ["--sequence", "poem", "--position", "line"]
    listed = ["--items", items] if items else []
    return then(["fit", table, "--model", "hidden-markov", *columns, *listed, *FAST,
                 "--output", "result.nc", *arguments])  # fmt: skip


@pytest.mark.slow
def test_sequences_come_out_in_their_order(poems, pictures):
    """Labels, probabilities and path are those of the same model in Python."""
    assert hidden_markov("--quiet") == 0
    labels = pd.read_csv("result-labels.csv")
    assert labels.columns.tolist() == [
        "item", "sequence", "position", "label", "path",
        "probability_grave", "probability_merry", "mcse",
    ]  # fmt: skip
    expected = poems.sort_values(["poem", "line"])
    assert labels["item"].tolist() == expected["word"].tolist()
    assert labels["sequence"].tolist() == expected["poem"].tolist()
    assert labels["position"].tolist() == expected["line"].tolist()

    sequences = bf.Sequences.from_table(poems, item="word", sequence="poem", position="line")
    responses = bf.Responses.from_long(
        pd.read_csv("said.csv"), item="word", rater="reader", label="tone",
        items=sequences.items.tolist(),
    )  # fmt: skip
    model = HiddenMarkov(responses, sequences)
    result = bf.sample(model, **SETTINGS)
    probability = bf.label_probabilities(result)
    columns = labels[["probability_grave", "probability_merry"]].to_numpy()
    np.testing.assert_allclose(columns, probability.values)
    assert labels["path"].tolist() == bf.decode(result, model).values.tolist()
    assert probability["item"].values.tolist() == labels["item"].tolist()
    assert Path("result.png").read_bytes().startswith(b"\x89PNG")


def test_places_may_stand_beside_the_responses(poems):
    answered = pd.read_csv("words.csv").merge(pd.read_csv("both.csv")[["word"]].drop_duplicates())
    answered.to_csv("answered.csv", index=False)
    apart = hidden_markov(items="answered.csv", then=read)
    beside = hidden_markov(table="both.csv", items=None, then=read)
    assert len(apart.places) == 39
    pd.testing.assert_frame_equal(apart.responses.to_frame(), beside.responses.to_frame())
    for column in ("sequence", "position"):
        assert apart.places[column].tolist() == beside.places[column].tolist()
    assert apart.sequences.items.tolist() == beside.sequences.items.tolist()


@pytest.mark.parametrize(
    "positions",
    [
        ["2", "9", "10"],
        ["-1e3", "-2", "0.25"],
        ["9007199254740992", "9007199254740993", "9007199254740994"],
        ["2026-01-31", "2026-01-31T23:59", "2026-02-01 00:00"],
        ["2026-01-31T23:30+01:00", "2026-01-31T23:00Z", "2026-01-31T23:00-01:00"],
    ],
)
def test_positions_are_ordered_as_numbers_or_times_and_stay_as_they_were(folder, positions):
    rows = [
        f"{item},{rater},{item % 2},s,{positions[item]}" for rater in "ab" for item in (2, 0, 1)
    ]
    Path("rows.csv").write_text("\n".join(["item,rater,label,sequence,position", *rows]))
    found = read(["fit", "rows.csv", "--model", "hidden-markov", "--output", "a.nc"])
    assert found.sequences.items.tolist() == [0, 1, 2] == found.responses.items.tolist()
    assert found.places["position"].tolist() == positions


def test_bio_tags_follow_their_rules(folder, capsys):
    """Everybody says that one span goes on where another begins, which no path may believe."""
    tags = ["O", "B-LOC", "I-PER", "O", "B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O", "I-LOC"]
    frame = pd.DataFrame(
        [(f"{s}.{t}", rater, tag, s, t)
         for s in range(4) for t, tag in enumerate(tags[: 12 - s]) for rater in "abc"],
        columns=["item", "rater", "label", "sequence", "position"],
    )  # fmt: skip
    frame.to_csv("tags.csv", index=False)
    arguments = ["fit", "tags.csv", "--model", "hidden-markov", *FAST, "--output", "a.nc"]
    assert main([*arguments, "--bio"]) == 0
    transition = tables("a.nc")["posterior"]["transition"]
    for before, after in (("O", "I-PER"), ("B-LOC", "I-PER"), ("I-PER", "I-LOC")):
        assert not transition.sel({"class": before, "next_class": after}).any()
    assert (transition.sel({"class": "B-LOC", "next_class": "I-LOC"}) > 0).all()
    labels = pd.read_csv("a-labels.csv")
    for _, path in labels.groupby("sequence")["path"]:
        for before, after in pairwise(["O", *path]):
            assert not after.startswith("I-") or before[2:] == after[2:], path.tolist()
    lines = capsys.readouterr().out.splitlines()
    assert "Sequences: 42 items in 4 sequences, 9 to 12 long" in lines
    header = lines.index("after  then")
    means = transition.mean(("chain", "draw")).sel({"class": "B-LOC"})
    best = means["next_class"].values[int(means.argmax("next_class"))]
    assert lines[header + 1].startswith(f"B-LOC  {best}: {float(means.max()):.2f}  ")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda words: words.rename(columns={"line": "verse"}), "has no column 'line'"),
        (lambda words: words.assign(line=5), "must have different positions"),
        (lambda words: words.assign(line="first"), "positions must be numbers or times"),
        (lambda words: words.assign(line=words["line"].where(words["line"] > 5)),
         "every item needs 'word' and 'poem' and 'line'. Got: a missing value in row"),
        (lambda words: pd.concat([words, words.iloc[:1].assign(poem="epic")]),
         "an item must have one row in the table of items. Got: several for item"),
        (lambda words: words.iloc[1:], "must be among the declared ones"),
    ],
)  # fmt: skip
def test_sequences_that_cannot_be(poems, no_sampling, capsys, change, word):
    change(poems).to_csv("changed.csv", index=False)
    fails(capsys, hidden_markov(items="changed.csv"), word)


def test_places_beside_the_responses_that_cannot_be(poems, no_sampling, capsys):
    rows = pd.read_csv("both.csv")

    def changed(column, value):
        frame = rows.astype(object)
        frame.loc[0, column] = value
        frame.to_csv("changed.csv", index=False)
        return hidden_markov(table="changed.csv", items=None)

    rule = (
        "an item must have the same sequence and position in all its rows. Got: several for item "
    )
    fails(capsys, changed("poem", "epic"), f"{rule}'{rows['word'][0]}' in changed.csv")
    fails(capsys, changed("line", None), "Got: a missing value in row 0 of changed.csv")
    fails(capsys, hidden_markov(items=None), "said.csv has no column 'poem'")
    fails(capsys, hidden_markov("--bio"), "Classes that mark spans must be 'O'")

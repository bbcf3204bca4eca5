"""Arguments: each works, or is refused in one line that says what, with no file touched."""

import os
import re
from pathlib import Path

import pytest
from shell import COLUMNS, ONE, fails, tables

from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import OPTIONS, in_options

QUICK = [*COLUMNS, *ONE, "--no-checks", "--draws", "2", "--chains", "1", "--quiet"]
FIT = ["fit", "films.csv", *QUICK, "--output"]
TO = [*FIT, "r.nc"]
LONG = "n" * 4000


def other(model):
    return [*TO, "--model", model]


@pytest.mark.parametrize(
    ("output", "others"),
    [
        ("r.NC", []),
        ("v1.e\u0301é.nc", ["--sweeps", "3", "--thin", "2", "--seed", "\u0663"]),
        (os.fsdecode(b"\xff.nc"), ["--thin", "100"]),
        ("-r.nc", ["--seed", "9" * 60, "--mod", "dawid-skene", "--quiet"]),
    ],
)
def test_names_of_files_and_numbers_that_work(folder, capfd, output, others):
    before = set(os.listdir())
    assert main([*FIT[:-1], f"--output={output}", *others]) == 0
    assert capfd.readouterr() == ("", "")
    stem = Path(output).stem
    written = {Path(output).name, f"{stem}-labels.csv", f"{stem}.png"}
    assert set(os.listdir()) - before == written
    assert tables(Path(output).resolve())["posterior"].sizes["draw"] >= 1


REFUSED = [
    # commands, and what they need
    ([], "arguments are required: COMMAND (see bayesfuse --help)"),
    (["doctor", "films.csv", "--draw", "2"], "arguments: --draw 2 (see bayesfuse doctor --help)"),
    # input files
    (["fit", "", "--output", "r.nc"], "cannot read .: Is a directory"),
    (["fit", "none.csv", "--output", "r.nc"], "cannot read none.csv: No such file or directory"),
    (["fit", f"{LONG}.csv", "--output", "r.nc"], "File name too long"),
    (["fit", "/dev/null", "--output", "r.nc"], "cannot read /dev/null: it is a device"),
    ([*TO, "--items", "-", "--gold", "-"], "only one table can come from standard input"),
    # output files
    ([*FIT, ""], "cannot write .: it is a folder"),
    ([*FIT, "r.csv"], "must end in .nc"),
    ([*FIT, "labels.csv"], "; --labels, --picture"),
    ([*TO, "--labels", "r.nc"], "r.nc twice"),
    ([*TO, "--labels", "films.csv"], "films.csv twice"),
    ([*TO, "--picture", "p"], "--picture must end in .png"),
    # numbers
    ([*TO, "--seed", "-1"], "--seed: must be at least 0. Got: -1"),
    ([*TO, "--draws", "0"], "draws must be a whole number, at least 1. Got: 0"),
    ([*TO, "--chains", "1000000000"], "--chains: must be at most 10,000"),
    ([*TO, "--sweeps", "0"], "sweeps must be a whole number, at least 1. Got: 0"),
    # columns and classes
    ([*TO, "--item", "movie"], "no column 'movie': give the names of columns by --item"),
    ([*TO, "--item", "critic"], "a column can be used once only. Got: 'critic' for two"),
    ([*TO, "--classes", "good,ugly"], "Got: 'bad'"),
    ([*TO, "--classes", os.fsdecode(b"good,bad,\xff")], "classes must be names"),
    # a model and its options
    (["fit", "films.csv", "--ask", "0"], "--ask needs at least one item. Got: --ask 0"),
    (["fit", "films.csv", "--ask-file", "a.csv"], "--ask-file needs --ask N"),
    (["fit", "films.csv", "--time", "2"], "a time is written as 90s, 2min or 1h. Got: '2'"),
    ([*TO, "--resume"], "--resume continues the chains in r.nc. Got: no such file"),
    (["fit", "films.csv", "--resume"], "--resume belongs to a --model"),
    (["films.csv"], "a command comes first, as in bayesfuse fit films.csv"),
    ([*TO, "--labels", "l.xlsx"], "with commas (.csv) or tabs (.tsv). Got: l.xlsx"),
    ([*TO, "--graph", "g.csv"], "--graph belongs to --model markov-random-field. Got: --model daw"),
    ([*other("latent-group"), "--raters", "coin"], "--model dawid-skene or hidden-markov or mark"),
    ([*other("hidden-markov")], "--item, --rater, --label, --sequence and --position"),
    ([*other("markov-random-field")], "give --graph FILE"),
    (
        [*other("item-types"), "--robust"],
        "--robust belongs to --model dawid-skene or hidden-markov",
    ),
]


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_arguments_that_cannot_be(folder, capsys, at):
    arguments, word = REFUSED[at]
    fails(capsys, main(arguments), word)
    assert os.listdir() == ["films.csv"]


def test_files_that_cannot_be_written_are_refused_before_sampling(folder, capsys, no_sampling):
    os.mkfifo("pipe.nc")
    Path("device.nc").symlink_to("/dev/null")
    Path("loop.nc").symlink_to("loop.nc")
    Path("lost.nc").symlink_to("nowhere/result.nc")
    Path("folder.nc").mkdir()
    Path("r.nc").write_text("precious")
    before = set(os.listdir())
    for output, word in {
        "pipe.nc": "it is not a regular file",
        "device.nc": "it is not a regular file",
        "loop.nc": "Too many levels of symbolic links",
        "lost.nc": "No such file",
        "folder.nc": "it is a folder",
    }.items():
        fails(capsys, main([*FIT, output]), f"cannot write {output}: {word}")
    fails(capsys, main([*TO, "--labels", "folder.nc"]), "cannot write folder.nc: Is a directory")
    assert set(os.listdir()) == before
    assert Path("lost.nc").is_symlink() and Path("loop.nc").is_symlink()
    assert Path("r.nc").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_and_files_that_are_read_only(folder, capsys):
    Path("shut").mkdir(mode=0o555)
    fails(capsys, main([*FIT, "shut/result.nc"]), "Permission denied")
    Path("r.nc").touch(mode=0o444)
    fails(capsys, main(TO), "cannot write r.nc: Permission denied")


def test_surroundings_without_anything(folder, capfd, monkeypatch):
    for name in ("HOME", "TMPDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, "/proc/nowhere")
    for name, value in {"COLUMNS": "1", "TERM": "dumb", "LANG": "C"}.items():
        monkeypatch.setenv(name, value)
    assert main(TO) == 0
    assert capfd.readouterr() == ("", "")
    monkeypatch.delenv("HOME")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["fit", "--help"])
    assert "--sweeps" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Labels must be among labels=, or raters=, report=, model=.", None),
        ("Name failures in missing=, as bf.sample(model, draws=100) does.", None),
        ('Drop them (missing="drop").', "Drop them (--drop-empty)."),
        ("Give minutes=, such as minutes=2 or 0.5.", "Give --time, such as --time 2min or 0.5."),
        ("See classes= of bf.Responses, random_seed=1.", "See --classes, --seed 1."),
        ('Give item="a", rater="b".', 'Give --item "a" --rater "b".'),
        ("See frame.drop(columns=['a b', 'c']) of pandas.", "See --ignore 'a b,c' of pandas."),
        ("Order (sequences=, or --sequence and --position).", "Order (--sequence and --position)."),
        ("Label 5 (bf.decisions.next_items, --ask): gold=, --gold.", "Label 5 (--ask): --gold."),
        (
            "Allow more minutes= (--time) or ordered=True, --ordered.",
            "Allow more --time or --ordered.",
        ),
        ("so try bayesfuse.models.ItemTypes.", "so try --model item-types."),
        ("Use bayesfuse.models.LabelProfiles.", None),
        (
            "Some are odd (fused.raters() lists all).",
            "Some are odd (--rater-table FILE.csv has all).",
        ),
    ],
)
def test_only_arguments_that_options_stand_for_are_named_as_options(message, words):
    """Others, such as labels=, have the name of an option that is another thing, or no option."""
    assert in_options(message) == (words or message)


def test_every_option_that_a_message_names_is_one(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    assert set(OPTIONS.values()) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out))

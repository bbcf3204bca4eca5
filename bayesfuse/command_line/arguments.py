"""The arguments of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.files import STDIN

RATERS = ("confusion", "class", "coin", "graded")
"""Parameters of a rater, the default first."""

MOST, MOST_CHAINS = 10**15, 10_000
"""Draws and chains beyond which NumPy and PyMC fail with unclear errors."""

MODELS: dict[str, dict[str, Any]] = {
    "dawid-skene": {"raters": RATERS[0], "pooled": False},
    "hidden-markov": {
        "raters": RATERS[0],
        "pooled": False,
        "sequence": "sequence",
        "position": "position",
        "bio": False,
    },
    "item-types": {"types": None, "trust": None},
    "labelling-functions": {"class_shares": None},
    "latent-group": {"groups": "moments"},
    "markov-random-field": {
        "raters": RATERS[0],
        "pooled": False,
        "graph": None,
        "edges": "given",
    },
}
"""Models by name, with their options and defaults."""


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments, ``command`` among them: "fit" or "demo".

    Raises
    ------
    CommandError
        Arguments that are unknown, incompatible or incomplete.
    """
    arguments = _parser().parse_args(argv)
    if arguments.command == "fit":
        _complete_options(arguments)
    return arguments


def _complete_options(arguments: argparse.Namespace) -> None:
    """Refuse options of other models, and fill in the defaults of the chosen one."""
    own = MODELS[arguments.model]
    for option in {name: None for options in MODELS.values() for name in options}:
        if getattr(arguments, option) is None:
            setattr(arguments, option, own.get(option))
        elif option not in own:
            others = " or ".join(model for model, options in MODELS.items() if option in options)
            written = option.replace("_", "-")
            raise CommandError(
                f"--{written} belongs to --model {others}. Got: --model {arguments.model}"
            )
    if arguments.model == "item-types" and arguments.robust:
        raise CommandError(
            "--robust is a prior of confusion matrices, which item-types infers from all raters. "
            "Got: --model item-types"
        )
    if arguments.model == "labelling-functions" and arguments.robust:
        raise CommandError(
            "--robust is a prior of confusion matrices, and labelling functions have none. Got: "
            "--model labelling-functions"
        )
    if arguments.pooled and arguments.robust:
        raise CommandError(
            "--robust is a prior of every rater's rows, and with --pooled raters share one prior: "
            "give one of the two. Got: both"
        )
    if arguments.model == "markov-random-field" and arguments.graph is None:
        raise CommandError(
            "--model markov-random-field needs the edges of the graph: give --graph FILE. Got: no "
            "graph"
        )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m bayesfuse",
        description="Infer the true label of every item and the accuracy of every rater from the "
        "responses of imperfect raters, without ground truth.",
    )
    parser.add_argument("--version", action="version", version=f"bayesfuse {bf.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_fit(commands)
    _add_demo(commands)
    return parser


def _add_fit(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        help="fit a model to a table of responses",
        description="Fit a model to a table with one row per response. Writes the posterior "
        "(NetCDF, for ArviZ), the labels (CSV) and a plot; prints the raters and the least "
        "certain items. Names that consist of digits only become integers. Tables are UTF-8 text "
        "with commas, semicolons or tabs, also compressed (.gz, .bz2, .xz, .zip); - is standard "
        "input.",
    )
    add = parser.add_argument
    add("responses", type=_path, metavar="FILE", help="the table of responses")
    add("--item", default="item", metavar="COLUMN", help="column of the items (%(default)s)")
    add("--rater", default="rater", metavar="COLUMN", help="column of the raters (%(default)s)")
    add("--label", default="label", metavar="COLUMN", help="column of the labels (%(default)s)")
    add(
        "--items",
        type=_path,
        metavar="FILE",
        help="all items, in order, including those without responses: a table with one row per "
        "item, its column of items named as in the responses",
    )
    add(
        "--classes",
        type=_classes,
        metavar="A,B,...",
        help="all classes in order, the positive one of two last",
    )
    add("--gold", type=_path, metavar="FILE", help="known labels: a table with columns item, label")
    add("--model", choices=sorted(MODELS), default="dawid-skene", help="model (%(default)s)")
    add(
        "--raters",
        choices=RATERS,
        help="parameters of a rater: a confusion matrix, one accuracy per class, or one accuracy "
        f"({RATERS[0]}; only with dawid-skene, hidden-markov and markov-random-field)",
    )
    add(
        "--pooled",
        action="store_true",
        default=None,
        help="raters share a mean, so that those with few responses are like the crowd (for the "
        "same models)",
    )
    add(
        "--robust",
        action="store_true",
        help="prior that lets some rows of the confusion matrices be far from the diagonal, so "
        "that one odd rater cannot switch the classes (if there are few raters)",
    )
    add(
        "--sampler",
        choices=("auto", "gibbs", "nuts"),
        default="auto",
        help="sampler (%(default)s)",
    )
    add(
        "--draws",
        type=_whole_number,
        default=1000,
        metavar="N",
        help="draws per chain (%(default)s)",
    )
    add(
        "--thin",
        type=_whole_number,
        metavar="N",
        help="keep one draw in N, for a smaller file (1, or for files above 200 MB as many as it "
        "takes)",
    )
    add(
        "--precision",
        choices=("single", "double"),
        default="single",
        help="precision of the draws in the file (%(default)s)",
    )
    add(
        "--sweeps",
        type=_whole_number,
        metavar="N",
        help="Gibbs sweeps per draw: more make draws less correlated, in a file of the same size "
        "(1 to 10, depending on the size of the table)",
    )
    add("--chains", type=_chains, default=4, metavar="N", help="chains (%(default)s)")
    add("--seed", type=_seed, metavar="N", help="the same seed gives the same draws")
    add("--output", type=Path, metavar="FILE.nc", required=True, help="file of the posterior")
    add(
        "--labels",
        type=Path,
        metavar="FILE.csv",
        help="file of the labels (next to the output: NAME-labels.csv)",
    )
    add(
        "--picture",
        type=Path,
        metavar="FILE.png",
        help="file of the plot (next to the output: NAME.png)",
    )
    add("--no-checks", action="store_true", help="skip the posterior predictive checks")
    add("--quiet", action="store_true", help="print nothing but errors")
    _add_options_of_models(parser)
    parser.set_defaults(command="fit")


def _add_options_of_models(parser: argparse.ArgumentParser) -> None:
    """Add the models' options, which default to None so that those of other models are detected."""
    add = parser.add_argument_group(
        "--model hidden-markov",
        "Items in sequence, such as words. Sequence and position are columns of the table of items "
        "or, without one, of the responses.",
    ).add_argument
    add("--sequence", metavar="COLUMN", help="column of the sequences (sequence)")
    add(
        "--position",
        metavar="COLUMN",
        help="column of the numbers or times that order the items of a sequence (position)",
    )
    add(
        "--bio",
        action="store_true",
        default=None,
        help="labels are O, B-X and I-X, and I-X follows only B-X or I-X",
    )
    add = parser.add_argument_group(
        "--model item-types",
        "Items of hidden types, easy and hard ones, and raters who look or guess.",
    ).add_argument
    add(
        "--types",
        type=_whole_number,
        metavar="N",
        help="most types that items may have (four times the number of classes)",
    )
    add(
        "--trust",
        type=_number,
        metavar="NUMBER",
        help="how far the majority is believed: with 1 the truth is like one more response, with "
        "more like several (inferred, which needs known labels)",
    )
    add = parser.add_argument_group(
        "--model labelling-functions", "Rules that are silent on most items."
    ).add_argument
    add(
        "--class-shares",
        type=_numbers,
        metavar="S,T,...",
        help="known shares of the classes, in their order (inferred)",
    )
    add = parser.add_argument_group(
        "--model latent-group", "Raters who share a source."
    ).add_argument
    add(
        "--groups",
        choices=("moments", "posterior"),
        help="found by moments, or inferred jointly (moments)",
    )
    add = parser.add_argument_group(
        "--model markov-random-field", "Items on a graph, whose neighbours tend to share a class."
    ).add_argument
    add(
        "--graph",
        type=_path,
        metavar="FILE",
        help="the edges: a table with two columns of items and optionally a column weight",
    )
    add(
        "--edges",
        choices=("given", "drawn"),
        help="whether edges do not depend on the labels, as between pixels, or do, as citations "
        "(given)",
    )


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="an example with included data",
        description="Fit Dawid and Skene's model to their own data: five anaesthetists, 45 "
        "patients, four classes. Prints the posterior and writes a plot.",
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="folder of the plot (.)"
    )
    parser.set_defaults(command="demo")


def _path(text: str) -> Path:
    return STDIN if text == "-" else Path(text)


def _seed(text: str) -> int:
    try:
        if text.isdecimal():
            return int(text)
    except ValueError:  # thousands of digits
        pass
    raise argparse.ArgumentTypeError(f"a seed must be a whole number, at least 0. Got: {text:.50}")


def _whole_number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r:.50}") from None
    if number >= MOST:
        raise argparse.ArgumentTypeError(f"must be less than 10^15. Got: {text:.50}")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid number: {text!r:.50}") from None


def _numbers(text: str) -> list[float]:
    return [_number(part) for part in text.split(",")]


def _chains(text: str) -> int:
    if (number := _whole_number(text)) > MOST_CHAINS:
        raise argparse.ArgumentTypeError(f"at most {MOST_CHAINS:,} chains. Got: {number}")
    return number


def _classes(text: str) -> str:
    # Python decodes bytes that are not UTF-8 to surrogates
    named = text.encode("utf-8", "replace").decode() == text and all(text.split(","))
    if not named:
        raise argparse.ArgumentTypeError(f"classes must be names in UTF-8 text. Got: {text!r}")
    return text

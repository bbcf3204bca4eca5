"""The arguments of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bayesfuse import __version__
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.files import STDIN, place
from bayesfuse.command_line.options import MODELS, RATERS, complete

TIME = re.compile(r"(\d+(?:\.\d+)?)(s|min|h)")
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""Times as 90s, 2min or 1h."""

MOST, MOST_CHAINS = 10**15, 10_000
"""Draws and chains beyond which NumPy and PyMC fail with unclear errors."""


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
        complete(arguments)
        place(arguments)
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m bayesfuse",
        description="Infer the true label of every item and the accuracy of every rater from the "
        "responses of imperfect raters, without ground truth.",
    )
    parser.add_argument("--version", action="version", version=f"bayesfuse {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_fit(commands)
    _add_demo(commands)
    return parser


def _add_fit(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        help="labels and raters from a table of responses",
        description="Fit the models that are sensible for a table with one row per response, "
        "check and average them, or fit one --model. Writes the labels (CSV) and, if asked, a "
        "report (HTML), the posterior (NetCDF, for ArviZ) and a plot; prints raters, checks and "
        "the least certain items. Names that consist of digits only become integers. Tables are "
        "UTF-8 text with commas, semicolons or tabs, also compressed (.gz, .bz2, .xz, .zip); - is "
        "standard input.",
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
    add(
        "--time",
        type=_minutes,
        metavar="2min",
        help="maximum time of the fits, as 90s, 2min or 1h (3min)",
    )
    add(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="file of the report as one page with pictures",
    )
    add(
        "--model",
        choices=sorted(MODELS),
        help="one model in place of several that are averaged; its posterior needs --output",
    )
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
        help="raters share a mean, so that raters with few responses resemble the crowd (for the "
        "same models)",
    )
    add(
        "--robust",
        action="store_true",
        default=None,
        help="prior that lets some rows of the confusion matrices be far from the diagonal, so "
        "that one odd rater cannot switch the classes (if there are few raters)",
    )
    add(
        "--sampler",
        choices=("auto", "gibbs", "nuts"),
        help="sampler (auto)",
    )
    add(
        "--draws",
        type=_whole_number,
        metavar="N",
        help="draws per chain (1000)",
    )
    add(
        "--thin",
        type=_whole_number,
        metavar="N",
        help="keep every N-th draw, for a smaller file (1, or more for files above 200 MB)",
    )
    add(
        "--precision",
        choices=("single", "double"),
        help="precision of the draws in the file (single)",
    )
    add(
        "--sweeps",
        type=_whole_number,
        metavar="N",
        help="Gibbs sweeps per draw: more make draws less correlated, in a file of the same size "
        "(1 to 10, depending on the size of the table)",
    )
    add("--chains", type=_chains, metavar="N", help="chains (4)")
    add("--seed", type=_seed, metavar="N", help="the same seed gives the same draws")
    add("--output", type=Path, metavar="FILE.nc", help="file of the posterior")
    add(
        "--labels",
        type=Path,
        metavar="FILE.csv",
        help="file of the labels (NAME-labels.csv, next to the output if there is one); - is "
        "standard output, also if the table comes from standard input",
    )
    add(
        "--picture",
        type=Path,
        metavar="FILE.png",
        help="file of a plot (with --model: next to the output, NAME.png)",
    )
    add(
        "--no-checks",
        action="store_true",
        default=None,
        help="skip the posterior predictive checks",
    )
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
        help="maximum number of types (four times the number of classes)",
    )
    add(
        "--trust",
        type=_number,
        metavar="NUMBER",
        help="weight of the majority: with 1 the truth counts as one more response, with more as "
        "several (inferred, which needs known labels)",
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


def _minutes(text: str) -> float:
    found = TIME.fullmatch(text.replace(" ", ""))
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"a time is written as 90s, 2min or 1h. Got: {text!r:.50}")
    return float(found[1]) * SECONDS[found[2]] / 60


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

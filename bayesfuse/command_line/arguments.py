"""The arguments of the command line, and which options belong to which models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from bayesfuse import __version__
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.files import place
from bayesfuse.command_line.values import (
    chains,
    classes,
    minutes,
    number,
    numbers,
    path,
    seed,
    whole_number,
)

OF_ONE_MODEL: dict[str, Any] = {
    "robust": False,
    "sampler": "auto",
    "thin": None,
    "precision": "single",
    "sweeps": None,
    "chains": 4,
    "resume": False,
}
"""Options of ``--model`` of any kind, and their defaults."""

OF_SEVERAL: dict[str, Any] = {"report": None, "ask": None, "ask_file": None}
"""Options without ``--model``, and their defaults."""

OF_TABLES = ("sequence", "position", "graph")
"""Options of models that say what the data are, so that they need no model."""

CALLS = """calls that most people need:
  bayesfuse doctor table.csv                      what the table can tell
  bayesfuse fit table.csv                         labels and raters: table-labels.csv
  bayesfuse fit table.csv --report report.html    the same as a page with pictures
  bayesfuse fit wide.csv --wide --item task       one row per item, one column per rater
  bayesfuse fit table.csv --gold known.csv --ask 20    use known labels, choose the next"""

CONSENSUS, GUESSES = ("pairs", "levels"), ("own", "even")  # the default first
RATERS = ("confusion", "class", "coin", "graded")  # parameters of a rater, the default first

MODELS: dict[str, dict[str, Any]] = {
    "dawid-skene": {"raters": RATERS[0], "pooled": False},
    "hidden-markov": {
        "raters": RATERS[0],
        "pooled": False,
        "sequence": "sequence",
        "position": "position",
        "bio": False,
    },
    "item-types": {"consensus": CONSENSUS[0], "guesses": GUESSES[0], "trust": None},
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


FIT: dict[str, tuple[Any, Any, str]] = {
    "--items": (
        path,
        "FILE",
        "all items, in order, including those without responses: a table with one row per item, "
        "its column of items named as in the responses",
    ),
    "--classes": (classes, "A,B,...", "all classes in order, the positive one of two last"),
    "--gold": (
        path,
        "FILE",
        "known labels: a table with columns item, label; rows without a label are left out",
    ),
    "--ask": (whole_number, "N", "choose N items to label next, for --gold"),
    "--ask-file": (
        Path,
        "FILE.csv",
        "file of these items, with a column label to fill in (NAME-ask.csv)",
    ),
    "--by": (
        str,
        "COLUMN",
        "print the shares of the classes, corrected for errors, by groups of items: a column of "
        "the table of items or, without one, of the responses",
    ),
    "--time": (
        minutes,
        "2min",
        "maximum time, checks included: 90s, 2min or 1h (3min; with --model as long as it takes)",
    ),
    "--draws": (whole_number, "N", "draws per chain (1000; without --model at most 350)"),
    "--no-checks": (bool, None, "skip the posterior predictive checks"),
    "--seed": (seed, "N", "the same seed gives the same draws"),
    "--output": (Path, "FILE.nc", "file of the posterior"),
    "--labels": (
        Path,
        "FILE.csv",
        "file of the labels (NAME-labels.csv, next to the output if there is one); - is standard "
        "output, also if the table comes from standard input",
    ),
    "--picture": (
        Path,
        "FILE.png",
        "file of a plot (with --model: next to the output, NAME.png)",
    ),
    "--report": (Path, "FILE.html", "file of the report as one page with pictures"),
    "--model": (
        str,
        sorted(MODELS),
        "one model in place of several that are averaged",
    ),
}
"""Options of ``fit``: type, metavar or choices, and help."""

OF_ANY_MODEL: dict[str, tuple[Any, Any, str]] = {
    "--raters": (
        str,
        RATERS,
        "parameters of a rater: a confusion matrix, one accuracy per class, or one accuracy "
        f"({RATERS[0]}; only with dawid-skene, hidden-markov and markov-random-field)",
    ),
    "--pooled": (
        bool,
        None,
        "raters share a mean, so that raters with few responses resemble the crowd (for the same "
        "models)",
    ),
    "--robust": (
        bool,
        None,
        "prior that lets some rows of the confusion matrices be far from the diagonal, so that "
        "one odd rater cannot switch the classes (if there are few raters)",
    ),
    "--sampler": (str, ("auto", "gibbs", "nuts"), "sampler (auto)"),
    "--thin": (
        whole_number,
        "N",
        "keep every N-th draw, for a smaller file (1, or more for files above 200 MB)",
    ),
    "--precision": (str, ("single", "double"), "precision of the draws in the file (single)"),
    "--sweeps": (
        whole_number,
        "N",
        "Gibbs sweeps per draw: more make draws less correlated, in a file of the same size (1 to "
        "10, depending on the size of the table)",
    ),
    "--chains": (chains, "N", "chains (4)"),
    "--resume": (bool, None, "continue the chains in the file --output, and write it anew"),
}
"""Options of ``fit`` with ``--model`` of any kind."""

OF_MODELS: dict[tuple[str, str], dict[str, tuple[Any, Any, str]]] = {
    (
        "hidden-markov",
        "Items in sequence, such as words. Sequence and position are columns of the table of items "
        "or, without one, of the responses.",
    ): {
        "--sequence": (str, "COLUMN", "column of the sequences (sequence)"),
        "--position": (
            str,
            "COLUMN",
            "column of the numbers or times that order the items of a sequence (position)",
        ),
        "--bio": (bool, None, "labels are O, B-X and I-X, and I-X follows only B-X or I-X"),
    },
    ("item-types", "Items of hidden types, easy and hard ones, and raters who look or guess."): {
        "--consensus": (
            str,
            CONSENSUS,
            "what competent raters say: pairs of classes may compete, or all others alike (pairs)",
        ),
        "--guesses": (str, GUESSES, "of every rater their own, or every class alike (own)"),
        "--trust": (
            number,
            "NUMBER",
            "weight of the majority: with 1 the truth counts as one more response, with more as "
            "several (inferred, which needs known labels)",
        ),
    },
    ("labelling-functions", "Rules that are silent on most items."): {
        "--class-shares": (
            numbers,
            "S,T,...",
            "known shares of the classes, in their order (inferred)",
        ),
    },
    ("latent-group", "Raters who share a source."): {
        "--groups": (
            str,
            ("moments", "posterior"),
            "found by moments, or inferred jointly (moments)",
        ),
    },
    ("markov-random-field", "Items on a graph, whose neighbours tend to share a class."): {
        "--graph": (
            path,
            "FILE",
            "the edges: a table with two columns of items and optionally a column weight",
        ),
        "--edges": (
            str,
            ("given", "drawn"),
            "whether edges do not depend on the labels, as between pixels, or do, as citations "
            "(given)",
        ),
    },
}
"""Options of single models, by model and its description."""


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return valid arguments, with ``command``, or raise CommandError."""
    given = sys.argv[1:] if argv is None else argv
    if given and not given[0].startswith("-") and Path(given[0]).is_file():
        raise CommandError(
            f"a command comes first, as in bayesfuse fit {given[0]}. Got: no command"
        )
    arguments = _parser().parse_args(argv)
    if arguments.command == "fit":
        _complete(arguments)
        place(arguments)
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bayesfuse",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Infer the true label of every item and the accuracy of every rater from the "
        "responses\nof imperfect raters, without ground truth.",
        epilog=CALLS,
    )
    parser.add_argument("--version", action="version", version=f"bayesfuse {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_fit(commands)
    _add_doctor(commands)
    _add_demo(commands)
    return parser


def _add_fit(commands: Any) -> None:
    parser = commands.add_parser(
        "fit",
        usage="%(prog)s FILE [options]",
        help="labels and raters from a table of responses",
        description="Fit the models that are sensible for a table with one row per response, "
        "check and average them, or fit one --model. Writes the labels (CSV) and, if asked, a "
        "report (HTML), the posterior (NetCDF, for ArviZ) and a plot; prints raters, checks and "
        "the least certain items. Names that consist of digits only become integers. Tables are "
        "UTF-8 text with commas, semicolons or tabs, also compressed (.gz, .bz2, .xz, .zip); - is "
        "standard input.",
    )
    parser.add_argument("responses", type=path, metavar="FILE", help="the table of responses")
    _add_table(parser)
    _add(parser, FIT)
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    _add(parser.add_argument_group("with --model"), OF_ANY_MODEL)
    for (model, description), options in OF_MODELS.items():
        _add(parser.add_argument_group(f"--model {model}", description), options)
    parser.set_defaults(command="fit")


def _add_table(parser: Any) -> None:
    """Add the options that say how the table of responses is read."""
    for name in ("item", "rater", "label"):
        said = f"column of the {name}s (%(default)s)"
        names = [f"--{name}", "--item-column"] if name == "item" else [f"--{name}"]
        parser.add_argument(*names, default=name, metavar="COLUMN", dest=name, help=said)
    for name, said in (
        ("--wide", "the table has one row per item and one column per rater"),
        ("--drop-empty", "leave out rows without a label"),
    ):
        parser.add_argument(name, action="store_true", help=said)


def _add_doctor(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="what a table can tell, before any model is fitted",
        description="Say which questions the table can answer (labels, raters, shares), which only "
        "with assumptions and which not, and what would help.",
    )
    parser.add_argument("responses", type=path, metavar="FILE", help="the table of responses")
    _add_table(parser)
    _add(parser, {name: FIT[name] for name in ("--items", "--classes", "--gold")})
    parser.set_defaults(command="doctor", by=None, **dict.fromkeys(OF_TABLES))


def _add(parser: Any, options: dict[str, tuple[Any, Any, str]]) -> None:
    """Add options, which default to None so that those of other models are detected."""
    for name, (kind, values, said) in options.items():
        if kind is bool:
            parser.add_argument(name, action="store_true", default=None, help=said)
        elif kind is str and not isinstance(values, str):
            parser.add_argument(name, choices=values, help=said)
        else:
            parser.add_argument(name, type=kind, metavar=values, help=said)


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


def _complete(arguments: argparse.Namespace) -> None:
    """Refuse options of other models, and fill in the defaults of the chosen one."""
    model = arguments.model
    chosen = "no --model" if model is None else f"--model {model}"
    own = dict.fromkeys(OF_TABLES) | OF_SEVERAL if model is None else MODELS[model] | OF_ONE_MODEL
    if model is None and (arguments.sequence or arguments.position):
        own |= {name: MODELS["hidden-markov"][name] for name in ("sequence", "position")}
    for option in (
        *OF_ONE_MODEL,
        *OF_SEVERAL,
        *(name for each in MODELS.values() for name in each),
    ):
        if getattr(arguments, option) is None:
            setattr(arguments, option, own.get(option))
        elif option not in own:
            written = f"--{option.replace('_', '-')}"
            raise CommandError(f"{written} belongs to {_owner(option)}. Got: {chosen}")
    if arguments.ask is not None and arguments.ask < 1:
        raise CommandError(f"--ask needs at least one item. Got: --ask {arguments.ask}")
    if arguments.ask is None and arguments.ask_file is not None:
        raise CommandError("--ask-file needs --ask N, the number of items. Got: no --ask")
    if arguments.resume and arguments.output is None:
        raise CommandError("--resume needs --output FILE.nc, whose chains it continues. Got: none")
    page = arguments.report
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise CommandError(
            "--report must end in .html, because the report is a page; a browser prints it as PDF. "
            f"Got: --report {page}"
        )
    if model is None:
        return
    robust = "--robust is a prior of confusion matrices"
    for wrong, rule in (
        (
            model == "item-types" and arguments.robust,
            f"{robust}, which item-types infers from all raters. Got: {chosen}",
        ),
        (
            model == "labelling-functions" and arguments.robust,
            f"{robust}, and labelling functions have none. Got: {chosen}",
        ),
        (
            arguments.pooled and arguments.robust,
            "--robust is a prior of every rater's rows, and with --pooled raters share one prior: "
            "give one of the two. Got: both",
        ),
        (
            model == "markov-random-field" and arguments.graph is None,
            f"{chosen} needs the edges of the graph: give --graph FILE. Got: no graph",
        ),
    ):
        if wrong:
            raise CommandError(rule)


def _owner(option: str) -> str:
    """Return the models to which an option belongs, in words."""
    if option in OF_ONE_MODEL:
        return "a --model"
    if option in OF_SEVERAL:
        return "an answer from several models, without --model"
    return f"--model {' or '.join(name for name, own in MODELS.items() if option in own)}"

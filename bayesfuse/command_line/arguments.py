"""The arguments of the command line, and which options belong to which models."""

from __future__ import annotations

import argparse
import ast
import math
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from bayesfuse import __version__
from bayesfuse.command_line import FORMATS, CommandError
from bayesfuse.command_line.files import STDIN, resolve_files

TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)")
SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # times as 90s, 2min or 1h

MAX_INTEGER, MAX_CHAINS = (
    10**15 - 1,
    10_000,
)  # beyond these, NumPy and PyMC fail with unclear errors

OF_ONE_MODEL: dict[str, Any] = {
    "thin": None,
    "precision": "single",
    "sweeps": None,
    "chains": 4,
    "resume": False,
}
"""Options of ``--model`` of any kind, and their defaults."""

OF_SEVERAL: dict[str, Any] = {"report": None, "ask": None, "ask_file": None, "label_sets": None}
"""Options without ``--model``, and their defaults."""

OF_TABLES = ("sequence", "position", "graph")
"""Options that describe the data, valid with and without a model."""

ROBUST = {"robust": False}
OF_POPULATIONS = {"populations": None}

MODELS: dict[str, dict[str, Any]] = {
    "dawid-skene": ROBUST | OF_POPULATIONS | {"raters": "confusion"},
    "hidden-markov": ROBUST | {"raters": None, "sequence": "sequence", "position": "position"},
    "item-types": OF_POPULATIONS,
    "labelling-functions": {},
    "latent-group": ROBUST | OF_POPULATIONS | {"groups": "moments"},
    "markov-random-field": ROBUST | {"raters": "confusion", "graph": None},
}
"""Models by name, with their options and defaults."""

CALLS = """calls that most people need:
  bayesfuse doctor table.csv                      which questions it answers
  bayesfuse fit table.csv                         labels and raters: table-labels.csv
  bayesfuse fit table.csv --report report.html    the same as a page
  bayesfuse fit wide.csv --wide --item task       one row per item, one column per rater
  bayesfuse fit table.csv --gold known.csv --ask 20    use known labels, choose the next"""

# Options and their help: --name METAVAR, --name {a,b,c} or a flag.

TABLE = {
    "--item --item-column COLUMN": "column of the items (%(default)s)",
    "--rater COLUMN": "column of the raters (%(default)s)",
    "--label COLUMN": "column of the labels (%(default)s)",
    "--wide": "the table has one row per item and one column per rater (recognised, too, where no "
    "column is called rater or label, or alike)",
    f"--format {{{','.join(FORMATS)}}}": "the files are exports of this tool, or "
    "verdicts of judges; --item and --label choose among their columns, of verdicts also --rater, "
    "and --item question,system for items of several columns",
    "--swapped COLUMN": "column of whether a judge saw a pair in the other order (verdicts)",
    "--no-header": "the first line holds responses, and columns are called 0, 1, 2, ...",
    "--ignore A,B,...": "columns of a wide table that are not raters",
    "--drop-empty": "leave out rows without a label",
}

KNOWN = {
    "--items FILE": "all items, in order, including those without responses: a table with one row "
    "per item, its column of items named as in the responses",
    "--classes A,B,...": "all classes in order, the positive one of two last",
    "--positive CLASS": "the positive one of two classes, to which sensitivities refer",
    "--normalise": "classes that differ only in case, spaces or Unicode form are one",
    "--ordered": "classes are grades, from the lowest to the highest (of text, as in --classes)",
    "--gold FILE": "known labels: a table with columns item, label, or named as in the responses; "
    "rows without a label are left out",
}

POPULATIONS = {
    "--populations COLUMN": "items of different populations, whose class shares differ, such as "
    "hospitals: a column of the table of items or, without one, of the responses",
}

FIT = {
    "--costs FILE": "costs of labels: a row for every true class, named in the first column, and a "
    "column for every label and for reject; the labels are then those of least expected cost",
    "--label-sets SEPARATOR": "items may have several labels, and this separates them in a cell, "
    "such as ';' (a table may have a column of 0 and 1 for every label instead)",
    "--ask N": "choose N items at random to label next, for --gold",
    "--ask-file FILE.csv": "file of these items, with a column label to fill in (NAME-ask.csv)",
    "--by COLUMN": "print the shares of the classes, corrected for errors, by groups of items, and "
    "show them in the report: a column of the table of items or, without one, of the responses",
    "--time 2min": "maximum time, checks included: 90s, 2min or 1h (3min; with --model as long as "
    "it takes)",
    "--draws N": "draws per chain (1000; without --model 250 or 350, fewer for large tables)",
    "--no-checks": "skip the posterior predictive checks",
    "--seed N": "the same seed gives the same draws",
    "--output FILE.nc": "file of the posterior",
    "--labels FILE.csv": "file of the labels (NAME-labels.csv, next to the output if there is "
    "one); - is standard output, also if the table comes from standard input",
    "--rater-table FILE.csv": "file of the raters: responses, accuracies with intervals and bias",
    "--sequence COLUMN": "column of the sequences, of items in sequence such as words, in --items "
    "FILE or, without one, the responses (with --spans or hidden-markov: sequence)",
    "--position COLUMN": "column of the numbers or times that order the items of a sequence "
    "(position)",
    "--graph FILE": "edges between neighbours: two columns of items and optionally a column weight",
    "--spans FILE.csv": "file of the spans of items in sequence and their probabilities",
    "--picture FILE.png": "file of the overview: classes, labels and raters (with --model: next to "
    "the output, NAME.png)",
    "--report FILE.html": "file of the report, one page for a browser (without --model)",
    f"--model {{{','.join(MODELS)}}}": "one model in place of several that are averaged",
    "--quiet": "print nothing but errors",
}

OF_ANY_MODEL = {
    "--raters {confusion,class,coin,graded,sequential}": "parameters of a rater: a confusion "
    "matrix, one accuracy per class, one accuracy, or for tags of spans a matrix for each own "
    "previous answer (confusion, or for many tags sequential; only with dawid-skene, "
    "hidden-markov and markov-random-field)",
    "--robust": "prior that lets some rows of the confusion matrices be far from the diagonal, so "
    "that one odd rater cannot switch the classes (if there are few raters)",
    "--thin N": "keep every N-th draw, for a smaller file (1, or more for files above 200 MB)",
    "--precision {single,double}": "precision of the draws in the file (single)",
    "--sweeps N": "Gibbs sweeps per draw: more make draws less correlated, in a file of the same "
    "size (1 to 10, depending on the size of the table)",
    "--chains N": "chains (4)",
    "--resume": "continue the chains in the file --output, and write it anew: --draws more of each "
    "chain, by default those that an interrupted fit did not make, else 1000",
    "--groups {moments,posterior}": "raters who share a source: found by moments, or inferred "
    "jointly (moments; only with latent-group)",
}


ARGUMENT = re.compile(r'\b([a-z_]+)=(?!=)("drop")?(?:True| of bf(?:\.\w+)+)?(?P<value>[\w\["])?')
COMMA = re.compile(r'(--\w+ "[^"]*"),(?= --)')
CALL = re.compile(r"(\b[\w.]+\([^()]*\w=[^()]*\))")
IGNORES = re.compile(r"frame\.drop\(columns=(\['.*?'\])\)")
MINUTES = re.compile(r"\bminutes=(\d+(?:\.\d+)?(?:e-\d+)?)")
SAME = (
    "item rater label swapped items classes positive normalise ordered gold costs by populations "
    "draws sequence position graph thin precision sweeps chains"
).split()
OPTIONS = {name: f"--{name}" for name in SAME}
OPTIONS |= {"judge": "--rater", "verdict": "--label", "minutes": "--time", "random_seed": "--seed"}
OPTIONS["sequences"] = "--sequence"
"""Options that mean what an argument of Python does. Others have its name alone: ``labels`` and
``raters`` of Python are names or label priors, ``--labels`` is a file, ``--raters`` a model's."""

OPTION = r"(--[a-z][a-z-]*)"
BESIDE = [
    # "gold=, --gold", "minutes= (--time)", "bf.decisions.next_items, --ask": the option is enough
    (re.compile(rf"\b[a-z_]+=(?:True)?(?:, (?:or )?){OPTION}"), r"\1"),
    (re.compile(rf"\b[a-z_]+= \({OPTION}\)"), r"\1"),
    (re.compile(rf"\bbf\.[\w.]+, {OPTION}"), r"\1"),
]
ADVISED = {
    "bf.models.DawidSkene(responses, populations=populations)": "--populations COLUMN, in a fit "
    "with --model dawid-skene",
    'bf.models.DawidSkene(responses, raters="coin")': "--model dawid-skene --raters coin",
    "(fused.raters() lists all)": "(--rater-table FILE.csv has all)",
    " (bf.decisions.rank_items(fused) lists them)": "",
}
"""Calls of advice, with what takes their place in the shell."""

MODEL = re.compile(r"\bbayesfuse\.models\.(\w+)")


def in_options(message: str) -> str:
    """Return a message that names options in place of arguments of Python."""

    def time(match: re.Match[str]) -> str:
        seconds = 60.0 * float(match[1])
        return f"--time {seconds:.3g}s" if seconds % 60.0 else f"--time {seconds / 60.0:g}min"

    def option(match: re.Match[str]) -> str:
        drops = match[1] == "missing" and match[2]
        name = "--drop-empty" if drops else OPTIONS.get(match[1])
        if name is None:
            return match[0]
        return f"{name} {match['value']}" if match["value"] else name

    def ignore(match: re.Match[str]) -> str:
        return f"--ignore {shlex.quote(','.join(ast.literal_eval(match[1])))}"

    for call, words in ADVISED.items():
        message = message.replace(call, words)
    for pattern, words in BESIDE:
        message = pattern.sub(words, message)
    parts = CALL.split(IGNORES.sub(ignore, MODEL.sub(_model, message)))
    # calls are Python; every second part is one
    parts[::2] = [ARGUMENT.sub(option, MINUTES.sub(time, part)) for part in parts[::2]]
    # names of columns in a row, to copy
    return COMMA.sub(r"\1", "".join(parts))


def _model(match: re.Match[str]) -> str:
    """Return the option of a model, or its name in Python if the shell does not have it."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", match[1]).lower()
    return f"--model {name}" if name in MODELS else match[0]


def path(text: str) -> Path:
    """Return a file; - is standard input."""
    return STDIN if text == "-" else Path(text)


def minutes(text: str) -> float:
    """Return the minutes of a time such as 90s, 2min or 1h."""
    match = TIME.fullmatch(text.replace(" ", ""))
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"a time is written as 90s, 2min or 1h. Got: {text!r:.50}")
    return float(match[1]) * SECONDS[match[2]] / 60


def whole_number(text: str, least: float = -math.inf, most: float = MAX_INTEGER) -> int:
    """Return a whole number within limits."""
    try:
        number = int(text)
    except ValueError:  # also for thousands of digits
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r:.50}") from None
    if not least <= number <= most:
        limit = f"at least {least}" if number < least else f"at most {most:,}"
        raise argparse.ArgumentTypeError(f"must be {limit}. Got: {text:.50}")
    return number


def classes(text: str) -> str:
    """Return the names of classes, as given."""
    # Python decodes bytes that are not UTF-8 to surrogates
    named = text.encode("utf-8", "replace").decode() == text and all(text.split(","))
    if not named:
        raise argparse.ArgumentTypeError(f"classes must be names in UTF-8 text. Got: {text!r}")
    return text


TYPES: dict[str, Callable[[str], Any]] = {
    "--seed": partial(whole_number, least=0, most=math.inf),
    "--ignore": lambda text: text.split(","),
    "--chains": partial(whole_number, most=MAX_CHAINS),
    "A,B,...": classes,
    "COLUMN": str,
    "CLASS": str,
    "SEPARATOR": str,
    "FILE": path,
    "N": whole_number,
    "2min": minutes,
}
"""Types by option or metavar; all others are output files."""


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return valid arguments, with ``command``, or raise CommandError."""
    words = sys.argv[1:] if argv is None else argv
    if words and not words[0].startswith("-") and Path(words[0]).is_file():
        raise CommandError(
            f"a command comes first, as in bayesfuse fit {words[0]}. Got: no command"
        )
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        help_call = f"bayesfuse {arguments.command} --help"
        raise CommandError(f"unrecognized arguments: {' '.join(unknown)} (see {help_call})")
    arguments.command_line = shlex.join(["bayesfuse", *words])
    if arguments.command == "fit":
        _complete(arguments)
        resolve_files(arguments)
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
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True
    )
    fit = commands.add_parser(
        "fit",
        usage="%(prog)s FILE [FILE ...] [options]",
        help="labels and raters from a table of responses",
        description="Fit the models that are sensible for a table with one row per response, "
        "check and average them, or fit one --model. Writes the labels (CSV) and, if asked, a "
        "report (HTML), the posterior (NetCDF, for ArviZ) and a plot; prints raters, checks and "
        "the least certain items. Names that consist of digits only become integers. Tables are "
        "UTF-8 text with commas, semicolons or tabs, also compressed (.gz, .bz2, .xz, .zip); - is "
        "standard input.",
    )
    doctor = commands.add_parser(
        "doctor",
        help="which questions a table can answer, before any fit",
        description="Say which questions the table can answer (labels, raters, shares), which only "
        "with assumptions and which not, and what would help.",
    )
    for command in (fit, doctor):
        command.add_argument("responses", type=path, metavar="FILE", help="the table of responses")
        more = "further files with the same columns, or further exports"
        command.add_argument("more", type=path, nargs="*", metavar="FILE", help=more)
        _add(command, TABLE | KNOWN)
        command.set_defaults(item="item", rater="rater", label="label")
    _add(fit, FIT)
    _add(fit.add_argument_group("with --model"), OF_ANY_MODEL | POPULATIONS)
    fit.set_defaults(quiet=False)
    _add(doctor, POPULATIONS)
    doctor.set_defaults(by=None, label_sets=None, **dict.fromkeys(OF_TABLES))
    demo = commands.add_parser(
        "demo",
        help="an example with included data",
        description="Fit Dawid and Skene's model to their own data: five anaesthetists, 45 "
        "patients, four classes. Prints a report and writes the labels and a plot.",
    )
    _add(demo, {"--output FOLDER": "folder of these files (.)"})
    demo.set_defaults(output=Path())
    return parser


def _add(parser: Any, options: dict[str, str]) -> None:
    """Add options, which default to None so that those of other models are detected."""
    for written, help_text in options.items():
        *names, values = written.split()
        if not names:
            parser.add_argument(values, action="store_true", default=None, help=help_text)
        elif values.startswith("{"):
            parser.add_argument(*names, choices=values.strip("{}").split(","), help=help_text)
        else:
            kind = TYPES.get(names[0], TYPES.get(values, Path))
            parser.add_argument(*names, type=kind, metavar=values, help=help_text)


def _complete(arguments: argparse.Namespace) -> None:
    """Refuse options of other models, and fill in the defaults of the chosen one."""
    model = arguments.model
    chosen = "no --model" if model is None else f"--model {model}"
    allowed = (
        dict.fromkeys(OF_TABLES) | OF_SEVERAL if model is None else MODELS[model] | OF_ONE_MODEL
    )
    if model is None and (arguments.sequence or arguments.position or arguments.spans):
        allowed |= {name: MODELS["hidden-markov"][name] for name in ("sequence", "position")}
    for option in chain(OF_ONE_MODEL, OF_SEVERAL, *MODELS.values()):
        if getattr(arguments, option) is None:
            setattr(arguments, option, allowed.get(option))
        elif option not in allowed:
            written = f"--{option.replace('_', '-')}"
            raise CommandError(f"{written} belongs to {_owner(option)}. Got: {chosen}")
    if arguments.spans is not None and arguments.sequence is None:
        raise CommandError(
            "--spans lists spans of items in sequence: leave out --model, or choose hidden-markov. "
            f"Got: {chosen}"
        )
    if arguments.ask is not None and arguments.ask < 1:
        raise CommandError(f"--ask needs at least one item. Got: --ask {arguments.ask}")
    if arguments.ask is None and arguments.ask_file is not None:
        raise CommandError("--ask-file needs --ask N, the number of items. Got: no --ask")
    if arguments.resume and arguments.output is None:
        raise CommandError("--resume needs --output FILE.nc, whose chains it continues. Got: none")
    if model == "markov-random-field" and arguments.graph is None:
        raise CommandError(
            f"{chosen} needs the edges of the graph: give --graph FILE. Got: no graph"
        )


def _owner(option: str) -> str:
    """Return the models to which an option belongs, in words."""
    if option in OF_ONE_MODEL:
        return "a --model"
    if option in OF_SEVERAL:
        return "an answer from several models, without --model"
    return f"--model {' or '.join(name for name, of_model in MODELS.items() if option in of_model)}"

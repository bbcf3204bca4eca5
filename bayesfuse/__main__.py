"""``python -m bayesfuse``: from a file of responses to true labels and judged raters.

This module stands on top of everything else: it alone imports both the engine and the models.
"""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.model import LabelModel
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.report import report

MODELS: dict[str, Callable[..., LabelModel]] = {
    "dawid-skene": DawidSkene,
    "latent-group": LatentGroup,
}
"""Models by the name they have on the command line."""

MISSING = ("", "NA", "NaN", "nan")
"""What a file may write for no value; all else, "None" and "null" included, is a name."""

BARS = 25
"""How many of the least certain items are drawn."""

FAILED, INTERRUPTED = 2, 130
"""Exit statuses: a user's mistake, as argparse has it, and Ctrl-C, as shells have it."""


class CommandError(Exception):
    """Something asked for on the command line cannot be done."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        What follows ``python -m bayesfuse``. Default the arguments of this process.

    Returns
    -------
    int
        0; 2 after an error, told in one line on stderr; 130 after Ctrl-C, which ends sampling:
        what was drawn until then is written.
    """
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.run(arguments)
        return status
    except KeyboardInterrupt:
        print("bayesfuse: interrupted before there were draws to write", file=sys.stderr)
        return INTERRUPTED
    except (CommandError, ModelError, ResponsesError, OSError) as error:
        print("bayesfuse: error:", *str(error).split(), file=sys.stderr)
        return FAILED


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    """A parser whose errors take one line, like all others of this command."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m bayesfuse",
        description="The true label of every item and the quality of every rater, from the "
        "responses of imperfect raters and without ground truth.",
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
        "(NetCDF, for ArviZ), the labels (CSV) and a picture; prints the raters and the least "
        "certain items. Column names can be chosen; names made of digits only become integers.",
    )
    add = parser.add_argument
    add("responses", type=Path, metavar="FILE", help="the table: .csv or .tsv, also .gz")
    add("--item", default="item", metavar="COLUMN", help="column of the items (%(default)s)")
    add("--rater", default="rater", metavar="COLUMN", help="column of the raters (%(default)s)")
    add("--label", default="label", metavar="COLUMN", help="column of the labels (%(default)s)")
    add("--classes", metavar="A,B,...", help="all classes in order, the positive one of two last")
    add("--gold", type=Path, metavar="FILE", help="known truths: a table with columns item, label")
    add("--model", choices=sorted(MODELS), default="dawid-skene", help="which (%(default)s)")
    add("--sampler", choices=("auto", "gibbs", "nuts"), default="auto", help="how (%(default)s)")
    add("--draws", type=int, default=1000, metavar="N", help="draws per chain (%(default)s)")
    add("--chains", type=int, default=4, metavar="N", help="chains (%(default)s)")
    add("--seed", type=_seed, metavar="N", help="the same seed gives the same draws")
    add("--output", type=Path, metavar="FILE.nc", required=True, help="where the posterior goes")
    add(
        "--labels",
        type=Path,
        metavar="FILE.csv",
        help="labels (beside the output: NAME-labels.csv)",
    )
    add("--picture", type=Path, metavar="FILE.png", help="picture (beside the output: NAME.png)")
    add("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(run=_fit)


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="a first look, with data that come along",
        description="Fit Dawid and Skene's model to their own data: five anaesthetists, 45 "
        "patients, four classes. Prints the posterior and draws a picture.",
    )
    parser.add_argument(
        "--output", type=Path, default=Path(), metavar="FOLDER", help="where the picture goes (.)"
    )
    parser.set_defaults(run=_demo)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number, at least 0. Got: {text}")
    return int(text)


# ---------------------------------------------------------------- commands


def _fit(arguments: argparse.Namespace) -> int:
    output: Path = arguments.output
    if output.is_dir():  # and has no name to derive others from
        raise CommandError(f"cannot write {output}: it is a folder")
    labels: Path = arguments.labels or output.with_name(f"{output.stem}-labels.csv")
    picture: Path = arguments.picture or output.with_suffix(".png")
    inputs = [arguments.responses] + ([arguments.gold] if arguments.gold else [])
    _check_outputs([output, labels, picture], inputs)
    _check_picture(picture)
    responses = _read_responses(arguments)
    gold = _read_gold(arguments.gold, responses) if arguments.gold else None
    model = MODELS[arguments.model](responses, gold=gold)

    result, interrupted = _sample(
        model,
        draws=arguments.draws,
        chains=arguments.chains,
        sampler=arguments.sampler,
        random_seed=arguments.seed,
        quiet=arguments.quiet,
    )
    result.to_netcdf(output)
    _write_labels(result, labels)
    _draw(result, picture)
    if not arguments.quiet:
        print(report(model, result))
        print(f"\nWritten: {output} (posterior), {labels} (labels), {picture} (picture)")
    if interrupted:
        drawn = result["posterior"].sizes
        print(
            f"bayesfuse: interrupted; written: {drawn['chain']} chains of {drawn['draw']} draws",
            file=sys.stderr,
        )
    return INTERRUPTED if interrupted else 0


def _demo(arguments: argparse.Namespace) -> int:
    arguments.output.mkdir(parents=True, exist_ok=True)
    picture = arguments.output / "anesthesia.png"
    _check_outputs([picture], [])
    print(
        "Five anaesthetists judged how fit 45 patients were for an operation, on a scale from 1\n"
        "to 4; one of them did so three times (Dawid & Skene, 1979). They disagree, and nobody\n"
        "knows the truth. Which class was every patient in, and how good is every anaesthetist?\n"
        "The model of Dawid and Skene answers both questions from the pattern of disagreement.\n"
    )
    model = DawidSkene(bf.datasets.anesthesia())
    result, interrupted = _sample(model, random_seed=1979)
    _draw(result, picture)
    print(report(model, result))
    print(f"\nPicture: {picture}")
    return INTERRUPTED if interrupted else 0


def _sample(model: pm.Model, quiet: bool = False, **kwargs: Any) -> tuple[xr.DataTree, bool]:
    """Return the posterior, and whether the user cut it short."""
    with _Interruption() as interruption:
        if kwargs.get("sampler") != "nuts":  # most implementations of NUTS take no callback
            kwargs["callback"] = interruption.end_chain
        try:
            result = bf.sample(
                model,
                progressbar=sys.stdout.isatty() and not quiet,
                quiet=quiet,
                compute_convergence_checks=False,  # the report has them
                **kwargs,
            )
        except ValueError as error:
            # a chain that was ended while it was tuned holds no draws, which PyMC calls an error
            if interruption.seen and not isinstance(error, ModelError):
                raise KeyboardInterrupt from None
            raise
    return result, interruption.seen


class _Interruption:
    """Ctrl-C ends all chains at once: PyMC ends the one that runs and goes on with the next."""

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> _Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        self.seen = True
        raise KeyboardInterrupt

    def end_chain(self, trace: Any, draw: Any) -> None:
        if self.seen:
            raise KeyboardInterrupt


# ---------------------------------------------------------------- files


def _read_responses(arguments: argparse.Namespace) -> bf.Responses:
    item, rater, label = columns = arguments.item, arguments.rater, arguments.label
    frame = _read(arguments.responses, columns)
    declared = arguments.classes.split(",") if arguments.classes else []
    classes = _plain_names([*frame[label].cat.categories, *declared])
    table = {name: _renamed(frame[name], classes if name == label else None) for name in columns}
    return bf.Responses.from_long(
        table,
        item=item,
        rater=rater,
        label=label,
        classes=[classes[name] for name in declared] or None,
    )


def _read_gold(path: Path, responses: bf.Responses) -> dict[Any, Any]:
    frame = _read(path, ("item", "label")).astype(object)
    if frame.isna().to_numpy().any():
        raise CommandError(f"a gold label needs an item and a label. Got: a gap in {path}")
    items = {str(name): name for name in responses.items.tolist()}
    classes = {str(name): name for name in responses.classes.tolist()}
    gold: dict[Any, Any] = {}
    for item, label in zip(frame["item"], frame["label"], strict=True):
        known = classes.get(label, label)
        if gold.setdefault(items.get(item, item), known) != known:
            raise CommandError(f"an item has one true class. Got: two for item {item!r} in {path}")
    return gold


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read columns of a table as categories: small, and the text as it stands in the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            # all columns, because pandas does not count a row's cells when it leaves some out
            settings: dict[str, Any] = {
                "sep": "\t" if ".tsv" in path.suffixes else ",",
                "encoding": "utf-8-sig",  # spreadsheets put a mark before the first column's name
                "dtype": str,  # a category of 007 would be read as 7
                "keep_default_na": False,
                "index_col": False,
            }
            frame = pd.read_csv(path, na_values=MISSING, **settings)
            # pandas gives a name that comes twice a number
            header = pd.read_csv(path, header=None, nrows=1, **settings).iloc[0].tolist()
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zlib.error, pd.errors.ParserWarning) as error:
        raise CommandError(f"cannot read {path} as a table: {error}") from error
    if missing := [name for name in columns if name not in frame]:
        raise CommandError(
            f"{path} has no column {missing[0]!r}. Got: columns {frame.columns.tolist()}"
        )
    if twice := [name for name in columns if header.count(name) > 1]:
        raise CommandError(f"{path} has several columns {twice[0]!r}. Got: columns {header}")
    return frame[list(dict.fromkeys(columns))].astype("category")


def _plain_names(names: Iterable[str]) -> dict[str, Any]:
    """Map names to integers if all of them are written as integers are, else to themselves."""
    listed = list(names)
    try:
        numbers = [int(name) for name in listed]
    except ValueError:
        return dict(zip(listed, listed, strict=True))
    same = all(str(number) == name for number, name in zip(numbers, listed, strict=True))
    fits = all(abs(number) < 2**63 for number in numbers)
    return dict(zip(listed, numbers if same and fits else listed, strict=True))


def _renamed(column: pd.Series, names: Mapping[str, Any] | None) -> pd.Series:
    """Give the categories their plain names and the order of these."""
    names = _plain_names(column.cat.categories) if names is None else names
    renamed = column.cat.rename_categories([names[name] for name in column.cat.categories])
    return renamed.cat.reorder_categories(sorted(renamed.cat.categories))


def _check_outputs(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Open every file that will be written, before hours of work instead of after them."""
    taken = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in taken:
            raise CommandError(f"every file needs a name of its own. Got: {path} twice")
        taken.add(path.resolve())
        new = not path.exists()
        try:
            with path.open("ab"):  # leaves what is there as it is
                pass
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror}") from error
        if new:
            path.unlink()


def _check_picture(path: Path) -> None:
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in known:
        raise CommandError(f"a picture's name ends in one of {sorted(known)}. Got: {path.name}")


def _write_labels(result: xr.DataTree, path: Path) -> None:
    """Write every item's best label, the probabilities, and their largest Monte Carlo error."""
    probability = bf.label_probabilities(result)
    classes = probability["class"].values
    frame = pd.DataFrame(
        {
            "item": probability["item"].values,
            "label": classes[probability.values.argmax(axis=1)],
            **{
                f"probability_{name}": column
                for name, column in zip(classes, probability.values.T, strict=True)
            },
            "mcse": result["label_posterior"]["mcse"].max("class").values,
        }
    )
    frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.suffixes else ",")


def _draw(result: xr.DataTree, path: Path) -> None:
    """Draw raters and labels, one above the other if the raters are few, else side by side."""
    from matplotlib.figure import Figure  # not pyplot, which would keep the figure

    probability = bf.label_probabilities(result)
    n_classes, n_raters = probability.sizes["class"], result["posterior"].sizes["rater"]
    columns = min(n_classes, 5)
    rows = -(-n_classes // columns)
    # inches, (width, height)
    raters = max(1.6 * columns, 5.0), min(rows * (1.0 + 0.24 * n_raters), 8.0)
    labels = 5.0, 1.2 + 0.2 * min(BARS, probability.sizes["item"])
    if raters[1] < labels[1] / 2:
        figure = Figure((max(raters[0], labels[0]), raters[1] + labels[1]), layout="constrained")
        parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(raters[1], labels[1]))
    else:
        figure = Figure((raters[0] + labels[0], max(raters[1], labels[1])), layout="constrained")
        parts = figure.subfigures(1, 2, squeeze=False, width_ratios=(raters[0], labels[0]))
    first, second = parts.flat
    panels = first.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for empty in panels[n_classes:]:
        empty.remove()
    plots.plot_raters(result, axes=panels[:n_classes])
    plots.plot_labels(result, most=BARS, ax=second.subplots())
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())

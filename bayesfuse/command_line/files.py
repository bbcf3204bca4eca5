"""Reading from files and pipes, and writing files completely or not at all."""

from __future__ import annotations

import argparse
import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from bayesfuse.command_line import CommandError

STDIN = Path("/dev/stdin")
STDOUT = Path("-")

ENDINGS = {
    "output": ".nc .nc4 .netcdf .h5 .hdf5",  # NetCDF; labels and plots have options of their own
    "picture": ".png .pdf .svg .jpg .jpeg .webp .tif .tiff .eps .ps",
    "report": ".html .htm",  # a browser prints it as PDF
}
"""Suffixes of output files, by option."""

OUTPUTS = "output", "labels", "spans", "picture", "report", "ask_file", "rater_table"
"""Options of output files."""

MAX_ASK_FILES = 1000  # names that are tried
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
NOT_TEXT = (".xlsx", ".xls", ".ods", ".parquet", ".json")  # not written as text with commas


def resolve_files(arguments: argparse.Namespace) -> None:
    """Fill in the names of output files, and check all files before anything is read."""
    table, output = arguments.responses, arguments.output
    _check_suffixes(arguments)
    stem = Path(table.stem if table.suffix in COMPRESSED else table.name).stem
    if arguments.labels is None and output is not None:
        arguments.labels = output.with_name(f"{output.stem}-labels.csv")
    elif arguments.labels is None:
        arguments.labels = STDOUT if table == STDIN else Path(f"{stem}-labels.csv")
    if arguments.ask is not None and arguments.ask_file is None:
        numbers = ("", *(f"-{number}" for number in range(2, MAX_ASK_FILES)))
        names = [Path(f"{stem}-ask{number}.csv") for number in numbers]
        arguments.ask_file = next((name for name in names if not name.exists()), names[-1])
    if arguments.ask_file is not None and arguments.ask_file.is_file():
        raise CommandError(
            "--ask-file is a new file, because an old one may hold labels that were filled in. "
            f"Got: {arguments.ask_file}, which exists"
        )
    if arguments.model is not None and arguments.picture is None and output is not None:
        arguments.picture = output.with_suffix(".png")
    options = (
        table,
        *arguments.more,
        arguments.items,
        arguments.gold,
        arguments.graph,
        arguments.costs,
    )
    inputs = [path for path in options if path is not None]
    if inputs.count(STDIN) > 1:
        raise CommandError("only one table can come from standard input. Got: - for several")
    for path in inputs:
        try:
            _ = path == STDIN or path.stat()
        except OSError as error:
            raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    outputs = [getattr(arguments, name) for name in OUTPUTS]
    if arguments.labels == STDOUT:
        outputs.remove(STDOUT)
    check_outputs([path for path in outputs if path is not None], inputs)


def _check_suffixes(arguments: argparse.Namespace) -> None:
    """Check the names of output files that are given."""
    output = arguments.output
    if output is not None and output.is_dir():
        raise CommandError(f"cannot write {output}: it is a folder")
    if arguments.resume and not output.is_file():
        raise CommandError(f"--resume continues the chains in {output}. Got: no such file")
    for option, endings in ENDINGS.items():
        path = getattr(arguments, option)
        if path is not None and path.suffix.lower() not in endings.split():
            raise CommandError(
                f"--{option} must end in {' or '.join(endings.split())}; --labels, --picture and "
                f"--report write other files. Got: --{option} {path}"
            )
    if arguments.labels is not None and arguments.labels.suffix.lower() in NOT_TEXT:
        raise CommandError(
            f"--labels is a file with commas (.csv) or tabs (.tsv). Got: {arguments.labels}"
        )


def open_table(path: Path) -> Callable[[], Path | io.BytesIO]:
    """Return a function that opens a table for pandas, again; pipes are read into memory."""
    if path == STDIN:
        if sys.stdin is None:
            raise CommandError(f"cannot read {path}: it is closed")
        return partial(io.BytesIO, sys.stdin.buffer.read())
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # may be endless
        raise CommandError(f"cannot read {path}: it is a device")
    return partial(io.BytesIO, path.read_bytes()) if stat.S_ISFIFO(mode) else lambda: path


def check_outputs(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Check that every output file can be written."""
    used_paths = {os.path.realpath(path) for path in inputs}
    for path in outputs:
        if os.path.realpath(path) in used_paths:
            raise CommandError(f"files must have different names. Got: {path} twice")
        used_paths.add(os.path.realpath(path))
        if path == STDOUT:
            raise CommandError("results cannot be written to standard output. Got: -")
        target = Path(os.path.realpath(path))
        try:
            with suppress(FileNotFoundError):
                mode = target.stat().st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise CommandError(f"cannot write {path}: it is not a regular file")
                with target.open("ab"):  # raises if it cannot be written, without changing it
                    pass
            with _unfinished(target):
                pass
        except OSError as error:
            raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file that on success replaces ``path``, or a link's target."""
    target = Path(os.path.realpath(path))
    with _unfinished(target) as temporary:
        yield temporary
        try:
            temporary.replace(target)
        except OSError as error:
            saved = temporary.rename(temporary.with_name(temporary.name.removeprefix(".")))
            raise CommandError(
                f"cannot write {path}: {error.strerror}; the contents are in {saved}"
            ) from error


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """Yield an empty file next to the target, with its mode and suffixes, and remove it."""
    suffixes = "".join(target.suffixes[-2:])  # these determine the format
    temporary = target.with_name(f".{secrets.token_hex(4)}-unfinished{suffixes}")
    try:
        temporary.touch(exist_ok=False)
        if target.is_file():
            shutil.copymode(target, temporary)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)

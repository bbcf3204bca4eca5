"""Steps after sampling, carried out despite Ctrl-C or a full disk; printing to any terminal."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from bayesfuse.command_line import CommandError
from bayesfuse.command_line.files import STDOUT, replacing
from bayesfuse.numerics.threads import Interruption


class Step(NamedTuple):
    """A step after sampling, with its output, None to leave it out; ``needed`` despite Ctrl-C."""

    what: str
    work: Callable[[Path], str | None]  # returns a remark on its file
    path: Path | None
    needed: bool = False


def carry_out(steps: Sequence[Step], interruption: Interruption) -> list[str]:
    """Carry out all steps, even if some fail, and return the files that were written."""
    written: list[str] = []
    failed: list[str] = []
    unexpected: Exception | None = None
    before = interruption.presses
    for what, work, path, needed in steps:
        if path is None:
            continue
        file = [] if path == STDOUT else [f"{path} ({what})"]
        interruption.wait(math.inf if needed else 0)
        try:
            if interruption.presses > before and not needed:
                raise KeyboardInterrupt
            with replacing(path) if file else nullcontext(path) as place:
                remark = work(place)
            written += [f"{line[:-1]}{remark or ''})" for line in file]
        except KeyboardInterrupt:
            if file:
                write_stderr(f"bayesfuse: not written: {file[0]}")
        except CommandError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"cannot write {path if file else what}: {error.strerror or error}")
        except Exception as error:
            unexpected = error
        finally:
            interruption.wait(math.inf)
    if unexpected is not None:
        raise unexpected
    if failed:
        done = f"; written: {', '.join(written)}" if written else ""
        raise CommandError("; ".join(failed) + done)
    return written


ASCII = str.maketrans({"–": "-", "−": "-", "…": "...", "×": "x"})
"""ASCII replacements of the other characters in reports."""


SHORT_NUMBER = "%.6g"  # format of numbers in tables


def write_table(table: Any, path: Path, float_format: str | None = SHORT_NUMBER) -> None:
    """Write a DataFrame with commas, or with tabs if the name of the file says so."""
    separator = "\t" if ".tsv" in path.suffixes else ","
    target = None if path == STDOUT else path
    text = table.to_csv(target, index=False, sep=separator, float_format=float_format)
    if text is not None:
        write_stdout(text.rstrip("\n"))


def write_stdout(text: str) -> None:
    """Print on stdout at once, without an error for a closed pipe, as after ``head``."""
    _print(text, sys.stdout)


def write_stderr(text: str) -> None:
    """Print one line on stderr."""
    _print(" ".join(text.split()), sys.stderr)


def write_error(message: str) -> None:
    """Print an error as one line on stderr, without secrets and long data."""
    from bayesfuse.errors.messages import discreet  # which imports NumPy

    write_stderr(f"bayesfuse: error: {discreet(message)}")


def _print(text: str, stream: TextIO | None) -> None:
    if stream is None:  # closed before Python started
        return
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(ASCII).encode(encoding, "backslashreplace").decode(encoding)
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _give_up(stream)
    except OSError:
        _give_up(stream)
        raise


def finish() -> None:
    """Flush stdout here, because Python would report an error at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        _give_up(sys.stdout)


def _give_up(stream: TextIO) -> None:
    """Redirect a stream to the null device, as Python's manual advises: exit flushes it again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

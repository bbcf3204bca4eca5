"""Printing to terminals of any encoding, and to closed pipes."""

from __future__ import annotations

import os
import sys
from typing import TextIO

PLAIN = str.maketrans({"–": "-", "−": "-", "…": "...", "×": "x"})
"""ASCII replacements of the other characters in reports."""


def say(text: str) -> None:
    """Print on stdout at once; a closed pipe, as after ``head``, is no error, a full disk is."""
    _print(text, sys.stdout)


def tell(text: str) -> None:
    """Print one line on stderr."""
    _print(" ".join(text.split()), sys.stderr)


def is_terminal() -> bool:
    """Return whether stdout is a terminal; it may also be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def _print(text: str, stream: TextIO | None) -> None:
    if stream is None:  # closed before Python started
        return
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(PLAIN).encode(encoding, "backslashreplace").decode(encoding)
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

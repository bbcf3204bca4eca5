"""Steps after sampling, carried out despite Ctrl-C or a full disk; printing to any terminal."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from bayesfuse.command_line import CommandError
from bayesfuse.numerics.interruption import Interruption


@dataclass(frozen=True)
class Step:
    """A step after sampling, with its output file; completed even after Ctrl-C if ``needed``."""

    what: str
    work: Callable[[], None]
    path: Path | None = None
    needed: bool = False


def carry_out(steps: Sequence[Step], interruption: Interruption) -> list[str]:
    """Carry out all steps, even if some fail, and return the files that were written."""
    written: list[str] = []
    failed: list[str] = []
    unexpected: Exception | None = None
    before = interruption.presses
    for step in steps:
        interruption.wait(math.inf if step.needed else 0)
        try:
            if interruption.presses > before and not step.needed:
                raise KeyboardInterrupt
            step.work()
            if step.path is not None:
                written.append(f"{step.path} ({step.what})")
        except KeyboardInterrupt:
            if step.path is not None:
                tell(f"bayesfuse: not written: {step.path} ({step.what})")
        except CommandError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"cannot write {step.path or step.what}: {error.strerror or error}")
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


PLAIN = str.maketrans({"–": "-", "−": "-", "…": "...", "×": "x"})
"""ASCII replacements of the other characters in reports."""


def say(text: str) -> None:
    """Print on stdout at once; a closed pipe, as after ``head``, is no error, a full disk is."""
    _print(text, sys.stdout)


def tell(text: str) -> None:
    """Print one line on stderr."""
    _print(" ".join(text.split()), sys.stderr)


def is_terminal() -> bool:
    """Return whether stderr, where progress is shown, is a terminal; it may also be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


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

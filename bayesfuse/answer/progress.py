"""What is done, and the time left: a bar on terminals and in notebooks, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

EVERY = 10.0  # seconds between lines
FEW = 0.05  # share of the steps from which the time left is told


class Progress:
    """A bar of rich for all models; where stderr is no terminal, a line every ten seconds.

    Both are on stderr, so that a script's own output stays clean.
    """

    def __init__(self, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        is_live = console.is_terminal or console.is_jupyter
        self._has_lines = shown and not is_live and sys.stderr is not None  # it may be closed
        self._bar = Bar(console=console, disable=not (shown and is_live), transient=True)
        self._task = self._bar.add_task("", total=None)
        self._said, self._told = time.monotonic(), False

    def say(self, what: str) -> None:
        """Show a task of unknown length."""
        self._bar.update(self._task, description=what, total=None, completed=0)
        self._line(what)

    def count(self, what: str, steps: int) -> Callable[[int], None]:
        """Show a task, and return a function to be called with the number of steps made."""
        self._bar.reset(self._task, total=steps, description=what)
        began, done = time.monotonic(), 0

        def advance(made: int) -> None:
            nonlocal done
            done += made
            self._bar.advance(self._task, made)
            left = (time.monotonic() - began) * (steps - done) / max(done, 1)
            known = done >= FEW * steps  # the first steps may compile
            self._line(f"{what}: {done / steps:.0%}{f', about {left:.0f} s left' if known else ''}")

        return advance

    def _line(self, words: str) -> None:
        if self._has_lines and time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            with suppress(OSError):  # nobody reads it
                print(words, file=sys.stderr, flush=True)
                self._told = True

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._told:
            print("done", file=sys.stderr, flush=True)
        if not self._bar.disable:  # or rich before 15 ends an empty bar by a line
            self._bar.stop()

"""A progress bar over all models."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """What is done at the moment, by a bar of rich.

    Parameters
    ----------
    shown : bool
    """

    def __init__(self, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        # on stderr, so that a script's own output stays clean
        self._bar = Bar(console=Console(stderr=True), disable=not shown, transient=True)
        self._task = self._bar.add_task("", total=None)

    def say(self, what: str) -> None:
        """Tell what is done, of unknown length."""
        self._bar.update(self._task, description=what, total=None, completed=0)

    def count(self, what: str, steps: int) -> Callable[[int], None]:
        """Tell what is done, and return a function to call with the number of steps made."""
        self._bar.reset(self._task, total=steps, description=what)
        return lambda made: self._bar.advance(self._task, made)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

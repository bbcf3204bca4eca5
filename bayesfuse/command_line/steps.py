"""What is done with draws once they are made, come Ctrl-C or a full disk."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesfuse.command_line import CommandError


class Interruption:
    """Ctrl-C, noted or raised: inside compiled code or HDF5 it would lose what was drawn."""

    def __init__(self) -> None:
        self.presses, self._noted = 0, 0.0

    @property
    def seen(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.presses > 0

    def wait(self, presses: float) -> None:
        """From now on, only note so many presses."""
        self._noted = self.presses + presses

    def __enter__(self) -> Interruption:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # as in the background of a script
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        self.presses += 1
        if self.presses > self._noted:
            raise KeyboardInterrupt

    def end_chain(self, trace: Any, draw: Any) -> None:
        """End all chains at once: PyMC itself ends the one that runs and goes on with the next."""
        if self.seen:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Step:
    """Something to do with draws.

    Attributes
    ----------
    what : str
    work : callable
    path : Path, optional
        The file that it writes.
    needed : bool
        Whether it is done, and finished, even after Ctrl-C.
    """

    what: str
    work: Callable[[], None]
    path: Path | None = None
    needed: bool = False


def carry_out(steps: Sequence[Step], interruption: Interruption) -> list[str]:
    """Do all steps, also when some of them fail, and return what was written.

    Raises
    ------
    CommandError
        Files that could not be written.
    """
    written: list[str] = []
    failed: list[str] = []
    unexpected: Exception | None = None
    before = interruption.presses
    for step in steps:
        if interruption.presses > before and not step.needed:
            continue
        interruption.wait(math.inf if step.needed else 0)
        try:
            step.work()
            if step.path is not None:
                written.append(f"{step.path} ({step.what})")
        except KeyboardInterrupt:
            continue
        except CommandError as error:
            failed.append(str(error))
        except OSError as error:
            failed.append(f"cannot write {step.path or step.what}: {error.strerror or error}")
        except Exception as error:
            unexpected = error
        finally:
            interruption.wait(math.inf)  # until the next step says
    if unexpected is not None:
        raise unexpected
    if failed:
        done = f"; written: {', '.join(written)}" if written else ""
        raise CommandError("; ".join(failed) + done)
    return written

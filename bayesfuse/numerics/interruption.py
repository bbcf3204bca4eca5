"""Ctrl-C: in kernels, where it arrives as another error, and in steps that must end."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ContextDecorator, suppress
from types import FrameType


class _Interruptible(ContextDecorator):
    """Raise KeyboardInterrupt where an interrupted kernel led to a chain of SystemErrors."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cause = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if cause is not error and isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error


interruptible = _Interruptible()  # not a generator, because every sweep enters it


class Interruption:
    """Counts presses of Ctrl-C, some without raising; the first may be answered on stderr."""

    def __init__(self, answer: str = "") -> None:
        self.presses, self._noted, self._answer = 0, 0.0, answer

    @property
    def seen(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.presses > 0

    def wait(self, presses: float) -> None:
        """Count the given number of further presses without raising KeyboardInterrupt."""
        self._noted = self.presses + presses

    def __enter__(self) -> Interruption:
        self._before = signal.getsignal(signal.SIGINT)
        ignored = self._before is signal.SIG_IGN  # in background jobs of scripts
        # other threads may not set handlers, and are not interrupted
        self._set = threading.current_thread() is threading.main_thread() and not ignored
        if self._set:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._set:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.presses += 1
        if self.presses == 1 and self._answer:
            with suppress(OSError):  # not print, which may be what is interrupted
                os.write(2, f"\n{self._answer}\n".encode())
        try:
            if not callable(self._before):
                raise KeyboardInterrupt
            self._before(number, frame)
        except KeyboardInterrupt:
            if self.presses > self._noted:
                raise

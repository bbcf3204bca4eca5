"""Work side by side on threads, as kernels release Python's lock, and Ctrl-C in kernels."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Any

LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")  # how many threads a process may have


_team: ContextVar[tuple[ThreadPoolExecutor, int, int] | None] = ContextVar("team", default=None)
"""Threads of a call, their number, and the process that made them: a fork copies no threads."""
# Threads see a context of their own, so work within a thread of a team is done there.


def available() -> int:
    """Return the number of cores that this process may use, within the limits of ``LIMITS``."""
    from numba.core import config  # slow to import

    found = config.NUMBA_DEFAULT_NUM_THREADS
    for name in LIMITS:
        said = os.environ.get(name, "").split(",")[0].strip()
        if said.isdecimal() and int(said) > 0:
            found = min(found, int(said))
    return max(found, 1)


@contextmanager
def threads(cores: int | None = None) -> Iterator[None]:
    """Let :func:`side_by_side` use so many threads, by default all cores; they end with it."""
    count = available() if cores is None else cores
    executor = None if count == 1 else ThreadPoolExecutor(count, thread_name_prefix="bayesfuse")
    token = _team.set(None if executor is None else (executor, count, os.getpid()))
    try:
        yield
    finally:
        _team.reset(token)
        if executor is not None:
            executor.shutdown(cancel_futures=True)


def on_cores(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function that takes ``cores=`` the threads for its work, and let it be interrupted."""

    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        from bayesfuse.errors import require_count  # imports NumPy, which Ctrl-C can do without

        cores = kwargs.get("cores")
        if cores is not None:
            require_count("cores", cores)
        with interruptible, threads(cores):
            return function(*args, **kwargs)

    return inner


def shared() -> bool:
    """Say whether :func:`side_by_side` has threads, in this process."""
    team = _team.get()
    return team is not None and team[2] == os.getpid()


def side_by_side(function: Callable[..., Any], *columns: Any) -> list[Any]:
    """Return the values of a function, in order; the threads of :func:`threads` share the work."""
    team, calls = _team.get(), list(zip(*columns, strict=True))
    if team is None or not shared() or len(calls) < 2:
        return [function(*call) for call in calls]
    found: list[Any] = [None] * len(calls)
    left = iter(range(len(calls)))  # whoever is free takes the next

    def work() -> None:
        try:
            for at in left:
                found[at] = function(*calls[at])
        except BaseException:
            for _ in left:  # the others need not go on
                pass
            raise

    workers = [team[0].submit(work) for _ in range(min(team[1], len(calls)))]
    # the caller only waits: a thread that works and wakes others may share its core with them
    for worker in workers:
        worker.result()
    return found


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

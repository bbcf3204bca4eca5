"""Work side by side on threads, as kernels release Python's lock; Ctrl-C and time limits.

A handler of SIGINT counts presses of Ctrl-C, and raises KeyboardInterrupt unless numba's C code is
running, which would turn it into a SystemError or lose it, or a lock is taken. Every loop calls
:func:`check` between kernels, in all threads, which raises it after any press, or
:class:`TimeIsUp` after a deadline.
Signals reach the main thread alone: elsewhere, and where SIGINT is ignored, only deadlines count.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Any

LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")  # how many threads a process may have


LOCKS = ("threading", "concurrent.futures")  # modules with locks
IMPORTS = "importlib.", "_frozen_importlib"

EVERY = 0.2  # seconds between looks at signals while others work

_team: ContextVar[tuple[ThreadPoolExecutor, int, int] | None] = ContextVar("team", default=None)
"""Threads of a call, their number, and the process that made them: a fork copies no threads."""
# Threads see a context of their own, so work within a thread of a team is done there.


def available() -> int:
    """Return the number of cores that this process may use, within the limits of ``LIMITS``."""
    from numba.core import config  # slow to import

    number = config.NUMBA_DEFAULT_NUM_THREADS
    for name in LIMITS:
        setting = os.environ.get(name, "").split(",")[0].strip()
        if setting.isdecimal() and int(setting) > 0:
            number = min(number, int(setting))
    return max(number, 1)


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


def on_cores[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Give a function that takes ``cores=`` the threads for its work, and let it be interrupted."""

    @wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        from bayesfuse.errors import require_count  # imports NumPy, which Ctrl-C can do without

        cores: Any = kwargs.get("cores")
        if cores is not None:
            require_count("cores", cores)
        with Interruption(), threads(cores):
            return function(*args, **kwargs)

    return inner


def shared() -> bool:
    """Return whether :func:`side_by_side` has threads in this process."""
    team = _team.get()
    return team is not None and team[2] == os.getpid()


def side_by_side(function: Callable[..., Any], *columns: Any) -> list[Any]:
    """Return the values of a function, in order; the threads of :func:`threads` share the work."""
    team, calls = _team.get(), list(zip(*columns, strict=True))
    if team is None or not shared() or len(calls) < 2:
        return [function(*call) for call in calls if check()]
    results: list[Any] = [None] * len(calls)
    left = iter(range(len(calls)))  # whoever is free takes the next

    def work() -> None:
        try:
            for at in left:
                check()
                results[at] = function(*calls[at])
        except BaseException:
            for _ in left:  # the others need not go on
                pass
            raise

    workers = [team[0].submit(limited(work)) for _ in range(min(team[1], len(calls)))]
    # the caller only waits: a thread that works and wakes others may share its core with them
    try:
        for worker in workers:
            # a signal just before a wait without end would not wake this thread
            while not wait([worker], EVERY).done:
                pass
            worker.result()
    except BaseException:  # Ctrl-C, which raises an exception in this thread alone
        for _ in left:
            pass
        wait(workers)  # what they write to must not change any more
        raise
    return results


class TimeIsUp(KeyboardInterrupt):
    """A deadline has passed; it is treated as an interruption by the user."""


class _Limit:
    """When work ends: after more than ``presses`` of Ctrl-C in this process, or at a time."""

    def __init__(self, presses: float, until: float) -> None:
        self.presses, self.until, self.held = presses, until, False

    def reason(self) -> type[KeyboardInterrupt] | None:
        """Return why work must end, None if it may go on."""
        if _pressed > self.presses:
            return KeyboardInterrupt
        return TimeIsUp if time.monotonic() > self.until else None


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)
_pressed = 0  # how often Ctrl-C was pressed, as far as this process has noticed


def check() -> bool:
    """Return True, or raise KeyboardInterrupt after Ctrl-C, and TimeIsUp after a deadline."""
    limit = _limit.get()
    if limit is not None and not limit.held and (reason := limit.reason()) is not None:
        raise reason
    return True


def is_over() -> bool:
    """Return whether Ctrl-C was pressed, or the deadline has passed."""
    limit = _limit.get()
    return limit is not None and limit.reason() is not None


def hold(held: bool = True) -> None:
    """Let short work that must not be lost go on despite Ctrl-C and deadlines, or no more."""
    if (limit := _limit.get()) is not None:
        limit.held = held


def accept() -> None:
    """Mark presses until now as handled, because the result is marked as interrupted."""
    if (limit := _limit.get()) is not None:
        limit.presses = max(limit.presses, _pressed)


def limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for another thread, which ends where this one does."""
    limit = _limit.get()

    def inner(*args: Any) -> Any:
        token = _limit.set(limit)
        try:
            return function(*args)
        finally:
            _limit.reset(token)

    return inner


def seconds_left() -> float:
    """Return the seconds until the deadline, infinity without one."""
    limit = _limit.get()
    return math.inf if limit is None else limit.until - time.monotonic()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Let :func:`check` raise TimeIsUp after so many seconds, or at an earlier deadline."""
    limit = _limit.get() or _Limit(math.inf, math.inf)
    token = _limit.set(_Limit(limit.presses, min(limit.until, time.monotonic() + seconds)))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def extension(seconds: float) -> Iterator[None]:
    """Grant so many seconds, whatever the deadline; the next press of Ctrl-C ends them."""
    token = _limit.set(_Limit(_pressed, time.monotonic() + seconds))
    try:
        yield
    finally:
        _limit.reset(token)


class Interruption:
    """Lets loops end after Ctrl-C, and counts its presses; the first may be answered on stderr.

    A press is in force, here and in whatever encloses this, until :meth:`wait` or an
    :func:`extension`; one that nothing has noticed raises KeyboardInterrupt at the end.
    """

    def __init__(self, answer: str = "") -> None:
        self._answer = answer

    @property
    def presses(self) -> int:
        """Number of presses so far."""
        return _pressed - self._first

    @property
    def requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.presses > 0

    def wait(self, presses: float) -> None:
        """Take those until now as noticed, and so many further ones without KeyboardInterrupt."""
        self._limit.presses = max(self._outer, _pressed + presses)

    def __enter__(self) -> Interruption:
        outer = _limit.get() or _Limit(-math.inf, math.inf)
        self._first, self._outer = _pressed, outer.presses
        presses = _pressed if outer.presses == -math.inf else outer.presses
        self._limit = _Limit(presses, outer.until)
        self._limit.held = outer.held
        self._token = _limit.set(self._limit)
        self._before = signal.getsignal(signal.SIGINT)
        inner = getattr(self._before, "__func__", None) is Interruption._note
        # other threads may not set handlers, and are not interrupted; nor are background jobs of
        # scripts, which ignore the signal
        main = threading.current_thread() is threading.main_thread()
        self._set = main and not inner and self._before is not signal.SIG_IGN
        if self._set:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        noticed = _pressed <= self._limit.presses
        _limit.reset(self._token)
        if self._set:
            signal.signal(signal.SIGINT, self._before)
        # what fails after a press has failed because of it, as PyMC does without any draw
        if not noticed and (isinstance(error, Exception) or (error is None and self._set)):
            raise KeyboardInterrupt from error

    def _note(self, number: int, frame: FrameType | None) -> None:
        global _pressed
        if callable(self._before) and self._before is not signal.default_int_handler:
            try:
                self._before(number, frame)
            except KeyboardInterrupt:
                pass
            else:  # a handler of the user's that does without
                return
        _pressed += 1
        if self.presses == 1 and self._answer:
            with suppress(OSError):  # not print, which may be what is interrupted
                os.write(2, f"\n{self._answer}\n".encode())
        limit = _limit.get() or self._limit
        if _pressed > limit.presses and not (limit.held or _is_delicate(frame)):
            raise KeyboardInterrupt


def interruptible[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Let a function end after Ctrl-C: see :class:`Interruption`."""

    @wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        with Interruption():
            return function(*args, **kwargs)

    return inner


def _is_delicate(frame: FrameType | None) -> bool:
    """Return whether an exception here would be lost, or leave a lock or a module half made.

    Python ignores exceptions in callbacks of weak references, and numba where it types the
    arguments of a kernel. Some packages cannot be imported again after an interrupted import.
    Compilation, which takes seconds, can be interrupted.
    """
    package = __name__.partition(".")[0]
    while frame is not None:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.partition(".")[0] == package or function == "_compile_for_args":
            return False
        # of random numbers, numba reads a named tuple that NumPy makes
        if module.startswith(("numba.", "namedtuple_", "ctypes", "weakref", *LOCKS, *IMPORTS)):
            return True
        if module == "jax._src.lib":  # a callback of the garbage collector
            return True
        frame = frame.f_back
    return False

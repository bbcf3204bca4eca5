"""Work done side by side by threads, which share memory: kernels release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from bayesfuse.errors import interruptible, require_count

LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Environment variables that say how many threads a process may have."""


class _Team:
    """The threads of a call, of use only in the process that made them: a fork copies none."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.executor = executor
        self.process = os.getpid()


_team: ContextVar[_Team | None] = ContextVar("team", default=None)
# Threads see a context of their own, so work within a thread of a team is done there.


def available() -> int:
    """Return the number of cores that this process may use.

    Those that the system, or a batch scheduler by it, gives to it; no more than OMP_NUM_THREADS or
    NUMBA_NUM_THREADS, where they are set.
    """
    own = getattr(os, "process_cpu_count", None)  # Python 3.13
    if own is not None:
        found = own() or 1
    else:
        affinity = getattr(os, "sched_getaffinity", None)
        found = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    for name in LIMITS:
        said = os.environ.get(name, "").split(",")[0].strip()
        if said.isdecimal() and int(said) > 0:
            found = min(found, int(said))
    return max(found, 1)


@contextmanager
def threads(cores: int | None = None) -> Iterator[None]:
    """Let :func:`side_by_side` use so many threads, by default as many as there are cores.

    The innermost number counts. The threads end with the context, so nothing is left that a fork
    could break.
    """
    count = available() if cores is None else cores
    if count == 1:
        token = _team.set(None)
        try:
            yield
        finally:
            _team.reset(token)
        return
    executor = ThreadPoolExecutor(count, thread_name_prefix="bayesfuse")
    token = _team.set(_Team(executor))
    try:
        yield
    finally:
        _team.reset(token)
        executor.shutdown(cancel_futures=True)


def on_cores(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function that takes ``cores=`` the threads for its work, and let it be interrupted."""

    @wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        cores = kwargs.get("cores")
        if cores is not None:
            require_count("cores", cores)
        with interruptible, threads(cores):
            return function(*args, **kwargs)

    return inner


def shared() -> bool:
    """Say whether :func:`side_by_side` has threads here."""
    team = _team.get()
    return team is not None and team.process == os.getpid()


def side_by_side(function: Callable[..., Any], *columns: Any) -> list[Any]:
    """Return the values of a function, in order; the threads of :func:`threads` share the work."""
    team = _team.get()
    if team is None or not shared():
        return list(map(function, *columns))
    return list(team.executor.map(function, *columns))

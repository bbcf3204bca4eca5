"""Work done side by side by threads, which share memory: kernels release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from bayesfuse.errors import require_count
from bayesfuse.numerics.interruption import interruptible

LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")  # how many threads a process may have


_team: ContextVar[tuple[ThreadPoolExecutor, int, int] | None] = ContextVar("team", default=None)
"""Threads of a call, their number, and the process that made them: a fork copies no threads."""
# Threads see a context of their own, so work within a thread of a team is done there.


def available() -> int:
    """Return the number of cores that this process may use, within the limits of ``LIMITS``."""
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

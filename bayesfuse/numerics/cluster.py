"""Tasks on parts of the data: on a Dask cluster where there is a client, else on threads here.

A part is prepared by a function of what was given alone, and tasks return what they find, so
nothing that matters stays on a worker: what is lost with one is worked out again, and is the same.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from bayesfuse.errors import ClusterError
from bayesfuse.numerics.threads import side_by_side

SHARE = 0.4
"""Share of the memory, here or of all workers, that prepared parts may take; others are prepared
anew for every task."""

SMALL = 10_000
"""Bytes of arguments that are sent with every task; larger ones go to every worker once."""

FAN_IN = 16
"""Results that are added up at a time, on the cluster."""


def client() -> Any:
    """Return the Dask client of this process, None if there is none."""
    if "distributed" not in sys.modules:  # whoever has a client has imported it
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


class Parts:
    """Parts of the data that tasks are done on.

    Parameters
    ----------
    prepare : callable
        ``prepare(recipe, source)`` makes what tasks work on; a function of a module.
    recipe : object
        What all parts share.
    sources : sequence
        Where each part comes from. Those with a method ``future(client)`` live on the cluster.
    sizes : sequence of int
        Bytes of every prepared part, about.
    """

    def __init__(
        self,
        prepare: Callable[[Any, Any], Any],
        recipe: Any,
        sources: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        self.prepare, self.recipe = prepare, recipe
        self.sources, self.sizes = list(sources), list(sizes)
        self._here: dict[int, Any] = {}
        self._there: tuple[Any, Any, dict[int, Any]] | None = None

    def __len__(self) -> int:
        return len(self.sources)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_here": {}, "_there": None}

    def map(self, function: Callable[..., Any], shared: tuple[Any, ...], *columns: Any) -> Any:
        """Return ``function(part, *shared, *own)`` of every part, in order.

        ``columns`` hold what is each part's own. The function is one of a module.
        """
        there = client()
        if there is None:
            return self._map_here(function, shared, columns)
        return self._gather(there, self._submit(there, function, shared, columns))

    def add(
        self,
        add: Callable[[list[Any]], Any],
        function: Callable[..., Any],
        shared: tuple[Any, ...],
        *columns: Any,
    ) -> Any:
        """Return the sum of what :meth:`map` returns, added up in one order by ``add``."""
        there = client()
        if there is None:
            found = self._map_here(function, shared, columns)
            while len(found) > 1:
                found = [add(found[at : at + FAN_IN]) for at in range(0, len(found), FAN_IN)]
            return found[0]
        tasks = self._submit(there, function, shared, columns)
        while len(tasks) > 1:
            groups = [tasks[at : at + FAN_IN] for at in range(0, len(tasks), FAN_IN)]
            tasks = [there.submit(add, group, pure=False) for group in groups]
        return self._gather(there, tasks)[0]

    def _map_here(self, function: Any, shared: tuple[Any, ...], columns: Any) -> list[Any]:
        def work(index: int) -> Any:
            part = self._here.get(index)
            if part is None:
                part = self.prepare(self.recipe, self.sources[index])
                if index in keep:
                    self._here[index] = part
            return function(part, *shared, *(column[index] for column in columns))

        keep = self._kept(_memory())
        return side_by_side(work, range(len(self)))

    def _submit(self, there: Any, function: Any, shared: Any, columns: Any) -> list[Any]:
        if there.status != "running":
            raise ClusterError(
                "The Dask client must be connected to its cluster while tasks are done. Got: a "
                f"client that is {there.status}."
            )
        if self._there is None or self._there[0] is not there:
            info = there.scheduler_info(n_workers=-1)["workers"].values()
            if not info:
                raise ClusterError("A Dask cluster must have workers to do tasks. Got: none.")
            memory = sum(worker["memory_limit"] or _memory() for worker in info)
            recipe = _sent(there, self.recipe)
            kept = {
                index: there.submit(_prepared, self.prepare, recipe, self._source(there, index))
                for index in self._kept(memory)
            }
            self._there = there, recipe, kept
        _, recipe, kept = self._there
        given = _sent(there, shared) if len(pickle.dumps(shared)) > SMALL else shared
        name, tasks = f"{function.__name__}-{uuid4().hex}", []
        for index in range(len(self)):
            own = tuple(column[index] for column in columns)
            key = f"{name}-{index}"
            if index in kept:
                task = there.submit(_on_part, function, kept[index], given, own, key=key)
            else:
                source = self._source(there, index)
                task = there.submit(
                    _on_source, self.prepare, recipe, source, function, given, own, key=key
                )
            tasks.append(task)
        return tasks

    def _source(self, there: Any, index: int) -> Any:
        source = self.sources[index]
        return source.future(there) if hasattr(source, "future") else source

    def _gather(self, there: Any, tasks: list[Any]) -> list[Any]:
        from distributed import CancelledError

        try:
            found: list[Any] = there.gather(tasks)
        except (CancelledError, OSError) as error:
            raise ClusterError(
                "The Dask cluster must stay until its tasks are done. Got: a connection that ended "
                f"({type(error).__name__}: {error})."
            ) from error
        except KeyboardInterrupt:
            there.cancel(tasks)
            raise
        return found

    def _kept(self, memory: float) -> set[int]:
        """Return the parts that memory holds, the first ones."""
        left, kept = SHARE * memory, set()
        for index, size in enumerate(self.sizes):
            left -= size
            if left < 0:
                break
            kept.add(index)
        return kept


def _sent(there: Any, value: Any) -> Any:
    """Return a task that makes a value, for workers to fetch from each other.

    As the result of a task it is made again if the worker that holds it is lost.
    """
    import cloudpickle

    return there.submit(cloudpickle.loads, cloudpickle.dumps(value), pure=False)


def _prepared(prepare: Any, recipe: Any, source: Any) -> Any:
    return prepare(recipe, source)


def _on_part(function: Any, part: Any, shared: Any, own: Any) -> Any:
    return function(part, *shared, *own)


def _on_source(prepare: Any, recipe: Any, source: Any, function: Any, shared: Any, own: Any) -> Any:
    return function(prepare(recipe, source), *shared, *own)


def _memory() -> float:
    """Return the bytes of memory of this machine, as far as it tells."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9

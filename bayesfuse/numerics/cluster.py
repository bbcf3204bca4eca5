"""Tasks on parts of the data: on a Dask cluster where there is a client, else on threads here.

Parts are functions of arguments alone, so the work of a lost worker is repeated with one result.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from bayesfuse.errors import ClusterError
from bayesfuse.numerics.threads import side_by_side

MEMORY_SHARE = 0.5  # of the free memory, for prepared parts; others are prepared for every task
BASE_MEMORY = 400e6  # bytes of a process without parts
MAX_BYTES_SENT = 5_000_000  # of arguments, with all tasks; larger ones go to every worker once
FAN_IN = 16  # results that are added up at a time


def client() -> Any:
    """Return the Dask client of this process, None if there is none."""
    if "distributed" not in sys.modules:  # imported where there is a client
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


class Parts:
    """Parts of the data, each made by ``prepare(recipe, source)``, of about ``sizes`` bytes.

    ``prepare`` is a function of a module. Sources with a method ``future(client)`` are on the
    cluster.
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
        self._prepared: dict[int, Any] = {}
        self._placement: tuple[Any, Any, list[tuple[range, Any]]] | None = None

    def __len__(self) -> int:
        return len(self.sources)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": {}, "_placement": None}

    def map(self, function: Callable[..., Any], shared: tuple[Any, ...], *columns: Any) -> Any:
        """Return ``function(part, *shared, *arguments)`` by part, with arguments from columns."""
        return self._results(list, function, shared, columns)

    def add(
        self,
        add: Callable[[list[Any]], Any],
        function: Callable[..., Any],
        shared: tuple[Any, ...],
        *columns: Any,
    ) -> Any:
        """Return the sum of the results of :meth:`map`, in an order independent of workers."""
        results = self._results(partial(_by_group, add), function, shared, columns)
        while len(results) > FAN_IN:
            results = _by_group(add, results)
        return add(results)

    def _map_on_threads(self, function: Any, shared: tuple[Any, ...], columns: Any) -> list[Any]:
        def work(index: int) -> Any:
            part = self._prepared.get(index)
            if part is None:
                part = self.prepare(self.recipe, self.sources[index])
                if index < n_in_memory:
                    self._prepared[index] = part
            return function(part, *shared, *(column[index] for column in columns))

        n_in_memory = self._n_in_memory(_memory() - BASE_MEMORY)
        return side_by_side(work, range(len(self)))

    def _results(self, combine: Any, function: Any, shared: Any, columns: Any) -> list[Any]:
        """Return all results in order, ``combine``d on a cluster where groups are complete."""
        dask = client()
        if dask is None:
            return self._map_on_threads(function, shared, columns)
        if dask.status != "running":
            raise ClusterError(
                "The Dask client must be connected to its cluster while tasks are done. Got: a "
                f"client that is {dask.status}."
            )
        if self._placement is None or self._placement[0] is not dask:
            self._placement = self._place(dask)
        _, recipe, bundles = self._placement
        if any(parts[0] % FAN_IN for parts, _ in bundles):
            combine = list
        if len(pickle.dumps(shared)) * len(bundles) > MAX_BYTES_SENT:
            shared = _scattered(dask, shared)
        name, tasks = f"{function.__name__}-{uuid4().hex}", []
        for parts, ready in bundles:
            preparation: tuple[Any, ...] = None, None, ready
            if ready is None:
                preparation = self.prepare, recipe, [self._source(dask, n) for n in parts]
            arguments_by_part = [tuple(column[n] for column in columns) for n in parts]
            arguments = *preparation, combine, function, shared, arguments_by_part
            tasks.append(dask.submit(_on_parts, *arguments, key=f"{name}-{parts[0]}"))
        return [result for results in self._gather(dask, tasks) for result in results]

    def _place(self, dask: Any) -> tuple[Any, Any, list[tuple[range, Any]]]:
        """Bundle the parts of one task, one prepared bundle per thread if they fit into memory."""
        workers = dask.scheduler_info(n_workers=-1)["workers"].values()
        if not workers:
            raise ClusterError("A Dask cluster must have workers to do tasks. Got: none.")
        free = (max((worker["memory_limit"] or _memory()) - BASE_MEMORY, 0) for worker in workers)
        n_in_memory = self._n_in_memory(sum(free))
        recipe, n_threads = _scattered(dask, self.recipe), max(sum(dask.nthreads().values()), 1)
        step = -(-len(self) // n_threads)
        if step > FAN_IN:  # whole groups
            step = FAN_IN * -(-step // FAN_IN)
        bundles: list[tuple[range, Any]] = []
        for first in range(0, len(self), step):
            last = min(first + step, len(self))
            last_prepared = min(max(n_in_memory, first), last)  # the first parts are kept
            if last_prepared > first:
                sources = [self._source(dask, n) for n in range(first, last_prepared)]
                ready = dask.submit(_prepared, self.prepare, recipe, sources, pure=False)
                bundles.append((range(first, last_prepared), ready))
            length = FAN_IN if step > FAN_IN else 1
            bundles += [
                (range(n, min(n + length, last)), None) for n in range(last_prepared, last, length)
            ]
        return dask, recipe, bundles

    def _source(self, dask: Any, index: int) -> Any:
        source = self.sources[index]
        return source.future(dask) if hasattr(source, "future") else source

    def _gather(self, dask: Any, tasks: list[Any]) -> list[Any]:
        from distributed import CancelledError, KilledWorker

        try:
            return dask.gather(tasks)
        except (CancelledError, OSError) as error:
            raise ClusterError(
                "The Dask cluster must stay until its tasks are done. Got: a connection that ended "
                f"({type(error).__name__}: {error})."
            ) from error
        except KilledWorker as error:
            raise ClusterError(
                "Workers must have the memory for a partition and what is made of it: give them "
                f"more, or cut the table into smaller ones. Got: {error}"
            ) from error
        except KeyboardInterrupt:
            dask.cancel(tasks)
            raise

    def _n_in_memory(self, free: float) -> int:
        """Return how many parts fit into memory that is free."""
        total = np.cumsum(self.sizes, dtype=float)
        return int(np.searchsorted(total, MEMORY_SHARE * free, side="right"))


def _scattered(dask: Any, value: Any) -> Any:
    """Return a task that makes a value, and again if the worker that holds it is lost."""
    import cloudpickle

    return dask.submit(cloudpickle.loads, cloudpickle.dumps(value), pure=False)


def _prepared(prepare: Any, recipe: Any, sources: list[Any]) -> list[Any]:
    return [prepare(recipe, source) for source in sources]


def _on_parts(
    prepare: Any,
    recipe: Any,
    parts: Any,
    combine: Any,
    function: Any,
    shared: Any,
    by_part: list[Any],
) -> Any:
    """Return the results on parts, or on sources to prepare, one at a time in memory."""
    ready = parts if prepare is None else (prepare(recipe, source) for source in parts)
    both = zip(ready, by_part, strict=True)
    return combine([function(part, *shared, *arguments) for part, arguments in both])


def _by_group(add: Callable[[list[Any]], Any], results: list[Any]) -> list[Any]:
    return [add(results[at : at + FAN_IN]) for at in range(0, len(results), FAN_IN)]


def _memory() -> float:
    """Return the bytes of memory of this machine, 4 GB if unknown."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9

"""Kernels: how they are compiled, their cache between processes, and those that others share.

numba's own cache depends only on the file of a kernel, but machine code contains helpers of other
files. Here the name of the cache folder is a digest of all files that kernels depend on.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs
from numpy.typing import NDArray

Array = NDArray[np.float64]

HOME = Path(__file__).parents[1]  # the package
MAX_FOLDERS = 4  # number of folders kept for other versions of the sources

_DECORATED = b"\n@kernel", b"\n@inner", b"\n@inlined", b"compiled("
_IMPORTED = re.compile(rb"^ *from bayesfuse\.([\w.]+) import", re.MULTILINE)


def sources_digest() -> str:
    """Return a digest of the contents of files with kernels and their imports, "" without any."""
    texts = {}
    for path in HOME.rglob("*.py"):
        name = ".".join(path.relative_to(HOME).with_suffix("").parts)
        texts[name.removesuffix(".__init__")] = path.read_bytes()
    queue = [name for name, text in texts.items() if any(mark in text for mark in _DECORATED)]
    included = {}
    while queue:
        name = queue.pop()
        if name in texts:
            included[name] = texts.pop(name)
            queue += [other.decode() for other in _IMPORTED.findall(included[name])]
    if not included:
        return ""
    made_by = sys.implementation.cache_tag, numba.__version__
    return hashlib.sha256(repr((made_by, sorted(included.items()))).encode()).hexdigest()[:20]


DIGEST = sources_digest()  # at import, when files and running code agree


@cache
def folder() -> Path | None:
    """Return the first writable folder of numba's own choices, None to cache nothing."""
    if not DIGEST:
        return None
    places = [HOME / "__pycache__", Path(AppDirs("numba", appauthor=False).user_cache_dir)]
    if config.CACHE_DIR:
        places.insert(0, Path(config.CACHE_DIR))
    for place in places:
        chosen = place / f"bayesfuse-{DIGEST}"
        try:
            is_new = not chosen.exists()
            chosen.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=chosen).close()  # permissions alone are not conclusive
        except OSError:
            continue
        if is_new:  # processes that still use an old one compile again
            with suppress(OSError):  # another process removed one
                others = [old for old in place.glob("bayesfuse-*") if old != chosen]
                others.sort(key=lambda old: old.stat().st_mtime, reverse=True)
                for old in others[MAX_FOLDERS:]:
                    shutil.rmtree(old, ignore_errors=True)
        return chosen
    return None


# numba numbers the functions that it compiles, and the numbers are part of the names in machine
# code: two processes would give one name to different functions, of which a third would load one
# for both. So functions get random numbers (numba issue 10486), as PyTensor sets at import. All
# functions must, because our kernels are linked with those of numba's library.
FunctionIdentity._unique_ids = iter(lambda: uuid.uuid4().int, None)


class KernelCache(NullCache):
    """Cache with a file per compiled signature: processes may write numba's index at once."""

    reloaded = False
    """Whether a module was edited and imported again, which makes the digest invalid."""

    def __init__(self, function: Callable[..., Any], variant: str) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.variant = variant

    def _file(self, signature: Any, codegen: Any) -> Path | None:
        chosen = None if self.reloaded else folder()
        if chosen is None:
            return None
        # Kernels with * are called by Python with a Tuple, by kernels with a StarArgTuple, which
        # look alike: a kernel loaded for the other one would be loaded again at every call.
        kinds = [type(argument).__name__ for argument in signature]
        # the last part includes the CPU and its features
        key = signature, kinds, self.variant, codegen.magic_tuple()
        return chosen / f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled signature, or None."""
        target_context.refresh()  # declare symbols that the machine code may use
        file = self._file(sig, target_context.codegen())
        try:
            stored = b"" if file is None else file.read_bytes()
        except OSError:
            return None
        payload = stored[32:]
        if hashlib.sha256(payload).digest() != stored[:32]:  # truncated or damaged
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(payload))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled signature."""
        file = self._file(sig, data.codegen)
        if file is None or data.library.has_dynamic_globals:
            return
        payload = dumps(data._reduce())
        written = file.with_name(f"{uuid.uuid4().hex}.nbc")
        try:
            file.parent.mkdir(exist_ok=True)
            written.write_bytes(hashlib.sha256(payload).digest() + payload)
            os.replace(written, file)
        except OSError:  # a full disk, for instance: the kernel works without the cache
            with suppress(OSError):
                written.unlink()


_names: set[tuple[str, str]] = set()


def compiled(variant: str = "", **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit``, cached in the package; ``variant`` names the product of a factory."""

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if Path(function.__code__.co_filename).is_relative_to(HOME):
            dispatcher._cache = kernel_cache = KernelCache(function, variant)
            KernelCache.reloaded |= (kernel_cache.name, variant) in _names
            _names.add((kernel_cache.name, variant))
        return dispatcher

    return decorate


kernel = compiled(nogil=True, no_cfunc_wrapper=True)
"""Compile a function called from Python."""

inner = compiled(nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""Compile a function called only by kernels: without a Python wrapper it takes a fifth less."""

inlined = numba.njit(nogil=True, inline="always")
"""Inline a function into the few kernels that call it: half a second less at the first fit."""


@inner
def fill(target, source):
    """Copy an array to another of the same shape; an assignment takes a second to compile."""
    to, of = target.reshape(-1), source.reshape(-1)
    for i in range(to.size):
        to[i] = of[i]


@inner
def clear(counts):
    """Set a matrix to zero."""
    for i in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            counts[i, j] = 0.0


@inner
def exponentials(logs):
    """Return the exponentials of a matrix: a loop compiles in a tenth of the time of np.exp."""
    result = np.empty(logs.shape)
    for i in range(logs.shape[0]):
        for j in range(logs.shape[1]):
            result[i, j] = math.exp(logs[i, j])
    return result


TINY = 1e-290  # a product of probabilities below this may have lost digits to underflow


@inner
def rescale(rows, n):
    """Exponentiate row n of logs in place relative to the largest (returned), never to zero."""
    n_columns = rows.shape[1]
    top = -np.inf
    for k in range(n_columns):
        top = max(top, rows[n, k])
    for k in range(n_columns):
        # avoids −inf − (−inf) if no entry is finite
        rows[n, k] = max(math.exp(rows[n, k] - top), TINY) if rows[n, k] > -np.inf else 0.0
    return top if top > -np.inf else 0.0


@inlined
def apply_gold(likelihood, n, gold, nothing):
    """Exclude all classes of item n but the known one, in place; −1 means unknown."""
    if gold >= 0:
        for k in range(likelihood.shape[1]):
            if k != gold:
                likelihood[n, k] = nothing

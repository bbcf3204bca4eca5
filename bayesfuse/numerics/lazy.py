"""Public names that are imported when they are first used, because all together take seconds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


@cache
def imported(package: str) -> dict[str, str]:
    """Return the names that a package imports under ``if TYPE_CHECKING``, with their modules."""
    source = sys.modules[package].__spec__.loader.get_source(package)  # type: ignore[union-attr]
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    (names,) = (block.body for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING")
    return {alias.name: line.module for line in names for alias in line.names}  # type: ignore[attr-defined]


def importer(package: str) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a package, for its :func:`imported` names."""

    def get(name: str) -> Any:
        modules = imported(package)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get

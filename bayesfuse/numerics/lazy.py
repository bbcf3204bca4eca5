"""Public names that are imported when they are first used, because all together take seconds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any


def importer(package: str) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a package, for the imports under its ``if TYPE_CHECKING``."""

    @cache
    def modules() -> dict[str, str]:
        spec = sys.modules[package].__spec__
        source = spec.loader.get_source(package)  # type: ignore[union-attr]
        blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
        (names,) = (block.body for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING")
        return {each.name: line.module for line in names for each in line.names}  # type: ignore[attr-defined]

    def get(name: str) -> Any:
        if name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return get

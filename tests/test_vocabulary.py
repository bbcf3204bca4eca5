"""Identifiers say what they hold: words without content are rare (CONTRIBUTING, Glossary)."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITHOUT_CONTENT = set(
    "found own each told said given rest seen begun kept whole plain apart".split()
)
MOST = 150
"""Uses in the whole package. Some are plain English for the thing, such as ``one_vs_rest``."""


def identifiers(node):
    """Yield the identifiers that a node of a syntax tree introduces or uses."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def test_identifiers_are_words_with_content():
    uses = Counter()
    for folder in ("bayesfuse", "models"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for name in identifiers(node):
                    if WITHOUT_CONTENT & set(name.lower().split("_")):
                        uses[f"{path.relative_to(ROOT)}: {name}"] += 1
    assert uses.total() < MOST, uses.most_common(20)

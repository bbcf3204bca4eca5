"""Values of arguments: numbers, times, files and names, from text."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from bayesfuse.command_line.files import STDIN

TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)")
SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # times as 90s, 2min or 1h

MOST, MOST_CHAINS = 10**15, 10_000
"""Draws and chains beyond which NumPy and PyMC fail with unclear errors."""


def path(text: str) -> Path:
    """Return a file; - is standard input."""
    return STDIN if text == "-" else Path(text)


def minutes(text: str) -> float:
    """Return the minutes of a time such as 90s, 2min or 1h."""
    found = TIME.fullmatch(text.replace(" ", ""))
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"a time is written as 90s, 2min or 1h. Got: {text!r:.50}")
    return float(found[1]) * SECONDS[found[2]] / 60


def seed(text: str) -> int:
    """Return a seed of random numbers."""
    try:
        if text.isdecimal():
            return int(text)
    except ValueError:  # thousands of digits
        pass
    raise argparse.ArgumentTypeError(f"a seed must be a whole number, at least 0. Got: {text:.50}")


def whole_number(text: str) -> int:
    """Return a whole number."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r:.50}") from None
    if number >= MOST:
        raise argparse.ArgumentTypeError(f"must be less than 10^15. Got: {text:.50}")
    return number


def number(text: str) -> float:
    """Return a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid number: {text!r:.50}") from None


def numbers(text: str) -> list[float]:
    """Return numbers between commas."""
    return [number(part) for part in text.split(",")]


def chains(text: str) -> int:
    """Return a number of chains."""
    if (number := whole_number(text)) > MOST_CHAINS:
        raise argparse.ArgumentTypeError(f"at most {MOST_CHAINS:,} chains. Got: {number}")
    return number


def classes(text: str) -> str:
    """Return the names of classes, as given."""
    # Python decodes bytes that are not UTF-8 to surrogates
    named = text.encode("utf-8", "replace").decode() == text and all(text.split(","))
    if not named:
        raise argparse.ArgumentTypeError(f"classes must be names in UTF-8 text. Got: {text!r}")
    return text

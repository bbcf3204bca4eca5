"""Text of messages: without addresses and keys, and with little of the user's data."""

from __future__ import annotations

import re

SHORT = 200  # letters up to which a message shows what was given
MAX_QUOTED = 300  # letters of the user's data in one message

# the lookbehind keeps the search linear in long words
ADDRESS = re.compile(
    r"(?<![^\s@'\"<>()\[\],;:=])[^\s@'\"<>()\[\],;:=]+@[^\s@'\"<>()\[\],;:=]+\.\w+"
)
SECRET = re.compile(
    r"\b(?:sk|pk|rk|hf|gh[opsu]|xox[abp]|glpat|AKIA|eyJ)[-_]?[A-Za-z0-9_-]{16,}"
    r"|(?i:\b(?:bearer|password|passwd|api[_-]?key|secret|token)(?:\s*[=:]\s*|\s+)[^\s'\",]{8,})"
)
# a quote after a letter is an apostrophe or ends a name
QUOTED = re.compile(r"(?<!\w)'[^']*'|(?<!\w)\"[^\"]*\"|\S{81,}")


def discreet(message: str) -> str:
    """Return a message without addresses, keys and long data, as logs and reports are shared."""
    message = masked(message)
    for most in (100, 40, 15):
        if sum(len(quoted[0]) for quoted in QUOTED.finditer(message)) <= MAX_QUOTED:
            break
        message = _with_short_quotes(message, most)
    rule, got, value = message.partition("Got: ")
    return rule + got + abridged(value, MAX_QUOTED)


def _with_short_quotes(message: str, most: int) -> str:
    return QUOTED.sub(lambda quoted: abridged(quoted[0], most), message)


def masked(text: str) -> str:
    """Return text without addresses and keys, which are not recognised once they are cut."""
    return SECRET.sub("[secret]", ADDRESS.sub("[address]", text))


def abridged(text: str, most: int) -> str:
    """Return text of at most this many letters, with the middle cut out if it is longer."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def brief(value: object) -> str:
    """Return a value as a message shows it: its type if its text is long."""
    text = repr(value)
    return text if len(text) <= SHORT and text.isprintable() else type(value).__name__

"""The code of a documentation page, run from top to bottom, beside the output that the page states.

``python docs/pages.py docs/howto/priors.md`` writes what the code prints into the page.
"""

import contextlib
import io
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n*^```text\n(.*?)^```\n)?", re.M | re.S)
"""A block of code, and the block of text right after it: what it prints."""

NUMBER = re.compile(r"(?<![\w.])[-−]?\d*\.\d+(?:e[-+]\d+)?(?!\w)")
"""A number with decimals. Whole numbers are read as words: counts and names are exact."""


@dataclass(frozen=True)
class Block:
    """A block of code of a page: its first line in the page, and what it should print."""

    line: int
    code: str
    stated: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text[: match.start()].count("\n") + 2, match[1], match[3] or "")
        for match in BLOCK.finditer(text)
    ]


def run(page: Path) -> list[str]:
    """Run the blocks of a page in one namespace and an empty folder; return what each prints."""
    names = {"__name__": "__main__"}
    printed = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks(page):
            # Line numbers of errors are those of the page.
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)
            printed.append(re.sub(r" +$", "", out.getvalue(), flags=re.M))
    return printed


def differences(stated: str, printed: str, *, absolute: float = 0.03, relative: float = 0.1) -> str:
    """Say where two outputs differ, numbers with decimals by more than the tolerances.

    Draws of one seed are the same on one machine, but the last bits of logarithms differ between
    machines, and with them after a while the draws.
    """
    words = [NUMBER.sub(" # ", text).split() for text in (stated, printed)]
    if words[0] != words[1]:
        return f"Stated:\n{stated}\nPrinted:\n{printed}"
    numbers = zip(
        *(NUMBER.findall(text.replace("−", "-")) for text in (stated, printed)), strict=True
    )
    far = [
        f"{one} is stated, {other} is printed"
        for one, other in numbers
        if not abs(float(one) - float(other)) <= absolute + relative * abs(float(one))
    ]
    return "\n".join(far)


def write(page: Path) -> None:
    """Replace the outputs that a page states by what its code prints."""
    printed = iter(run(page))

    def with_output(match: re.Match[str]) -> str:
        out = next(printed)
        shown = f"\n```text\n{out.rstrip()}\n```\n" if out else ""
        return f"```python\n{match[1]}```\n{shown}"

    text = page.read_text(encoding="utf-8")
    page.write_text(BLOCK.sub(with_output, text), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())

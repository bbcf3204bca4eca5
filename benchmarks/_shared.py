"""What benchmarks share: options, data, scores, and where figures and results go."""

import argparse
import io
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import NoReturn

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared/data"
"""Real tables, next to the checkout; benchmarks that need one are skipped where it is missing."""

QUIET = {"progressbar": False, "quiet": True}


class Arguments(argparse.ArgumentParser):
    """A parser of ``--quick``, ``--write``, ``--output`` (figures), and what is added."""

    def __init__(self, about: str, quick: str, *, figures: bool = False) -> None:
        super().__init__(description=about.splitlines()[0])
        self.add_argument("--quick", action="store_true", help=f"seconds: {quick}")
        if figures:
            folder = HERE / "figures"
            self.add_argument("--output", type=Path, default=folder, help="where figures go")
        self.add_argument(
            "--write",
            action="store_true",
            help="keep what is printed in results/ (not with --quick)",
        )

    def parse_args(self, *args, **kwargs):
        """Parse; figures of few runs go to a folder of their own."""
        found = super().parse_args(*args, **kwargs)
        if found.quick and getattr(found, "output", None) == HERE / "figures":
            found.output /= "quick"
        if found.write and not found.quick:
            sys.stdout = Kept()
        return found


class Kept(io.TextIOBase):
    """Standard output, also kept in results/ with date, version and machine."""

    def __init__(self) -> None:
        import bayesfuse

        self.screen, self.text = sys.stdout, ""
        script = Path(sys.argv[0])
        options = " ".join(word for word in sys.argv[1:] if word != "--write") or "no options"
        made = f"{date.today()}, bayesfuse {bayesfuse.__version__}, {machine()}: {options}."
        self.head = f"# `{script.name}`\n\n{made}\n\n```text\n"
        self.path = HERE / "results" / f"{script.stem}.md"

    def write(self, text: str) -> int:
        """Show the text, and write the file so far."""
        self.screen.write(text)
        self.screen.flush()
        self.text += text
        if self.text.strip():
            body = self.text.lstrip("\n").rstrip()  # the first line may be indented
            self.path.write_text(f"{self.head}{body}\n```\n")
        return len(text)


def machine() -> str:
    """Describe this machine: cores and processor."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = re.findall(r"^model name\s*: (.+)$", text, re.MULTILINE) or [platform.processor()]
    return f"{os.cpu_count()} cores, {names[0]}"


def skip(reason: str) -> NoReturn:
    """End a benchmark that cannot run here, which is no failure."""
    print(f"Skipped: {reason}")
    raise SystemExit(0)


@contextmanager
def extras() -> Iterator[None]:
    """Skip the benchmark if a package that is imported here is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        skip(f'{error.name} is not installed: pip install -e ".[benchmarks]".')


def data(name: str) -> Path:
    """Return the folder of a real table; without it the benchmark is skipped."""
    if not (DATA / name).exists():
        skip(f"the data of {name} were not found.")
    return DATA / name


def load(name: str):
    """Return the responses of a crowd, and the truth of its items with a response or None."""
    import bayesfuse as bf

    folder = data(name)
    classes = range(len((folder / "labels.txt").read_text().splitlines()))
    responses = bf.Responses.from_long(pd.read_csv(folder / "responses.csv.gz"), classes=classes)
    path = folder / "truth.csv.gz"
    if not path.exists():
        return responses, None
    truth = pd.read_csv(path).set_index("item")["label"]
    return responses, truth[truth.index.isin(responses.items)]


def communities(
    truth: np.ndarray, degree: float, within: float, rng: np.random.Generator
) -> np.ndarray:
    """Draw the edges of a stochastic block model, with a share of them within classes."""
    n_edges = round(len(truth) * degree / 2)
    inside, pairs = round(within * n_edges), []
    for count, same in ((inside, True), (n_edges - inside, False)):
        drawn = np.sort(rng.integers(0, len(truth), (50 * count, 2)), axis=1)
        agree = truth[drawn[:, 0]] == truth[drawn[:, 1]]
        fits = drawn[(agree == same) & (drawn[:, 0] < drawn[:, 1])]
        pairs.append(rng.permutation(np.unique(fits, axis=0))[:count])
    return np.concatenate(pairs)


def f_score(truth: np.ndarray, guess: np.ndarray, n_classes: int) -> float:
    """Return (37) of Traganitis & Giannakis, the mean of the F-scores of all classes."""
    table = np.zeros((n_classes, n_classes))
    np.add.at(table, (truth, guess), 1.0)
    both = table.sum(axis=0) + table.sum(axis=1)
    return np.mean(2 * np.diag(table) / np.maximum(both, 1.0))


def save(figure: plt.Figure, path: Path) -> None:
    """Write a figure and close it."""
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)

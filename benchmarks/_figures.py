"""What benchmarks that draw figures share: their options, and where figures go."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt


def arguments(about, quick=None):
    """Return a parser of ``--output`` and ``--quick``, to which a benchmark adds its own."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    folder = Path(__file__).parent / "figures"
    parser.add_argument("--output", type=Path, default=folder, help="where figures go")
    parser.add_argument("--quick", action="store_true", help=quick or "few runs")
    return parser


def save(figure, path):
    if figure.get_layout_engine() is None:
        figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)

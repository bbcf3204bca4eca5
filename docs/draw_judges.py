"""Draw the picture of the README: a panel of judges beside the truth.

``python docs/draw_judges.py`` writes ``docs/_static/judges.png``, and prints the figures beside it:
wrong labels with six choices of the known ones, and how many intervals have the accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

import bayesfuse as bf

TARGET = Path(__file__).with_name("_static") / "judges.png"


def wrong_labels(result: object, truth: dict[str, str]) -> int:
    """Return how many of the most probable labels are wrong."""
    share = bf.label_probabilities(result).sel(item=list(truth))
    labels = share["class"].values[share.values.argmax(axis=1)]
    return int((labels != np.array(list(truth.values()))).sum())


def with_known(panel: object, seed: int) -> tuple[object, dict[str, str], pd.DataFrame]:
    """Return the answer with 50 known labels, the others, and raters with their true accuracy."""
    responses, truth = panel.responses, panel.truth
    checked = np.random.default_rng(seed).choice(responses.items, 50, replace=False).tolist()
    gold = {item: truth[item] for item in checked}
    others = {item: label for item, label in truth.items() if item not in gold}
    fused = bf.fuse(responses, gold=gold, random_seed=1, progressbar=False)
    frame = responses.to_frame()
    right = (frame["item"].map(truth) == frame["label"]).groupby(frame["rater"]).mean()
    return fused, others, fused.raters().assign(truth=lambda table: table["rater"].map(right))


def main() -> None:
    panel = bf.datasets.judges()
    responses = panel.responses
    fused, others, raters = with_known(panel, 1)
    results = {
        "bf.fuse, 50 known labels": fused,
        "bf.fuse": bf.fuse(responses, random_seed=1, progressbar=False),
        "majority of the votes": bf.vote_shares(responses),
    }
    wrong = {name: wrong_labels(result, others) for name, result in results.items()}

    table = raters.iloc[::-1]
    figure, (left, middle) = plt.subplots(
        1, 2, figsize=(10, 3.6), width_ratios=[1.2, 1], layout="constrained", dpi=160
    )
    rows = np.arange(len(table))
    left.hlines(
        rows, table["low"], table["high"], color="C0", lw=5, alpha=0.45, label="89 % interval"
    )
    left.plot(table["accuracy"], rows, "o", color="C0", label="estimate")
    left.plot(table["truth"], rows, "x", color="black", ms=7, mew=2, label="truth")
    left.axvline(0.5, color="grey", ls=":", lw=1)
    left.set_yticks(rows, table["rater"], fontsize=8)
    left.set(xlabel="accuracy (dotted: chance)", title="How good is every judge?")
    left.legend(loc="lower right", fontsize=8)
    bars = middle.barh(list(wrong), list(wrong.values()), color=["C0", "C0", "0.7"])
    middle.bar_label(bars, padding=3)
    middle.set(xlabel=f"wrong labels of {len(others)}", title="Which output is better?")
    middle.set_xlim(0, 1.15 * max(wrong.values()))
    for axes in (left, middle):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET)
    print(wrong)
    choices = [with_known(panel, seed) for seed in range(1, 7)]
    numbers = [wrong_labels(result, labels) for result, labels, _ in choices]
    table = pd.concat([raters for *_, raters in choices])
    holds = table["truth"].between(table["low"], table["high"])
    print(f"wrong with six choices: {numbers}; {holds.sum()} of {len(holds)} intervals hold")


if __name__ == "__main__":
    main()

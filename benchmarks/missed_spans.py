"""Simulated abstracts: raters miss whole spans, and shift their ends.

One kind of spans (tags O, B, I), 150 texts of 100 to 300 words with two or three spans each, of
which a quarter is hard to see. Raters differ in how many spans they miss and how often they shift
a start or an end, and mark a few spans where there is none. Columns: strict F1 of the spans of the
most probable tags, and of those chosen by ``bf.spans``; log-loss (nats, probabilities clipped at
1e-4); and wrong tags expected and actual.

    python benchmarks/missed_spans.py [--quick] [--seeds 2] [--write]
"""

from __future__ import annotations

import warnings

import numpy as np
import xarray as xr
from _shared import QUIET, Arguments

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov

TAGS = np.array(["O", "B", "I"])
SETTINGS = {
    "four of 40 raters": {},
    "six of 100 raters": {"per_text": 6, "n_raters": 100},
    "three of 100 raters": {"per_text": 3, "n_raters": 100},
    "four, who miss more": {"missed": (0.4, 0.8)},
    "four, who shift more": {"shifted": (0.2, 1.0)},
}


def simulate(
    seed, n_texts=150, n_raters=40, per_text=4, missed=(0.2, 0.6), shifted=(0.2, 0.6), size=200
):
    """Return responses, sequences and true tags."""
    rng = np.random.default_rng(seed)
    misses, shifts = (rng.uniform(*ends, n_raters) for ends in (missed, shifted))
    invents = rng.gamma(1, 0.4, n_raters)
    lengths, truth, rows = [], [], []
    for _ in range(n_texts):
        length = int(rng.integers(size // 2, size * 3 // 2))
        begin, tags, spans = sum(lengths), np.zeros(length, dtype=int), []
        lengths.append(length)
        for _ in range(rng.poisson(2.5)):
            first = int(rng.integers(0, length - 12))
            stop = min(first + 1 + int(rng.geometric(0.15)), length)
            if not tags[max(first - 2, 0) : stop + 2].any():
                mark(tags, first, stop)
                spans.append((first, stop, 0.35 * (rng.random() < 0.25)))
        truth.append(tags)
        for rater in rng.choice(n_raters, per_text, replace=False):
            said = np.zeros(length, dtype=int)
            for first, stop, hard in spans:
                if rng.random() < min(misses[rater] + hard, 0.95):
                    continue
                one, other = rng.random(2) < shifts[rater]
                mark(
                    said,
                    max(first + one * int(rng.integers(-2, 3)), 0),
                    stop + other * int(rng.integers(-3, 4)),
                )
            for first in rng.integers(0, length - 6, rng.poisson(invents[rater])):
                mark(said, first, first + 1 + int(rng.geometric(0.25)))
            rows.append(np.stack([np.arange(begin, begin + length), np.full(length, rater), said]))
    item, rater, label = np.hstack(rows)
    table = {"item": item, "rater": rater, "label": TAGS[label]}
    responses = bf.Responses.from_long(table, classes=TAGS.tolist())
    return responses, bf.Sequences.from_lengths(lengths), np.concatenate(truth)


def mark(tags, first, stop):
    """Write a span into tags."""
    if stop > first:
        tags[first], tags[first + 1 : stop] = 1, 2


def score(result, sequences, truth):
    """Return two F1, log-loss, and wrong tags expected and actual."""
    labels = bf.label_probabilities(result).transpose("item", "class")
    p, best = labels.values, labels.values.argmax(axis=1)
    most, true = (xr.DataArray(TAGS[codes], {"item": labels["item"]}) for codes in (best, truth))
    most, true = (spans_in(tags, sequences) for tags in (most, true))
    chosen = spans_in(result, sequences) if "posterior" in result.children else most
    loss = -np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-4)).mean()
    f1 = [2 * len(found & true) / (len(found) + len(true)) for found in (most, chosen)]
    return [*f1, loss, (1 - p.max(axis=1)).sum(), (best != truth).sum()]


def spans_in(labels, sequences):
    """Return the chosen spans as a set."""
    table = bf.spans(labels, sequences)
    return {
        tuple(row) for row in table.loc[table["chosen"], ["sequence", "start", "stop"]].to_numpy()
    }


def main() -> None:
    """Print the table."""
    parser = Arguments(__doc__, "few texts, one setting")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", bf.errors.CollapseWarning)  # it is what the table shows
    settings, seeds, draws = SETTINGS, range(options.seeds), 150
    if options.quick:
        settings, seeds, draws = {"ten texts": {"n_texts": 10, "n_raters": 5}}, range(1), 10
    short = {"tune": draws, "chains": 2, "random_seed": 1, **QUIET}
    names = f"{'F1':>6}{'chosen':>8}{'log-loss':>10}{'expected':>10}{'wrong':>8}"
    print(f"{'texts and raters':22}{'by':12}{names}")
    for name, setting in settings.items():
        found = {}
        for seed in seeds:
            responses, sequences, truth = simulate(seed, **setting)
            fused = bf.fuse(
                responses,
                sequences=sequences,
                draws=draws,
                checks=False,
                random_seed=1,
                progressbar=False,
            )
            results = {
                "vote": bf.vote_shares(responses),
                "DawidSkene": bf.sample(DawidSkene(responses), draws, **short),
                "HiddenMarkov": bf.sample(HiddenMarkov(responses, sequences), draws, **short),
                "bf.fuse": fused,
            }
            for by, result in results.items():
                found.setdefault(by, []).append(score(result, sequences, truth))
        for by, scores in found.items():
            f1, chosen, loss, expected, wrong = np.mean(scores, axis=0)
            numbers = f"{f1:6.2f}{chosen:8.2f}{loss:10.3f}{expected:10.0f}{wrong:8.0f}"
            print(f"{name:22}{by:12}{numbers}", flush=True)


if __name__ == "__main__":
    main()

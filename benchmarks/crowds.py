"""Twelve crowds with known truth: are the labels right, and do their probabilities say so?

One row per method and crowd, over the items with a truth and a response: accuracy (ties shared),
log-loss (nats, probabilities clipped at 1e-4), expected calibration error (ten bins), the share of
right labels among those stated with more than .95, with their number, the errors expected by the
probabilities (the sum of 1 − the largest one) and made, and the seconds of the call, compilation
included. Numbers are means over the seeds, ± the standard deviation where they differ. Methods that
give labels but no probabilities are scored by accuracy only. The table at the end gives means over
the crowds.

With ``--gold 100`` so many random labels of each seed (at most a third of the truth, in whole tens)
are known to the methods that can use them; all are scored on the other items.

The labelling functions of wrench_youtube and wrench_trec are available by ``--only``; they are not
in the means. The data are read from ../shared/data, next to the checkout.

    python benchmarks/crowds.py [--quick] [--only rte face] [--methods Gibbs crowd-kit]
        [--draws 500] [--seeds 1 2 3] [--gold 100] [--stack] [--checks] [--csv rows.csv]
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _crowd_methods import MISSING, LeftOut, Settings, methods
from _shared import DATA, QUIET, Arguments, load

import bayesfuse as bf
from bayesfuse.models import DawidSkene

CROWDS = (
    "rte",
    "bluebird",
    "face",
    "weather_amt",
    "weather_cf",
    "barzan",
    "labelme",
    "web",
    "zencrowd_in",
    "music_genre",
    "adult2",
    "hitspam_cf",
)
LABELLING_FUNCTIONS = "wrench_youtube", "wrench_trec"
SMALL = ("bluebird",)
PUBLISHED = {  # majority vote, IBCC, EBCC, BWA
    "weather_cf": (0.882, 0.883, 0.883, 0.893),
    "weather_amt": (0.853, 0.857, 0.857, 0.860),
    "face": (0.637, 0.640, 0.635, 0.618),
    "adult2": (0.758, 0.745, 0.748, 0.742),
    "bluebird": (0.759, 0.889, 0.861, 0.759),
    "rte": (0.897, 0.928, 0.931, 0.928),
    "web": (0.731, 0.751, 0.769, 0.822),
    "zencrowd_in": (0.741, 0.770, 0.781, 0.764),
    "music_genre": (0.704, 0.790, 0.787, 0.786),
}
CLIP = 1e-4
SURE = 0.95
NEAR = 0.2
COLUMNS = "accuracy", "log_loss", "ece", "right_above", "n_above", "expected", "real", "seconds"


def score(labels, truth):
    """Score label probabilities against a truth, a Series by item."""
    common = bf.checks.label_scores(labels, truth)
    found = {"items": common["items"], "accuracy": common["accuracy"]}
    if labels.attrs.get("labels_only"):
        return found
    probability = labels.sel(item=truth.index.to_numpy()).values  # (truth, class)
    true = pd.Index(labels["class"].values).get_indexer(truth)
    own = probability[np.arange(len(true)), true]
    top, right = probability.max(axis=1), probability.argmax(axis=1) == true
    sure = top > SURE  # where no classes are tied
    return found | {
        "log_loss": -np.log(np.maximum(own, CLIP)).mean(),
        "brier": common["brier"],
        "ece": common["ece"],
        "right_above": right[sure].mean() if sure.any() else np.nan,
        "n_above": int(sure.sum()),
        "expected": (1 - top).sum(),
        "real": (1 - common["accuracy"]) * common["items"],
    }


def size_of_gold(truth, asked):
    """Return how many labels are known: at most a third of the truth, in whole tens."""
    return min(asked, len(truth) // 30 * 10)


def runs(method, responses, truth, seeds, n_gold, settings):
    """Yield the scores of a method and its attributes for every seed that makes a difference."""
    labels = None
    matters = method.random or n_gold > 0
    for seed in seeds if matters else seeds[:1]:
        known = truth.sample(n_gold, random_state=seed)
        if labels is None or method.random or (method.gold and n_gold):
            gold = known.to_dict() if method.gold and n_gold else None
            began = time.perf_counter()
            labels = method.fit(responses, seed, gold, settings)
            took = time.perf_counter() - began
        scores = score(labels, truth.drop(known.index))
        yield {"seed": seed if matters else None} | scores | {"seconds": took}, labels.attrs


def number(value, spread=None, digits=3):
    if value is None or np.isnan(value):
        return "–"
    shown = f"{value:.{digits}f}"
    return shown if spread is None or np.isnan(spread) else f"{shown} ±{spread:.{digits}f}"


def row(name, found):
    """Return the line of one method from its scores, a table with one row per seed."""
    found = found.reindex(columns=COLUMNS)
    mean, spread = found.mean(), found.std()
    sure = "–"
    if mean["n_above"] > 0:
        sure = f"{number(mean['right_above'])} of {mean['n_above']:,.0f}"
    errors = "–"
    if not np.isnan(mean["expected"]):
        errors = f"{mean['expected']:,.1f} / {mean['real']:,.1f}"
    cells = (number(mean[column], spread[column]) for column in ("accuracy", "log_loss"))
    return (
        f"  {name:26}"
        + "".join(f"{cell:>14}" for cell in cells)
        + f"{number(mean['ece']):>8}{sure:>16}{errors:>20}{number(mean['seconds'], digits=1):>10}"
    )


HEAD = (
    f"  {'':26}{'accuracy':>14}{'log-loss':>14}{'ECE':>8}{'right above .95':>16}"
    f"{'errors exp. / real':>20}{'seconds':>10}"
)


def compare(name, chosen, arguments, write):
    """Print the table of one crowd; return its rows, one per method and seed."""
    responses, truth = load(name)
    n_gold = size_of_gold(truth, arguments.gold)
    print(
        f"\n{name}: {responses.n_items:,} items, {responses.n_raters} raters, "
        f"{responses.n_classes} classes, {responses.n_responses:,} responses, truth of "
        f"{len(truth):,}"
        + (f", {n_gold} of it known, scored on the other {len(truth) - n_gold:,}" * (n_gold > 0))
    )
    if name in PUBLISHED:
        figures = dict(zip(("majority", "IBCC", "EBCC", "BWA"), PUBLISHED[name], strict=True))
        best = max(figures, key=figures.get)
        told = ", ".join(f"{who} {value:.3f}" for who, value in figures.items())
        print(f"  published accuracies: best {figures[best]:.3f} ({best}); {told}")
    print(HEAD, flush=True)
    settings = Settings(draws=arguments.draws)
    rows = []
    for title, method in chosen.items():
        found, notes = [], []
        try:
            for scores, told in runs(method, responses, truth, arguments.seeds, n_gold, settings):
                kept = {"crowd": name, "method": title, "gold": n_gold}
                found.append(kept | {"uses_gold": bool(method.gold and n_gold)} | scores)
                write(found[-1])
                if "note" in told:
                    notes.append(f"    {told['note']}")
        except LeftOut as error:
            print(f"  {title:26} left out: {error}", flush=True)
        except Exception as error:
            if not method.peer:  # an error of another package must not end hours of work
                raise
            print(f"  {title:26} failed: {type(error).__name__}: {error}", flush=True)
        if not found:
            continue
        mark = " (no gold)" if n_gold and not method.gold else ""
        print(row(title, pd.DataFrame(found)) + mark, flush=True)
        print(*notes, sep="\n", end="\n" if notes else "", flush=True)
        rows += found
    if arguments.checks:
        print(f"  checks of Dawid–Skene: {verdicts(responses, arguments)}", flush=True)
    return rows


def verdicts(responses, arguments):
    """Summarise the predictive checks of Dawid–Skene, and count raters with a single label."""
    model = DawidSkene(responses)
    result = bf.sample(model, draws=arguments.draws, random_seed=arguments.seeds[0], **QUIET)
    hard = bf.checks.item_difficulty(result, model, random_seed=1)
    shared = bf.checks.conditional_dependence(result, model, least=5, random_seed=1)
    cells = responses.n_raters, responses.n_classes
    said = np.bincount(responses.cell, minlength=cells[0] * cells[1]).reshape(cells)
    single = ((said > 0).sum(axis=1) == 1)[said.sum(axis=1) >= 10].sum()
    return (
        f"agreement varies over items by {hard.attrs['observed']:.3f}, expected "
        f"{hard.attrs['replicated']:.3f} (p = {hard.attrs['p_value']:.2f}), in the mean "
        f"{hard.attrs['mean_observed']:.3f}, expected {hard.attrs['mean_replicated']:.3f}; "
        f"{int(shared['unusual'].sum())} of {shared.sizes['pair']:,} pairs of raters share too "
        f"many mistakes; {single} raters with ten responses or more only ever give one label"
    )


def summarise(rows):
    """Print the means over crowds of every method."""
    scores = ["accuracy", "log_loss", "ece", "right_above", "expected", "real"]
    table = pd.DataFrame(rows)
    table = table[~table["crowd"].isin(LABELLING_FUNCTIONS)].reindex(
        columns=["crowd", "method", *scores]
    )
    if table.empty:
        return
    crowds = table["crowd"].nunique()
    print(f"\nMeans over {crowds} crowds (of their means over seeds):")
    print(
        f"  {'':26}{'accuracy':>10}{'log-loss':>10}{'ECE':>8}{'right above .95':>17}"
        f"{'errors within 20 %':>20}"
    )
    for title, found in table.groupby("method", sort=False):
        means = found.groupby("crowd")[scores].mean()
        mean = means.mean()
        near = "–"
        if means["expected"].notna().any():
            off = (means["expected"] - means["real"]).abs()
            near = f"{int((off <= NEAR * means['real']).sum())} of {len(means)}"
        cells = f"{number(mean['accuracy']):>10}{number(mean['log_loss']):>10}"
        sure = number(mean["right_above"])
        if 0 < (missing := means["right_above"].isna().sum()) < len(means):
            sure += f" ({len(means) - missing})"
        fewer = "" if len(means) == crowds else f"   only {len(means)} crowds"
        print(f"  {title:26}{cells}{number(mean['ece']):>8}{sure:>17}{near:>20}{fewer}")
    print(
        "  (right above .95: in brackets the crowds with any such label, where not all have one; "
        "errors: crowds where the expected ones are that near to the real ones)"
    )


def parse():
    parser = Arguments(__doc__, "the smallest crowd, some methods, few draws")
    every = CROWDS + LABELLING_FUNCTIONS
    parser.add_argument("--only", nargs="+", choices=every, metavar="CROWD", help="these crowds")
    parser.add_argument("--methods", nargs="+", help="those with any of these words in their name")
    parser.add_argument("--draws", type=int, help="kept draws of each of four chains (500)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--gold", type=int, default=0, help="labels that are known")
    parser.add_argument("--stack", action="store_true", help="average of the sampled models, too")
    parser.add_argument("--checks", action="store_true", help="predictive checks of Dawid–Skene")
    parser.add_argument("--csv", type=Path, help="file for all rows, one per method and seed")
    arguments = parser.parse_args()
    if arguments.draws is None:
        arguments.draws = 50 if arguments.quick else 500
    return arguments


def main():
    arguments = parse()
    print(f"Log-loss in nats, of probabilities clipped at {CLIP:g}.", flush=True)
    if MISSING:
        print(MISSING, flush=True)
    chosen = methods(with_stack=arguments.stack)
    if arguments.quick and not arguments.methods:
        arguments.methods = ["Gibbs", "item types", "crowd-kit Dawid", "crowd-kit MACE"]
    if arguments.methods:
        chosen = {n: m for n, m in chosen.items() if any(word in n for word in arguments.methods)}
    if not chosen:
        raise SystemExit(f"No method has a name with {arguments.methods}.")
    written = arguments.csv.open("w", newline="") if arguments.csv else None
    first = ("crowd", "method", "seed", "gold", "uses_gold", "items", "brier")
    writer = csv.DictWriter(written, [*first, *COLUMNS]) if written else None
    if writer:
        writer.writeheader()

    def write(scores):
        if writer:
            writer.writerow(scores)
            written.flush()

    rows = []
    for name in arguments.only or (SMALL if arguments.quick else CROWDS):
        if not (DATA / name).exists():
            print(f"{name}: left out, its data were not found")
            continue
        rows += compare(name, chosen, arguments, write)
    if rows:
        summarise(rows)
    if written:
        written.close()


if __name__ == "__main__":
    main()

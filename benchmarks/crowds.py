"""Nine crowds with known truth: accuracy and calibration of the labels of each model.

For every crowd the accuracy (ties shared), the log-loss (nats) and the expected calibration error
of the label probabilities, over the items with a truth and a response: majority vote (vote shares,
with one more vote spread over all classes, since a share of zero has an infinite loss), Dawid–Skene
by EM, CAVI and Gibbs, its class-conditional and one-coin variants, latent groups found by moments,
and stacking of all sampled models, weighted by leave-one-out. Also the accuracies published for
other software, and the predictive checks that Dawid–Skene fails.

The weights of the stack are printed with the largest Pareto shape k̂ of each model's leave-one-out:
above 0.7 importance sampling is unreliable for some item, and so are the weights.

    python benchmarks/crowds.py [--quick] [--only rte face] [--draws 500]
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import NoGroupsWarning
from bayesfuse.models import DawidSkene, LatentGroup

DATA = Path(__file__).resolve().parents[2] / "shared/data"
CROWDS = (
    "rte",
    "bluebird",
    "face",
    "weather_amt",
    "weather_cf",
    "barzan",
    "labelme",
    "wrench_youtube",
    "adult2",
)
SMALL = "bluebird", "barzan", "weather_cf"
PUBLISHED = {  # majority vote, IBCC, EBCC, BWA
    "weather_cf": (0.882, 0.883, 0.883, 0.893),
    "weather_amt": (0.853, 0.857, 0.857, 0.860),
    "face": (0.637, 0.640, 0.635, 0.618),
    "adult2": (0.758, 0.745, 0.748, 0.742),
    "bluebird": (0.759, 0.889, 0.861, 0.759),
    "rte": (0.897, 0.928, 0.931, 0.928),
}
QUIET = {"progressbar": False, "quiet": True}


def load(name):
    """Return responses of one crowd, and the truth of its items with a response."""
    folder = DATA / name
    classes = range(len((folder / "labels.txt").read_text().splitlines()))
    frame = pd.read_csv(folder / "responses.csv.gz")
    responses = bf.Responses.from_long(frame, classes=classes)
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    return responses, truth[truth.index.isin(responses.items)]


def majority(responses):
    """Return the shares of the votes, with one more spread over all classes."""
    votes = responses.votes() + 1 / responses.n_classes
    share = votes / votes.sum(axis=1, keepdims=True)
    coords = {"item": responses.items, "class": responses.classes}
    return xr.DataArray(share, coords, ("item", "class"))


def silence_answered(responses):
    """Return the table in which a missing response is the label that its rater never gives."""
    matrix = np.full((responses.n_items, responses.n_raters), -1)
    matrix[responses.item, responses.rater] = responses.label
    only = matrix.max(axis=0)
    matrix = np.where(matrix < 0, 1 - only, matrix)
    names = {"items": responses.items, "raters": responses.raters}
    return bf.Responses.from_matrix(matrix, classes=[0, 1], **names)


def fits(responses, draws):
    """Yield the name and the result of every fit, the sampled ones with log likelihoods."""
    yield "majority vote", majority(responses)
    yield "Dawid–Skene, EM", bf.find_map(DawidSkene(responses))
    with warnings.catch_warnings():  # that it is a poor fit, as the table shows
        warnings.simplefilter("ignore", UserWarning)
        fitted = bf.fit(DawidSkene(responses), random_seed=1, progressbar=False)
    yield "Dawid–Skene, CAVI", fitted
    settings = {"draws": draws, "random_seed": 1, "log_likelihood": True, **QUIET}
    yield "Dawid–Skene, Gibbs", bf.sample(DawidSkene(responses), **settings)
    for raters, name in (("class", "class-conditional"), ("coin", "one coin")):
        yield f"{name}, Gibbs", bf.sample(DawidSkene(responses, raters=raters), **settings)
    grouped = LatentGroup(responses)
    if grouped.groups.members:  # else it is Dawid and Skene's
        yield "latent groups, Gibbs", bf.sample(grouped, **settings)


def one_label(responses):
    """Count raters who only ever give one label."""
    cells = responses.n_raters, responses.n_classes
    said = np.bincount(responses.cell, minlength=cells[0] * cells[1]).reshape(cells)
    return int(((said > 0).sum(axis=1) == 1)[said.sum(axis=1) >= 10].sum())


def verdicts(responses, result):
    """Summarise the predictive checks of Dawid–Skene."""
    model = DawidSkene(responses)
    hard = bf.checks.item_difficulty(result, model, random_seed=1)
    shared = bf.checks.conditional_dependence(result, model, least=5, random_seed=1)
    return (
        f"agreement varies over items by {hard.attrs['observed']:.3f}, expected "
        f"{hard.attrs['replicated']:.3f} (p = {hard.attrs['p_value']:.2f}), in the mean "
        f"{hard.attrs['mean_observed']:.3f}, expected {hard.attrs['mean_replicated']:.3f}; "
        f"{int(shared['unusual'].sum())} of {shared.sizes['pair']:,} pairs of raters share too "
        "many mistakes"
    )


def compare(name, draws):
    """Print the table of one crowd; return its rows."""
    responses, truth = load(name)
    print(
        f"\n{name}: {responses.n_items:,} items, {responses.n_raters} raters, "
        f"{responses.n_classes} classes, {responses.n_responses:,} responses, truth of "
        f"{len(truth):,}"
    )
    if name in PUBLISHED:
        published = zip(("majority", "IBCC", "EBCC", "BWA"), PUBLISHED[name], strict=True)
        print("  published: " + ", ".join(f"{who} {value:.3f}" for who, value in published))
    print(f"  {'':24} accuracy  log-loss    ECE   seconds")
    rows, sampled = [], {}
    began = time.perf_counter()
    for method, result in fits(responses, draws):
        took, began = time.perf_counter() - began, time.perf_counter()
        rows.append(show(name, method, result, truth, took))
        if method.endswith("Gibbs"):
            sampled[method.removesuffix(", Gibbs")] = result
        began = time.perf_counter()
    with warnings.catch_warnings():  # ArviZ's, of Pareto shapes, which are printed
        warnings.simplefilter("ignore", UserWarning)
        both = bf.average(sampled)
    rows.append(show(name, "stack", both, truth, time.perf_counter() - began))
    found = both["comparison"].dataset
    told = [
        f"{model} {weight:.2f} (k̂ {k:.2f})"
        for model, weight, k in zip(
            found["model"].values,
            found["weight"].values,
            found["worst_pareto_k"].values,
            strict=True,
        )
    ]
    print("  weights: " + ", ".join(told))
    if "latent groups" in sampled:
        assignment = sampled["latent groups"]["constant_data"]["assignment"].values
        sizes = np.bincount(assignment[assignment >= 0])
        print(f"  groups found by moments, of raters: {sorted(sizes.tolist(), reverse=True)}")
    else:
        print("  groups found by moments: none, so the latent-group model equals Dawid–Skene")
    print(f"  checks of Dawid–Skene: {verdicts(responses, sampled['Dawid–Skene'])}")
    if alike := one_label(responses):
        print(
            f"  raters with ten responses or more who only ever give one label: {alike}. Their "
            "silence speaks, but it is not modelled, and what they say is no evidence by itself."
        )
    if alike == responses.n_raters and responses.n_classes == 2:
        print("  the same with missing responses read as the other label:")
        answered = silence_answered(responses)
        for method, model in (
            ("Dawid–Skene, Gibbs", DawidSkene(answered)),
            ("latent groups, Gibbs", LatentGroup(answered)),
        ):
            began = time.perf_counter()
            result = bf.sample(model, draws=draws, random_seed=1, **QUIET)
            show(name, method, result, truth, time.perf_counter() - began)
    return rows


def show(crowd, method, labels, truth, took):
    scores = bf.checks.label_scores(labels, truth)
    print(
        f"  {method:24} {scores['accuracy']:8.3f} {scores['log_loss']:9.3f} {scores['ece']:6.3f} "
        f"{took:9.1f}",
        flush=True,
    )
    return {"crowd": crowd, "method": method, **scores}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three crowds, few draws")
    parser.add_argument("--only", nargs="+", choices=CROWDS, help="these crowds")
    parser.add_argument("--draws", type=int, default=500, help="kept draws of each of four chains")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoGroupsWarning)  # it is printed
    names = arguments.only or (SMALL if arguments.quick else CROWDS)
    rows = []
    for name in names:
        if not (DATA / name).exists():
            print(f"{name}: left out, its data were not found")
            continue
        rows += compare(name, 100 if arguments.quick else arguments.draws)
    if not rows:
        return
    table = pd.DataFrame(rows)
    print("\nMeans over the crowds:")
    means = table.groupby("method", sort=False)[["accuracy", "log_loss", "ece"]].mean()
    print(means.round(3).to_string())


if __name__ == "__main__":
    main()

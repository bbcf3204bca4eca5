"""Variational fits against the exact posterior: means, interval widths, labels, time, coverage.

First the RTE crowd, a simulated copy of it (the same table, labels drawn at its posterior mean),
and a small table of poor raters. The exact posterior is a long Gibbs run; "Gibbs" in the table is a
run of the usual length with another seed, whose errors are Monte Carlo error. Errors of posterior
means of the prevalence and all confusion entries are in units of the exact standard deviations,
widths are ratios of standard deviations, log-loss is of the true labels, k̂ is the Pareto shape of
the importance ratios. Seconds are of the whole call, compiled beforehand (ADVI and Pathfinder
compile in every call, which takes most of their time).

Then the coverage of 90 % intervals on data sets simulated with parameters from the prior, where
those of the exact posterior cover 90 %; of ADVI, which compiles for every data set, only if it is
named.

    python benchmarks/variational.py [--quick] [--replicates 100] [--methods cavi ...]
"""

from __future__ import annotations

import logging
import time
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
from _shared import DATA, QUIET, Arguments

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene

NAMES = "prevalence", "confusion"
COVER = 0.9

METHODS = {
    "Gibbs": lambda model, seed: bf.sample(model, random_seed=seed, log_likelihood=False, **QUIET),
    "cavi": lambda model, seed: fit(model, seed),
    "cavi, 1 sweep": lambda model, seed: fit(model, seed, sweeps=1),
    "cavi, 3 sweeps": lambda model, seed: fit(model, seed, sweeps=3),
    "cavi, 20 sweeps": lambda model, seed: fit(model, seed, sweeps=20),
    "cavi, batches": lambda model, seed: fit(model, seed, batch_size=100),
    "advi": lambda model, seed: fit(model, seed, method="advi"),
    "fullrank_advi": lambda model, seed: fit(model, seed, method="fullrank_advi"),
    "pathfinder": lambda model, seed: fit(model, seed, method="pathfinder"),
}


def fit(model, seed, **kwargs):
    return bf.fit(model, random_seed=seed, progressbar=False, log_likelihood=False, **kwargs)


def tables(real):
    """Yield the name, the responses and the true labels (items,) of every table."""
    path = DATA / "rte"
    if real and path.exists():
        responses = bf.Responses.from_long(pd.read_csv(path / "responses.csv.gz"))
        truth = pd.read_csv(path / "truth.csv.gz").set_index("item")["label"]
        codes = pd.Index(responses.classes).get_indexer(truth.loc[responses.items])
        yield "RTE", responses, codes
        model = DawidSkene(responses)
        rows = make_plan(model).observation.rows(
            {
                name: fit(model, 1)["posterior"][name].mean(("chain", "draw")).values
                for name in NAMES
            }
        )
        rng = np.random.default_rng(1)
        truth, label = make_plan(model).observation.simulate(rows, rng)
        yield "RTE, simulated", responses.relabelled(label), truth
    elif real:
        print("RTE and its simulated copy: left out, the data were not found")
    made = bf.datasets.simulate_dawid_skene(
        200, 5, 2, per_item=4, accuracy=(0.6, 0.85), random_seed=1
    )
    yield "poor raters", made.responses, made.truth


def flat(result):
    values = [result["posterior"][name].values for name in NAMES]
    return np.concatenate([v.reshape(v.shape[0] * v.shape[1], -1) for v in values], axis=1)


def log_loss(result, truth):
    probability = bf.label_probabilities(result).values[np.arange(len(truth)), truth]
    return float(-np.log(np.maximum(probability, 1e-12)).mean())


def compare(responses, truth, methods, draws):
    model = DawidSkene(responses)
    exact = bf.sample(model, draws, random_seed=0, log_likelihood=False, **QUIET)
    draws_exact = flat(exact)
    mean, spread = draws_exact.mean(axis=0), draws_exact.std(axis=0)
    print(f"{'exact':<17}{'':>8}{'':>8}{'':>8}{'':>8}{'':>8}{log_loss(exact, truth):10.4f}")
    for name in methods:
        METHODS[name](model, 1)  # compiles
        begun = time.perf_counter()
        result = METHODS[name](model, 2)
        seconds = time.perf_counter() - begun
        found = flat(result)
        error = np.abs(found.mean(axis=0) - mean) / spread
        width = found.std(axis=0) / spread
        shape = result.attrs.get("pareto_k", np.nan)
        print(
            f"{name:<17}{seconds:8.2f}{error.mean():8.3f}{error.max():8.2f}"
            f"{np.median(width):8.3f}{width.min():8.2f}{log_loss(result, truth):10.4f}{shape:7.2f}"
        )


def coverage(methods, replicates, n_items, n_raters, per_item):
    """Print the share of 90 % intervals that cover, and their width relative to Gibbs."""
    base = bf.datasets.simulate_dawid_skene(
        n_items, n_raters, 2, per_item=per_item, random_seed=0
    ).responses
    template = DawidSkene(base)
    tails = (1 - COVER) / 2, (1 + COVER) / 2
    covered = {name: [] for name in methods}
    width = {name: [] for name in methods}
    loss = {name: [] for name in methods}
    for stream in np.random.default_rng(1).spawn(replicates):
        parameters, truth, responses = bf.testing.simulate(template, stream)
        true = np.concatenate([parameters[name].ravel() for name in NAMES])
        model = DawidSkene(responses)
        for name in methods:
            result = METHODS[name](model, stream)
            low, high = np.quantile(flat(result), tails, axis=0)
            covered[name].append((low < true) & (true < high))
            width[name].append(high - low)
            loss[name].append(log_loss(result, truth))
    print(f"\n{n_items} items × {per_item} of {n_raters} raters, {replicates} data sets")
    print(f"{'':<17}{'covered':>9}{'±':>7}{'prevalence':>12}{'width':>8}{'log-loss':>10}")
    for name in methods:
        shares = np.array(covered[name])
        error = shares.mean(axis=1).std() / np.sqrt(replicates)
        ratio = np.median(np.array(width[name]) / np.array(width[methods[0]]))
        print(
            f"{name:<17}{shares.mean():9.3f}{error:7.3f}{shares[:, 0].mean():12.3f}{ratio:8.3f}"
            f"{np.mean(loss[name]):10.4f}"
        )


def main():
    parser = Arguments(__doc__, "one table, CAVI only, few replicates")
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", bf.errors.PoorFitWarning)  # the tables say it
    logging.getLogger("pymc").setLevel(logging.ERROR)
    methods = given.methods or list(METHODS)
    if not given.methods and find_spec("pymc_extras") is None:
        methods.remove("pathfinder")
        print("pathfinder: left out, pymc-extras is not installed")
    if given.quick:
        methods = ["cavi"]
    for title, responses, truth in tables(real=not given.quick):
        print(f"\n{title}: {responses.n_items} items, {responses.n_responses} responses")
        print(
            f"{'':<17}{'seconds':>8}{'error':>8}{'worst':>8}{'width':>8}{'least':>8}{'log-loss':>10}"
            f"{'k̂':>7}"
        )
        compare(responses, truth, methods, 200 if given.quick else 10_000)
    replicates = 2 if given.quick else given.replicates
    left_out = {"cavi, batches", "pathfinder"}
    if not given.methods:
        left_out |= {"advi", "fullrank_advi"}
    methods = [name for name in methods if name not in left_out]
    if methods[0] != "Gibbs":
        methods.insert(0, "Gibbs")
    for sizes in [(100, 5, 3)] if given.quick else [(300, 10, 5), (100, 5, 3)]:
        coverage(methods, replicates, *sizes)


if __name__ == "__main__":
    main()

"""The latent-group model on simulations and data of Jaffe et al. (2016), Parisi et al. (2014).

Four tables: the paper's twenty raters with one group of 1 to 10; a cartel of 33 raters among 100;
sixteen classifiers of four families on MAGIC; and the cost of sweeps in time and memory.

    python benchmarks/latent_groups.py [paper cartel families speed] [--quick] [--repeats 20]
"""

import time
import warnings

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments
from jaffe2016 import em_from_sml, oracle_latent, simulate
from magic import balanced_accuracy, load, majority
from magic_families import FAMILY, NAMES, train
from scaling import peak

import bayesfuse as bf
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene, LatentGroup
from bayesfuse.moments import latent_sml, sml

RNG = np.random.default_rng(1)
FIT = QUIET | {"log_likelihood": False, "compute_convergence_checks": False}


def fit(model, draws, seed):
    return bf.sample(model, draws, tune=draws // 2, chains=1, random_seed=seed, **FIT)


def labels(result):
    return bf.label_probabilities(result).values[:, 1] > 0.5


def labels_at_even_odds(result):
    """Label by maximum likelihood, which suits balanced accuracy: it weighs classes equally."""
    prevalence = result["posterior"]["prevalence"].values[0, :, 1].mean()
    return bf.label_probabilities(result).values[:, 1] > prevalence


def covered(result, accuracy):
    """Share of the sensitivities and specificities inside their 90 % intervals."""
    draws = [result["posterior"][name].values[0] for name in ("sensitivity", "specificity")]
    low, high = np.quantile(np.stack(draws), [0.05, 0.95], axis=1)
    return np.mean((low < accuracy) & (accuracy < high))


def most_probable(result):
    seats = result["posterior"]["assignment"].values.reshape(-1, result["posterior"].sizes["rater"])
    different, times = np.unique(seats, axis=0, return_counts=True)
    return different[np.argmax(times)]


EVEN = 1e5
"""Concentration of a prevalence that is known to be one half, as L-SML takes it and oracles do."""


def paper(sizes, repeats, items, draws, first=0):
    print(f"\nOne group among 20 raters, {items} items, {repeats} repeats from seed {first}")
    print("label accuracy, %; partition: share of runs in which it is found; 90 % coverage, %")
    print("(even: prevalence fixed at one half, which L-SML and the oracle assume)")
    columns = [
        "L-SML",
        "moments",
        "posterior",
        "even",
        "D-S",
        "oracle",
        "found by moments",
        "most probable",
    ]
    columns += ["coverage", "of D-S"]
    print(f"{'size':>5}" + "".join(f"{name:>17}" for name in columns))
    for size in sizes:
        rows = []
        for seed in range(first, first + repeats):
            truth, group, said, outer, inner = simulate(np.random.default_rng(seed), items, size)
            responses = bf.Responses.from_matrix(said.astype(int), classes=[0, 1])
            accuracy = outer[:, group] * inner + (1 - outer[:, group]) * (1 - inner[::-1])
            right = np.where(np.arange(20) < size, 0, -1) if size > 1 else np.full(20, -1)
            known = LatentGroup(responses)
            inferred = fit(LatentGroup(responses, "posterior"), draws, seed)
            even = fit(LatentGroup(responses, "posterior", prevalence_prior=EVEN), draws, seed)
            moments = fit(known, draws, seed)
            independent = fit(DawidSkene(responses), draws, seed)
            found = {
                "L-SML": latent_sml(responses).score.values > 0,
                "moments": labels(moments),
                "posterior": labels(inferred),
                "even": labels(even),
                "D-S": labels(independent),
                "oracle": oracle_latent(said, group, outer, inner),
            }
            rows.append(
                [100 * np.mean(each == truth) for each in found.values()]
                + [
                    float((known.groups.assignment == right).all()),
                    float((most_probable(inferred) == right).all()),
                    100 * covered(inferred, accuracy),
                    100 * covered(independent, accuracy),
                ]
            )
        mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(repeats)
        print(f"{size:>5}" + "".join(f"{value:>17.2f}" for value in mean))
        print("    ±" + "".join(f"{value:>17.2f}" for value in error))
        lead = np.array(rows)[:, 1:4] - np.array(rows)[:, :1]
        shown = (
            f"{name} {m:.2f} ± {e:.2f}"
            for name, m, e in zip(
                columns[1:4], lead.mean(axis=0), lead.std(axis=0) / np.sqrt(repeats), strict=True
            )
        )
        print("      over L-SML: " + ", ".join(shown), flush=True)


def cartel(repeats, draws, first=0, raters=100, items=600, share=0.33):
    print(f"\nA cartel of {share:.0%} of {raters} raters, {items} items, {repeats} repeats")
    found = []
    for seed in range(first, first + repeats):
        rng = np.random.default_rng(seed)
        truth = rng.permutation(np.arange(items) < items // 2)
        target = rng.permutation(np.arange(items) < items // 2)
        members = np.arange(raters) < int(share * raters)
        balanced = np.where(members, 0.7, rng.uniform(0.3, 0.8, raters))
        tilt = rng.uniform(-1, 1, raters) * np.minimum(balanced, 1 - balanced)
        source = np.where(members, target[:, None], truth[:, None])
        right = rng.random(source.shape) < np.where(source, balanced + tilt, balanced - tilt)
        responses = bf.Responses.from_matrix((source == right).astype(int), classes=[0, 1])
        model = LatentGroup(responses, "posterior")
        result = fit(model, draws, seed)
        table = bf.checks.group_summary(result, least=0.0)
        whole = [set(each) == set(np.flatnonzero(members)) for each in table["raters"]]
        caught = [len(set(each) & set(np.flatnonzero(members))) for each in table["raters"]]
        largest = int(np.argmax(caught)) if len(caught) else None
        found.append(
            {
                "majority": np.mean((majority(responses.label.reshape(items, -1)) == 1) == truth),
                "SML": np.mean((sml(responses).score.values > 0) == truth),
                "EM from SML": np.mean(em_from_sml(responses)[0] == truth),
                "Dawid–Skene": np.mean(labels(fit(DawidSkene(responses), draws, seed)) == truth),
                "groups, moments": np.mean(
                    labels(fit(LatentGroup(responses), draws, seed)) == truth
                ),
                "groups, posterior": np.mean(labels(result) == truth),
                "probability that just they are a group": table["probability"][whole].sum(),
                "members in one group": caught[largest] if caught else 0,
                "its informedness": table["informedness"][largest] if caught else np.nan,
            }
        )
    frame = pd.DataFrame(found)
    print(frame.describe().loc[["mean", "std", "min"]].T.round(3).to_string(), flush=True)


def families(repeats, draws, first=0):
    print(f"\nMAGIC, sixteen classifiers of four families, {repeats} repeats: balanced accuracy, %")
    features, truth = load()
    rng, found = np.random.default_rng(1 + first), []
    for seed in range(repeats):
        said, left = train("linear", features, truth, rng)
        responses = bf.Responses.from_matrix(said, raters=NAMES, classes=[0, 1])
        given = LatentGroup(responses, dict(zip(NAMES, FAMILY.tolist(), strict=True)))
        fits = {
            "Dawid–Skene": fit(DawidSkene(responses), draws, seed),
            "groups, moments": fit(LatentGroup(responses), draws, seed),
            "groups, families": fit(given, draws, seed),
            "groups, posterior": fit(LatentGroup(responses, "posterior"), draws, seed),
        }
        label = {
            "majority": majority(said) == 1,
            "SML": sml(responses).score.values > 0,
            "L-SML": latent_sml(responses).score.values > 0,
        }
        for name, result in fits.items():
            label[name] = labels(result)
            label[f"{name}, even odds"] = labels_at_even_odds(result)
        found.append({k: 100 * balanced_accuracy(v.astype(int), left) for k, v in label.items()})
        print(most_probable(fits["groups, posterior"]), flush=True)
    frame = pd.DataFrame(found)
    table = pd.DataFrame({"mean": frame.mean(), "over SML": frame.mean() - frame["SML"].mean()})
    print(table.round(2).to_string(), flush=True)


SIZES = (20, 10_000, 5), (100, 10_000, 3), (100, 10_000, 33), (100, 100_000, 10)


def speed(sizes):
    if sizes is SIZES:
        large()  # first, because memory is that of all the process has done
    print("\nMilliseconds per sweep, and relative to Dawid–Skene on the same responses")
    for raters, items, size in sizes:
        responses = two_sources(raters, items, size)
        models = (
            DawidSkene(responses),
            LatentGroup(responses, [list(range(size))]),
            LatentGroup(responses, [list(range(i, i + 2)) for i in range(0, raters, 2)]),
            LatentGroup(responses, "posterior"),
        )
        chains = [begin(model) for model in models]
        times = np.array([[cost(*chain) for chain in chains] for _ in range(5)])
        relative = np.median(times / times[:, :1], axis=0)
        times = np.median(times, axis=0)
        names = "Dawid–Skene", f"a group of {size}", "pairs", "inferred"
        shown = [f"{n} {t:.2f} ({r:.1f}×)" for n, t, r in zip(names, times, relative, strict=True)]
        print(f"{raters} raters × {items} items: " + ", ".join(shown), flush=True)


def large(raters=100, items=100_000, size=10, sweeps=1000):
    responses = two_sources(raters, items, size)
    before = peak()
    seconds = cost(*begin(LatentGroup(responses, "posterior")), sweeps) * sweeps / 1e3
    print(
        f"\n{sweeps} sweeps, {raters} raters × {items} items, groups inferred: {seconds:.0f} s of "
        f"one core, peak of memory {peak() / 1e6:.0f} MB ({before / 1e6:.0f} before the model)",
        flush=True,
    )


def two_sources(raters, items, size):
    """Simulate raters who are right three times in four, some of whom share a source."""
    rng = np.random.default_rng(1)
    source = rng.random((items, 1)) < 0.5
    truth = rng.random((items, 1)) < 0.5
    heard = np.where(np.arange(raters) < size, source, truth)
    said = (heard == (rng.random(heard.shape) < 0.75)).astype(int)
    return bf.Responses.from_matrix(said, classes=[0, 1])


def begin(model):
    """Return a sweep, and the state after some of them."""
    plan = make_plan(model)
    start = plan.observation.known(plan.indices())
    rows = find_start(start, plan.continuous_priors()).rows | plan.indices()
    sweep = Sweep.of(plan)
    state = sweep.init(rows)
    for _ in range(10):
        state = step(sweep, state, RNG)
    return sweep, state


def cost(sweep, state, sweeps=20):
    """Return the CPU milliseconds of a sweep."""
    begun = time.process_time()
    for _ in range(sweeps):
        state = step(sweep, state, RNG)
    return 1e3 * (time.process_time() - begun) / sweeps


def main():
    parser = Arguments(__doc__, "one repeat of few items, few draws")
    parser.add_argument("tables", nargs="*", default=["paper", "cartel", "speed", "families"])
    parser.add_argument("--sizes", type=int, nargs="*", default=range(1, 11))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first repeat")
    options = parser.parse_args()
    warnings.simplefilter("ignore", bf.errors.NoGroupsWarning)  # they are in the table
    items, repeats, draws = 10_000, options.repeats, options.draws
    people, sizes = {}, SIZES
    if options.quick:
        items, repeats, draws, options.sizes = 1000, 1, 20, [4]
        people, sizes = {"raters": 20, "items": 200}, [(20, 1000, 5)]
    for name in options.tables:
        {
            "paper": lambda: paper(options.sizes, repeats, items, draws, options.first),
            "cartel": lambda: cartel(repeats, draws, options.first, **people),
            "families": lambda: families(repeats, draws, options.first),
            "speed": lambda: speed(sizes),
        }[name]()


if __name__ == "__main__":
    main()

"""Coverage of what follows from a fit: errors of labels, also of new items, accuracies of rules.

First, parameters and responses to 60 items are drawn from the prior of a model, which is fitted to
half of the items and predicts the others. Numbers of wrong labels: expected by
``bf.decisions.expected_errors`` and real, means over data sets; their difference in standard errors
("z"); and how often the real number is in the 90 % interval, from joint draws of the labels, and
with items as independent (which "new" items always are). Numbers are whole, so intervals of few
errors cover more than 90 %.

Then the 90 % intervals of the accuracies of labelling functions that are as modelled, chains on
simulated tables (the largest R-hat, and how many chains have classes in another order), and 89 %
intervals of the accuracies of one to three raters by ``bf.fuse``.

    python benchmarks/interval_coverage.py [--quick] [--sets 60] [--write]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from _shared import QUIET, Arguments
from calibration import DIAGONAL, SHARED, sparse

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LabellingFunctions, LatentGroup
from bayesfuse.parameters.compiled import without_compilation

N_ITEMS, LENGTH = 60, 10
ALL, FITTED, NEW = np.arange(N_ITEMS), np.arange(N_ITEMS // 2), np.arange(N_ITEMS // 2, N_ITEMS)
CI = 0.9
FIT = QUIET | {"chains": 2, "log_likelihood": False, "compute_convergence_checks": False}


def sequences(own: np.ndarray) -> bf.Sequences:
    return bf.Sequences.from_lengths([LENGTH] * (len(own) // LENGTH), items=own.tolist())


BINARY = {"confusion_prior": [[8.0, 2.0], [2.0, 10.0]]}
"""A prior by which raters are better than chance, so that the responses identify the classes."""

Build = Callable[[bf.Responses, np.ndarray], pm.Model]
MODELS: dict[str, tuple[int, Build, Callable[[np.ndarray], dict[str, Any]]]] = {
    "Dawid–Skene": (2, lambda r, own: DawidSkene(r, **BINARY), lambda own: {}),
    "by default": (2, lambda r, own: DawidSkene(r), lambda own: {}),
    "three classes": (3, lambda r, own: DawidSkene(r, confusion_prior=DIAGONAL), lambda own: {}),
    "pooled": (
        2,
        lambda r, own: DawidSkene(r, pooled=True, confusion_prior=SHARED["confusion"]),
        lambda own: {},
    ),
    "one coin, pooled": (
        2,
        lambda r, own: DawidSkene(r, raters="coin", pooled=True, confusion_prior=SHARED["coin"]),
        lambda own: {},
    ),
    "graded": (3, lambda r, own: DawidSkene(r, raters="graded"), lambda own: {}),
    "item types": (2, lambda r, own: ItemTypes(r), lambda own: {}),
    "known groups": (
        2,
        lambda r, own: LatentGroup(r, [[0, 1, 2]], **BINARY, group_prior=BINARY["confusion_prior"]),
        lambda own: {},
    ),
    "hidden Markov": (
        2,
        lambda r, own: HiddenMarkov(r, sequences(own), **BINARY),
        lambda own: {"sequences": sequences(own)},
    ),
    **{
        name: (
            2,
            lambda r, own, name=name, values=values: DawidSkene(r, **BINARY, **{name: values[own]}),
            lambda own, name=name, values=values: {name: values[own]},
        )
        for name, values in {
            "populations": ALL % 3,
            "covariates": np.tile([-1.5, -0.5, 0.5, 1.5], 15)[:, None],  # the same in both halves
            "classifier": np.tile(np.random.default_rng(5).dirichlet([1.0, 1.0], 30), (2, 1)),
        }.items()
    },
}
"""Number of classes, the model of some items, and what predictions are told of others."""


def errors(labels, model, truth, seed):
    """Return expected and real number of wrong labels, and whether the interval covers it."""
    found = bf.decisions.expected_errors(labels, model, ci_prob=CI, random_seed=seed)
    real = (bf.label_probabilities(labels).values.argmax(axis=1) != truth).sum()
    return [float(found["expected"]), real, float(found["low"]) <= real <= float(found["high"])]


SLOW = "covariates", "classifier"
"""Models of which NUTS moves a part; gradients are in Python, as every data set has its own."""


def one_set(name, stream, design, draws):
    """Return expected, real and covered: of fitted items jointly and apart, and of new ones."""
    _, build, told = MODELS[name]
    _, truth, table = bf.testing.simulate(build(design, ALL), stream)
    model = build(table.take(FITTED), FITTED)
    settings = {"tune": 100} if name in SLOW else {}
    with without_compilation():
        result = bf.sample(model, draws, random_seed=stream, **settings, **FIT)
    new = bf.predict(result, table.take(NEW), model=model, **told(NEW))
    return [
        errors(result, model, truth[FITTED], stream),
        errors(result, None, truth[FITTED], stream),
        errors(new, None, truth[NEW], stream),
    ]


def numbers_of_errors(names, sets, draws):
    print("Wrong labels of 30, and coverage of 90 % intervals")
    print(
        f"{'':<18}{'sets':>4}{'expected':>10}{'real':>7}{'z':>6}{'joint':>8}{'apart':>8}"
        f"{'new: expected':>15}{'real':>7}{'z':>6}{'apart':>8}"
    )
    for name in names:
        design = sparse(N_ITEMS, 5, MODELS[name][0])
        size = max(sets // 3, 3) if name in SLOW else sets
        settings = design, draws // 3 if name in SLOW else draws
        streams = np.random.default_rng(3).spawn(size)
        found = np.array([one_set(name, stream, *settings) for stream in streams])
        mean, gap = found.mean(axis=0), found[:, :, 1] - found[:, :, 0]
        z = gap.mean(axis=0) / (gap.std(axis=0, ddof=1) / np.sqrt(size))
        (expected, real, joint), (_, _, apart), (other, real_other, apart_other) = mean
        print(
            f"{name:<18}{size:>4}{expected:>10.2f}{real:>7.2f}{z[0]:>6.1f}{joint:>8.2f}{apart:>8.2f}"
            f"{other:>15.2f}{real_other:>7.2f}{z[2]:>6.1f}{apart_other:>8.2f}"
        )


def votes(rng, n_items=1500, n_rules=36):
    """Draw votes as LabellingFunctions has them, from so many rules that repeats are rare."""
    prevalence, rule = np.array([0.3, 0.3, 0.4]), np.arange(n_rules)
    base, lift = rng.dirichlet(np.full(n_rules, 8.0)), rng.lognormal(np.log(8), 0.5, n_rules)
    share = base * np.where(np.arange(3)[:, None] == rule % 3, lift, 1.0)
    share /= share.sum(axis=1, keepdims=True)
    matrix = np.full((n_items, n_rules), -1)
    for row, k in zip(matrix, rng.choice(3, n_items, p=prevalence), strict=True):
        fires = rng.choice(n_rules, rng.integers(5), p=share[k], replace=False)
        row[fires] = fires % 3
    joint = prevalence[:, None] * share
    right = joint[rule % 3, rule] / joint.sum(axis=0)
    return bf.Responses.from_matrix(matrix, classes=range(3)), right


def accuracies_of_rules(sets, draws):
    covered = []
    for seed in range(sets):
        responses, right = votes(np.random.default_rng(seed))
        model = LabellingFunctions(responses)
        result = bf.sample(model, draws, random_seed=seed, **FIT)
        table = bf.rater_table(result, ci_prob=CI).sort_values("rater")
        inside = (table["low"] <= right) & (right <= table["high"])
        covered.append(float(inside.mean()))
    print(
        f"\n{sets} tables of 36 rules: {100 * CI:.0f} % intervals of accuracies cover "
        f"{np.mean(covered):.3f} ± {np.std(covered, ddof=1) / np.sqrt(sets):.3f}"
    )


def chains(sets, draws):
    worst, switched = [], 0
    for seed in range(sets):
        made = bf.datasets.simulate_dawid_skene(
            400, 6, 2 + seed % 4, accuracy=(0.55, 0.9), random_seed=seed
        )
        settings = QUIET | {"log_likelihood": False, "random_seed": seed}
        result = bf.sample(DawidSkene(made.responses), draws, **settings)
        posterior = result["posterior"].dataset[["prevalence", "confusion"]]
        rhat = az.rhat(posterior)
        worst.append(max(float(rhat[name].max()) for name in rhat.data_vars))
        rows = posterior["confusion"].mean(("draw", "rater")).values  # (chain, class, answer)
        switched += int((rows.argmax(axis=1) != np.arange(rows.shape[-1])).any(axis=1).sum())
    print(
        f"{sets} tables of 400 items, 6 raters and 2 to 5 classes, 4 chains × {draws} draws: "
        f"largest R-hat {max(worst):.3f}, {switched} of {4 * sets} chains with classes switched"
    )


def few_raters(sets: int, minutes: float) -> None:
    """Print how often 89 % intervals of one to three raters by bf.fuse hold their accuracies."""
    print("\nAccuracies of one to three raters by bf.fuse: coverage of 89 % intervals, mean width,")
    print("mean error; errors independent, or three items in ten hard (all raters guess)")
    print(f"{'raters':<8}{'hard':>6}{'tables':>8}{'coverage':>10}{'width':>8}{'error':>8}")
    for n_raters in (1, 2, 3):
        for hard in (0.0, 0.3):
            rows = [row for seed in range(sets) for row in _few(n_raters, hard, seed, minutes)]
            inside, width, error = np.mean(np.array(rows, dtype=float).reshape(-1, 3), axis=0)
            words = f"{n_raters:<8}{hard:>6}{len(rows) // n_raters:>8}"
            print(f"{words}{inside:>10.2f}{width:>8.2f}{error:>8.3f}", flush=True)


def _few(n_raters: int, hard: float, seed: int, minutes: float) -> list[tuple[bool, float, float]]:
    """Return coverage, width and error for every rater; nothing where all labels are alike."""
    rng = np.random.default_rng(1000 * n_raters + seed)
    n_items = int(rng.integers(100, 301))
    truth = rng.choice(2, n_items, p=rng.dirichlet([2.0, 2.0]))
    accuracy = np.tile(rng.uniform(0.55, 0.95, n_raters), (n_items, 1))
    if hard:
        accuracy[rng.random(n_items) < hard] = 0.5
    is_right = rng.random((n_items, n_raters)) < accuracy
    answers = np.where(is_right, truth[:, None], 1 - truth[:, None])
    responses = bf.Responses.from_matrix(answers, classes=[0, 1])
    fused = bf.fuse(responses, minutes=minutes, checks=False, random_seed=seed, progressbar=False)
    if len(fused.attrs["models"]) < 2:
        return []
    table = fused.raters(ci_prob=0.89).set_index("rater").sort_index()
    real = is_right.mean(axis=0)
    inside = (table["low"] - 1e-9 <= real) & (real <= table["high"] + 1e-9)
    return list(zip(inside, table["high"] - table["low"], table["accuracy"] - real, strict=True))


def main() -> None:
    parser = Arguments(__doc__, "two models, few data sets")
    parser.add_argument("--sets", type=int, default=60, help="data sets per row")
    options = parser.parse_args()
    if options.quick:
        numbers_of_errors(["Dawid–Skene", "populations"], 3, 50)
        accuracies_of_rules(2, 20)
        chains(2, 50)
        few_raters(1, 0.2)
    else:
        numbers_of_errors(MODELS, options.sets, 300)
        accuracies_of_rules(options.sets // 3, 300)
        chains(options.sets // 2, 1000)
        few_raters(options.sets // 3, 3.0)


if __name__ == "__main__":
    main()

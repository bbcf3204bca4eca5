"""Shares of groups: coverage of the 90 % intervals of ``bf.class_shares``, and their widths.

First, simulated tables of two groups, of which the model knows by populations, covariates, a
classifier, the order of the items or a graph, or of which it knows nothing. In half of the tables
the shares of the groups are equal. Then prediction-powered inference by itself, and with the real
fit, where few known labels are of one class.

    python benchmarks/group_shares.py [--quick] [--sets 120] [--write]

Models of which NUTS moves a part are compiled for every table, so have fewer tables, and come last.
"""

from __future__ import annotations

import warnings

import numpy as np
from _shared import QUIET, Arguments
from scipy.stats import beta

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField, WeightedVotes
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.results.group_shares import by_differences

N_ITEMS, N_RATERS, LENGTH, SIDE = 120, 5, 15, 12
GROUP = np.repeat([0, 1], N_ITEMS // 2)
FIT = QUIET | {"chains": 2, "log_likelihood": False, "compute_convergence_checks": False}


def independent(shares, rng):
    return (rng.random(N_ITEMS) < shares[GROUP]).astype(int)


def in_sequence(shares, rng):
    """Draw chains of which a label stays with probability .7, else is drawn anew."""
    fresh, stays = independent(shares, rng), rng.random(N_ITEMS) < 0.7
    stays[::LENGTH] = False
    return fresh[np.maximum.accumulate(np.where(stays, -1, np.arange(N_ITEMS)))]


def on_grid(shares, rng):
    """Draw labels of a field on a grid, whose halves lean to a class each if shares differ."""
    shape, coupling = (N_ITEMS // SIDE, SIDE), 0.7 * abs(rng.standard_normal())
    lean = np.log(shares / (1 - shares)) - np.log(shares / (1 - shares)).mean()
    lean = lean[GROUP].reshape(shape)
    labels, black = rng.integers(2, size=shape), np.indices(shape).sum(axis=0) % 2
    for sweep in range(200):
        signs = np.pad(2.0 * labels - 1.0, 1)
        near = signs[:-2, 1:-1] + signs[2:, 1:-1] + signs[1:-1, :-2] + signs[1:-1, 2:]
        probability = 1.0 / (1.0 + np.exp(-(lean + coupling * near)))
        drawn = rng.random(shape) < probability
        labels = np.where(black == sweep % 2, drawn, labels)
    return labels.ravel().astype(int)


def neighbours():
    place = np.arange(N_ITEMS).reshape(-1, SIDE)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    return np.concatenate([down, np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)])


def classifier(y, rng):
    """Return probabilities of a classifier of the items that is right on three in four."""
    logit = 2.0 * y - 1.0 + rng.normal(0, 1.4, len(y))
    p = 1.0 / (1.0 + np.exp(-logit))
    return np.column_stack([1 - p, p])


TYPES = {"confusion_prior": [[4.0, 1.5], [1.5, 4.0]]}
SEQUENCES = bf.Sequences.from_lengths([LENGTH] * (N_ITEMS // LENGTH))
ROWS = {
    "nothing": (independent, lambda r, y, rng: DawidSkene(r, **TYPES)),
    "populations": (independent, lambda r, y, rng: DawidSkene(r, populations=GROUP, **TYPES)),
    "finer populations": (
        independent,
        lambda r, y, rng: DawidSkene(r, populations=np.arange(N_ITEMS) // 30, **TYPES),
    ),
    "other populations": (
        independent,
        lambda r, y, rng: DawidSkene(r, populations=np.arange(N_ITEMS) % 2, **TYPES),
    ),
    "covariates": (
        independent,
        lambda r, y, rng: DawidSkene(r, covariates=GROUP[:, None], **TYPES),
    ),
    "noisy covariates": (
        independent,
        lambda r, y, rng: DawidSkene(
            r, covariates=(GROUP + rng.normal(0, 0.5, N_ITEMS))[:, None], **TYPES
        ),
    ),
    "classifier": (
        independent,
        lambda r, y, rng: DawidSkene(r, classifier=classifier(y, rng), **TYPES),
    ),
    "chain": (in_sequence, lambda r, y, rng: HiddenMarkov(r, SEQUENCES, **TYPES)),
    "graph": (
        on_grid,
        lambda r, y, rng: MarkovRandomField(r, bf.Graph.from_edges(neighbours()), **TYPES),
    ),
}
SLOW = "covariates", "noisy covariates", "classifier"
"""Models of which NUTS moves a part: one chain; gradients are in Python, as tables differ."""


def respond(y, rng):
    """Return responses of raters whose rows are drawn from the prior of the models."""
    right = rng.beta(4.0, 1.5, (2, N_RATERS))
    correct = rng.random((len(y), N_RATERS)) < right[y]
    return bf.Responses.from_matrix(np.where(correct, y[:, None], 1 - y[:, None]), classes=[0, 1])


def one_table(name, differ, seed, draws):
    """Return whether intervals hold the two shares, the contrast, and all; and their widths."""
    rng = np.random.default_rng(seed)
    draw, build = ROWS[name]
    shares = rng.uniform(0.1, 0.9, 2) if differ else np.repeat(rng.uniform(0.1, 0.9), 2)
    y = draw(shares, rng)
    responses = respond(y, rng)
    with without_compilation(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(responses, y, rng)
        settings = FIT | {"chains": 1, "tune": 200} if name in SLOW else FIT | {"tune": 60}
        result = bf.sample(model, draws, random_seed=seed, **settings)
    found = bf.class_shares(result, GROUP, ci_prob=0.9, random_seed=seed)
    table = found.shares[found.shares["class"] == 1]
    real = np.array([y.mean(), y[GROUP == 0].mean(), y[GROUP == 1].mean()])
    inside = (table["low"] <= real + 1e-9) & (real - 1e-9 <= table["high"])
    row = found.contrasts[found.contrasts["class"] == 1].iloc[0]
    holds = row["low"] - 1e-9 <= real[1] - real[2] <= row["high"] + 1e-9
    new = (table["new_low"] <= [shares.mean(), *shares]) & (
        [shares.mean(), *shares] <= table["new_high"]
    )
    if name == "graph":  # its labels have no such shares
        new = np.full(3, np.nan)
    labels = bf.label_probabilities(result).values[:, 1]
    bare = np.array([labels.mean(), labels[GROUP == 0].mean(), labels[GROUP == 1].mean()])
    error = np.abs(table["share"] - real)[1:].mean(), np.abs(bare - real)[1:].mean()
    width = (table["high"] - table["low"])[1:].mean()
    return [*inside, holds, new[1:].mean(), width, row["high"] - row["low"], *error]


def coverage(names, sets, draws):
    if not names:
        return
    print("\nCoverage of 90 % intervals; errors: mean absolute error of shares, and of mean")
    print("label probabilities. Shares of the two groups, equal in half of the tables.")
    print(
        f"{'model knows':<20}{'tables':>6}  {'all':>4} {'group':>6} {'differ':>6}{'equal':>6}"
        f" {'contrast':>8} {'differ':>6}{'equal':>6} {'new':>5} {'width':>6} {'error':>6}"
        f"{'bare':>6}"
    )
    for name in names:
        size = max(3 * sets // 10, 3) if name in SLOW else sets
        found = np.array(
            [one_table(name, seed % 2 == 0, seed, draws) for seed in range(size)], dtype=float
        )
        groups = found[:, 1:3].mean(axis=1)
        print(
            f"{name:<20}{size:>6} {found[:, 0].mean():>5.2f} {groups.mean():>6.3f} "
            f"{groups[::2].mean():>6.2f}{groups[1::2].mean():>6.2f} {found[:, 3].mean():>8.3f} "
            f"{found[::2, 3].mean():>6.2f}{found[1::2, 3].mean():>6.2f} {found[:, 4].mean():>5.2f} "
            f"{found[:, 5].mean():>6.3f} {found[:, 7].mean():>6.3f}{found[:, 8].mean():>6.3f}",
            flush=True,
        )


def predictions(kind, y, share, rng):
    """Return predictions of labels: good, fair, useless, blind to half, or calling too many."""
    noise = rng.standard_normal(y.shape)
    if kind == "useless":
        return np.clip(share + 0.05 * noise, 0.001, 0.999)
    if kind == "misses half":
        return np.where((y == 1) & (rng.random(y.shape) < 0.5), 0.97, 0.01)
    if kind == "calls more":
        return np.where((y == 1) | (rng.random(y.shape) < 0.15), 0.95, 0.02)
    far, spread = (4.5, 3.0) if kind == "good" else (1.0, 1.4)
    logit = np.log(share / (1 - share)) + far * (2 * y - 1) + spread * noise
    return 1.0 / (1.0 + np.exp(-logit))


SHARES = 0.02, 0.05, 0.1, 0.2, 0.5
KINDS = "good", "fair", "useless", "misses half", "calls more"


def ppi_by_itself(cells, repetitions):
    print("\nPPI: coverage of 90 % intervals / their width / least width, by share of the class;")
    print("last rows: coverage / width of the known items alone (Jeffreys)")
    print(
        f"{'predictions':<14}{'known':>6}{'items':>6}" + "".join(f"{share:>17}" for share in SHARES)
    )
    for kind in KINDS:
        for n, size in cells:
            cell = [ppi_cell(kind, n, size, share, repetitions) for share in SHARES]
            words = "".join(f"   {c[0]:.3f}/{c[1]:.2f}/{c[2]:.3f}" for c in cell)
            print(f"{kind:<14}{n:>6}{size:>6}{words}", flush=True)
            if kind == KINDS[-1]:
                words = "".join(f"   {c[3]:.3f}/{c[4]:.2f}      " for c in cell)
                print(f"{'known alone':<14}{n:>6}{size:>6}{words}", flush=True)


def ppi_cell(kind, n, size, share, repetitions):
    """Return coverage, mean and least width; and coverage and width of known items alone."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(repetitions):
        y = (rng.random(size) < share).astype(int)
        f = predictions(kind, y, share, rng)
        probability = np.column_stack([1 - f, f])
        honest = np.full_like(probability, np.nan)
        honest[:n] = probability[:n]
        probability[:n] = np.eye(2)[y[:n]]
        drawn = by_differences(200, probability, honest, np.zeros(size, dtype=int), rng)[:, 0, 1]
        low, high = np.quantile(drawn, [0.05, 0.95])
        low, high = np.floor((low * size).round(6)) / size, np.ceil((high * size).round(6)) / size
        ones = y[:n].sum()
        ends = beta.ppf([0.05, 0.95], ones + 0.5, n - ones + 0.5)
        real = y.mean()
        found.append(
            [
                low - 1e-9 <= real <= high + 1e-9,
                high - low,
                ends[0] <= real <= ends[1],
                np.ptp(ends),
            ]
        )
    inside, width, alone, other = np.array(found, dtype=float).T
    return inside.mean(), width.mean(), width.min(), alone.mean(), other.mean()


def ppi_of_results(sets, shares):
    """Print coverage with the real fit: five raters, 200 items, 20 or 50 known labels."""
    print(
        "\nThe same by bf.class_shares(method=...) of WeightedVotes: coverage / width / least width"
    )
    print(
        f"{'share':<8}{'known':>6}{'tables':>7}{'ppi':>18}{'ppi, new items':>18}{'posterior':>18}"
    )
    for share in shares:
        for n in (20, 50):
            rows = np.array([real_ppi(share, n, seed) for seed in range(sets)], dtype=float)
            words = ""
            for at in range(3):
                inside, width = rows[:, at], rows[:, 3 + at]
                words += f"{inside.mean():>8.2f}/{width.mean():.2f}/{width.min():.2f}"
            print(f"{share:<8}{n:>6}{sets:>7}{words}", flush=True)


def real_ppi(share, n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(200) < share).astype(int)
    responses = respond(y, rng)
    gold = {int(item): int(y[item]) for item in rng.choice(200, n, replace=False)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = WeightedVotes(responses, gold)
        result = bf.sample(model, 100, chains=2, random_seed=seed, progressbar=False)
    tables = [
        bf.class_shares(result, method=how, ci_prob=0.9, random_seed=seed).shares.iloc[1]
        for how in ("ppi", "posterior")
    ]
    ends = [(tables[0]["low"], tables[0]["high"]), (tables[0]["new_low"], tables[0]["new_high"])]
    ends.append((tables[1]["low"], tables[1]["high"]))
    real = [y.mean(), share, y.mean()]
    inside = [low - 1e-9 <= x <= high + 1e-9 for x, (low, high) in zip(real, ends, strict=True)]
    return [*inside, *(high - low for low, high in ends)]


def main() -> None:
    parser = Arguments(__doc__, "two models, few tables")
    parser.add_argument("--sets", type=int, default=120, help="tables per row")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    options = parser.parse_args()
    if options.quick:
        coverage(["nothing", "populations"], 3, 60)
        ppi_by_itself([(20, 100)], 3)
        ppi_of_results(2, [0.1])
    else:
        slow = [name for name in options.rows if name in SLOW]
        coverage([name for name in options.rows if name not in SLOW], options.sets, 250)
        ppi_by_itself([(20, 200), (20, 2000), (50, 200)], 2 * options.sets)
        ppi_of_results(options.sets // 5, SHARES)
        coverage(slow, options.sets, 300)


if __name__ == "__main__":
    main()

"""Pass rates from panels of language models and few known labels: bias, width and coverage.

Twelve judges of LLMBar (prompt Vanilla) compare 419 pairs of outputs in five subsets; known labels
are drawn again and again. Shares of the second class of all items, of the subsets and of two
simulated systems whose shares differ, and differences of groups, with 90 % intervals: by votes
alone (normal intervals, as if judges were right), by the known items alone, by Rogan & Gladen's
correction of the majority, by PPI++ (Angelopoulos, Duchi & Zrnic 2024; finite population) with the
votes and with a cross-fitted logistic regression on the votes as predictor, and by this package,
also with its label probabilities as the predictor. Members are fitted once.

    python benchmarks/panels.py [--quick] [--known 25 50 100] [--repeats 200] [--prompt Vanilla]
"""

from __future__ import annotations

import time
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments, Report, data, extras

import bayesfuse as bf

Z = 1.645  # of 90 % intervals
FEWEST = 2  # known items of a group without which normal intervals do not exist


def load(prompt):
    """Return responses, truth, subset of every item, and votes (items, raters)."""
    folder = data("llmbar")
    judges = pd.read_csv(folder / "raters.csv.gz")
    chosen = judges.loc[judges["prompt"] == prompt, "rater"]
    frame = pd.read_csv(folder / "responses.csv.gz")
    frame = frame[frame["rater"].isin(chosen)]
    items = pd.read_csv(folder / "items.csv.gz").set_index("item")["subset"]
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    responses = bf.Responses.from_long(frame, items=items.index.tolist(), classes=[0, 1])
    votes = frame.pivot_table(index="item", columns="rater", values="label", aggfunc="mean")
    return responses, truth.reindex(items.index).to_numpy(), items, votes.reindex(items.index)


def groups_of(subset, truth, rng):
    """Return masks of groups by name, and the pairs of groups to compare."""
    system = rng.random(len(truth)) < np.where(truth == 1, 0.65, 0.35)
    kinds = {
        "all": {"all": np.ones(len(truth), dtype=bool)},
        "subsets": {name: (subset == name).to_numpy() for name in subset.unique()},
        "systems": {"A": system, "B": ~system},
    }
    return kinds, {kind: list(combinations(own, 2)) for kind, own in kinds.items()}


def mean_of(y, known, mask, f=None):
    """Return mean and standard error of y over a group, by PPI++ with predictor f if given."""
    at = np.flatnonzero(known & mask)
    if len(at) < FEWEST:
        return np.nan, np.nan
    power, mean = 0.0, 0.0
    if f is not None:
        everything = np.flatnonzero(known)
        of = at if len(at) >= 10 else everything
        spread = f[of].var(ddof=1)
        power = np.cov(y[of], f[of])[0, 1] / spread if spread > 1e-9 else 0.0
        mean = power * f[mask].mean()
    left = y[at] - (power * f[at] if f is not None else 0.0)
    share = 1 - len(at) / mask.sum()
    return left.mean() + mean, np.sqrt(share * left.var(ddof=1) / len(at))


def rogan_gladen(y, known, mask, majority):
    """Return the corrected share of the majority's verdicts, and its error by the delta method."""
    one, zero = majority[known & (y == 1)], majority[known & (y == 0)]
    if len(one) < FEWEST or len(zero) < FEWEST:
        return np.nan, np.nan
    # half a success and a failure more, so that no variance is zero
    hit, alarm = ((own.sum() + 0.5) / (len(own) + 1) for own in (one, zero))
    informed = hit - alarm
    if informed < 0.05:
        return np.nan, np.nan
    rate = (majority[mask].mean() - alarm) / informed
    share = np.clip(rate, 0, 1)
    variance = share**2 * hit * (1 - hit) / len(one)
    variance += (1 - share) ** 2 * alarm * (1 - alarm) / len(zero)
    return share, np.sqrt(variance) / informed


def cross_fitted(votes, y, known, rng):
    """Return probabilities of class 1 by a logistic regression, of known items without them."""
    from sklearn.linear_model import LogisticRegression

    x = np.nan_to_num(votes - 0.5)
    at = rng.permutation(np.flatnonzero(known))
    found, folds = np.zeros((5, len(y))), np.array_split(at, 5)
    for fold, own in zip(folds, found, strict=True):
        rest = np.setdiff1d(at, fold)
        if len(np.unique(y[rest])) < 2:
            own[:] = y[rest].mean()
        else:
            own[:] = LogisticRegression(C=0.1).fit(x[rest], y[rest]).predict_proba(x)[:, 1]
    mean = found.mean(axis=0)
    for fold, own in zip(folds, found, strict=True):
        mean[fold] = own[fold]
    return mean


def by_mean(estimate):
    """Return estimates and ends of groups and differences from a function of a mask."""

    def run(kinds, pairs):
        found = {}
        for kind, own in kinds.items():
            means = {name: estimate(mask) for name, mask in own.items()}
            for name, (mean, error) in means.items():
                ends = np.clip([mean - Z * error, mean + Z * error], 0, 1)
                found[kind, name] = (mean, *ends)
            for one, other in pairs[kind]:
                (a, s), (b, t) = means[one], means[other]
                error = np.hypot(s, t)
                gap = a - b
                found[f"{kind}, differences", f"{one} - {other}"] = (
                    gap,
                    gap - Z * error,
                    gap + Z * error,
                )
        return found

    return run


def ours(responses, gold, models, seed):
    """Return estimates and ends from the posterior shares."""
    model = bf.models.WeightedVotes(responses, gold, models)
    result = bf.sample(model, 100, random_seed=seed, **QUIET)

    def run(kinds, pairs, method="posterior"):
        found = {}
        for kind, own in kinds.items():
            by = None
            if kind != "all":
                by = np.select(list(own.values()), list(own), default="")
            shares, contrasts = bf.class_shares(
                result, by, method=method, ci_prob=0.9, random_seed=seed
            )
            for row in shares[shares["class"] == 1].to_dict("records"):
                name = "all" if kind == "all" else row["group"]
                if name in own:
                    found[kind, name] = row["share"], row["low"], row["high"]
            for row in contrasts[contrasts["class"] == 1].to_dict("records"):
                sign = 1 if (row["first"], row["second"]) in pairs[kind] else -1
                names = (row["first"], row["second"])[::sign]
                ends = sorted([sign * row["low"], sign * row["high"]])
                value = sign * row["difference"], *ends
                found[f"{kind}, differences", f"{names[0]} - {names[1]}"] = value
        return found

    return run


def measure(prompt, n_known, repeats, quick):
    """Return one row for every method, quantity and draw of known labels."""
    responses, truth, subset, votes = load(prompt)
    share = np.nanmean(votes.to_numpy(), axis=1)
    spread = share.std(ddof=1)
    majority = (share > 0.5).astype(float)
    models = None
    if hasattr(bf.models, "WeightedVotes"):
        minutes = 0.3 if quick else 2
        models = {"models": bf.fuse(responses, minutes=minutes, random_seed=1, progressbar=False)}
    rows = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        kinds, pairs = groups_of(subset, truth, rng)
        known = np.zeros(len(truth), dtype=bool)
        known[rng.choice(len(truth), n_known, replace=False)] = True
        y = np.where(known, truth, 0)
        f = cross_fitted(votes.to_numpy(), y, known, rng)
        runs = {
            "votes": by_mean(lambda mask: (share[mask].mean(), spread / np.sqrt(mask.sum()))),
            "known items": by_mean(lambda mask, y=y, known=known: mean_of(y, known, mask)),
            "Rogan-Gladen": by_mean(
                lambda mask, y=y, known=known: rogan_gladen(y, known, mask, majority)
            ),
            "PPI++, votes": by_mean(lambda mask, y=y, known=known: mean_of(y, known, mask, share)),
            "PPI++, logistic": by_mean(
                lambda mask, y=y, known=known, f=f: mean_of(y, known, mask, f)
            ),
        }
        if models is not None:
            gold = {int(item): int(truth[item]) for item in np.flatnonzero(known)}
            runs["bayesfuse"] = ours(responses, gold, models, seed)
            runs["bayesfuse, ppi"] = partial(runs["bayesfuse"], method="ppi")
        real = {
            (kind, name): truth[mask].mean()
            for kind, own in kinds.items()
            for name, mask in own.items()
        }
        for kind, compared in pairs.items():
            for one, other in compared:
                key = f"{kind}, differences", f"{one} - {other}"
                real[key] = real[kind, one] - real[kind, other]
        for method, run in runs.items():
            for key, (value, low, high) in run(kinds, pairs).items():
                wide = high - low if np.isfinite(value) else np.nan
                hit = low - 1e-9 <= real[key] <= high + 1e-9 if np.isfinite(value) else np.nan
                rows.append([method, *key, value - real[key], wide, hit])
    return pd.DataFrame(rows, columns=["method", "quantity", "name", "error", "width", "covered"])


def show(report, found):
    """Print a line for every quantity and method."""
    report.line(
        f"{'':<26}{'method':<17}{'mean error':>11}{'|error|':>9}{'width':>8}{'/ known':>9}"
        f"{'coverage':>10}{'worst cell':>12}{'given':>7}"
    )
    for quantity in found["quantity"].unique():
        own = found[found["quantity"] == quantity]
        wide = own[own["method"] == "known items"]["width"].mean()
        for method in own["method"].unique():
            each = own[own["method"] == method]
            cells = each.groupby("name")["covered"].apply(lambda c: c.astype(float).mean())
            report.line(
                f"{quantity:<26}{method:<17}{each['error'].mean():>11.3f}"
                f"{each['error'].abs().mean():>9.3f}{each['width'].mean():>8.3f}"
                f"{each['width'].mean() / wide:>9.2f}{each['covered'].astype(float).mean():>10.2f}"
                f"{cells.min():>12.2f}{each['width'].notna().mean():>7.2f}"
            )


def main():
    parser = Arguments(__doc__, "50 known labels, drawn twice", results=True)
    parser.add_argument("--known", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--prompt", default="Vanilla")
    options = parser.parse_args()
    report = Report(options)
    with extras():
        import sklearn  # noqa: F401
    for n_known in [50] if options.quick else options.known:
        begun = time.perf_counter()
        repeats = 2 if options.quick else options.repeats
        found = measure(options.prompt, n_known, repeats, options.quick)
        seconds = time.perf_counter() - begun
        report.line(
            f"\n{options.prompt}: {n_known} known labels, {repeats} draws of them ({seconds:.0f} s)"
        )
        show(report, found)
    report.end()


if __name__ == "__main__":
    main()

"""Pass rates from panels of language models and few known labels: bias, width and coverage.

Twelve judges of LLMBar (prompt Vanilla) compare 419 pairs of outputs in five subsets; known labels
are drawn again and again. Shares of the second class of all items, of the subsets and of two
simulated systems whose shares differ, differences of groups, and the accuracy of every judge, with
90 % intervals:

* votes alone (normal intervals, as if judges were right), and known items alone;
* Rogan & Gladen's correction of the majority;
* PPI++ (Angelopoulos, Duchi & Zrnic 2024) for the items at hand (finite population), with the votes
  and with a cross-fitted logistic regression on the votes as predictor;
* the packages of the field, where installed (the extra ``benchmarks``), with the same regression:
  PPI++ of ``ppi_py`` and of ``glide``, stratified by subset, and ``glide``'s with every judge as a
  predictor. Their intervals are for the population from which the items come and should be wider
  than those for the items at hand, with the shares of which all are compared;
* this package, also with its label probabilities as the predictor. Models are fitted once.

``/ known`` is the width relative to known items alone, the worst cell the group or judge with the
lowest coverage, ``given`` the share of the ``number`` of intervals that exist: normal ones need two
known items of a group, and those of ``glide`` both classes, and two in every stratum. Subsets with
fewer than five known items are also shown apart.

    python benchmarks/panels.py [--quick] [--known 25 50 100] [--repeats 200] [--prompt Vanilla]
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from importlib import import_module
from itertools import combinations, product

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments, data, extras

import bayesfuse as bf

Z = 1.645  # of 90 % intervals
FEWEST = 2  # known items of a group without which normal intervals do not exist
FEW = 5  # known items of a group below which it is shown apart
JUDGES = "accuracies"
OF_SHARES = "votes", "Rogan-Gladen", "PPI++, votes"  # and not of the accuracy of judges


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


def by_packages(subset, votes):
    """Return means and errors by the packages of the field that are installed."""

    def by_ppi_py(y, known, mask, f):
        at, rest = known & mask, ~known & mask
        if at.sum() < FEWEST:
            return np.nan, np.nan
        ends = modules["ppi_py"].ppi_mean_ci(y[at], f[at], f[rest], alpha=0.1)
        return np.mean(ends), np.ptp(ends) / (2 * Z)

    def by_glide(y, known, mask, f, estimator, *strata):
        own = np.where(known, y, np.nan)[mask]
        try:
            with np.errstate(invalid="ignore"):  # in its effective sample size
                found = estimator().estimate(own, f[mask], *(group[mask] for group in strata))
        except ValueError:  # too few known labels, labels of one class, or constant predictions
            return np.nan, np.nan
        return found.mean, found.std

    def by_judges(y, known, mask, f):
        return by_glide(y, known, mask, votes, glide.MultiPPIMeanEstimator)

    modules, found = {}, {}
    for name in ("ppi_py", "glide.estimators"):
        try:
            with warnings.catch_warnings():  # ppi_py would silence those of the whole process
                modules[name] = import_module(name)
        except ModuleNotFoundError as error:
            print(f"Without {name}: {error.name} is not installed.")
    if "ppi_py" in modules:
        found["ppi_py"] = by_ppi_py
    if (glide := modules.get("glide.estimators")) is not None:
        found["glide"] = partial(by_glide, estimator=glide.PPIMeanEstimator)
        found["glide, strata"] = lambda y, known, mask, f: by_glide(
            y, known, mask, f, glide.StratifiedPPIMeanEstimator, subset.to_numpy(str)
        )
        found["glide, judges"] = by_judges
    return found


def by_means(estimate, kinds, pairs, y, known, f):
    """Return estimates and ends of groups and differences from means and standard errors."""
    found = {}
    for kind, own in kinds.items():
        means = {name: estimate(y, known, mask, f) for name, mask in own.items()}
        found |= {(kind, name): within(*mean) for name, mean in means.items()}
        for one, other in pairs[kind]:
            (a, s), (b, t) = means[one], means[other]
            found[f"{kind}, differences", f"{one} - {other}"] = within(a - b, np.hypot(s, t), -1)
    return found


def within(mean, error, lowest=0):
    """Return a mean and the ends of its interval, within bounds."""
    return mean, *np.clip([mean - Z * error, mean + Z * error], lowest, 1)


def of_judges(estimate, votes, y, known, f):
    """Return the accuracies of judges, as shares of the items on which they are right."""
    found = {}
    for judge, vote in votes.items():
        right, chance = np.where(known, vote == y, 0), np.where(vote == 1, f, 1 - f)
        mask = vote.notna().to_numpy()
        found[JUDGES, judge] = within(*estimate(right, known & mask, mask, chance))
    return found


def ours(responses, gold, models, seed, kinds, pairs):
    """Return estimates and ends from the posterior shares, by method."""
    model = bf.models.WeightedVotes(responses, gold, models)
    result = bf.sample(model, 100, random_seed=seed, **QUIET)
    judges = bf.rater_table(result, ci_prob=0.9).itertuples()
    both = {
        "bayesfuse": {(JUDGES, row.rater): (row.accuracy, row.low, row.high) for row in judges},
        "bayesfuse, ppi": {},
    }
    for (name, found), (kind, own) in product(both.items(), kinds.items()):
        by = None if kind == "all" else np.select(list(own.values()), list(own), default="")
        method = "ppi" if name.endswith("ppi") else "posterior"
        tables = bf.class_shares(result, by, method=method, ci_prob=0.9, random_seed=seed)
        shares, contrasts = (table[table["class"] == 1].to_dict("records") for table in tables)
        for row in shares:
            group = "all" if kind == "all" else row["group"]
            if group in own:
                found[kind, group] = row["share"], row["low"], row["high"]
        for row in contrasts:
            first, second = row["first"], row["second"]
            ends = row["difference"], row["low"], row["high"]
            if (first, second) not in pairs[kind]:
                first, second, ends = second, first, (-ends[0], -ends[2], -ends[1])
            found[f"{kind}, differences", f"{first} - {second}"] = ends
    return both


def measure(table, models, n_known, repeats):
    """Return one row for every method, quantity and draw of known labels."""
    responses, truth, subset, votes = table
    share = np.nanmean(votes.to_numpy(), axis=1)
    spread = share.std(ddof=1)
    majority = (share > 0.5).astype(float)
    methods = {
        "votes": lambda y, known, mask, f: (share[mask].mean(), spread / np.sqrt(mask.sum())),
        "known items": lambda y, known, mask, f: mean_of(y, known, mask),
        "Rogan-Gladen": lambda y, known, mask, f: rogan_gladen(y, known, mask, majority),
        "PPI++, votes": lambda y, known, mask, f: mean_of(y, known, mask, share),
        "PPI++, logistic": mean_of,
        **by_packages(subset, votes.fillna(0.5).to_numpy()),
    }
    rows = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        kinds, pairs = groups_of(subset, truth, rng)
        known = np.zeros(len(truth), dtype=bool)
        known[rng.choice(len(truth), n_known, replace=False)] = True
        y = np.where(known, truth, 0)
        f = cross_fitted(votes.to_numpy(), y, known, rng)
        found = {}
        for method, estimate in methods.items():
            found[method] = by_means(estimate, kinds, pairs, y, known, f)
            if method not in OF_SHARES:
                found[method] |= of_judges(estimate, votes, y, known, f)
        gold = {int(item): int(truth[item]) for item in np.flatnonzero(known)}
        found |= ours(responses, gold, {"models": models}, seed, kinds, pairs)
        real = by_means(lambda y, _, mask, f: (y[mask].mean(), 0), kinds, pairs, truth, None, None)
        real = {key: value for key, (value, *_) in real.items()}
        for judge, vote in votes.items():
            real[JUDGES, judge] = (truth == vote)[vote.notna()].mean()
        for method, each in found.items():
            for key, (value, low, high) in each.items():
                wide = high - low if np.isfinite(value) else np.nan
                hit = low - 1e-9 <= real[key] <= high + 1e-9 if np.isfinite(value) else np.nan
                rows.append([method, *key, value - real[key], wide, hit])
                if key[0] == "subsets" and (known & kinds["subsets"][key[1]]).sum() < FEW:
                    rows.append([method, f"subsets, below {FEW} known", "all", *rows[-1][3:]])
    return pd.DataFrame(rows, columns=["method", "quantity", "name", "error", "width", "covered"])


def show(found):
    """Print a line for every quantity and method."""
    print(
        f"{'':<26}{'method':<17}{'mean error':>11}{'|error|':>9}{'width':>8}{'/ known':>9}"
        f"{'coverage':>10}{'worst cell':>12}{'number':>8}{'given':>7}"
    )
    for quantity in sorted(found["quantity"].unique()):
        own = found[found["quantity"] == quantity]
        wide = own[own["method"] == "known items"]["width"].mean()
        for method in own["method"].unique():
            each = own[own["method"] == method]
            cells = each.groupby("name")["covered"].apply(lambda c: c.astype(float).mean())
            print(
                f"{quantity:<26}{method:<17}{each['error'].mean():>11.3f}"
                f"{each['error'].abs().mean():>9.3f}{each['width'].mean():>8.3f}"
                f"{each['width'].mean() / wide:>9.2f}{each['covered'].astype(float).mean():>10.2f}"
                f"{cells.min():>12.2f}{len(each):>8}{each['width'].notna().mean():>7.2f}"
            )


def main():
    parser = Arguments(__doc__, "50 known labels, drawn twice")
    parser.add_argument("--known", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--prompt", default="Vanilla")
    options = parser.parse_args()
    with extras():
        import sklearn  # noqa: F401
    table = load(options.prompt)
    minutes = 0.3 if options.quick else 2
    models = bf.fuse(table[0], minutes=minutes, random_seed=1, progressbar=False)
    for n_known in [50] if options.quick else options.known:
        begun = time.perf_counter()
        repeats = 2 if options.quick else options.repeats
        found = measure(table, models, n_known, repeats)
        seconds = time.perf_counter() - begun
        print(
            f"\n{options.prompt}: {n_known} known labels, {repeats} draws of them ({seconds:.0f} s)"
        )
        show(found)


if __name__ == "__main__":
    main()

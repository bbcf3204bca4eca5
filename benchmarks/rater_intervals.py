"""Intervals of the abilities of raters: coverage and scores, simulated and on real tables.

Simulated: 40 raters, ten each of 1, 3, 10 and 50 responses to 200 items; rules fire on 4, 12, 40 or
200 of 1000 items. Raters have a level, and classes deviate from it; with "free rows", classes are
independent, as the model of Dawid and Skene has it; "by coin" is the fit of one accuracy for each
rater to the same tables as "five classes". Competences of item types are Beta(2, 1), or
Beta(6, 3) where raters are "alike", by a standard deviation of .2 in logits of accuracies (.6 in
real crowds). Dependent rules fire on items of one of eight topics, most of one class. With known
labels, 50 random items have them, on top of the fit, as in ``bf.fuse``. Coverage is of 89 %
intervals; the score is width plus 2 / .11 times the distance to an interval that misses (Gneiting &
Raftery 2007), beside that of the Jeffreys interval of the share of agreement with the vote (or
known label). "2 and 3 raters": all items are answered by all raters.

Real tables, by ``bf.fuse``: a third of the raters of 50 known responses or more is thinned to 3, 10
or 25, and an 89 % interval of their share of right ones among the others is predicted, with its
binomial error. "Beside the truth": the table of raters, and their share of right responses.

    python benchmarks/rater_intervals.py [--quick] [--sets 20] [--parts NAME ...] [--write]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy
from _shared import DATA, QUIET, Arguments, load

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes, LabellingFunctions, LatentGroup, WeightedVotes
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.results.abilities import abilities

N_ITEMS, N_KNOWN, NUMBERS = 200, 50, (1, 3, 10, 50)
DRAWS = 500  # of two chains: class shares of rules have a tenth of the effective sample size
ALPHA = 0.11
FIT = QUIET | {"chains": 2, "log_likelihood": False, "compute_convergence_checks": False}
REAL = (
    "bluebird", "rte", "web", "llmbar", "music_genre", "labelme", "face", "weather_amt",
    "zencrowd_in", "barzan",
)  # fmt: skip
SHOWN = "bluebird", "web", "llmbar", "wrench_youtube"


def expit(x: Any) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.asarray(x)))


def asked(rng: np.random.Generator, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw which items every rater answers; return items and raters."""
    item = [rng.choice(N_ITEMS, number, replace=False) for number in numbers]
    return np.concatenate(item), np.repeat(np.arange(len(numbers)), numbers)


def table(item: np.ndarray, rater: np.ndarray, label: np.ndarray, n_classes: int) -> bf.Responses:
    columns = {"item": item, "rater": rater, "label": label}
    return bf.Responses.from_long(pd.DataFrame(columns), classes=list(range(n_classes)))


def choose(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """Draw a column for every row of probabilities."""
    return (rng.random((len(rows), 1)) > rows.cumsum(axis=1)).sum(axis=1)


def rows_of(
    rng: np.random.Generator, n_raters: int, n_classes: int, common: float = 0.8
) -> np.ndarray:
    """Draw confusion matrices: raters have a level, of a ``common`` spread, and classes deviate."""
    level, size = rng.normal(1.2, common, (n_raters, 1)), (n_raters, n_classes)
    right = expit(level + rng.normal(0.0, np.sqrt(0.89 - common**2), size))
    rows = np.repeat(((1.0 - right) / (n_classes - 1))[..., None], n_classes, axis=2)
    rows[:, range(n_classes), range(n_classes)] = right
    return rows


def dawid_skene(
    rng: np.random.Generator, numbers: np.ndarray, n_classes: int = 2, common: float = 0.8
) -> tuple:
    prevalence = rng.dirichlet(np.full(n_classes, 6.0))
    truth = rng.choice(n_classes, N_ITEMS, p=prevalence)
    rows = rows_of(rng, len(numbers), n_classes, common)
    item, rater = asked(rng, numbers)
    responses = table(item, rater, choose(rng, rows[rater, truth[item]]), n_classes)
    accuracy = np.einsum("k,rkk->r", prevalence, rows)
    return responses, truth, accuracy, DawidSkene


def item_types(
    rng: np.random.Generator, numbers: np.ndarray, shape: tuple[float, float] = (2.0, 1.0)
) -> tuple:
    """One item in five misleads: most raters tend to the wrong class."""
    truth = rng.choice(2, N_ITEMS, p=[0.45, 0.55])
    misleads = rng.random(N_ITEMS) < 0.2
    tends = np.where(misleads, 1 - truth, truth)
    competence, guess = rng.beta(*shape, len(numbers)), rng.beta(5.0, 5.0, len(numbers))
    item, rater = asked(rng, numbers)
    looks = rng.random(len(item)) < competence[rater]
    label = np.where(looks, tends[item], rng.random(len(item)) < guess[rater]).astype(int)
    right_guess = 0.45 * (1.0 - guess) + 0.55 * guess
    accuracy = competence * 0.8 + (1.0 - competence) * right_guess
    return table(item, rater, label, 2), truth, accuracy, ItemTypes


def groups(rng: np.random.Generator, numbers: np.ndarray) -> tuple:
    """Three groups of eight raters share a source; the others are independent."""
    truth = rng.choice(2, N_ITEMS, p=[0.45, 0.55])
    sources = np.stack([np.where(rng.random(N_ITEMS) < 0.8, truth, 1 - truth) for _ in range(3)])
    rows = rows_of(rng, len(numbers), 2)
    order = rng.permutation(len(numbers))
    group = np.full(len(numbers), -1)
    group[order[:24]] = np.repeat(np.arange(3), 8)
    item, rater = asked(rng, numbers)
    target = np.where(group[rater] >= 0, sources[group[rater], item], truth[item])
    label = choose(rng, rows[rater, target])
    of_class = np.diagonal(rows, axis1=1, axis2=2)
    through = 0.8 * of_class + 0.2 * (1.0 - of_class[:, ::-1])
    recall = np.where(group[:, None] >= 0, through, of_class)
    members = [np.flatnonzero(group == g).tolist() for g in range(3)]
    model = lambda responses: LatentGroup(responses, members)  # noqa: E731
    return table(item, rater, label, 2), truth, recall @ [0.45, 0.55], model


def rules(rng: np.random.Generator, numbers: np.ndarray) -> tuple:
    """Rules for one of two classes each, by the precision of each, on many items."""
    n_items = 1000
    truth = (np.arange(n_items) % 2).astype(int)
    precision = expit(rng.normal(1.5, 1.0, len(numbers)))
    items, labels = [], []
    for number, right, rule in zip(numbers * 4, precision, range(len(numbers)), strict=True):
        n_right = rng.binomial(number, right)
        of_class = [rng.permutation(np.flatnonzero(truth == k)) for k in (rule % 2, 1 - rule % 2)]
        items.append(np.concatenate([of_class[0][:n_right], of_class[1][: number - n_right]]))
        labels.append(np.full(number, rule % 2))
    rater = np.repeat(np.arange(len(numbers)), numbers * 4)
    responses = table(np.concatenate(items), rater, np.concatenate(labels), 2)
    return responses, truth, precision, LabellingFunctions


def dependent_rules(rng: np.random.Generator, numbers: np.ndarray) -> tuple:
    """Rules that mostly fire on the items of one of eight topics, most of one class."""
    n_items, n_topics = 1000, 8
    topic, home = rng.integers(n_topics, size=n_items), rng.integers(n_topics, size=len(numbers))
    of_one_class = rng.beta(5.0, 1.5, n_topics)
    is_usual = rng.random(n_items) < of_one_class[topic]
    truth = np.where(is_usual, topic % 2, 1 - topic % 2)
    items, labels, precision = [], [], []
    for number, at, inside in zip(numbers * 4, home, rng.beta(6.0, 2.0, len(numbers)), strict=True):
        here, away = np.flatnonzero(topic == at), np.flatnonzero(topic != at)
        n_here = min(rng.binomial(number, inside), len(here))
        places = [rng.choice(here, n_here, False), rng.choice(away, number - n_here, False)]
        items.append(np.concatenate(places))
        labels.append(np.full(number, at % 2))
        right = [(truth[place] == at % 2).mean() for place in (here, away)]
        precision.append(right @ np.array([n_here, number - n_here]) / number)
    rater = np.repeat(np.arange(len(numbers)), numbers * 4)
    responses = table(np.concatenate(items), rater, np.concatenate(labels), 2)
    return responses, truth, np.array(precision), LabellingFunctions


BY_COIN = "five, by coin"
SIMULATED: dict[str, Callable[..., tuple]] = {
    "Dawid–Skene": dawid_skene,
    "five classes": lambda rng, numbers: dawid_skene(rng, numbers, 5),
    BY_COIN: lambda rng, numbers: (
        *dawid_skene(rng, numbers, 5)[:3],
        partial(DawidSkene, raters="coin"),
    ),
    "five, free rows": lambda rng, numbers: dawid_skene(rng, numbers, 5, 0.0),
    "item types": item_types,
    "types, alike": lambda rng, numbers: item_types(rng, numbers, (6.0, 3.0)),
    "groups": groups,
    "rules": rules,
    "dependent rules": dependent_rules,
}


def fused(responses: bf.Responses, seed: int) -> Any:
    """Return the answer of ``bf.fuse``."""
    return bf.fuse(responses, random_seed=seed, progressbar=False)


def fitted(responses: bf.Responses, truth: np.ndarray, model: Any, known: bool, seed: int) -> Any:
    """Return the fit, with known labels on top."""
    with without_compilation():
        result = bf.sample(model(responses), DRAWS, random_seed=seed, **FIT)
    if not known:
        return result
    some = np.random.default_rng(seed).choice(responses.n_items, N_KNOWN, replace=False)
    gold = {responses.items[n]: int(truth[responses.items[n]]) for n in some}
    votes = WeightedVotes(responses, gold, {"model": result})
    return bf.sample(votes, 100, random_seed=seed, **QUIET, log_likelihood=False)


def by_votes(responses: bf.Responses, truth: np.ndarray, known: bool, seed: int) -> pd.DataFrame:
    """Return Jeffreys intervals of the shares of agreement with the vote, or the known label."""
    votes = bf.vote_shares(responses)["label_posterior"]["probability"].values
    reference = responses.classes[votes.argmax(axis=1)].astype(int)
    if known:
        some = np.random.default_rng(seed).choice(responses.n_items, N_KNOWN, replace=False)
        reference[some] = truth[responses.items[some].astype(int)]
    right = responses.classes[responses.label] == reference[responses.item]
    good = np.bincount(responses.rater, right, responses.n_raters)
    total = responses.per_rater
    ends = scipy.stats.beta.ppf([[ALPHA / 2], [1 - ALPHA / 2]], good + 0.5, total - good + 0.5)
    return pd.DataFrame({"low": ends[0], "high": ends[1]}, responses.raters)


def score(low: Any, high: Any, actual: Any) -> Any:
    miss = np.maximum(low - actual, 0.0) + np.maximum(actual - high, 0.0)
    return high - low + 2.0 / ALPHA * miss


def simulated(names: list[str], sets: int, by_fuse: bool = False) -> None:
    head = "".join(f"{n:>22}" for n in NUMBERS)
    print(f"{'':<16}{'known':>6}{head}   (responses; coverage, score, score of votes)")
    for name in names:
        for known in (False,) if by_fuse else (False, True):
            lines = [intervals(name, known, seed, by_fuse) for seed in range(sets)]
            cells = "".join(
                f"{row['model covers']:>10.2f}{row['model']:>6.2f}{row['votes']:>6.2f}"
                for _, row in pd.concat(lines).groupby("number").mean().iterrows()
            )
            print(f"{name:<16}{N_KNOWN if known else 0:>6}{cells}", flush=True)


def intervals(name: str, known: bool, seed: int, by_fuse: bool) -> pd.DataFrame:
    """Return scores of the intervals of raters, and whether they hold the accuracy."""
    numbers = np.repeat(NUMBERS, 10)
    responses, truth, accuracy, model = SIMULATED[name](np.random.default_rng(seed), numbers)
    result = fused(responses, seed) if by_fuse else fitted(responses, truth, model, known, seed)
    tables = {
        "model": bf.rater_table(result, ci_prob=1 - ALPHA).set_index("rater"),
        "votes": by_votes(responses, truth, known, seed),
    }
    actual = pd.Series(accuracy).loc[list(responses.raters)]
    line = pd.DataFrame({"number": numbers[list(responses.raters)]}, actual.index)
    for which, rows in tables.items():
        low, high = rows.loc[actual.index, "low"], rows.loc[actual.index, "high"]
        line[which] = score(low, high, actual)
        line[f"{which} covers"] = (low <= actual) & (actual <= high)
    return line


def few(sets: int) -> None:
    print("\nTwo and three raters of 200 items, no known label: coverage, mean width")
    for n_raters in (2, 3):
        inside, width = [], []
        for seed in range(sets):
            rng = np.random.default_rng(100 + seed)
            responses, truth, accuracy, model = dawid_skene(rng, np.full(n_raters, N_ITEMS))
            result = fitted(responses, truth, model, False, seed)
            one = bf.rater_table(result, ci_prob=1 - ALPHA).set_index("rater").loc[range(n_raters)]
            inside.append((one["low"] <= accuracy) & (accuracy <= one["high"]))
            width.append(one["high"] - one["low"])
        print(f"{n_raters:<10}{np.mean(inside):.2f}{np.mean(width):>8.2f}", flush=True)


def real(names: list[str]) -> None:
    print("\nReal tables: raters thinned, coverage of their accuracy on other items")
    print(f"{'':<14}{'raters':>7}" + "".join(f"{n:>8}" for n in (3, 10, 25)) + "  mean width at 10")
    inside: dict[int, list[list[bool]]] = {3: [], 10: [], 25: []}
    for name in names:
        if not (DATA / name).exists():
            continue
        covered, widths = {}, {}
        for number in inside:
            covered[number], widths[number] = thinned(*load(name), number, seed=number)
            inside[number].append(covered[number])
        cells = "".join(f"{np.mean(one):>8.2f}" for one in covered.values())
        width = np.mean(widths[10])
        print(f"{name:<14}{len(covered[10]):>7}{cells}{width:>18.2f}", flush=True)
    of_raters = [np.concatenate(tables) for tables in inside.values()]
    of_tables = [[np.mean(table) for table in tables] for tables in inside.values()]
    for what, shares in (("all raters", of_raters), ("mean of tables", of_tables)):
        cells = "".join(f"{np.mean(one):>8.2f}" for one in shares)
        print(f"{what:<14}{len(shares[0]):>7}{cells}")


def thinned(
    responses: bf.Responses, truth: pd.Series, number: int, seed: int
) -> tuple[list[bool], list[float]]:
    """Return whether intervals hold the accuracies on what was left out, and their widths."""
    rng = np.random.default_rng(seed)
    rows = responses.to_frame()
    known = rows["item"].isin(truth.index)
    per_rater = rows[known].groupby("rater").size()
    able = per_rater.index[per_rater >= 50].to_numpy()
    chosen = rng.choice(able, max(len(able) // 3, 1), replace=False)
    mine = rows[rows["rater"].isin(chosen)].sample(frac=1.0, random_state=seed)
    keep = mine.groupby("rater").head(number).index
    actual = on_truth(mine.drop(index=keep), truth)
    table = pd.concat([rows.drop(index=mine.index), rows.loc[keep]])
    answer = fused(bf.Responses.from_long(table, classes=responses.classes), seed)
    drawn = abilities(answer)["accuracy"].sel(rater=actual.index).stack(sample=("chain", "draw"))
    accuracy = np.clip(drawn.transpose("sample", "rater").values, 0.0, 1.0)
    size = actual["size"].to_numpy()
    predicted = rng.binomial(size, accuracy) / size
    low, high = np.quantile(predicted, [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    inside = (low <= actual["mean"] + 1e-9) & (actual["mean"] <= high + 1e-9)
    return inside.tolist(), (high - low).tolist()


def on_truth(rows: pd.DataFrame, truth: pd.Series) -> pd.DataFrame:
    """Return the share of right responses of every rater ("mean"), and their number ("size")."""
    rows = rows[rows["item"].isin(truth.index)]
    is_right = rows["label"].to_numpy() == truth.loc[rows["item"]].to_numpy()
    return pd.Series(is_right).groupby(rows["rater"].to_numpy()).agg(["mean", "size"])


def beside_truth(names: list[str]) -> None:
    print("\nBeside the truth: ten raters, and how near all are (without known labels)")
    for name in names:
        if not (DATA / name).exists():
            continue
        responses, truth = load(name)
        rows = bf.rater_table(fused(responses, 1), ci_prob=1 - ALPHA)
        actual = on_truth(responses.to_frame(), truth)["mean"]
        rows["truth"] = rows["rater"].map(actual)
        both = rows.dropna(subset="truth")
        holds = both["truth"].between(both["low"], both["high"]).mean()
        error = (both["accuracy"] - both["truth"]).abs().mean()
        correlation = both["accuracy"].corr(both["truth"])
        print(
            f"{name}: {len(both)} raters, correlation {correlation:.2f}, mean absolute error "
            f"{error:.3f}, intervals hold {holds:.2f}"
        )
        columns = ["rater", "responses", "accuracy", "low", "high", "truth"]
        print(rows[columns].head(10).round(2).to_string(index=False), flush=True)


def main() -> None:
    parser = Arguments(__doc__, "two tables of one model, and one real table")
    parser.add_argument("--sets", type=int, default=20, help="tables in every cell")
    parser.add_argument("--parts", nargs="*", default=None, help="kinds, tables, fuse, few, truth")
    arguments = parser.parse_args()
    parts = arguments.parts or [*SIMULATED, "fuse", "few", *REAL, "truth"]
    if arguments.quick:
        parts, arguments.sets = ["Dawid–Skene", "face"], 2
    warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
    warnings.simplefilter("ignore", bf.errors.CollapseWarning)
    kinds = [name for name in SIMULATED if name in parts]
    if kinds:
        print("Coverage of 89 % intervals of accuracies, and interval scores beside those of votes")
        print(f"by the model of the kind; {arguments.sets} tables")
        simulated(kinds, arguments.sets)
    if "fuse" in parts:
        print(f"\nby bf.fuse; {arguments.sets} tables")
        names = [name for name in kinds or SIMULATED if name != BY_COIN]
        simulated(names, arguments.sets, by_fuse=True)
    if "few" in parts:
        few(arguments.sets)
    if tables := [name for name in REAL if name in parts]:
        real(tables)
    if "truth" in parts:
        beside_truth(list(SHOWN))


if __name__ == "__main__":
    main()

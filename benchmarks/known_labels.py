"""Known labels: what 20, 50 and 100 of them buy, beside what else a user could do with them.

The models of ``bf.fuse`` are fitted once without known labels, and ``WeightedVotes`` on their
average for every random draw of known labels; all is scored on the other items. Rows: accuracy,
log-loss (nats, probabilities clipped at 1e-4), expected calibration error (ten bins), and errors
expected by the probabilities over those made. Beside: vote shares, the average of the models alone,
logistic regression on the votes (scikit-learn, C = .1), the rater best on the known labels (most
votes where they did not answer), and ``DawidSkene`` and ``ItemTypes`` fitted with them. ``raters``
is the share of 90 % intervals of raters with 20 responses or more that hold the share of their
responses that are right, and ``errors`` that of draws whose number of wrong labels is in its
interval or within 20 %. ``behind`` is by how much the log-loss of ``known labels`` exceeds that of
the way that is best of the others on average, and this over its standard error between draws. Draws
that would take more than 60 % of the truth are left out. ``--ask`` compares the items of
``bf.decisions.next_items``, and ``--needed`` widths that ``bf.decisions.labels_needed`` predicts
from 50 known labels with those that 200 give, of the shares of the panel's items and of new ones.

    python benchmarks/known_labels.py [--quick] [--only web face] [--known 20 50 100] [--draws 4]
        [--ask] [--needed] [--write]
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments, data, load
from crowds import CROWDS

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes, WeightedVotes

PANEL = "llmbar Vanilla"
SETS = (PANEL, *CROWDS)
TOLD = {"Dawid–Skene, gold": DawidSkene, "item types, gold": ItemTypes}
WAYS = "vote shares", "models", "known labels", "logit", "best rater", *TOLD


def table_of(name: str):
    """Return responses and truth; of the panel, those of twelve judges with one prompt."""
    if name != PANEL:
        return load(name)
    folder = data("llmbar")
    frame = pd.read_csv(folder / "responses.csv.gz")
    raters = pd.read_csv(folder / "raters.csv.gz")
    own = frame[frame["rater"].isin(raters.loc[raters["prompt"] == "Vanilla", "rater"])]
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    return bf.Responses.from_long(own, classes=[0, 1]), truth[truth.index.isin(own["item"])]


def fitted(responses: bf.Responses) -> dict[str, object]:
    """Return the answer of ``bf.fuse`` without known labels, and vote shares."""
    fused = bf.fuse(responses, checks=False, random_seed=1, progressbar=False)
    return {"models": fused, "vote shares": bf.vote_shares(responses)}


def score(probability: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return accuracy, log-loss, calibration error, and expected over real errors."""
    top, right = probability.max(axis=1), probability.argmax(axis=1) == truth
    own = np.maximum(probability[np.arange(len(truth)), truth], 1e-4)
    bins = np.minimum((top * 10).astype(int), 9)
    gaps = np.bincount(bins, right - top, 10)
    return [
        right.mean(),
        -np.log(own).mean(),
        np.abs(gaps).sum() / len(truth),
        (1 - top).sum() / max((~right).sum(), 0.5),
    ]


def logit(responses, known, label):
    """Return the probabilities of a logistic regression on votes."""
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    shape = responses.n_items, responses.n_raters * responses.n_classes
    ones = np.ones(responses.n_responses)
    votes = sparse.csr_matrix((ones, (responses.item, responses.cell.astype(int))), shape=shape)
    found = np.full((responses.n_items, responses.n_classes), 1e-3)
    seen = np.unique(label)
    if len(seen) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=0.1, max_iter=500).fit(votes[known], label)
        found[:, model.classes_] += model.predict_proba(votes)
    else:
        found[:, seen] = 1.0
    return found / found.sum(axis=1, keepdims=True)


def best_rater(responses, known, label):
    """Return the answers of the rater best on known labels, by a bound for few of them."""
    truth = np.full(responses.n_items, -1)
    truth[known] = label
    at = truth[responses.item] >= 0
    right = (truth[responses.item] == responses.label)[at]
    n = np.bincount(responses.rater[at], minlength=responses.n_raters)
    share = (np.bincount(responses.rater[at], right, responses.n_raters) + 1) / (n + 2)
    best = int(np.argmax(share))
    answers = responses.votes().argmax(axis=1)
    own = responses.rater == best
    answers[responses.item[own]] = responses.label[own]
    sure = share[best]
    even = (1 - sure) / (responses.n_classes - 1)
    found = np.full((responses.n_items, responses.n_classes), even)
    found[np.arange(responses.n_items), answers] = sure
    return found


def told(build, responses, gold, seed):
    """Return the probabilities of a model fitted with the known labels, by few draws."""
    short = {"tune": 20, "chains": 2, "start": "majority", "log_likelihood": False}
    result = bf.sample(build(responses, gold=gold), 40, random_seed=seed, **short, **QUIET)
    return bf.label_probabilities(result).values


def intervals(result, labels, items, truth, responses) -> tuple[float, float]:
    """Return how many intervals of raters hold, and whether expected errors are near."""
    whole = np.full(responses.n_items, -1)
    whole[items] = truth
    seen = whole[responses.item] >= 0
    if not seen.all():
        return np.nan, np.nan  # the truth of all answered items is needed
    n = responses.per_rater
    right = np.bincount(responses.rater, whole[responses.item] == responses.label) / n
    table = bf.rater_table(result, ci_prob=0.9).set_index("rater").loc[responses.raters[n >= 20]]
    low, high = table["low"].to_numpy(), table["high"].to_numpy()
    right = right[n >= 20]
    holds = ((low - 1e-9 <= right) & (right <= high + 1e-9)).mean() if len(right) else np.nan
    wrong = (labels.argmax(axis=1)[items] != truth).sum()
    found = bf.decisions.expected_errors(result, ci_prob=0.9)
    within = float(found["low"]) <= wrong <= float(found["high"])
    return holds, float(within or abs(float(found["expected"]) / max(wrong, 1) - 1) <= 0.2)


def draws_of(name: str, sizes: list[int], n_draws: int):
    """Yield the scores of every way, number of known labels and draw."""
    responses, truth = table_of(name)
    items = pd.Index(responses.items).get_indexer(truth.index)
    answered = responses.per_item[items] > 0
    items, truth = items[answered], truth.to_numpy()[answered]
    results = fitted(responses)
    alone = {way: bf.label_probabilities(result).values for way, result in results.items()}
    for n_known in (n for n in sizes if n <= 0.6 * len(truth)):
        for seed in range(n_draws):
            order = np.random.default_rng(seed).permutation(len(truth))
            known, rest = items[order[:n_known]], order[n_known:]
            label = truth[order[:n_known]]
            gold = dict(zip(responses.items[known].tolist(), label.tolist(), strict=True))
            model = WeightedVotes(responses, gold, {"models": results["models"]})
            result = bf.sample(model, 100, random_seed=seed, progressbar=False)
            labels = bf.label_probabilities(result).values
            ways = {
                "known labels": labels,
                "logit": logit(responses, known, label),
                "best rater": best_rater(responses, known, label),
                **{way: told(build, responses, gold, seed) for way, build in TOLD.items()},
            }
            holds = intervals(result, labels, items, truth, responses)
            for way, probability in (alone | ways).items():
                own = score(probability[items[rest]], truth[rest])
                more = holds if way == "known labels" else (np.nan, np.nan)
                yield name, n_known, seed, way, *own, *more


def asked(name: str, n_draws: int) -> None:
    """Compare the items to ask next, scored on a half that nobody asks about."""
    responses, truth = table_of(name)
    truth = truth[truth.index.isin(responses.items[responses.per_item > 0])]
    results = fitted(responses)
    found = []
    for seed in range(n_draws):
        mixed = truth.sample(frac=1.0, random_state=seed)
        pool, half = mixed.iloc[: len(mixed) // 2], mixed.iloc[len(mixed) // 2 :]
        for aim in ("learn", "correct"):
            gold = pool.iloc[:10].to_dict()
            for n_known in range(10, min(101, len(pool)), 10):
                model = WeightedVotes(responses, gold, {"models": results["models"]})
                result = bf.sample(model, 50, random_seed=seed, progressbar=False)
                labels = bf.label_probabilities(result)
                if n_known in (10, 20, 50, 100):
                    p = labels.sel(item=half.index.to_numpy()).values
                    everything = labels.sel(item=mixed.index.to_numpy()).values
                    wrong = (everything.argmax(axis=1) != mixed.to_numpy()).sum()
                    found.append((aim, n_known, *score(p, half.to_numpy())[:2], wrong))
                queue = bf.decisions.next_items(result, 10**9, aim=aim, random_seed=seed)["item"]
                more = queue[queue.isin(pool.index)].head(10)
                gold |= pool.loc[more].to_dict()
    table = pd.DataFrame(found, columns=["aim", "known", "accuracy", "log_loss", "wrong"])
    for (known, aim), own in table.groupby(["known", "aim"])[["accuracy", "log_loss", "wrong"]]:
        mean = own.mean()
        print(
            f"{name:15} {known:4} {aim:8} {mean['accuracy']:.3f} {mean['log_loss']:.3f} "
            f"{mean['wrong']:7.1f}"
        )


def needed(n_draws: int, few: int = 50, many: int = 200) -> None:
    """Compare widths of 89 % intervals that few known labels predict with those of many."""
    responses, truth = table_of(PANEL)
    models = {"models": fitted(responses)["models"]}

    def widths(gold: pd.Series, seed: int) -> tuple[Any, pd.Series]:
        result = bf.sample(
            WeightedVotes(responses, gold.to_dict(), models), 200, random_seed=seed, **QUIET
        )
        options = {"width": 0.1, "ci_prob": 0.89, "random_seed": seed}
        return result, bf.decisions.labels_needed(result, **options).iloc[0]

    columns = "width", "new_width"
    for seed in range(n_draws):
        mixed = truth.sample(frac=1.0, random_state=seed)
        result, now = widths(mixed.head(few), seed)
        _, then = widths(mixed.head(many), seed)
        cells = []
        for column, number in zip(columns, ("labels", "new_labels"), strict=True):
            predicted = predicted_width(result, number, many, seed)
            cells.append(f"{now[column]:.3f}  {predicted:.3f} {then[column]:.3f}")
        print(f"{seed:4}  " + "   ".join(cells), flush=True)


def predicted_width(result: Any, column: str, n_known: int, seed: int) -> float:
    """Return the least width for which so many known labels are enough."""
    low, high = 0.001, 0.999
    while high - low > 1e-4:
        width = (low + high) / 2
        table = bf.decisions.labels_needed(result, width=width, ci_prob=0.89, random_seed=seed)
        low, high = (low, width) if table[column][0] <= n_known else (width, high)
    return high


def main() -> None:
    parser = Arguments(__doc__, "one table, one draw")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--known", nargs="+", type=int, default=[20, 50, 100])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--ask", action="store_true")
    parser.add_argument("--needed", action="store_true")
    options = parser.parse_args()
    names = ["bluebird"] if options.quick else options.only
    n_draws = 1 if options.quick else options.draws
    if options.ask:
        print("set            known aim    accuracy log-loss wrong labels of all")
        for name in names:
            asked(name, n_draws)
        return
    if options.needed:
        print("Widths from 50 known labels; from 200, predicted and measured")
        print("draw  of these items         of new items")
        needed(n_draws)
        return
    columns = "set", "known", "seed", "way", "accuracy", "loss", "ece", "ratio", "raters", "errors"
    rows = []
    print(
        f"{'set':15} known  " + "".join(f"{way:24}" for way in WAYS) + "raters errors  behind    SE"
    )
    for name in names:
        own = pd.DataFrame(list(draws_of(name, options.known, n_draws)), columns=columns)
        rows.append(own)
        for n_known, part in own.groupby("known"):
            line(name, n_known, part)
    whole = pd.concat(rows)
    for n_known, part in whole.groupby("known"):
        line(f"mean of {part['set'].nunique()}", n_known, part)


def line(name: str, n_known: int, part: pd.DataFrame) -> None:
    """Print the means of a set over draws."""
    mean = part.groupby("way")[["accuracy", "loss", "ece", "ratio", "raters", "errors"]].mean()
    cells = []
    for way in WAYS:
        accuracy, loss, ece, ratio = mean.loc[way, ["accuracy", "loss", "ece", "ratio"]]
        cells.append(f"{accuracy:.3f}/{loss:.3f}/{ece:.3f}/{ratio:.2f}".ljust(24))
    held = mean.loc["known labels", ["raters", "errors"]]
    loss = part.pivot(index=["set", "seed"], columns="way", values="loss")
    others = loss.drop(columns="known labels")
    behind = loss["known labels"] - others[others.mean().idxmin()]
    error = behind.std() / len(behind) ** 0.5  # NaN for one draw
    print(
        f"{name:15} {n_known:5}  {''.join(cells)}{held.iloc[0]:6.2f} {held.iloc[1]:6.2f} "
        f"{behind.mean():+7.3f} {behind.mean() / error:+5.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()

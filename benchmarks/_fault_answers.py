"""Cases of `faults.py` on answers around the samplers: repeats, rules, shares, scores, spans."""

from __future__ import annotations

from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from _fault_cases import FEW, QUICK

import bayesfuse as bf
from bayesfuse.checks.label_switching import _permuted
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    LabellingFunctions,
    MarkovRandomField,
    WeightedVotes,
)

DRAWS = FEW | {"draws": 150, "tune": 100}


def crowd(seed, shares, accuracies, n_items=200):
    """Return the labels of independent raters, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), n_items, p=shares)
    right = rng.random((n_items, len(accuracies))) < accuracies
    wrong = (truth[:, None] + rng.integers(1, len(shares), right.shape)) % len(shares)
    return np.where(right, truth[:, None], wrong), truth


def keys(table):
    """Return the responses of a table by name."""
    return table.to_frame().astype(str).to_numpy().tolist()


def repeated(n_classes):
    """Yield tables with repeats or copies: these must add nothing, and independent ones count."""
    labels, truth = crowd(2, np.full(n_classes, 1 / n_classes), [0.6, 0.8, 0.75, 0.7])
    once = bf.Responses.from_matrix(labels, raters=list("abcd"))
    for copies in (1, 2, 5):
        several = np.column_stack([labels, *[labels[:, 0]] * copies])
        table = bf.Responses.from_matrix(
            several, raters=list("abcd") + [f"z{n}" for n in range(copies)]
        )
        yield f"{copies} copies of a rater", table, keys(once)
    frame = once.to_frame()
    for times in (2, 3, 6):
        table = bf.Responses.from_long({name: np.tile(frame[name], times) for name in frame})
        yield f"all responses {times} times", table, keys(once)
        own = np.concatenate(
            [np.arange(len(frame)), *[np.flatnonzero(frame["rater"] == "a")] * times]
        )
        table = bf.Responses.from_long({name: frame[name].to_numpy()[own] for name in frame})
        yield f"those of a rater {times + 1} times", table, keys(once)
    rng = np.random.default_rng(3)
    right = rng.random((5, len(truth))) < 0.8
    anew = np.where(right, truth, (truth + rng.integers(1, n_classes, right.shape)) % n_classes)
    calls = {
        "item": np.tile(np.arange(len(truth)), 5),
        "rater": ["e"] * 5 * len(truth),
        "label": anew.ravel(),
    }
    both = {name: [*frame[name], *calls[name]] for name in calls}
    yield "independent calls", bf.Responses.from_long(both), 5 * len(truth)


def check_repeats(table, expected):
    """Check what remains of a table, and that its code path is that of `bf.fuse`."""
    kept, found = bf.checks.collapse_repeats(table)
    if isinstance(expected, int):
        left = int((np.asarray(kept.to_frame()["rater"]) == "e").sum())
        assert left > 0.9 * expected, f"{left} of {expected} independent responses kept"
        return
    extra = kept.n_responses - len(expected)
    assert 0 <= extra < 0.02 * len(expected), f"{kept.n_responses} of {len(expected)} responses"
    assert len(found) and kept.n_raters == 4, f"{kept.n_raters} raters"


def rules(seed, shares, label, hit, alarm, n_items=2000):
    """Return votes of rules (−1: silent), the truth, and label probabilities at these rates."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), n_items, p=shares)
    rate = np.where(np.arange(len(shares))[:, None] == label, hit, alarm)
    votes = np.where(rng.random((n_items, len(label))) < rate[truth], label, -1)
    joint = shares * np.where((votes >= 0)[:, None], rate, 1 - rate).prod(axis=2)
    return votes, truth, joint / joint.sum(axis=1, keepdims=True)


ONE_SIDED = {
    "three rules for 1": ([2 / 3, 1 / 3], [1, 1, 1], [0.7, 0.7, 0.7], [0.05] * 3),
    "four rules for 0": ([0.4, 0.6], [0, 0, 0, 0], [0.6, 0.5, 0.7, 0.4], [0.05, 0.1, 0.02, 0.05]),
    "no rule for 0 of three": (
        [0.5, 0.3, 0.2], [1, 2, 1, 2, 1, 2], [0.6, 0.5, 0.4, 0.7, 0.5, 0.4], [0.05] * 6
    ),
}  # fmt: skip


def check_rules(case, how, given):
    """Compare the log-loss of rules for one class with that of the true rates."""
    shares, label, hit, alarm = map(np.array, ONE_SIDED[case])
    votes, truth, exact = rules(1, shares, label, hit, alarm)
    silence = {"abstain": -1} if how == "silent" else {}
    table = bf.Responses.from_matrix(votes, classes=range(len(shares)), **silence)
    model = LabellingFunctions(table, shares if given else None)
    found = bf.label_probabilities(bf.sample(model, **DRAWS | {"draws": 200, "tune": 200})).values
    losses = [
        -np.log(np.clip(p[np.arange(len(truth)), truth], 1e-4, 1)).mean() for p in (found, exact)
    ]
    assert losses[0] < losses[1] + 0.05, f"log-loss {losses[0]:.3f}, of the rates {losses[1]:.3f}"


def not_probabilities():
    """Yield models whose variables are no probabilities, which must be refused."""
    table = bf.Responses.from_matrix(crowd(1, [0.5, 0.3, 0.2], [0.8] * 3, 30)[0])
    confusions = {
        "Beta": lambda: pm.Beta("c", 2, 2, shape=(3, 3, 3)),
        "log-odds": lambda: pm.Normal("c", 0, 1, shape=(3, 3, 3)),
        "uniform": lambda: pm.Uniform("c", 0, 1, shape=(3, 3, 3)),
        "half-normal": lambda: pm.HalfNormal("c", 1, shape=(3, 3, 3)),
        "not 1": lambda: dirichlet_rows() * 1.1,
        "constant": lambda: np.tile([0.5, 0.3, 0.3], (3, 3, 1)),
        "negative": lambda: np.tile([1.2, -0.1, -0.1], (3, 3, 1)),
        "columns": lambda: dirichlet_rows().swapaxes(1, 2),
    }
    coins = {
        "log-odds": lambda: pm.Normal("a", 1, 1, shape=3),
        "above one": lambda: pm.Gamma("a", 2, 1, shape=3),
        "per cent": lambda: pm.Uniform("a", 50, 100, shape=3),
    }
    prevalences = {
        "Beta": lambda: pm.Beta("p", 2, 2, shape=3),
        "log-odds": lambda: pm.Normal("p", 0, 1, shape=3),
        "counts": lambda: np.array([3.0, 2.0, 1.0]),
    }

    def build(prior, confusion, coin=None, sampler="auto"):
        with pm.Model() as model:
            channel = bf.build.Confusion(confusion()) if coin is None else bf.build.OneCoin(coin())
            bf.build.observe(table, labels=bf.build.Independent(prior()), raters=channel)
        bf.sample(model, sampler=sampler, **FEW)

    yield "probabilities: right", partial(build, even_shares, dirichlet_rows), "right"
    for sampler in ("auto", "nuts"):
        for title, confusion in confusions.items():
            run = partial(build, even_shares, confusion, sampler=sampler)
            yield f"probabilities: confusion of {title}, {sampler}", run, "error"
        for title, coin in coins.items():
            run = partial(build, even_shares, None, coin, sampler)
            yield f"probabilities: accuracy of {title}, {sampler}", run, "error"
        for title, prior in prevalences.items():
            run = partial(build, prior, dirichlet_rows, sampler=sampler)
            yield f"probabilities: prevalence of {title}, {sampler}", run, "error"


def even_shares():
    """Return a prior of class shares."""
    return pm.Dirichlet("prevalence", np.ones(3))


def dirichlet_rows():
    """Return a prior of the rows of three raters."""
    return pm.Dirichlet("c", np.ones(3), shape=(3, 3, 3))


GROUP = np.repeat(["a", "b", "c"], [60, 50, 40])
NUMBER = np.unique(GROUP, return_inverse=True)[1]
SHARES = {  # the group decides these label priors
    "populations": lambda table: DawidSkene(table, populations=GROUP),
    "finer populations": lambda table: DawidSkene(
        table, populations=NUMBER * 2 + np.arange(150) % 2
    ),
    "covariates": lambda table: DawidSkene(table, covariates=(NUMBER[:, None] == [1, 2]) * 1.0),
    "a chain": lambda table: HiddenMarkov(
        table, bf.Sequences.from_lengths([60, 50, 40]), raters="confusion"
    ),
    "a graph": lambda table: MarkovRandomField(table, bf.Graph.grid((10, 15))),
}


@cache
def of_groups(name, gold):
    """Return a result of three groups with other shares, perhaps with known labels."""
    rng = np.random.default_rng(5)
    truth = (rng.random(150) < np.array([0.15, 0.5, 0.8])[NUMBER]).astype(int)
    right = rng.random((150, 3)) < [0.75, 0.7, 0.65]
    table = bf.Responses.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]))
    model = SHARES[name](table) if name in SHARES else DawidSkene(table)
    if gold:
        known = {int(n): int(truth[n]) for n in rng.choice(150, gold, replace=False)}
        parts = {"one": bf.sample(model, **DRAWS)}
        return bf.sample(WeightedVotes(table, known, parts), **DRAWS)
    return bf.sample(model, **DRAWS)


def check_group_shares(name, gold, ci_prob):
    """Compare shares of groups with joint draws, and their weighted mean with the whole."""
    result = of_groups(name, gold)
    table = bf.class_shares(result, GROUP, ci_prob=ci_prob, random_seed=1).shares
    one = table[table["class"] == 1].set_index("group")
    weighted = (one["share"] * one["items"])[["a", "b", "c"]].sum() / 150
    assert abs(weighted - one.loc["all items", "share"]) < 1e-9, f"{weighted:.3f} on average"
    for end in ("low", "high"):
        inside = (one[end] - one["share"]) * (1 if end == "high" else -1)
        assert (inside > -1e-9).all(), f"share outside its interval: {one[end].round(3).to_dict()}"
    if name in SHARES and not gold:
        draws = result["label_draws"]["label"].values.reshape(-1, 150)
        ends = [(1 - ci_prob) / 2, (1 + ci_prob) / 2]
        for group in "abc":
            exact = np.quantile(draws[:, GROUP == group].mean(axis=1), ends)
            off = np.abs(one.loc[group, ["low", "high"]].astype(float) - exact).max()
            assert off < 0.02, f"off joint draws by {off:.3f} in {group}"


def check_ppi(share, number, one_class, seed):
    """Check that PPI with few known labels has an interval of some width, or says why not."""
    labels, truth = crowd(seed, [1 - share, share], [0.75] * 5)
    table = bf.Responses.from_matrix(labels, classes=[0, 1])
    rng = np.random.default_rng(seed)
    items = np.flatnonzero(truth == 0) if one_class else np.arange(200)
    gold = {int(n): int(truth[n]) for n in rng.choice(items, number, replace=False)}
    result = bf.sample(DawidSkene(table), **DRAWS)
    layer = bf.sample(WeightedVotes(table, gold, {"ds": result}), **DRAWS)
    row = bf.class_shares(layer, method="ppi", ci_prob=0.9, random_seed=1).shares.iloc[1]
    assert row["high"] - row["low"] > 0.01, f"width {row['high'] - row['low']:.4f}"
    assert row["low"] <= row["share"] <= row["high"]
    assert row["low"] <= truth.mean() + 0.03, f"{row['low']:.3f} above {truth.mean():.3f}"


def check_expected(table, gold):
    """Check that an expected number of wrong labels is strictly inside its interval."""
    model = DawidSkene(table, gold=gold)
    for result in (bf.sample(model, **DRAWS), bf.fit(model, draws=60, **QUICK)):
        for ci_prob in (0.5, 0.9, 0.99):
            found = bf.decisions.expected_errors(result, model, ci_prob=ci_prob, random_seed=1)
            low, mean, high = (float(found[name]) for name in ("low", "expected", "high"))
            inside = low < mean < high or low == mean == high == 0
            assert inside, f"{mean:.3f} ({low:.3f}–{high:.3f})"


def check_hard(form, wrong):
    """Check that the log-loss of hard labels is bounded, with the number of clipped items."""
    truth = np.arange(40) % 2
    labels = np.where(np.arange(40) < wrong, 1 - truth, truth)
    shares = xr.DataArray(np.eye(2)[labels], {"item": np.arange(40), "class": [0, 1]})
    if form == "mode":
        votes = bf.Responses.from_matrix(np.column_stack([labels] * 3), classes=[0, 1])
        confusion = {"confusion_prior": np.eye(2) * 1e9 + 1, "prevalence_prior": [1e3, 1e3]}
        given = bf.find_map(DawidSkene(votes, **confusion))
    else:
        given = shares.to_pandas() if form == "frame" else shares
    scores = bf.checks.label_scores(given, dict(enumerate(truth.tolist())))
    assert scores["clipped"] == wrong, f"{scores['clipped']} clipped"
    most = -np.log(scores["floor"]) * wrong / 40 + 0.02
    assert scores["log_loss"] <= most, f"log-loss {scores['log_loss']:.2f}"
    assert abs(scores["accuracy"] - (1 - wrong / 40)) < 1e-9


SPANS = {
    "no span in any draw": [["O", "O", "O", "O"]] * 4,
    "a span in one draw": [["O", "O", "O", "O"]] * 3 + [["B-x", "I-x", "O", "O"]],
    "a span in all draws": [["B-x", "I-x", "O", "O"]] * 4,
    "other spans": [["O", "O", "B-x", "O"], ["O", "B-x", "I-x", "O"]] * 2,
}
MARKED = {"marked": [(0, 2)], "nothing marked": [], "marked elsewhere": [(3, 4)]}


def check_spans(draws, marked, scheme):
    """Compare expected scores of spans with their means over draws, where nothing is zero."""
    draws = np.array(draws)
    if scheme == "runs":
        draws = np.char.replace(np.char.replace(draws, "B-", ""), "I-", "")
    sequences = bf.Sequences.from_lengths([4])
    array = xr.DataArray(draws[None], dims=("chain", "draw", "item"), coords={"item": range(4)})
    rows = {"sequence": [0] * len(marked), "start": [a for a, _ in marked]}
    found = pd.DataFrame(rows | {"stop": [b for _, b in marked], "kind": ["x"] * len(marked)})
    scores = bf.checks.span_scores(array, sequences, found, scheme=scheme).loc["exact"]
    expected = []
    for draw in draws:
        table = bf.spans(dict(enumerate(draw)), sequences, scheme=scheme)
        true = set(zip(table["start"], table["stop"], strict=True))
        both = len(true) + len(marked)
        expected.append(2 * len(true & set(marked)) / both if both else np.nan)
    if np.isnan(expected).all():
        assert np.isnan(scores["f1"])
        return
    mean = np.nan_to_num(expected).mean()
    assert abs(scores["f1"] - mean) < 1e-9, f"F1 {scores['f1']:.3f}, by draw {mean:.3f}"


def check_aligned(n_classes, switched, raters):
    """Switch chains, and check that align_labels returns to the mode that responses favour."""
    labels, truth = crowd(3, np.full(n_classes, 1 / n_classes), [0.8] * 6)
    model = DawidSkene(bf.Responses.from_matrix(labels), raters=raters)
    result = bf.sample(model, **DRAWS | {"chains": 3})
    order = np.tile(np.arange(n_classes), (3, 150, 1))
    order[switched] = np.roll(np.arange(n_classes), 1)
    bad = result.copy()
    bad["posterior"] = xr.DataTree(_permuted(result, order))
    back = bf.checks.align_labels(bad, model)
    right = (bf.label_probabilities(back).values.argmax(axis=1) == truth).mean()
    best = (bf.label_probabilities(result).values.argmax(axis=1) == truth).mean()
    assert right > best - 0.01, f"{right:.3f} right instead of {best:.3f}"


def answers():
    """Yield answers that an independent computation, or an invariance, decides."""
    for n_classes in (2, 3):
        for title, table, expected in repeated(n_classes):
            run = partial(check_repeats, table, expected)
            yield f"repeats: {title}, {n_classes} classes", run, "right"
        for switched in ([0], [2], [0, 1], [1, 2]):
            run = partial(check_aligned, n_classes, switched, "confusion")
            yield f"aligned: chains {switched} of 3, {n_classes} classes", run, "right"
    for case, how, given in product(ONE_SIDED, ("silent", "missing"), (False, True)):
        run = partial(check_rules, case, how, given)
        yield f"rules: {case}, {how}{', shares known' if given else ''}", run, "right"
    yield from not_probabilities()
    for name, gold, ci_prob in product([*SHARES, "nothing"], (0, 12, 60), (0.5, 0.9)):
        run = partial(check_group_shares, name, gold, ci_prob)
        yield f"shares: {name}, {gold} known, {ci_prob}", run, "right"
    for share, number, one_class in product((0.02, 0.05, 0.3), (20, 30, 60), (True, False)):
        run = partial(check_ppi, share, number, one_class, int(100 * share) + number)
        title = f"ppi: share {share}, {number} known{' of one class' if one_class else ''}"
        yield title, run, "either" if one_class else "right"
    for seed, n_items in product(range(3), (2, 10, 200)):
        labels, truth = crowd(seed, [0.7, 0.3], [0.9, 0.8, 0.6], n_items)
        table = bf.Responses.from_matrix(labels, classes=[0, 1])
        for known in (0, 1, n_items):
            gold = dict(enumerate(truth[:known].tolist())) if known else None
            title = f"expected errors: {n_items} items, {known} known, {seed}"
            yield title, partial(check_expected, table, gold), "right"
    for form, wrong in product(("array", "frame", "mode"), (0, 1, 7, 40)):
        if form != "mode" or wrong < 20:
            yield f"hard labels: {form}, {wrong} wrong", partial(check_hard, form, wrong), "right"
    for (title, draws), (what, marked), scheme in product(
        SPANS.items(), MARKED.items(), ("bio", "runs")
    ):
        run = partial(check_spans, draws, marked, scheme)
        yield f"spans: {title}, {what}, {scheme}", run, "right"

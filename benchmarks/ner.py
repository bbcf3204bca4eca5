"""CoNLL named entities by a crowd: 81,623 tokens, 47 raters, 9 BIO tags, 6,056 sentences.

Strict span F1 (borders and kind; I-X that does not follow kind X begins a span, as in the CoNLL
evaluation) and token F-score (Traganitis & Giannakis 2020, eq. 37), compared with published
numbers. Random sentences with known tags (``gold=``) are not scored. The data are read from
../shared/data/conll_ner, next to the checkout.

    python benchmarks/ner.py [--quick]
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import xarray as xr
from _shared import QUIET, Arguments, data

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov

PUBLISHED = """
Published, test part: majority vote 65.4, Dawid–Skene 74.4, IBCC 74.4, HMM-crowd 74.2, BSC-CM 75.8,
BSC-seq 77.4 (Simpson & Gurevych 2019); token F-score: majority vote .68, Dawid–Skene .71, sequence
EM .72 (Traganitis & Giannakis 2020). Their alignment of responses with tokens is not ours.
"""


def read(every):
    """Return responses, sentences, which of them are the test set, true tags, and words.

    Of every sentence, or one of so many.
    """
    folder = data("conll_ner")
    tags = np.array((folder / "labels.txt").read_text().split())
    items = pd.read_csv(folder / "items.csv.gz")
    items = items[items["sequence"].isin(items["sequence"].unique()[::every])]
    table = pd.read_csv(folder / "responses.csv.gz")
    table = table[table["item"].isin(items["item"])]
    table["label"] = tags[table["label"]]
    responses = bf.Responses.from_long(table, items=items["item"].tolist(), classes=tags)
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    truth = tags[truth.loc[responses.items].to_numpy()]
    part = items.groupby("sequence")["split"].first()
    sequences = bf.Sequences.from_table(items)
    words = items.set_index("item")["word_id"].astype(str)
    words, _ = bf.io.token_features(words, sequences, items=responses.items, kinds=["word"])
    return responses, sequences, part, truth, words


class Score:
    """Compare tags with the truth, except in known sentences."""

    def __init__(self, responses, sequences, part, truth, known=()):
        self.items, self.classes = responses.items, responses.classes.tolist()
        self.sequences, self.part, self.truth, self.known = sequences, part, truth, known
        frame = sequences.to_frame().set_index("item")["sequence"]
        self.left = ~frame.loc[self.items].isin(known).to_numpy()
        self.true_spans = self.spans(truth)

    def spans(self, tags):
        table = bf.spans(xr.DataArray(tags, {"item": self.items}, ["item"]), self.sequences)
        return self.unknown(table.drop(columns=["probability", "overlap", "chosen"]))

    def unknown(self, spans):
        return spans[~spans["sequence"].isin(self.known)]

    def span_f1(self, spans, part):
        """Return precision, recall and F1 in per cent."""
        found, true = (
            {
                tuple(row)
                for row in each[self.part.loc[each["sequence"]].to_numpy() == part].to_numpy()
            }
            for each in (spans, self.true_spans)
        )
        both = len(found & true)
        return 100 * np.array(
            [both / len(found), both / len(true), 2 * both / (len(found) + len(true))]
        )

    def token_f(self, tags):
        """Return (37): the mean over classes of the harmonic mean of precision and recall."""
        tags, truth = tags[self.left], self.truth[self.left]
        scores = [
            2 * np.sum((tags == name) & (truth == name))
            / max(np.sum(tags == name) + np.sum(truth == name), 1)
            for name in self.classes
        ]  # fmt: skip
        return float(np.mean(scores))

    def show(self, name, tags, seconds):
        self.show_spans(name, self.spans(tags), f"{self.token_f(tags):8.3f}{seconds:9.1f}")

    def show_spans(self, name, spans, more=""):
        test, val = (self.span_f1(spans, part) for part in ("test", "val"))
        print(
            f"{name:<52}{test[0]:7.2f}{test[1]:7.2f}{test[2]:7.2f}{val[2]:9.2f}{more}", flush=True
        )


def main() -> None:
    """Print the table."""
    quick = Arguments(__doc__, "few sentences, few draws").parse_args().quick
    responses, sequences, part, truth, words = read(200 if quick else 1)
    score = Score(responses, sequences, part, truth)
    print(f"{'':<52}{'test:':>7}{'':<14}{'val:':>9}{'token':>8}")
    print(f"{'':<52}{'P':>7}{'R':>7}{'F1':>7}{'F1':>9}{'F (37)':>8}{'seconds':>9}")
    votes = responses.votes()
    classes = responses.classes
    for tie, best in (
        ("to O (first tag)", votes.argmax(axis=1)),
        ("to the last tag", len(classes) - 1 - votes[:, ::-1].argmax(axis=1)),
    ):
        score.show(f"majority vote, ties {tie}", classes[best], 0.0)
    models = {
        "Dawid–Skene": lambda: DawidSkene(responses),
        "hidden Markov, rows by rater": lambda: HiddenMarkov(
            responses, sequences, raters="confusion"
        ),
        "hidden Markov": lambda: HiddenMarkov(responses, sequences),
        "hidden Markov, words": lambda: HiddenMarkov(responses, sequences, covariates=words),
    }
    for name, build in models.items():
        begun = time.perf_counter()
        model = build()
        point = bf.find_map(model)
        taken = time.perf_counter() - begun
        best = bf.label_probabilities(point).values.argmax(axis=1)
        score.show(f"{name}: mode", classes[best], taken)
        if name in list(models)[2:]:
            posterior(name, model, score, 20 if quick else 300)
    begun = time.perf_counter()
    fused = bf.fuse(responses, sequences=sequences, random_seed=1, progressbar=False)
    report("bf.fuse", fused, score, time.perf_counter() - begun)
    rng = np.random.default_rng(1)
    for number in (2,) if quick else (20, 100):
        known = rng.choice(np.unique(sequences.names), number, replace=False)
        score = Score(responses, sequences, part, truth, known)
        gold = dict(zip(responses.items[~score.left], truth[~score.left], strict=True))
        begun = time.perf_counter()
        options = {"sequences": sequences, "gold": gold, "random_seed": 1, "progressbar": False}
        fused = bf.fuse(responses, **options)
        seconds = time.perf_counter() - begun
        report(f"bf.fuse, {number} known sentences", fused, score, seconds)
    print(PUBLISHED)


def posterior(name, model, score, draws):
    """Sample with two seeds, score the labels, and check the calibration of the spans."""
    import arviz as az

    for seed in (1, 2):
        begun = time.perf_counter()
        result = bf.sample(model, draws, random_seed=seed, log_likelihood=False, **QUIET)
        report(f"{name}: posterior, seed {seed}", result, score, time.perf_counter() - begun)
    rhat = np.asarray(az.rhat(result["posterior"]["transition"]))
    print(f"  transition: worst R̂ {np.nanmax(rhat):.3f}")


def report(name, result, score, seconds):
    """Score tags and spans, and compare what the result expects with what is true."""
    table = bf.label_probabilities(result).sel(item=score.items)
    best = table["class"].values[table.values.argmax(axis=1)]
    score.show(name, best, seconds)
    table, truth = table.values[score.left], score.truth[score.left]
    wrong = int((best[score.left] != truth).sum())
    own = table[np.arange(len(truth)), pd.Index(score.classes).get_indexer(truth)]
    loss = -np.log(np.maximum(own, 1e-4)).mean()
    expected = (1.0 - table.max(axis=1)).sum()
    print(f"  wrong tags: {wrong:,}, expected {expected:,.0f}; log-loss of tags {loss:.3f}")
    found = score.unknown(bf.spans(result, score.sequences))
    keys = ["sequence", "start", "stop", "kind"]
    score.show_spans("  the chosen spans", found.loc[found["chosen"], keys])
    found["true"] = pd.MultiIndex.from_frame(found[keys]).isin(
        pd.MultiIndex.from_frame(score.true_spans[keys])
    )
    bins = pd.cut(found["probability"], [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    table = found.groupby(bins, observed=True).agg(
        spans=("true", "size"), said=("probability", "mean"), true=("true", "mean")
    )
    print(table.round(3).to_string())
    kept = found[found["chosen"]]
    real = kept["true"].mean(), kept["true"].sum() / len(score.true_spans)
    expected = bf.checks.span_scores(result, score.sequences).loc["exact"]
    for which, value in zip(("precision", "recall"), real, strict=True):
        low, mean, high = (expected[f"{which}{end}"] for end in ("_low", "", "_high"))
        expects = f"expected {mean:.3f} [{low:.3f}, {high:.3f}]"
        print(f"  {which} of the chosen spans: {value:.3f}, {expects}")


if __name__ == "__main__":
    main()

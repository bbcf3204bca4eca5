"""CoNLL named entities by a crowd: 81,623 tokens, 47 raters, 9 BIO tags, 6,056 sentences.

Strict span F1 (borders and kind; I-X that does not follow kind X begins a span, as in the CoNLL
evaluation) and token F-score (Traganitis & Giannakis 2020, eq. 37), compared with published
numbers. The data are read from ../shared/data/conll_ner, next to the checkout.

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
    """Return responses, sentences, which of them are the test set, and true tags.

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
    return responses, bf.Sequences.from_table(items), part, truth


class Score:
    """Compare tags with the truth."""

    def __init__(self, responses, sequences, part, truth):
        self.items, self.classes = responses.items, responses.classes.tolist()
        self.sequences, self.part, self.truth = sequences, part, truth
        self.true_spans = self.spans(truth)

    def spans(self, tags):
        table = bf.spans(xr.DataArray(tags, {"item": self.items}, ["item"]), self.sequences)
        return table.drop(columns="probability")

    def span_f1(self, tags, part):
        """Return precision, recall and F1 in per cent."""
        found, true = (
            {
                tuple(row)
                for row in spans[self.part.loc[spans["sequence"]].to_numpy() == part].to_numpy()
            }
            for spans in (self.spans(tags), self.true_spans)
        )
        both = len(found & true)
        return 100 * np.array(
            [both / len(found), both / len(true), 2 * both / (len(found) + len(true))]
        )

    def token_f(self, tags):
        """Return (37): the mean over classes of the harmonic mean of precision and recall."""
        scores = [
            2 * np.sum((tags == name) & (self.truth == name))
            / max(np.sum(tags == name) + np.sum(self.truth == name), 1)
            for name in self.classes
        ]  # fmt: skip
        return float(np.mean(scores))

    def show(self, name, tags, seconds):
        test, val = (self.span_f1(tags, part) for part in ("test", "val"))
        print(
            f"{name:<52}{test[0]:7.2f}{test[1]:7.2f}{test[2]:7.2f}{val[2]:9.2f}"
            f"{self.token_f(tags):8.3f}{seconds:9.1f}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    quick = Arguments(__doc__, "few sentences, few draws").parse_args().quick
    responses, sequences, part, truth = read(200 if quick else 1)
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
    split = sequences.split_raters(responses)
    bio = bf.bio_transitions(classes)
    models = {
        "Dawid–Skene": lambda: DawidSkene(responses),
        "hidden Markov": lambda: HiddenMarkov(responses, sequences),
        "hidden Markov, BIO zeros": lambda: HiddenMarkov(responses, sequences, **bio),
        "Dawid–Skene, raters split by last answer": lambda: DawidSkene(split),
        "hidden Markov, split": lambda: HiddenMarkov(split, sequences),
        "hidden Markov, split, BIO zeros": lambda: HiddenMarkov(split, sequences, **bio),
    }
    for name, build in models.items():
        model = build()
        begun = time.perf_counter()
        point = bf.find_map(model)
        taken = time.perf_counter() - begun
        best = bf.label_probabilities(point).values.argmax(axis=1)
        score.show(f"{name}: mode, tag by tag", classes[best], taken)
        if "Markov" in name:
            score.show(f"{name}: mode, best path", bf.decode(point, model).values, taken)
    for name in ("hidden Markov, BIO zeros", "hidden Markov, split, BIO zeros"):
        posterior(name, models[name](), score, classes, 20 if quick else 1000)
    print(PUBLISHED)


def posterior(name, model, score, classes, draws):
    """Sample, score the labels, and check the calibration of the spans' probabilities."""
    import arviz as az

    begun = time.perf_counter()
    result = bf.sample(model, draws, random_seed=1, log_likelihood=False, **QUIET)
    taken = time.perf_counter() - begun
    best = bf.label_probabilities(result).values.argmax(axis=1)
    score.show(f"{name}: posterior, tag by tag", classes[best], taken)
    score.show(f"{name}: posterior, best path", bf.decode(result, model).values, taken)
    posterior = result["posterior"].dataset[["transition", "confusion"]]
    for variable, draws in posterior.items():
        with np.errstate(invalid="ignore"):  # structural zeros never move
            rhat = az.rhat(draws)
        moving = draws.std(("chain", "draw")).values > 0
        worst = np.sort(np.asarray(rhat)[moving])
        print(f"  {variable}: R̂ ≥ 1.01 for {(worst >= 1.01).mean():.1%}, worst {worst[-1]:.3f}")
    found = bf.spans(bf.draw_labels(result, model, 200, random_seed=1), score.sequences)
    keys = ["sequence", "start", "stop", "kind"]
    found["true"] = pd.MultiIndex.from_frame(found[keys]).isin(
        pd.MultiIndex.from_frame(score.true_spans[keys])
    )
    bins = pd.cut(found["probability"], [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    table = found.groupby(bins, observed=True).agg(
        spans=("true", "size"), said=("probability", "mean"), true=("true", "mean")
    )
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()

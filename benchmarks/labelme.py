"""LabelMe: 1,000 images labelled by 59 people, 1,188 without labels, image features for all.

What raters alone, raters and features together, and a classifier trained on the raters' labels say
of the images with and without labels. The features are averages of a network's last layer, reduced
to principal components. The data are read from ../shared/data/labelme, next to the checkout.

    python benchmarks/labelme.py [--components 10 30 50] [--quick]
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import scipy.sparse as sp
from _shared import QUIET, Arguments, data, extras

import bayesfuse as bf
from bayesfuse.models import DawidSkene, ItemTypes

with extras():
    from sklearn.linear_model import LogisticRegression


def read(every):
    """Return responses, true labels and features, of all images or one of so many."""
    folder = data("labelme")
    table = pd.read_csv(folder / "responses.csv.gz")
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    features = np.asarray(sp.load_npz(folder / "features.npz").todense())
    responses = bf.Responses.from_long(table, items=range(len(features)))
    chosen = np.arange(0, len(features), every)
    return responses.take(chosen), truth.loc[chosen].to_numpy(), features[chosen]


def components(features, number, items):
    """Return the first principal components, of standard deviation one, as a table."""
    left, *_ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    scores = left[:, :number] * np.sqrt(len(left))
    return pd.DataFrame(scores, items, columns=[f"component {j + 1}" for j in range(number)])


def show(name, probability, truth, labelled, seconds):
    """Print accuracy and log-loss of the images with labels, then of the others."""
    right = probability.argmax(axis=1) == truth
    loss = -np.log(np.clip(probability[np.arange(len(truth)), truth], 1e-4, 1.0))
    cells = "".join(f"{right[part].mean():9.3f}{loss[part].mean():8.3f}"
                    for part in (labelled, ~labelled))  # fmt: skip
    print(f"{name:<46}{cells}{seconds:9.1f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = Arguments(__doc__, "one image of ten, few components, few draws")
    parser.add_argument("--components", type=int, nargs="+", default=[10, 30, 50])
    options = parser.parse_args()
    if options.quick:
        options.components = [2]
    responses, truth, features = read(10 if options.quick else 1)
    labelled = responses.per_item > 0
    print(f"{'':<46}{'labelled:':>9}{'':>8}{'others:':>9}")
    print(f"{'':<46}{'accuracy':>9}{'loss':>8}{'accuracy':>9}{'loss':>8}{'seconds':>9}")

    def fit(name, model, ways=("mode", "posterior"), draws=500):
        draws, probability = 5 if options.quick else draws, None
        for how in ways:
            if options.quick and how == "posterior" and "components" in name:
                continue  # compiling gradients takes a minute
            begun = time.perf_counter()
            result = (
                bf.find_map(model)
                if how == "mode"
                else bf.sample(model, draws, tune=draws, chains=2, random_seed=1, **QUIET)
            )
            taken = time.perf_counter() - begun
            probability = bf.label_probabilities(result).values
            show(f"{name}: {how}", probability, truth, labelled, taken)
        return probability

    fused = fit("raters alone", DawidSkene(responses))
    for number in options.components:
        frame = components(features, number, responses.items)
        fit(f"raters and {number} components", DawidSkene(responses, covariates=frame))
        for strength in (0.1, 1.0):
            learnt = LogisticRegression(C=strength, max_iter=3000)
            learnt.fit(frame[labelled], fused[labelled].argmax(axis=1))
            name = f"classifier on their labels, C={strength:g}"
            show(name, learnt.predict_proba(frame), truth, labelled, 0.0)
    frame = components(features, options.components[0], responses.items)
    for name, known in ((f"item types and {frame.shape[1]} components", {"covariates": frame}),
                        ("item types", {})):  # fmt: skip
        # item types have no mode
        fit(name, ItemTypes(responses, **known), ways=("posterior",), draws=300)


if __name__ == "__main__":
    main()

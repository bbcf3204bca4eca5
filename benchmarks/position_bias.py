"""Position bias of language models as judges: errors where the right output is shown first.

Twelve raters of LLMBar (Zeng et al. 2024), six models in both orders, compare 419 pairs of outputs.
Effects on the log-odds of an error, by ``bf.decisions.error_traits`` given the labels of
``bf.fuse`` without known labels, and given the true labels. Intervals are of 89 %.

    python benchmarks/position_bias.py [--quick] [--prompt Vanilla] [--write]
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from _shared import Arguments, data

import bayesfuse as bf


def load(prompt: str) -> tuple[bf.Responses, dict[int, str], pd.DataFrame]:
    """Return responses, true labels, and by item and judge which output is shown first."""
    folder = data("llmbar")
    judges = pd.read_csv(folder / "raters.csv.gz")
    judges = judges[judges["prompt"] == prompt].set_index("rater")
    rows = pd.read_csv(folder / "responses.csv.gz")
    rows = rows[rows["rater"].isin(judges.index)]
    output = np.array(["A", "B"], dtype=object)
    order = judges["order"].loc[rows["rater"]].to_numpy()
    judge = judges["model"].loc[rows["rater"]].to_numpy() + ", " + order
    first = pd.DataFrame({"item": rows["item"], "rater": judge})
    first["first"] = output[(order == "swapped").astype(int)]
    table = rows.assign(rater=judge, label=output[rows["label"]])
    truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
    labels = dict(zip(truth.index, output[truth], strict=True))
    responses = bf.Responses.from_long(table[["item", "rater", "label"]])
    return responses, labels, first.drop_duplicates(["item", "rater"])


def main() -> None:
    parser = Arguments(__doc__, "few draws")
    parser.add_argument("--prompt", default="Vanilla")
    options = parser.parse_args()
    responses, truth, first = load(options.prompt)
    fused = bf.fuse(responses, random_seed=1, progressbar=False)
    known = fused.copy()
    classes = responses.classes.tolist()
    true_labels = np.array([classes.index(truth[item]) for item in responses.items.tolist()])
    labels = known["label_draws"]["label"].transpose("sample", "item")
    known["label_draws"] = (
        known["label_draws"]
        .to_dataset()
        .assign(
            label=(
                labels.dims,
                np.tile(true_labels, (labels.sizes["sample"], 1)).astype(labels.dtype),
            )
        )
    )
    for name, result in (("labels of bf.fuse", fused), ("true labels", known)):
        average, judges = bf.decisions.error_traits(
            result, first, draws=20 if options.quick else 200, ci_prob=0.89, random_seed=1
        )
        print(f"\n{options.prompt}, {name}: effect of the right output shown first")
        columns = ["effect", "low", "high", "positive"]
        print(average[["trait", *columns, "spread"]].round(2).to_string(index=False))
        print(judges[["rater", "responses", *columns]].round(2).to_string(index=False))


if __name__ == "__main__":
    main()

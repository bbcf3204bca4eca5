"""Valid arguments of every public function, by name, for the odd ones of `faults.py`."""

from __future__ import annotations

import inspect
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from _fault_cases import FEW

import bayesfuse as bf
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)


def made(*sizes):
    """Return simulated responses."""
    return bf.datasets.simulate_dawid_skene(*sizes, random_seed=1).responses


@cache
def fitted(kind):
    """Return a model of 30 items and a result of it."""
    if kind == "LatentGroup":
        responses = bf.datasets.simulate_dawid_skene(60, 6, 2, random_seed=1).responses
    else:
        responses = bf.datasets.simulate_dawid_skene(30, 5, 3, random_seed=1).responses
    model = {
        "DawidSkene": lambda: DawidSkene(responses),
        "HiddenMarkov": lambda: HiddenMarkov(responses, bf.Sequences.from_lengths([10, 20])),
        "MarkovRandomField": lambda: MarkovRandomField(responses, bf.Graph.grid((5, 6))),
        "LatentGroup": lambda: LatentGroup(responses, [[0, 1, 2], [3, 4, 5]]),
        "ItemTypes": lambda: ItemTypes(responses),
        "graded": lambda: DawidSkene(responses, raters="graded"),
        "LabellingFunctions": lambda: LabellingFunctions(responses),
    }[kind]()
    return model, bf.sample(model, **{**FEW, "draws": 50})


FITTING = {  # what functions are about that need another model than DawidSkene
    "runs": "HiddenMarkov",
    "error_runs": "HiddenMarkov",
    "plot_sequence": "HiddenMarkov",
    "neighbour_agreement": "MarkovRandomField",
    "phase_transition": "MarkovRandomField",
    "plot_sensitivity_specificity": "LatentGroup",
    "plot_graph": "MarkovRandomField",
    "co_assignment": "LatentGroup",
    "group_summary": "LatentGroup",
    "rater_covariance": "LatentGroup",
    "verdict_probabilities": "LatentGroup",
    "difficulty": "ItemTypes",
    "plot_hard_items": "ItemTypes",
    "plot_graders": "graded",
    "rater_table": "LabellingFunctions",
}


@cache
def folder():
    """Return a folder for files that is removed at the end."""
    return tempfile.TemporaryDirectory()


@cache
def export(reader):
    """Return the path of a small export that a reader of `bayesfuse.io` takes."""
    answers = [(n, f"r{r}", "yn"[(n + r) % 2]) for n in range(4) for r in range(2)]
    lines = {
        "read_prodigy": lambda n, who, label: {
            "_input_hash": n,
            "_annotator_id": who,
            "answer": "accept",
            "accept": [label],
        },
        "read_doccano": lambda n, who, label: {"id": n, "user": who, "label": [label]},
        "read_label_studio": lambda n, who, label: {"id": n, "annotator": who, "label": label},
        "read_mturk": lambda n, who, label: {
            "HITId": n,
            "WorkerId": who,
            "AssignmentStatus": "Approved",
            "Answer.label": label,
        },
        "read_inspect": lambda n, who, label: {
            "id": n,
            "epoch": 1,
            "scores": {who: {"value": {"y": "C", "n": "I"}[label]}},
        },
    }
    rows = [lines[reader](*answer) for answer in answers]
    path = Path(folder().name, f"{reader}.csv")
    if reader in ("read_label_studio", "read_mturk"):
        pd.DataFrame(rows).to_csv(path, index=False)
    elif reader == "read_inspect":
        path = path.with_suffix(".json")
        path.write_text(json.dumps({"eval": {"model": "m"}, "samples": rows}))
    else:
        path = path.with_suffix(".jsonl")
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@cache
def judged():
    """Return a fit of verdicts on pairs of systems, and the pairs."""
    responses = made(60, 5, 2)
    systems = {"first": ["x", "y", "z"] * 20, "second": ["y", "z", "x"] * 20}
    result = bf.fit(DawidSkene(responses), draws=50, random_seed=1)
    return result, pd.DataFrame({"item": responses.items, **systems})


@cache
def valid(home, name):
    """Return valid values of arguments of a function, by their name."""
    binary = bf.datasets.simulate_dawid_skene(300, 6, 2, random_seed=1).responses
    model, result = fitted(FITTING.get(name, "DawidSkene"))
    responses = model.responses if home is not bf.moments else binary
    if name == "rater_covariance":
        responses = fitted("LatentGroup")[0].responses
    if name == "confusion":
        responses = model.responses
    truth = dict.fromkeys(responses.items.tolist(), 0)
    good = {
        "result": result,
        "model": model,
        "responses": responses,
        "labels": result,
        "truth": truth if home is not bf.datasets else [0, 1, 1],
        "results": {"one": result, "other": fitted("DawidSkene")[1]},
        "graph": bf.Graph.grid((5, 6)),
        "sequences": bf.Sequences.from_lengths([10, 20]),
        "classes": ["O", "B-x", "I-x"],
        "name": "responses" if name == "part" else "x",
        "given": model,
        "concentration": [1.0, 2.0],
        "shares": [0.2, 0.8],
        "n_classes": 3,
        "n_items": 20,
        "n_raters": 4,
        "degree": 3.0,
        "size": 3,
        "source": binary,
        "covariance": bf.moments.covariance(binary),
        "draws": 5,
        "random_seed": 1,
        "iterations": 5,
        "progressbar": False,
        "chains": 1,
        "cores": 1,
        "tune": 5,
        "minutes": 0.001,
        "width": 0.2,
        "responses_or_model": model,
        "pairs_of_raters": [responses.raters[:2].tolist()],
        "shown": responses.classes[:2].tolist(),
    }
    if name == "span_scores":
        good |= {"labels": fitted("HiddenMarkov")[1], "scheme": "runs"}
    if name == "spans":
        model, result = fitted("HiddenMarkov")
        good |= {"labels": result, "scheme": "runs"}
    if name == "update":
        made = bf.datasets.simulate_dawid_skene(20, 5, 3, random_seed=2)
        good |= {"result": bf.fit(model, draws=5, random_seed=1), "forgetting": 0.1}
        good["responses"] = made.responses
    if name == "value_of_response":  # all raters have answered all items
        good["repeats"] = True
    if name == "error_traits":
        names = result["label_posterior"]["item"].values
        good["traits"] = pd.DataFrame({"item": names, "length": np.arange(len(names)) % 3.0})
    if name == "best_labels":
        good["costs"] = 1.0 - np.eye(model.responses.n_classes)
    if name.startswith("read_"):
        good["path"] = export(name)
    if "leaderboard" in name:
        good["result"], good["pairs"] = judged()
        good["board"] = bf.decisions.leaderboard(*judged(), random_seed=1)
    if name == "bio_transitions":
        del good["random_seed"]
    return {
        key: good[key]
        for key, parameter in inspect.signature(getattr(home, name)).parameters.items()
        if (
            key in good
            and (parameter.default is parameter.empty or key not in ("n_items",))
            and not (parameter.default is None and key in ("graph", "sequences", "model"))
        )
        or (key == "model" and FITTING.get(name) == "MarkovRandomField")
    }

"""All functions that take a result, and five models to try them on, for several test files."""

import numpy as np

import bayesfuse as bf
from bayesfuse import checks, decisions, plots
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.observation.model import observed
from bayesfuse.results.build import rebuild

QUIET = {"progressbar": False, "quiet": True}
FIT = {"draws": 12, "tune": 10, "chains": 2, "random_seed": 1} | QUIET
N_ITEMS, N_RATERS = 24, 5
GROUPED = [[0, 1], [2, 3]]


def table(seed=0, n_items=N_ITEMS, n_raters=N_RATERS, **names):
    """Answers of five raters, a little better from one to the next, to two classes in turn."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_items) // 4 % 2
    right = rng.random((n_items, n_raters)) < np.linspace(0.65, 0.95, n_raters)
    label = np.where(right, truth[:, None], 1 - truth[:, None])
    classes = names.pop("classes", [0, 1])
    item, rater = np.indices(label.shape).reshape(2, -1)
    names = {
        "items": list(names.get("items", range(n_items))),
        "raters": list(names.get("raters", range(n_raters))),
    }
    columns = {
        "item": [names["items"][n] for n in item],
        "rater": [names["raters"][m] for m in rater],
        "label": [classes[k] for k in label.ravel()],
    }
    return bf.Responses.from_long(columns, **names, classes=list(classes))


def graph_of(responses, width=6):
    return bf.Graph.grid((4, width), items=responses.items.tolist())


def sequences_of(responses, length=6):
    return bf.Sequences.from_lengths([length] * (N_ITEMS // length), items=responses.items.tolist())


def places_of(model):
    """What places the items of a model among each other, as arguments of bf.predict."""
    responses, needs = observed(model)[1].responses, observed(model)[1].labels.needs
    kinds = {"sequences": sequences_of, "graph": graph_of}
    return {name: make(responses) for name, make in kinds.items() if name in needs}


MODELS = {
    "independent": DawidSkene,
    "groups": lambda responses, **kwargs: LatentGroup(
        responses, [[responses.raters.tolist()[m] for m in group] for group in GROUPED], **kwargs
    ),
    "types": ItemTypes,
    "chain": lambda responses, **kwargs: HiddenMarkov(
        responses, sequences_of(responses), **{"raters": "confusion"} | kwargs
    ),
    "graph": lambda responses, **kwargs: MarkovRandomField(
        responses, graph_of(responses), **kwargs
    ),
}


def truth_of(result):
    """Half of the items, by the names that users have for them."""
    probability = result["label_posterior"]["probability"]
    index = {dim: probability.get_index(dim).tolist() for dim in ("item", "class")}
    return {name: index["class"][n % 2] for n, name in enumerate(index["item"][::2])}


def in_single(result):
    """The same draws in single precision."""
    return rebuild(result, result["posterior"].dataset, precision="single")


OF_RESULT = {
    "label_probabilities": bf.label_probabilities,
    "rank_items": decisions.rank_items,
    "expected_errors": decisions.expected_errors,
    "label_scores": lambda r: checks.label_scores(r, truth_of(r)),
    "calibration": lambda r: checks.calibration(r, truth_of(r)),
    "average": lambda r: bf.average({"one": r, "other": r}, {"one": 1, "other": 2}),
    "plot_labels": plots.plot_labels,
}
"""What takes a result with its label probabilities, without a model."""

OF_DRAWS = {
    "summary": bf.summary,
    "common_units": lambda r: bf.checks.common_units({"one": r, "other": r}),
    "rank_raters": decisions.rank_raters,
    "switching": checks.switching,
    "align_labels": bf.checks.align_labels,
    "plot_raters": plots.plot_raters,
    "plot_confusion": plots.plot_confusion,
    "plot_sensitivity_specificity": plots.plot_sensitivity_specificity,
}
"""What takes the draws of a result alone."""

OF_LABEL_DRAWS = {
    "draw_labels without a model": lambda r: bf.draw_labels(r, draws=4),
    "class_shares": lambda r: bf.class_shares(r, np.arange(N_ITEMS) % 2, random_seed=1).shares,
    "select_panel": lambda r: decisions.select_panel(r, draws=4, random_seed=1),
}
"""What takes the joint draws of the labels of a whole result."""

OF_MODEL = {
    "label_probabilities with a model": bf.label_probabilities,
    "decode": bf.decode,
    "draw_labels": lambda r, m: bf.draw_labels(r, m, 4, random_seed=1),
    "expected_errors with a model": lambda r, m: decisions.expected_errors(
        r, m, draws=20, random_seed=1
    ),
    "value_of_response": lambda r, m: decisions.value_of_response(r, m, draws=2, repeats=True),
    "predict": lambda r, m: bf.predict(r, observed(m)[1].responses, model=m, **places_of(m)),
    "pairwise_agreement": lambda r, m: checks.pairwise_agreement(r, m, draws=5, random_seed=1),
    "conditional_dependence": lambda r, m: checks.conditional_dependence(
        r, m, draws=5, random_seed=1
    ),
    "item_difficulty": lambda r, m: checks.item_difficulty(r, m, draws=5, random_seed=1),
    "runs": lambda r, m: checks.runs(
        r, m, sequences_of(observed(m)[1].responses), draws=5, random_seed=1
    ),
    "neighbour_agreement": lambda r, m: checks.neighbour_agreement(
        r, m, graph_of(observed(m)[1].responses), draws=5, random_seed=1
    ),
    "plot_sequence": lambda r, m: plots.plot_sequence(
        r, m, sequences=sequences_of(observed(m)[1].responses)
    ),
}
"""What takes a result and its model, whatever that is."""

OF_SOME = {
    ("groups", "verdict_probabilities"): checks.verdict_probabilities,
    ("groups", "rater_covariance"): lambda r, m: checks.rater_covariance(
        r, observed(m)[1].responses
    ),
    ("graph", "phase_transition"): lambda r, m: checks.phase_transition(
        r, m, draws=5, random_seed=1
    ),
    ("graph", "plot_graph"): lambda r, m: plots.plot_graph(r, graph_of(observed(m)[1].responses)),
    ("types", "difficulty"): lambda r, m: bf.decisions.difficulty(r, m, draws=4),
    ("types", "plots.plot_hard_items"): lambda r, m: plots.plot_hard_items(r, m, draws=4),
    ("groups", "co_assignment"): lambda r, m: checks.co_assignment(r),
    ("groups", "group_summary"): lambda r, m: checks.group_summary(r),
}
"""What takes results of some models only."""


def everything(kind):
    """All that takes results of one kind of model, as functions of result and model."""
    of_result = OF_RESULT | OF_DRAWS | OF_LABEL_DRAWS
    calls = {name: lambda r, m, f=f: f(r) for name, f in of_result.items()} | OF_MODEL
    if kind == "graph":  # labels on a graph have no prevalence
        calls = {name: call for name, call in calls.items() if name not in {"switching"}}
        calls.pop("align_labels")
    if kind == "types":  # whose draws may switch some classes: their labels are worked out anew
        calls["align_labels"] = bf.checks.align_labels
    return calls | {name: call for (own, name), call in OF_SOME.items() if own == kind}

"""Whatever things are called, and however few there are: a picture, or an error in one line."""

import warnings
from dataclasses import replace
from itertools import permutations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import cbook
from matplotlib.text import Text
from pictures import tick_names

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}

ODD = [r"$\frac$", "$", "a_b", "\\", "two\nlines", "", "long " * 100, "_first", "$x$ {y} %", "\a"]


def few(n_items, n_raters, n_classes, names):
    """Labels by raters with the first of some names, or with numbers."""
    rng = np.random.default_rng(n_items + n_raters + n_classes)
    answers = rng.integers(0, n_classes, (n_items, n_raters))
    truth = np.arange(n_items)[:, None] % n_classes
    matrix = np.where(rng.random(answers.shape) < 0.7, truth, answers)
    sizes = {"items": n_items, "raters": n_raters, "classes": n_classes}
    if names:
        named = [f"{name}{n // len(names) or ''}" for n, name in enumerate(names * 5)]
        called = {what: named[:n] for what, n in sizes.items()}
    else:
        called = {what: range(n) for what, n in sizes.items()}
    table = np.asarray(called["classes"], dtype=object)[matrix]
    return bf.Responses.from_matrix(table, missing=(), **called)


class Crowd:
    """Models and results that all pictures are drawn of, made when they are asked for."""

    def __init__(self, n_items, n_raters, n_classes, names=(), *, point=False):
        self.responses = few(n_items, n_raters, n_classes, list(names))
        self.fit = bf.find_map if point else lambda model: bf.sample(model, 10, chains=1, **QUIET)
        items = self.responses.items
        half = (n_items + 1) // 2
        lengths, called = [half, n_items - half][:n_items], list(names[:2]) or [0, 1]
        self.sequences = bf.Sequences.from_lengths(
            lengths, items=items, names=called[: len(lengths)]
        )
        pairs = np.column_stack([items[:-1], items[1:]])
        self.graph = bf.Graph.from_edges(pairs, items=items)
        self.model = HiddenMarkov(self.responses, self.sequences, raters="confusion")
        self.result = self.fit(self.model)

    def of_known_labels(self):
        gold = dict.fromkeys(self.responses.items[:5].tolist(), self.responses.classes[0])
        return bf.sample(bf.models.WeightedVotes(self.responses, gold), 10, **QUIET)

    def of_types(self):
        model = ItemTypes(self.responses)
        return bf.sample(model, 10, chains=1, **QUIET), model

    def of_graders(self):
        model = DawidSkene(replace(self.responses, ordered=True), raters="graded")
        return self.fit(model)

    def checked(self, check, **options):
        return check(self.result, self.model, draws=5, random_seed=1, **options)

    def of_pairs(self):
        items, systems = self.responses.items, self.responses.raters
        first = np.arange(len(items)) % len(systems)
        names = {"first": systems[first], "second": systems[(first + 1) % len(systems)]}
        shown = tuple(self.responses.classes[:2].tolist())
        pairs = pd.DataFrame({"item": items} | names)
        with warnings.catch_warnings():  # one pair has no order that tells strength from place
            warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
            return bf.decisions.leaderboard(
                self.result, pairs, draws=20, shown=shown, random_seed=1
            )

    def truth(self):
        best = bf.label_probabilities(self.result).idxmax("class")
        return dict(zip(best["item"].values.tolist(), best.values.tolist(), strict=True))


CHECKS = bf.checks
PICTURES = {
    "plot_hard_items": lambda c: plots.plot_hard_items(*c.of_types()),
    "plot_calibration": lambda c: plots.plot_calibration(c.result, c.truth()),
    "plot_check": lambda c: plots.plot_check(c.checked(CHECKS.pairwise_agreement, least=1)),
    "plot_class_shares": lambda c: plots.plot_class_shares(
        bf.class_shares(c.result, [str(n % 4 or "$") for n in range(c.responses.n_items)]).shares
    ),
    "plot_confusion": lambda c: plots.plot_confusion(c.result),
    "plot_dependence": lambda c: plots.plot_dependence(
        c.checked(CHECKS.conditional_dependence, least=1)
    ),
    "plot_graders": lambda c: plots.plot_graders(c.of_graders()),
    "plot_graph": lambda c: plots.plot_graph(
        c.result, c.graph, layout=np.indices((c.responses.n_items, 2))[0]
    ),
    "plot_grid": lambda c: plots.plot_grid(c.result, (1, c.responses.n_items)),
    "plot_known_labels": lambda c: plots.plot_known_labels(c.of_known_labels()),
    "plot_labels": lambda c: plots.plot_labels(c.result),
    "plot_leaderboard": lambda c: plots.plot_leaderboard(c.of_pairs()),
    "plot_overview": lambda c: plots.plot_overview(c.result, c.model)["raters"],
    "plot_panel": lambda c: plots.plot_panel(bf.decisions.select_panel(c.result, draws=5)),
    "plot_differences": lambda c: plots.plot_differences(bf.decisions.rank_raters(c.result)),
    "plot_ranks": lambda c: plots.plot_ranks(bf.decisions.rank_raters(c.result)),
    "plot_raters": lambda c: plots.plot_raters(c.result),
    "plot_sensitivity_specificity": lambda c: plots.plot_sensitivity_specificity(c.result),
    "plot_sequence": lambda c: plots.plot_sequence(c.result, c.model),
}


def test_every_picture_is_in_the_table():
    others = ["var_names"]  # in test_with_arviz.py
    assert sorted([*PICTURES, *others]) == plots.__all__


@pytest.fixture(scope="module")
def odd():
    return {k: Crowd(10, 8, k, ODD) for k in (2, 3)}


def figure_of(picture, crowd):
    settings = dict(mpl.rcParams)
    ax = np.atleast_1d(np.asarray(picture(crowd), dtype=object))[0]
    figure = ax.figure.get_figure(root=True)
    figure.draw_without_rendering()  # lays it out, and reads formulas
    assert max(figure.get_size_inches()) <= 20 and dict(mpl.rcParams) == settings
    return figure


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_odd_names(name, odd):
    """Rendering raises no error, and no text is taken for a formula or has lines of its own."""
    crowd = odd[2 if name == "plot_sensitivity_specificity" else 3]
    figure = figure_of(PICTURES[name], crowd)
    for text in figure.findobj(Text):
        assert not cbook.is_math_text(text.get_text())
        assert len(text.get_text()) < 120


def test_texts_are_the_names(odd):
    names = tick_names(plots.plot_raters(odd[3].result)[0])
    shown = {r"\$\frac\$", r"\$", "a_b", "\\", "two lines", "''", "_first"}
    assert len(names) == 8 and shown <= set(names)
    legend = plots.plot_labels(odd[3].result).get_legend().get_texts()
    assert [text.get_text() for text in legend] == [r"\$\frac\$", r"\$", "a_b"]
    point = bf.find_map(DawidSkene(few(6, 3, 2, ["_hidden", "shown"])))
    texts = plots.plot_labels(point).get_legend().get_texts()
    # matplotlib leaves out what begins so
    assert [text.get_text() for text in texts] == ["_hidden", "shown"]


def test_names_that_are_cut_still_differ():
    """Where the middle of names is cut out, it is not the part in which they differ."""
    names = [f"annotator number {m} of the second batch" for m in (7, 12, 30)]
    table = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0], [0, 0, 1]], raters=names)
    point = bf.find_map(DawidSkene(table))
    shown = tick_names(plots.plot_raters(point)[0])
    assert set(shown) == {f"…{m} of the second batch" for m in (7, 12, 30)}


REFUSED = {
    ("plot_check", "one rater"): "no pair of 1 raters",
    ("plot_dependence", "one rater"): "no pair of 1 raters",
    ("plot_class_shares", "one item"): "keep joint draws of the labels",  # a point has none
    ("plot_panel", "one item"): "keep joint draws of the labels",
    ("plot_leaderboard", "one rater"): "A pair must be of two systems",
}
SIZES = {"one rater": ((6, 1, 2), False), "one item": ((1, 4, 2), True)}


@pytest.fixture(scope="module", params=SIZES)
def sized(request):
    size, point = SIZES[request.param]
    return request.param, Crowd(*size, point=point)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_every_size(name, sized):
    """One rater with draws, or one item with a point: a picture or one clear line."""
    which, crowd = sized
    told = REFUSED.get((name, which))
    if told is None:
        assert figure_of(PICTURES[name], crowd)
        return
    with pytest.raises((bf.errors.ModelError, bf.errors.MomentsError), match="Got: ") as error:
        PICTURES[name](crowd)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_groups_of_a_point_are_known():
    """The groups that a model was given count in a point as in draws."""
    responses = few(300, 6, 2, [])
    model = LatentGroup(responses, groups=[[0, 1, 4]])
    point = bf.find_map(model)
    names = "".join(tick_names(plots.plot_dependence(CHECKS.co_assignment(point))))
    assert any("".join(group) in names for group in permutations("014"))
    together = CHECKS.rater_covariance(point, responses)["together"].values
    assert np.flatnonzero(together[0]).tolist() == [0, 1, 4]

"""Samplers against draws from the prior that are weighted by enumeration of all labels."""

import numpy as np
import pytest
from by_importance import Reference, by_item, enumerated, log_rows_of
from scipy.special import log_softmax, logsumexp

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField

pytestmark = pytest.mark.slow

QUIET = {"progressbar": False, "quiet": True, "chains": 2, "cores": 1, "random_seed": 1}
SAID = np.array(
    [[0, 0, 2], [1, 1, 1], [0, 1, -1], [2, 0, 2], [1, -1, 1], [-1, -1, -1]]
)  # the last item has no response
GRID = bf.Graph.grid((2, 3))
RNG = np.random.default_rng(5)
X, WORD = RNG.normal(size=(6, 2)), RNG.dirichlet(np.ones(3), 6)
POPULATION = np.array([0, 0, 1, 1, 1, 2])
GOLD = {1: 1, 3: 2}


def table(n_classes):
    """Return responses with gaps and repeats of one rater."""
    said = np.where(SAID >= n_classes, 0, SAID)
    item, rater = np.nonzero(said >= 0)
    item, rater = np.append(item, [0, 4]), np.append(rater, [1, 0])
    label = np.append(said[said >= 0], [1, 0])
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(6), raters=range(3), classes=range(n_classes),
    )  # fmt: skip


def gold_of(n_classes):
    return {n: min(k, n_classes - 1) for n, k in GOLD.items()}


def eta_of(values, n_classes):
    """Return what is known of items in log-odds, (draws, items, classes)."""
    n_draws = len(next(iter(values.values())))
    found = np.zeros((n_draws, 6, n_classes))
    if "population_shift" in values:
        found = found + values["population_shift"][:, POPULATION]
    if "standard_slope" in values:
        x = (X - X.mean(axis=0)) / X.std(axis=0)
        found = found + np.einsum("nj,sjk->snk", x, values["standard_slope"])
    if "classifier_scale" in values:
        word = np.log(word_of(n_classes))
        found = found + values["classifier_scale"][:, None, None] * (word - word.mean(axis=0))
    return found


def word_of(n_classes):
    word = WORD[:, :n_classes]
    return word / word.sum(axis=1, keepdims=True)


def plain(names, log_share):
    """Return an evaluation of independent labels under confusion matrices."""

    def evaluate(values, n_classes):
        rows = log_rows_of(table(n_classes), values["confusion"])
        return enumerated(by_item(log_share(values, n_classes)), rows, gold_of(n_classes))

    return [*names, "confusion"], evaluate


def tilted(values, n_classes):
    log_share = np.log(values["average_prevalence"])[:, None] + eta_of(values, n_classes)
    return log_softmax(log_share, axis=-1)


def same_for_all(values, n_classes):
    return np.log(np.repeat(values["prevalence"][:, None], 6, axis=1))


def of_types(values, n_classes):
    """Sum types out of items of which something is known, response by response."""
    is_clean = "clean_confusion" in values
    mu = bf.build.Consensus(None, None, 0, is_clean or None).dictionary(n_classes).rows
    rho = mu ** values["trust"][:, None, None]
    rho /= rho.sum(axis=-1, keepdims=True)
    eta = eta_of(values, n_classes)
    eta = np.exp(eta - eta.max(axis=-1, keepdims=True))
    looks = values["competence"][:, :, None, None]
    rows = looks * mu + (1 - looks) * values["guess"][:, :, None]  # (draws, raters, types, answers)
    if is_clean:
        rows[:, :, -n_classes:] = values["clean_confusion"]
    responses = table(n_classes)
    joint = values["type_share"][:, None, :, None] * rho[:, None] * eta[:, :, None]
    joint /= joint.sum(axis=(2, 3), keepdims=True)
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        joint[:, n] *= rows[:, m, :, c][..., None]
    with np.errstate(divide="ignore"):
        log_joint = np.log(joint.sum(axis=2))
    return enumerated(lambda labels: 0.0, log_joint, gold_of(n_classes))


def on_grid(values, n_classes):
    """Return the posterior of labels on a grid with circles, Z by enumeration."""
    edges = [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    field = np.log([0.5, 0.3, 0.2][:n_classes])

    def weigh(labels):
        agree = sum(labels[a] == labels[b] for a, b in edges)
        return values["coupling"] * agree + field[labels].sum()

    rows = log_rows_of(table(n_classes), values["confusion"])
    log_z, *_ = enumerated(weigh, np.zeros_like(rows), {})
    return enumerated(lambda labels: weigh(labels) - log_z, rows, gold_of(n_classes))


def in_sequence(values, n_classes):
    """Sequences of items 5, 4, 3, 2 and 1, 0, with a known label in the middle of the first."""
    log_initial, log_step = np.log(values["initial"]), np.log(values["transition"])

    def weigh(labels):
        found = log_initial[:, labels[5]] + log_initial[:, labels[1]]
        for one, other in [(5, 4), (4, 3), (3, 2), (1, 0)]:
            found = found + log_step[:, labels[one], labels[other]]
        return found

    rows = log_rows_of(table(n_classes), values["confusion"])
    return enumerated(weigh, rows, gold_of(n_classes))


def in_groups(values, n_classes):
    """Sum the verdict of raters 0 and 2 out of every item."""
    responses = table(n_classes)
    verdict = np.zeros((len(values["prevalence"]), 6, n_classes))
    alone = verdict.copy()
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        (alone if m == 1 else verdict)[:, n] += np.log(values["rater_confusion"][:, m, :, c])
    outer = np.log(values["group_confusion"][:, 0])  # (draws, classes, verdicts)
    rows = alone + logsumexp(outer[:, None] + verdict[:, :, None], axis=-1)
    return enumerated(by_item(same_for_all(values, n_classes)), rows, gold_of(n_classes))


TYPES = ["type_share", "trust", "competence", "guess"]
SHIFT, SLOPE = ["population_shift", "population_scale"], ["standard_slope", "slope_scale"]
SEQUENCES = bf.Sequences.from_lengths([4, 2], items=[5, 4, 3, 2, 1, 0])


def types(*known):
    names = {"populations": SHIFT, "covariates": SLOPE, "classifier": ["classifier_scale"]}
    return [*TYPES, *(name for each in known for name in names[each])], of_types


def given(n_classes, *names):
    known = {"populations": POPULATION, "covariates": X, "classifier": word_of(n_classes)}
    return {name: known[name] for name in names}


MODELS = {
    "classifier": (
        lambda r, k, gold: DawidSkene(r, gold=gold, **given(k, "classifier")),
        plain(["average_prevalence", "classifier_scale"], tilted),
    ),
    "graded": (
        lambda r, k, gold: DawidSkene(r, raters="graded", gold=gold),
        plain(["prevalence"], same_for_all),
    ),
    "types of populations": (
        lambda r, k, gold: ItemTypes(r, consensus="levels", gold=gold, **given(k, "populations")),
        types("populations"),
    ),
    "clean types": (
        lambda r, k, gold: ItemTypes(r, consensus="levels", clean=True, gold=gold),
        ([*TYPES, "clean_confusion"], of_types),
    ),
    "clean types of populations": (
        lambda r, k, gold: ItemTypes(
            r, consensus="levels", clean=True, gold=gold, **given(k, "populations")
        ),
        ([*TYPES, "clean_confusion", *SHIFT], of_types),
    ),
    "types of all that is known": (
        lambda r, k, gold: ItemTypes(
            r, consensus="levels", gold=gold, **given(k, "populations", "covariates", "classifier")
        ),
        types("populations", "covariates", "classifier"),
    ),
    "grid": (
        lambda r, k, gold: MarkovRandomField(
            r, GRID, prevalence=[0.5, 0.3, 0.2][:k] / np.sum([0.5, 0.3, 0.2][:k]), gold=gold
        ),
        (["coupling", "confusion"], on_grid),
    ),
    "sequences": (
        lambda r, k, gold: HiddenMarkov(r, SEQUENCES, raters="confusion", gold=gold),
        (["initial", "transition", "confusion"], in_sequence),
    ),
    "groups": (
        lambda r, k, gold: LatentGroup(r, [[0, 2]], gold=gold),
        (["prevalence", "group_confusion", "rater_confusion"], in_groups),
    ),
}
SETTINGS = {
    "gibbs": {},
    "nuts": {"sampler": "nuts", "nuts_sampler": "pymc", "target_accept": 0.95, "tune": 300},
}
CASES = [(name, n_classes, "gibbs") for name in MODELS for n_classes in (2, 3)]
CASES.remove(("types of all that is known", 3, "gibbs"))  # too few effective draws
CASES.remove(("classifier", 2, "gibbs"))  # scaled by NUTS, which takes a minute to compile
CASES += [("graded", 2, "nuts"), ("groups", 2, "nuts")]


def reference(name, n_classes, draws):
    make, (names, evaluate) = MODELS[name]
    model = make(table(n_classes), n_classes, gold_of(n_classes))
    return model, Reference(model, names, lambda v: evaluate(v, n_classes), draws=draws)


@pytest.mark.parametrize(("name", "n_classes", "sampler"), CASES)
def test_means_of_parameters_and_labels(name, n_classes, sampler):
    model, expected = reference(name, n_classes, 20_000)
    assert expected.effective > 150
    result = bf.sample(model, 2000 if sampler == "gibbs" else 400, **SETTINGS[sampler], **QUIET)
    expected.assert_equals(result)
    drawn = bf.draw_labels(result, model, draws=1000, random_seed=2)
    together = (drawn.values[:, :, None] == drawn.values[:, None]).mean(axis=0)
    mean, error = expected.mean(expected.together)
    allowed = 5 * np.hypot(error, 0.5 / np.sqrt(400)) + 1e-6  # of correlated draws
    assert (np.abs(together - mean) <= allowed).all(), (together - mean).round(3)

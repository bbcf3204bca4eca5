"""Shares of groups of which the model knows: against joint draws, and by two routes."""

import numpy as np
import pytest
import xarray as xr
from drawn_results import as_draws, drawn_result

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, MarkovRandomField, WeightedVotes
from bayesfuse.observation.model import observed
from bayesfuse.results import group_shares, item_knowledge

GROUP = np.repeat(["b", "a", "c"], [12, 8, 10])
NUMBER = np.unique(GROUP, return_inverse=True)[1]
TABLE = bf.Responses.from_matrix(
    (np.random.default_rng(1).random((30, 3)) < 0.3 + 0.2 * NUMBER[:, None]).astype(int)
)
INDICATORS = (NUMBER[:, None] == [1, 2]).astype(float)
MODELS = {
    "populations": lambda: DawidSkene(TABLE, populations=GROUP),
    "finer populations": lambda: DawidSkene(TABLE, populations=np.arange(30) % 2 + 2 * NUMBER),
    "covariates": lambda: DawidSkene(TABLE, covariates=INDICATORS),
    "types": lambda: ItemTypes(TABLE, consensus="levels", guesses="even", populations=GROUP),
}


def at_a_point(model, seed=1, draws=100):
    """Return a result of one draw of the parameters, and many of the labels given these."""
    settings = {"tune": 2, "chains": 1, "random_seed": seed, "progressbar": False, "quiet": True}
    result = bf.sample(model, 1, log_likelihood=False, **settings)
    labels = bf.draw_labels(result, model, draws, random_seed=seed).transpose(..., "item")
    result["label_draws"] = xr.DataTree(as_draws(labels.values, TABLE.items, TABLE.classes))
    return result


def dependent():
    """A result of labels in sequence or on a graph."""
    rng = np.random.default_rng(2)
    result = drawn_result((rng.random((100, 30)) < rng.random(30)).astype(int), [0, 1])
    structures = {
        "sequences": (HiddenMarkov, bf.Sequences.from_lengths([15, 15])),
        "graph": (MarkovRandomField, bf.Graph.grid((5, 6))),
    }
    for model, structure in structures.values():
        knowledge = item_knowledge.prior_knowledge(observed(model(TABLE, structure))[1], [])
        assert knowledge.depends
    groups = {name: node.to_dataset() for name, node in result.children.items()}
    item_knowledge.store(groups, knowledge)
    return xr.DataTree.from_dict(groups)


@pytest.mark.parametrize("name", [*MODELS, "sequences or a graph"])
def test_groups_that_the_model_knows_are_counted(name):
    result = at_a_point(MODELS[name]()) if name in MODELS else dependent()
    number, group, names = 30, GROUP, np.unique(GROUP)
    draws = result["label_draws"]["label"].values
    found = bf.class_shares(result, group, ci_prob=0.8, random_seed=1)
    one = found.shares[found.shares["class"] == 1].set_index("group")
    for own in names:
        probability = bf.label_probabilities(result).values[group == own, 1].mean()
        ends = np.quantile(draws[:, group == own].mean(axis=1), [0.1, 0.9])
        share, low, high = (float(one.loc[own, end]) for end in ("share", "low", "high"))
        if ends[0] <= share <= ends[1]:
            assert [low, high] == pytest.approx(list(ends), abs=1e-9)
        else:  # an interval holds its mean, so it ends at the next draw
            assert low <= min(share, ends[0]) and max(share, ends[1]) <= high
        assert one.loc[own, "share"] == pytest.approx(probability)
    row = found.contrasts[found.contrasts["class"] == 1].iloc[0]
    first, second = (draws[:, group == own].mean(axis=1) for own in (row["first"], row["second"]))
    ends = np.quantile(first - second, [0.1, 0.9])
    assert [row["low"], row["high"]] == pytest.approx(ends)
    weighted = (one["share"] * one["items"])[names].sum() / number
    assert weighted == pytest.approx(one.loc["all items", "share"])


def test_knowledge_is_averaged_with_results():
    known, plain = (at_a_point(model) for model in (MODELS["populations"](), DawidSkene(TABLE)))
    code = NUMBER.astype(np.int64)
    votes = bf.vote_shares(TABLE)
    mixed = bf.average({"votes": votes, "known": known}, {"votes": 1, "known": 3})
    np.testing.assert_array_equal(item_knowledge.stored(mixed).unexplained(code), 0.0)
    half = bf.average({"plain": plain, "known": known}, {"plain": 1, "known": 3})
    there = item_knowledge.stored(half)
    np.testing.assert_allclose(there.unexplained(code), 0.25)
    share = plain["posterior"]["prevalence"].values[0, 0]
    by_group = known["posterior"]["population_prevalence"].values[0, 0]
    np.testing.assert_allclose(there.prior, 0.25 * share + 0.75 * by_group[NUMBER])
    gold = {item: 1 for item in range(8)}
    layer = WeightedVotes(TABLE, gold, {"half": half})
    layered = bf.sample(layer, 30, chains=2, random_seed=1, progressbar=False)
    np.testing.assert_allclose(item_knowledge.stored(layered).unexplained(code), 0.25)


def test_averages_with_labels_that_depend_on_other_items():
    results = {"chain": dependent(), "votes": bf.vote_shares(TABLE)}
    del results["votes"]["constant_data"]
    assert item_knowledge.stored(bf.average(results, {"chain": 1, "votes": 3})).depends


def test_what_inputs_leave_unexplained():
    """By the residual of a regression on dummies of the population and the inputs."""
    rng = np.random.default_rng(1)
    code, population = rng.integers(4, size=50), np.repeat([0, 1], 25)
    code[:25] %= 2
    code[25:] = code[25:] % 2 + 2  # within populations
    inputs = code[:, None] + rng.normal(size=(50, 2))
    known = item_knowledge.ItemKnowledge(np.full((50, 2), 0.5), population, inputs)
    design = np.column_stack([population == 0, population == 1, inputs])
    for group, share in enumerate(known.unexplained(code)):
        own = (code == group).astype(float)
        left = own - design @ np.linalg.lstsq(design, own, rcond=None)[0]
        assert share == pytest.approx((left**2).sum() / ((own - own.mean()) ** 2).sum())
    np.testing.assert_array_equal(known.unexplained(population), 0.0)
    plain = item_knowledge.ItemKnowledge(known.prior)
    np.testing.assert_array_equal(plain.unexplained(code), 1.0)


def test_ratios_with_priors_of_items_against_quadrature():
    prior = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.5, 0.5], [0.2, 0.8]])
    probability = np.array([[0.7, 0.3], [0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.4, 0.6]])
    code, left = np.array([0, 0, 0, 1, 1]), np.array([0.8, 0.5])
    drawn = group_shares._ratios(1_500, probability, code, np.random.default_rng(1), prior, left)
    share = (np.arange(2000) + 0.5) / 2000
    evidence, means = np.zeros((2, 2, len(group_shares.SPREAD)))
    for group in (0, 1):
        m = prior[code == group].mean(axis=0)
        ratio = np.column_stack([(1 - share) / m[0], share / m[1]])
        likelihood = (probability[code == group] @ ratio.T) / (prior[code == group] @ ratio.T)
        for at, spread in enumerate(group_shares.SPREAD):
            a = 4 / spread**2 / left[group] * m
            density = (a[1] - 1) * np.log(share) + (a[0] - 1) * np.log1p(-share)
            density = np.exp(density - density.max())
            weight = density / density.sum() * likelihood.prod(axis=0)
            evidence[group, at] = weight.sum()
            means[group, at] = (weight * share).sum() / weight.sum()
    weight = np.exp(-0.5 * group_shares.SPREAD**2) * np.gradient(group_shares.SPREAD)
    weight = weight * evidence.prod(axis=0)
    for group in (0, 1):
        expected = (weight * means[group]).sum() / weight.sum()
        found = (drawn[:, group, 1] * prior[code == group, 1].mean()).mean()
        assert found == pytest.approx(expected, abs=0.017)


def plain_result(gold=False):
    """A result of which the model knows nothing, perhaps with known labels and their residuals."""
    rng = np.random.default_rng(3)
    p = rng.beta(0.6, 1.0, 90)
    draws = (rng.random((200, 90)) < p).astype(int)
    result = drawn_result(draws, ["no", "yes"])
    if gold:
        known = np.where(np.arange(90) % 5 == 0, rng.random(90) < 0.7, -1)
        draws[:, known >= 0] = known[known >= 0]
        result = drawn_result(draws, ["no", "yes"])
        honest = np.where((known >= 0)[:, None], np.column_stack([1 - p, p]), np.nan)
        result["label_posterior"]["left_out"] = xr.DataArray(honest, dims=("item", "class"))
        result["constant_data"] = xr.DataTree(xr.Dataset({"gold": ("item", known)}))
    return result


@pytest.mark.parametrize("gold", [False, True])
def test_groups_by_size_are_the_whole(gold):
    result = plain_result(gold)
    group = np.repeat(["x", "y", "z"], [50, 35, 5])
    found = bf.class_shares(result, group, random_seed=1)
    table = found.shares.set_index(["class", "group"])
    for name in ("no", "yes"):
        own = table.loc[name]
        weighted = (own["share"] * own["items"])[["x", "y", "z"]].sum() / 90
        assert weighted == pytest.approx(own.loc["all items", "share"], abs=1e-9)
        differ = found.contrasts[found.contrasts["class"] == name].iloc[0]
        assert differ["difference"] == pytest.approx(own.loc["x", "share"] - own.loc["y", "share"])
    # other names and another order of the items: the same but for Monte Carlo error
    number = np.array([{"x": 3, "y": 1, "z": 2}[name] for name in group])
    renamed = bf.class_shares(result, number, random_seed=2)
    again = renamed.shares.set_index(["class", "group"])
    for one, other in (("x", 3), ("y", 1), ("z", 2)):
        columns = ["share", "low", "high"]
        np.testing.assert_allclose(
            table.loc[("yes", one), columns].astype(float),
            again.loc[("yes", other), columns].astype(float),
            atol=0.1,
        )
    alone = bf.class_shares(result, ["all"] * 90, random_seed=1).shares
    np.testing.assert_allclose(alone["share"][:2], alone["share"][2:])
    np.testing.assert_array_equal(alone["low"][:2], alone["low"][2:])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_ppi_of_few_known_labels_of_one_class(n_classes):
    """Never without width but where all items are known, and within [0, 1]."""
    rng = np.random.default_rng(2)
    probability = rng.dirichlet(np.full(n_classes, 0.3), 80)
    code = np.repeat([0, 1, 2, 3], [40, 30, 9, 1])
    known = np.flatnonzero((np.arange(80) % 4 == 0) | (code == 2))
    known = known[code[known] != 3]
    honest = np.full_like(probability, np.nan)
    honest[known] = probability[known]
    probability[known] = np.eye(n_classes)[0]
    drawn = group_shares.by_differences(400, probability, honest, code, rng)
    assert drawn.min() >= 0 and drawn.max() <= 1
    np.testing.assert_allclose(drawn.sum(axis=2), 1.0)
    spread = np.quantile(drawn, 0.95, axis=0) - np.quantile(drawn, 0.05, axis=0)
    assert (spread[2] == 0).all() and (drawn[:, 2, 0] == 1).all()
    assert (spread[[0, 1]] > 0.02).all() and (spread[3] > 0.5).all()

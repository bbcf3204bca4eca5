"""Joint draws of the labels, whole paths, spans and runs: frequencies, and after every change."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from refusals import refused
from result_functions import MODELS, QUIET, table

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.observation.model import observed
from bayesfuse.results import joint_labels
from bayesfuse.testing import assert_frequencies, enumerate_labels

TAGS = ["B-A", "I-A", "O"]


@pytest.fixture(scope="module")
def tagged():
    rng = np.random.default_rng(2)
    labels = np.array(TAGS)[rng.integers(0, 3, (7, 2))]
    responses = bf.Responses.from_matrix(labels, items=list("gfedcba"), classes=TAGS)
    sequences = bf.Sequences.from_lengths([4, 3], items=list("abcdefg"), names=["one", "two"])
    model = HiddenMarkov(responses, sequences, **bf.priors.bio_transitions(TAGS))
    point = bf.find_map(model)
    return model, sequences, point, bf.draw_labels(point, model, 4000, random_seed=1)


def test_draws_and_modes_of_whole_paths_are_those_of_their_joint_distribution(tagged):
    """Against all labellings with their probabilities at the point."""
    model, _, point, drawn = tagged
    observation = make_plan(model).observation
    rows = observation.rows({name: point["point"][name].values for name in observation.names})
    exact = enumerate_labels(
        observation.labels,
        observation.label_tables(rows),
        observation.raters.log_lik(observation.tables(rows), observation.rater_structure),
        observation.label_structure,
    )
    assert drawn.dims == ("draw", "item") and drawn["item"].values.tolist() == list("gfedcba")
    radix = 3 ** np.arange(7)[::-1]
    seen = np.bincount(drawn.values.astype(int) @ radix, minlength=3**7).astype(float)
    assert not seen[exact.weight < 1e-14].any()
    assert_frequencies(seen, exact.weight, "paths")
    best = np.array(TAGS)[exact.configurations[np.argmax(exact.weight)]]
    assert bf.decode(point, model).values.tolist() == best.tolist()
    result = bf.sample(model, 5, tune=5, chains=2, random_seed=1, **QUIET)
    one = bf.draw_labels(result, model, 15, random_seed=3)
    assert one.equals(bf.draw_labels(result, model, 15, random_seed=3)) and one.shape == (15, 7)


def test_spans_of_a_path_by_hand():
    path = ["B-X", "I-X", "I-Y", "O", "I-X", "B-X", "I-X", "B-Y", "B-Y"]
    labels = xr.DataArray(path, {"item": range(9)}, ["item"])
    found = bf.spans(labels, bf.Sequences.from_lengths([6, 3]))
    rows = found[["sequence", "start", "stop", "kind"]].values.tolist()
    assert rows == [
        [0, 0, 2, "X"],
        [0, 2, 3, "Y"],
        [0, 4, 5, "X"],
        [0, 5, 6, "X"],
        [1, 0, 1, "X"],  # a sequence never goes on with a span of the one before
        [1, 1, 2, "Y"],
        [1, 2, 3, "Y"],
    ]
    # of two draws the second has Y at two places of X
    other = labels.copy(data=[*path[:5], "I-Y", "I-Y", *path[7:]])
    both = bf.spans(xr.concat([labels, other], "draw"), bf.Sequences.from_lengths([6, 3]))
    share = both.set_index(["sequence", "start", "stop", "kind"])["probability"]
    assert share[0, 4, 5, "X"] == share[1, 1, 2, "Y"] == 1 and len(share) == 9
    assert share[0, 5, 6, "X"] == share[0, 5, 6, "Y"] == share[1, 0, 1, "Y"] == 0.5
    runs = bf.spans(labels, bf.Sequences.from_lengths([9]), scheme="runs")
    assert runs["kind"].tolist() == ["B-X", "I-X", "I-Y", "I-X", "B-X", "I-X", "B-Y"]
    assert runs["stop"].tolist()[-1] == 9


def test_spans_without_kinds():
    path = xr.DataArray(list("BIOIBB"), {"item": range(6)}, ["item"])
    found = bf.spans(path, bf.Sequences.from_lengths([3, 3]))
    assert found[["sequence", "start", "stop", "kind"]].values.tolist() == [
        [0, 0, 2, ""],
        [1, 0, 1, ""],
        [1, 1, 2, ""],
        [1, 2, 3, ""],
    ]


@pytest.mark.parametrize(
    ("classes", "given", "legal"),
    [
        ("BIO", {}, True),
        ("BIO", {"bio": False}, False),
        ("BIO", {"initial": "stationary"}, False),
        ("BIO", {"transition_prior": 1.0}, False),
        ("OIB", {}, False),  # an inside tag begins the spans
        ("ABO", {}, False),
    ],
)
def test_tags_have_legal_transitions(classes, given, legal):
    """B and I after O: of the first two letters, one begins every span of these responses."""
    first, second, other = classes
    said = [first, second, other, first, second, second]
    responses = bf.Responses.from_matrix([[each, each] for each in said])
    paths = bf.Sequences.from_lengths([3, 3])
    model = HiddenMarkov(responses, paths, raters="confusion", **given)
    draw = pm.draw(model["transition"], random_seed=1)
    names = responses.classes.tolist()
    after = draw[names.index("O"), names.index("I")] if "I" in names else 1.0
    assert (after == 0.0) == legal


def test_priors_are_given_or_follow_from_tags():
    responses = bf.Responses.from_matrix([list("BIO"), list("BIO")])
    with pytest.raises(ModelError, match="bio=True chooses the priors"):
        HiddenMarkov(responses, bf.Sequences.from_lengths([2]), bio=True, initial_prior=1.0)


def test_run_lengths_by_hand():
    codes = np.array([[0, 0, 1, 1], [0, 1, 1, 1]], dtype=np.int8)
    labels = xr.DataArray(
        codes, {"item": range(4)}, ["draw", "item"], attrs={"classes": ["a", "b"]}
    )
    found = bf.spans(labels, bf.Sequences.from_lengths([3, 1]), scheme="runs", outside=None)
    runs = found.groupby(["kind", found["stop"] - found["start"]])["probability"].sum()
    assert runs.to_dict() == {("a", 1): 0.5, ("a", 2): 0.5, ("b", 1): 1.5, ("b", 2): 0.5}


def test_labels_of_independent_items_are_drawn_too(tmp_path):
    """Items merged for speed are told apart again, gold stays gold; classes are truth values."""
    made = bf.datasets.simulate_dawid_skene(200, 3, 2, random_seed=1).responses
    responses = bf.Responses.from_matrix(made.label.reshape(200, 3) == 1)
    model = DawidSkene(responses, gold={0: True})
    point = bf.find_map(model)
    drawn = bf.draw_labels(point, model, 2000, random_seed=2)
    share = drawn.mean("draw").values
    probability = bf.label_probabilities(point).values[:, 1]
    error = np.sqrt(probability * (1 - probability) / 2000)
    assert (np.abs(share - probability) <= 5 * error).all()
    assert (drawn.sel(item=0) == 1).all()
    same = np.flatnonzero(probability == probability[5])
    assert len(same) > 1 and (drawn.values[:, same[0]] != drawn.values[:, same[1]]).any()
    assert (bf.decode(point, model).values == (probability > 0.5)).all()
    drawn.to_netcdf(tmp_path / "drawn.nc")
    assert drawn.attrs["classes"] == [False, True]


def parameters_alone(result):
    """The parameters without what they were inferred from: of any table of these raters."""
    return xr.DataTree(children={"point": result["point"]})


def test_bad_requests_are_refused(tagged):
    model, sequences, point, drawn = tagged
    other = DawidSkene(bf.datasets.caries())
    caries, plain = bf.find_map(other), bf.find_map(DawidSkene(observed(model)[1].responses))
    for use, told in (
        (lambda: bf.decode(caries, model), "5 rater names for a model of 2"),
        (lambda: bf.decode(plain, model), r"label prior \(Independent, the model MarkovCh"),
        (lambda: bf.decode(parameters_alone(plain), model), "no 'transition'"),
        (lambda: bf.draw_labels(point, model, 0), "Got: 0"),
        (lambda: bf.draw_labels(caries, other), "expand"),
        (lambda: bf.spans(drawn, bf.Sequences.from_lengths([7])), "labels of 7 items"),
        (lambda: bf.spans(drawn, sequences, scheme="brackets"), "'brackets'"),
        (lambda: bf.spans(drawn, sequences, outside="N"), "'O'"),
    ):
        refused(told, use)


def test_parameters_alone_are_of_any_table_of_these_raters():
    def model(matrix, **names):
        return DawidSkene(bf.Responses.from_matrix(matrix, **names))

    small = [[0, 1, 0], [1, 1, 1], [0, 0, 0]]
    point = bf.find_map(model(small))
    for other, told in (
        (model(np.arange(1000).reshape(20, 50) % 5), "names for a model of"),
        (
            model(small, raters=["x", "y", "z"]),
            "rater names differ from the model's, 0 in place of 'x'",
        ),
        (model(small, classes=[1, 0]), "same class names in another order"),
    ):
        refused(told, bf.decode, parameters_alone(point), other)
    more_items = model([*small, [1, 1, 1]])
    refused("3 item names for a model of 4", bf.decode, point, more_items)
    assert bf.decode(parameters_alone(point), more_items).values.tolist() == [0, 1, 0, 1]


def test_dimensions_are_known_by_name(tagged):
    _, sequences, _, drawn = tagged
    drawn = drawn[:20]
    chains = xr.concat([drawn[:10], drawn[10:]], "chain", join="override")
    expected = bf.spans(drawn, sequences)
    assert bf.spans(drawn.transpose("item", "draw"), sequences).equals(expected)
    assert bf.spans(chains.transpose("draw", "item", "chain"), sequences).equals(expected)


def test_groups_that_are_inferred_are_decoded_at_a_partition_and_not_at_a_mean():
    """Five raters, together in one chain and alone in two: no average of numbers is a group."""
    rng = np.random.default_rng(4)
    model = LatentGroup(bf.Responses.from_matrix(rng.integers(0, 2, (40, 5))), "posterior")
    settings = {"random_seed": 1, "progressbar": False, "quiet": True}
    result = bf.sample(model, 4, tune=2, chains=3, **settings)
    assignment = result["posterior"]["assignment"]
    assignment[:] = -1
    assignment[0, :, 1:4] = 0
    alone = result.isel(chain=[1, 2])
    assert bf.decode(result, model).equals(bf.decode(alone, model))
    assert not bf.decode(result.isel(chain=[0]), model).equals(bf.decode(alone, model))
    with pytest.raises(ModelError, match="whole number per rater"):
        observed(model)[1].raters.at({"assignment": np.full(5, -0.87)}, ())


@pytest.fixture(scope="module")
def sampled():
    model = DawidSkene(table(), gold={0: 1})
    return bf.sample(model, 100, tune=50, chains=2, random_seed=1, **QUIET), model


def share_of(labels, n_classes=2):
    return (labels[..., None] == np.arange(n_classes)).mean(axis=0)


def test_draws_agree_with_the_probabilities(sampled):
    result, _ = sampled
    drawn = result["label_draws"]["label"]
    assert drawn.dims == ("sample", "item") and drawn.shape == (200, 24) and drawn.dtype == np.int8
    probability = bf.label_probabilities(result).values
    # 200 draws that are nearly independent: five standard errors
    error = 5 * np.sqrt(probability * (1 - probability) / 200) + 0.02
    assert (np.abs(share_of(drawn.values) - probability) < error).all()
    assert (drawn.sel(item=0) == 1).all()  # known


def test_without_a_model_the_kept_draws_are_returned(sampled, tmp_path):
    result, model = sampled
    kept = bf.draw_labels(result, draws=50)
    assert kept.dims == ("draw", "item") and kept.attrs == {"classes": [0, 1]}
    assert (kept.values == result["label_draws"]["label"].values[::4]).all()
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as back:
        assert (bf.draw_labels(back, draws=50) == kept).all()
    refused(
        r"limited number .* Got: draws=201, and 200 in the result",
        bf.draw_labels,
        result,
        draws=201,
    )
    assert bf.draw_labels(result, model, 201, random_seed=1).sizes["draw"] == 201
    refused(r"Got: other draws", bf.draw_labels, result.isel(chain=[0]))
    refused(r"bf\.sample keep joint draws", bf.draw_labels, bf.find_map(model))


def test_labels_of_a_chain_are_drawn_jointly():
    model = MODELS["chain"](table())
    result = bf.sample(model, 60, tune=40, chains=2, random_seed=1, **QUIET)
    kept = bf.draw_labels(result, draws=120).values
    anew = bf.draw_labels(result, model, 400, random_seed=2).values
    changes = [(np.diff(labels, axis=1) != 0).sum(axis=1).mean() for labels in (kept, anew)]
    assert abs(changes[0] - changes[1]) < 1.0


def test_what_is_too_large_or_of_counts_is_left_out(monkeypatch):
    monkeypatch.setattr(joint_labels, "MOST", 24 * 60)
    result = bf.sample(DawidSkene(table()), 50, tune=20, chains=2, random_seed=1, **QUIET)
    assert result["label_draws"].sizes == {"sample": 60, "item": 24}
    monkeypatch.setattr(joint_labels, "MOST", 24 * 40)
    result = bf.sample(DawidSkene(table()), 50, tune=20, chains=2, random_seed=1, **QUIET)
    refused(r"more than 19 items.* Got: groups", bf.draw_labels, result)
    counts = bf.Responses.from_counts({"00": 40, "01": 7, "11": 13})
    result = bf.sample(DawidSkene(counts), 20, tune=20, chains=1, random_seed=1, **QUIET)
    refused(r"not on a graph, of counts.* Got: counts, whose shares are", bf.draw_labels, result)


def test_averages_mix_the_draws_of_their_members(sampled):
    result, _ = sampled
    shares = bf.vote_shares(table(), {0: 1})
    both = bf.average({"model": result, "votes": shares}, {"model": 3, "votes": 1})
    drawn = both["label_draws"]["label"].values
    assert drawn.shape == (400, 24)
    probability = bf.label_probabilities(both).values
    assert (np.abs(share_of(drawn) - probability) < 0.13).all()
    assert np.abs(share_of(drawn) - probability).mean() < 0.03
    without = result.copy()
    del without["label_draws"]
    both = bf.average({"model": without, "votes": shares}, {"model": 3, "votes": 1})
    assert "label_draws" not in both.children


def test_members_with_classes_in_another_order_are_translated():
    other = bf.vote_shares(table()).isel({"class": [1, 0], "item": slice(None, None, -1)})
    del other["constant_data"]
    both = bf.average({"votes": bf.vote_shares(table()), "other": other}, {"votes": 1, "other": 9})
    drawn = share_of(both["label_draws"]["label"].values)
    assert np.abs(drawn - bf.label_probabilities(both).values).max() < 0.13


def test_draws_are_fitted_to_other_probabilities():
    """Labels that were always equal remain so, and what is certain is set."""
    rng, items = np.random.default_rng(1), list("gfedcba")
    sequences = bf.Sequences.from_lengths([4, 3], items=list("abcdefg"))
    labels = rng.integers(0, 3, (2000, 7)).astype(np.int8)
    a, b, c, e = (items.index(name) for name in "abce")
    labels[:, b], labels[:, c] = labels[:, a], 2
    drawn = joint_labels.as_draws(labels, np.array(items), np.array(TAGS))
    wanted = rng.dirichlet([2.0, 2.0, 2.0], 7)
    wanted[b], wanted[c], wanted[e] = wanted[a], [0, 0, 1], [0, 1, 0]
    for target in (wanted, np.eye(3)[labels].mean(axis=0)):
        given = xr.Dataset({"probability": (("item", "class"), target)}, {"item": items})
        found = joint_labels.reweighted(drawn, given, sequences)["label"].values
        error = np.eye(3)[found].mean(axis=0) - target
        assert np.abs(error).max() < 0.025  # numbers of copies are rounded: 2 √(.3 / 2000)
        assert (found[:, a] == found[:, b]).all()
    assert (found == labels).all()  # their own probabilities change nothing
    last = xr.DataArray(np.eye(129)[[128]])  # the largest number of a byte is 127
    assert joint_labels.independent(last, 2, rng).tolist() == [[128], [128]]

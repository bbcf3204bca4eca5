"""Label switching: planted permutations are found, undone, and nothing else is touched."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.results.build import rebuild
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
SHAPE = (3, 60, 3)


def with_order(result, order):
    """Return a result whose draws have their classes in another order, as a bad chain would."""
    places, changed = xr.DataArray(order, dims=("chain", "draw", "class")), {}
    posterior = result["posterior"].dataset
    for name, values in posterior.data_vars.items():
        if name.endswith(("sensitivity", "specificity")):  # worked out anew from the rows
            continue
        for dim in {"class", "next_class"} & set(values.dims):
            moved = values.drop_vars(dim).isel({dim: places.rename({"class": dim})})
            values = moved.transpose(*values.dims)
        if name == "rater_confusion":  # of raters alone, the verdict is the truth
            rows = np.take_along_axis(values.values, order[:, :, None, :, None], axis=3)
            alone = result["constant_data"]["assignment"] < 0
            values = xr.where(alone, values.copy(data=rows), values).transpose(*values.dims)
        changed[name] = (values.dims, values.values)
    bad = result.copy()
    bad["posterior"] = xr.DataTree(posterior.assign(changed))
    return bad


def mixed_order():
    order = np.tile(np.arange(3), (*SHAPE[:2], 1))
    order[1] = [1, 2, 0]  # the whole second chain
    order[2, 30:] = [0, 2, 1]  # the third, from its middle on
    return order


@pytest.fixture(scope="module")
def made():
    return bf.datasets.simulate_dawid_skene(100, 8, 3, random_seed=3).responses


def sampled(model, draws=SHAPE[1], chains=3):
    return bf.sample(model, draws, chains=chains, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def plain(made):
    model = DawidSkene(made)
    return model, sampled(model)


@pytest.fixture(scope="module", params=["independent", "chain", "groups"])
def fit(request, made, plain):
    if request.param == "independent":
        return plain
    sequences = bf.Sequences.from_lengths([20] * 5)
    chain = request.param == "chain"
    model = (
        HiddenMarkov(made, sequences, raters="confusion")
        if chain
        else LatentGroup(made, [[0, 1, 2]])
    )
    return model, sampled(model)


def test_planted_switches_are_found_and_undone(fit):
    model, result = fit
    sound = bf.checks.switching(result)
    assert sound.attrs["agree"] and sound.attrs["named"] and not sound["switched"].any()
    assert sound.identical(bf.checks.switching(result, random_seed=1))  # as other checks are called
    assert "not switched in 3 chains" in sound.attrs["verdict"]
    bad = with_order(result, mixed_order())
    found = bf.checks.switching(bad)
    assert found["permutation"].values.tolist()[:2] == [[0, 1, 2], [2, 0, 1]]
    assert found["switched"].values.tolist() == [0, 1, 0.5]
    assert not found.attrs["agree"]
    assert "switched in chains [1" in found.attrs["verdict"]
    back = bf.checks.align_labels(bad, model)
    assert back.attrs["aligned"] == 60 + 30
    assert set(back.children) == set(result.children)
    # log likelihoods, computed anew, do not depend on the names
    for group in ("posterior", "label_posterior", "log_likelihood"):
        for name, values in result[group].data_vars.items():
            xr.testing.assert_allclose(back[group][name], values, atol=1e-9)
    assert bf.checks.switching(back).attrs["agree"]


@pytest.mark.parametrize("part", [slice(30, None), slice(0, 24), slice(None, None, 3)])
@pytest.mark.parametrize("alone", [True, False])
def test_a_first_chain_that_switches_is_no_reference_as_a_whole(plain, part, alone):
    """The mean over two modes is in neither; all draws must end up in one of them."""
    model, result = plain
    order = np.tile(np.arange(3), (*SHAPE[:2], 1))
    order[: 1 if alone else None, part] = [1, 0, 2]
    bad = with_order(result, order)
    moved = (order != np.arange(3)).any(axis=2)
    found = bf.checks.switching(bad)
    share = moved[0].mean()  # of the first chain, half and half is in either mode
    assert found["switched"].values[0] in (share, 1 - share)
    assert not found.attrs["agree"]
    back = bf.checks.align_labels(bad, model)
    assert back.attrs["aligned"] == round(float(found["switched"].sum()) * SHAPE[1])
    assert back.attrs["aligned"] in (moved.sum(), (~moved).sum())
    assert bf.checks.switching(back).attrs["agree"]
    assert bf.checks.switching(result, reference=bad)["switched"].values.tolist() in (
        [[0, 0, 0], [1, 1, 1]]
    )


@pytest.fixture(scope="module", params=["raters", "gold"])
def four_chains(request, made):
    """Raters are better than chance, or most are worse, which known labels tell."""
    if request.param == "raters":
        return sampled(DawidSkene(made), 40, chains=4)
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=80)
    answers = np.where(rng.random((80, 4)) < 0.8, (truth[:, None] + 1) % 3, truth[:, None])
    answers[:, 0] = truth
    responses = bf.Responses.from_matrix(answers, classes=[0, 1, 2], items=list(range(80)))
    gold = {n: int(truth[n]) for n in range(30)}
    return sampled(DawidSkene(responses, gold=gold), 40, chains=4)


@pytest.mark.parametrize("switched", [[0], [3], [0, 2], [1, 3], [0, 1, 3], [1, 2, 3]])
def test_chains_are_aligned_to_the_most_probable_mode(four_chains, switched):
    """However many chains are in another one."""
    order = np.tile(np.arange(3), (4, 40, 1))
    order[switched] = [1, 2, 0] if len(switched) > 1 else [1, 0, 2]
    bad = with_order(four_chains, order)
    found = bf.checks.switching(bad)
    assert f"switched in chains {switched} of 4: bf.checks.align_labels" in found.attrs["verdict"]
    assert found["switched"].values.tolist() == [float(n in switched) for n in range(4)]
    back = bf.checks.align_labels(bad)
    for name in ("confusion", "prevalence", "sensitivity"):
        xr.testing.assert_allclose(back["posterior"][name], four_chains["posterior"][name])
    labels = (bf.label_probabilities(each) for each in (back, four_chains))
    xr.testing.assert_allclose(*labels)


def test_verdicts_recommend_what_helps(made):
    """Not align_labels where it is refused, or where doubt would be left out."""
    result = sampled(DawidSkene(made, raters="coin"), 20, chains=2)
    order = np.tile(np.arange(3), (2, 20, 1))
    order[1] = [1, 2, 0]
    verdict = bf.checks.switching(with_order(result, order)).attrs["verdict"]
    assert "start all chains at one point" in verdict and "align_labels" not in verdict
    agreed = bf.Responses.from_matrix(np.tile([[0], [1]], (8, 4)), classes=[0, 1])
    vague = DawidSkene(agreed, confusion_prior=[[1.1, 1.0], [1.0, 1.1]])
    verdict = bf.checks.switching(sampled(vague, 200, chains=2)).attrs["verdict"]
    assert "in doubt which class is which, and gold labels would settle it" in verdict


def test_what_a_result_stores_needs_no_model(plain):
    model, result = plain
    bad = with_order(result, mixed_order())
    one, other = bf.checks.align_labels(bad), bf.checks.align_labels(bad, model)
    xr.testing.assert_allclose(one["label_posterior"].dataset, other["label_posterior"].dataset)
    assert (
        bf.checks.align_labels(with_order(result, np.tile([0, 1, 2], (3, 60, 1)))).attrs["aligned"]
        == 0
    )


def test_one_permutation_of_all_draws_needs_no_model(fit):
    _, result = fit
    order = np.tile([2, 0, 1], (*SHAPE[:2], 1))
    bad = with_order(result, order)
    probability = result["label_posterior"].dataset
    bad["label_posterior"] = xr.DataTree(
        probability.assign(
            {name: (v.dims, v.values[:, [2, 0, 1]]) for name, v in probability.data_vars.items()}
        )
    )
    bad = rebuild(bad, bad["posterior"].dataset)
    assert bf.checks.switching(bad).attrs["agree"]  # with each other
    assert not bf.checks.switching(bad).attrs["named"]
    assert not bf.checks.switching(bad, reference=result).attrs["agree"]
    back = bf.checks.align_labels(bad, reference=result)
    xr.testing.assert_allclose(
        bf.label_probabilities(back), bf.label_probabilities(result), atol=1e-12
    )
    xr.testing.assert_allclose(
        back["posterior"]["specificity"], result["posterior"]["specificity"], atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "draws_alike"), [("independent", True), ("chain", False)])
def test_known_truths_keep_their_names(made, kind, draws_alike):
    """Log likelihoods of a bad run with known labels are not those of its permutation."""
    gold = {0: 1, 7: 2, 30: 0}
    build = {
        "independent": lambda: DawidSkene(made, gold=gold),
        "chain": lambda: HiddenMarkov(
            made, bf.Sequences.from_lengths([20] * 5), gold=gold, raters="confusion"
        ),
    }[kind]
    model = build()
    result = sampled(model)
    order = np.tile([2, 0, 1], (*SHAPE[:2], 1)) if draws_alike else mixed_order()
    bad = with_order(result, order)
    for group in ("log_likelihood", "label_posterior"):  # are computed anew
        zeros = result[group].dataset.map(np.zeros_like)
        bad[group] = xr.DataTree(zeros.assign_attrs(result[group].attrs))
    true = result["log_likelihood"]["responses"]
    back = bf.checks.align_labels(bad, model, reference=result)
    assert np.allclose(back["log_likelihood"]["responses"], true, atol=1e-9)
    xr.testing.assert_allclose(
        bf.label_probabilities(back), bf.label_probabilities(result), atol=1e-9
    )
    assert bf.label_probabilities(back).sel(item=7, **{"class": 2}) == 1


def test_what_is_not_of_permuted_draws_goes(plain):
    result = plain[1].copy()
    rng = np.random.default_rng(1)
    order = np.tile([2, 0, 1], (*SHAPE[:2], 1))
    density = {name: (("chain", "draw"), rng.random(SHAPE[:2])) for name in ("lp", "step_size")}
    result["sample_stats"] = xr.DataTree(xr.Dataset(density))
    result["log_prior"] = xr.DataTree(xr.Dataset({"prevalence": density["lp"]}))
    bad = with_order(result, order)
    bad = rebuild(bad, bad["posterior"].dataset)
    back = bf.checks.align_labels(bad, reference=result)
    assert back.attrs["dropped"] == "log_prior, lp"
    assert "log_prior" not in back.children and list(back["sample_stats"].data_vars) == [
        "step_size"
    ]
    assert "lp" in bad["sample_stats"] and "log_prior" in bad.children
    kept = bf.checks.align_labels(result)
    assert "lp" in kept["sample_stats"] and "log_prior" in kept.children


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rates_belong_to_the_matrices_they_are_of(made, n_classes):
    """Group members' verdicts keep their order, raters alone go with the truth, rates with both."""
    responses = made
    if n_classes == 2:
        responses = bf.datasets.simulate_dawid_skene(100, 8, 2, random_seed=3).responses
    result = sampled(LatentGroup(responses, [[0, 1, 2]]), 20, 1)
    order = np.broadcast_to(np.roll(np.arange(n_classes), 1), (1, 20, n_classes))
    switched = bf.checks.align_labels(result, reference=with_order(result, order))
    before, after = result["posterior"].dataset, switched["posterior"].dataset
    members, alone = {"rater": [0, 1, 2]}, {"rater": [3, 4, 5, 6, 7]}
    for name in ("sensitivity", "specificity"):
        verdict = f"verdict_{name}"
        assert after[verdict].isel(members).equals(before[verdict].isel(members))
        assert after[verdict].isel(alone).values.tolist() == after[name].isel(alone).values.tolist()
        assert not after[name].equals(before[name])
    rows = "rater_confusion"
    assert after[rows].isel(members).equals(before[rows].isel(members))
    own, truth = (after[name].isel(alone).values for name in (rows, "confusion"))
    assert_close(own, truth, "matrices of raters alone")


@pytest.mark.slow
def test_classes_that_hardly_occur_are_no_alarm():
    """A class without items has only its prior: its draws are anywhere, but that is no switch."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 80)
    matrix = np.where(rng.random((80, 5)) < 0.8, truth[:, None], 1 - truth[:, None])
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1, 2, 3])
    result = sampled(DawidSkene(responses), 200)
    found = bf.checks.switching(result)
    assert (found["permutation"].values == [0, 1, 2, 3]).all()
    assert found["switched"].max() < 0.02


@pytest.mark.slow
def test_accuracies_cannot_be_permuted(made):
    result = sampled(DawidSkene(made, raters="coin"))
    assert bf.checks.switching(result).attrs["agree"]
    with pytest.raises(ModelError, match="models with accuracies cannot be permuted"):
        bf.checks.align_labels(with_order(result, mixed_order()))


def test_labels_that_were_drawn_stay_drawn_where_probabilities_are_computed_anew():
    """On a graph with circles, where belief propagation is an approximation."""
    responses = bf.Responses.from_matrix(
        np.random.default_rng(2).integers(0, 2, (6, 4)), classes=[0, 1]
    )
    graph = bf.Graph.from_edges([(i, j) for i in range(6) for j in range(i)], items=range(6))
    rows = np.array([[[8.0, 2.0], [3.0, 7.0]]] * 4)
    with pm.Model(coords={"class": [0, 1], "rater": range(4)}) as model:
        pm.Deterministic("prevalence", pt.as_tensor([0.5, 0.5]), dims="class")
        confusion = pm.Dirichlet(
            "confusion", rows, dims=("rater", "class", "answer"), shape=(4, 2, 2)
        )
        coupling = pm.HalfNormal("coupling", 1.0)
        bf.build.observe(
            responses, labels=bf.build.Potts(coupling, graph), raters=bf.build.Confusion(confusion)
        )
    result = bf.sample(model, 60, chains=2, cores=1, random_seed=1, **QUIET)
    order = np.tile([0, 1], (2, 60, 1))
    order[1] = [1, 0]
    bad = with_order(result, order)
    drawn = result["label_draws"].dataset.copy(deep=True)
    drawn["label"][1] = 1 - drawn["label"][1]
    bad["label_draws"] = xr.DataTree(drawn)
    back = bf.checks.align_labels(bad, model, reference=result)
    assert back.attrs["aligned"] >= 60
    assert (back["posterior"]["confusion"] == result["posterior"]["confusion"]).all()
    found, true = (each["label_posterior"] for each in (back, result))
    assert found.attrs["exact"] == 1 and found.attrs["method"] == true.attrs["method"]
    assert_close(found["probability"].values, true["probability"].values, "label probability")

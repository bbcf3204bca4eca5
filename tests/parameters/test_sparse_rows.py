"""Dirichlet rows with structural zeros: densities, draws, and those of spans."""

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.testing import assert_close

MASK = np.array([[1.0, 2.0, 0.0], [0.5, 1.0, 1.0], [0.0, 0.0, 3.0]])


def test_sparse_rows_are_dirichlet_rows_of_what_is_left():
    with pm.Model() as model:
        rows = bf.dirichlet("rows", MASK)
    point = {"rows_logratio__": np.array([0.3, -0.2, 0.5])}
    natural = model.rvs_to_transforms[rows].backward(point["rows_logratio__"]).eval()
    assert (natural[MASK == 0] == 0).all()
    assert_close(natural.sum(axis=1), np.ones(3), "row sums")
    parts = [natural[0, :2], natural[1]]
    with pm.Model() as whole:
        two = [bf.dirichlet("a", MASK[0, :2]), bf.dirichlet("b", MASK[1])]
    values = {
        whole.rvs_to_values[rv].name: whole.rvs_to_transforms[rv].forward(part).eval()
        for rv, part in zip(two, parts, strict=True)
    }
    expected = whole.compile_fn(whole.logp(), point_fn=True)(values)
    assert model.compile_fn(model.logp(), point_fn=True)(point) == pytest.approx(expected)


def test_rows_far_out_are_finite():
    with pm.Model() as model:
        rows = bf.dirichlet("rows", MASK)
    far = np.array([800.0, -900.0, 700.0])
    transform = model.rvs_to_transforms[rows]
    assert np.isfinite(transform.to_log(far)[MASK > 0]).all()
    assert np.isfinite(transform.backward(far).eval()).all()


def test_prior_draws_of_sparse_rows_have_their_moments():
    with pm.Model():
        rows = bf.dirichlet("rows", MASK)
    drawn = pm.draw(rows, 2000, random_seed=1)
    total = MASK.sum(axis=1, keepdims=True)
    mean = MASK / total
    error = np.sqrt(mean * (1 - mean) / (total + 1) / 2000)
    assert (np.abs(drawn.mean(axis=0) - mean) <= 5 * error).all()
    assert (drawn[:, MASK == 0] == 0).all()


@pytest.mark.parametrize("bad", [[[1.0, -1.0]], [[np.inf, 1.0]], [[0.0, 0.0], [1.0, 1.0]]])
def test_bad_concentrations_are_refused(bad):
    with pm.Model(), pytest.raises(ModelError, match="Got: "):
        bf.dirichlet("rows", bad)


def test_bio_tags():
    classes = ["O", "B-PER", "I-PER", "B-LOC"]
    found = bf.bio_transitions(classes, weight=2.0)
    assert found["initial_prior"].tolist() == [2, 2, 0, 2]
    outside, inside = [2, 2, 0, 2], [2, 2, 2, 2]
    assert found["transition_prior"].tolist() == [outside, inside, inside, outside]
    for tags, told in ((["O", "I-LOC"], "'I-LOC' without 'B-LOC'"), (["N", "B-LOC"], "'N'")):
        with pytest.raises(ModelError, match=told):
            bf.bio_transitions(tags)
    assert bf.bio_transitions(["N", "B-LOC"], outside="N")["initial_prior"].tolist() == [1, 1]
    plain, named = bf.bio_transitions(list("BIO")), bf.bio_transitions(["B-X", "I-X", "O"])
    assert plain["transition_prior"].tolist() == named["transition_prior"].tolist()
    with pytest.raises(ModelError, match="'I' without 'B'"):
        bf.bio_transitions(["O", "I"])

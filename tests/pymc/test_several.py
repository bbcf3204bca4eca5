"""Models that observe several tables: labels of each, and the model of one."""

import numpy as np
import pymc as pm
import pytest
from coordinates import coordinates

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}
CONFUSION = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]], [[0.6, 0.4], [0.2, 0.8]],
                      [[0.7, 0.3], [0.4, 0.6]]])  # fmt: skip
ROWS = np.ones((4, 2, 2)) + 3 * np.eye(2)


def made(n_items, share, seed, **names):
    one = bf.datasets.simulate_dawid_skene(
        n_items, 4, 2, prevalence=share, confusion=CONFUSION, random_seed=seed
    )
    return one.responses, one.truth


FIRST, TRUTH = made(24, [0.3, 0.7], 1)
SECOND, OTHERS = made(16, [0.8, 0.2], 2)


def together(gold=None):
    """Two tables of the same raters."""
    with pm.Model(coords={"table": ["first", "second"], "class": [0, 1]}) as model:
        rows = bf.dirichlet("confusion", ROWS)
        share = pm.Dirichlet("share", np.ones((2, 2)), dims=("table", "class"))
        for n, (name, responses) in enumerate((("first", FIRST), ("second", SECOND))):
            known = gold if n == 0 else None
            bf.observe(responses, labels=bf.Independent(share[n]), raters=bf.Confusion(rows),
                       name=name, gold=known)  # fmt: skip
    return model


@pytest.fixture(scope="module")
def fitted():
    model = together(gold={0: int(TRUTH[0])})
    return model, bf.sample(model, 4, tune=2, chains=1, cores=1, **QUIET)


def joined():
    """The same as one table whose items are of two populations."""
    frames = [FIRST.to_frame(), SECOND.to_frame()]
    frames[1]["item"] += 24
    columns = {c: np.concatenate([f[c] for f in frames]) for c in ("item", "rater", "label")}
    return bf.Responses.from_long(columns, items=range(40)), np.repeat(
        ["first", "second"], [24, 16]
    )


def test_two_tables_are_one_table_of_two_populations():
    """The densities differ by a constant, so the posteriors do not differ."""
    gold = {0: int(TRUTH[0])}
    responses, population = joined()
    whole = DawidSkene(responses, populations=population, confusion_prior=ROWS, gold=gold)
    names = {"share": "population_prevalence", "confusion": "confusion"}
    two, rng, gaps = together(gold), np.random.default_rng(1), []
    for _ in range(3):
        rows = {"share": rng.dirichlet([2, 1], 2), "confusion": rng.dirichlet([2, 1], (4, 2))}
        heights = []
        for model, own in ((two, rows), (whole, {names[n]: v for n, v in rows.items()})):
            logp = model.compile_logp(jacobian=False)
            heights.append(float(logp(coordinates(model, own))))
        gaps.append(heights[0] - heights[1])
    assert_close(gaps, np.full(3, gaps[0]), "difference of log densities", rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_what_a_result_holds(fitted, tmp_path):
    model, result = fitted
    assert result.attrs["tables"] == ["first", "second"]
    sizes = result["second"]["log_likelihood"]["second"].sizes
    assert sizes == {"chain": 1, "draw": 4, "item": 16}
    assert (bf.label_probabilities(result["first"]).values[0] == np.eye(2)[TRUTH[0]]).all()
    result.to_netcdf(tmp_path / "both.nc")
    assert len(bf.decisions.rank_items(result["second"])) == 16
    second = bf.part(model, "second")
    again = bf.label_probabilities(result, second)
    assert_close(again.values, bf.label_probabilities(result["second"]).values, "labels", atol=1e-9)
    bf.checks.conditional_dependence(result, second, draws=4, random_seed=1)
    found = bf.predict(result, SECOND, model=second, draws=4)
    assert_close(bf.label_probabilities(found).values, again.values, "predicted", atol=1e-9)


def test_a_part_is_a_model_of_its_own():
    model = together()
    part = bf.part(model, "first")
    assert {v.name for v in part.free_RVs} == {"confusion", "share"}
    with pm.Model() as alone:
        rows = bf.dirichlet("confusion", ROWS)
        share = pm.Dirichlet("share", np.ones((2, 2)))
        bf.observe(FIRST, labels=bf.Independent(share[0]), raters=bf.Confusion(rows), name="first")
    point = {k: v + 0.1 for k, v in part.initial_point(1).items()}
    assert part.compile_logp()(point) == pytest.approx(
        float(alone.compile_logp()(point)), rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda m: bf.find_map(m), r"bf.part\(model, name\).*\['first', 'second'\]"),
        (lambda m: bf.part(m, "third"), r"\['first', 'second'\]. Got: 'third'"),
        (lambda m: bf.sample(m, 5, sampler="gibbs"), "NUTS, because.*Got: 'gibbs'"),
        (lambda m: bf.sample(m, 5, sweeps=3), "leave sampler= and sweeps= out"),
        (lambda m: bf.part(3, "first"), "must be a pm.Model"),
        (lambda m: bf.part(m, ["first"]), "one of the tables"),
    ],
)
def test_what_is_refused(call, match):
    with pytest.raises(ModelError, match=match):
        call(together())


def test_a_part_needs_a_model_without_potentials():
    model = together()
    with model:
        pm.Potential("more", model["share"][0, 0])
    with pytest.raises(ModelError, match=r"nothing tells.*\['more'\]"):
        bf.part(model, "first")


@pytest.mark.slow
def test_starts_by_values_and_less_stored():
    model = together()
    start = {"confusion": CONFUSION, "share": [[0.3, 0.7], [0.8, 0.2]]}
    stored = {"precision": "single", "thin": 3}
    result = bf.sample(model, 6, tune=5, chains=1, cores=1, start=start, **stored, **QUIET)
    assert {name: result.attrs[name] for name in stored} == stored
    assert result["posterior"]["confusion"].dtype == np.float32
    assert result["posterior"].sizes["draw"] == 2
    for name in ("first", "second"):
        assert next(iter(result[name]["log_likelihood"].values())).dtype == np.float32
        anew = bf.label_probabilities(result, bf.part(model, name))
        assert_close(bf.label_probabilities(result[name]).values, anew.values, name, atol=1e-5)
    with pytest.raises(ModelError, match="free variables"):
        bf.sample(model, 5, tune=5, chains=1, start={"skill": 1.0}, **QUIET)

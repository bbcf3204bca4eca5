"""Large tables in blocks: what they add up is that of the whole, whoever does the work."""

import threading

import numpy as np
import pytensor
import pytest
from conjugate_models import MODELS, typical

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.numerics.threads import threads
from bayesfuse.observation import BlockedResponseModel, ResponseModel
from bayesfuse.observation.model import observed
from bayesfuse.parameters.compiled import without_compilation

QUIET = {"progressbar": False, "quiet": True, "sweeps": 1, "tune": 10, "chains": 2, "cores": 1}


@pytest.fixture
def cut(monkeypatch):
    """Cut tables into blocks of about this many entries."""

    def into(size: int) -> None:
        monkeypatch.setattr("bayesfuse.observation.parts.BLOCK_ENTRIES", size)
        monkeypatch.setattr("bayesfuse.observation.parts.MIN_BLOCKS", 2)
        monkeypatch.setattr("bayesfuse.observation.parts.ENTRIES_PER_TABLE", 0)

    return into


def populations(responses):
    return DawidSkene(responses, populations=np.arange(responses.n_items) % 3)


def abstaining(responses):
    return DawidSkene(responses.completed())


def known(responses):
    gold = dict(zip(responses.items[:9].tolist(), responses.classes[[0, 1, 2] * 3], strict=True))
    return DawidSkene(responses, gold=gold)


def chain(responses):
    ends = np.cumsum([1, 9, 4, 7, 12, 2, 8, 5, 6, 3])
    ends = [0, *ends[ends < responses.n_items], responses.n_items]
    return HiddenMarkov(
        responses,
        bf.Sequences.from_lengths(np.diff(ends), items=responses.items[::-1]),
        raters="confusion",
    )


FITTED = {name: MODELS[name] for name in ("confusion", "coin", "class", "groups")} | {
    "chain": chain,
    "populations": populations,
    "abstaining": abstaining,
    "known": known,
    "types": ItemTypes,
    "graded": lambda r: DawidSkene(r, raters="graded"),
    "pooled": lambda r: DawidSkene(r, pooled=True),
}


def whole(model):
    seen = observed(model)[1]
    return ResponseModel(**{n: getattr(seen, n) for n in ResponseModel.__dataclass_fields__}), seen


@pytest.mark.parametrize("name", FITTED)
def test_sums_over_blocks_are_those_of_the_whole(small, cut, name):
    cut(16)
    model = FITTED[name](small)
    one, seen = whole(model)
    assert isinstance(seen, BlockedResponseModel) and len(seen.parts) > 4
    rows = typical(model)
    total, counts = one.expected(rows)
    with threads(2):
        again, added = seen.expected(rows)
        marginal, evidence = seen.marginal(rows), seen.evidence(rows)[0]
    assert again == pytest.approx(total, rel=1e-10)
    assert evidence == pytest.approx(total, rel=1e-10)
    for key in counts:
        np.testing.assert_allclose(added[key], counts[key], rtol=1e-9, atol=1e-9)
    for mine, other in zip(marginal[1:3], one.marginal(rows)[1:3], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)
    drawn = seen.draw_counts(rows, np.random.default_rng(1))
    for key, value in one.draw_counts(rows, np.random.default_rng(1)).items():
        assert drawn[key].shape == value.shape
        if key not in ("competence", "guess") or name != "types":  # guesses are random
            assert drawn[key].sum() == pytest.approx(
                value.sum()
            )  # every response, label or pair once


@pytest.mark.parametrize("name", ["confusion", "chain", "types"])
def test_drawn_labels_do_not_depend_on_the_number_of_threads(small, cut, name):
    """Many times, in blocks of odd sizes: a race would show."""
    found: dict = {}
    for size in (7, 45):
        cut(size)
        model = FITTED[name](small)
        seen, rows = observed(model)[1], typical(model)
        for cores in (1, 2, 5):
            with threads(cores):
                rng = np.random.default_rng(8)
                drawn = [seen.draw_counts(rows, rng) for _ in range(4)]
            for at, counts in enumerate(drawn):
                for key, value in counts.items():
                    first = found.setdefault((size, at, key), value)
                    assert (first == value).all()
    assert any((found[7, 0, key] != found[7, 1, key]).any() for _, _, key in found)


@pytest.mark.slow
def test_labels_drawn_in_blocks_have_their_probabilities(small, cut):
    """The counts of every class, against what the whole table expects (Poisson–binomial)."""
    cut(16)
    model = FITTED["confusion"](small)
    one, seen = whole(model)
    rows, rng, times = typical(model), np.random.default_rng(5), 400
    probability = one.marginal(rows).probability
    drawn = np.array([seen.draw_counts(rows, rng)["prevalence"] for _ in range(times)])
    error = np.sqrt((probability * (1 - probability)).sum(axis=0) / times)
    assert (np.abs(drawn.mean(axis=0) - probability.sum(axis=0)) <= 5 * error).all()
    spread = (probability * (1 - probability)).sum(axis=0)
    np.testing.assert_allclose(drawn.var(axis=0), spread, rtol=5 * np.sqrt(2 / times))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["confusion", "chain"])
def test_results_in_blocks_are_those_of_the_whole(small, cut, name):
    """Log likelihoods at the same draws."""
    cut(64)
    other = FITTED[name](small)
    assert isinstance(observed(other)[1], BlockedResponseModel)
    result = bf.sample(other, 10, random_seed=4, **QUIET)
    plain = whole(other)[0]
    seen = result["posterior"].dataset
    for chain, draw in ((0, 0), (1, 9)):
        rows = plain.rows({each: seen[each].values[chain, draw] for each in plain.names})
        np.testing.assert_allclose(
            result["log_likelihood"]["responses"].values[chain, draw],
            plain.marginal(rows).log_evidence,
            rtol=1e-10,
        )


def test_the_density_of_pymc_and_its_gradient_are_those_of_the_whole(small, cut):
    model = FITTED["chain"](small)
    at = model.initial_point()
    for value in at.values():
        value += 0.1 * np.arange(value.size).reshape(value.shape)
    expected = model.compile_logp()(at), model.compile_dlogp()(at)
    cut(16)
    other = FITTED["chain"](small)
    assert isinstance(observed(other)[1], BlockedResponseModel)
    assert other.compile_logp()(at) == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(other.compile_dlogp()(at), expected[1], rtol=1e-9)


def test_inseparable_models_are_not_cut(small, cut):
    cut(16)
    graph = bf.Graph.grid((2, small.n_items // 2), items=small.items)
    sequences = bf.Sequences.from_lengths([small.n_items // 2] * 2, items=small.items)
    for model in (
        MarkovRandomField(small, graph),
        LatentGroup(small, "posterior"),
        HiddenMarkov(small, sequences, initial="stationary"),
    ):
        assert not isinstance(observed(model)[1], BlockedResponseModel)


@pytest.mark.compiled
def test_users_may_sample_in_threads_of_their_own(small, cut):
    cut(64)
    found, mode = {}, pytensor.config.mode

    def work(number):
        model = FITTED["confusion"](small)
        plan, rows = make_plan(model), typical(model)
        rng = np.random.default_rng(6)
        with threads(2):
            found[number] = [plan.observation.draw_counts(rows, rng) for _ in range(20)]

    team = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(3)]
    for each in team:
        each.start()
    for each in team:
        each.join(300)  # else a fault would hang the run
    assert len(found) == 3 and pytensor.config.mode == mode  # which belongs to all threads
    for number in (1, 2):
        for one, other in zip(found[0], found[number], strict=True):
            assert all((one[key] == other[key]).all() for key in one)


def test_fields_draw_the_same_with_any_number_of_threads(cut, monkeypatch):
    """Items of a colour are shared by threads."""
    rng = np.random.default_rng(2)
    responses = bf.Responses.from_matrix(rng.integers(0, 3, (60, 4)), classes=range(3))
    edges = bf.Graph.grid((6, 10)).edges
    graph = bf.Graph.from_edges(edges, weights=rng.uniform(0.5, 2.0, len(edges)))
    serial = make_plan(MarkovRandomField(responses, graph)).observation
    rows = typical(MarkovRandomField(responses, graph))
    begun = serial.draw(rows, np.random.default_rng(5))
    expected = [serial.draw(rows, np.random.default_rng(number), begun) for number in range(5)]
    cut(32)
    monkeypatch.setattr("bayesfuse.labels.potts.MIN_THREADED_ITEMS", 1)
    monkeypatch.setattr("bayesfuse.labels.potts.TASK_ITEMS", 7)
    seen = make_plan(MarkovRandomField(responses, graph)).observation
    assert not isinstance(seen, BlockedResponseModel)
    for cores in (1, 2, 3):
        with threads(cores):
            for number, one in enumerate(expected):
                assert (one == seen.draw(rows, np.random.default_rng(number), begun)).all()


def graph(responses):
    return MarkovRandomField(responses, bf.Graph.nearest_neighbours(np.arange(62.0)[:, None], 2))


@pytest.mark.slow
@pytest.mark.parametrize("build", [*(FITTED[n] for n in ("known", "types", "chain")), graph])
def test_jax_has_the_same_density_in_blocks(small, cut, build):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    from pymc.sampling.jax import get_jaxified_logp

    model, rng = build(small), np.random.default_rng(1)
    at = {
        name: value + rng.normal(0, 0.2, value.shape)
        for name, value in model.initial_point().items()
    }
    with without_compilation():
        density, slope = model.compile_logp()(at), model.compile_dlogp()(at)
    cut(64)
    with jax.enable_x64(True):
        found = jax.jit(jax.value_and_grad(get_jaxified_logp(build(small))))(list(at.values()))
    assert float(found[0]) == pytest.approx(float(density), rel=1e-10)
    slopes = np.concatenate([np.ravel(part) for part in found[1]])
    np.testing.assert_allclose(slopes, slope, rtol=1e-9, atol=1e-9)

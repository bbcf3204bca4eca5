"""What holds of models of every rater channel: density, modes, and sweeps of the sampler."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from kept import assert_kept
from rules import drawn_votes
from scipy.special import gammaln
from typed_crowds import random_crowd

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference import gibbs
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.observation import Observation
from bayesfuse.parameters.partition import draw as draw_partition
from bayesfuse.pymc.model import observed
from bayesfuse.testing import assert_close

CROWD = random_crowd(7, 3, 2, seed=4)
"""Eight items and four raters, with gaps and repeats; the last item and rater have no responses."""


def silent(missing):
    """Every rater speaks of half of the items; of some pairs nothing is known."""
    rng = np.random.default_rng(7)
    said = rng.integers(0, 2, (8, 4)).astype(float)
    said[rng.random(said.shape) < 0.5] = -1
    said[rng.random(said.shape) < missing] = np.nan
    return bf.Responses.from_matrix(said, abstain=-1, raters=range(4), classes=[0, 1])


def stated():
    said = np.random.default_rng(8).dirichlet([0.6, 0.6], (8, 2))
    return CROWD.joined(bf.Responses.from_probabilities(said, raters=[1, 3], classes=[0, 1]))


COLUMN = np.array([[0, -1], [-1, 1], [-1, 2]])
LOOKS = np.full(4, 4.0), np.full(4, 2.0)
GUESS = np.tile([2.0, 1.5], (4, 1))
N_VOTES = np.ones(8, dtype=int)
"""Single votes: several different ones of an item would not be drawn independently."""


def of_votes():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0])
        share = bf.dirichlet("share", [[4.0, 3.0, 1.0], [1.0, 2.0, 3.0]])
        votes = drawn_votes(
            [0.5, 0.5], np.full((2, 3), 1 / 3), COLUMN, N_VOTES, np.random.default_rng(9)
        )[0]
        bf.observe(votes, labels=bf.Independent(prevalence), raters=bf.Votes(share, COLUMN))
    return model


def of_types():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0])
        share = bf.dirichlet("share", np.random.default_rng(5).uniform(0.5, 2.0, (2, 12)))
        competence, guess = pm.Beta("competence", *LOOKS), bf.dirichlet("guess", GUESS)
        raters = bf.Consensus(share, competence, guess)
        bf.observe(CROWD, labels=bf.Independent(prevalence), raters=raters)
    return model


def dawid_skene(responses=CROWD, **arguments):
    return DawidSkene(responses, prevalence_prior=[1.0, 3.0], **arguments)


SILENCE = {"confusion_prior": [[3.0, 1.0, 2.0], [1.5, 2.0, 1.0]]}
MODELS = {
    "confusion": dawid_skene,
    "class": lambda: dawid_skene(raters="class", confusion_prior=[4.0, 2.0]),
    "coin": lambda: dawid_skene(raters="coin", confusion_prior=[4.0, 2.0]),
    "silence": lambda: dawid_skene(silent(0.0), **SILENCE),
    "silence, some missing": lambda: dawid_skene(silent(0.3), **SILENCE),
    "statements": lambda: dawid_skene(stated()),
    "known groups": lambda: LatentGroup(CROWD, [[0, 1, 3]], prevalence_prior=[1.0, 3.0]),
    "inferred groups": lambda: LatentGroup(
        CROWD, "posterior", share_prior=0.3, max_groups=2, prevalence_prior=[1.0, 3.0]
    ),
    "votes": of_votes,
    "types": of_types,
}
SMOOTH = ["coin", "silence", "statements", "known groups", "votes", "types"]


def rows_of_prior(sweep, rng):
    """Draw all parameters: given nothing, conditionals are the prior."""
    drawn = {}
    for name, prior in sweep.priors.items():
        if name == "assignment":
            drawn[name] = draw_partition(4, 2, prior.concentration, rng)
        else:
            drawn[name] = prior.draw(np.zeros(prior.centre().shape), prior.centre(), rng)
    return drawn


def functions(observation, rows):
    """Return bounded functions of the parameters, and of these and the responses."""
    found = {name: np.exp(row) for name, row in rows.items() if name != "assignment"}
    if "assignment" in rows:
        seats = rows["assignment"]
        found["together"] = (seats[:, None] == seats) & (seats >= 0)
        found["together"] = found["together"][np.triu_indices(4, 1)].astype(float)
    return found | {"evidence": observation.marginal(rows).total / observation.n_responses}


@pytest.mark.parametrize("name", MODELS)
def test_sweeps_leave_the_posterior_as_it_is(name):
    """Parameters from the prior, responses from these, one truth in eight known."""
    plan, rng = make_plan(MODELS[name]()), np.random.default_rng(2)
    sweep, whole = gibbs.Sweep.of(plan), plan.observation
    before, after, accepted = [], [], 0
    for _ in range(250):
        rows = rows_of_prior(sweep, rng)
        if name == "votes":  # given how many there are, not from whom
            shares = np.exp(rows["prevalence"]), np.exp(rows["vote_share"])
            table, truth = drawn_votes(*shares, COLUMN, N_VOTES, rng)
        else:
            truth, table = whole.redraw(rows, rng)
        observation = Observation.build(
            table, whole.labels, whole.raters, {table.items[2]: table.classes[truth[2]]}
        )
        before.append(functions(observation, rows))
        own = replace(sweep, observation=observation)
        state = own.begin(rows)
        for _ in range(2):
            state = gibbs.step(own, state, rng)
        rows, accepted = state.rows, accepted + state.accepted
        after.append(functions(observation, rows))
    assert_kept(before, after)
    assert (accepted > 0) == sweep.may_turn  # where classes can be mixed, some sweeps do


def log_dirichlet(alpha, rows):
    """Log density of all rows in their log ratios to one entry each, which adds each log once."""
    normaliser = gammaln(alpha.sum(axis=-1)) - gammaln(alpha).sum(axis=-1)
    return normaliser.sum() + (alpha * rows).sum()


@pytest.mark.parametrize("name", SMOOTH)
def test_the_density_is_that_of_the_prior_and_the_observation(name):
    """And its gradient is that of central differences."""
    model, rng = MODELS[name](), np.random.default_rng(3)
    plan = make_plan(model)
    point = {key: rng.normal(size=value.shape) for key, value in model.initial_point().items()}
    rows = {name: block.read(point) for name, block in plan.blocks.items()}
    # PyMC's coordinates of the prevalence multiply the determinant by the number of classes
    expected = plan.observation.marginal(rows).total + np.log(2)
    for name, block in plan.blocks.items():
        expected += log_dirichlet(block.prior.concentration, rows[name])
    density, gradient = model.compile_logp(), model.compile_dlogp()(point)
    assert_close(density(point), expected, "density")
    slope = []
    for variable in model.value_vars:
        for place in np.ndindex(point[variable.name].shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = {key: value.copy() for key, value in point.items()}
                moved[variable.name][place] += step
                ends.append(density(moved))
            slope.append((ends[0] - ends[1]) / 2e-5)
    # differences lose rounding / step, and the third derivative times step²
    assert_close(gradient, slope, "gradient", rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_modes_are_where_expected_counts_lead_back_to_them(name):
    model = MODELS[name]()
    plan = make_plan(model)
    point = bf.find_map(model, tolerance=1e-13)["point"]
    values = {name: point[block.variable.name].values for name, block in plan.blocks.items()}
    rows = plan.observation.rows(values)
    counts = plan.observation.expected(rows)[1]
    for name, block in plan.blocks.items():
        again = block.prior.maximise(counts[name], rows[name])
        assert_close(np.exp(again), np.exp(rows[name]), name, rtol=1e-4, atol=1e-5)


KNOWN = {"silence": (silent(0.3), bf.Abstaining), "statements": (stated(), bf.Stated)}


@pytest.mark.parametrize("name", KNOWN)
def test_models_take_only_tables_that_their_channel_knows(name):
    table, channel = KNOWN[name]
    sequences = bf.Sequences.from_lengths([3, 5], items=table.items.tolist())
    graph = bf.Graph.from_edges([(0, 1), (1, 2)], items=table.items.tolist())
    for model in (
        DawidSkene(table),
        HiddenMarkov(table, sequences),
        MarkovRandomField(table, graph),
    ):
        assert type(observed(model)[1].raters) is channel
    for make in (
        lambda responses: DawidSkene(responses, raters="coin"),
        lambda responses: DawidSkene(responses, raters="class"),
        lambda responses: DawidSkene(responses, pooled=True),
        lambda responses: LatentGroup(responses, [[0, 1]]),
        ItemTypes,
    ):
        with pytest.raises(ModelError, match=rf"without_{name}\(\).*with {name}"):
            make(table)
        assert make(getattr(table, f"without_{name}")()).free_RVs

"""The check for drift: rare false alarms where nothing drifts, and raters who do are found."""

import numpy as np
import pytest
import xarray as xr
from refusals import refused

import bayesfuse as bf
from bayesfuse.checks.rater_drift import _adjusted, _dirichlet
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, MarkovRandomField
from bayesfuse.numerics.rows import draw_dirichlet

# Small tables: what is asked here is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")

SHARES = [0.5, 0.3, 0.2]
QUIET = {"progressbar": False, "quiet": True}


def days(seed, n_items=(600, 200), n_raters=6, drifting=None, share=0.5, to=None):
    """A table to fit and one to check; ``share`` of a rater's new answers are at random."""
    kind = {"prevalence": SHARES, "accuracy": (0.6, 0.9), "per_item": 4, "random_seed": seed}
    made = bf.datasets.simulate_dawid_skene(sum(n_items), n_raters, 3, **kind)
    old, new = (
        made.responses.take(part) for part in np.split(np.arange(sum(n_items)), n_items[:1])
    )
    if drifting is not None:
        rng, label = np.random.default_rng(seed), new.label
        chosen = (new.rater == drifting) & (rng.random(len(label)) < share)
        label[chosen] = rng.integers(3, size=chosen.sum()) if to is None else to
        new = new.relabelled(label)
    return old, new, made.truth[n_items[0] :]


def check(old, new, seed=0, **kwargs):
    result = bf.fit(DawidSkene(old), draws=200, random_seed=seed, log_likelihood=False)
    return bf.checks.rater_drift(result, new, draws=99, random_seed=seed, **kwargs)


def test_a_rater_who_favours_a_class_is_found_whatever_the_accuracy():
    """Half of the answers become those of the rarest class."""
    old, new, truth = days(2, drifting=4, to=2)
    found, own = check(old, new), new.rater == 4
    assert found["unusual"].values.tolist() == [n == 4 for n in range(6)]
    of_it, right = found.sel(rater=4), (new.label[own] == truth[new.item[own]]).mean()
    assert abs(of_it["observed"] - right) < 0.15 and of_it["observed"] < of_it["low"]
    assert of_it["log_bayes_factor"] > 0 and of_it["responses"] == own.sum()
    assert "1 of 6 raters differ from the fit" in found.attrs["verdict"]
    assert "4 (right in" in found.attrs["verdict"] and "forgetting" in found.attrs["verdict"]


@pytest.mark.slow
def test_known_labels_tell_who_has_changed():
    """Five of six raters change together: without known labels it seems to be the sixth."""
    old, new, truth = days(3)
    swap = np.array([1, 0, 2])
    label = np.where(new.rater < 5, swap[new.label], new.label)
    gold = {item: int(truth[n]) for n, item in enumerate(new.items.tolist())}
    changed = new.relabelled(label)
    assert check(old, changed, gold=gold)["unusual"].values.tolist() == [True] * 5 + [False]
    assert check(old, changed)["unusual"].values[5]


def test_a_fit_of_few_items_is_not_taken_at_its_word():
    """The same new answers are unusual for a rater of whom much is known, not of whom little is."""
    found = {}
    for first in (15, 600):
        made = bf.datasets.simulate_dawid_skene(first, 4, 2, accuracy=(0.9, 0.9), random_seed=5)
        new = bf.datasets.simulate_dawid_skene(60, 4, 2, accuracy=(0.9, 0.9), random_seed=6)
        label = new.responses.label
        own = np.flatnonzero(new.responses.rater == 1)[::4]
        label[own] = 1 - label[own]
        gold = dict(enumerate(made.truth.tolist()))
        result = bf.fit(DawidSkene(made.responses, gold=gold), draws=400, random_seed=1)
        drift = bf.checks.rater_drift(result, new.responses.relabelled(label), random_seed=1)
        found[first] = float(drift["log_bayes_factor"].sel(rater=1))
    assert found[600] > found[15] + 2


@pytest.mark.slow
def test_only_fitted_raters_with_answers_are_compared():
    old, new, _ = days(4)
    frame = new.to_frame().query("rater != 3")
    frame["rater"] = frame["rater"].replace({0: 17})
    found = check(old, bf.Responses.from_long(frame, raters=[17, 1, 2, 3, 4, 5]))
    assert found["rater"].values.tolist() == [1, 2, 4, 5]
    strangers = bf.Responses.from_long(frame.assign(rater=frame["rater"] + 100))
    refused("Drift is checked for fitted raters", check, old, strangers)


@pytest.mark.slow
def test_any_posterior_will_do(tmp_path):
    old, new, _ = days(1, (200, 200), drifting=2, share=1.0)
    types = bf.sample(ItemTypes(old), 20, tune=20, chains=1, random_seed=1, **QUIET)
    types.to_netcdf(tmp_path / "types.nc")
    with xr.open_datatree(tmp_path / "types.nc") as loaded:
        found = bf.checks.rater_drift(loaded, new, draws=40, random_seed=1)
    assert found["unusual"].sel(rater=2)
    sequences = [
        bf.Sequences.from_lengths([each.n_items // 2] * 2, items=each.items) for each in (old, new)
    ]
    chain = bf.fit(HiddenMarkov(old, sequences[0]), draws=40, random_seed=1)
    found = bf.checks.rater_drift(chain, new, sequences=sequences[1], draws=40, random_seed=1)
    assert found["unusual"].sel(rater=2)


def test_what_cannot_be_checked_is_refused():
    old, new, _ = days(1, (24, 10))
    refused("needs posterior draws", bf.checks.rater_drift, bf.find_map(DawidSkene(old)), new)
    graph = bf.Graph.grid((4, 6), items=old.items.tolist())
    result = bf.fit(MarkovRandomField(old, graph), draws=20, random_seed=1)
    refused("need graph", bf.checks.rater_drift, result, new)


def test_dirichlet_rows_have_the_moments_of_draws():
    alpha = np.array([[4.0, 1.0, 0.0], [30.0, 60.0, 10.0]])
    rng = np.random.default_rng(1)
    found = _dirichlet([np.exp(draw_dirichlet(alpha, rng)) for _ in range(4000)]).concentration
    np.testing.assert_allclose(found.sum(axis=1), alpha.sum(axis=1), rtol=0.1)
    np.testing.assert_allclose(found[1] / found[1].sum(), alpha[1] / 100, atol=0.005)


def test_adjusted_p_values_are_those_of_the_largest():
    """By hand: the largest statistic against the largest of all, the next without the first."""
    others = np.array([[-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [1.0, 1.0]])
    seen = np.array([0.5, 3.0])
    # replications reach 0.5 in two of four in the first column, and 3 in none
    np.testing.assert_allclose(_adjusted(seen, others), [3 / 5, 1 / 5])
    seen = np.array([0.6, 0.5])
    # three of four have a largest entry of at least 0.6; the second keeps the larger p-value
    np.testing.assert_allclose(_adjusted(seen, others), [4 / 5, 4 / 5])

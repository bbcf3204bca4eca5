"""Cases of `faults.py` with a known answer: odd tables, extreme parameters, odd names.

Every function here yields ``(name, run, expectation)``.
"""

from __future__ import annotations

import math
import signal
import tempfile
from datetime import date, datetime
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import gammaln, logsumexp

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.observation import ResponseModel

QUICK = {"progressbar": False, "random_seed": 1}
FEW = {"draws": 10, "tune": 10, "chains": 2, "cores": 1, "quiet": True, **QUICK}


def table(n_items, n_raters, n_classes, rows, seed=0):
    """Return responses at random, and declare all items, raters and classes."""
    rng = np.random.default_rng(seed)
    frame = {
        "item": rng.integers(0, n_items, rows),
        "rater": rng.integers(0, n_raters, rows),
        "label": rng.integers(0, n_classes, rows),
    }
    names = {"items": range(n_items), "raters": range(n_raters), "classes": range(n_classes)}
    return bf.Responses.from_long(frame, **names)


def repeats(n_classes):
    """Return one rater's forty answers to each of three items."""
    item = np.repeat([0, 1, 2], 40)
    label = np.random.default_rng(3).integers(0, n_classes, 120)
    frame = {"item": item, "rater": item * 0, "label": label}
    return bf.Responses.from_long(frame, classes=range(n_classes))


TABLES = {
    "one item": (table(1, 4, 3, 6), {}),
    "one rater": (table(5, 1, 3, 9), {}),
    "one response": (table(1, 1, 2, 1), {}),
    "all repeats": (repeats(4), {}),
    "all gold": (table(4, 3, 3, 9), {0: 2, 1: 0, 2: 2, 3: 1}),
    "some gold": (table(5, 3, 3, 12), {1: 2, 4: 0}),
    "empty items": (table(6, 3, 3, 3), {}),
    "empty raters": (table(3, 40, 4, 5), {}),
    "twelve classes": (table(3, 4, 12, 8), {0: 11}),
    "seven classes": (table(4, 2, 7, 8), {}),
    "an unused class": (table(5, 3, 2, 9).relabelled(np.zeros(9, dtype=int)), {}),
    "2,000 answers": (table(3, 5, 3, 2000), {}),
}

ROWS = {  # extreme, but strictly possible; then with structural zeros
    "flat": lambda shape, rng: np.log(np.full(shape, 1 / shape[-1])),
    "ordinary": lambda shape, rng: np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1])),
    "near 1": lambda shape, rng: near_one(shape, rng),
    "e⁻⁵⁰⁰": lambda shape, rng: normal(-500 * rng.random(shape)),
    "zeros": lambda shape, rng: with_zeros(shape, rng),
}


def normal(rows):
    """Normalise log rows."""
    return rows - logsumexp(rows, axis=-1, keepdims=True)


def near_one(shape, rng):
    """Return log rows with one entry close to one."""
    rows = np.full(shape, math.log(1e-12))
    best = rng.integers(0, shape[-1], shape[:-1])
    np.put_along_axis(rows, best[..., None], 0.0, axis=-1)
    return normal(rows)


def with_zeros(shape, rng):
    """Return log rows in which some entries, but never the last, are impossible."""
    rows = np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1]))
    rows[..., :-1] = np.where(rng.random(rows[..., :-1].shape) < 0.3, -np.inf, rows[..., :-1])
    return normal(rows)


def label_priors(n_items, n_classes, draw):
    """Yield every exact label prior, with parameters."""
    half = n_items // 2
    sequences = bf.Sequences.from_lengths([n_items - half, half] if half else [n_items])
    start, move = draw((n_classes,)), draw((n_classes, n_classes))
    yield "independent", bf.build.Independent(None), {"prevalence": start}
    chain = bf.build.MarkovChain(None, None, sequences)
    yield "chain", chain, {"initial": start, "transition": move}
    path = bf.Graph.from_edges([(n, n + 1) for n in range(n_items - 1)], items=range(n_items))
    for coupling in (0.01, 0.7, 30.0):
        prior = bf.build.Potts(coupling, path, np.exp(normal(np.maximum(start, -40.0))))
        yield f"Potts {coupling}", prior, {"coupling": np.array(coupling)}


def check_labels(responses, gold, prior, rows, confusion):
    """Compare label probabilities with enumeration of all labellings."""
    observation = ResponseModel.build(responses, prior, bf.build.Confusion(None), gold)
    n_classes = responses.n_classes
    log_lik = np.zeros((responses.n_items, n_classes))
    for item, rater, label in zip(responses.item, responses.rater, responses.label, strict=True):
        log_lik[item] += confusion[rater, :, label]
    for item, known in gold.items():
        log_lik[item, np.arange(n_classes) != known] = -np.inf
    structure = prior.structure(responses)
    tables = observation.label_tables(rows)
    found = observation.marginal({**rows, "confusion": confusion})
    with np.errstate(invalid="ignore"):  # where no labelling is possible, the total is -inf
        exact = bf.testing.enumerate_labels(prior, tables, log_lik, structure)
    bf.testing.assert_close(found.total, exact.total, "log evidence", rtol=1e-8, atol=1e-8)
    if exact.total == -np.inf:
        return  # there are no probabilities
    probability = found.probability[observation.inverse]
    bf.testing.assert_close(probability, exact.probability, "label probability", atol=1e-8)


def mathematics():
    """Yield label probabilities at extreme parameters to compare with enumeration."""
    for (title, (responses, gold)), (extreme, draw) in product(TABLES.items(), ROWS.items()):
        if responses.n_classes**responses.n_items > 3000:
            continue
        rng = np.random.default_rng(7)
        shape = (responses.n_raters, responses.n_classes, responses.n_classes)
        confusion = draw(shape, rng)
        for kind, prior, rows in label_priors(
            responses.n_items, responses.n_classes, partial(draw, rng=rng)
        ):
            run = partial(check_labels, responses, gold, prior, rows, confusion)
            yield f"labels: {title}, {kind}, rows {extreme}", run, "right"


def collapsed(responses, gold, prevalence, confusion):
    """Return label probabilities of Dawid–Skene, parameters integrated out in closed form."""
    n_items, n_classes = responses.n_items, responses.n_classes
    labels = np.array(list(product(range(n_classes), repeat=n_items)))
    weight = np.empty(len(labels))

    def multinomial(counts, alpha):
        before, after = gammaln(alpha).sum(-1), gammaln(alpha + counts).sum(-1)
        sums = gammaln(alpha.sum(-1)) - gammaln((alpha + counts).sum(-1))
        return (after - before + sums).sum()

    for i, y in enumerate(labels):
        counts = np.zeros((responses.n_raters, n_classes, n_classes))
        np.add.at(counts, (responses.rater, y[responses.item], responses.label), 1)
        of_class = np.bincount(y, minlength=n_classes)
        fits = all(y[item] == known for item, known in gold.items())
        both = multinomial(of_class, prevalence) + multinomial(counts, confusion)
        weight[i] = both if fits else -np.inf
    weight = np.exp(weight - logsumexp(weight))
    return np.array(
        [[weight[labels[:, n] == k].sum() for k in range(n_classes)] for n in range(n_items)]
    )


def check_posterior(responses, gold, concentration):
    """Compare Gibbs sampling with the collapsed posterior."""
    n_classes = responses.n_classes
    prevalence = np.linspace(1, 2, n_classes) * concentration
    diagonal = (bf.priors.diagonal(n_classes)) * concentration
    model = DawidSkene(responses, prevalence_prior=prevalence, confusion_prior=diagonal, gold=gold)
    result = bf.sample(
        model, 4000, tune=500, chains=2, cores=1, sampler="gibbs", quiet=True, **QUICK
    )
    per_rater = np.broadcast_to(diagonal, (responses.n_raters, n_classes, n_classes))
    exact = collapsed(responses, gold, prevalence, per_rater)
    found = bf.label_probabilities(result).values
    # 8,000 draws of slow chains: an effective sample size of about 80 at worst
    assert np.abs(found - exact).max() < 0.06, f"off by {np.abs(found - exact).max():.3f}"


def posteriors():
    """Yield posteriors of tiny tables to compare with enumeration, and fits of odd tables."""
    for title, (responses, gold) in TABLES.items():
        if responses.n_classes**responses.n_items <= 300 and responses.n_responses < 50:
            for concentration in (1.0, 100.0, 1e8):
                run = partial(check_posterior, responses, gold, concentration)
                yield f"posterior: {title}, prior × {concentration:g}", run, "right"
        for concentration in (1e-8, 1.0, 1e8):
            for fit in (fit_map, fit_cavi, fit_gibbs):
                run = partial(check_fit, fit, responses, gold, concentration)
                yield f"{fit.__name__}: {title}, prior {concentration:g}", run, "right"
    big = bf.Responses.from_counts({"010": 10**9, "111": 3, "001": 10**12})
    for fit in (fit_map, fit_cavi, fit_gibbs):
        yield f"{fit.__name__}: 10¹² copies", partial(check_fit, fit, big, {}, 1.0), "right"


def fit_map(model):
    """Fit by EM."""
    return bf.find_map(model)


def fit_cavi(model):
    """Fit by CAVI."""
    return bf.fit(model, draws=10, **QUICK)


def fit_gibbs(model):
    """Fit by Gibbs sampling."""
    return bf.sample(model, **FEW)


def check_fit(fit, responses, gold, concentration):
    """Check that label probabilities are probabilities, and 1 for gold labels."""
    n_classes = responses.n_classes
    model = DawidSkene(
        responses,
        prevalence_prior=np.full(n_classes, concentration),
        confusion_prior=bf.priors.diagonal(n_classes) * concentration,
        gold=gold,
    )
    result = fit(model)
    group = "point" if "point" in result.children else "posterior"
    for name, values in result[group].dataset.items():
        assert np.isfinite(values).all(), f"{name} is not finite"
        least, most = float(values.min()), float(values.max())
        assert -1e-9 <= least <= most <= 1 + 1e-9, f"{name} is outside 0 to 1"
    found = bf.label_probabilities(result).values
    bf.testing.assert_close(
        found.sum(axis=1), np.ones(len(found)), "sum of label probabilities", atol=1e-8
    )
    for item, known in gold.items():
        assert found[item, known] == 1, "gold is not certain"


NAMES = {
    "numbers": [3, 1, 2],
    "negative": [-1, -5, 7],
    "floats": [0.1, 1e300, -2.5],
    "beyond 2⁵³": [2**53, 2**53 + 1, 2**62],
    "uint64": np.array([2**64 - 1, 2**63, 1], dtype=np.uint64),
    "bool-like text": ["True", "False", "None"],
    "empty text": ["", " ", "  "],
    "slashes": ["a/b", "a", "/"],
    "emoji": ["🙂", "é", "e\u0301"],
    "line ends": ["a\n", "a\r\n", "\t"],
    "dollars": ["$x$", "$\\frac$", "%s {0}"],
    "dates": [date(2020, 1, 1), date(2020, 1, 2), date(1999, 1, 1)],
    "datetimes": [datetime(2020, 1, 1), datetime(2020, 1, 2), datetime(1999, 1, 1)],
    "nanoseconds": pd.to_datetime([1, 2, 10**18]),
    "long text": ["a" * 10_000, "a" * 9_999, "b"],
    "null bytes": ["a", "a\0", "b"],
    "number-like text": ["1", "01", "1.0"],
    "timedeltas": pd.to_timedelta([1, 2, 3], "h"),
    "surrogates": ["\ud800", "b", "c"],
}


def round_trip(where, names):
    """Save a result, load it, and compare what both return."""
    short = np.array([[0, 1, 0], [1, 1, 2], [2, 2, 2]])
    given = {"raters": None, "items": None, "classes": None} | {where: names}
    label = list(names) if where == "classes" else [0, 1, 2]
    frame = {"item": [], "rater": [], "label": []}
    axes = {
        "item": names if where == "items" else [0, 1, 2],
        "rater": names if where == "raters" else [0, 1, 2],
    }
    for i, j in product(range(3), range(3)):
        frame["item"].append(axes["item"][i])
        frame["rater"].append(axes["rater"][j])
        frame["label"].append(label[short[i, j]])
    responses = bf.Responses.from_long(frame, **{k: v for k, v in given.items() if v is not None})
    kept = getattr(responses, where).tolist()
    assert len(kept) == 3, f"{names} became {kept}"
    result = bf.sample(DawidSkene(responses), **FEW)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.nc"
        result.to_netcdf(file)
        loaded = xr.open_datatree(file).load()
        loaded.close()
    one, other = bf.label_probabilities(result), bf.label_probabilities(loaded)
    for axis in ("item", "class"):
        same = np.array_equal(one[axis].values, other[axis].values)
        assert same, f"{axis} names changed"
    bf.testing.assert_close(other.values, one.values, "label probabilities")
    for result_ in (result, loaded):
        bf.decisions.expected_errors(result_, DawidSkene(responses), draws=10, random_seed=1)
        bf.decode(result_, DawidSkene(responses))


def interrupted(work):
    """Press Ctrl-C after a third of a second, and check that nothing has changed."""

    struck = []

    def strike(*_):
        struck.append(True)
        signal.raise_signal(signal.SIGINT)

    of_sigint = signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, of_sigint)
    assert struck, "it was over too soon to be interrupted"
    check_labels(*TABLES["some gold"], bf.build.Independent(None), *ordinary())


def ordinary():
    """Return parameters for the table with some gold."""
    rng = np.random.default_rng(1)
    rows = {"prevalence": ROWS["ordinary"]((3,), rng)}
    return rows, ROWS["ordinary"]((3, 3, 3), rng)


def lost():
    """Yield round trips through NetCDF, and interruptions."""
    for (title, names), where in product(NAMES.items(), ("items", "raters", "classes")):
        yield f"round trip: {title} for {where}", partial(round_trip, where, names), "either"
    crowd = bf.datasets.simulate_dawid_skene(3000, 20, 4, random_seed=1).responses
    large = bf.datasets.simulate_dawid_skene(60000, 20, 4, per_item=6, random_seed=1).responses
    chain = bf.Sequences.from_lengths([1000, 2000])
    works = {
        "Gibbs": lambda: bf.sample(DawidSkene(crowd), **{**FEW, "draws": 3000}),
        "EM": lambda: bf.find_map(DawidSkene(large), tolerance=1e-300),
        "CAVI": lambda: bf.fit(DawidSkene(crowd), tolerance=1e-300, **QUICK),
        "sequences": lambda: bf.sample(
            HiddenMarkov(crowd, chain, raters="confusion"), **{**FEW, "draws": 3000}
        ),
        "groups": lambda: bf.sample(LatentGroup(crowd, "posterior"), **{**FEW, "draws": 3000}),
    }
    for title, work in works.items():
        yield f"interrupted: {title}", partial(interrupted, work), "right"

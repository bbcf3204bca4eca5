"""Gibbs against NUTS: smallest effective sample size per second over all confusion entries.

Simulated responses (2,000 items, 10 raters, 4 classes, no missing responses), one model, one prior,
one informed start, 4 chains. Gibbs and NUTS of this package against the same model written in
NumPyro (labels enumerated as in its own example, and summed out by one matrix product, which is
faster) and in plain PyMC sampled by nutpie (labels summed out by ``logsumexp``, after looking
responses up in a table or by one matrix product). Every sampler compiles once, untimed, in its own
process; then they take turns, each after another run of Gibbs: machines are noisy, so the measure
is the ratio of two consecutive runs.

    python benchmarks/gibbs_vs_nuts.py [--quick] [--rounds 3] [--draws 1000] [--only Gibbs NumPyro]
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from multiprocessing import get_context
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from _shared import QUIET, Arguments
from scipy.stats import norm

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene

N_ITEMS, N_RATERS, N_CLASSES = 2_000, 10, 4
PREVALENCE = (0.4, 0.3, 0.2, 0.1)
SEED = 1
CHAINS = 4
PARAMETERS = ["prevalence", "confusion"]

# ---------------------------------------------------------------- the problem


@dataclass(frozen=True)
class Problem:
    """One data set, its prior concentrations, and the start of every chain."""

    responses: bf.Responses
    prevalence: np.ndarray
    confusion: np.ndarray
    start: dict[str, np.ndarray]

    @property
    def labels(self):
        """Everybody's labels, shape (items, raters)."""
        return self.responses.label.reshape(-1, N_RATERS)

    @property
    def one_hot(self):
        """Indicators of (rater, label) by item: ``one_hot @ table`` is the log likelihood."""
        return np.eye(N_CLASSES)[self.labels].reshape(-1, N_RATERS * N_CLASSES)


@cache
def problem(n_items=N_ITEMS):
    responses = bf.datasets.simulate_dawid_skene(
        n_items, N_RATERS, N_CLASSES, prevalence=PREVALENCE, random_seed=SEED
    ).responses
    plan = make_plan(DawidSkene(responses))
    prior = plan.continuous_priors()
    rows = find_start(plan.observation, prior).rows
    start = {name: np.exp(rows[name]) for name in PARAMETERS}
    return Problem(
        responses, prior["prevalence"].concentration, prior["confusion"].concentration, start
    )


# ---------------------------------------------------------------- the contenders
# Each compiles what it needs and returns a function from a seed to the draws and the seconds that
# the sampling loop took (None: all of the call).


def bayesfuse(given: Problem, draws: int, nuts: str | None = None):
    model = DawidSkene(given.responses)
    compiling = _seconds_of_jax_compilation() if nuts == "numpyro" else lambda: 0.0
    options: dict[str, Any] = {}
    if nuts:
        options = {"sampler": "nuts", "nuts_sampler": nuts, "tune": draws}
    options |= QUIET | {"chains": CHAINS}
    bf.sample(model, 10, random_seed=0, **options | {"tune": 10})

    def sample(seed):
        before = compiling()
        result = bf.sample(model, draws, random_seed=seed, **options)
        loop = result["posterior"].attrs["sampling_time"] - (compiling() - before)
        return result["posterior"].dataset[PARAMETERS], loop

    return sample


def numpyro(given: Problem, draws: int, enumerated: bool):
    import numpyro

    numpyro.set_host_device_count(CHAINS)  # before JAX is used
    import jax
    import jax.numpy as jnp
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS, init_to_value
    from numpyro.ops.indexing import Vindex

    labels, one_hot = jnp.asarray(given.labels), jnp.asarray(given.one_hot)
    alpha, beta = jnp.asarray(given.prevalence), jnp.asarray(given.confusion)

    def as_in_its_example():
        with numpyro.plate("rater", N_RATERS, dim=-2), numpyro.plate("class", N_CLASSES):
            confusion = numpyro.sample("confusion", dist.Dirichlet(beta))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(alpha))
        with numpyro.plate("item", len(given.labels), dim=-2):
            parallel = {"enumerate": "parallel"}
            truth = numpyro.sample("truth", dist.Categorical(prevalence), infer=parallel)
            with numpyro.plate("position", N_RATERS):
                rows = Vindex(confusion)[jnp.arange(N_RATERS), truth, :]
                numpyro.sample("label", dist.Categorical(rows), obs=labels)

    def by_product():
        confusion = numpyro.sample("confusion", dist.Dirichlet(beta).to_event(2))
        prevalence = numpyro.sample("prevalence", dist.Dirichlet(alpha))
        table = jnp.log(confusion).transpose(0, 2, 1).reshape(-1, N_CLASSES)
        log_joint = jnp.log(prevalence) + one_hot @ table
        numpyro.factor("labels", jax.scipy.special.logsumexp(log_joint, axis=1).sum())

    start = init_to_value(values={name: jnp.asarray(x) for name, x in given.start.items()})
    kernel = NUTS(as_in_its_example if enumerated else by_product, init_strategy=start)
    mcmc = MCMC(
        kernel,
        num_warmup=draws,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="parallel",
        progress_bar=False,
    )

    def sample(seed):
        mcmc.run(jax.random.PRNGKey(seed))
        found = mcmc.get_samples(group_by_chain=True)
        return {name: np.asarray(found[name], dtype=float) for name in PARAMETERS}, None

    sample(0)
    return sample


def pymc_nutpie(given: Problem, draws: int, product: bool):
    import nutpie
    import pymc as pm

    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", given.prevalence)
        confusion = pm.Dirichlet("confusion", given.confusion)
        log_confusion = pm.math.log(confusion)
        if product:
            table = log_confusion.transpose(0, 2, 1).reshape((-1, N_CLASSES))
            log_lik = pm.math.dot(given.one_hot, table)
        else:
            log_lik = log_confusion[np.arange(N_RATERS), :, given.labels].sum(axis=1)
        pm.Potential("labels", pm.math.logsumexp(pm.math.log(prevalence) + log_lik, axis=1).sum())
    compiled = nutpie.compile_pymc_model(model, initial_points=given.start, jitter_rvs=set())

    def sample(seed, draws=draws, **kwargs):
        result = nutpie.sample(
            compiled, draws=draws, chains=CHAINS, seed=seed, progress_bar=False, **kwargs
        )
        return result["posterior"].dataset[PARAMETERS], None

    sample(0, draws=10, tune=10)
    return sample


def _seconds_of_jax_compilation() -> Callable[[], float]:
    """Return a clock of the time that JAX has spent on tracing and compiling so far."""
    from jax import monitoring

    spent: list[float] = []

    def listen(event: str, seconds: float, **kwargs: Any) -> None:
        if event.startswith("/jax/core/compile"):
            spent.append(seconds)

    monitoring.register_event_duration_secs_listener(listen)
    return lambda: sum(spent)


GIBBS = "bayesfuse Gibbs"
CONTENDERS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    GIBBS: (bayesfuse, ()),
    "bayesfuse NUTS, pymc": (partial(bayesfuse, nuts="pymc"), ()),
    "bayesfuse NUTS, nutpie": (partial(bayesfuse, nuts="nutpie"), ("nutpie",)),
    "bayesfuse NUTS, numpyro": (partial(bayesfuse, nuts="numpyro"), ("jax", "numpyro")),
    "NumPyro, product": (partial(numpyro, enumerated=False), ("jax", "numpyro")),
    "NumPyro, enumerated": (partial(numpyro, enumerated=True), ("jax", "numpyro", "funsor")),
    "PyMC + nutpie, product": (partial(pymc_nutpie, product=True), ("nutpie",)),
    "PyMC + nutpie, look-up": (partial(pymc_nutpie, product=False), ("nutpie",)),
}
"""What each contender is and which modules it needs."""

# ---------------------------------------------------------------- one run, in a worker process


@dataclass(frozen=True)
class Run:
    """One posterior: its cost in seconds, its smallest ESS, its means and their Monte Carlo error.

    ``sampling`` is the sampling loop, ``call`` the whole call, ``cpu`` its processor seconds.
    """

    sampling: float
    call: float
    cpu: float
    ess: float
    mean: np.ndarray
    mcse: np.ndarray

    @property
    def rates(self):
        return self.ess / np.array([self.sampling, self.call, self.cpu])


@cache
def prepared(name: str, n_items: int, draws: int):
    build, _ = CONTENDERS[name]
    return build(problem(n_items), draws)


def run(name: str, n_items: int, draws: int, seed: int) -> Run | None:
    """Sample once; with seed 0 only compile."""
    sample = prepared(name, n_items, draws)
    if seed == 0:
        return None
    cpu, begun = _cpu(), time.perf_counter()
    found, loop = sample(seed)
    call = time.perf_counter() - begun
    cpu = _cpu() - cpu
    if not isinstance(found, xr.Dataset):
        found = az.convert_to_dataset(found)
    return Run(
        call if loop is None else loop,
        call,
        cpu,
        float(az.ess(found[["confusion"]])["confusion"].min()),
        _flat(found.mean(("chain", "draw"))),
        _flat(az.mcse(found)),
    )


def _cpu() -> float:
    """Return the CPU seconds of this process and of its finished workers."""
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _flat(values: xr.Dataset) -> np.ndarray:
    return np.concatenate([np.ravel(values[name].values) for name in PARAMETERS])


# ---------------------------------------------------------------- all runs, and what they say


def missing(name: str) -> list[str]:
    return [module for module in CONTENDERS[name][1] if find_spec(module) is None]


def compete(names: list[str], rounds: int, *size: int):
    """Return every contender's runs, and the ratios Gibbs / contender of adjacent runs."""
    spawn = get_context("spawn")
    workers = {name: ProcessPoolExecutor(1, mp_context=spawn) for name in names}
    runs, ratios = defaultdict(list), defaultdict(list)
    for name, worker in workers.items():
        worker.submit(run, name, *size, 0).result()
    turns = [(name, turn) for turn in range(rounds) for name in names if name != GIBBS]
    for seed, (name, _) in enumerate(turns, start=1):
        ours = workers[GIBBS].submit(run, GIBBS, *size, seed).result()
        theirs = workers[name].submit(run, name, *size, seed).result()
        runs[GIBBS].append(ours)
        runs[name].append(theirs)
        ratios[name].append(ours.rates / theirs.rates)
    for worker in workers.values():
        worker.shutdown()
    return {name: runs[name] for name in names}, ratios


def report(runs: dict[str, list[Run]], ratios: dict[str, list[np.ndarray]]) -> None:
    print("\nMedians over the runs (ESS: the smallest over all confusion entries)")
    columns = ("ESS", "sampling s", "call s", "cpu s", "ESS/sampling s", "ESS/call s", "ESS/cpu s")
    print(f"{'':<26}{'runs':>5}" + "".join(f"{column:>15}" for column in columns))
    for name, found in runs.items():
        row = [[one.ess, one.sampling, one.call, one.cpu, *one.rates] for one in found]
        cells = "".join(f"{value:15,.{0 if value >= 30 else 2}f}" for value in np.median(row, 0))
        print(f"{name:<26}{len(found):5}{cells}")

    print(f"\n{GIBBS} against each, as often as it ran: median ratio of ESS per second (min–max)")
    columns = ("per sampling s", "per call s", "per cpu s")
    print(f"{'':<26}" + "".join(f"{column:>24}" for column in columns))
    for name, found in ratios.items():
        cells = [
            f"{np.median(ratio):.1f} ({min(ratio):.1f}–{max(ratio):.1f})"
            for ratio in np.transpose(found)
        ]
        print(f"{name:<26}" + "".join(f"{cell:>24}" for cell in cells))


def report_agreement(runs: dict[str, list[Run]]) -> None:
    mean, error = {}, {}
    for name, found in runs.items():
        mean[name] = np.mean([one.mean for one in found], axis=0)
        error[name] = np.sqrt(np.sum([one.mcse**2 for one in found], axis=0)) / len(found)
    size = len(mean[GIBBS])
    bound = norm.isf(0.001 / 2 / size)
    print(
        f"\nPosterior means of all {size} entries against Gibbs: largest difference, and in Monte "
        f"Carlo errors\n(by chance above {bound:.1f} once in 1,000 times)"
    )
    for name in runs:
        if name == GIBBS:
            continue
        gap = np.abs(mean[name] - mean[GIBBS])
        most = (gap / np.hypot(error[name], error[GIBBS])).max()
        verdict = "agree" if most < bound else "DISAGREE"
        print(f"{name:<26}{gap.max():10.5f}{most:8.1f}  {verdict}")


def main() -> None:
    parser = Arguments(__doc__, "few items, one round of 20 draws, one peer")
    parser.add_argument("--rounds", type=int, default=3, help="runs of every peer")
    parser.add_argument("--draws", type=int, default=1000, help="per chain, of 4 chains")
    parser.add_argument("--only", nargs="*", default=[""], help="contenders whose name has this")
    given = parser.parse_args()
    n_items, rounds, draws = N_ITEMS, given.rounds, given.draws
    if given.quick:
        n_items, rounds, draws = 100, 1, 20
    if given.quick and given.only == [""]:
        given.only = ["bayesfuse NUTS, pymc"]
    print(
        f"{n_items:,} items × {N_RATERS} raters × {N_CLASSES} classes, {CHAINS} chains × {draws:,} "
        f"draws, {rounds} round(s), seeds {SEED} (data) and 1, 2, … (chains)"
    )
    names = [GIBBS]
    for name in CONTENDERS:
        if name == GIBBS or not any(part in name for part in given.only):
            continue
        if absent := missing(name):
            print(f"{name}: skipped, {', '.join(absent)} not installed")
        else:
            names.append(name)
    if len(names) > 1:
        runs, ratios = compete(names, rounds, n_items, draws)
        report(runs, ratios)
        report_agreement(runs)


if __name__ == "__main__":
    main()

"""Draws of a model by PyMC's chains or by Gibbs sweeps: whole chains, or steps next to NUTS."""

from __future__ import annotations

import inspect
import logging
import time
from collections import ChainMap
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.sampling.mcmc import NUTPIE_INSTALLED
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import TensorType
from rich.progress import MofNCompleteColumn, Progress

from bayesfuse.errors import ModelError
from bayesfuse.inference.chains import Chain, CompiledChain, SteppedChain, compilable, run
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.gradients import GIVEN, Gradients, initialize, start_at, values_of
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import find_start
from bayesfuse.inference.step_method import LabelGibbs
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.threads import available, check, hold, threads
from bayesfuse.observation import LogParameters, ResponseModel, through_matrices, with_matrices
from bayesfuse.parameters.contract import Prior
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import diagonal
from bayesfuse.pymc.evaluate import add_data, as_posterior
from bayesfuse.results.draws import Draws

COMPLETING = 130e-6  # seconds spent on a draw after sampling; cheaper sweeps are repeated

WORTH_A_THREAD = 5e-4  # seconds of a sweep in Python above which chains run side by side

# arguments of pm.sample that mean something where Gibbs sweeps draw all variables
OF_CHAINS = {"model", "draws", "tune", "chains", "cores", "random_seed", "progressbar", "quiet"}
OF_CHAINS |= {"compute_convergence_checks"}

SETTLING = 10  # draws of hyperparameters given the same labels, before a chain begins

_log = logging.getLogger("pymc")  # which PyMC shows, as for its own chains


class ChainInitializer:
    """The start that all chains share, and the points around it where they begin.

    Under a pool the density is highest where all raters are alike. So labels come from the model
    without the pool, or from Dawid and Skene's.
    """

    def __init__(self, plan: Plan, method: str | Mapping[str, Any]) -> None:
        self.plan, self.without_pools = plan, plan.observation
        self.nonconjugate: Gradients | None = None
        if not isinstance(method, str):
            self.start = start_at(plan, method)
            return
        if not plan.pooled:
            self.start, self.nonconjugate = initialize(plan, method)
            return
        self.without_pools, priors = _without_pools(plan)
        self.start = find_start(self.without_pools.first_chunk, priors, method)

    def labels(self) -> Any:
        """Return class probabilities at the start, (table items, classes)."""
        observation = self.without_pools
        probability = observation.by_item(observation.marginal(self.start.rows).probability)
        return probability[self.plan.observation.firsts]

    def rows(self, rng: np.random.Generator) -> LogParameters:
        """Return all parameters, in kernel coordinates, where a chain begins."""
        if self.start.method == GIVEN:
            return self.start.rows
        if self.plan.pooled:
            return self._pooled(self.start.rows, rng)
        rows: LogParameters = {**self.start.rows, **self.plan.indices()}
        priors: dict[str, Prior] = self.plan.priors()
        if self.nonconjugate is not None:
            priors |= self.nonconjugate.priors(rows)
        drawn = tuple(name for name, prior in priors.items() if prior.free)
        sweep = Sweep(self.plan.observation, priors, drawn)
        initial = {n: prior.centre() for n, prior in priors.items()} | rows
        sampled = step(sweep, sweep.begin(initial), rng).rows
        if self.nonconjugate is None:
            return sampled
        _, counts = self.plan.observation.expected(rows)
        return self.nonconjugate.disperse(sampled, counts, rng)

    def _pooled(self, initial: LogParameters, rng: np.random.Generator) -> LogParameters:
        """Draw labels, then all parameters given these."""
        plan, sweep, rows = self.plan, Sweep.of(self.plan), dict(initial)
        rows = {name: prior.centre() for name, prior in sweep.priors.items()} | rows
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.pool.begin(rng))
        rows |= {name: prior.centre() for name, prior in sweep.below_pools(rows).items()}
        # labels and hidden variables of the channel are drawn once
        at = dict(initial)
        for name in plan.observation.labels.parameters:  # maybe by kind of items
            at[name] = np.broadcast_to(at.get(name, rows[name]), rows[name].shape)
        counts = plan.observation.draw_counts(rows, rng, by=(self.without_pools.raters, at))
        for _ in range(SETTLING):
            for pooled in plan.pools:
                values = pooled.values(rows)
                rows |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
        statistics = plan.observation.statistics(rows, counts)
        priors = {**sweep.priors, **sweep.below_pools(rows)}
        return rows | {n: priors[n].draw(statistics[n], rows[n], rng) for n in sweep.drawn}

    def values(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return values of the model's variables at which a chain begins, off any boundary."""
        return values_of(self.plan, self.nonconjugate, self.rows(rng))


def _without_pools(plan: Plan) -> tuple[ResponseModel, dict[str, Prior]]:
    """Return the model without pools, or with a confusion matrix per rater, and fixed priors."""
    priors, pools = plan.priors(), [pooled.pool for pooled in plan.pools]
    unpooled = {pool.parameter: prior for pool in pools if (prior := pool.unpooled()) is not None}
    if len(unpooled) == len(pools):
        return plan.observation, {**priors, **unpooled}
    observation, table = plan.observation, plan.observation.responses
    rows = np.tile(diagonal(table.n_classes), (table.n_raters, 1, 1))
    flat = Dirichlet(np.ones(table.n_classes))
    labels = observation.labels
    observation = with_matrices(observation)
    if (
        isinstance(labels, Independent)
        and labels.axis
        and not set(labels.parameters) <= set(priors)
    ):
        observation = through_matrices(table, observation.gold)  # one prevalence, moved by chains
    names = observation.labels.parameters
    return observation, {n: priors.get(n, flat) for n in names} | {"confusion": Dirichlet(rows)}


def sample_nuts(
    beginnings: list[ChainInitializer], nuts_sampler: str | None, settings: dict[str, Any]
) -> xr.DataTree:
    """Draw all variables by NUTS, from points around the start."""
    streams = settings["random_seed"].spawn(settings["chains"])
    tables = [[initializer.values(stream) for stream in streams] for initializer in beginnings]
    # the first table decides on variables that tables share
    points = [dict(ChainMap(*values)) for values in zip(*tables, strict=True)]
    if nuts_sampler is None:
        # of several tables every chain has a start of its own, which nutpie does not take
        one = len(beginnings) == 1 and NUTPIE_INSTALLED
        nuts_sampler = "nutpie" if one else "pymc"
    settings = settings | {"nuts_sampler": nuts_sampler}
    # without jitter, which would undo the start
    if nuts_sampler == "nutpie":
        one = len(beginnings) == 1
        settings["initvals"] = _drawn_anew(beginnings[0], points[0]) if one else points[0]
        values = settings.get("compile_kwargs", {})
        settings["compile_kwargs"] = {"jitter_rvs": set()} | values
    else:
        settings["initvals"] = points
    if nuts_sampler == "pymc":
        settings.setdefault("init", "adapt_diag")
    elif nuts_sampler in ("numpyro", "blackjax"):
        values = settings.get("nuts", {})
        settings["nuts"] = {"jitter": False, "chain_method": "vectorized"} | values
    return _by_pymc(settings)


def _by_pymc(settings: dict[str, Any]) -> xr.DataTree:
    """Sample by PyMC, which calls a function of progress as it calls others."""
    if callable(shown := settings["progressbar"]):
        settings = settings | {"progressbar": False, "callback": lambda *_, **__: shown(1)}
    return pm.sample(**settings)


def _drawn_anew(initializer: ChainInitializer, one: dict[str, Any]) -> dict[str, Any]:
    """Return a random starting point: nutpie evaluates one for every chain, with its own seed."""
    stream = pytensor.shared(np.random.default_rng(0))
    _, seed = pt.random.integers(0, 2**31 - 1, rng=stream, return_next_rng=True)

    def draw(number: Any) -> list[Any]:
        point = initializer.values(np.random.default_rng(int(number)))
        return [np.asarray(point[name]) for name in one]

    types = [TensorType("float64", (None,) * np.ndim(value)) for value in one.values()]
    drawn = wrap_py([seed.type], types)(draw)(seed)
    return dict(zip(one, drawn if isinstance(drawn, list) else [drawn], strict=True))


def thinned(result: xr.DataTree, thin: int) -> xr.DataTree:
    """Return every ``thin``-th draw."""
    return result.isel(draw=slice(None, None, thin), missing_dims="ignore") if thin > 1 else result


def sample_gibbs(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    *,
    sweeps: int | None,
    thin: int,
    log_likelihood: bool,
) -> tuple[xr.DataTree, Draws | None]:
    """Return the draws and, where labels go on from the previous ones, the sums over these."""
    plan = initializer.plan
    draws, summed = settings["draws"], None
    sweeps = sweeps or sweeps_of_draw(plan)
    if plan.observation.labels.moves_labels:
        sizes = settings["chains"], -(-draws // thin)
        summed = Draws(plan.observation, *sizes, log_likelihood=log_likelihood, labels=True)
    if not plan.is_fully_conjugate:
        return thinned(_next_to_nuts(initializer, settings, sweeps, summed, thin), thin), summed
    return _chains(initializer, settings, sweeps, summed, thin), summed


def _chains(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    sweeps: int,
    summed: Draws | None,
    thin: int,
) -> xr.DataTree:
    """Run chains in which sweeps draw all variables."""
    plan, began = initializer.plan, time.perf_counter()
    tune = LabelGibbs.default_tune_steps if settings["tune"] is None else settings["tune"]
    # more sweeps for each are as good as draws that are made and dropped
    kind: type[Chain] = CompiledChain if compilable(plan) else SteppedChain
    sizes = {"tune": -(-tune // thin), "draws": -(-settings["draws"] // thin)}
    sweep, n_chains, cores = Sweep.of(plan), settings["chains"], settings["cores"] or available()
    chains: list[Chain] = []
    # a sweep over many items is itself shared by threads, and a short one is mostly Python, which
    # holds its lock: then chains take turns
    shared = plan.observation.shared or n_chains == 1
    in_turn = shared or (kind is SteppedChain and sweep_cost(plan) < WORTH_A_THREAD)
    with threads(cores) if shared else nullcontext():
        for number, stream in enumerate(settings["random_seed"].spawn(n_chains)):
            # a first sweep scatters chains as well as `rows` does, where no pool must begin
            rows = (
                initializer.rows(stream)
                if plan.pooled or kind is SteppedChain
                else initializer.start.rows
            )
            state = sweep.begin(rows)
            chain = kind(sweep, state, stream, sweeps=sweeps * thin, **sizes)
            if summed is not None and isinstance(chain, SteppedChain):
                chain.watch = partial(summed.add, number)
            chains.append(chain)
        shown = settings["progressbar"]
        at_once = 1 if in_turn else cores
        if callable(shown):
            run(chains, at_once, shown)
        else:
            columns = *Progress.get_default_columns(), MofNCompleteColumn()
            with Progress(*columns, disable=not shown) as bar:
                task = bar.add_task("Sampling", total=n_chains * sum(sizes.values()))
                run(chains, at_once, lambda made: bar.advance(task, made))
    hold()  # what there is must not be lost
    n_draws = min(chain.n_stored for chain in chains)
    stored_draws = {
        n: np.stack([chain.stored[n][:n_draws] for chain in chains]) for n in chains[0].stored
    }
    seconds = time.perf_counter() - began
    if n_draws == 0:  # interrupted before there were draws
        hold(False)
        check()
        raise KeyboardInterrupt
    values = {
        block.variable.name: block.support.from_kernel(stored_draws.pop(block.parameter))
        for block in plan.all_blocks
    }
    attrs = {"sampling_time": seconds, "tuning_steps": sizes["tune"]}
    posterior = as_posterior(plan.model, values).assign_attrs(attrs)
    groups = {"posterior": posterior, "sample_stats": xr.Dataset(attrs=attrs)}
    result = xr.DataTree.from_dict(groups)
    add_data(result, plan.model)
    if not settings.get("quiet", False):
        cut = f", and ended before {sizes['draws']:_d} draws" * (n_draws < sizes["draws"])
        made = f"{sizes['tune'] * n_chains:_d} + {n_draws * n_chains:_d} draws total"
        _log.info(
            f"Gibbs sampling {n_chains} chain{'s' if n_chains > 1 else ''} for {sizes['tune']:_d} "
            f"tune and {n_draws:_d} draw iterations ({made}) took {seconds:.0f} seconds{cut}."
        )
    return result


def _next_to_nuts(
    initializer: ChainInitializer,
    settings: dict[str, Any],
    sweeps: int,
    summed: Draws | None,
    thin: int,
) -> xr.DataTree:
    """Run PyMC's chains, in which NUTS draws the variables that sweeps leave."""
    plan = initializer.plan
    step = LabelGibbs(model=plan.model, plan=plan, sweeps=sweeps)
    points = [
        initializer.values(stream) for stream in settings["random_seed"].spawn(settings["chains"])
    ]
    # responses numbered by a range take no memory; ArviZ would write the numbers out
    (dim,) = plan.model.named_vars_to_dims[plan.answers.name]
    rows = {dim: pd.RangeIndex(plan.observation.responses.n_responses)}
    data_settings = {"coords": rows} | settings.get("idata_kwargs", {})
    settings = settings | {"step": step, "initvals": points, "idata_kwargs": data_settings}
    if summed is not None:
        settings["cores"] = 1  # the labels of every draw are here
        step.watch = lambda chain, draw, rows, labels: (
            None if draw % thin else summed.add(chain, rows, labels)
        )
    return _by_pymc(settings)


def require_settings(settings: Mapping[str, Any], is_fully_conjugate: bool) -> None:
    """Raise ModelError for settings that have no effect: of NUTS, or of PyMC's loop."""
    known = OF_CHAINS
    rule = (
        "settings of PyMC's own steps and loop, such as target_accept=, have no effect where "
        "Gibbs steps draw all variables, as here (sampler='nuts' uses them)"
    )
    if not is_fully_conjugate:
        known = {*inspect.signature(pm.sample).parameters, "nuts", "target_accept"}
        rule = "settings of NUTS, for the variables that are left to it, go into nuts={…}"
    if unknown := set(settings) - known:
        if "minutes" in unknown:
            rule = "a time is of bf.fuse and the shell, and Ctrl-C keeps the draws made until then"
        raise ModelError(
            f"bf.sample takes its own arguments and those of pm.sample; {rule}. Got: "
            f"{sorted(unknown)}."
        )


def sweeps_of_draw(plan: Plan) -> int:
    """Return the default number of sweeps of a draw."""
    if plan.observation.first_chunk is not plan.observation:  # in partitions
        return 1
    least = plan.observation.raters.least_sweeps if compilable(plan) else 1
    return int(np.clip(COMPLETING / sweep_cost(plan), least, 10))


def sweep_cost(plan: Plan) -> float:
    """Estimate the seconds of a Gibbs sweep from sizes alone, so that it never varies."""
    table = plan.observation.table
    priors = plan.continuous_priors().values()
    entries = sum(np.size(getattr(prior, "concentration", ())) for prior in priors)
    adds = table.n_responses * table.n_classes
    pools = sum(by_item.pool.seconds(plan.observation.n_responses) for by_item in plan.pools)
    fixed = 1e-6 if compilable(plan) else 20e-6
    by_item = 2e-9 * table.n_classes  # of an item
    if plan.observation.labels.unit == "sequence":  # the product with a transition matrix
        by_item += 5e-9 * table.n_classes**2
    return fixed + 0.4e-9 * adds + by_item * table.n_items + 60e-9 * entries + pools

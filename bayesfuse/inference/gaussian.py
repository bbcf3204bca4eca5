"""Normal approximations in unconstrained coordinates: PyMC's ADVI and pymc-extras' Pathfinder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from rich.progress import track

from bayesfuse.errors import ModelError
from bayesfuse.inference.cavi import Approximation, pareto_shape
from bayesfuse.inference.gradients import Gradients, values_of
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.compiled import value_function, without_compilation

WINDOW = 500  # steps of which means of the bound are compared, and parameters averaged
STEP = {"advi": 0.01, "fullrank_advi": 0.002}  # step size of Adam, in log ratios
MAX_STEPS = {"advi": 10_000, "fullrank_advi": 20_000}
SCALE_DRAWS, MIN_SCALE = 100, 1e-3  # draws that estimate the scale of a conditional, and a bound
JITTER = 0.5  # spread of Pathfinder's starts: enough for curvature, without label switching


def fit_advi(
    plan: Plan,
    nonconjugate: Gradients | None,
    initial: Start,
    method: str,
    *,
    draws: int,
    iterations: int | None,
    rng: np.random.Generator,
    progressbar: bool,
    **kwargs: Any,
) -> Approximation:
    """Fit a normal distribution by stochastic gradients, with independent coordinates or without.

    Kucukelbir et al. (2017), JMLR 18(14); ends as in Dhaka et al. (2020), NeurIPS.
    """
    model = plan.model
    seed = int(rng.integers(2**31))
    family = pm.ADVI if method == "advi" else pm.FullRankADVI
    inference = family(
        model=model, start=values_of(plan, nonconjugate, initial.rows), random_seed=seed
    )
    (group,) = inference.approx.groups
    parameters = group.params_dict
    _set_scales(plan, nonconjugate, initial, group)
    step = inference.objective.step_function(
        score=True, **({"obj_optimizer": pm.adam(learning_rate=STEP[method])} | kwargs)
    )
    trace, converged = _climb(step, parameters, iterations or MAX_STEPS[method], progressbar)
    mean = parameters["mu"].get_value()
    noise = rng.standard_normal((draws, len(mean)))
    with without_compilation():
        scale = group.std.eval() if method == "advi" else group.L.eval()
    if method == "advi":
        flat, logs = mean + noise * scale, np.log(scale)
    else:
        flat, logs = mean + noise @ scale.T, np.log(np.diagonal(scale))
    log_q = -0.5 * (noise**2).sum(axis=1) - logs.sum() - 0.5 * len(mean) * np.log(2 * np.pi)
    points: list[dict[str, Array]] = [{} for _ in flat]
    for name, at, shape, _ in group.ordering.values():
        for point, row in zip(points, flat, strict=True):
            point[name] = row[at].reshape(shape)
    with without_compilation():
        values_at = value_function(model, {v.name: v for v in model.free_RVs})
        drawn = list(map(values_at, points))
        log_p = np.array(list(map(model.compile_logp(), points)), dtype=float)
    values = {name: np.stack([value[name] for value in drawn]) for name in drawn[0]}
    return Approximation(values, trace, converged, pareto_shape(log_p - log_q))


def _set_scales(plan: Plan, nonconjugate: Gradients | None, initial: Start, group: Any) -> None:
    """Set the scale of every coordinate to that of its conditional given labels at the start."""
    observation, rows = plan.initial_response_model(), initial.rows
    _, counts = observation.expected(rows)
    statistics = observation.statistics(rows, counts)
    priors = plan.priors() if nonconjugate is None else plan.priors() | nonconjugate.priors(rows)
    scales: dict[str, Array | float] = (
        {} if nonconjugate is None else {**nonconjugate.scales(rows, counts)}
    )
    rng = np.random.default_rng(0)
    for name, block in plan.blocks.items():
        drawn = [
            priors[name].draw(statistics.get(name), rows[name], rng) for _ in range(SCALE_DRAWS)
        ]
        spread = np.std([block.coordinates.write(value) for value in drawn], axis=0)
        scales[block.value] = np.clip(spread, MIN_SCALE, 1.0)
    sigma = np.ones(group.ddim)
    for name, scale in scales.items():
        _, at, _, _ = group.ordering[name]
        sigma[at] = np.ravel(scale)
    rho = np.log(np.expm1(sigma))
    if "rho" in group.params_dict:
        group.params_dict["rho"].set_value(rho)
    else:
        group.params_dict["L_tril"].set_value(np.diag(rho)[group.tril_indices])


def _climb(
    step: Any, parameters: dict[str, Any], iterations: int, progressbar: bool
) -> tuple[Array, bool]:
    """Take steps until the bound gains less than its noise; average the last window."""
    trace: list[float] = []
    before, converged = np.empty(0), False
    for at in track(range(1, iterations + 1), "Fitting", disable=not progressbar):
        if (at - 1) % WINDOW == 0:
            now, total = [], dict.fromkeys(parameters, 0.0)
        now.append(-float(step()))
        if not np.isfinite(now[-1]):
            raise ModelError(
                "ADVI's bound must stay finite; use method='cavi' or a smaller step, such as "
                f"obj_optimizer=pm.adam(learning_rate=0.001). Got: {now[-1]} at step {at}."
            )
        for name, shared in parameters.items():
            total[name] = total[name] + shared.get_value(borrow=True)
        if at % WINDOW == 0 or at == iterations:
            trace += now
            if before.size and at < iterations:
                noise = np.sqrt((np.var(now) + before.var()) / WINDOW)
                converged = bool(np.mean(now) - before.mean() < noise)
            if converged:
                break
            before = np.array(now)
    for name, shared in parameters.items():
        shared.set_value(total[name] / len(now))
    return np.array(trace), converged


def fit_pathfinder(
    plan: Plan,
    nonconjugate: Gradients | None,
    initial: Start,
    *,
    draws: int,
    rng: np.random.Generator,
    progressbar: bool,
    **kwargs: Any,
) -> Approximation:
    """Return draws of Pathfinder (Zhang, Carpenter, Gelman & Vehtari 2022, JMLR 23(306))."""
    try:
        from pymc_extras import fit_pathfinder as find_paths
    except ImportError as error:
        raise ImportError(
            "method='pathfinder' needs pymc-extras: pip install 'bayesfuse[pathfinder]'. Got: "
            f"{error}."
        ) from error
    settings = {
        "model": plan.model,
        "num_draws": draws,
        "initvals": values_of(plan, nonconjugate, initial.rows),
        "jitter": JITTER,
        "parallel": False,
        "progressbar": progressbar,
        "random_seed": int(rng.integers(2**31)),
        # a gradient of compiled kernels needs no compiler around it
        "compile_kwargs": {"mode": "FAST_COMPILE"},
    } | kwargs
    with without_compilation():
        tree = find_paths(**settings)
    pathfinder = tree["pathfinder"].dataset
    posterior = tree["posterior"].dataset.stack(one=("chain", "draw"))
    values = {v.name: posterior[v.name].transpose("one", ...).values for v in plan.model.free_RVs}
    bound = float((pathfinder["paths_logP_mean"] - pathfinder["paths_logQ_mean"]).max())
    shape = float(pathfinder.get("pareto_k", np.nan))  # absent without importance weights
    return Approximation(values, np.array([bound]), not bool(pathfinder["all_paths_failed"]), shape)

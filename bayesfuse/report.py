"""A result as text: raters, the least certain items, convergence."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.model import LabelModel
from bayesfuse.posterior import label_probabilities
from bayesfuse.summaries import (
    balanced_accuracy,
    interval,
    most_uncertain,
    posterior_draws,
    recognition,
    responses_per_rater,
)

FEW, ITEMS = 5, 10
"""How many of the best and worst raters, and of the least certain items, are printed."""

COLUMNS = 4
"""How many estimates with intervals fit on a line of the rater table."""

SURE, VISIBLE = 0.95, 0.005
"""A label less probable than the first is called uncertain; than the second, printed as 0.00."""

LARGE_RHAT, SMALL_ESS = 1.01, 400
"""Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16, 667–718."""

CHECKED = 2000
"""Parameters whose convergence is judged, at most about: each takes a millisecond or two."""


def report(model: LabelModel, result: xr.DataTree) -> str:
    """Write prevalence, raters, the least certain items and the convergence of a fit as text."""
    import arviz as az

    sizes, settings = result["posterior"].sizes, result.attrs
    parts = [
        repr(model.responses),
        f"{type(model).__name__}: {sizes['chain']} chains of {sizes['draw']:,} draws by "
        f"{settings['sampler']}, start: {settings['start']}.\n"
        f"Estimates are posterior means with {az.rcParams['stats.ci_prob']:.0%} intervals.",
        _prevalence_table(result),
        _rater_table(result),
        _item_table(result),
        _convergence([variable.name for variable in model.free_RVs], result),
    ]
    return "\n\n".join(parts)


def _prevalence_table(result: xr.DataTree) -> str:
    prevalence = posterior_draws(result, "prevalence")["prevalence"]
    cells = _estimates(prevalence)
    rows = zip(prevalence["class"].values.astype(str).tolist(), cells, strict=True)
    return _table(["class", "prevalence"], [list(row) for row in rows])


def _rater_table(result: xr.DataTree) -> str:
    """Show every rater's recognition of the classes, or of many raters the best and worst."""
    quality = balanced_accuracy(result)
    order = np.argsort(-quality.mean(("chain", "draw")).values, kind="stable")
    left_out = len(order) - 2 * FEW
    if left_out > 0:
        order = np.concatenate([order[:FEW], order[-FEW:]])
    answered = responses_per_rater(result)[order]
    columns = {f"{name} ({truth})": draws for (name, truth), draws in _shown_panels(result)}
    header = ["rater", "responses", *columns]
    cells = [_estimates(draws.isel(rater=order)) for draws in columns.values()]
    names = quality["rater"].values[order]
    rows = [
        [str(name), f"{count:,}".rjust(len("responses")), *own]
        for name, count, *own in zip(names, answered, *cells, strict=True)
    ]
    if left_out > 0:
        rows.insert(FEW, [f"… {left_out:,} more"])
    return _table(header, rows)


def _shown_panels(result: xr.DataTree) -> list[tuple[tuple[str, Any], xr.DataArray]]:
    """Return what fits on a line: each class's recognition, or its mean over many classes."""
    panels = recognition(result)
    if len(panels) <= COLUMNS:
        return list(panels.items())
    return [(("sensitivity", "mean of the classes"), balanced_accuracy(result))]


def _item_table(result: xr.DataTree) -> str:
    """Show the items that could be something else than their most probable label."""
    probability = label_probabilities(result)
    rows = []
    for item in most_uncertain(result, ITEMS):
        order = np.argsort(-item.values, kind="stable")
        likely = [index for index in order if item.values[index] >= VISIBLE]
        if len(likely) > 1:
            shown = [f"{item['class'].values[at]}: {item.values[at]:.2f}" for at in likely]
            rows.append([str(item["item"].item()), "  ".join(shown)])
    uncertain = int((probability.max("class") < SURE).sum())
    count = f"{uncertain:,} of {probability.sizes['item']:,} items have no label of probability"
    table = _table(["least certain", "probabilities"], rows) + "\n" if rows else ""
    return f"{table}{count} {SURE} or more."


def _estimates(draws: xr.DataArray) -> list[str]:
    """Write means with intervals of draws (chain, draw, one more dimension)."""
    ends = interval(draws)
    triples = zip(draws.mean(("chain", "draw")).values, *(end.values for end in ends), strict=True)
    return [f"{mean:.2f} ({low:.2f}–{high:.2f})" for mean, low, high in triples]


def _convergence(names: list[str], result: xr.DataTree) -> str:
    """Say how the worst parameter mixed, and what to do if that is not enough."""
    import arviz as az

    draws = posterior_draws(result, *names)
    step = -(-sum(array[0, 0].size for array in draws.values()) // CHECKED)
    draws = draws.isel(rater=slice(None, None, step), missing_dims="ignore")
    rhat, where_rhat = _worst(az.rhat(draws), largest=True)
    ess, where_ess = _worst(az.ess(draws), largest=False)
    if np.isnan(rhat) or np.isnan(ess):
        return "Convergence cannot be judged: that takes two chains and more draws."
    line = f"Largest R-hat {rhat:.3f} ({where_rhat}), smallest ESS {ess:,.0f} ({where_ess})."
    if step > 1:
        line += f" One in {step} raters was looked at."
    if rhat > LARGE_RHAT or ess < SMALL_ESS:
        line += (
            f"\nThe chains should run longer (--draws): R-hat should be below {LARGE_RHAT}, the "
            f"effective sample size above {SMALL_ESS}."
        )
    return line


def _worst(values: xr.Dataset, *, largest: bool) -> tuple[float, str]:
    """Return the largest or smallest number in a set of arrays, and whose it is."""
    worst, where = np.nan, ""
    sign = 1 if largest else -1
    for name, array in values.data_vars.items():
        flat = sign * array.values.ravel()
        if np.isnan(flat).all():
            continue
        place = int(np.nanargmax(flat))
        if not flat[place] <= worst:  # true of the first, too
            worst = flat[place]
            index = np.unravel_index(place, array.shape)
            entry = [str(array[dim].values[at]) for dim, at in zip(array.dims, index, strict=True)]
            where = f"{name}[{', '.join(entry)}]" if entry else str(name)
    return sign * worst, where


def _table(header: list[str], rows: list[list[str]]) -> str:
    """Line up columns to the left; a row may end early."""
    lines = [header, *rows]
    widths = [
        max(len(line[column]) for line in lines if column < len(line))
        for column in range(len(header))
    ]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    )

"""A result as text: raters, the least certain items, checks of the model, convergence."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks import collapse, conditional_dependence, group_summary, item_difficulty
from bayesfuse.checks.phase_transition import MIXED
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.graph import Graph
from bayesfuse.data.reading import listed
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError
from bayesfuse.pymc.model import LabelModel
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import all_draws, named, require_draws
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import (
    balanced_accuracy,
    coverage,
    interval,
    most_uncertain,
    posterior_draws,
    recognition,
    responses_per_rater,
)

FEW, ITEMS = 5, 10
"""How many of the best and worst raters, and of the least certain items, are printed."""

COLUMNS = 4
"""How many estimates with intervals fit on a line."""

CLASS_COLUMNS = {"prevalence": "prevalence", "initial": "first in sequence"}
"""What is said of every class, by variable."""

SURE, VISIBLE = 0.95, 0.005
"""A label less probable than the first is called uncertain; than the second, printed as 0.00."""

LARGE_RHAT, SMALL_ESS = 1.01, 400
"""Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16, 667–718."""

WIDTH = 88
"""Columns of what is said in sentences."""

SEED = 1
"""Of the tables that checks draw: the same fit gives the same report."""

CHECKED = 2000
"""Parameters whose convergence is judged, at most about: each takes a millisecond or two."""


def report(model: LabelModel, result: xr.DataTree, *, checks: bool = True) -> str:
    """Write classes, raters, the least certain items and the convergence of a fit as text.

    Labels in sequence add how classes follow each other, labels on a graph what a neighbour counts.
    ``checks`` says whether the table is to be compared with replicated ones.
    """
    sizes = require_draws(result, "A report").sizes
    settings = result.attrs
    probability = label_probabilities(result, model)
    labels = observation_of(result, model).labels
    sequences: Sequences | None = getattr(labels, "sequences", None)
    graph: Graph | None = getattr(labels, "graph", None)
    hangs_together = [repr(structure) for structure in (sequences, graph) if structure is not None]
    how, classes = result["label_posterior"].attrs, collapse(result, model)
    said = (
        f"{type(model).__name__}: {sizes['chain']} chains of {sizes['draw']:,} draws by "
        f"{settings.get('sampler', settings.get('method'))}, start: {settings['start']}.\n"
        f"Estimates are posterior means with {coverage():.0%} intervals."
    )
    if not how["exact"]:
        said += f"\nLabels were summed out by {how['method']}, which is not exact here; gibbs is."
    parts = [
        "\n".join([repr(model.responses), *hangs_together]),
        said,
        _class_table(result, probability),
        *([fill(classes.attrs["verdict"], WIDTH)] if classes.attrs["collapsed"] else []),
        *([_transition_table(result)] if sequences is not None else []),
        *([_coupling(result)] if graph is not None else []),
        *([_group_table(result)] if hasattr(model, "groups") else []),
        _rater_table(result),
        _item_table(probability, sequences),
        *([_checks(model, result)] if checks else []),
        _convergence([variable.name for variable in model.free_RVs], result),
    ]
    return "\n\n".join(parts)


def _class_table(result: xr.DataTree, probability: xr.DataArray) -> str:
    """Show the prevalence of the classes, with how sequences begin if that is a variable.

    On a graph the prevalence is given, and what can be said is how many items are what.
    """
    draws = all_draws(result)
    found = {title: named(draws, name) for name, title in CLASS_COLUMNS.items()}
    columns = {title: _estimates(drawn) for title, drawn in found.items() if drawn is not None}
    share = probability.mean("item")
    if not columns:
        columns["share of the items"] = [f"{value:.2f}" for value in share.values]
    rows = zip(map(in_one_line, share["class"].values), *columns.values(), strict=True)
    return _table(["class", *columns], [list(row) for row in rows])


def _transition_table(result: xr.DataTree) -> str:
    """Show what follows each class: with intervals if they fit on a line, else the likely ones."""
    draws = posterior_draws(result, "transition")["transition"]
    names = list(map(in_one_line, draws["class"].values))
    if len(names) <= COLUMNS:
        cells = [_estimates(draws.isel(next_class=at)) for at in range(len(names))]
        header = ["after", *(f"then {name}" for name in names)]
        return _table(header, [list(row) for row in zip(names, *cells, strict=True)])
    means = draws.mean(("chain", "draw")).values
    rows = [[name, _likely(draws["class"], mean)] for name, mean in zip(names, means, strict=True)]
    return _table(["after", "then"], rows)


def _coupling(result: xr.DataTree) -> str:
    draws = posterior_draws(result, "coupling")["coupling"].expand_dims(of=1, axis=-1)
    (coupling,), (odds,) = _estimates(draws), _estimates(xr.ufuncs.exp(draws))
    return (
        f"Coupling {coupling}: every neighbour in a class (by an edge of weight 1) multiplies the\n"
        f"odds of that class by {odds}."
    )


def _group_table(result: xr.DataTree) -> str:
    """Show who shares a source, and whether that says anything about the truth."""
    sets = group_summary(result)
    if len(sets) == 0:
        return (
            "No raters share a source, as far as can be seen, which makes this the model of Dawid\n"
            f"and Skene. Groups: {result.attrs['groups']}."
        )
    lines = []
    for each in sets.itertuples():
        names = fill(", ".join(map(in_one_line, each.raters)), WIDTH, subsequent_indent="    ")
        lines.append(
            f"* {names}\n    probability {each.probability:.2f}, informedness of the source "
            f"{each.informedness:.2f} ({each.low:.2f}–{each.high:.2f})"
        )
    return "\n".join(["These share a source (informedness: 0 knows nothing of the truth):", *lines])


def _rater_table(result: xr.DataTree) -> str:
    """Show every rater's recognition of the classes, or of many raters the best and worst."""
    quality = balanced_accuracy(result)
    order = np.argsort(-quality.mean(("chain", "draw")).values, kind="stable")
    left_out = len(order) - 2 * FEW
    if left_out > 0:
        order = np.concatenate([order[:FEW], order[-FEW:]])
    answered = responses_per_rater(result)[order]
    columns = {
        f"{name} ({in_one_line(truth)})": draws for (name, truth), draws in _shown_panels(result)
    }
    header = ["rater", "responses", *columns]
    cells = [_estimates(draws.isel(rater=order)) for draws in columns.values()]
    names = quality["rater"].values[order]
    rows = [
        [in_one_line(name), f"{count:,}".rjust(len("responses")), *own]
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


def _item_table(probability: xr.DataArray, sequences: Sequences | None) -> str:
    """Show the items that could be something else than their most probable label."""
    owner = None if sequences is None else sequences.to_frame().set_index("item")["sequence"]
    header = ["least certain", *([] if owner is None else ["sequence"]), "probabilities"]
    rows = []
    for item in most_uncertain(probability, ITEMS):
        if (item.values >= VISIBLE).sum() > 1:
            (name,) = listed(np.atleast_1d(item["item"].values))
            where = [] if owner is None else [in_one_line(owner.at[name])]
            rows.append([in_one_line(name), *where, _likely(item["class"], item.values)])
    uncertain = int((probability.max("class") < SURE).sum())
    count = f"{uncertain:,} of {probability.sizes['item']:,} items have no label of probability"
    table = _table(header, rows) + "\n" if rows else ""
    return f"{table}{count} {SURE} or more."


def _checks(model: LabelModel, result: xr.DataTree) -> str:
    """Say what tables drawn from the posterior say of the model's two assumptions on raters."""
    said = ["Checks, against tables drawn from the posterior:"]
    for check in (item_difficulty, conditional_dependence):
        try:
            words = check(result, model, random_seed=SEED).attrs["verdict"]
        except ModelError as error:  # too few answers in common
            words = f"{check.__name__}: {error}"
        said.append(fill(words, WIDTH, initial_indent="* ", subsequent_indent="  "))
    return "\n".join(said)


def _likely(classes: xr.DataArray, probability: NDArray[np.float64]) -> str:
    """Write the classes of visible probability, the likeliest first."""
    order = np.argsort(-probability, kind="stable")
    shown = [at for at in order if probability[at] >= VISIBLE]
    return "  ".join(f"{in_one_line(classes.values[at])}: {probability[at]:.2f}" for at in shown)


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
    with np.errstate(invalid="ignore"):  # zeros for good have no R-hat
        rhat, where_rhat = _worst(az.rhat(draws), largest=True)
    ess, where_ess = _worst(az.ess(draws), largest=False)
    if np.isnan(rhat) or np.isnan(ess):
        return "Convergence cannot be judged: that takes two chains and more draws."
    line = f"Largest R-hat {rhat:.3f} ({where_rhat}), smallest ESS {ess:,.0f} ({where_ess})."
    if step > 1:
        line += f" One in {step} raters was looked at."
    return line + _advice(rhat, ess, result.attrs["sampler"])


def _advice(rhat: float, ess: float, sampler: str) -> str:
    """Say what helps: longer chains where they mix slowly, something else where they disagree."""
    if rhat <= LARGE_RHAT and ess >= SMALL_ESS:
        return ""
    gibbs = sampler == "gibbs"
    more = "more sweeps per draw (--sweeps)" if gibbs else "more draws (--draws)"
    if rhat > MIXED:
        words = (
            f"The chains disagree (R-hat above {MIXED}), so these estimates are means of different "
            f"answers. Try {more}. Chains that still disagree have found several modes: give known "
            "labels of some items (--gold) or choose another model."
        )
    else:
        words = (
            f"The chains should run longer: R-hat should be below {LARGE_RHAT}, the effective "
            f"sample size above {SMALL_ESS}. Try {more}"
            f"{', in a result of the same size, or more draws (--draws)' if gibbs else ''}."
        )
    return "\n" + fill(words, WIDTH)


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
            entry = [
                in_one_line(array[dim].values[at])
                for dim, at in zip(array.dims, index, strict=True)
            ]
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

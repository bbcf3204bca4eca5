"""What a fit writes: files, and the report of one model as text."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.command_line.arguments import in_options
from bayesfuse.command_line.console import SHORT_NUMBER, write_stderr, write_table
from bayesfuse.command_line.tables import Tables
from bayesfuse.data.describing import WIDTH, as_columns, bullet, in_one_line, paragraph
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.diagnostics import check_model
from bayesfuse.ensemble.fused import best_and_worst, in_columns
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.narrative import SURE, word
from bayesfuse.ensemble.schedule import Schedule
from bayesfuse.results.collapse import ONE_MODE_RHAT
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import require_draws
from bayesfuse.results.summaries import (
    VISIBLE,
    coverage,
    least_certain,
    posterior_draws,
    summarise_draws,
)

MAX_BYTES = 200_000_000  # bytes of an answer above which its models are left out

REQUESTED = "requested_draws"  # attribute of a result: draws of each chain, also if interrupted
N_UNCERTAIN = 10  # number of the least certain items to print
MAX_ENTRIES = 36  # largest number of entries of a parameter that are printed

PARAMETERS = (
    "prevalence",
    "population_prevalence",
    "initial",
    "transition",
    "coupling",
)  # of the labels

MAX_RHAT, MIN_ESS = 1.01, 400
"""Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16, 667–718."""

ESTIMATE = "{:.2f} ({:.2f}–{:.2f})".format  # mean and interval

SEED = 1  # seed of the checks, so that the same fit gives the same report

MAX_CHECKED = 1000  # approximate number of parameters whose convergence is checked


def write_labels(
    result: xr.DataTree,
    model: bf.build.LabelModel | None,
    tables: Tables,
    costs: str | None,
    path: Path,
) -> None:
    """Write the most probable label of every item, its probability, and those of all classes.

    With costs, the labels are those of least expected cost.

    Columns that are in the table of responses, too, have the same names.

    An answer of several models adds the difficulty, and one model the largest Monte Carlo error;
    for items in sequence, there are also sequence, position and the label on the most probable
    path.
    """
    probability = bf.label_probabilities(result)
    classes, places = probability["class"].values, tables.places
    columns: dict[str, Any] = {"item": probability["item"].values}
    float_format = None
    if places is not None:
        columns |= {name: places[name].to_numpy() for name in places}
    if isinstance(result, bf.Fused):
        columns |= {name: column.to_numpy() for name, column in result.labels(costs).items()}
        float_format = SHORT_NUMBER
    else:
        columns["label"] = classes[probability.values.argmax(axis=1)]
        columns["probability"] = probability.values.max(axis=1)
        if costs is not None:
            best = bf.decisions.best_labels(result, costs)
            columns |= {name: best[name].values for name in ("label", "cost")}
            columns.pop("probability")  # of another label
        if places is not None:
            columns["path"] = bf.decode(result, model).values
    for name, column in zip(classes, probability.values.T, strict=True):
        columns[f"probability_{name}"] = column
    if model is not None:
        columns["mcse"] = result["label_posterior"]["mcse"].max("class").values
    table = pd.DataFrame(columns)
    table = table.rename(columns={k: v for k, v in tables.columns.items() if v not in columns})
    write_table(table, path, float_format)


def write_raters(result: xr.DataTree, path: Path) -> None:
    """Write the table of raters, with the positive one of two classes."""
    table = bf.rater_table(result, columns="all")
    if (positive := table.attrs.get("positive")) is not None:
        table["positive"] = positive
    write_table(table, path)


def write_spans(result: xr.DataTree, sequences: bf.Sequences | None, path: Path) -> None:
    """Write the spans of tags, or the runs of other classes, with their probabilities."""
    tags = mark_spans(bf.label_probabilities(result)["class"].values.tolist())
    table = bf.spans(result, sequences, scheme="bio" if tags else "runs")
    write_table(table, path)


def write_asked(
    result: xr.DataTree, tables: Tables, arguments: argparse.Namespace, path: Path
) -> None:
    """Write the items to label next, with an empty column of labels, as ``--gold`` reads it.

    Columns have the names of the table of responses.
    """
    asked = bf.decisions.next_items(result, arguments.ask, random_seed=arguments.seed)
    if len(asked) < arguments.ask:
        write_stderr(
            f"bayesfuse: --ask {arguments.ask:,}: only {len(asked):,} items have unknown labels"
        )
    write_table(asked[["item"]].assign(label="").rename(columns=tables.columns), path)


def draw(result: xr.DataTree, path: Path) -> None:
    """Plot the overview of a result."""
    from matplotlib.figure import Figure  # not pyplot, which would keep it

    figure = Figure((13.6, 6.4), layout="constrained")
    bf.plots.plot_overview(result, figure=figure)
    figure.savefig(path, dpi=150)


def write_report(result: Any, tables: Tables, path: Path) -> None:
    """Write the page of an answer, with the shares of groups if there are any."""
    result.report(path, tables.groups)


def write_netcdf(result: xr.DataTree, path: Path) -> str:
    """Write a result as NetCDF, and return a remark on groups that were left out."""
    left_out = ""
    if isinstance(result, bf.Fused) and result.nbytes > MAX_BYTES and "models" in result.children:
        result = result.copy(deep=False)
        del result["models"]
        left_out = (
            f"; its models, above {MAX_BYTES / 1e6:.0f} MB, which predictions need, are left out"
        )
    content = result.to_netcdf(engine="h5netcdf")  # in memory, as a full disk would crash HDF5
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # some full disks raise only here
    return left_out


def report(
    model: bf.build.LabelModel,
    result: xr.DataTree,
    schedule: Schedule | None = None,
    gold: Any = None,
) -> str:
    """Return limits, parameters, raters, the least certain items and convergence as text."""
    sizes = require_draws(result, "A report").sizes
    settings = result.attrs
    probability = bf.label_probabilities(result, model)
    labels = observation_of(result, model).labels
    sequences: bf.Sequences | None = getattr(labels, "sequences", None)
    graph: bf.Graph | None = getattr(labels, "graph", None)
    structure = Inputs(model.responses, sequences, graph)
    data = [repr(value) for value in (model.responses, sequences, graph) if value is not None]
    classes = bf.checks.collapse(result, model)
    stored = f" (one in {settings['thin']} stored)" if settings.get("thin", 1) > 1 else ""
    text = (
        f"{type(model).__name__}: {sizes['chain']} chains of {n_draws(result):,} draws{stored} by "
        f"{settings.get('sampler', settings.get('method'))}, start: {settings['start']}.\n"
        f"Estimates are posterior means with {coverage():.0%} intervals."
    )
    limits = (
        [] if structure.has_order else bf.checks.identifiability(model.responses, gold).problems
    )
    findings = check_model(result, model, structure, SEED, schedule) if schedule else []
    checks = [bullet(in_options(sentence)) for sentence in word(findings)]
    wrong = (1.0 - probability.max("class").values) @ model.responses.multiplicity
    text += f"\nIf the model is right, {wrong:,.1f} labels are expected to be wrong."
    parts = [
        "\n".join(data),
        text,
        "\n".join(["Remarks on this table:", *(bullet(in_options(line)) for line in limits)])
        if limits
        else "",
        _parameter_table(result),
        paragraph(in_options(classes.attrs["verdict"])) if classes.attrs["collapsed"] else "",
        _group_table(result) if hasattr(model, "groups") else "",
        in_columns(best_and_worst(result)),
        _item_table(probability, sequences),
        "\n".join(["Posterior predictive checks:", *checks]) if checks else "",
        _convergence(model, result),
    ]
    return "\n\n".join(filter(None, parts))


def n_draws(result: xr.DataTree) -> int:
    """Return the draws of each chain, whether stored or thinned."""
    made = int(result["posterior"].sizes["draw"] * result.attrs.get("thin", 1))
    return min(made, int(result.attrs.get(REQUESTED, made)))  # the last may be of fewer


def _parameter_table(result: xr.DataTree) -> str:
    """Return the entries of small parameters of the labels."""
    draws = result["posterior"].dataset
    names = [name for name in PARAMETERS if name in draws and draws[name][0, 0].size <= MAX_ENTRIES]
    if not names:
        return ""
    table = summarise_draws(draws[names], kind="stats", ci_kind="eti", round_to="none")
    rows = [[name, ESTIMATE(mean, low, high)] for name, mean, _, low, high in table.itertuples()]
    return as_columns(["parameter", "mean"], rows)


def _group_table(result: xr.DataTree) -> str:
    """Return the groups of raters who share a source, and their informedness."""
    groups = bf.checks.group_summary(result)
    if len(groups) == 0:
        origin = result.attrs["groups"]
        why = f" ({origin})" if origin.startswith("no groups") else ""
        words = f"No raters share a source{why}, so this is the model of Dawid and Skene."
        if origin != "posterior":
            words += (
                " Groups are found by moments; --groups posterior infers how probable they are."
            )
        return paragraph(words)
    rows = []
    for row in groups.itertuples():
        names = in_one_line(", ".join(map(in_one_line, row.raters)), WIDTH // 2)
        informedness = ESTIMATE(row.informedness, row.low, row.high)
        rows.append([names, f"{row.probability:.2f}", informedness])
    return as_columns(["raters who share a source", "probability", "informedness (0: none)"], rows)


def _item_table(probability: xr.DataArray, sequences: bf.Sequences | None) -> str:
    """Return the least certain items with more than one visible class."""
    owner = None if sequences is None else sequences.to_frame().set_index("item")["sequence"]
    several = probability[(probability.values >= VISIBLE).sum(axis=1) > 1]
    shown = least_certain(several, N_UNCERTAIN, owner)
    uncertain = int((probability.max("class") < SURE).sum())
    count = f"{uncertain:,} of {probability.sizes['item']:,} items have no label of probability"
    table = in_columns(shown) + "\n"
    return f"{table if len(shown) else ''}{count} {SURE} or more."


def _convergence(model: bf.build.LabelModel, result: xr.DataTree) -> str:
    """Return the worst R-hat and ESS, with advice if they are insufficient."""
    names = [variable.name for variable in model.free_RVs]
    draws = posterior_draws(result, *names)
    step = -(-sum(array[0, 0].size for array in draws.values()) // MAX_CHECKED)
    draws = draws.isel(rater=slice(None, None, step), missing_dims="ignore")
    diagnostics = summarise_draws(draws, kind="diagnostics", round_to="none")[["r_hat", "ess_bulk"]]
    if diagnostics.isna().all().any():
        return "Convergence cannot be assessed: that needs two or more chains and more draws."
    rhat, ess = diagnostics["r_hat"].max(), diagnostics["ess_bulk"].min()
    worst_rhat = in_one_line(diagnostics["r_hat"].idxmax())
    worst_ess = in_one_line(diagnostics["ess_bulk"].idxmin())
    line = f"Largest R-hat {rhat:.3f} ({worst_rhat}), smallest ESS {ess:,.0f} ({worst_ess})."
    if step > 1:
        line += f" Every {step}-th rater was checked."
    return line + _advice(
        rhat, ess, result.attrs["sampler"], n_draws(result) < result.attrs.get(REQUESTED, 0)
    )


def _advice(rhat: float, ess: float, sampler: str, is_short: bool) -> str:
    """Return advice: longer chains if they mix slowly, more if they disagree."""
    if rhat <= MAX_RHAT and ess >= MIN_ESS:
        return ""
    more = "more sweeps per draw (--sweeps)" if sampler == "gibbs" else "more draws (--draws)"
    words = (
        f"The chains should run longer: R-hat should be below {MAX_RHAT}, the effective "
        f"sample size above {MIN_ESS}. Try {more}."
    )
    if is_short:
        words = (
            f"The chains ended early, and should run longer: R-hat should be below {MAX_RHAT}, the "
            f"effective sample size above {MIN_ESS}."
        )
    elif rhat > ONE_MODE_RHAT:
        words = (
            f"The chains disagree (R-hat above {ONE_MODE_RHAT}), so these estimates average over "
            f"different modes. Try {more}. If chains still disagree, give known labels of some "
            "items (--gold) or choose another model."
        )
    return "\n" + paragraph(words)

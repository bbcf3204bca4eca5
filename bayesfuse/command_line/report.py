"""The report of a fit as text: classes, raters, least certain items, checks, convergence."""

from __future__ import annotations

from textwrap import fill

import numpy as np
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer.budget import Budget
from bayesfuse.answer.candidates import Inputs
from bayesfuse.answer.findings import SURE, of_model
from bayesfuse.answer.fused import WIDTH, best_and_worst, bullet, in_columns
from bayesfuse.checks.collapse import MIXED
from bayesfuse.data.describing import FEW, as_columns, in_one_line, shortened
from bayesfuse.pymc.model import LabelModel
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import all_draws, named, require_draws
from bayesfuse.results.summaries import (
    VISIBLE,
    coverage,
    interval,
    least_certain,
    likely,
    posterior_draws,
)

ITEMS = 10  # number of the least certain items to print
COLUMNS = 4  # largest number of estimates with intervals on a line

CLASS_COLUMNS = {"prevalence": "prevalence", "initial": "first in sequence"}
"""Headings of the table of classes, by variable."""

LARGE_RHAT, SMALL_ESS = 1.01, 400
"""Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16, 667–718."""

ESTIMATE = "{:.2f} ({:.2f}–{:.2f})".format  # mean and interval

SEED = 1  # seed of the checks, so that the same fit gives the same report

CHECKED = 1000  # approximate number of parameters whose convergence is checked


def report(model: LabelModel, result: xr.DataTree, budget: Budget | None = None) -> str:
    """Return classes, raters, the least certain items and the convergence of a fit as text.

    Labels in sequence have a transition matrix, labels on a graph a coupling. ``budget`` is
    the time for posterior predictive checks, None for none.
    """
    sizes = require_draws(result, "A report").sizes
    settings, how = result.attrs, result["label_posterior"].attrs
    probability = bf.label_probabilities(result, model)
    labels = observation_of(result, model).labels
    sequences: bf.Sequences | None = getattr(labels, "sequences", None)
    graph: bf.Graph | None = getattr(labels, "graph", None)
    structure = Inputs(model.responses, sequences, graph)
    data = [repr(each) for each in (model.responses, sequences, graph) if each is not None]
    classes = bf.checks.collapse(result, model)
    said = (
        f"{type(model).__name__}: {sizes['chain']} chains of {sizes['draw']:,} draws by "
        f"{settings.get('sampler', settings.get('method'))}, start: {settings['start']}.\n"
        f"Estimates are posterior means with {coverage():.0%} intervals."
    )
    wrong = (1.0 - probability.max("class").values) @ model.responses.multiplicity
    said += f"\nIf the model is right, {wrong:,.1f} labels are expected to be wrong."
    if not how["exact"]:
        said += f"\nLabels were summed out by {how['method']}, which is not exact here; gibbs is."
    rules = isinstance(model, bf.models.LabellingFunctions)
    parts = [
        "\n".join(data),
        said,
        _class_table(result, probability),
        fill(classes.attrs["verdict"], WIDTH) if classes.attrs["collapsed"] else "",
        _transition_table(result) if sequences is not None else "",
        _coupling(result) if graph is not None else "",
        _group_table(result) if hasattr(model, "groups") else "",
        _source_table(model, result) if rules else in_columns(best_and_worst(result)),
        _item_table(probability, sequences),
        _hard_items(model, result) if isinstance(model, bf.models.ItemTypes) else "",
        _check_list(model, result, structure, budget) if budget and not rules else "",
        _convergence(model, result),
    ]
    return "\n\n".join(filter(None, parts))


def _class_table(result: xr.DataTree, probability: xr.DataArray) -> str:
    """Return the prevalence and initial distribution, or on a graph the shares of the items."""
    draws = all_draws(result)
    found = {title: named(draws, name) for name, title in CLASS_COLUMNS.items()}
    columns = {title: _estimates(drawn) for title, drawn in found.items() if drawn is not None}
    share = probability.mean("item")
    if not columns:
        columns["share of the items"] = [f"{value:.2f}" for value in share.values]
    rows = zip(map(in_one_line, share["class"].values), *columns.values(), strict=True)
    return as_columns(["class", *columns], [list(row) for row in rows])


def _transition_table(result: xr.DataTree) -> str:
    """Return the transition matrix, with intervals if these fit on a line."""
    draws = posterior_draws(result, "transition")["transition"]
    names = list(map(in_one_line, draws["class"].values))
    if len(names) <= COLUMNS:
        cells = [_estimates(draws.isel(next_class=at)) for at in range(len(names))]
        header = ["after", *(f"then {name}" for name in names)]
        return as_columns(header, [list(row) for row in zip(names, *cells, strict=True)])
    means = draws.mean(("chain", "draw")).values
    rows = [[name, likely(draws["class"], mean)] for name, mean in zip(names, means, strict=True)]
    return as_columns(["after", "then"], rows)


def _coupling(result: xr.DataTree) -> str:
    draws = posterior_draws(result, "coupling")["coupling"].expand_dims(of=1, axis=-1)
    (coupling,), (odds,) = _estimates(draws), _estimates(xr.ufuncs.exp(draws))
    return (
        f"Coupling {coupling}: every neighbour in a class (edge of weight 1) multiplies\n"
        f"the odds of that class by {odds}."
    )


def _group_table(result: xr.DataTree) -> str:
    """Return the groups of raters who share a source, and their informedness."""
    groups = bf.checks.group_summary(result)
    if len(groups) == 0:
        return (
            "No raters were found to share a source, so this is the model of Dawid and Skene.\n"
            f"Groups: {result.attrs['groups']}."
        )
    lines = ["Raters who share a source (informedness 0: independent of the truth):"]
    for each in groups.itertuples():
        names = fill(", ".join(map(in_one_line, each.raters)), WIDTH, subsequent_indent="    ")
        informedness = ESTIMATE(each.informedness, each.low, each.high)
        lines.append(
            f"* {names}\n    probability {each.probability:.2f}, informedness of the source "
            f"{informedness}"
        )
    return "\n".join(lines)


def _source_table(model: LabelModel, result: xr.DataTree) -> str:
    """Return every vote's coverage, conflicts and accuracy, or of many the best and worst."""
    found = bf.sources(model, result).sort_values("accuracy", ascending=False, kind="stable")
    rows = []
    for vote, row in found.iterrows():
        shares = [f"{share:.3f}" for share in (row.coverage, row.conflicts)]
        accuracy = ESTIMATE(row.accuracy, row.accuracy_lower, row.accuracy_upper)
        rows.append([*map(in_one_line, vote), *shares, accuracy])
    header = ["source", "label", "coverage", "conflicts", "accuracy"]
    words = (
        f"The dispersion of the votes is {result.attrs['dispersion']} (about one: sources are "
        "independent given the class; far above: votes hardly inform accuracies)."
    )
    return f"{as_columns(header, shortened(rows))}\n{fill(words, WIDTH)}"


def _item_table(probability: xr.DataArray, sequences: bf.Sequences | None) -> str:
    """Return the least certain items with more than one visible class."""
    owner = None if sequences is None else sequences.to_frame().set_index("item")["sequence"]
    several = probability[(probability.values >= VISIBLE).sum(axis=1) > 1]
    shown = least_certain(several, ITEMS, owner)
    uncertain = int((probability.max("class") < SURE).sum())
    count = f"{uncertain:,} of {probability.sizes['item']:,} items have no label of probability"
    table = in_columns(shown) + "\n"
    return f"{table if len(shown) else ''}{count} {SURE} or more."


def _hard_items(model: LabelModel, result: xr.DataTree) -> str:
    """Return the hardest items with what raters say of them, and the most frequent mistake."""
    found = bf.difficulty(result, model)
    header, rows = ["hardest", "raters disagree", "what those who look say"], []
    for at in np.argsort(-found["disagreement"].values, kind="stable")[:FEW]:
        each = found.isel(item=at)
        hard = ESTIMATE(*(float(each[name]) for name in ("disagreement", "low", "high")))
        said = likely(each["answer"], each["consensus"].values)
        rows.append([in_one_line(each["item"].values), hard, said])
    return f"{as_columns(header, rows)}\n{fill(found.attrs['verdict'], WIDTH)}"


def _check_list(model: LabelModel, result: xr.DataTree, structure: Inputs, budget: Budget) -> str:
    """Return the verdicts of the checks of an answer."""
    found = of_model(result, model, structure, SEED, budget)
    return "\n".join(["Posterior predictive checks:", *(bullet(each.words) for each in found)])


def _estimates(draws: xr.DataArray) -> list[str]:
    """Return means with intervals as text, from draws (chain, draw, one more dimension)."""
    numbers = draws.mean(("chain", "draw")), *interval(draws)
    return [ESTIMATE(*each) for each in zip(*(own.values for own in numbers), strict=True)]


def _convergence(model: LabelModel, result: xr.DataTree) -> str:
    """Return the worst R-hat and ESS, with advice if they are insufficient."""
    import arviz as az

    names = [variable.name for variable in model.free_RVs]
    draws = posterior_draws(result, *names)
    step = -(-sum(array[0, 0].size for array in draws.values()) // CHECKED)
    draws = draws.isel(rater=slice(None, None, step), missing_dims="ignore")
    with np.errstate(invalid="ignore"):  # structural zeros have no R-hat
        found = az.summary(draws, kind="diagnostics", round_to="none")[["r_hat", "ess_bulk"]]
    if found.isna().all().any():
        return "Convergence cannot be assessed: that needs two or more chains and more draws."
    rhat, ess = found["r_hat"].max(), found["ess_bulk"].min()
    where = in_one_line(found["r_hat"].idxmax()), in_one_line(found["ess_bulk"].idxmin())
    line = f"Largest R-hat {rhat:.3f} ({where[0]}), smallest ESS {ess:,.0f} ({where[1]})."
    if step > 1:
        line += f" Every {step}-th rater was checked."
    return line + _advice(rhat, ess, result.attrs["sampler"])


def _advice(rhat: float, ess: float, sampler: str) -> str:
    """Return advice: longer chains if they mix slowly, more if they disagree."""
    if rhat <= LARGE_RHAT and ess >= SMALL_ESS:
        return ""
    gibbs = sampler == "gibbs"
    more = "more sweeps per draw (--sweeps)" if gibbs else "more draws (--draws)"
    if rhat > MIXED:
        words = (
            f"The chains disagree (R-hat above {MIXED}), so these estimates average over different "
            f"modes. Try {more}. If chains still disagree, give known labels of some items "
            "(--gold) or choose another model."
        )
    else:
        words = (
            f"The chains should run longer: R-hat should be below {LARGE_RHAT}, the effective "
            f"sample size above {SMALL_ESS}. Try {more}"
            f"{', in a result of the same size, or more draws (--draws)' if gibbs else ''}."
        )
    return "\n" + fill(words, WIDTH)

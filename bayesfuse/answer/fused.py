"""The answer of ``bf.fuse``, an average of several models: as tables, text, page and picture."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.answer.average import VOTES
from bayesfuse.answer.page import as_cell, as_page
from bayesfuse.answer.predicted import predicted
from bayesfuse.data.describing import FEW, as_columns, in_one_line, shortened
from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import ModelError
from bayesfuse.results.contents import class_names, of_all_draws, one_of
from bayesfuse.results.joint_labels import GROUP
from bayesfuse.results.paths import spans
from bayesfuse.results.posterior import PLACE
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import (
    answered,
    balanced_accuracy,
    interval,
    least_certain,
    rater_accuracy,
    responses_per_rater,
    tails,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


WIDTH = 88  # width of paragraphs
FEW_RESPONSES = 10  # raters with fewer are not shown among the best and the worst
COUNTED = {GROUP, "observed_data"}  # groups from which accuracies are counted


class Fused(xr.DataTree):
    """The answer of :func:`bayesfuse.fuse`, an :class:`xarray.DataTree`.

    Groups: ``label_posterior``, the averaged label probabilities; ``posterior``, draws of the
    mixture of the models (``prevalence``, ``confusion``, ``sensitivity``, ``specificity``, as far
    as all models have them); ``difficulty`` by item; ``comparison`` by model, including those that
    were not fitted, with the largest Monte Carlo error (``mcse``) and R-hat (``rhat``) of a label;
    ``label_draws``, joint draws of all labels; ``constant_data``; and below ``models`` the result
    of every model. With known labels also ``known_labels``, the result of
    :class:`bayesfuse.models.WeightedVotes`, from which labels and raters then come. All
    functions of a result take it, such as ``bf.label_probabilities``, ``bf.summary``,
    ``bf.decisions`` and ``bf.plots``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.simulate_dawid_skene(40, 5, 2, random_seed=1).responses
    >>> fused = bf.fuse(responses, minutes=1, random_seed=1, progressbar=False)
    >>> fused.labels().columns.tolist()
    ['item', 'label', 'probability', 'difficulty']
    >>> fused.raters().columns[:6].tolist()
    ['rater', 'responses', 'accuracy', 'low', 'high', 'balanced_accuracy']
    """

    __slots__ = ()

    def labels(self) -> pd.DataFrame:
        """Return the most probable label of every item.

        Returns
        -------
        DataFrame
            ``item``, ``label``, its ``probability``, and ``difficulty``: the probability that two
            raters who look at the item disagree (missing if no model estimates it).
        """
        probability = label_probabilities(self)
        values = probability.values
        classes = np.asarray(class_names(self), dtype=object)
        table = pd.DataFrame(
            {
                "item": probability["item"].values,
                "label": classes[values.argmax(axis=1)],
                "probability": values.max(axis=1),
            }
        ).infer_objects()
        table["difficulty"] = (
            self["difficulty"]["disagreement"].values if "difficulty" in self.children else np.nan
        )
        return table

    def probabilities(self) -> pd.DataFrame:
        """Return the probability of every class for every item.

        Returns
        -------
        DataFrame
            Items in the index, classes in the columns; rows sum to one.
        """
        return label_probabilities(self).to_pandas()

    def predict(self, responses: Responses, *, draws: int = 400, **places: Any) -> xr.DataTree:
        """Predict the labels of new items: :func:`bayesfuse.predict` calls this.

        Parameters
        ----------
        responses : Responses
            Responses to the new items.
        draws : int, default 400
            Maximum number of posterior draws of each model.
        **places
            What describes the new items, as in :func:`bayesfuse.predict`.

        Returns
        -------
        DataTree
            The average of the predictions of the models, with their weights, corrected by the
            known labels if there are any.

        Raises
        ------
        ModelError
            As :func:`bayesfuse.predict`.
        """
        self._told("headline")
        return predicted(self, responses, draws=draws, **places)

    def raters(self, by: Any = None, *, ci_prob: float | None = None) -> pd.DataFrame:
        """Return how often every rater is right on the items it answered, the best first.

        Responses are compared with joint draws of the true labels, in which known labels are fixed.

        Parameters
        ----------
        by : mapping, Series or array, optional
            Group of every item, as in :func:`class_shares`. Each group has rows of its own,
            of the raters who answered its items.
        ci_prob : float, optional
            Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.

        Returns
        -------
        DataFrame
            ``group`` (with ``by``), ``rater``, the number of ``responses``, ``accuracy`` (the share
            of responses that are right) with ``low`` and ``high``; ``balanced_accuracy`` (the mean
            over the classes of the share of their items that are recognised); for two classes
            ``sensitivity``, ``specificity`` and ``bias`` (the share of responses that are the
            second class, minus the share of these items that are of it), for more
            ``sensitivity[class]`` and ``bias[class]``; each with its ends ``…_low`` and ``…_high``.
            ``known`` is the number of responses to items of known class and ``known_accuracy`` the
            share of these that are right. Missing for classes of less than half an expected item.

        Raises
        ------
        ModelError
            An answer by vote shares alone, or by models without accuracies and without joint draws
            of the labels; ``by`` without such draws.
        ResponsesError
            Groups of unknown items, or none for some item.

        Notes
        -----
        With known labels, accuracies are corrected by these minus their probabilities without them,
        partially pooled over raters, those by class by the same amounts: intervals of 90 % then
        hold .91 instead of .81 of the true accuracies (ten tables, 20 known labels). Without joint
        draws (tables of counts, very large ones), ``balanced_accuracy`` is of the parameters.
        """
        return rater_table(self, by, ci_prob)

    @property
    def log_likelihood(self) -> xr.DataTree:
        """The group of a model's result; an answer has none, which ``az.loo`` would ask for."""
        if "log_likelihood" not in self.children and "headline" in self.attrs:
            raise ModelError(
                "Pooled draws of several models do not give the log likelihoods of their mixture: "
                'fused["comparison"] compares the models, and az.loo takes the result of one, '
                f"{one_of(self)}. Got: an answer of bf.fuse."
            )
        return self.children["log_likelihood"]

    @property
    def headline(self) -> str:
        """Number of sure labels, and of labels that are expected to be wrong."""
        return str(self._told("headline"))

    @property
    def advice(self) -> list[str]:
        """Advice on what to do next, the most important first."""
        return self._told("advice").splitlines()

    @property
    def checks(self) -> list[str]:
        """Verdicts of the checks of every model."""
        return self._told("checks").splitlines()

    def explain(self) -> str:
        """Return the calls of the public interface that give this answer.

        Returns
        -------
        str
            Python code. ``print(fused.explain())``.
        """
        return self._told("code")

    def __repr__(self, level: Any = 0) -> Any:
        return as_text(self) if "headline" in self.attrs else super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        if "headline" not in self.attrs:
            return str(super()._repr_html_())
        return as_cell(self.attrs, _sections(self), picture(self))

    def overview(self) -> str:
        """Return the answer as text: labels, raters, models, checks and advice."""
        self._told("headline")
        return as_text(self)

    def report(self, path: str | Path) -> Path:
        """Write the answer as one HTML page that needs no other file.

        Parameters
        ----------
        path : path
            Of an HTML file, which is overwritten.

        Returns
        -------
        Path

        Raises
        ------
        ModelError
            A name that does not end in .html.
        """
        self._told("code")
        path = Path(path)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ModelError(
                "The report is a page: its name ends in .html, and a browser prints it as PDF. "
                f"Got: {str(path)!r}."
            )
        from bayesfuse.plots.panels import picture_of_known

        overview, known = picture(self, (10.6, 6.4)), picture_of_known(self)
        page = as_page(self.attrs, _sections(self), _lists(self), overview, known)
        path.write_text(page, encoding="utf-8")
        return path

    def _told(self, name: str) -> str:
        if name not in self.attrs:
            raise ModelError(
                "Only the answer of bf.fuse as a whole has its code and advice; its groups have "
                f"none. Got: attributes {sorted(map(str, self.attrs))}."
            )
        return str(self.attrs[name])


def as_text(answer: xr.DataTree) -> str:
    """Return labels, raters, models, checks and advice as text."""
    parts = [fill(answer.attrs["headline"], WIDTH)]
    for title, section in _sections(answer).items():
        if isinstance(section, pd.DataFrame):
            parts.append(in_columns(section))
        else:
            parts.append("\n".join([f"{title}:", *map(bullet, section)]))
    return "\n\n".join(parts)


def picture(answer: xr.DataTree, size: tuple[float, float] = (13.6, 6.4)) -> Figure:
    """Return the overview of an answer as a figure, of a size in inches."""
    from matplotlib.figure import Figure  # not pyplot, which would keep it

    from bayesfuse.plots.overview import plot_overview

    figure = Figure(size, layout="constrained")
    plot_overview(answer, figure=figure)
    return figure


def _sections(answer: xr.DataTree) -> dict[str, pd.DataFrame | list[str]]:
    """Return the sections that are not empty, by title."""
    found: dict[str, Any] = {
        "Limits of this table": answer.attrs.get("limits", "").splitlines(),
        "Items with the least certain labels": least_certain(answered(answer)),
        "Raters": best_and_worst(answer),
        "Known labels": answer.attrs.get("known", "").splitlines(),
        "Models": _tried(answer),
        "Suggested next steps": answer.attrs["advice"].splitlines(),
        "Checks of the models": answer.attrs["checks"].splitlines(),
    }
    return {title: section for title, section in found.items() if len(section)}


def _lists(answer: xr.DataTree) -> dict[str, pd.DataFrame]:
    """Return the long tables of the page, which are folded: all raters, and all spans."""
    found = {"All raters": _rater_rows(answer)}
    if GROUP in answer.children and PLACE in answer["constant_data"].dataset:
        if mark_spans(class_names(answer)):
            table = spans(answer)
            found["Spans with the largest expected F1"] = (
                table[table["chosen"]].drop(columns="chosen").round(2)
            )
    return {title: table for title, table in found.items() if len(table)}


def rater_table(answer: xr.DataTree, by: Any = None, ci_prob: float | None = None) -> pd.DataFrame:
    """Return a row for every rater, also of the result of one model; see :meth:`Fused.raters`."""
    if not _judges_raters(answer):
        raise ModelError(
            "The accuracy of raters needs models: vote shares have no parameters of raters, "
            "and without joint draws of the labels the accuracy of labelling functions is "
            f"returned by bf.sources. Got: an answer by {', '.join(answer.attrs['models'])}."
        )
    if by is not None or (set(answer.children) >= COUNTED and of_all_draws(answer)):
        return rater_accuracy(answer, by, ci_prob)
    draws, responses = balanced_accuracy(answer), responses_per_rater(answer)
    numbers = draws.mean(("chain", "draw")), *interval(draws, ci_prob)
    names = (f"balanced_accuracy{end}" for end in ("", "_low", "_high"))
    columns = dict(zip(names, (each.values for each in numbers), strict=True))
    table = pd.DataFrame({"rater": draws["rater"].values, "responses": responses} | columns)
    return table.sort_values("balanced_accuracy", ascending=False, ignore_index=True)


def _judges_raters(answer: xr.DataTree) -> bool:
    """Return whether raters can be judged, by joint draws of the labels or by parameters."""
    if answer.attrs.get("models") == [VOTES] and "known_labels" not in answer.children:
        return False
    named = answer["posterior"] if "posterior" in answer.children else ()
    return set(answer.children) >= COUNTED or "sensitivity" in named


def best_and_worst(answer: xr.DataTree) -> pd.DataFrame:
    """Return the best and the worst raters as text; no rows where raters are not judged."""
    table = _rater_rows(answer, FEW_RESPONSES)
    return pd.DataFrame(shortened(table.to_numpy().tolist(), table.shape[1]), columns=table.columns)


def _rater_rows(answer: xr.DataTree, least: int = 0) -> pd.DataFrame:
    """Return raters as text, with the measures of two classes or of more.

    Those of fewer than ``least`` responses are left out if enough others are left.
    """
    if not _judges_raters(answer):
        return pd.DataFrame()
    table = rater_table(answer)
    some = table["responses"] >= least
    few = not some.all() and some.sum() > 2 * FEW
    table = table[some] if few else table
    names: tuple[str, ...] = ("balanced_accuracy",)
    if "sensitivity" in table:
        names = ("sensitivity", "specificity")
        if table[list(names)].isin([0.0, 1.0]).all(axis=None):  # rules of one label each
            names = ()
    shown = {"accuracy": ""} | {name: f"{name}_" for name in names}
    shown = {name: prefix for name, prefix in shown.items() if name in table}
    rows = []
    for row in table.to_dict("records"):
        numbers = [
            [row[key] for key in (name, f"{own}low", f"{own}high")] for name, own in shown.items()
        ]
        said = [f"{mean:.2f} ({low:.2f}–{high:.2f})" for mean, low, high in numbers]
        rows.append([in_one_line(row["rater"]), f"{row['responses']:,}", *said])
    of = dict(zip(("specificity", "sensitivity"), class_names(answer), strict=False))
    columns = [f"rater ({least}+ responses)" if few else "rater", "responses"]
    columns += [
        f"{n.replace('_', ' ')}{f' ({in_one_line(of[n])})' if n in of else ''}" for n in shown
    ]
    low, high = tails(None)
    columns[2] += f" ({high - low:.0%} interval)"
    return pd.DataFrame(rows, columns=columns)


def _tried(answer: xr.DataTree) -> pd.DataFrame:
    """Return the models that were tried, and why."""
    table = answer["comparison"].dataset.to_dataframe()
    return pd.DataFrame(
        {
            "model": table.index,
            "weight": [f"{weight:.2f}" for weight in table["weight"]],
            "seconds": [f"{seconds:.0f}" for seconds in table["seconds"]],
            "outcome": table["outcome"].to_numpy(),
            "because": table["why"].to_numpy(),
        }
    )


def in_columns(table: pd.DataFrame) -> str:
    """Return a table as text."""
    return as_columns(table.columns.tolist(), table.to_numpy().tolist())


def bullet(line: str) -> str:
    """Return a line as an item of a list."""
    return fill(line, WIDTH, initial_indent="* ", subsequent_indent="  ")

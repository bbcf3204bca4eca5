"""The answer of ``bf.fuse``, an average of several models: as tables, text, page and picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.data.describing import FEW, as_columns, bullet, in_one_line, paragraph, shortened
from bayesfuse.data.responses import Responses
from bayesfuse.decisions.best_labels import best_labels
from bayesfuse.ensemble.average import predicted
from bayesfuse.ensemble.page import as_cell, as_page
from bayesfuse.errors import ModelError
from bayesfuse.results.contents import class_names, one_of
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import judges_raters, rater_table
from bayesfuse.results.summaries import answered, coverage, least_certain

FEW_RESPONSES = 10  # raters with fewer are not shown among the best and the worst


class Fused(xr.DataTree):
    """The answer of :func:`bayesfuse.fuse`, an :class:`xarray.DataTree`.

    Groups: ``label_posterior``, the averaged label probabilities; ``posterior``, draws of the
    abilities of raters, as in :func:`bayesfuse.rater_table`, and of the shares of the classes
    (``prevalence``); ``difficulty`` by item; ``comparison`` by model, including those
    not fitted, with the largest Monte Carlo error (``mcse``) and R-hat (``rhat``) of a label;
    ``label_draws``, joint draws of all labels; below ``models`` the result of every model; and
    ``known_labels``, that of :class:`bayesfuse.models.WeightedVotes`, if labels are known.

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

    def labels(self, costs: Any = None) -> pd.DataFrame:
        """Return a table of the most probable label of every item, or of that of least cost.

        With ``costs``, as in :func:`bayesfuse.decisions.best_labels`, ``label`` may be "reject",
        ``probability`` is that of the label (missing if rejected), and ``cost`` its expected cost.
        ``difficulty`` is the probability that two raters who look at the item disagree, missing if
        no model estimates it.
        """
        probability = label_probabilities(self)
        values = probability.values
        classes = np.asarray(class_names(self), dtype=object)
        hard = "difficulty" in self.children
        table = pd.DataFrame(
            {
                "item": probability["item"].values,
                "label": classes[values.argmax(axis=1)],
                "probability": values.max(axis=1),
                "difficulty": self["difficulty"]["disagreement"].values if hard else np.nan,
            }
        ).infer_objects()
        if costs is None:
            return table
        best = best_labels(self, costs)
        is_label = best["label"].values[:, None] == classes  # a rejected item has none
        of_label = np.where(is_label, values, 0.0).sum(axis=1)
        of_label = np.where(is_label.any(axis=1), of_label, np.nan)
        table = table.assign(label=best["label"].values, probability=of_label).infer_objects()
        table.insert(3, "cost", best["cost"].values)
        return table

    def probabilities(self) -> pd.DataFrame:
        """Return label probabilities as a DataFrame, items in the index, classes in the columns."""
        return label_probabilities(self).to_pandas()

    def predict(self, responses: Responses, *, draws: int = 400, **places: Any) -> xr.DataTree:
        """Predict the labels of new items, as :func:`bayesfuse.predict`, which calls this."""
        self._text("headline")
        return predicted(self, responses, draws=draws, **places)

    def raters(
        self,
        by: Any = None,
        *,
        columns: Literal["main", "all"] = "main",
        ci_prob: float | None = None,
    ) -> pd.DataFrame:
        """Return the table of raters, :func:`bayesfuse.rater_table`.

        Of label sets it is over all labels, or of every label with ``by="label"``.
        """
        return rater_table(self, by, columns=columns, ci_prob=ci_prob)

    @property
    def log_likelihood(self) -> xr.DataTree:
        """The group of a model's result; an answer has none, for which ``az.loo`` would ask."""
        if "log_likelihood" not in self.children and "headline" in self.attrs:
            raise ModelError(
                "Pooled draws of several models do not give the log likelihoods of their mixture: "
                'fused["comparison"] compares the models, and az.loo takes the result of one, '
                f"{one_of(self)}. Got: an answer of bf.fuse."
            )
        if "log_likelihood" not in self.children:
            raise AttributeError("log_likelihood")
        return self.children["log_likelihood"]

    @property
    def headline(self) -> str:
        """Number of sure labels, and of labels that are expected to be wrong."""
        return self._text("headline")

    @property
    def advice(self) -> list[str]:
        """Advice on what to do next, the most important first.

        The lines of ``fused.attrs["advice_calls"]`` are the calls that the sentences name, of
        ``fused``, ``responses`` and arguments that only you can give; a line may be empty.
        """
        return self._text("advice").splitlines()

    @property
    def checks(self) -> list[str]:
        """Verdicts of the checks of every model."""
        return self._text("checks").splitlines()

    def explain(self) -> str:
        """Return the calls of the public interface that give this answer, as Python code."""
        return self._text("code")

    def __repr__(self, level: Any = 0) -> Any:
        return self.overview() if "headline" in self.attrs else super().__repr__()

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        if "headline" not in self.attrs:
            return str(super()._repr_html_())
        return as_cell(self)

    def overview(self, costs: Any = None) -> str:
        """Return the answer as text: labels, raters, models, checks and advice.

        With ``costs``, as in :func:`bayesfuse.decisions.best_labels`, their sum comes first.
        """
        self._text("headline")
        text = as_text(self)
        return text if costs is None else f"{paragraph(cost_sentence(self, costs))}\n\n{text}"

    def report(self, path: str | Path, by: Any = None) -> Path:
        """Write the answer as one HTML page that needs no other file.

        It has labels, raters, what to do next, models and checks, and the labels of all items as a
        CSV file to download.

        Parameters
        ----------
        path : path
            Ends in .html; the file is overwritten.
        by : mapping, Series or array, optional
            Group of every item, as in :func:`bayesfuse.class_shares`, whose shares are shown; a
            Series may name the groups.

        Returns
        -------
        Path

        Raises
        ------
        ModelError
            A file of another kind.
        ResponsesError
            Groups of unknown items, or none for some item.
        """
        self._text("code")
        path = page_path(path)
        path.write_text(as_page(self, by), encoding="utf-8")
        return path

    def _text(self, name: str) -> str:
        if name not in self.attrs:
            raise ModelError(
                "Only the answer of bf.fuse as a whole has its code and advice; its groups have "
                f"none. Got: attributes {sorted(map(str, self.attrs))}."
            )
        return str(self.attrs[name])


def page_path(path: str | Path) -> Path:
    """Return the path of a page, or raise ModelError if it is of another kind of file."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ModelError(
            "The report is a page: its name ends in .html, and a browser prints it as PDF. "
            f"Got: {str(path)!r}."
        )
    return path


def cost_sentence(answer: xr.DataTree, costs: Any) -> str:
    """Return a sentence on the expected cost of the labels of least cost."""
    best = best_labels(answer, costs)
    rejected = f", with {int(best['rejected']):,} of {best.sizes['item']:,} items rejected"
    return (
        f"The expected cost of the labels of least cost is {float(best['expected']):.4g} "
        f"({coverage():.0%} interval {float(best['low']):.4g} to {float(best['high']):.4g})"
        f"{rejected if best['rejected'] else ''}."
    )


def as_text(answer: xr.DataTree) -> str:
    """Return labels, raters, models, checks and advice as text."""
    parts = [paragraph(answer.attrs["headline"])]
    for title, section in _sections(answer).items():
        if isinstance(section, pd.DataFrame):
            parts.append(in_columns(section))
        else:
            parts.append("\n".join([f"{title}:", *map(bullet, section)]))
    return "\n\n".join(parts)


def _sections(answer: xr.DataTree) -> dict[str, pd.DataFrame | list[str]]:
    """Return the sections that are not empty, by title."""
    labels, heading = answered(answer), "least certain"
    if labels.sizes["item"] < label_probabilities(answer).sizes["item"]:
        heading = "least certain, of those with responses"
    sections: dict[str, Any] = {
        "Remarks on this table": answer.attrs.get("limits", "").splitlines(),
        "Items with the least certain labels": least_certain(labels, heading=heading),
        "Raters": best_and_worst(answer),
        "Known labels": answer.attrs.get("known", "").splitlines(),
        "Models": _tried(answer),
        "Suggested next steps": answer.attrs["advice"].splitlines(),
        "Checks of the models": answer.attrs["checks"].splitlines(),
    }
    return {title: section for title, section in sections.items() if len(section)}


def best_and_worst(answer: xr.DataTree) -> pd.DataFrame:
    """Return the best and the worst raters as text; no rows where raters are not judged."""
    table = _rater_rows(answer)
    return pd.DataFrame(shortened(table.to_numpy().tolist(), table.shape[1]), columns=table.columns)


def _rater_rows(answer: xr.DataTree) -> pd.DataFrame:
    """Return raters as text, with the measures of two classes or of more.

    Those of few responses are left out if enough others are left.
    """
    if not judges_raters(answer):
        return pd.DataFrame()
    table = rater_table(answer, columns="all")
    some = table["responses"] >= FEW_RESPONSES
    few = not some.all() and some.sum() > 2 * FEW
    table = table[some] if few else table
    names = ["sensitivity", "specificity"] if "sensitivity" in table else ["balanced_accuracy"]
    heading = f"rater ({FEW_RESPONSES}+ responses)" if few else "rater"
    rows = pd.DataFrame({heading: table["rater"].map(in_one_line)})
    rows["responses"] = table["responses"].map("{:,}".format)
    of = dict(zip(("specificity", "sensitivity"), class_names(answer), strict=False))
    level = f" ({coverage():.0%} interval)"
    for name in (name_of for name_of in ("accuracy", *names) if name_of in table):
        prefix = "" if name == "accuracy" else f"{name}_"
        ends = table[name], table[f"{prefix}low"], table[f"{prefix}high"]
        texts = [
            f"{mean:.2f} ({low:.2f}–{high:.2f})" for mean, low, high in zip(*ends, strict=True)
        ]
        of_class = f" ({in_one_line(of[name])})" if name in of else ""
        rows[f"{name.replace('_', ' ')}{of_class}{level}"], level = texts, ""
    for name in ("coverage", "overlaps", "conflicts"):
        if name in table:
            rows[name] = table[name].map("{:.0%}".format)
    return rows


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

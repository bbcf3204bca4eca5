"""The answer of ``bf.fuse``: a result that averages several models and says what to do next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.answer.text import as_text
from bayesfuse.errors import ModelError
from bayesfuse.results.contents import class_names
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import (
    balanced_accuracy,
    interval,
    responses_per_rater,
)


class Fused(xr.DataTree):
    """The answer of :func:`bayesfuse.fuse`, an :class:`xarray.DataTree`.

    Groups: ``label_posterior``, the averaged label probabilities; ``posterior``, draws of the
    mixture of the models (``prevalence``, ``confusion``, ``sensitivity``, ``specificity``, as far
    as all models have them); ``difficulty`` by item; ``comparison`` by model, those that were left
    out among them; ``constant_data``; and below ``models`` the result of every model. So functions
    of a result work, such as ``bf.label_probabilities``, ``bf.summary``, ``bf.decisions`` and
    ``bf.plots``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.simulate_dawid_skene(40, 5, 2, random_seed=1).responses
    >>> fused = bf.fuse(responses, minutes=1, random_seed=1, progressbar=False)
    >>> fused.labels().columns.tolist()
    ['item', 'label', 'probability', 'difficulty']
    >>> fused.raters().columns.tolist()
    ['rater', 'responses', 'accuracy', 'low', 'high']
    >>> print(fused.explain().splitlines()[0])
    import bayesfuse as bf
    """

    __slots__ = ()

    def labels(self) -> pd.DataFrame:
        """Return the most probable label of every item.

        Returns
        -------
        DataFrame
            ``item``, ``label``, its ``probability``, and ``difficulty``: the probability that two
            raters who look at the item disagree (missing where no model says it).
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

    def raters(self, ci_prob: float | None = None) -> pd.DataFrame:
        """Return how good every rater is, the best first.

        Parameters
        ----------
        ci_prob : float, optional
            Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

        Returns
        -------
        DataFrame
            ``rater``, the number of ``responses``, ``accuracy`` (the mean over the classes of the
            probability that an item of the class is recognised; guessing has 1 / number of
            classes), and the ends ``low`` and ``high`` of its interval.

        Raises
        ------
        ModelError
            The models say nothing of raters in common: labelling functions, and quick answers.
        """
        if "posterior" not in self.children or "sensitivity" not in self["posterior"]:
            raise ModelError(
                "Raters are judged by models that have confusion matrices: vote shares alone, for "
                "want of time, judge nobody, and of labelling functions bf.sources says how good "
                f"they are. Got: an answer by {', '.join(self.attrs.get('models', []))}."
            )
        draws = balanced_accuracy(self)
        low, high = interval(draws, ci_prob)
        table = pd.DataFrame(
            {
                "rater": draws["rater"].values,
                "responses": responses_per_rater(self),
                "accuracy": draws.mean(("chain", "draw")).values,
                "low": low.values,
                "high": high.values,
            }
        )
        return table.sort_values("accuracy", ascending=False, ignore_index=True)

    @property
    def headline(self) -> str:
        """How many labels are sure, and how many are expected to be wrong."""
        return str(self._told("headline"))

    @property
    def advice(self) -> list[str]:
        """What would help most next, the most important first."""
        return self._told("advice").splitlines()

    @property
    def checks(self) -> list[str]:
        """What the checks of every model said."""
        return self._told("checks").splitlines()

    def explain(self) -> str:
        """Return what was done as plain calls of the public interface, to take over from.

        Returns
        -------
        str
            Python code. ``print(fused.explain())``.
        """
        return self._told("code")

    def overview(self) -> str:
        """Return the answer as text: labels, raters, models, checks and what to do next."""
        return as_text(self)

    def report(self, path: str | Path) -> Path:
        """Write the answer as one HTML page that needs no other file.

        Parameters
        ----------
        path : path
            Is overwritten.

        Returns
        -------
        Path
        """
        from bayesfuse.answer.page import write_page

        return write_page(self, Path(path))

    def _told(self, name: str) -> str:
        if name not in self.attrs:
            raise ModelError(
                "An answer of bf.fuse knows how it was made; its groups and results of other "
                f"functions do not. Got: attributes {sorted(map(str, self.attrs))}."
            )
        return str(self.attrs[name])

"""The answer of ``bf.fuse``: a result that averages several models, with advice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.answer.report import as_page, as_text, judges_raters, rater_table
from bayesfuse.errors import ModelError
from bayesfuse.results.contents import class_names
from bayesfuse.results.probabilities import label_probabilities


class Fused(xr.DataTree):
    """The answer of :func:`bayesfuse.fuse`, an :class:`xarray.DataTree`.

    Groups: ``label_posterior``, the averaged label probabilities; ``posterior``, draws of the
    mixture of the models (``prevalence``, ``confusion``, ``sensitivity``, ``specificity``, as far
    as all models have them); ``difficulty`` by item; ``comparison`` by model, including those that
    were not fitted; ``constant_data``; and below ``models`` the result of every model. All
    functions of a result take it, such as ``bf.label_probabilities``, ``bf.summary``,
    ``bf.decisions`` and ``bf.plots``.

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

    def raters(self, ci_prob: float | None = None) -> pd.DataFrame:
        """Return the accuracy of every rater, the best first.

        Parameters
        ----------
        ci_prob : float, optional
            Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

        Returns
        -------
        DataFrame
            ``rater``, the number of ``responses``, ``accuracy`` (the mean over the classes of the
            probability that an item of the class is recognised, 1 / number of classes for
            guessing), and the ends ``low`` and ``high`` of its interval.

        Raises
        ------
        ModelError
            The models have no accuracy of raters: labelling functions, and quick answers.
        """
        if not judges_raters(self):
            raise ModelError(
                "The accuracy of raters needs models with confusion matrices: vote shares have no "
                "parameters of raters, and the accuracy of labelling functions is returned by "
                f"bf.sources. Got: an answer by {', '.join(self.attrs.get('models', []))}."
            )
        return rater_table(self, ci_prob)

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

    def overview(self) -> str:
        """Return the answer as text: labels, raters, models, checks and advice."""
        self._told("headline")
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
        self._told("code")
        path = Path(path)
        path.write_text(as_page(self), encoding="utf-8")
        return path

    def _told(self, name: str) -> str:
        if name not in self.attrs:
            raise ModelError(
                "Only the answer of bf.fuse as a whole has its code and advice; its groups have "
                f"none. Got: attributes {sorted(map(str, self.attrs))}."
            )
        return str(self.attrs[name])

"""Labels of least expected cost, with rejection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.data.cell_types import read_file
from bayesfuse.data.column_contents import by_text
from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_numbers, require_shape
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import constants
from bayesfuse.results.joint_labels import SAMPLES, if_stored, independent
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

REJECT = "reject"  # column of the cost of giving no label


def best_labels(result: xr.DataTree, costs: Any, *, ci_prob: float | None = None) -> xr.Dataset:
    r"""Choose the label of least expected cost for every item.

    The expected cost of label j for item n is :math:`\sum_k p_{nk} C_{kj}`, with the cost C of
    label j if the class is k. Equal costs of all errors give the most probable label. For two
    classes, costs t of a false positive and 1 − t of a false negative make t the probability from
    which an item is positive.

    Parameters
    ----------
    result : DataTree with label probabilities, such as that of ``bf.fuse``
    costs : DataFrame, mapping of mappings, array or path of a CSV file
        Cost by true class (rows) and label (columns, some or all classes). A column "reject", of an
        array a last column more, has the cost of giving no label, such as that of asking an expert.
        It is that of a class of this name if there is one; then no label can be rejected.
    ci_prob : probability of the equal-tailed interval, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset
        By item: ``label`` (a class, or "reject") and its expected ``cost``. The total cost of all
        items, ``expected``, with ``low`` and ``high`` from joint draws of the labels, shifted to
        the expected cost; without such draws labels are drawn independently. ``rejected``, the
        number of items.

    Raises
    ------
    ModelError
        Costs of other classes; a cost that is missing or not finite; a table of counts.

    References
    ----------
    Chow (1970), IEEE Transactions on Information Theory 16, 41–46. Elkan (2001), IJCAI.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> table = bf.Responses.from_matrix([["no"] * 5, ["no", "no", "no", "yes", "yes"]])
    >>> shares = bf.vote_shares(table)
    >>> costs = {"no": {"no": 0, "yes": 1}, "yes": {"no": 9, "yes": 0}}
    >>> bf.decisions.best_labels(shares, costs)["label"].values.tolist()
    ['no', 'yes']
    """
    labels = label_probabilities(result).transpose("item", "class")
    require_items(result)
    table = read_costs(costs, labels["class"].values)
    chosen, cost = table.cheapest(labels.values)
    low, high = interval_of_costs(result, labels, table.cost[:, chosen], tails(ci_prob))
    names = np.array(table.labels, dtype=object)[chosen]
    return xr.Dataset(
        {
            "label": ("item", names),
            "cost": ("item", cost),
            "expected": float(cost.sum()),
            "low": low,
            "high": high,
            "rejected": int(np.count_nonzero(names == REJECT)) if table.rejects else 0,
        },
        {"item": labels["item"].values},
    )


@dataclass(frozen=True)
class Costs:
    """Costs (classes, labels); the last label may be to reject."""

    labels: list[Any]
    cost: Array
    rejects: bool

    def cheapest(self, probability: Array) -> tuple[NDArray[np.int64], Array]:
        """Return the label of least expected cost for every item, and this cost."""
        by_label = probability @ self.cost
        chosen = by_label.argmin(axis=1)
        return chosen, by_label[np.arange(len(chosen)), chosen]


def read_costs(costs: Any, classes: NDArray[Any]) -> Costs:
    """Return costs in the order of the classes, or raise ModelError."""
    names = listed(classes)
    if not isinstance(costs, pd.DataFrame | Mapping | str | PathLike):
        cost = _finite(costs)
        rejects = cost.ndim == 2 and cost.shape[1] == len(names) + 1
        if rejects and REJECT in names:
            raise ModelError(
                f"No class may be called {REJECT!r} if labels may be rejected, because decisions "
                f"would be ambiguous: name the class otherwise. Got: classes {shown(names)}."
            )
        require_shape("costs", cost.shape, classes=len(names), labels=len(names) + rejects)
        return Costs([*names, REJECT][: cost.shape[1]], cost, rejects)
    if isinstance(costs, str | PathLike):
        table = read_file(costs)
        table = table.set_index(table.columns[0])
    else:
        table = costs if isinstance(costs, pd.DataFrame) else pd.DataFrame(costs).T
    name_of = by_text(names)
    table = table.rename(index=lambda name: name_of.get(str(name), name))
    table = table.rename(columns=lambda name: name_of.get(str(name), name))
    others = [name for name in table.columns if name not in names]
    rejects = others == [REJECT]
    has_all = sorted(map(str, table.index)) == sorted(map(str, names))
    if not has_all or (others and not rejects) or not table.columns.is_unique:
        raise ModelError(
            f"Costs have a row for every class, {shown(names)}, and a column for every label: some "
            f"of these, and {REJECT!r}. Got: rows {shown(table.index.tolist())}, columns "
            f"{shown(table.columns.tolist())}."
        )
    labels = [name for name in names if name in table.columns] + [REJECT] * rejects
    if not labels:
        raise ModelError("Costs need at least one label, because items get one. Got: no column.")
    # by number, because a list of booleans is a mask in pandas
    row_of, column_of = table.index.tolist().index, table.columns.tolist().index
    chosen = table.iloc[[*map(row_of, names)], [*map(column_of, labels)]]
    return Costs(labels, _finite(chosen.to_numpy()), rejects)


def _finite(costs: Any) -> Array:
    """Return costs as numbers, or raise ModelError."""
    cost: Array = require_numbers("costs", costs)
    if not np.isfinite(cost).all():
        raise ModelError(
            "costs must be finite, because expected costs are compared; leave out the column of a "
            f"label that is never given. Got: {shown(cost[~np.isfinite(cost)], 3)}."
        )
    return cost


def interval_of_costs(
    result: xr.DataTree, labels: xr.DataArray, cost: Array, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return quantiles of the total cost of decisions, ``cost`` (classes, items) if of a class."""
    drawn = if_stored(result)
    if drawn is None:
        drawn = independent(labels, SAMPLES, np.random.default_rng(0))
    totals = cost[drawn, np.arange(cost.shape[1])].sum(axis=1)
    expected = (labels.values.T * cost).sum()
    low, high = np.quantile(totals, ends) + (expected - totals.mean())
    return float(low), float(high)


def require_items(result: xr.DataTree) -> None:
    """Raise ModelError for a result of a table of counts."""
    if "multiplicity" in constants(result):
        raise ModelError(
            "Items are labelled one by one: use the table with one row per response, "
            "responses.expand(). Got: a result of a table of counts."
        )

"""Which items are merged: those that prior and channel treat alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.labels.base import LabelPrior
from bayesfuse.raters.base import RaterChannel


def kinds_of(
    responses: Responses, labels: LabelPrior, raters: RaterChannel, known: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return what items must share to be merged besides their responses, None if none may be."""
    kinds = [factor.kinds(responses) for factor in (labels, raters)]
    if any(each is None for each in kinds):
        return None
    varying = [each for each in kinds if each is not None and each.any()]
    if not varying:
        return known
    return np.unique(np.column_stack([known, *varying]), axis=0, return_inverse=True)[1].ravel()


def for_table(
    gold: NDArray[np.int64], inverse: NDArray[np.int64], table: Responses
) -> NDArray[np.int64]:
    """Return the known classes of merged items, which agree in them."""
    merged = np.full(table.n_items, -1)
    merged[inverse] = gold
    return merged

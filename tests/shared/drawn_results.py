"""Results that are made of joint draws of labels, without a model."""

import numpy as np
import xarray as xr

from bayesfuse.results.joint_labels import as_draws


def drawn_result(draws, classes, responses=None, gold=None):
    """Return a result with draws of labels (samples, items), and the responses if there are any."""
    draws = np.asarray(draws)
    share = (draws[..., None] == np.arange(len(classes))).mean(axis=0)
    items = np.arange(draws.shape[1]) if responses is None else responses.items
    names = {"item": items, "class": np.array(classes)}
    groups = {
        "label_posterior": xr.Dataset({"probability": (("item", "class"), share)}, names),
        "label_draws": as_draws(draws, items, names["class"]),
    }
    if responses is not None:
        item, rater = responses.small_columns
        data = {"item_index": ("response", item), "rater_index": ("response", rater)}
        if gold is not None:
            data["gold"] = ("item", np.asarray(gold))
        groups["constant_data"] = xr.Dataset(data, names | {"rater": responses.raters})
        groups["observed_data"] = xr.Dataset({"responses": ("response", responses.label)})
    return xr.DataTree.from_dict(groups)

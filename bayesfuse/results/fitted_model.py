"""The parameters of a fit by its model, where the result does not hold all that is needed."""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.basic import Variable

from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate, source_of
from bayesfuse.results.compatibility import observation_of, parameters
from bayesfuse.results.contents import all_draws
from bayesfuse.results.fitted import Fitted, known_items, population_names


def from_model(result: xr.DataTree, model: pm.Model) -> Fitted:
    """Evaluate the parameters by the model of a result."""
    values = parameters(result, model)
    observation = observation_of(result, model)
    items = known_items(result, observation.labels.needs)
    if items is not None:
        values = {name: values[name] for name in observation.raters.parameters}
    sizes = next(iter(values.values())).shape[:2]
    given = getattr(model, "newcomers", {})
    variables = {name: row for name, row in given.items() if isinstance(row, Variable)}
    with plain_python():
        newcomers = {**given, **evaluate(model, all_draws(result), variables)}
    for name, row in newcomers.items():
        if name not in variables and not isinstance(row, str):
            newcomers[name] = np.broadcast_to(row, (*sizes, *np.shape(row)))
    return Fitted(
        type(observation.labels),
        type(observation.raters),
        observation.labels.settings(),
        observation.raters.settings(),
        list(observation.labels.needs),
        values,
        newcomers,
        {name: source_of(model, name, row) for name, row in given.items()},
        observation.responses.raters,
        observation.responses.classes,
        population_names(result),
        items,
    )

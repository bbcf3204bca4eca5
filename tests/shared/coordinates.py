"""Values of a model's variables in the coordinates that PyMC's densities take."""

import numpy as np
import pytensor.tensor as pt

from bayesfuse.parameters.compiled import value_function, without_compilation


def coordinates(model, values):
    """Return the point at values of all free variables, by their names."""
    point = {}
    for variable in model.free_RVs:
        value, transform = values[variable.name], model.rvs_to_transforms[variable]
        if transform is not None:
            value = transform.forward(pt.as_tensor(value), *variable.owner.inputs).eval()
        point[model.rvs_to_values[variable].name] = value
    return point


def at_random(model, seed=1):
    """Return a point near PyMC's first, and the values of all variables there."""
    rng = np.random.default_rng(seed)
    point = {k: v + rng.normal(0, 0.5, np.shape(v)) for k, v in model.initial_point(3).items()}
    variables = {v.name: v for v in [*model.free_RVs, *model.deterministics]}
    with without_compilation():
        return point, value_function(model, variables)(point)

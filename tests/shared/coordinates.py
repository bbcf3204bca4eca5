"""Values of a model's variables in the coordinates that PyMC's densities take."""


def coordinates(model, values):
    """Return the point at values of all free variables, by their names."""
    point = {}
    for variable in model.free_RVs:
        value, transform = values[variable.name], model.rvs_to_transforms[variable]
        if transform is not None:
            value = transform.forward(value, *variable.owner.inputs).eval()
        point[model.rvs_to_values[variable].name] = value
    return point

"""The PyMC side: models, variables, the Ops over the kernels."""

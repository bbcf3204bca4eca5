"""How kernels are compiled and kept, and arithmetic on rows of probabilities."""

"""Compilation and caching of kernels, and arithmetic on rows of probabilities."""

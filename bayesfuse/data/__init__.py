"""Inputs: responses, sequences, graphs, and how they are read."""

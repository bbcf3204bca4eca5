"""Quantities derived from draws: label probabilities, summaries, label paths, model averages."""

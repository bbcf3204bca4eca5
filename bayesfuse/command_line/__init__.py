"""The command line: arguments, input tables, fits, reports and output files."""

FAILED, INTERRUPTED = 2, 130
"""Exit status after a user's mistake, as in argparse, and after Ctrl-C, as in shells."""

FORMATS = ("label-studio", "prodigy", "doccano", "mturk", "inspect", "verdicts")
"""Exports that are read by functions of ``bf.io``."""


class CommandError(Exception):
    """A command that cannot be carried out as given."""

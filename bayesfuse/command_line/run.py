"""Carry out a command: tables are read before the imports that take seconds."""

from __future__ import annotations

import argparse
import warnings

from bayesfuse.command_line import CommandError
from bayesfuse.command_line.arguments import in_options
from bayesfuse.command_line.console import write_stderr


def run(arguments: argparse.Namespace) -> int:
    """Read the tables, carry out the command and return its exit status."""
    from bayesfuse.command_line.label_sets import read_label_sets
    from bayesfuse.command_line.tables import read_tables
    from bayesfuse.errors import ModelError, ResponsesError

    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: write_stderr(
                f"bayesfuse: {in_options(str(message))}"
            )
            has_sets = getattr(arguments, "label_sets", None) is not None
            read = read_label_sets if has_sets else read_tables
            tables = read(arguments) if "responses" in arguments else None
            from bayesfuse.command_line.commands import COMMANDS

            return COMMANDS[arguments.command](arguments, tables)
    except (ModelError, ResponsesError) as error:
        raise CommandError(in_options(str(error))) from error

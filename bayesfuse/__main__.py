"""``python -m bayesfuse``: infer true labels and the accuracy of raters from a file."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from bayesfuse.command_line import FAILED, INTERRUPTED, CommandError
from bayesfuse.command_line.arguments import in_options, parse
from bayesfuse.command_line.console import finish, write_stderr


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    It is 2 after an error, which is printed on stderr in one line, and 130 after Ctrl-C, which ends
    sampling: the draws until then are written.
    """
    try:
        return _run(parse(argv))
    except KeyboardInterrupt:
        write_stderr("bayesfuse: interrupted before there was a result to write")
        return INTERRUPTED
    except (CommandError, OSError) as error:
        from bayesfuse.errors.messages import discreet  # which imports NumPy

        write_stderr(f"bayesfuse: error: {discreet(str(error))}")
    except MemoryError as error:
        write_stderr(
            f"bayesfuse: error: not enough memory; a larger --thin needs less. Got: {error}"
        )
    finally:
        finish()
    return FAILED


def _run(arguments: argparse.Namespace) -> int:
    """Carry out a command, importing what takes seconds after arguments and tables were checked."""
    from bayesfuse.command_line.tables import read_tables
    from bayesfuse.errors import ModelError, ResponsesError

    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: write_stderr(
                f"bayesfuse: {in_options(str(message))}"
            )
            tables = read_tables(arguments) if "responses" in arguments else None
        from bayesfuse.command_line.commands import COMMANDS

        return COMMANDS[arguments.command](arguments, tables)
    except (ModelError, ResponsesError) as error:
        raise CommandError(in_options(str(error))) from error


if __name__ == "__main__":
    sys.exit(main())

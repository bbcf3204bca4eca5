"""``python -m bayesfuse``: from a file of responses to true labels and judged raters."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bayesfuse.command_line import CommandError
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.commands import COMMANDS, INTERRUPTED
from bayesfuse.command_line.console import finish, tell
from bayesfuse.errors import ModelError, ResponsesError

FAILED = 2
"""Exit status after a user's mistake, as argparse has it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        What follows ``python -m bayesfuse``. Default the arguments of this process.

    Returns
    -------
    int
        0; 2 after an error, told in one line on stderr; 130 after Ctrl-C, which ends sampling:
        what was drawn until then is written.
    """
    try:
        arguments = parse(argv)
        return COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt:
        tell("bayesfuse: interrupted before there were draws to write")
        return INTERRUPTED
    except (CommandError, ModelError, ResponsesError, OSError) as error:
        tell(f"bayesfuse: error: {error}")
    except MemoryError as error:
        tell(f"bayesfuse: error: not enough memory; a larger --thin needs less. Got: {error}")
    finally:
        finish()
    return FAILED


if __name__ == "__main__":
    sys.exit(main())

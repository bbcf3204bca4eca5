"""``python -m bayesfuse``: infer true labels and the accuracy of raters from a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bayesfuse.command_line import FAILED, INTERRUPTED, CommandError
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.console import finish, write_error, write_stderr
from bayesfuse.command_line.run import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 2 after an error, or 130 after Ctrl-C (draws are kept)."""
    try:
        return run(parse(argv))
    except KeyboardInterrupt:
        write_stderr("bayesfuse: interrupted before there was a result to write")
        return INTERRUPTED
    except (CommandError, OSError) as error:
        write_error(str(error))
    except MemoryError as error:
        write_error(f"not enough memory; a larger --thin needs less. Got: {error}")
    finally:
        finish()
    return FAILED


if __name__ == "__main__":
    sys.exit(main())

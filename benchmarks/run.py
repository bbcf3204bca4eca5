"""Run benchmarks one after the other in this process, and fail if one of them fails.

With ``--quick`` all of them, smaller: what they print is shown only where they fail. Without it
name those to run whole, or none for all, which takes hours.

    python benchmarks/run.py [--quick] [--write] [NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import sys
import time
import traceback
import warnings
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import matplotlib as mpl
import matplotlib.pyplot as plt
from _shared import HERE, Arguments

NAMES = sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem != "run")


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it has started."""
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def run(name: str, *options: str) -> bool:
    """Run one benchmark as if alone, and return whether it has ended well."""
    sys.argv = [f"benchmarks/{name}.py", *options]
    level, screen = logging.getLogger("pymc").level, sys.stdout
    try:
        with warnings.catch_warnings():
            importlib.import_module(name).main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return not end.code
    except Exception:
        print(traceback.format_exc())
        return False
    finally:
        sys.stdout = screen
        logging.getLogger("pymc").setLevel(level)
        plt.close("all")
    return True


def main() -> None:
    parser = Arguments(__doc__, "all benchmarks, smaller")
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME")
    # not the method of Arguments: each script keeps its own output
    given = argparse.ArgumentParser.parse_args(parser)
    options = [f"--{name}" for name in ("quick", "write") if getattr(given, name)]
    mpl.use("Agg")
    failed = []
    for name in given.names or NAMES:
        print(f"{name:<22}", end="" if given.quick else "\n", flush=True)
        said, begun, used = io.StringIO(), time.perf_counter(), cpu()
        with contextlib.redirect_stdout(said) if given.quick else contextlib.nullcontext():
            well = run(name, *options)
        lines = said.getvalue().splitlines()
        skipped = next((line for line in lines if line.startswith("Skipped: ")), "")
        print(f"{time.perf_counter() - begun:6.1f} s, CPU {cpu() - used:6.1f} s  {skipped}")
        if not well:
            failed.append(name)
            print("FAILED", *lines, sep="\n    ", flush=True)
    if failed:
        raise SystemExit(f"These benchmarks failed: {', '.join(failed)}.")


if __name__ == "__main__":
    main()

"""The process in which fuzz cases run: greedystep is imported once, and a case is one call of `greedystep.cli.main`.

It reads one JSON object per line from standard input and answers with one:

    {"argv": [...]}                 a command line
    {"call": "module:name", "args"} a function of the tests, for what has no command

What a case prints goes to the file named on the command line, through the real file descriptors: messages of compiled
code and of the interpreter itself are there too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from typing import Any

IGNORED_BY_DEFAULT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


CLOCKS = {"wall": (signal.ITIMER_REAL, signal.SIGALRM), "cpu": (signal.ITIMER_PROF, signal.SIGPROF)}
MACHINE = 2 << 30
"""Bytes of memory that the machine says it has free: half of what the runner lets a worker hold, on every machine."""


def main() -> None:
    from greedystep import checks

    checks.free_memory = lambda: MACHINE
    printed = sys.argv[1]
    cases, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    sink = os.open(printed, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    for number, place in enumerate((os.open(os.devnull, os.O_RDONLY), sink, sink)):
        os.dup2(place, number)
    for line in cases:
        os.ftruncate(sink, 0)
        answer = _run(json.loads(line))
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _run(case: dict[str, Any]) -> dict[str, Any]:
    """What became of a case: its exit status or its unhandled exception, and whether it had to be interrupted."""
    interrupted = []

    def interrupt(number: int, frame: Any) -> None:
        interrupted.append(number)
        signal.raise_signal(signal.SIGINT)

    warnings.resetwarnings()
    warnings.simplefilter("always")  # a real process shows a warning once; this one runs many cases
    for kind in IGNORED_BY_DEFAULT:
        warnings.simplefilter("ignore", kind)
    os.chdir(case["folder"])  # the folder of the last case may have been replaced
    signal.signal(signal.SIGINT, signal.default_int_handler)
    clock, number = CLOCKS[case["clock"]]
    signal.signal(number, interrupt)
    signal.setitimer(clock, case["seconds"])
    start = time.perf_counter()
    status = error = result = None
    try:
        if "argv" in case:
            status = _command(case["argv"])
        else:
            module, _, name = case["call"].partition(":")
            result = getattr(importlib.import_module(module), name)(*case["args"])
    except SystemExit as stop:
        status = 0 if stop.code is None else stop.code
    except KeyboardInterrupt:
        status, error = None, "KeyboardInterrupt"
    except BaseException:
        error = traceback.format_exc()
    finally:
        signal.setitimer(clock, 0)
    gc.collect() if error else None  # an exception ignored in a finaliser belongs to the case that made it
    seconds = time.perf_counter() - start
    return {
        "status": status,
        "error": error,
        "result": result,
        "interrupted": bool(interrupted),
        "seconds": seconds,
    }


def _command(argv: list[str]) -> int:
    from greedystep.cli import main

    sys.argv = ["greedystep", *argv]
    return main(argv)


if __name__ == "__main__":
    main()

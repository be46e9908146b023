"""The command `greedystep`.

Nothing else is imported here: signals are handled before the slow imports of the commands begin.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from greedystep import __version__, signals

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit statuses other than 0, success."""


def program() -> NoReturn:
    """Run `main` and exit: the entry point of the command `greedystep`.

    Ctrl-C before or after `main` ends the process silently, instead of printing a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_streams()
    sys.exit(main())


def _open_streams() -> None:
    """Let everything be printed: what an encoding does not have as a question mark, and to nowhere what is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed, as in `2>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (until the process ends)
        elif getattr(stream, "errors", None) == "strict":
            stream.reconfigure(errors="replace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 failed, 2 bad input, 130 interrupted, 143 terminated."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv == ["--version"]:
        print(f"greedystep {__version__}")
        return 0
    try:
        with signals.handling():
            from greedystep.cli import commands

            status = commands.run(argv)
            if status not in (FAILED, BAD_INPUT):  # whose message is printed already
                signals.check()
            return status
    except signals.TerminatedError:
        print("greedystep: terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("greedystep: interrupted", file=sys.stderr)
        return INTERRUPTED

"""The command `greedystep`.

Nothing else is imported here: signals are handled before the slow imports of the commands begin.
"""

from __future__ import annotations

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
    sys.exit(main())


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

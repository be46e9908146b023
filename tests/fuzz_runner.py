"""Runs fuzz cases in a worker process and says what is wrong with their outcomes.

A case is a command line (or a call) in a scratch folder that is made anew whenever a case has changed it. The parent
looks at the folder before and after, restarts a worker that died, and kills one that takes too much memory or time.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STATUSES = (0, 1, 2, 130)
"""Exit statuses of the command line: done, a failing disk, bad input, interrupted."""
LONG, TOO_LONG, PATIENCE = 3.0, 120.0, 400.0
"""Seconds after which long work gets Ctrl-C; seconds of computing after which other cases do, and fail, however busy
the machine is (a fresh checkout compiles for half a minute); seconds after which a case is killed."""
MEMORY = 4 << 30
"""Bytes that a worker may hold; no case asks for more with good reason."""
CASES_PER_WORKER = 400
"""Compiled programs pile up in a process."""
RAW = {
    "a traceback": r"^Traceback \(most recent call last\)",
    "an ignored exception": r"^Exception ignored",
    "a raw warning": r"^\S+:\d+: \w*Warning: ",
    "a message of compiled code": r"^(\S+ )?[EFW]\d{4} |^\*\*\* Check failure|^terminate called|Fatal Python error",
}


@dataclass
class Case:
    """Something to run, and what to judge it by."""

    name: str
    """Seed and index: enough to make it again."""
    argv: list[str] | None = None
    call: str | None = None
    args: list[Any] = field(default_factory=list)
    prepare: Callable[[Path], str] | None = None
    """Changes the scratch folder first; returns what it did."""
    verify: Callable[[Path, str, Outcome], list[str]] | None = None
    """More problems, found in the scratch folder afterwards, by what `prepare` did and how the case ended."""
    seconds: float = TOO_LONG
    """Of computing, after which it has failed."""
    is_long: bool = False
    """Work that may take longer than a case is given was asked for: then Ctrl-C has to end it."""


@dataclass
class Outcome:
    """How a case ended."""

    status: int | None
    error: str | None
    printed: str
    seconds: float
    interrupted: bool = False
    result: Any = None


@dataclass
class Finding:
    """A case that went wrong."""

    case: Case
    recipe: str
    problems: list[str]
    printed: str

    def __str__(self) -> str:
        what = f"argv {self.case.argv!r}" if self.case.argv is not None else f"{self.case.call}{tuple(self.case.args)}"
        shown = self.printed if len(self.printed) < 3000 else f"{self.printed[:500]} [...] {self.printed[-2500:]}"
        recipe = f"\n  after: {self.recipe}" if self.recipe else ""
        return f"{self.case.name}: {'; '.join(self.problems)}\n  {what}{recipe}\n  printed: {shown.strip()!r}"


class Runner:
    """A worker and its scratch folder; a context manager.

    Args:
        folder: for everything that is written.
        examples: what the scratch folder holds at the beginning of each case.
    """

    def __init__(self, folder: Path, examples: Path | None = None):
        self.folder, self.examples = folder, examples
        self.scratch = folder / "outer" / "work"
        """Cases run here; whatever they write beside it (..) is seen as well."""
        self._printed = folder / "printed-0"
        self._process: subprocess.Popen[bytes] | None = None
        self._cases = self._started = 0
        self._state = self._fresh = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, cases: Iterable[Case], on_finding: Callable[[Finding], Any] = lambda finding: None) -> list[Finding]:
        """All cases, one after another; what is wrong with some of them."""
        findings = []
        for case in cases:
            finding = self.run_one(case)
            if finding is not None:
                findings.append(finding)
                on_finding(finding)
        return findings

    def run_one(self, case: Case) -> Finding | None:
        """What is wrong with a case, if anything."""
        self._restore()
        recipe = case.prepare(self.scratch) if case.prepare is not None else ""
        before = tree(self.scratch.parent)
        outcome = self._execute(case)
        after = tree(self.scratch.parent)
        self._state = after
        problems = judge(case, outcome, before, after)
        if not problems and case.verify is not None:
            problems = case.verify(self.scratch, recipe, outcome)
        if not problems:
            return None
        return Finding(case, recipe, problems, outcome.printed + (outcome.error or ""))

    # -- the scratch folder --------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        if self._fresh is not None and self._state == self._fresh:
            return
        shutil.rmtree(self.scratch.parent, ignore_errors=True)
        if self.examples is None:
            self.scratch.mkdir(parents=True)
        else:
            shutil.copytree(self.examples, self.scratch)
        (self.scratch / "loop").symlink_to("loop")
        os.mkfifo(self.scratch / "pipe")
        self._state = self._fresh = tree(self.scratch.parent)

    # -- the worker ----------------------------------------------------------------------------------------------------

    def _execute(self, case: Case) -> Outcome:
        if self._cases >= CASES_PER_WORKER:
            self._stop()
        self._cases += 1
        process = self._worker()
        assert process.stdin is not None
        what = {"argv": case.argv} if case.argv is not None else {"call": case.call, "args": case.args}
        limit = {"clock": "wall", "seconds": LONG} if case.is_long else {"clock": "cpu", "seconds": case.seconds}
        process.stdin.write(json.dumps({**what, "folder": str(self.scratch), **limit}).encode() + b"\n")
        process.stdin.flush()
        start = time.perf_counter()
        problem = self._wait(process, start + PATIENCE)
        seconds = time.perf_counter() - start
        if problem is not None:
            self._stop()
            return Outcome(None, problem, self._read_printed(), seconds)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.wait()
            name = signal.Signals(-process.returncode).name if process.returncode < 0 else process.returncode
            self._stop()
            return Outcome(None, f"the process ended: {name}", self._read_printed(), seconds)
        return Outcome(printed=self._read_printed(), **json.loads(line))

    def _wait(self, process: subprocess.Popen[bytes], until: float) -> str | None:
        """Until there is an answer; or why there will be none."""
        while not select.select([process.stdout], [], [], 0.1)[0]:
            if time.perf_counter() > until:
                return f"killed: it had not ended after {PATIENCE:g} seconds"
            if (held := _resident(process.pid)) > MEMORY:
                return f"killed: it held {held / 2**30:.1f} GiB of memory"
        return None

    def _worker(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self.scratch.mkdir(parents=True, exist_ok=True)
            source = Path(sys.modules["greedystep"].__file__ or "").parents[1] if "greedystep" in sys.modules else None
            paths = [str(HERE), str(HERE.parent), *([str(source)] if source else []), os.environ.get("PYTHONPATH", "")]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONFAULTHANDLER": "",
                "JAX_PLATFORMS": "cpu",
                "COLUMNS": "200",
                "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(self.folder / "compiled")),
                "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            }
            self._started += 1  # each worker prints to a file of its own: one that was killed may not be gone yet
            self._printed = self.folder / f"printed-{self._started}"
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "fuzz_worker.py"), str(self._printed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self.scratch,
                env=environment,
            )
            self._cases = 1
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _read_printed(self) -> str:
        return self._printed.read_text(errors="replace") if self._printed.exists() else ""


def judge(case: Case, outcome: Outcome, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is wrong with the outcome, in a few words each."""
    if outcome.error is not None and outcome.error != "KeyboardInterrupt":
        return [outcome.error.strip().splitlines()[-1][:300]]
    raw = RAW if case.argv is not None else {}  # a function may warn, and what it prints is the tests' own
    problems = [f"printed {what}" for what, pattern in raw.items() if re.search(pattern, outcome.printed, re.MULTILINE)]
    if outcome.interrupted or outcome.error is not None:
        if not case.is_long:
            problems.append(f"took more than {case.seconds:g} s of computing")
        if outcome.status not in STATUSES:  # 130, or it came to its end at the same moment
            problems.append(f"was interrupted and ended with status {outcome.status}")
    elif case.argv is not None:
        if outcome.status not in STATUSES:
            problems.append(f"exit status {outcome.status!r}")
        if outcome.status in (1, 2):
            said = [line for line in outcome.printed.splitlines() if line.startswith("greedystep: ")]
            if len(said) != 1 or not outcome.printed.rstrip().endswith(said[0].rstrip()):
                problems.append(f"status {outcome.status} is not explained by one sentence")
    if outcome.status == 2 and before != after:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        problems.append(f"refused, but changed {', '.join(changed)[:300]}")
    return problems


def tree(folder: Path) -> dict[str, Any]:
    """Everything in a folder, with what tells whether it has changed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            about = os.lstat(path)
            is_folder = name in folders and not os.path.islink(path)
            size = None if is_folder else (about.st_size, about.st_mtime_ns, about.st_ino)
            found[os.path.relpath(path, folder)] = size
    return found


def _resident(process: int) -> int:
    """Bytes of memory that it holds."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

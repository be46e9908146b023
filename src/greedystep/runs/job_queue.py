"""Run jobs in a pool of threads, which the first failure, or Ctrl-C, ends.

Threads are enough, since compiled loops and XLA's programs release the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Raised in a job that has to stop because another one failed or was interrupted."""


def run_jobs(
    jobs: Iterable[Callable[[], T]],
    workers: int,
    on_done: Callable[[T], Any] = lambda result: None,
    on_failure: Callable[[], Any] = lambda: None,
) -> None:
    """Run jobs in the given order in `workers` threads, and call `on_done` with each result as soon as it is there.

    An exception of a job or of `on_done`, and Ctrl-C, are raised here once the running jobs have ended; no further
    job is begun.

    Args:
        on_failure: called as soon as that happens, say to ask the running jobs to stop.
    """
    with ThreadPoolExecutor(workers) as pool:
        try:
            for done in as_completed([pool.submit(job) for job in jobs]):
                on_done(done.result())
        except BaseException:
            on_failure()
            pool.shutdown(wait=False, cancel_futures=True)  # leaving the context waits for the jobs under way
            raise

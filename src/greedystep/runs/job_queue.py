"""A queue of jobs for threads: the first failure, or Ctrl-C, ends it.

Threads are enough, since compiled loops and XLA's programs let go of the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

T = TypeVar("T")


def run_jobs(
    jobs: Iterable[Callable[[], T]],
    workers: int,
    on_done: Callable[[T], Any] = lambda result: None,
    on_failure: Callable[[], Any] = lambda: None,
) -> None:
    """Run jobs in their order, so many at a time, and give each result to `on_done` as soon as it is there.

    What a job, `on_done` or Ctrl-C raises is raised here once the jobs under way have ended; no other is begun then.

    Args:
        on_failure: called at once then, say to ask the jobs under way to stop.
    """
    with ThreadPoolExecutor(workers) as pool:
        try:
            for done in as_completed([pool.submit(job) for job in jobs]):
                on_done(done.result())
        except BaseException:
            on_failure()
            pool.shutdown(wait=False, cancel_futures=True)  # leaving the context waits for the jobs under way
            raise

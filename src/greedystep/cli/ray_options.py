"""Options of the commands that can work on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from greedystep.cli.args import NO_HINT, BadInputError, answering_bad_input, one_of

if TYPE_CHECKING:
    from greedystep.runs.ray_cluster import Cluster
    from greedystep.runs.ray_workers import RayWorkers


@dataclass(frozen=True)
class RayOptions:
    """Options for more than one process or machine (the extra `ray`)"""

    # Where to work: ray, in the workers of a Ray cluster, of which one is started on this machine where none runs
    # (default: in this process).
    on: Annotated[str | None, one_of("ray"), NO_HINT] = None

    # HOST:PORT of the head of the Ray cluster (default: RAY_ADDRESS, or the cluster that runs on this machine).
    ray_address: Annotated[str | None, NO_HINT] = None

    def check(self, *, has_actors: bool = False) -> None:
        """Raise ValueError if an address is given, but no Ray is to be used."""
        if self.ray_address is not None and self.on is None and not has_actors:
            raise ValueError("ray_address: only --on ray has workers elsewhere")
        if self.on is not None and has_actors:
            raise ValueError("actors: they play for one learner in this process; leave out --on ray")

    @contextmanager
    def cluster(self) -> Iterator[Cluster]:
        """Connect to Ray, or start it, for the block."""
        from greedystep.runs.ray_cluster import Cluster, ClusterError

        with answering_bad_input():
            cluster = Cluster(self.ray_address)
        try:
            with cluster:
                yield cluster
        except ClusterError as problem:
            raise BadInputError(str(problem)) from problem

    @contextmanager
    def workers(self, folder: Path | None = None) -> Iterator[RayWorkers]:
        """Connect to Ray, or start it, for the block; `folder` is where its workers keep their files."""
        from greedystep.runs.ray_workers import RayWorkers

        with self.cluster() as cluster, RayWorkers(cluster, folder) as workers:
            yield workers

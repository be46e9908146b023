"""The running episodes of host environments between two chunks of a training: begun, saved, replayed and cut."""

from __future__ import annotations

import warnings
from typing import Any

from greedystep.deep.host_loop import HostLoop
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState
from greedystep.envs.host_envs import MOST_ACTIONS


class HostEpisodes:
    """Brings the environments of a `HostLoop` to where the state of its lanes says that they are.

    Nothing of a simulator is in that state: environments are reset in the first chunk, and after a restore their
    running episodes are played again from seeds and actions.
    """

    def __init__(self, loop: HostLoop):
        self.loop = loop
        self._saved: dict[str, Any] | None = None
        """The running episodes until the environments are brought to them; None if there were none yet."""
        self._is_running = False
        """Whether the environments are where the lanes say."""

    @property
    def state(self) -> dict[str, Any] | None:
        """The running episodes as JSON, see `HostEnvs.state`; None before the first one."""
        return self.loop.envs.state if self._is_running else self._saved

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on with the episodes of a checkpoint, a `state` of earlier, in the next chunk."""
        self._saved, self._is_running = state, False

    def begin(self, round_: int, lanes: LaneState, hyperparams: LaneHyperparams) -> LaneState:
        """Reset the environments before that round, or replay what was running; return the lanes."""
        if self._is_running:
            return lanes
        loop, is_exact = self.loop, True
        try:
            loop.begin_at(round_, lanes, hyperparams)
            if self._saved is None:
                lanes = loop.begin(lanes)
            else:
                lanes, is_exact = loop.restore(lanes, self._saved)
        except BaseException:
            loop.abandon()
            raise
        self._is_running = True
        if not is_exact:
            warnings.warn(
                f"{loop.env.name} cannot be brought back to where it was (it resets itself, is not determined by its "
                f"seed and actions, has made more than {MOST_ACTIONS:,} steps in an episode, or is played by actors): "
                "training goes on with new episodes, and differs from an unbroken one",
                RuntimeWarning,
                stacklevel=4,
            )
        return lanes

    def cut(self, lanes: LaneState) -> LaneState:
        """Return the lanes with their running episodes truncated; new ones begin with the next chunk."""
        if self._is_running:
            lanes = self.loop.cut_episodes(lanes)
            self._end()
        return lanes

    def abandon(self) -> None:
        """Close environments that have failed; new episodes begin with the next chunk, in new ones if possible."""
        self._end()
        self.loop.abandon()

    def close(self) -> None:
        """Close the environments that were made for the training, not one that was given; see `Trainer.close`."""
        if self.loop.env.fixed_num_envs is None:
            self.restore(self.state)
            self.loop.close()
            self.loop.env.close()

    def _end(self) -> None:
        self.restore(self.loop.episodes_so_far)

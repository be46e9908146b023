"""What an agent thinks while it plays: its action values, and in hindsight the returns that it would learn from.

How far a return looks is known only when the episode is over, so an episode is played first and shown then. The returns
are computed by the code of training (`targets.py`), with the online networks in the place of the target networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from greedystep import returns
from greedystep.checks import check_float, check_int
from greedystep.deep.config import DQNConfig
from greedystep.deep.device_loop import epsilon_greedy
from greedystep.deep.targets import Judgement, Numbers, along, boundaries, judge
from greedystep.deep.trainer import Trainer
from greedystep.envs.rollout import PolicyOutput, QAnnotation, RolloutStep
from greedystep.replay import Rows

SHORTEST = 64
"""Episodes are padded to this length times a power of two, so that few programs are compiled."""


class Player:
    """One lane of a training plays, and tells what it thinks.

    Args:
        epsilon: share of random actions.
    """

    def __init__(self, trainer: Trainer, lane: int = 0, epsilon: float = 0.0) -> None:
        check_int("lane", lane, 0, len(trainer.seeds) - 1)
        self.env, self.epsilon, self._learner = trainer.env, check_float("epsilon", epsilon, 0, 1), trainer.learner
        self._networks, self._numbers = jax.tree.map(
            lambda x: x[lane], (trainer.state.lanes.knowledge.networks, trainer.numbers)
        )

    def policy(self, key: jax.Array, state: Any, observation: Any) -> PolicyOutput:
        """The seam of `envs.watching.play`."""
        return PolicyOutput(int(self._act(self._networks, key, observation)))

    @cached_property
    def _act(self) -> Any:
        def act(networks: Any, key: jax.Array, observation: jax.Array) -> jax.Array:
            q = self._learner.values(networks, observation[None])
            return epsilon_greedy(key, q, jnp.float32(self.epsilon))[0][0]

        return jax.jit(act)

    def thinking(self, moments: Iterable[RolloutStep]) -> Iterator[RolloutStep]:
        """The same moments, each with its thought, episode after episode."""
        episode: list[RolloutStep] = []
        for moment in moments:
            if moment.decision is None and episode:
                yield from self._think(episode)
                episode = []
            episode.append(moment)
        yield from self._think(episode)

    def _think(self, episode: list[RolloutStep]) -> Iterator[RolloutStep]:
        """Moments of one episode, T steps and the state after them."""
        told, size = len(episode) - 1, SHORTEST
        while size < told + 1:
            size *= 2
        padding = [episode[-1].state] * (size - told - 1)
        states = jax.tree.map(lambda *x: jnp.stack(x), *[moment.state for moment in episode], *padding)
        later = [moment for moment in episode[1:] if moment.decision is not None]
        action = [moment.decision.action for moment in later if moment.decision is not None]
        ends = [[moment.end == kind for moment in later] for kind in ("terminated", "truncated")]
        filled = [_padded(column, size) for column in (action, [m.reward for m in later], [True] * told, *ends)]
        q, target, steps = map(np.asarray, self._judge(self._networks, self._numbers, states, *filled))
        for t, moment in enumerate(episode):
            values = tuple(map(float, q[t]))
            if t < told:
                thought = QAnnotation(values, action[t], float(target[t]), int(steps[t]) or None)
            else:
                thought = QAnnotation(values, None)
            yield moment._replace(annotation=thought)

    @cached_property
    def _judge(self) -> Any:
        def judge_all(networks: Any, numbers: Numbers, states: Any, action, reward, taken, terminated, truncated):
            seen = jax.vmap(self.env.observe)(states)
            q = self._learner.q(networks, seen)
            config = self._learner.config
            judged = judge(config, q, None, action)
            greedy = q.min(axis=0).argmax(axis=-1) == action
            probability = self.epsilon / q.shape[-1] + (1 - self.epsilon) * greedy
            rows = Rows(action, reward, taken, terminated, truncated, probability)
            find = along if config.is_pooled else _direct
            target, steps = find(config, numbers, rows, judged)
            return q.min(axis=0), target[0], steps

        return jax.jit(judge_all)


def _direct(config: DQNConfig, numbers: Numbers, rows: Rows, judged: Judgement) -> tuple[jax.Array, jax.Array]:
    """Targets [1, T] and numbers of rewards [T] of one-step, n-step and sarsa for all steps of an episode."""
    n = config.n or 1
    has_action = rows.taken if config.returns == "sarsa" else jnp.zeros_like(rows.taken)
    value = jnp.roll(jnp.where(has_action, judged.taken[0], judged.value[0]), -1)
    discounts, cuts = boundaries(config, rows, jnp.roll(rows.taken, -1))
    left = rows.taken.sum() - jnp.arange(len(rows.taken))
    return returns.n_step(rows.reward, discounts, value, n, cuts=cuts)[None], jnp.minimum(n, left)


def _padded(column: list[Any], size: int) -> np.ndarray:
    """As int32, float32 or bool, with zeros behind."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    kind = kinds[type(column[0])] if column else np.bool_
    return np.append(np.array(column, kind), np.zeros(size - len(column), kind))

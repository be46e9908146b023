"""Annotate played episodes with an agent's Q-values, and with the targets that it would learn from.

How far a return looks is known only when the episode is over, so an episode is played first and annotated then. The
targets are computed by the code of training (`targets.py`), with the online networks instead of the target networks.
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
from greedystep.deep.env_spec import AnyEnvironment
from greedystep.deep.heads import split_policy
from greedystep.deep.lane_devices import one_lane
from greedystep.deep.targets import (
    BootstrapValues,
    LaneHyperparams,
    TargetValues,
    discounts_and_cuts,
    sequence_targets,
    target_values,
    within,
)
from greedystep.deep.train_loop import epsilon_greedy
from greedystep.deep.trainer import Trainer
from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment
from greedystep.envs.rollout import PolicyOutput, QAnnotation, RolloutStep
from greedystep.replay import StepRows

SHORTEST = 64
"""Episodes are padded to this many steps times a power of two, so that few programs are compiled."""


class QAnnotator:
    """Plays with the networks of one lane of a trainer, and annotates the played steps with Q-values and targets.

    Args:
        epsilon: fraction of random actions.
        env: where it plays, with the observations and actions of the trainer's environment, which is the default.
    """

    def __init__(
        self, trainer: Trainer, lane: int = 0, epsilon: float = 0.0, env: AnyEnvironment | None = None
    ) -> None:
        check_int("lane", lane, 0, len(trainer.seeds) - 1)
        self.env, self._learner = trainer.env if env is None else env, trainer.learner
        self.epsilon = check_float("epsilon", epsilon, 0, 1)
        self._params, self._hyperparams = (one_lane(x, lane) for x in (trainer.params, trainer.hyperparams))

    def policy(self, key: jax.Array, state: Any, observation: Any) -> PolicyOutput:
        """Choose an ε-greedy action; a policy for `envs.rollout.play`."""
        return PolicyOutput(int(self._act(self._params, key, observation)))

    @cached_property
    def _act(self) -> Any:
        def act(params: Any, key: jax.Array, observation: jax.Array) -> jax.Array:
            q = self._learner.acting_q(params, observation[None])
            return epsilon_greedy(key, q, jnp.float32(self.epsilon))[0][0]

        return jax.jit(act)

    def annotate(self, moments: Iterable[RolloutStep]) -> Iterator[RolloutStep]:
        """Yield the same steps with Q-values and targets, episode after episode: each one as soon as it has ended."""
        episode: list[RolloutStep] = []
        for moment in moments:
            if moment.decision is None and episode:
                yield from self._annotate_episode(episode)
                episode = []
            episode.append(moment)
        yield from self._annotate_episode(episode)

    def _annotate_episode(self, episode: list[RolloutStep]) -> Iterator[RolloutStep]:
        """Yield the T steps of one episode and the state after them, all annotated."""
        length, size = len(episode) - 1, SHORTEST
        while size < length + 1:
            size *= 2
        states = [moment.state for moment in episode]
        if isinstance(self.env, HostEnvironment):
            states = [view.observation for view in states]
        states = jax.tree.map(lambda *x: jnp.stack(x), *states, *states[-1:] * (size - length - 1))
        after = [moment for moment in episode[1:] if moment.decision is not None]
        action = [moment.decision.action for moment in after if moment.decision is not None]
        ends = [[moment.end == kind for moment in after] for kind in ("terminated", "truncated")]
        columns = [_padded(column, size) for column in (action, [m.reward for m in after], [True] * length, *ends)]
        q, targets, steps = map(np.asarray, self._targets(self._params, self._hyperparams, states, *columns))
        for t, moment in enumerate(episode):
            values = tuple(map(float, q[t]))
            if t < length:
                thought = QAnnotation(values, action[t], float(targets[t]), int(steps[t]) or None)
            else:
                thought = QAnnotation(values, None)
            yield moment._replace(annotation=thought)

    @cached_property
    def _targets(self) -> Any:
        def compute(
            params: Any, hyperparams: LaneHyperparams, states: Any, action, reward, is_step, terminated, truncated
        ):
            config = self._learner.config
            seen = jax.vmap(self.env.observe)(states) if isinstance(self.env, Environment) else states
            networks, head = split_policy(params)
            network_q, support = self._learner.q_and_support(networks, seen)
            values = target_values(config, BootstrapValues(network_q, None, support), action)
            q, _ = self._learner.acting_q_and_support(params, seen)
            greedy = within(support, q).argmax(axis=-1) == action
            probability = self.epsilon / q.shape[-1] + (1 - self.epsilon) * greedy
            rows = StepRows(action, reward, is_step, terminated, truncated, probability)
            targets_of = sequence_targets if config.is_pooled else _n_step_targets
            targets, steps = targets_of(config, hyperparams, rows, values)
            return q, targets[head], steps

        return jax.jit(compute)


def _n_step_targets(
    config: DQNConfig, hyperparams: LaneHyperparams, rows: StepRows, values: TargetValues
) -> tuple[jax.Array, jax.Array]:
    """Compute one-step, n-step or sarsa targets [1, T] and numbers of rewards [T] of all steps of an episode."""
    n = config.n or 1
    has_action = rows.is_step if config.returns == "sarsa" else jnp.zeros_like(rows.is_step)
    value = jnp.roll(jnp.where(has_action, values.action_value[0], values.value[0]), -1)
    discounts, cuts = discounts_and_cuts(config, rows, jnp.roll(rows.is_step, -1))
    left = rows.is_step.sum() - jnp.arange(len(rows.is_step))
    return returns.n_step(rows.reward, discounts, value, n, cuts=cuts)[None], jnp.minimum(n, left)


def _padded(column: list[Any], size: int) -> np.ndarray:
    """Return the column as an array of int32, float32 or bool, padded with zeros to length `size`."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    kind = kinds[type(column[0])] if column else np.bool_
    return np.append(np.array(column, kind), np.zeros(size - len(column), kind))

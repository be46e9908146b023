"""Play whole episodes with the networks of a training: side by side on the device, or in environments on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.checks import short_repr
from greedystep.deep.device_memory import check_device_memory, largest_intermediate, tree_bytes
from greedystep.deep.env_spec import AnyEnvironment, as_environment, same_spaces
from greedystep.deep.lane_devices import lane_devices, one_lane, spread
from greedystep.deep.learner import Learner
from greedystep.deep.train_loop import epsilon_greedy
from greedystep.deep.train_metrics import compare_with_return
from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment
from greedystep.envs.host_evaluation import evaluate_on_host
from greedystep.evaluation import MAX_STEPS, Evaluation, check_arguments
from greedystep.numpy_policy import NumpyPolicy


def play(
    acting_q: Callable[[jax.Array], jax.Array],
    env: Environment,
    key: jax.Array,
    epsilon: jax.Array,
    episodes: int,
    limit: int,
    discount: float,
) -> Evaluation:
    """Play episodes side by side to their ends, or for `limit` steps each; works under jit and vmap.

    Args:
        acting_q: the Q-values to act on, a function of observations: [B, ...] -> [B, A].
        epsilon: fraction of random actions; all others are greedy.
        discount: that of the returns which the Q-values are compared with.
    """
    start_key, step_key = jax.random.split(key)
    observe, advance = jax.vmap(env.observe), jax.vmap(env.step)

    def play_step(carry: tuple) -> tuple:
        t, states, so_far, weight = carry
        action_key, env_key = jax.random.split(jax.random.fold_in(step_key, t))
        q = acting_q(observe(states))
        action, _ = epsilon_greedy(action_key, q, epsilon)
        q = jnp.take_along_axis(q, action[:, None], axis=1)[:, 0]
        states, step = advance(jax.random.split(env_key, episodes), states, action)
        playing = so_far.unfinished  # steps after the end of an episode do not count
        cut = step.truncated | ((t + 1 == limit) & ~step.terminated)
        weight, error = compare_with_return(weight, so_far.overestimation, q, step.reward, cut, discount)
        after = Evaluation(
            returns=so_far.returns + jnp.where(playing, step.reward, 0),
            lengths=so_far.lengths + playing,
            unfinished=playing & ~(step.terminated | step.truncated),
            overestimation=jnp.where(playing, error, so_far.overestimation),  # the sum over steps so far
        )
        return t + 1, states, after, weight

    def is_playing(carry: tuple) -> jax.Array:
        return (carry[0] < limit) & carry[2].unfinished.any()

    states = jax.vmap(env.reset)(jax.random.split(start_key, episodes))
    zeros = jnp.zeros(episodes)
    start = Evaluation(zeros, jnp.zeros(episodes, jnp.int32), jnp.ones(episodes, bool), zeros)
    _, _, played, _ = lax.while_loop(is_playing, play_step, (0, states, start, zeros))
    return played._replace(overestimation=played.overestimation / played.lengths)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Plays episodes with the networks of all lanes; compiled once per number of episodes and limit."""

    learner: Learner
    env: AnyEnvironment

    def __call__(
        self, params: Any, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play `episodes` episodes with the ε-greedy policy of each lane; the results are [L, E].

        Args:
            params: arrays of the online networks of all lanes, [L, M, ...] (`Trainer.params`).
            seed: seed of the episodes, which start alike in all lanes.
        """
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        if isinstance(self.env, HostEnvironment):
            return self._play_on_host(self.env, params, seed, episodes, epsilon, limit)
        arguments = (params, jax.random.key(int(seed)), jnp.float32(epsilon), int(episodes), int(limit))
        traced = self._lanes.trace(*arguments)
        devices = lane_devices(_num_lanes(params))
        needed = tree_bytes(traced.out_info) // len(devices) + largest_intermediate(traced)
        check_device_memory(f"episodes={episodes}", needed, devices)
        return jax.device_get(self._lanes(*arguments))

    @cached_property
    def _lanes(self) -> Any:
        assert isinstance(self.env, Environment)
        env = self.env

        def lanes(params: Any, *how: Any) -> Evaluation:
            def one(own: Any) -> Evaluation:
                return play(partial(self.learner.acting_q, own), env, *how, discount=self.learner.config.discount)

            return spread(jax.vmap(one), lane_devices(_num_lanes(params)), params)

        return jax.jit(lanes, static_argnums=(3, 4))

    # -- on the host ---------------------------------------------------------------------------------------------------

    @cached_property
    def _actions(self) -> Any:
        """Compiled ε-greedy choice: (params of one lane, key, time step, observations [N, ...], ε) -> actions [N]."""

        def actions(params: Any, key: jax.Array, t: Any, observations: jax.Array, epsilon: Any) -> jax.Array:
            return epsilon_greedy(jax.random.fold_in(key, t), self.learner.acting_q(params, observations), epsilon)[0]

        return jax.jit(actions)

    def _play_on_host(
        self, env: HostEnvironment, params: Any, seed: int, episodes: int, epsilon: float, limit: int
    ) -> Evaluation:
        """Play one lane after another."""
        key, played = jax.random.key(int(seed)), []
        for lane in range(_num_lanes(params)):
            own = one_lane(params, lane)

            def act(t: int, observations: np.ndarray, own: Any = own) -> np.ndarray:
                return np.asarray(self._actions(own, key, np.int32(t), observations, np.float32(epsilon)))

            played.append(evaluate_on_host(env, act, seed=seed, episodes=episodes, limit=limit))
        return jax.tree.map(lambda *x: np.stack(x), *played)


def _num_lanes(params: Any) -> int:
    return jax.tree.leaves(params)[0].shape[0]


@dataclass(frozen=True, eq=False)
class PolicyEvaluator:
    """Plays episodes with an exported policy in a compiled environment; compiled once per number of episodes."""

    policy: NumpyPolicy
    env: Environment

    def __call__(
        self, seed: int = 0, *, episodes: int = 100, epsilon: float = 0.0, limit: int = MAX_STEPS
    ) -> Evaluation:
        """Play `episodes` episodes, all side by side, with the ε-greedy policy; the results are [E]."""
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        key = jax.random.key(int(seed))
        arguments = (self.policy.layers, key, jnp.float32(epsilon), int(episodes), int(limit))
        check_device_memory(f"episodes={episodes}", largest_intermediate(self._run.trace(*arguments)))
        return jax.device_get(self._run(*arguments))

    @cached_property
    def _run(self) -> Any:
        def run(layers: Any, *how: Any) -> Evaluation:
            played = play(partial(self.policy.batch_values, xp=jnp, layers=layers), self.env, *how, discount=1.0)
            return played._replace(overestimation=None)  # its discount is not known

        return jax.jit(run, static_argnums=(3, 4))


# -- any policy --------------------------------------------------------------------------------------------------------


KEPT = 4
"""Environments besides an agent's own whose evaluators are kept, so that they are compiled once."""


class RecentEvaluators:
    """The evaluators of an agent in other environments than its own; the KEPT used last are kept.

    Args:
        own: the agent's environment, whose observations and actions the others must have.
    """

    def __init__(self, learner: Learner, own: AnyEnvironment):
        self._learner, self._own = learner, own
        self._kept: dict[Any, tuple[Any, Evaluator]] = {}
        """(environment as it was given, its evaluator), the newest last; the key is its name or id."""

    def __call__(self, env: Any) -> Evaluator:
        """Return the evaluator of an environment."""
        key = env if isinstance(env, str) else id(env)  # an object that is kept has its id for itself
        found = self._kept.pop(key, None) or (env, Evaluator(self._learner, same_spaces(self._own, env)))
        self._kept[key] = found
        while len(self._kept) > KEPT:
            self._drop(next(iter(self._kept)))
        return found[1]

    def close(self) -> None:
        """Drop all evaluators and close their environments of Gymnasium, of which new ones can be made."""
        for key in list(self._kept):
            self._drop(key)

    def _drop(self, key: Any) -> None:
        _, evaluator = self._kept.pop(key)
        if isinstance(evaluator.env, HostEnvironment):
            evaluator.env.close()


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    *,
    return_episode_rewards: bool = False,
    seed: int = 0,
    limit: int = MAX_STEPS,
) -> tuple[Any, Any]:
    """Play whole episodes with any policy; return mean and standard deviation of their returns.

    Args:
        model: a `DQN`, `TabularAgent` or `NumpyPolicy`, or anything else with `predict(observations)`, such as an agent
            of stable-baselines3; or a function of observations [N, ...] that returns actions [N].
            One that returns a plain int is called for each environment by itself, with observations [1, ...].
        env: what `DQN` takes.
        deterministic: handed on to `predict`, if it takes it.
        return_episode_rewards: return two lists instead, of the returns and of the lengths of the episodes.
        limit: steps after which an episode is stopped.
    """
    from greedystep.deep.agent import DQN
    from greedystep.envs.gymnasium import GymnasiumEnv

    check_arguments(seed=seed, episodes=n_eval_episodes, epsilon=0.0, limit=limit)
    if isinstance(model, DQN):
        epsilon = 0.0 if deterministic else model.config.epsilon_end
        played = model.evaluate(n_eval_episodes, epsilon, seed=seed, limit=limit, env=env)
    else:
        found, choose = as_environment(env), _chooser(model, deterministic)
        host = found if isinstance(found, HostEnvironment) else HostEnvironment(partial(GymnasiumEnv, found))
        first_state = host.first_state if isinstance(model, NumpyPolicy) else 0

        def act(t: int, observations: np.ndarray) -> np.ndarray:
            observations = observations + first_state if first_state else observations
            actions = np.asarray(choose(observations))
            if actions.ndim == 0:  # a plain int, as functions for one environment return
                actions = (
                    np.array([choose(observations[i : i + 1]) for i in range(len(observations))])
                    if len(observations) > 1
                    else actions[None]
                )
            first, last = host.first_action, host.first_action + host.num_actions - 1
            is_action = actions.dtype.kind in "iu" and actions.shape == (len(observations),)
            if not (is_action and first <= actions.min() <= actions.max() <= last):
                raise ValueError(
                    f"model: expected {len(observations)} actions from {first} to {last}, got {short_repr(actions)}"
                )
            return actions - first

        played = evaluate_on_host(host, act, seed=seed, episodes=n_eval_episodes, limit=limit)
    if return_episode_rewards:
        return played.returns.tolist(), played.lengths.tolist()
    return played.mean, float(played.returns.std())


def _chooser(model: Any, deterministic: bool) -> Callable[[np.ndarray], Any]:
    """Return the function of observations that chooses actions."""
    predict = getattr(model, "predict", model)
    if not callable(predict):
        raise ValueError(f"model: expected an agent, a policy or a function of observations, got {short_repr(model)}")
    if "deterministic" in inspect.signature(predict).parameters:
        predict = partial(predict, deterministic=deterministic)
    elif not deterministic:
        raise ValueError("deterministic: this policy always takes the same action; leave deterministic=True")

    def choose(observations: np.ndarray) -> Any:
        found = predict(observations)
        return found[0] if isinstance(found, tuple) else found  # stable-baselines3 returns a recurrent state besides

    return choose

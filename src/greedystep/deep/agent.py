"""The DQN agent: make it for an environment or for a dataset, learn, predict, evaluate, save and load."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv

from greedystep.checks import INT32_MAX, check_int, check_seed, short_repr
from greedystep.datasets import Dataset
from greedystep.deep import offline
from greedystep.deep.callbacks import Callback, call_all, check_callbacks
from greedystep.deep.config import Returns
from greedystep.deep.device_memory import check_device_memory
from greedystep.deep.divergence import DivergedError, UnreachableValueWarning, reward_range, unreachable_value
from greedystep.deep.env_spec import as_environment, config_for, is_spec_of, logged_environment
from greedystep.deep.evaluator import Evaluator, RecentEvaluators
from greedystep.deep.learn_progress import describe, reporting_steps, showing_progress
from greedystep.deep.networks import MakeNetwork
from greedystep.deep.policy_export import numpy_policy
from greedystep.deep.presets import OFFLINE_RULE, Preset, offline_settings
from greedystep.deep.sb3_settings import POLICIES, from_sb3
from greedystep.deep.trainer import Row, Trainer
from greedystep.deep.trainer_description import read_about
from greedystep.envs.gymnasium_rules import call
from greedystep.envs.host import HostEnvironment, LoggedEnvironment, Vectorization
from greedystep.envs.observation_spec import first_unfit
from greedystep.evaluation import MAX_STEPS, Evaluation, check_arguments
from greedystep.numpy_policy import NumpyPolicy

PIECES = 50
"""Approximate number of pieces into which `DQN.fit_in_pieces` divides its updates."""


class DQN:
    """A deep Q-network agent in one environment.

        agent = gs.DQN("CartPole-v1", num_envs=8)          # any Gymnasium id, or a name of `gs.envs.names()`
        agent = gs.DQN(my_env)                              # or a function that makes one, or a vector environment
        agent.learn(100_000)

    Args:
        env: the name of one of our environments (with the time limit of the experiments), the id of a Gymnasium
            environment, a function that makes one, an environment or a vector environment of Gymnasium, one of gymnax
            or Jumanji, or an `envs.Environment`. All are compiled but Gymnasium's, which step on the host.
        returns: the return estimator of the targets. The default, "auto", learns with several and acts by the one that
            gets the largest returns. "greedy-step" is the paper's, which takes the largest n-step return.
        make_vec: instead of `env`: a function that makes a Gymnasium vector environment, of `num_envs` environments if
            it takes their number.
        vectorization: for Gymnasium ids and functions: step `num_envs` environments one after another ("sync"), or
            each in a process of its own ("async"), which pays for slow simulators.
        preset: source of the settings that are not given: "paper", or "fast" for GPUs.
        seed: seed of all random numbers. A saved and loaded agent continues exactly as if it had not been stopped.
        network: makes the networks instead of the default ones: (key, observation spec, number of actions) -> a
            callable pytree, for example an Equinox module.
        settings: any other field of `DQNConfig`, such as `ensemble=6`; or stable-baselines3's name of one
            (`buffer_size=`, `gamma=`) where it means exactly the same.
    """

    _made_vec: VectorEnv | None = None
    """What `make_vec` made."""

    def __init__(
        self,
        env: Any = None,
        returns: Returns | None = None,
        *,
        preset: Preset = "paper",
        seed: int = 0,
        network: MakeNetwork | None = None,
        make_vec: Callable[..., VectorEnv] | None = None,
        vectorization: Vectorization = "sync",
        **settings: Any,
    ):
        if isinstance(env, str) and env in POLICIES:
            raise ValueError(f"env: expected an environment, got {env!r}; the network follows from its observations")
        if (env is None) == (make_vec is None):
            raise ValueError("env: expected either an environment or make_vec, a function that makes a vector of them")
        made = None
        if make_vec is not None:
            count = check_int("num_envs", settings.get("num_envs", 1), 1, INT32_MAX)
            env = made = call(make_vec, *((count,) if _takes_count(make_vec) else ()), argument="make_vec")
        found = as_environment(env, vectorization=vectorization)
        if isinstance(found, HostEnvironment) and found.fixed_num_envs is not None:
            settings = {"num_envs": found.fixed_num_envs} | settings
        if returns is not None:
            settings["returns"] = returns
        config = config_for(found, preset, **from_sb3(settings))
        self._set_trainer(Trainer(config, found, [seed], network=network))
        self._made_vec = made

    @classmethod
    def from_dataset(cls, dataset: Any, returns: Returns | None = None, **settings: Any) -> DQN:
        """Make an agent for the observations and actions of a dataset, without any environment; then `fit` it.

        Args:
            dataset: see `datasets.Dataset`.
            returns, settings: as for `DQN`, but with the defaults of `presets.offline_settings`.
        """
        data, given = Dataset.of(dataset), from_sb3(settings) | ({} if returns is None else {"returns": returns})
        given.setdefault("replay_size", 3 * given.get("num_envs", 1))  # it will never act
        agent = cls(logged_environment(data), **offline_settings(given))
        agent._data = data
        return agent

    def _set_trainer(self, trainer: Trainer) -> None:
        self.trainer, self.env, self.config = trainer, trainer.env, trainer.config
        self._q = jax.jit(trainer.learner.acting_q)
        self._evaluator = Evaluator(trainer.learner, trainer.env)
        self._evaluators_elsewhere = RecentEvaluators(trainer.learner, trainer.env)
        self._random = np.random.default_rng(trainer.seeds[0])
        self._data: Dataset | None = None
        """The dataset that the agent was made from; `fit` learns from it by default."""

    @property
    def steps(self) -> int:
        """Environment steps trained so far."""
        return int(self.trainer.state.step)

    @property
    def networks(self) -> Any:
        """The parameters of the M online networks: a pytree whose arrays have a leading axis [M].

        With returns="auto" it is a `heads.HeadPolicy`: these and the number of the head that acts.
        """
        return jax.tree.map(lambda x: x[0], self.trainer.params)

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        progress_bar: bool | None = None,
        log_interval: int | None = None,
        eval_env: Any = None,
        eval_freq: int | None = None,
        n_eval_episodes: int | None = None,
    ) -> list[Row]:
        """Train for `total_timesteps` MORE environment steps and return the metrics rows, one dict per chunk.

        If an environment of Gymnasium fails, EnvironmentFailedError says what it was doing. The agent keeps what it has
        learned, and the next call begins new episodes.

        Args:
            callback: one or several functions of the agent and the newest rows, called after each chunk of `log_every`
                steps; training ends if one returns False. See `gs.callbacks`.
            progress_bar: show a line of progress, with the time left; None: where standard error is a terminal.
            log_interval: print mean return and length of the episodes, loss and speed every `log_interval` chunks.
            eval_env: another environment, in which the greedy policy plays `n_eval_episodes` (10) every `eval_freq`
                (10,000) steps, rounded up to whole chunks, and at the end. Rows get the column `eval_return`, the mean
                of their returns, None where it did not play. `callbacks.KeepBest` also keeps the best agent.
        """
        for name, number in (("eval_freq", eval_freq), ("n_eval_episodes", n_eval_episodes)):
            if number is not None:
                check_int(name, number)
                if eval_env is None:
                    raise ValueError(f"{name}: nothing is evaluated without eval_env, the environment to evaluate in")
        eval_freq, n_eval_episodes = eval_freq or 10_000, n_eval_episodes or 10
        if log_interval is not None:
            check_int("log_interval", log_interval)
        callbacks = check_callbacks(callback)
        if eval_env is not None:  # before the training, not after its first chunk
            self._evaluators_elsewhere(eval_env)
        rows: list[Row] = []
        begin, chunks, evaluated = self.steps, 0, self.steps
        with (
            showing_progress(progress_bar, self.env.name) as report,
            reporting_steps(self.trainer, total_timesteps, report) as tell,
        ):
            for new in self.trainer.chunks(total_timesteps):
                if eval_env is not None:
                    mean = None
                    if self.steps >= evaluated + eval_freq or self.steps >= begin + total_timesteps:
                        mean, evaluated = self.evaluate(n_eval_episodes, env=eval_env).mean, self.steps
                    new = [row | {"eval_return": mean} for row in new]
                rows += new
                chunks += 1
                tell(new[0])
                if log_interval is not None and chunks % log_interval == 0:
                    print(f"{self.env.name}: {describe(new[0])}", flush=True)
                if not call_all(callbacks, self, new):
                    break
        return rows

    def fit(
        self, dataset: Any = None, updates: int = 10_000, *, seed: int = 0, progress_bar: bool | None = None
    ) -> DQN:
        """Learn from logged steps alone: make `updates` gradient steps on the dataset, and return the agent.

        The learning rate falls linearly to 0. The agent's own replay buffer is neither read nor changed. With
        returns="auto" every tenth episode is held out, to choose the head that acts.

        A log shows only what was done. An agent that has not acted yet, and whose `conservatism` was not chosen, takes
        from now on the best of the actions that are in the data in states like the present one: "bcq". Which these are
        is learned first, in half as many gradient steps more. In `learn` only its greedy actions are chosen so; what
        ε-greedy exploration does at random may be any action.

        Args:
            dataset: trajectories, arrays, a file or a Minari dataset (see `datasets`); by default the one that the
                agent was made from. Actions are counted from 0, and so are states, also where the spaces of the
                environment start elsewhere and `predict` counts as they do; Minari's are counted so when they are read.
            progress_bar: see `learn`.
        """
        with showing_progress(progress_bar, self.env.name) as report:
            for done, loss in self.fit_in_pieces(dataset, updates, seed=seed):
                total = offline.all_updates(self.config, updates)
                report(done / total, f"{done:,} of {total:,} updates, loss {loss:.4g}")
        return self

    def fit_in_pieces(
        self, dataset: Any = None, updates: int = 10_000, *, seed: int = 0, begin: int = 0
    ) -> Iterator[tuple[int, float]]:
        """Do what `fit` does in pieces; after each, yield the number of updates made and the mean loss of the piece.

        With conservatism "bcq" these begin with the updates that clone the behaviour, half as many again.

        If a loss is not finite, the agent is restored to its state before the first piece, and DivergedError is raised.

        Args:
            begin: a number that an earlier call with the same arguments yielded, after which this agent was saved; it
                then goes on exactly as if it had not been stopped.
        """
        updates, seed = check_int("updates", updates, 0, INT32_MAX), check_seed(seed)
        if dataset is None and self._data is None:
            raise ValueError("dataset: give one; only an agent made by from_dataset has its own")
        self.choose_conservatism()
        check_int("begin", begin, 0, offline.all_updates(self.config, updates))
        learner, data = self.trainer.learner, Dataset.of(self._data if dataset is None else dataset)
        score_heads, first_action = None, getattr(self.env, "first_action", 0)
        offline.warn_of_missing_action(data, first_action)
        if self.config.returns == "auto":
            data, held_out = data.split(offline.HELD_OUT_EVERY)
            score_heads = offline.head_scorer(learner, held_out, first_action)
        buffer, replay = offline.fill_replay(learner, data, first_action)
        offline.warn_of_rounding(data, learner.observation)
        before, fit = self.trainer.state, offline.LogFit(learner, buffer)
        states, hyperparams, keys = before.lanes.learner, self.trainer.hyperparams, jax.random.key(seed)[None]
        if not self.steps:
            states = offline.standardise(states, buffer, replay)
        what = f"batch_size={self.config.batch_size}, hidden={self.config.hidden}, {self.env.num_actions} actions"
        check_device_memory(what, fit.bytes_needed(replay, jax.block_until_ready(states), hyperparams, keys))
        rewards, has_warned = reward_range(replay), False
        for piece in fit.pieces(replay, states, hyperparams, keys, updates, begin, PIECES):
            if not jnp.isfinite(piece.loss[0]):
                self.trainer.state = before
                raise DivergedError(
                    "the loss was not finite: try a smaller learning_rate; the agent is as it was before"
                )
            problem = None
            if piece.mean_q is not None and not has_warned:
                problem = unreachable_value(self.config, float(piece.mean_q[0]), rewards)
            if problem is not None:
                warnings.warn(f"update {piece.done}: {problem}", UnreachableValueWarning, stacklevel=3)
                has_warned = True
            lane = before.lanes._replace(learner=piece.states)
            if lane.heads is not None and score_heads is not None:
                params = jax.tree.map(itemgetter(0), piece.states.params)
                lane = lane._replace(heads=lane.heads._replace(r_squared=score_heads(params)[None]))
            self.trainer.state = before._replace(lanes=lane)
            yield piece.done, float(piece.loss[0])

    def choose_conservatism(self) -> None:
        """Settle on that of logs where nothing else was asked for and nothing has been learned yet."""
        if self.config.conservatism == "auto" and not self.steps:
            trainer, data = self.trainer, self._data
            config = replace(self.config, conservatism=OFFLINE_RULE["conservatism"])
            self._close_envs()
            self._set_trainer(Trainer(config, self.env, trainer.seeds, network=trainer.learner.network))
            self._data = data

    def values(self, observations: Any) -> np.ndarray:
        """Return the Q-values that the agent acts on, [..., A]: the minimum over its networks, or of its best head.

        With conservatism "bcq" they are -inf for the actions that are not in the data.
        """
        spec, shape, dtype = self.env.observation, self.env.observation.shape, self.env.observation.dtype
        if isinstance(self.env, HostEnvironment):
            observations = self.env.encode(observations)
        observations = np.asarray(observations)
        if observations.shape[observations.ndim - len(shape) :] != shape:
            raise ValueError(f"observations: expected shape {shape}, or many of them, got {observations.shape}")
        if observations.dtype.kind not in "biuf":
            raise ValueError(f"observations: expected real numbers, got {observations.dtype}")
        if observations.dtype.kind == "f" and not np.isfinite(observations).all():
            raise ValueError(f"observations: expected finite numbers, got {short_repr(observations)}")
        batch = observations.shape[: observations.ndim - len(shape)]
        observations = observations.reshape(-1, *shape)
        if (unfit := first_unfit(spec, observations)) is not None:
            raise ValueError(f"observations: expected {spec.expected}, got {unfit[1]}")
        q = self._q(self.networks, jnp.asarray(observations, dtype))
        return np.asarray(q).reshape(*batch, q.shape[-1])

    def predict(self, observations: Any, deterministic: bool = True) -> Any:
        """Return the greedy action of one observation, an int, or int [...] for many; ties go to the lowest action.

        Actions are those that the environment takes: where its space is Discrete(n, start=s), s to s + n - 1.

        Args:
            observations: as the environment or a vector of it returns them.
            deterministic: if False, take a uniformly random action with probability epsilon_end, as late in training.
        """
        actions = self.values(observations).argmax(axis=-1)
        if not deterministic:
            explores = self._random.random(np.shape(actions)) < self.config.epsilon_end
            actions = np.where(explores, self._random.integers(self.env.num_actions, size=np.shape(actions)), actions)
        if isinstance(self.env, HostEnvironment):
            actions = actions + self.env.first_action
        return int(actions) if np.ndim(actions) == 0 else actions

    def evaluate(
        self, episodes: int = 100, epsilon: float = 0.0, *, seed: int = 0, limit: int = MAX_STEPS, env: Any = None
    ) -> Evaluation:
        """Play `episodes` episodes without learning, with a fraction `epsilon` of random actions; return their results.

        Args:
            limit: steps after which an episode is stopped: a greedy policy can go round in circles for ever.
            env: another environment to play in, of the same observations and actions. Without it, an agent that was
                given one Gymnasium environment plays in that, which truncates the episode it was learning from.
        """
        if env is self.env or (isinstance(self.env, HostEnvironment) and self.env.is_from(env)):
            env = None
        evaluate = self._evaluator if env is None else self._evaluators_elsewhere(env)
        check_arguments(seed=seed, episodes=episodes, epsilon=epsilon, limit=limit)
        with self.trainer.env_lent() if env is None else nullcontext():
            played = evaluate(self.trainer.params, seed, episodes=episodes, epsilon=epsilon, limit=limit)
        return played.map(lambda lanes: lanes[0])

    def close(self) -> None:
        """Close the environments of Gymnasium that the agent made, not those that it was given; `with` does so, too.

        The agent keeps what it has learned. It can also learn and play on, in new environments, unless `make_vec` made
        the one that it has.
        """
        self._close_envs()
        if self._made_vec is not None:
            self._made_vec.close()
            self._made_vec = None

    def _close_envs(self) -> None:
        """Close all environments of which new ones can be made."""
        self.trainer.close()
        self._evaluators_elsewhere.close()

    def __enter__(self) -> DQN:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        config = self.config
        networks = f", {config.ensemble} networks" if config.ensemble > 1 else ""
        steps = "" if isinstance(self.env, LoggedEnvironment) else f", {self.steps} steps"
        return f"DQN({self.env.name!r}, returns={config.returns!r}{networks}{steps})"

    def export_policy(self, path: str | os.PathLike) -> NumpyPolicy:
        """Write the greedy policy to a small file and return it; see `NumpyPolicy`.

        Args:
            path: .npz for a file that acts with NumPy alone, .onnx for an ONNX model (the extra `onnx`).
        """
        about: dict[str, Any] = {} if isinstance(self.env, LoggedEnvironment) else {"env": self.env.name}
        if isinstance(self.env, HostEnvironment):
            about |= {"first_action": self.env.first_action, "first_state": self.env.first_state}
        policy = numpy_policy(self.trainer.learner, self.networks, **about)
        policy.save(path)
        return policy

    def save(self, path: str | os.PathLike) -> None:
        """Write the agent and its replay buffer to one file; an older file is replaced once the new one is complete."""
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            os.replace(self.trainer.save(folder), path)
        except OSError as problem:  # which names files of the folder
            raise OSError(problem.errno, os.strerror(problem.errno or 0), str(path)) from problem
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        env: Any = None,
        *,
        lane: int = 0,
        network: MakeNetwork | None = None,
    ) -> DQN:
        """Load an agent written by `save`, or one lane (the training with that seed's index) of a run's checkpoint.

        Args:
            env, network: only if they were your own objects, which a file cannot hold.
        """
        named = env if isinstance(env, str) else None
        if named is not None and is_spec_of(read_about(path)["env"], named):  # it has its own options
            env = None
        found = None if env is None else as_environment(env)
        return cls.from_trainer(Trainer.load(path, found, lane=lane, network=network, named=named))

    @classmethod
    def from_trainer(cls, trainer: Trainer) -> DQN:
        """Make the agent of a trainer that has one lane."""
        agent = cls.__new__(cls)
        agent._set_trainer(trainer)
        return agent


def _takes_count(make_vec: Callable[..., VectorEnv]) -> bool:
    """Whether a function that makes a vector environment is called with the number of environments.

    It is where its first argument is required or named num_envs; others may be options with defaults.
    """
    if not callable(make_vec):
        raise ValueError(f"make_vec: expected a function that makes a vector environment, got {short_repr(make_vec)}")
    try:
        first = next(iter(inspect.signature(make_vec).parameters.values()), None)
    except (TypeError, ValueError):  # it does not say what it takes
        return False
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return False
    return first.kind is first.VAR_POSITIONAL or first.default is first.empty or first.name == "num_envs"

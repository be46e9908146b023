"""`TabularAgent`: a table of action values with its learning method, saved to and loaded from one file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from greedystep import envs, io, schema
from greedystep.checks import check_float, check_int, check_memory, check_seed
from greedystep.datasets import Dataset, is_arrays
from greedystep.envs import ToyTask
from greedystep.evaluation import Evaluation
from greedystep.tabular import learning
from greedystep.tabular.acting import check_episode_memory
from greedystep.tabular.episodes import Episodes
from greedystep.tabular.learning import LearnResult, Memory
from greedystep.tabular.methods import SAMPLED, parameters_of
from greedystep.tabular.stochasticity_warning import StochasticityDetector
from greedystep.trajectory import Trajectory

if TYPE_CHECKING:
    from greedystep.tabular.gymnasium_task import GymnasiumTask

FILE_FORMAT = "greedystep-tabular-1"
DEFAULT_DISCOUNT = 0.99
EVALUATION_EPISODES = 100

_GENERATOR = {
    "bit_generator": schema.OneOf("PCG64"),
    "state": {"state": schema.Int(0, 2**128 - 1), "inc": schema.Int(0, 2**128 - 1)},
    "has_uint32": schema.Int(0, 1),
    "uinteger": schema.Int(0, 2**32 - 1),
}
"""Schema of the JSON state of NumPy's default random generator, which Gymnasium's environments have too."""
ABOUT = {
    "task": str,
    "made_with": schema.Nullable(dict),
    "method": str,
    "options": dict,
    "epsilon": schema.Float(0, 1),
    "episodes": schema.Int(),
    "steps": schema.Int(),
    "warned": bool,
    "random": _GENERATOR,
    "world": schema.Nullable(
        {
            "discount": schema.Float(0, 1),
            "limit": schema.Nullable(schema.Int(1)),
            "state": {"seed": schema.Nullable(schema.Int()), "random": _GENERATOR},
        }
    ),
}
"""Schema of the JSON in an agent's file."""


class TabularAgent:
    """A tabular agent: a table of action values, one method, one task.

    Args:
        env: the name of a toy task, with its default options, its environment (`envs.make`) or its `ToyTask`; or the id
            of a Gymnasium environment with Discrete observations and actions, or such an environment itself, which then
            belongs to the agent.
        method: one of `METHODS`; `options` are its own, with the defaults listed there.
        seed: seed of all random numbers. A saved and loaded agent continues exactly as if it had not been stopped. In
            Gymnasium this holds for environments that draw from their `np_random` alone and carry nothing else from one
            episode to the next, as its own toy texts do.
        epsilon: share of random actions while learning.
        q: the table to begin with, float [S, A], or one number; 0 by default. Greedy-step's sampled forms never lower a
            value and want it at or below the optimal ones: on a toy task they begin with its lowest possible return;
            where a Gymnasium environment pays negative rewards, give one that is low enough.
        discount: γ of a Gymnasium environment, 0.99 by default. Toy tasks have their own.
        limit: truncates episodes of a Gymnasium environment after this number of steps; needed if it has no limit.
            A truncated episode bootstraps from its last state.
    """

    q: np.ndarray
    """float64 [S, A]: the action values; -inf where a state does not have the action."""
    episodes: int
    """Number of episodes that `learn` has played so far."""
    steps: int
    """Number of steps in these episodes."""
    memory: Memory
    """What the method keeps besides its table, such as the transition counts of "model"; None for most methods."""

    def __init__(
        self,
        env: Any,
        method: str = "greedy-step",
        *,
        seed: int = 0,
        epsilon: float = 0.2,
        q: Any = None,
        discount: float | None = None,
        limit: int | None = None,
        **options: Any,
    ):
        code, _ = parameters_of(method, options)
        seed = check_seed(seed)
        self.task: ToyTask | GymnasiumTask = _task(env, discount, limit)
        self.method, self.options, self.epsilon = method, options, check_float("epsilon", epsilon, 0, 1)
        S, A = self.task.num_states, self.task.num_actions
        check_memory(f"{self.task.name}: a table of {S} states x {A} actions", 17 * S * A)
        if isinstance(self.task, ToyTask):
            check_episode_memory(self.task)
            available, self.discount = self.task.mdp.available, self.task.mdp.discount
        else:
            available, self.discount = np.ones((S, A), bool), self.task.discount
            self.task.next_seed = seed
        if q is None:
            q = self.task.lowest_return if code in SAMPLED and isinstance(self.task, ToyTask) else 0.0
        self.q, self.episodes, self.steps = learning.initial_table(available, q), 0, 0
        self.memory = learning.check_method_memory(code, self.q.shape)
        rows = self.q.size if code in SAMPLED else 0
        self._detector = StochasticityDetector(rows, self.q.shape[1], options.get("form", "running"))
        self._random = np.random.default_rng(seed)

    def __repr__(self) -> str:
        return f"TabularAgent({self.task.name!r}, method={self.method!r}, {self.episodes} episodes)"

    def learn(self, episodes: int) -> LearnResult:
        """Act and learn for `episodes` more episodes; the result holds their returns and lengths.

        In a Gymnasium environment an interruption (Ctrl-C) keeps what was learned from the finished episodes.
        """
        if not isinstance(self.task, ToyTask):
            learned = self._learn_in_gymnasium(self.task, check_int("episodes", episodes))
        else:
            how: Any = {"q": self.q, "epsilon": self.epsilon, "seed": self._random, "memory": self.memory}
            learned = learning.learn(
                self.task, self.method, episodes=episodes, detector=self._detector, **how, **self.options
            )
            self.q = learned.q
            self.episodes += episodes
            self.steps += int(learned.lengths.sum())
        self._detector.warn()
        return learned

    def _learn_in_gymnasium(self, task: GymnasiumTask, episodes: int) -> LearnResult:
        code, parameters = parameters_of(self.method, self.options)
        table, returns, lengths, bounded = self.q.copy(), [], [], True
        try:
            for _ in range(episodes):
                log = task.epsilon_greedy_episode(table, self.epsilon, self._random)
                bounded = learning.replay_in_place(code, parameters, table, self.memory, log, self.discount, 1)
                if not bounded:
                    raise FloatingPointError(f"{self.method}: {learning.DIVERGED.format('')}")
                self._detector.check_log(log)
                lengths.append(len(log.rewards))
                returns.append(_discounted_sum(log.rewards, self.discount))
        finally:
            if bounded:
                self.q, self.episodes, self.steps = table, self.episodes + len(returns), self.steps + sum(lengths)
        return LearnResult(table, np.array(returns), np.array(lengths, np.int64), self.memory)

    def fit(self, log: Any, sweeps: int = 1) -> TabularAgent:
        """Learn from logged episodes, `sweeps` times over; return the agent.

        Args:
            log: `Episodes`; a list of tuples as `Episodes.of` takes them; or a dataset in any form that `datasets`
                lists, such as a file, flat arrays or one of Minari.
        """
        log, name = _as_episodes(log)
        log.check(*self.q.shape, name)
        if isinstance(self.task, ToyTask):
            log.check_available(self.task.mdp.available, name)
        how: Any = {"discount": self.discount, "sweeps": sweeps, "memory": self.memory, **self.options}
        self.q = learning.replay(log, self.q, self.method, **how)
        self._detector.check_log(log)
        self._detector.warn()
        return self

    def predict(self, states: Any) -> Any:
        """Return the greedy action of one state, an int, or int [...] for many; ties go to the lowest action.

        States and actions are counted from 0, whatever the spaces of a Gymnasium environment begin with.
        """
        numbers = np.asarray(states)
        if not numbers.size:  # NumPy takes an empty list for real numbers
            numbers = numbers.astype(np.int64)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(f"states: expected integers, got {numbers.dtype}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.q):
            got = f"{numbers.min()} to {numbers.max()}"
            raise ValueError(f"states: expected numbers in 0..{len(self.q) - 1}, got {got}")
        actions = self.q[numbers].argmax(axis=-1)
        return int(actions) if numbers.ndim == 0 else actions

    def evaluate(
        self, episodes: int = EVALUATION_EPISODES, epsilon: float = 0.0, *, seed: int = 0, discount: float = 1.0
    ) -> Evaluation:
        """Play `episodes` episodes without learning, with a share `epsilon` of random actions; return their results.

        Learning afterwards continues as if nothing had been played. `expected_return` is exact on toy tasks.

        Args:
            discount: discount of the returns that are reported: 1 for plain sums; the agent maximises `agent.discount`.
        """
        discount = check_float("discount", discount, 0, 1)
        rewards = [
            part for log in self._play(episodes, epsilon, seed) for part in np.split(log.rewards, log.first[1:-1])
        ]
        returns = np.array([_discounted_sum(one, discount) for one in rewards])
        return Evaluation(returns, np.array([len(one) for one in rewards]), np.zeros(episodes, bool))

    def collect(self, episodes: int = EVALUATION_EPISODES, epsilon: float = 0.0, *, seed: int = 0) -> list[Trajectory]:
        """Play as `evaluate` does, and return the episodes with their behaviour probabilities.

        States and actions are counted from 0.
        """
        logs = self._play(episodes, epsilon, seed)
        if isinstance(self.task, ToyTask):  # where an episode terminates, the state stays as it is in its environment
            for log in logs:
                last = (log.first[1:] + np.arange(len(log.terminated)))[log.terminated]
                log.states[last] = log.states[last - 1]
        return [one for log in logs for one in log.trajectories()]

    def _play(self, episodes: int, epsilon: float, seed: int) -> list[Episodes]:
        episodes, seed, epsilon = (
            check_int("episodes", episodes),
            check_seed(seed),
            check_float("epsilon", epsilon, 0, 1),
        )
        greedy = np.where(self.q > -np.inf, 0.0, -np.inf)  # a table whose only best action is that of `predict`
        greedy[np.arange(len(greedy)), self.q.argmax(axis=1)] = 1.0
        if isinstance(self.task, ToyTask):
            return [learning.collect(self.task, episodes=episodes, epsilon=epsilon, q=greedy, seed=seed)]
        before, random = self.task.state, np.random.default_rng(seed)
        try:
            self.task.next_seed = seed
            return [self.task.epsilon_greedy_episode(greedy, epsilon, random) for _ in range(episodes)]
        finally:
            self.task.state = before

    def expected_return(self) -> float:
        """Return the expected discounted return of the greedy policy.

        On a toy task it is exact; in a Gymnasium environment it is the mean of 100 episodes.
        """
        if isinstance(self.task, ToyTask):
            return self.task.expected_return(self.q.argmax(axis=1))
        return self.evaluate(discount=self.discount).mean

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the agent to one .npz file without pickle, atomically."""
        about = {
            "task": self.task.name,
            "made_with": self.task.made_with,
            "method": self.method,
            "options": self.options,
            "epsilon": self.epsilon,
            "episodes": self.episodes,
            "steps": self.steps,
            "warned": self._detector.stopped,
            "random": self._random.bit_generator.state,
            "world": None,
        }
        if not isinstance(self.task, ToyTask):
            about["world"] = {"discount": self.discount, "limit": self.task.limit, "state": self.task.state}
        arrays: dict[str, Any] = {"format": FILE_FORMAT, "about": json.dumps(io.jsonable(about)), "q": self.q}
        if self.memory is not None:
            arrays |= {f"memory_{name}": array for name, array in self.memory.arrays().items()}
        with io.atomic_write(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike, env: Any = None) -> TabularAgent:
        """Read an agent that `save` wrote.

        Args:
            env: needed only for a task that was not made by its name or id, or whose id "module:name" would make
                Gymnasium import a module: then that id.
        """
        arrays = io.load_npz(path, FILE_FORMAT, "agent")
        try:
            about = io.from_json(str(io.get_array(arrays, "about", "U", 0)))
            schema.check(about, ABOUT, "about")
            q = io.get_array(arrays, "q", "f", 2)
            parameters_of(about["method"], about["options"])
        except ValueError as problem:
            raise ValueError(f"{path} is damaged: {problem}") from None
        kept = {k.removeprefix("memory_"): v for k, v in arrays.items() if k.startswith("memory_")}
        name, made_with, world = about["task"], about["made_with"], about["world"]
        is_named = isinstance(env, str) and made_with is not None
        if is_named and env != name:
            raise ValueError(f"env: {path} was learned on {name!r}, got {env!r}")
        env = None if is_named else env
        if env is None and made_with is None:
            raise ValueError(f"env: {path} was learned on {name!r}, which has to be given to load it")
        try:
            if env is None and world is None:
                env = envs.make_task(name, **(made_with or {}))
            elif env is None:
                from greedystep.envs.gymnasium_ids import check_registered

                if not is_named:
                    check_registered(name, path)
                env = name
            rules = {} if world is None else {"discount": world["discount"], "limit": world["limit"]}
            agent = cls(env, about["method"], epsilon=about["epsilon"], q=q, **rules, **about["options"])
        except (ValueError, MemoryError) as problem:
            raise ValueError(f"{path} cannot be loaded: {problem}") from None
        try:
            agent._restore(about, kept)
        except ValueError as problem:
            raise ValueError(f"{path} is damaged, or was learned on another task: {problem}") from None
        return agent

    def _restore(self, about: dict[str, Any], kept: dict[str, np.ndarray]) -> None:
        """Set the agent's state to a saved one; ValueError if something does not fit this agent."""
        self.episodes, self.steps = about["episodes"], about["steps"]
        if about["warned"]:
            self._detector.stop()
        if self.memory is not None:
            self.memory = type(self.memory).from_arrays(kept, *self.q.shape)
        self._random.bit_generator.state = about["random"]
        if not isinstance(self.task, ToyTask):
            if about["world"] is None:
                raise ValueError(f"it was learned on {about['task']!r}, got {self.task.name!r}")
            self.task.state = about["world"]["state"]


def _task(env: Any, discount: float | None, limit: int | None) -> Any:
    if envs.is_toy(env) or isinstance(getattr(env, "task", None), ToyTask):
        env = envs.as_task(env)
    if isinstance(env, ToyTask):
        for name, value in (("discount", discount), ("limit", limit)):
            if value is not None:
                raise ValueError(f"{name}: {env.name} has its own, got {value!r}")
        return env
    if isinstance(env, str) and env in envs.names():
        raise ValueError(f"env: {env} has array observations; a table needs numbered states")
    from greedystep.tabular.gymnasium_task import GymnasiumTask

    if not (isinstance(env, str) or hasattr(env, "observation_space")):
        raise ValueError(f"env: expected a name, a toy task or a Gymnasium environment, got {type(env).__name__}")
    return GymnasiumTask(env, DEFAULT_DISCOUNT if discount is None else discount, limit)


def _as_episodes(log: Any) -> tuple[Episodes, str]:
    """Return logged episodes in any form as arrays, and the name that they have in errors."""
    if isinstance(log, Episodes):
        return log, "log"
    if isinstance(log, list | tuple | Iterator) and not is_arrays(log):
        log = list(log)
        if all(isinstance(one, tuple | Trajectory) for one in log):
            return Episodes.of(log), "log"
    data = Dataset.of(log, "log")
    return Episodes.of(data, data.name), data.name


def _discounted_sum(rewards: np.ndarray, discount: float) -> float:
    return float(discount ** np.arange(len(rewards)) @ rewards)

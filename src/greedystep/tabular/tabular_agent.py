"""A table that learns, answers, and lives on in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from greedystep import envs, io, schema
from greedystep.checks import check_float, check_int, check_seed
from greedystep.envs.toy import ToyTask
from greedystep.memory import check_memory
from greedystep.tabular.branching import Watch
from greedystep.tabular.episodes import Episodes
from greedystep.tabular.loops import CURE, Learned, check_longest_episode, filled_table, learn, replay, study
from greedystep.tabular.memory import Memory, checked_memory
from greedystep.tabular.methods import SAMPLED, parameters_of
from greedystep.trajectory import Trajectory

if TYPE_CHECKING:
    from greedystep.tabular.gym_world import GymWorld

FILE_FORMAT = "greedystep-tabular-1"
USUAL_DISCOUNT = 0.99
EVALUATION_EPISODES = 100

_GENERATOR = {
    "bit_generator": schema.OneOf("PCG64"),
    "state": {"state": schema.Int(0, 2**128 - 1), "inc": schema.Int(0, 2**128 - 1)},
    "has_uint32": schema.Int(0, 1),
    "uinteger": schema.Int(0, 2**32 - 1),
}
"""NumPy's default generator, which Gymnasium's environments have too."""
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
"""What a file says besides its arrays."""


class TabularAgent:
    """One method on one task.

    Args:
        env: the name of a toy task, with its default options, or a `ToyTask`; or the id of a Gymnasium environment with
            Discrete observations and actions, or such an environment itself, which then belongs to the agent.
        method: one of `METHODS`; `options` are its own, with the defaults that stand there.
        seed: of everything random. A saved and loaded agent goes on exactly as if it had not been stopped. Gymnasium
            keeps this promise for environments that draw from their `np_random` alone and carry nothing else from one
            episode to the next, as its own toy texts do; the agent cannot see what else one may hold.
        epsilon: share of random actions while learning.
        q: the table to begin with, float [S, A], or one number; 0 by default. Greedy-step's sampled forms never lower a
            value and want it at or below the optimal ones: on a toy task they begin with its lowest possible return;
            where a Gymnasium environment pays negative rewards, give one that is low enough.
        discount: γ of a Gymnasium environment, 0.99 by default. Toy tasks have their own.
        limit: cuts an episode of a Gymnasium environment off after so many steps; needed if it has no time limit. What
            lies behind a cut still counts: the last state's value stands for it.
    """

    q: np.ndarray
    """float64 [S, A]: the action values; -inf where a state does not have the action."""
    episodes: int
    """How many episodes `learn` has acted so far."""
    steps: int
    """How many steps these had."""
    memory: Memory
    """What the method keeps besides its table, such as the model of the method "model"; None for most."""

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
        self.task: ToyTask | GymWorld = _task(env, discount, limit)
        self.method, self.options, self.epsilon = method, options, check_float("epsilon", epsilon, 0, 1)
        S, A = self.task.num_states, self.task.num_actions
        check_memory(f"{self.task.name}: a table of {S} states x {A} actions", 17 * S * A)
        if isinstance(self.task, ToyTask):
            check_longest_episode(self.task)
            available, self.discount = self.task.mdp.available, self.task.mdp.discount
        else:
            available, self.discount = np.ones((S, A), bool), self.task.discount
            self.task.seed(seed)
        if q is None:
            q = self.task.lowest_return if code in SAMPLED and isinstance(self.task, ToyTask) else 0.0
        self.q, self.episodes, self.steps = filled_table(available, q), 0, 0
        self.memory = checked_memory(code, self.q.shape)
        watched = self.q.size if code in SAMPLED else 0
        self._watch = Watch(watched, self.q.shape[1], options.get("form", "running"))
        self._random = np.random.default_rng(seed)

    def learn(self, episodes: int) -> Learned:
        """Act and learn for so many more episodes; how they went.

        In a Gymnasium environment an interruption (Ctrl-C) keeps what the finished episodes taught.
        """
        if not isinstance(self.task, ToyTask):
            learned = self._learn_in_gymnasium(self.task, check_int("episodes", episodes))
        else:
            how: Any = {"epsilon": self.epsilon, "seed": self._random, "memory": self.memory, "watch": self._watch}
            learned = learn(self.task, self.method, episodes=episodes, q=self.q, **how, **self.options)
            self.q = learned.q
            self.episodes += episodes
            self.steps += int(learned.lengths.sum())
        self._watch.warn()
        return learned

    def _learn_in_gymnasium(self, world: GymWorld, episodes: int) -> Learned:
        code, parameters = parameters_of(self.method, self.options)
        table, returns, lengths = self.q.copy(), [], []
        try:
            for _ in range(episodes):
                log = world.follow(table, self.epsilon, self._random)
                if not study(code, parameters, table, self.memory, log, self.discount, 1):
                    raise FloatingPointError(f"{self.method}: its values have no bound, and left float64; {CURE}")
                self._watch.look_at(log)
                lengths.append(len(log.rewards))
                returns.append(float(self.discount ** np.arange(lengths[-1]) @ log.rewards))
        except FloatingPointError:
            raise
        except BaseException:
            self.q, self.episodes, self.steps = table, self.episodes + len(returns), self.steps + sum(lengths)
            raise
        self.q, self.episodes, self.steps = table, self.episodes + episodes, self.steps + sum(lengths)
        return Learned(table, np.array(returns), np.array(lengths, np.int64), self.memory)

    def fit(self, log: Episodes | Iterable[tuple | Trajectory], sweeps: int = 1) -> TabularAgent:
        """Learn from logged episodes, `sweeps` times over: `Episodes`, or what `Episodes.of` takes."""
        log = log if isinstance(log, Episodes) else Episodes.of(log)
        if isinstance(self.task, ToyTask):
            log.check(*self.q.shape)
            log.check_available(self.task.mdp.available)
        how: Any = {"discount": self.discount, "sweeps": sweeps, "memory": self.memory, **self.options}
        self.q = replay(log, self.q, self.method, **how)
        self._watch.look_at(log)
        self._watch.warn()
        return self

    def predict(self, states: Any) -> Any:
        """The greedy action of a state, or of an array of states; of equal ones the lowest."""
        numbers = np.asarray(states)
        if not numbers.size:  # NumPy takes an empty list for real numbers
            numbers = numbers.astype(np.int64)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(f"states: expected whole numbers, got {numbers.dtype}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.q):
            raise ValueError(
                f"states: expected numbers in 0..{len(self.q) - 1}, got {numbers.min()} to {numbers.max()}"
            )
        actions = self.q[numbers].argmax(axis=-1)
        return int(actions) if numbers.ndim == 0 else actions

    def evaluate(self, episodes: int | None = None, discount: float | None = None, seed: int | None = None) -> float:
        """The expected return of what `predict` does: exact on a toy task, which takes no arguments.

        Elsewhere it is the mean over some `episodes`, 100 by default, with the agent's own discount unless told
        otherwise (1 gives the plain sum of rewards). Learning afterwards goes on as if nothing had been asked.
        """
        if isinstance(self.task, ToyTask):
            if (episodes, discount, seed) != (None, None, None):
                raise ValueError(f"evaluate: the expected return of {self.task.name} is exact and takes no arguments")
            return self.task.expected_return(self.q.argmax(axis=1))
        gamma = self.discount if discount is None else check_float("discount", discount, 0, 1)
        count = EVALUATION_EPISODES if episodes is None else check_int("episodes", episodes)
        before, actions, total = self.task.state, self.q.argmax(axis=1), 0.0
        try:
            self.task.seed(0 if seed is None else check_seed(seed))
            for _ in range(count):
                rewards = self.task.episode(lambda state: (int(actions[state]), 1.0)).rewards
                total += float(gamma ** np.arange(len(rewards)) @ rewards)
        finally:
            self.task.state = before
        return total / count

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write one .npz file, without pickle; an older file is replaced only once the new one is complete."""
        about = {
            "task": self.task.name,
            "made_with": self.task.made_with,
            "method": self.method,
            "options": self.options,
            "epsilon": self.epsilon,
            "episodes": self.episodes,
            "steps": self.steps,
            "warned": self._watch.over,
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
        """Read what `save` wrote.

        Args:
            env: needed only for a task that was not made by its name or id, or whose id "module:name" lets Gymnasium
                import a module: a file alone does not decide that.
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
        if env is None and made_with is None:
            raise ValueError(f"env: {path} was learned on {name!r}, which has to be given to load it")
        try:
            if env is None and world is None:
                env = envs.make(name, **made_with)
            elif env is None:
                from greedystep.tabular.gym_world import check_registered

                check_registered(name, path)
                env = name
            rules = {} if world is None else {"discount": world["discount"], "limit": world["limit"]}
            agent = cls(env, about["method"], epsilon=about["epsilon"], q=q, **rules, **about["options"])
        except (ValueError, MemoryError) as problem:
            raise ValueError(f"{path} cannot be loaded: {problem}") from None
        try:
            agent._go_on_from(about, kept)
        except ValueError as problem:
            raise ValueError(f"{path} is damaged, or was learned on another task: {problem}") from None
        return agent

    def _go_on_from(self, about: dict[str, Any], kept: dict[str, np.ndarray]) -> None:
        """ValueError if something in the file does not fit this agent."""
        self.episodes, self.steps = about["episodes"], about["steps"]
        if about["warned"]:
            self._watch.stop()
        if self.memory is not None:
            self.memory = type(self.memory).from_arrays(kept, *self.q.shape)
        self._random.bit_generator.state = about["random"]
        if not isinstance(self.task, ToyTask):
            if about["world"] is None:
                raise ValueError(f"it was learned on {about['task']!r}, got {self.task.name!r}")
            self.task.state = about["world"]["state"]


def _task(env: Any, discount: float | None, limit: int | None) -> Any:
    """The task of that name or id, or the one that was given."""
    if isinstance(env, str) and env.startswith("toy/"):
        env = envs.make(env)
    if isinstance(env, ToyTask):
        for name, value in (("discount", discount), ("limit", limit)):
            if value is not None:
                raise ValueError(f"{name}: {env.name} has its own, got {value!r}")
        return env
    if isinstance(env, str) and env in envs.names():
        raise ValueError(f"env: {env} shows pictures or vectors, not numbered states; a table needs the latter")
    from greedystep.tabular.gym_world import GymWorld

    if not (isinstance(env, str) or hasattr(env, "observation_space")):
        raise ValueError(f"env: expected a name, a ToyTask or a Gymnasium environment, got {type(env).__name__}")
    return GymWorld(env, USUAL_DISCOUNT if discount is None else discount, limit)

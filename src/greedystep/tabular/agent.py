"""A table that learns, answers, and lives on in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import envs, record
from greedystep.envs.toy import ToyTask
from greedystep.mdp import UNREADABLE
from greedystep.tabular.branching import Watch
from greedystep.tabular.episodes import Episodes
from greedystep.tabular.loops import Learned, learn, replay, starting_table
from greedystep.tabular.memory import Memory, checked_memory
from greedystep.tabular.methods import SAMPLED, checked_share, parameters_of
from greedystep.trajectory import Trajectory

FILE_FORMAT = "greedystep-tabular-1"


class TabularAgent:
    """One method on one task.

    Args:
        env: the name of a toy task, with its default options, or a `ToyTask`.
        method: one of `METHODS`; `options` are its own, with the defaults that stand there.
        seed: of everything random. A saved and loaded agent goes on exactly as if it had not been stopped.
        epsilon: share of random actions while learning.
        q: the table to begin with, float [S, A], or one number; greedy-step wants it at or below the optimal values.
    """

    q: np.ndarray
    """float64 [S, A]: the action values; -inf where a state does not have the action."""
    episodes: int
    """How many episodes `learn` has acted so far."""
    memory: Memory
    """What the method keeps besides its table, such as the model of the method "model"; None for most."""

    def __init__(
        self,
        env: str | ToyTask,
        method: str = "greedy-step",
        *,
        seed: int = 0,
        epsilon: float = 0.2,
        q: Any = 0.0,
        **options: Any,
    ):
        code, _ = parameters_of(method, options)
        self.task = envs.make(env) if isinstance(env, str) else env
        self.method, self.options, self.epsilon = method, options, checked_share("epsilon", epsilon)
        self.q, self.episodes = starting_table(self.task, q), 0
        self.memory = checked_memory(code, self.q.shape)
        watched = self.q.size if code in SAMPLED else 0
        self._watch = Watch(watched, self.q.shape[1], options.get("form", "running"))
        self._random = np.random.default_rng(seed)

    def learn(self, episodes: int) -> Learned:
        """Act and learn for so many more episodes; how they went."""
        learned = learn(
            self.task,
            self.method,
            episodes=episodes,
            epsilon=self.epsilon,
            q=self.q,
            seed=self._random,
            memory=self.memory,
            watch=self._watch,
            **self.options,
        )
        self.q = learned.q
        self.episodes += episodes
        self._watch.warn()
        return learned

    def fit(self, log: Episodes | Iterable[tuple | Trajectory], sweeps: int = 1) -> TabularAgent:
        """Learn from logged episodes, `sweeps` times over: `Episodes`, or what `Episodes.of` takes."""
        log = log if isinstance(log, Episodes) else Episodes.of(log)
        how: Any = {"discount": self.task.mdp.discount, "sweeps": sweeps, "memory": self.memory, **self.options}
        self.q = replay(log, self.q, self.method, **how)
        self._watch.look_at(log)
        self._watch.warn()
        return self

    def predict(self, states: Any) -> Any:
        """The greedy action of a state, or of an array of states; of equal ones the lowest."""
        numbers = np.asarray(states)
        if not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(f"states: expected whole numbers, got {numbers.dtype}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.q):
            raise ValueError(
                f"states: expected numbers in 0..{len(self.q) - 1}, got {numbers.min()} to {numbers.max()}"
            )
        actions = self.q[numbers].argmax(axis=-1)
        return int(actions) if numbers.ndim == 0 else actions

    def evaluate(self) -> float:
        """The exact expected return of what `predict` does."""
        return self.task.expected_return(self.q.argmax(axis=1))

    def save(self, path: str | os.PathLike) -> None:
        """Write one .npz file, without pickle; an older file is replaced only once the new one is complete."""
        about = {
            "task": self.task.name,
            "made_with": self.task.made_with,
            "method": self.method,
            "options": self.options,
            "epsilon": self.epsilon,
            "episodes": self.episodes,
            "warned": self._watch.over,
            "random": self._random.bit_generator.state,
        }
        arrays: dict[str, Any] = {"format": FILE_FORMAT, "about": json.dumps(record.jsonable(about)), "q": self.q}
        if self.memory is not None:
            arrays |= {f"memory_{name}": array for name, array in self.memory.arrays().items()}
        with record.replacing(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike, env: ToyTask | None = None) -> TabularAgent:
        """Read what `save` wrote. `env` is needed only for a task that was not made by its name."""
        if not Path(path).is_file():
            raise FileNotFoundError(f"no such agent file: {path}")
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                kind = str(archive["format"])
                about, q = json.loads(str(archive["about"])), archive["q"]
                kept = {k.removeprefix("memory_"): v for k, v in archive.items() if k.startswith("memory_")}
        except (*UNREADABLE, AttributeError) as problem:
            raise ValueError(f"{path} is not an agent saved by greedystep ({problem})") from None
        if kind != FILE_FORMAT:
            raise ValueError(f"{path} is not an agent saved by greedystep (its format is not {FILE_FORMAT!r})")
        try:
            name, made_with, random = about["task"], about["made_with"], about["random"]
            if env is None and made_with is None:
                raise ValueError(f"env: {path} was learned on {name!r}, which has to be given to load it")
            task = envs.make(name, **made_with) if env is None else env
            agent = cls(task, about["method"], epsilon=about["epsilon"], q=q, **about["options"])
            agent.episodes = int(about["episodes"])
            if about["warned"]:
                agent._watch.stop()
            if agent.memory is not None:
                agent.memory = _memory_of(type(agent.memory), kept, q.shape)
            agent._random.bit_generator.state = random
        except (KeyError, TypeError) as problem:
            raise ValueError(f"{path} is damaged: {problem}") from None
        return agent


def _memory_of(kind: Any, arrays: dict[str, np.ndarray], shape: tuple[int, ...]) -> Any:
    try:
        return kind.from_arrays(arrays, *shape)
    except (ValueError, IndexError) as problem:
        raise TypeError(problem) from None  # the file's fault, not the caller's

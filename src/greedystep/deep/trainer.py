"""The host's side of training: compile once, run chunk after chunk, and between chunks tell, check and save.

    trainer = Trainer(config, env, seeds=[0, 1, 2])
    for rows in trainer.chunks(1_000_000):       # one row of metrics for each lane
        file.append(rows); file.sync(); trainer.save(folder)

After each chunk `trainer.state` is whole: stop there, save it, restore it elsewhere, and it goes on bit for bit.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep import checkpoint, io, schema
from greedystep.checks import INT32_MAX, LARGEST_SEED, check_int, check_seed
from greedystep.deep.config import OPTIONS_OF, DQNConfig
from greedystep.deep.device_loop import Lane, Loop
from greedystep.deep.device_memory import check_device_memory, largest_intermediate
from greedystep.deep.env_spec import made_again, recipe_of
from greedystep.deep.learner import Learner
from greedystep.deep.networks import MakeNetwork
from greedystep.deep.targets import Numbers
from greedystep.deep.train_metrics import NEVER, Tally, columns
from greedystep.envs.core import Environment
from greedystep.replay import bytes_of
from greedystep.signals import deferred

Row = dict[str, Any]

RENUMBER_FROM = 2**29
"""Once a replay's rows have numbers from here on, they are numbered anew."""

SETTINGS_OF = {
    "key": ("num_envs",),
    "knowledge": ("ensemble", "hidden"),
    "replay": ("replay_size",),
    "pool": ("target_period", "updates", "batch_size"),
    "envs": ("num_envs",),
    "episode": ("num_envs",),
}
"""Part of a lane's state -> the settings that decide its size."""


class State(NamedTuple):
    """All that is needed to go on."""

    step: np.ndarray
    """int64: environment steps of each lane."""
    lanes: Lane
    """Every array with a leading axis [L]."""


class DivergedError(ValueError):
    """A loss was not finite."""


class Trainer:
    """Trainings of one agent, one a lane, side by side.

    Args:
        seeds: one for each lane.
        numbers: settings that differ from lane to lane, one number for each: learning_rate, epsilon_end, lambda_, gate.
            All others are the config's.
        network: makes the networks instead of the default ones; see `networks.MakeNetwork`.
        on_diverged: called with (lane, step) where the loss of a lane was first not finite, once per lane and trainer;
            training goes on with the other lanes. After `restore` a lane that had diverged before is reported again,
            so that callers keep the first step. None: raise DivergedError instead.
        device_lock: held while a chunk computes, so that trainers in several threads take turns on one device. The
            program is compiled, and the lock waited for, outside the measured time.
    """

    state: State
    seconds: float
    """Time spent in training."""

    def __init__(
        self,
        config: DQNConfig,
        env: Environment,
        seeds: Sequence[int] = (0,),
        *,
        numbers: Mapping[str, Sequence[float]] | None = None,
        network: MakeNetwork | None = None,
        on_diverged: Callable[[int, int], None] | None = None,
        device_lock: AbstractContextManager[Any] | None = None,
    ):
        keep_compiled_programs()
        self.config, self.env, self.seeds = config, env, [check_seed(seed) for seed in seeds]
        if not self.seeds:
            raise ValueError("seeds: expected at least one, got none")
        self.learner = Learner(config, env.observation, env.num_actions, network)
        self.loop = Loop(self.learner, env)
        self.numbers = _numbers(config, numbers or {}, len(self.seeds))
        self.state, self.seconds = State(np.array(0), self._begin()), 0.0
        self._chunk: Any = jax.jit(self._run_lanes, donate_argnums=1)
        self._is_checked = False
        self._on_diverged, self._device_lock = on_diverged, device_lock
        self._diverged_lanes: set[int] = set()

    def _begin(self) -> Lane:
        """The state before the first step; MemoryError if it does not fit."""
        begin, seeds = jax.jit(partial(lax.map, self.loop.begin)), np.asarray(self.seeds, np.uint32)
        made = begin.trace(seeds)
        parts = {name: bytes_of(part) for name, part in made.out_info._asdict().items()}
        heaviest = self._shown(*SETTINGS_OF[max(parts, key=lambda name: parts[name])])
        check_device_memory(heaviest, sum(parts.values()) + largest_intermediate(made))
        with deferred():  # an interrupt within JAX may come out of it as a SystemError
            return begin(seeds)

    def _shown(self, *names: str) -> str:
        """Some settings, and how many lanes there are, as the complaint about their size begins."""
        settings = [f"{name}={getattr(self.config, name)}" for name in names]
        return ", ".join([*settings, *([f"{len(self.seeds)} seeds"] if len(self.seeds) > 1 else [])])

    def check_memory(self) -> None:
        """MemoryError if the arrays that training makes on its way do not fit beside the state; compiles nothing."""
        if self._is_checked:
            return
        traced = self._chunk.trace(jnp.int32(0), self.state.lanes, self.numbers, jnp.int32(1))
        settings = self._shown("batch_size", "num_envs", "ensemble", *(["n"] if self.config.n else []))
        check_device_memory(settings, largest_intermediate(traced))
        self._is_checked = True

    def _run_lanes(self, done: jax.Array, lanes: Lane, numbers: Numbers, rounds: jax.Array) -> tuple[Lane, Tally]:
        """One lane as it is; several side by side on a GPU, and one after another on a CPU, where that is faster."""
        if len(self.seeds) == 1:
            lane, own = jax.tree.map(lambda x: x[0], (lanes, numbers))
            return jax.tree.map(lambda x: x[None], self.loop.run(done, lane, own, rounds))
        if jax.default_backend() == "cpu":
            return lax.map(lambda one: self.loop.run(done, one[0], one[1], rounds), (lanes, numbers))
        return jax.vmap(self.loop.run, in_axes=(None, 0, 0, None))(done, lanes, numbers, rounds)

    # -- training ------------------------------------------------------------------------------------------------------

    def chunks(self, steps: int) -> Iterator[list[Row]]:
        """Train so many MORE steps (rounded up to whole steps of all environments); one row a lane after each chunk.

        Chunks end where the counter of steps is a multiple of `log_every`, however often training was stopped.
        If a loss is not finite, `on_diverged` is called, or DivergedError raised where there is none.
        """
        envs, every = self.config.num_envs, self.config.log_every
        check_int("steps", steps, 0, most_steps(self.config) - int(self.state.step))
        self.check_memory()
        end = int(self.state.step) + -(-steps // envs) * envs
        while (step := int(self.state.step)) < end:
            steps = min(end, (step // every + 1) * every) - step
            if self._device_lock is None:
                yield self._run_chunk(steps)
                continue
            self.compile()
            with self._device_lock:
                rows = self._run_chunk(steps)
            yield rows

    def compile(self) -> None:
        """Compile now what the first chunk would compile otherwise."""
        if not isinstance(self._chunk, jax.stages.Compiled):
            self.check_memory()
            self._chunk = self._chunk.lower(jnp.int32(0), self.state.lanes, self.numbers, jnp.int32(1)).compile()

    def run(self, steps: int, on_chunk: Callable[[list[Row]], Any] | None = None) -> list[Row]:
        """`chunks` to the end: all rows, each chunk's given to `on_chunk` as soon as it is there."""
        found = []
        for rows in self.chunks(steps):
            if on_chunk is not None:
                on_chunk(rows)
            found += rows
        return found

    def _run_chunk(self, steps: int) -> list[Row]:
        begin = time.perf_counter()
        step, lanes = self.state
        envs = self.config.num_envs
        with deferred():  # the old state is given away, the new one must be kept
            lanes, tally = self._chunk(jnp.int32(step // envs), lanes, self.numbers, jnp.int32(steps // envs))
            self.state = State(np.array(step + steps), lanes)
            tally = jax.device_get(tally)
            self._renumber()
        tally = tally._replace(
            diverged=np.where(tally.diverged == NEVER, NEVER, tally.diverged.astype(np.int64) * envs)
        )
        spent = time.perf_counter() - begin
        self.seconds += spent
        self._check(tally)
        return [
            {
                "step": int(self.state.step),
                "lane": lane,
                "seed": seed,
                **columns(jax.tree.map(lambda x, lane=lane: x[lane], tally)),
                "target_age": self._target_age(),
                "steps_per_second": steps * len(self.seeds) / spent,
                "wall_seconds": self.seconds,
            }
            for lane, seed in enumerate(self.seeds)
        ]

    def _renumber(self) -> None:
        """Keeps the numbers of the replay's rows within int32.

        A step writes two rows at the most, and rows that are numbered anew have numbers up to 2 MOST_ROWS + 1. So no
        chunk begins above 2^29 + 1, and none adds more than 2 MOST_ROUNDS: that is less than 2^31.
        """
        replay = self.state.lanes.replay
        if np.asarray(replay.next_row).max() >= RENUMBER_FROM:
            lanes = self.state.lanes._replace(replay=jax.vmap(self.loop.store.renumbered)(replay))
            self.state = self.state._replace(lanes=lanes)

    def _target_age(self) -> float | None:
        """Steps since what the targets are made from was copied, on average over the updates so far."""
        config = self.config
        if self.state.step <= config.warmup:
            return None
        age = (config.target_period - config.num_envs) / 2
        if config.target_rate < 1:  # a moving average with this rate is so many updates old
            moving = (1 - config.target_rate) / config.target_rate * config.num_envs / config.updates
            return moving + age if config.is_pooled else moving
        return age + config.target_period if config.is_pooled and config.double else age

    def _check(self, tally: Tally) -> None:
        """Call `on_diverged` for each lane whose loss is not finite for the first time, or raise DivergedError."""
        for lane, step in enumerate(tally.diverged):
            if step == NEVER or lane in self._diverged_lanes:
                continue
            if self._on_diverged is None:
                raise DivergedError(
                    f"the loss of lane {lane} (seed {self.seeds[lane]}) was not finite at step {step}: try a smaller "
                    f"learning_rate; the last checkpoint is from before"
                )
            self._diverged_lanes.add(lane)
            self._on_diverged(lane, int(step))

    # -- files ---------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What a checkpoint says of itself: enough to build this trainer again."""
        return {
            "kind": "dqn",
            "env": recipe_of(self.env),
            "config": dataclasses.asdict(self.config),
            "seeds": self.seeds,
            "numbers": {name: np.asarray(x).tolist() for name, x in self.numbers._asdict().items()},
        }

    def save(self, folder: str | os.PathLike, **more: Any) -> Path:
        """Write the state to `folder`; call it between chunks. `more` goes into what the file says of itself."""
        return checkpoint.save(
            folder, int(self.state.step), self.state, self.about() | {"seconds": self.seconds} | more
        )

    def restore(self, path: str | os.PathLike) -> None:
        """Go on from a checkpoint of the same config, environment, seeds and numbers."""
        wanted, found = io.jsonable(self.about()), _read_about(path)
        for name, value in wanted.items():
            if found[name] != value:
                raise ValueError(f"{path} was saved by another training: its {name} is {found[name]!r}, not {value!r}")
        self.state, _ = checkpoint.restore(path, self.state)
        self.seconds = float(found["seconds"])

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        env: Environment | None = None,
        *,
        lane: int | None = None,
        network: MakeNetwork | None = None,
    ) -> Trainer:
        """The trainer that saved a checkpoint, where it stopped; or one of its lanes alone.

        Args:
            env, network: needed only where they cannot be made again from what the file says.
        """
        about = _read_about(path)
        env = made_again(about["env"], path) if env is None else env
        try:
            config = config_from_json(about["config"])
            whole = cls(config, env, about["seeds"], numbers=_own(about), network=network)
        except (ValueError, MemoryError) as problem:
            raise ValueError(f"{path} cannot be loaded: {problem}") from None
        whole.restore(path)
        if lane is not None:
            check_int("lane", lane, 0, len(whole.seeds) - 1)
        return whole if lane is None or len(whole.seeds) == 1 else whole.alone(lane)

    def alone(self, lane: int) -> Trainer:
        """One lane as a training of its own, which goes on as it would have among the others."""
        check_int("lane", lane, 0, len(self.seeds) - 1)
        numbers = {name: values[lane : lane + 1] for name, values in _own(self.about()).items()}
        one = Trainer(self.config, self.env, [self.seeds[lane]], numbers=numbers, network=self.learner.network)
        one.state = self.state._replace(lanes=jax.tree.map(lambda x: x[lane : lane + 1], self.state.lanes))
        one.seconds = self.seconds
        return one


def keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache folder, so that a second process starts at once.

    Does nothing where JAX has been told about a cache already.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(home) / "greedystep" / "xla"))


ABOUT = {
    "kind": schema.OneOf("dqn"),
    "env": {"name": str, "options": schema.Nullable(dict)},
    "config": {"returns": str, "hidden": [schema.Int(1)]},
    "seeds": [schema.Int(0, LARGEST_SEED)],
    "numbers": {name: [schema.Float()] for name in Numbers._fields},
    "seconds": schema.Float(0),
}
"""What a checkpoint says of itself; the other entries of "config" are checked by `DQNConfig`."""


def _read_about(path: str | os.PathLike) -> dict[str, Any]:
    try:
        return schema.check(checkpoint.read_about(path), ABOUT, "about")
    except checkpoint.DamagedCheckpointError:
        raise
    except ValueError as problem:
        raise ValueError(f"{path} is not the checkpoint of a DQN: {problem}") from None


def config_from_json(content: dict[str, Any]) -> DQNConfig:
    """The settings as a file has them; ValueError names the first that is not one."""
    hidden = schema.check(content.get("hidden"), [schema.Int(1)], "hidden")
    return schema.build(DQNConfig, content | {"hidden": tuple(hidden)}, "config")


def _own(about: Mapping[str, Any]) -> dict[str, list[float]]:
    """The numbers that this choice of returns has."""
    options = OPTIONS_OF.get(about["config"]["returns"], {})
    return {name: x for name, x in about["numbers"].items() if name in options or name not in ("lambda_", "gate")}


def most_steps(config: DQNConfig) -> int:
    """Steps that a training can have: its steps of all environments are counted with int32."""
    return config.num_envs * INT32_MAX


def _numbers(config: DQNConfig, given: Mapping[str, Sequence[float]], lanes: int) -> Numbers:
    """One number a lane, checked as if each were the config's own."""
    for name, values in given.items():
        if name not in Numbers._fields:
            raise ValueError(f"numbers: {name!r} cannot differ from lane to lane, only {', '.join(Numbers._fields)}")
        if name in ("lambda_", "gate") and name not in OPTIONS_OF.get(config.returns, {}):
            raise ValueError(f"numbers: returns={config.returns!r} has no {name}")
        if len(values) != lanes:
            raise ValueError(f"numbers: expected {lanes} values of {name}, one a lane, got {len(values)}")
        for value in values:
            dataclasses.replace(config, **{name: float(value)})
    columns = {name: given.get(name, [getattr(config, name) or 0.0] * lanes) for name in Numbers._fields}
    return Numbers(**{name: jnp.asarray(np.asarray(values, np.float32)) for name, values in columns.items()})

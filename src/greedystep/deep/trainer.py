"""The host side of training: compile once, run chunk after chunk, and between chunks report, check and save.

    trainer = Trainer(config, env, seeds=[0, 1, 2])
    for rows in trainer.chunks(1_000_000):       # one metrics row per lane
        file.append(rows); file.sync(); trainer.save(folder)

After each chunk `trainer.state` is complete: stop there, save it, restore it elsewhere, and training continues bit for
bit.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep import checkpoint, io, schema
from greedystep.checks import INT32_MAX, check_int, check_seed
from greedystep.deep.compilation_cache import keep_compiled_programs
from greedystep.deep.config import DQNConfig, described
from greedystep.deep.device_loop import DeviceLoop, compiler_options
from greedystep.deep.device_memory import check_device_memory, largest_intermediate, tree_bytes
from greedystep.deep.divergence import DivergenceCheck
from greedystep.deep.env_spec import AnyEnvironment, make_from_spec, spec_of
from greedystep.deep.heads import HEAD_SETTINGS, HeadPolicy, HeadScores
from greedystep.deep.host_episodes import HostEpisodes
from greedystep.deep.host_loop import BrokenOffError, HostLoop
from greedystep.deep.lane_devices import Device, lane_devices, one_lane, spread
from greedystep.deep.lane_hyperparams import (
    LARGEST_IN_CONFIG,
    described_hyperparams,
    make_hyperparams,
    own_hyperparams,
)
from greedystep.deep.learner import Learner
from greedystep.deep.networks import MakeNetwork
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, map_lanes
from greedystep.deep.train_metrics import ChunkMetrics, metrics_row, target_age
from greedystep.deep.trainer_description import ENV_STATE, config_from_json, current_name, read_about
from greedystep.envs.core import Environment
from greedystep.envs.host import HostEnvironment
from greedystep.signals import deferred

Row = dict[str, Any]
"""One row of metrics: column name -> value."""

RENUMBER_FROM = 2**29
"""Once a row number of the replay buffer exceeds this, its rows are renumbered (see `Trainer._renumber`)."""

SIZE_SETTINGS = {
    "key": ("num_envs",),
    "learner": ("ensemble", "hidden"),
    "replay": ("replay_size",),
    "pool": ("target_period", "updates", "batch_size"),
    "envs": ("num_envs",),
    "episode": ("num_envs",),
    "heads": ("num_envs",),
}
"""Field of `LaneState` -> the settings that decide its size in memory, named in MemoryErrors."""


class TrainState(NamedTuple):
    """The complete state of a training with L lanes."""

    step: np.ndarray
    """int64: environment steps per lane."""
    lanes: LaneState
    """The states of all lanes: every array has a leading axis [L]."""


class Trainer:
    """Trains one agent in several lanes side by side.

    Args:
        env: a compiled environment, or one of Gymnasium that is stepped on the host.
        seeds: one seed per lane.
        lane_hyperparams: settings that differ between lanes, one value per lane: learning_rate, epsilon_end, lambda_,
            gate, n and, where `Learner.can_leave_out` says so, ensemble (these two at most the config's). All others
            are the config's.
        network: makes the networks instead of the default ones; see `networks.MakeNetwork`.
        on_diverged: called with (lane, step) where the loss of a lane was first not finite, once per lane and trainer;
            training goes on with the other lanes. After `restore` a lane that had diverged before is reported again,
            so that callers keep the first step. None: raise DivergedError instead, and warn of Q-values that no return
            can have (UnreachableValueWarning).
    """

    state: TrainState
    seconds: float
    """Wall-clock time spent in training."""
    on_progress: Callable[[int, float], Any] | None = None
    """Called about once per second within a chunk of host environments, with the step and the steps per second."""
    devices: Sequence[Device]
    """The devices that lanes are spread over, with an equal share each; one where environments step on the host."""

    def __init__(
        self,
        config: DQNConfig,
        env: AnyEnvironment,
        seeds: Sequence[int] = (0,),
        *,
        lane_hyperparams: Mapping[str, Sequence[float]] | None = None,
        network: MakeNetwork | None = None,
        on_diverged: Callable[[int, int], None] | None = None,
    ):
        keep_compiled_programs()
        self.config, self.env, self.seeds = config, env, [check_seed(seed) for seed in seeds]
        if not self.seeds:
            raise ValueError("seeds: expected at least one, got none")
        self.learner = Learner(config, env.observation, env.num_actions, network)
        self.loop = _loop(self.learner, env, tuple(self.seeds))
        self.devices = lane_devices(len(self.seeds) if isinstance(self.loop, DeviceLoop) else 1)
        self.hyperparams = make_hyperparams(self.learner, lane_hyperparams or {}, len(self.seeds))
        self.state, self.seconds = TrainState(np.array(0), self._init()), 0.0
        self._host = HostEpisodes(self.loop) if isinstance(self.loop, HostLoop) else None
        """The running episodes, where environments step on the host."""
        self._chunk = jax.jit(
            self._run_lanes, donate_argnums=1, static_argnames="block", compiler_options=compiler_options()
        )
        self._programs: dict[int, jax.stages.Compiled] = {}
        """The compiled program of a chunk, for each number of rounds that are one static loop."""
        self._summaries = jax.jit(partial(spread, jax.vmap(HeadScores.summary), self.devices))
        self._is_checked = False
        self._divergence = DivergenceCheck(config, env.name, self.seeds, on_diverged)

    def _init(self) -> LaneState:
        """Return the state of all lanes before the first step; MemoryError if it does not fit."""

        def one(seed: jax.Array, ensemble: jax.Array) -> LaneState:
            lane = self.loop.init(seed)
            return lane._replace(learner=self.learner.with_networks(lane.learner, ensemble)) if differ else lane

        differ = bool((self.hyperparams.ensemble != self.config.ensemble).any())
        init = jax.jit(partial(spread, partial(lax.map, lambda lane: one(*lane)), self.devices))
        lanes = (np.asarray(self.seeds, np.uint32), self.hyperparams.ensemble)
        traced = init.trace(lanes)
        sizes = {name: tree_bytes(part) for name, part in traced.out_info._asdict().items()}
        largest = SIZE_SETTINGS[max(sizes, key=lambda name: sizes[name])]
        what = self._shown(*largest)
        if "hidden" in largest and self.env.num_actions > sum(self.config.hidden):
            what += f", {self.env.num_actions} actions"
        needed = sum(sizes.values()) // len(self.devices) + largest_intermediate(traced)
        check_device_memory(what, needed, self.devices)
        with deferred():  # an interrupt within JAX may come out of it as a SystemError
            return init(lanes)

    def _shown(self, *names: str) -> str:
        """Return the named settings, and the number of seeds if several, as text for messages about memory."""
        settings = [f"{name}={getattr(self.config, name)}" for name in names]
        return ", ".join([*settings, *([f"{len(self.seeds)} seeds"] if len(self.seeds) > 1 else [])])

    @property
    def params(self) -> Any:
        """The arrays of the online networks of all lanes, [L, M, ...]; with "auto" also each lane's best head."""
        lanes = self.state.lanes
        if lanes.heads is None:
            return lanes.learner.params
        return HeadPolicy(lanes.learner.params, spread(jax.vmap(HeadScores.best), self.devices, lanes.heads))

    def check_memory(self) -> None:
        """Raise MemoryError if the intermediate arrays of training do not fit beside the state; compiles nothing."""
        if self._is_checked or self._host is not None:
            return
        traced = self._chunk.trace(jnp.int32(0), self.state.lanes, self.hyperparams, jnp.int32(1))
        settings = self._shown("batch_size", "num_envs", "ensemble", *(["n"] if self.config.n else []))
        check_device_memory(settings, largest_intermediate(traced), self.devices)
        self._is_checked = True

    def _run_lanes(
        self, done: jax.Array, lanes: LaneState, hyperparams: LaneHyperparams, rounds: jax.Array, block: int = 1
    ) -> tuple[LaneState, ChunkMetrics]:
        assert isinstance(self.loop, DeviceLoop)
        run = self.loop.run
        each = partial(map_lanes, lambda lane, own: run(done, lane, own, rounds, block))
        return spread(each, self.devices, lanes, hyperparams)

    # -- training ------------------------------------------------------------------------------------------------------

    def chunks(self, steps: int) -> Iterator[list[Row]]:
        """Train for `steps` MORE steps (rounded up to a multiple of num_envs); after each chunk yield a row per lane.

        Chunks end where the step counter is a multiple of `log_every`, however often training was stopped.
        If a loss is not finite, `on_diverged` is called, or DivergedError raised where there is none. If an environment
        on the host fails (EnvironmentFailedError), the rows of the rounds before come first; `state` is that after
        them, and training can go on, with new episodes.
        """
        envs, every = self.config.num_envs, self.config.log_every
        check_int("steps", steps, 0, most_steps(self.config) - int(self.state.step))
        self.check_memory()
        end = int(self.state.step) + -(-steps // envs) * envs
        block = self._block(end)
        while (step := int(self.state.step)) < end:
            steps = min(end, (step // every + 1) * every) - step
            rows, failure = self._run_chunk(steps, block)
            if rows:
                yield rows
            if failure is not None:
                raise failure

    def compile(self, steps: int | None = None) -> None:
        """Compile the program of the next `steps` steps now instead of in their first chunk; None: of whole chunks."""
        if isinstance(self.loop, DeviceLoop):
            self.check_memory()
            self._program(self._block(int(self.state.step) + steps if steps else self.config.log_every))

    def _block(self, end: int) -> int:
        """Return the rounds of a loop of static length in all chunks until step `end`, so that they share a program."""
        return (
            1 if isinstance(self.loop, HostLoop) else self.loop.block(int(self.state.step), end, self.config.log_every)
        )

    def _program(self, block: int) -> Callable[..., tuple[LaneState, ChunkMetrics]]:
        """Return the compiled program of a chunk."""
        if block not in self._programs:
            arguments = (jnp.int32(0), self.state.lanes, self.hyperparams, jnp.int32(1))
            self._programs[block] = self._chunk.lower(*arguments, block=block).compile()
        return self._programs[block]

    def run(self, steps: int, on_chunk: Callable[[list[Row]], Any] | None = None) -> list[Row]:
        """Train for `steps` more steps and return all metrics rows; `on_chunk` is called with those of each chunk."""
        all_rows = []
        for rows in self.chunks(steps):
            if on_chunk is not None:
                on_chunk(rows)
            all_rows += rows
        return all_rows

    def _run_chunk(self, steps: int, block: int) -> tuple[list[Row], BaseException | None]:
        """Train for `steps` steps; return the rows, none if no step was made, and what broke the training off."""
        begin = time.perf_counter()
        step, lanes = self.state
        envs, failure = self.config.num_envs, None
        with deferred() as waiting:  # the old state is donated, the new one must be kept
            if self._host is not None:
                done = int(step) // envs
                lanes = self._host.begin(done, lanes, self.hyperparams)
                how: Any = {"stop": waiting, "report": self._reporter(done)}
                try:
                    lanes, metrics, rounds = self._host.loop.run(done, lanes, self.hyperparams, steps // envs, **how)
                except BrokenOffError as broken:
                    lanes, metrics, rounds, failure = broken.lanes, broken.metrics, broken.rounds, broken.__cause__
                    self._host.abandon()
                steps = rounds * envs
            else:
                rounds = (jnp.int32(step // envs), jnp.int32(steps // envs))
                lanes, metrics = self._program(block)(rounds[0], lanes, self.hyperparams, rounds[1])
            self.state = TrainState(np.array(step + steps), lanes)
            # For all lanes at once: every array that is read alone makes the device wait.
            metrics, heads = jax.device_get((metrics, None if lanes.heads is None else self._summaries(lanes.heads)))
            self._renumber()
        spent = time.perf_counter() - begin
        self.seconds += spent
        replay = self.state.lanes.replay
        self._divergence.check_losses(metrics, replay)
        self._divergence.check_values(metrics, replay, int(self.state.step))
        if not steps:
            return [], failure
        rows = [
            {
                "step": int(self.state.step),
                "lane": lane,
                "seed": seed,
                **metrics_row(jax.tree.map(itemgetter(lane), metrics)),
                "target_age": target_age(self.config, int(self.state.step)),
                **({} if heads is None else jax.tree.map(itemgetter(lane), heads).columns()),
                "steps_per_second": steps * len(self.seeds) / spent,
                "wall_seconds": self.seconds,
            }
            for lane, seed in enumerate(self.seeds)
        ]
        return rows, failure

    def _reporter(self, done: int) -> Callable[[int], None]:
        """Return the function that hands a round of a chunk, which begins after `done` rounds, to `on_progress`."""
        at, seconds, envs = done, time.perf_counter(), self.config.num_envs

        def report(round_: int) -> None:
            nonlocal at, seconds
            now = time.perf_counter()
            speed = (round_ - at) * envs * len(self.seeds) / (now - seconds)
            at, seconds = round_, now
            if self.on_progress is not None:
                self.on_progress(round_ * envs, speed)

        return report

    def head_scores(self, lane: int) -> HeadScores | None:
        """Return the returns of a lane's heads; None for returns other than "auto"."""
        heads = self.state.lanes.heads
        return None if heads is None else one_lane(heads, lane)

    def close(self) -> None:
        """Close the environments of Gymnasium that were made for the training, not one that was given.

        Training can go on all the same: new ones then come to where the running episodes were, as after `restore`.
        """
        if self._host is not None:
            self._host.close()

    @contextmanager
    def env_lent(self) -> Iterator[None]:
        """Within the block others play in `env`, where that may be the very environment that is learned from."""
        try:
            yield
        finally:
            if isinstance(self.env, HostEnvironment) and self.env.fixed_num_envs is not None:
                self.cut_episodes()

    def cut_episodes(self) -> None:
        """Truncate the running episodes of host environments, because an evaluation has played in them.

        New ones begin with the next chunk.
        """
        if self._host is not None:
            self.state = self.state._replace(lanes=self._host.cut(self.state.lanes))

    def _renumber(self) -> None:
        """Keep the row numbers of the replay buffer within int32.

        A step writes at most two rows, and renumbered rows have numbers up to 2 MAX_ROWS + 1. So no chunk begins above
        2^29 + 1, and none adds more than 2 MAX_ROUNDS: that is less than 2^31.
        """
        replay = self.state.lanes.replay
        if np.asarray(replay.next_row).max() >= RENUMBER_FROM:
            replay = spread(jax.vmap(self.loop.buffer.renumbered), self.devices, replay)
            self.state = self.state._replace(lanes=self.state.lanes._replace(replay=replay))

    # -- files ---------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return the JSON description that checkpoints carry, from which `Trainer.load` builds an equal trainer."""
        return {
            "kind": "dqn",
            "env": spec_of(self.env),
            "config": described(self.config),
            "seeds": self.seeds,
            "numbers": described_hyperparams(self.config, self.hyperparams),
            **({"heads": HEAD_SETTINGS} if self.config.returns == "auto" else {}),
        }

    def save(self, folder: str | os.PathLike, **more: Any) -> Path:
        """Write a checkpoint to `folder` and return its path; call between chunks. `more` joins its description."""
        about = self.about() | {"seconds": self.seconds} | more
        if self._host is not None:
            about["envs"] = self._host.state
        return checkpoint.save(folder, int(self.state.step), self.state, about)

    def restore(self, path: str | os.PathLike) -> None:
        """Continue from a checkpoint of the same config, environment, seeds and hyperparameters."""
        wanted, found = io.jsonable(self.about()), read_about(path)
        heads = wanted.pop("heads", None)
        for name, value in wanted.items():
            if found[name] != value:
                raise ValueError(f"{path} was saved by another training: its {name} is {found[name]!r}, not {value!r}")
        if found.get("heads") != heads:
            raise ValueError(f"{path} was saved by another version of greedystep, whose 'auto' has other heads")
        self.state, _ = checkpoint.restore(path, self.state, partial(current_name, self.config))
        self.seconds = float(found["seconds"])
        if self._host is not None:
            self._host.restore(schema.check(found.get("envs"), ENV_STATE, f"{path}: envs"))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        env: AnyEnvironment | None = None,
        *,
        lane: int | None = None,
        network: MakeNetwork | None = None,
        named: str | None = None,
    ) -> Trainer:
        """Load the trainer that saved a checkpoint, at the step where it was saved; with `lane`, that lane alone.

        Args:
            env, network: needed only if they cannot be made from the file's description.
            named: an environment that the user has named; see `make_from_spec`.
        """
        about = read_about(path)
        env = make_from_spec(about["env"], path, named) if env is None else env
        try:
            config = config_from_json(about["config"])
            whole = cls(config, env, about["seeds"], lane_hyperparams=own_hyperparams(about), network=network)
        except (ValueError, MemoryError) as problem:
            raise ValueError(f"{path} cannot be loaded: {problem}") from None
        whole.restore(path)
        if lane is not None:
            check_int("lane", lane, 0, len(whole.seeds) - 1)
        return whole if lane is None or len(whole.seeds) == 1 else whole.alone(lane)

    def alone(self, lane: int) -> Trainer:
        """Return a trainer of one lane alone, which continues as that lane would have among the others."""
        check_int("lane", lane, 0, len(self.seeds) - 1)
        own = {name: values[lane : lane + 1] for name, values in own_hyperparams(self.about()).items()}
        changes = {name: own.pop(name, [getattr(self.config, name)])[0] for name in LARGEST_IN_CONFIG}
        config = dataclasses.replace(self.config, **changes)
        one = Trainer(config, self.env, [self.seeds[lane]], lane_hyperparams=own, network=self.learner.network)
        own_lane = one_lane(self.state.lanes, lane)
        if config.ensemble < self.config.ensemble:
            present = jax.tree.map(lambda x: x[: config.ensemble], own_lane.learner)
            own_lane = own_lane._replace(learner=present)
        one.state = self.state._replace(lanes=jax.tree.map(lambda x: x[None], own_lane))
        one.devices = [self.devices[lane * len(self.devices) // len(self.seeds)]]
        one.seconds = self.seconds
        if self._host is not None and one._host is not None and (state := self._host.state) is not None:
            own_envs = slice(lane * self.config.num_envs, (lane + 1) * self.config.num_envs)
            one._host.restore({name: values[own_envs] for name, values in state.items()})
        return one


def _loop(learner: Learner, env: AnyEnvironment, seeds: tuple[int, ...]) -> DeviceLoop | HostLoop:
    if isinstance(env, Environment):
        return DeviceLoop(learner, env)
    if env.vectorization != "actors":
        return HostLoop(learner, env, seeds)
    from greedystep.deep.actors import ActorLoop

    if len(seeds) > 1 or learner.config.returns == "auto":
        what = f"seeds: actors play for one, got {len(seeds)}" if len(seeds) > 1 else 'returns: "auto" acts with heads'
        raise ValueError(f"{what}; leave out the actors")
    return ActorLoop(learner, env, seeds)


def most_steps(config: DQNConfig) -> int:
    """Return the largest possible number of steps: rounds (steps of all environments) are counted with int32."""
    return config.num_envs * INT32_MAX

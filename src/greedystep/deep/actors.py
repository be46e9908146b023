"""Slow simulators as actors of a Ray cluster, which play whole episodes for one learner.

    learner, round t:   next step of every column  ->  replay, update     (compiled, as beside environments on the host)
    actors:             play(networks, epsilon, seed) -> episode          (anywhere, any number of them)

The learner has `num_envs` columns. Each consumes one episode after another, one step per round, and has AHEAD more
episodes requested. A request carries the networks of its round, so the networks of an episode are never older than its
column needs for AHEAD + 1 episodes (bounded staleness), and no actor plays what was not requested (backpressure).

Which networks, ε and seed an episode is played with is decided by rounds alone. So numbers depend neither on timing nor
on how many actors there are, whether some die (their episodes are requested again), or join in the middle.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count as count_from
from types import TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.checks import check_int
from greedystep.deep.config import DQNConfig
from greedystep.deep.host_loop import HostLoop
from greedystep.deep.learner import Learner
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState
from greedystep.envs.core import ObservationSpec
from greedystep.envs.host import HostEnvironment
from greedystep.envs.host_envs import HostEnvs
from greedystep.numpy_policy import apply_layers
from greedystep.runs.ray_cluster import Cluster, ClusterError

AHEAD = 2
"""Episodes that are requested per column beyond the one that is consumed."""
IN_FLIGHT = 2
"""Requests that an actor has at the same time: one that it plays, and one that waits there."""
MOST_DEATHS = 3
"""Deaths per actor, without any episode between them, after which the actors are given up."""
START_WITHIN = 60.0
"""Seconds within which an actor must have started where there is no other."""


Key = tuple[int, int]
"""Column of an episode, and its number there."""


class Episode(NamedTuple):
    """An episode of T steps."""

    observations: np.ndarray
    """[T + 1, ...]"""
    actions: np.ndarray
    probabilities: np.ndarray
    """float32 [T]: of the actions."""
    q: np.ndarray
    """float32 [T]: Q(s, a) of the networks that acted."""
    rewards: np.ndarray
    terminated: bool
    truncated: bool


NOTHING = Episode(*(np.empty(0) for _ in range(5)), terminated=False, truncated=False)
"""Takes the place of the first episode of a column until that is played."""


class Player:
    """One simulator, and how networks act in it; lives in an actor.

    Args:
        make: makes the environment.
    """

    def __init__(self, make: Callable[[], Any], config: DQNConfig, observation: ObservationSpec, num_actions: int):
        self._envs, self._num_actions = HostEnvironment(make).open(1), num_actions
        learner = Learner(config, observation, num_actions)
        self._is_mlp = learner.is_plain_mlp
        self._structure = jax.tree.structure(jax.eval_shape(lambda: learner.init(jax.random.key(0)).params))
        self._q = jax.jit(learner.acting_q)

    def ready(self) -> None:
        """Return once the simulator is there."""

    def play(self, networks: Sequence[np.ndarray], epsilon: float, seed: int) -> Episode:
        """Play one episode ε-greedily; the same arguments give the same episode, if the simulator is deterministic."""
        rng, num_actions = np.random.default_rng([seed, 1]), self._num_actions
        seen = [self._envs.begin_with(seed)]
        actions, probabilities, values, rewards = [], [], [], []
        while True:
            q = self._values(networks, seen[-1])
            greedy = int(q.argmax())
            action = int(rng.integers(num_actions)) if rng.random() < epsilon else greedy
            step = self._envs.step(np.array([action]), reset=False)
            seen.append(step.last[0])
            actions.append(action)
            probabilities.append(epsilon / num_actions + (1 - epsilon) * (action == greedy))
            values.append(q[action])
            rewards.append(step.reward[0])
            if step.terminated[0] or step.truncated[0]:
                floats = (np.asarray(x, np.float32) for x in (probabilities, values, rewards))
                probability, value, reward = floats
                ends = bool(step.terminated[0]), bool(step.truncated[0])
                return Episode(np.stack(seen), np.asarray(actions, np.int32), probability, value, reward, *ends)

    def _values(self, networks: Sequence[np.ndarray], seen: np.ndarray) -> np.ndarray:
        """Return the Q-values on which the agent acts, [A]; with NumPy for MLPs, which a compiled call would slow."""
        if not self._is_mlp:
            return np.asarray(self._q(jax.tree.unflatten(self._structure, networks), seen[None])[0])
        x = seen.reshape(1, 1, -1)
        x = x / np.float32(255) if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
        return apply_layers(x, list(zip(networks[::2], networks[1::2], strict=True))).min(axis=0)[0]


class EpisodePool:
    """Actors that play requested episodes; a context manager.

    An actor that dies is replaced, and its episodes are played again by others.

    Args:
        count: number of actors; those that find no free CPU join once there is one.
    """

    def __init__(self, cluster: Cluster, count: int):
        self._cluster, self._ray = cluster, cluster.ray
        self._count = check_int("actors", count)
        self._make: Callable[[], Any] = lambda: None
        self._actors: dict[Any, set[Any]] = {}
        """Actor -> references of what it does."""
        self._ready: set[Any] = set()
        self._doing: dict[Any, tuple[Any, Key | None]] = {}
        """Reference -> (its actor, key of its request; None: it starts)."""
        self._waiting: deque[tuple[Key, tuple[Any, ...]]] = deque()
        self._requests: dict[Key, tuple[Any, ...]] = {}
        self._found: dict[Key, Episode] = {}
        self._deaths, self._began = 0, 0.0

    def open(self, *arguments: Any) -> None:
        """Start the actors; the arguments are those of `Player`. What was requested before is forgotten."""
        self.close()
        remote = self._ray.remote(num_cpus=1, num_gpus=0, max_restarts=0)(Player)
        self._make, self._began = (lambda: remote.remote(*arguments)), time.monotonic()
        for _ in range(self._count):
            self._start_actor()

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors:
            self._ray.kill(actor)
        for state in (self._actors, self._ready, self._doing, self._waiting, self._requests, self._found):
            state.clear()

    def __enter__(self) -> EpisodePool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def share(self, value: Any) -> Any:
        """Give the cluster an argument of several requests once; return its reference."""
        return self._ray.put(value)

    def request(self, key: Key, *arguments: Any) -> None:
        """Have an episode played with these arguments of `Player.play`; `take` returns it."""
        self._requests[key] = arguments
        self._waiting.append((key, arguments))
        self._turn(0.0)

    def take(self, key: Key) -> Episode:
        """Wait for a requested episode, and return it; ClusterError if nobody is left to play it."""
        while key not in self._found:
            self._cluster.check()
            if not self._ready and time.monotonic() - self._began > START_WITHIN:
                raise ClusterError(f"actors: none could start within {START_WITHIN:g} s; has the cluster a free CPU?")
            self._turn(0.5)
        del self._requests[key]
        return self._found.pop(key)

    def _start_actor(self) -> None:
        actor = self._make()
        self._actors[actor] = set()
        self._do(actor, actor.ready.remote(), None)

    def _do(self, actor: Any, reference: Any, key: Key | None) -> None:
        self._doing[reference] = actor, key
        self._actors[actor].add(reference)

    def _turn(self, timeout: float) -> None:
        """Give waiting requests to actors that are ready, and collect what is done; wait for it at most `timeout`."""
        while self._waiting and self._ready:
            actor = min(self._ready, key=lambda one: len(self._actors[one]))
            if len(self._actors[actor]) >= IN_FLIGHT:
                break
            key, arguments = self._waiting.popleft()
            self._do(actor, actor.play.remote(*arguments), key)
        references = list(self._doing)
        done, _ = self._ray.wait(references, num_returns=1, timeout=timeout) if references else ([], [])
        for reference in done:
            if reference in self._doing:
                self._collect(reference)

    def _collect(self, reference: Any) -> None:
        actor, key = self._doing.pop(reference)
        self._actors[actor].discard(reference)
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from None
        except self._ray.exceptions.RayError as problem:
            self._bury(actor, key, problem)
            return
        self._ready.add(actor)
        if key is not None:
            self._found[key] = value
            self._deaths = 0

    def _bury(self, actor: Any, key: Key | None, problem: Exception) -> None:
        """Replace an actor that has died, and put its requests first in the queue."""
        self._cluster.check()
        self._deaths += 1
        if self._deaths >= MOST_DEATHS * self._count:
            reason = str(problem).strip().partition("\n")[0].rstrip(".")
            raise ClusterError(f"actors: {self._deaths} have died in a row ({reason}); the last checkpoint stays")
        keys = [key, *(self._doing.pop(reference)[1] for reference in self._actors.pop(actor))]
        self._ready.discard(actor)
        self._waiting.extendleft((lost, self._requests[lost]) for lost in keys if lost is not None)
        self._start_actor()
        if not self._ready:  # nobody plays until the new one has started
            self._began = time.monotonic()


class ActorEnvs(HostEnvs):
    """Columns of episodes from a pool, which look like running environments to the loop.

    Args:
        pool: an opened pool.
    """

    can_restore = False

    def __init__(self, pool: EpisodePool, env: HostEnvironment, count: int):
        super().__init__(count, env.codec, np.array(0))
        self._pool = pool
        self._requested = [0] * count
        self._request_rounds: dict[tuple[int, int], int] = {}
        self._columns: list[Episode] = []
        self._at = np.zeros(count, int)
        self._networks: Callable[[], Sequence[np.ndarray]] = lambda: ()
        self._round, self._epsilon = 0, 1.0
        self.oldest = 0
        """Largest number of rounds between the request of an episode and its last step so far."""

    @property
    def state(self) -> dict[str, Any]:
        return {"episodes": list(self._episodes), "actions": [[] for _ in range(self.num_envs)]}

    def new_round(self, round_: int, epsilon: float, networks: Callable[[], Sequence[np.ndarray]]) -> None:
        """Say which networks and ε act from now on, and request what is missing."""
        self._round, self._epsilon, self._networks = round_, epsilon, networks
        if self._columns:
            self._request_missing()

    def chosen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the actions of the next step, their probabilities and Q(s, a), each [N]."""
        now = [(one.actions[t], one.probabilities[t], one.q[t]) for one, t in zip(self._columns, self._at, strict=True)]
        actions, probabilities, q = zip(*now, strict=True)
        return np.array(actions), np.array(probabilities), np.array(q)

    def _request_missing(self) -> None:
        shared = None
        for i in range(self.num_envs):
            while self._requested[i] < self._episodes[i] + AHEAD:
                shared = self._pool.share(self._networks()) if shared is None else shared
                self._requested[i] += 1
                number = self._requested[i]
                seed = int(np.random.SeedSequence([*self._seeds[i], number]).generate_state(1)[0])
                self._request_rounds[i, number] = self._round
                self._pool.request((i, number), shared, self._epsilon, seed)

    def _reset(self, seeds: dict[int, int]) -> np.ndarray:
        if not self._columns:
            self._requested = [number - 1 for number in self._episodes]
            self._request_missing()
            self._columns = [NOTHING] * self.num_envs
        for i in seeds:
            self._columns[i] = self._pool.take((i, self._episodes[i]))
            self._at[i] = 0
        return self._seen()

    def _step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, np.ndarray]:
        self._at += 1
        pairs = list(zip(self._columns, self._at, strict=True))
        reward = np.array([one.rewards[t - 1] for one, t in pairs], np.float32)
        ends = np.array([(t == len(one.rewards)) * np.array([one.terminated, one.truncated]) for one, t in pairs], bool)
        for i in map(int, np.flatnonzero(ends.any(axis=1))):
            requested = self._request_rounds.pop((i, self._episodes[i]))
            self.oldest = max(self.oldest, self._round - requested)
        return self._seen(), reward, ends[:, 0], ends[:, 1]

    def _seen(self) -> np.ndarray:
        return np.stack([one.observations[t] for one, t in zip(self._columns, self._at, strict=True)])

    def close(self) -> None:
        self._pool.close()


@dataclass(frozen=True, eq=False)
class ActorLoop(HostLoop):
    """Training loop whose steps come from episodes that actors play; what is learned from them is `HostLoop`'s."""

    @cached_property
    def envs(self) -> ActorEnvs:
        pool = self.env.pool
        if pool is None:
            raise ValueError("actors: this training takes its episodes from actors; give their number")
        learner = self.learner
        pool.open(self.env.make, learner.config, learner.observation, learner.num_actions)
        return ActorEnvs(pool, self.env, learner.config.num_envs)

    @property
    def acts_on_host(self) -> bool:
        return True

    def begin_at(self, round_: int, lanes: LaneState, hyperparams: LaneHyperparams) -> None:
        networks = [np.asarray(x[0]) for x in jax.tree.leaves(self.policy(lanes))]
        epsilon = float(self._epsilons(jnp.int32(round_), hyperparams))
        self.envs.new_round(round_, epsilon, lambda: networks)

    @cached_property
    def _epsilons(self) -> Callable[..., Any]:
        """The ε of a round; 1 while actions are random."""
        warmup = self.learner.config.warmup // self.learner.config.num_envs

        def one(round_: jax.Array, hyperparams: LaneHyperparams) -> jax.Array:
            own = LaneHyperparams(*(x[0] for x in hyperparams))
            return jnp.where(round_ < warmup, 1.0, self.epsilon(round_, own))

        return jax.jit(one)

    def _draws(self, round_: int, key_data: jax.Array, packed_hyperparams: jax.Array) -> Iterator[float]:
        """Yield the ε of each round from `round_` on."""
        for now in count_from(round_):
            yield float(self._epsilons(np.int32(now), LaneHyperparams(*packed_hyperparams.T)))

    def _host_action(
        self, round_: int, draws: float, policies: Sequence[list], seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.envs.new_round(round_, draws, lambda: [x[0] for x in self.packings[0].host_leaves(policies[0])])
        action, probability, q = self.envs.chosen()
        return action[None], probability[None], q[None]

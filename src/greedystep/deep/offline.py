"""Learn from logged trajectories alone: updates and target network updates as in training, without an environment."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.checks import FLOAT32_MAX, INT32_MAX
from greedystep.datasets import Dataset
from greedystep.deep import cloning, target_pool
from greedystep.deep.cloning import UpdateRange
from greedystep.deep.config import DQNConfig
from greedystep.deep.device_memory import largest_intermediate, tree_bytes
from greedystep.deep.heads import HEADS, head_q
from greedystep.deep.learner import Learner, LearnerState
from greedystep.deep.networks import StandardisedMLP, as_float
from greedystep.deep.targets import LaneHyperparams, discounts_and_cuts, within
from greedystep.deep.train_loop import map_lanes
from greedystep.envs.observation_spec import ObservationSpec, first_unfit
from greedystep.replay import ReplayBuffer, ReplayState, RowIndex
from greedystep.trajectory import Trajectory

HELD_OUT_EVERY = 10
"""With returns="auto" every HELD_OUT_EVERY-th episode of a log is held out of training, to choose the best head."""
SCORED_STEPS, SCORED_AT_ONCE = 4096, 512
"""Held-out steps that score the heads, and how many of them are valued at a time."""
LEAST_VARIANCE = 1e-8
LEAST_DEVIATION = 1e-6
"""A feature whose standard deviation in a log is smaller than this counts as constant, and is not divided by it."""
MOST_BLUR, BLUR_STEPS = 0.01, 10_000
"""Distance of float32 numbers from each other, as a share of a feature's standard deviation, above which a warning is
given, and the steps of a log that are looked at for that."""
MOMENT_ROWS = 4096
"""Rows of the replay buffer whose features are added up at a time."""
POOL_PERIODS, POOL_BYTES = 8, 2**26
"""The target pool has the samples of POOL_PERIODS periods, of fewer if its observations took more than POOL_BYTES."""
MANY_SAMPLES = 2**14
"""Samples of one period that are enough for the target pool."""


class FitResult(NamedTuple):
    """Networks, random key and metrics after some updates of `fit`."""

    state: LearnerState
    key: jax.Array
    """Random key for the updates that follow."""
    loss: jax.Array
    """Mean loss over all updates; not finite if any loss was not."""
    mean_q: jax.Array
    """Mean of Q(s, a) over the last update's batch."""


def fit(
    learner: Learner,
    buffer: ReplayBuffer,
    replay: ReplayState,
    update_range: UpdateRange,
    state: LearnerState,
    hyperparams: LaneHyperparams,
    key: jax.Array,
    support: jax.Array | None,
) -> FitResult:
    """Make a range of the updates that learn Q from the replay buffer; works under jit.

    With bcq they come after those of `cloning`: the behaviour network stays as it is, and its support, bool
    [N, R, A], is given.

    The learning rate falls linearly, to 0 after the last of all updates: update i has (1 - i / updates) times the
    `learning_rate`. So the last networks, which act, are not those of a random moment in the noise of minibatches.

    Target networks and pool are refreshed as often as in training, and at `update_range.begin`, which must be the start
    of a period (the updates between two target network updates).

    Where a period is short, the pool is larger than in training. There the episodes of one period are enough, since the
    buffer changes all the time and new ones come in. A log stays as it is, and where its episodes are long, those of a
    short period are two or three: the networks would learn these by heart and forget the others.
    """
    behaviour = None
    if learner.config.conservatism == "bcq":
        state, behaviour = cloning.split_behaviour(state, learner.config.num_q_networks)
        learner = learner.without_behaviour
    config, period = learner.config, updates_per_period(learner.config)
    periods = pool_periods(config, buffer)
    pool = target_pool.init(config, buffer, periods) if config.is_pooled else None

    def one_period(carry: tuple) -> tuple:
        done, key, state, pool, total = carry
        key, pool_key, update_key = jax.random.split(key, 3)
        target_params, pool = learner.refresh_targets(buffer, hyperparams, pool_key, replay, state, periods, support)

        def update(i: jax.Array, carry: tuple) -> tuple:
            state, total = carry
            draws = learner.draw_update(jax.random.fold_in(update_key, i), hyperparams)
            batch = learner.sample_batch(buffer, hyperparams, draws.bits, replay, pool, state, support)
            learning_rate = update_range.learning_rate(hyperparams.learning_rate, i)
            state, info = learner.update(state, batch, draws.network, learning_rate)
            loss, _ = total
            return state, (loss + info.loss, info.mean_q)

        until = done + jnp.minimum(period, update_range.end - done)
        state, total = lax.fori_loop(done, until, update, (state._replace(target_params=target_params), total))
        return until, key, state, pool, total

    first = update_range.begin, key, state, pool, (jnp.float32(0), jnp.float32(0))
    _, key, state, _, (loss, mean_q) = lax.while_loop(lambda carry: carry[0] < update_range.end, one_period, first)
    if behaviour is not None:
        state = cloning.join_behaviour(state, behaviour)
    return FitResult(state, key, loss / jnp.maximum(update_range.end - update_range.begin, 1), mean_q)


def pool_periods(config: DQNConfig, buffer: ReplayBuffer) -> int:
    """Return the number of periods whose samples the target pool has: at least one, at most POOL_PERIODS."""
    if config.samples_per_period >= MANY_SAMPLES:
        return 1
    return min(POOL_PERIODS, max(1, POOL_BYTES // (config.samples_per_period * buffer.observation_bytes)))


def all_updates(config: DQNConfig, updates: int) -> int:
    """Return the updates of a fit in all: those that learn Q, and with bcq those that clone the behaviour before."""
    return cloning.cloning_updates(config, updates) + updates


class FitPiece(NamedTuple):
    """What a piece of a fit leaves behind, for L lanes."""

    done: int
    """Updates made so far, those that clone the behaviour included."""
    states: LearnerState
    loss: jax.Array
    """[L]: mean loss over the updates of the piece; that of cloning is a cross-entropy."""
    mean_q: jax.Array | None
    """[L]: see `FitResult`; None where the piece clones the behaviour."""


class LogFit:
    """The compiled programs of a fit: with bcq first the behaviour is cloned, then Q is learned within its support."""

    def __init__(self, learner: Learner, buffer: ReplayBuffer):
        self.config = learner.config
        self._clone = in_lanes(cloning.clone, learner, buffer)
        self._find_support = jax.jit(partial(_find_supports, learner, buffer))
        self._fit = in_lanes(fit, learner, buffer)

    def bytes_needed(
        self, replay: ReplayState, states: LearnerState, hyperparams: LaneHyperparams, keys: jax.Array
    ) -> int:
        """Return the memory that a fit needs besides these arguments; nothing is computed.

        Beside the states with which it begins there are those of the last piece, and those that the next one makes.
        """
        none, support, programs = UpdateRange.of(0, 0, 1), None, []
        if self._clones:
            programs.append(self._clone.trace(replay, none, states, hyperparams, keys))
            programs.append(self._find_support.trace(replay, states.params))
            support = programs[-1].out_info
        programs.append(self._fit.trace(replay, none, states, hyperparams, keys, support))
        return 2 * tree_bytes(states) + tree_bytes(support) + max(map(largest_intermediate, programs))

    def compile(self, replay: ReplayState, states: LearnerState, hyperparams: LaneHyperparams, keys: jax.Array) -> None:
        """Run all programs without an update, so that `pieces` compiles nothing."""
        none, support = UpdateRange.of(0, 0, 1), None
        if self._clones:
            jax.block_until_ready(self._clone(replay, none, states, hyperparams, keys))
            support = self._find_support(replay, states.params)
        jax.block_until_ready(self._fit(replay, none, states, hyperparams, keys, support))

    def pieces(
        self,
        replay: ReplayState,
        states: LearnerState,
        hyperparams: LaneHyperparams,
        keys: jax.Array,
        updates: int,
        begin: int = 0,
        count: int = 20,
    ) -> Iterator[FitPiece]:
        """Make `updates` updates that learn Q, with bcq after those that clone the behaviour, in several pieces.

        A piece is a whole number of periods. A fit that goes on after a piece, from the states that it had then, ends
        exactly as if it had not stopped.

        Args:
            states, hyperparams, keys: [L, ...], those of the lanes; the keys are the first ones, whatever `begin`.
            begin: `FitPiece.done` of the piece after which the fit goes on.
            count: approximate number of pieces in which Q is learned.
        """
        period, support = updates_per_period(self.config), None
        size = period * max(1, updates // (count * period))
        cloned = cloning.cloning_updates(self.config, updates)
        for first in range(begin, cloned, size):
            end = min(first + size, cloned)
            states, loss = self._clone(replay, UpdateRange.of(first, end, cloned), states, hyperparams, keys)
            yield FitPiece(end, states, loss, None)
        if self._clones:
            support = self._find_support(replay, states.params)
        learned = max(begin - cloned, 0)
        for _ in range(0, learned, period):
            keys = jax.vmap(lambda key: jax.random.split(key, 3)[0])(keys)  # as `fit` does in each period
        for first in range(learned, updates, size):
            end = min(first + size, updates)
            update_range = UpdateRange.of(first, end, updates)
            states, keys, loss, mean_q = self._fit(replay, update_range, states, hyperparams, keys, support)
            yield FitPiece(cloned + end, states, loss, mean_q)

    @property
    def _clones(self) -> bool:
        return self.config.conservatism == "bcq"


def in_lanes(function: Callable[..., Any], learner: Learner, buffer: ReplayBuffer) -> Callable[..., Any]:
    """Compile `cloning.clone` or `fit` for several lanes, [L, ...] each, which share the replay buffer."""

    def each(replay: ReplayState, update_range: UpdateRange, *lanes: Any) -> Any:
        return map_lanes(partial(function, learner, buffer, replay, update_range), *lanes)

    return jax.jit(each)


def _find_supports(learner: Learner, buffer: ReplayBuffer, replay: ReplayState, params: Any) -> jax.Array:
    """Do what `cloning.find_support` does for several lanes: bool [L, N, R, A]."""
    return map_lanes(partial(cloning.find_support, learner, buffer, replay), params)


def standardise(state: LearnerState, buffer: ReplayBuffer, replay: ReplayState) -> LearnerState:
    """Return the state with the means and standard deviations of the features in the replay buffer, all lanes alike.

    It is returned as it is with networks that do not standardise, and where they know those of another log already:
    what they have learned then refers to these.
    """
    networks = state.params
    if not isinstance(networks, StandardisedMLP) or (networks.mean != 0).any() or (networks.deviation != 1).any():
        return state
    mean, deviation = (jnp.asarray(x, jnp.float32) for x in feature_moments(buffer, replay))

    def knowing(networks: StandardisedMLP) -> StandardisedMLP:
        new = (jnp.broadcast_to(mean, networks.mean.shape), jnp.broadcast_to(deviation, networks.deviation.shape))
        return eqx.tree_at(lambda x: (x.mean, x.deviation), networks, new)

    return state._replace(params=knowing(state.params), target_params=knowing(state.target_params))


def feature_moments(buffer: ReplayBuffer, replay: ReplayState) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of each feature over all observations of the replay buffer.

    The deviation of a feature that is constant is 1. Sums are float64, of a few thousand rows at a time, which copies
    no more than these.
    """
    stored, written = np.asarray(replay.observations), np.minimum(replay.newest + 1, buffer.rows_per_column)

    def blocks() -> Iterator[np.ndarray]:
        for rows, count in zip(stored, written, strict=True):
            for start in range(0, int(count), MOMENT_ROWS):
                yield np.asarray(as_float(buffer.unpack(rows[start : min(start + MOMENT_ROWS, count)])), np.float64)

    total = written.sum()
    mean = sum(block.sum(axis=0) for block in blocks()) / total
    deviation = np.sqrt(sum(((block - mean) ** 2).sum(axis=0) for block in blocks()) / total)
    return mean, np.where(deviation < LEAST_DEVIATION, 1, deviation)


def head_scorer(learner: Learner, dataset: Any, first_action: int = 0) -> Callable[[Any], jax.Array]:
    """Return a function of the networks' arrays that gives `r_squared` on this dataset, [H]; see `checked`."""
    buffer, replay = fill_replay(learner, dataset, first_action)
    score = jax.jit(partial(r_squared, learner, buffer))
    return lambda params: score(replay, params, jax.random.key(0))


def r_squared(learner: Learner, buffer: ReplayBuffer, replay: ReplayState, params: Any, key: jax.Array) -> jax.Array:
    """Return R² = 1 - E[(y - Q_h(s, a))²] / Var[y] of each head h with its targets y = r + γ max_b Q_h(s', b), [H].

    The means are over SCORED_STEPS steps of the replay buffer. A head that diverges leaves more unexplained; one that
    gives all states the same value explains nothing, however small its errors. With bcq the maximum is over the actions
    in the data.
    """

    def values_and_targets(index: RowIndex) -> tuple[jax.Array, jax.Array]:
        rows = buffer.read(replay, index)
        q, _ = learner.q_and_support(params, buffer.observations(replay, index))
        next_q, support = learner.q_and_support(params, buffer.observations(replay, buffer.ahead(index, 1)))
        taken = jnp.take_along_axis(head_q(q), rows.action[None, :, None], axis=-1)[..., 0]
        best = within(support, head_q(next_q)).max(axis=-1)
        discount, _ = discounts_and_cuts(learner.config, rows, rows.is_step)  # where there is a cut does not matter
        return taken, rows.reward + discount * best

    index = buffer.sample(key, replay, SCORED_STEPS)
    blocks = jax.tree.map(lambda x: x.reshape(-1, SCORED_AT_ONCE), index)  # large images need much memory
    q, targets = (x.swapaxes(0, 1).reshape(HEADS, -1) for x in lax.map(values_and_targets, blocks))
    return 1 - ((targets - q) ** 2).mean(axis=-1) / jnp.maximum(targets.var(axis=-1), LEAST_VARIANCE)


def updates_per_period(config: DQNConfig) -> int:
    """Return the number of updates between two target network updates, at most what int32 holds."""
    return min(config.samples_per_period // config.batch_size, INT32_MAX)


def checked(learner: Learner, dataset: Dataset, first_action: int = 0) -> Iterator[Trajectory]:
    """Yield the dataset's trajectories; ValueError names the first one that does not fit the learner's spaces.

    Args:
        first_action: the number of the environment's first action, which is 0 in trajectories.
    """
    spec, actions = learner.observation, learner.num_actions
    counted = f"; actions are counted from 0, this space starts at {first_action}" if first_action else ""
    for number, one in enumerate(dataset):
        where = f"{dataset.name}, episode {number}"
        if one.observations.shape[1:] != spec.shape:
            got = one.observations.shape[1:]
            raise ValueError(f"{where}: expected observations of shape {spec.shape}, got {got}")
        if (unfit := first_unfit(spec, one.observations)) is not None:
            raise ValueError(f"{where}: expected observations to be {spec.expected}, got {unfit[1]} in step {unfit[0]}")
        large = np.abs(one.rewards) > FLOAT32_MAX
        if large.any():
            at = int(large.argmax())
            raise ValueError(
                f"{where}: expected rewards to be finite numbers of float32, got {one.rewards[at]} in step {at}"
            )
        wrong = one.actions >= actions
        if wrong.any():
            at = int(wrong.argmax())
            got = f"{one.actions[at]} in step {at}{counted}"
            raise ValueError(f"{where}: expected actions in 0..{actions - 1}, got {got}")
        if learner.config.returns == "retrace" and one.behaviour_prob is None:
            raise ValueError(f"returns: retrace needs behaviour_prob, which {where} does not have")
        yield one


def warn_of_missing_action(dataset: Dataset, first_action: int) -> None:
    """Warn if the environment's actions begin above 0 and those of a log seem to be numbered as it numbers them.

    A log whose spaces are known, such as one of Minari, is counted from 0 when it is read.
    """
    if first_action > 0 and dataset.spaces is None and not any((one.actions == 0).any() for one in dataset):
        warnings.warn(
            f"{dataset.name}: no step has action 0; actions are counted from 0 in trajectories, also where the space "
            f"of the environment starts at {first_action}: subtract that if these are the environment's numbers",
            UserWarning,
            stacklevel=4,
        )


def fill_replay(learner: Learner, dataset: Any, first_action: int = 0) -> tuple[ReplayBuffer, ReplayState]:
    """Return a new replay buffer and its state, which holds all steps of a dataset (see `datasets` and `checked`)."""
    data, spec = Dataset.of(dataset), learner.observation
    episodes = checked(learner, data, first_action)
    return ReplayBuffer.from_episodes(episodes, data.steps, data.count, spec.shape, spec.dtype)


def warn_of_rounding(dataset: Dataset, spec: ObservationSpec) -> None:
    """Warn if a feature varies so little beside its size that float32, as which it is stored, blurs it.

    So do times in seconds since 1970: their float32 numbers are 128 s apart. Looks at the first steps alone.
    """
    seen = np.zeros((0, *spec.shape))
    for one in dataset:
        if spec.dtype != np.float32 or np.can_cast(one.observations.dtype, np.float32):
            return
        seen = np.concatenate([seen, one.observations[: BLUR_STEPS - len(seen)]])
        if len(seen) == BLUR_STEPS:
            break
    largest, deviation = np.abs(seen).max(axis=0), seen.std(axis=0)
    blurred = (deviation > 0) & (np.finfo(np.float32).eps * largest > MOST_BLUR * deviation)
    if blurred.any():
        at = tuple(map(int, np.argwhere(blurred)[0]))
        name = f"feature {', '.join(map(str, at))}" if at else "the only feature"
        warnings.warn(
            f"{dataset.name}: {name} of the observations is as large as {largest[at]:.3g} and has a standard deviation "
            f"of {deviation[at]:.2g}, which numbers of float32 blur; subtract its mean",
            UserWarning,
            stacklevel=4,
        )

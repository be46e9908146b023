"""The target pool: full-length returns for the price of one forward pass per trained sample.

A return that looks to the end of its episode needs the value of every state on the way: hundreds of forward passes if
each sample is valued on its own. But between two target network updates values do not change. So at each update a pool
is made: whole episodes, sampled uniformly, with as many steps as will be trained on until the next update (at most the
whole replay buffer). All its states are valued in one forward pass and all its returns computed in one backward scan;
minibatches are then sampled from it independently. Of an episode that is longer than the pool, a part is taken, whose
returns bootstrap where it ends.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep.config import DQNConfig
from greedystep.deep.targets import (
    BootstrapQ,
    LaneHyperparams,
    TargetValues,
    at_rows,
    sequence_targets,
    target_values,
    with_support,
)
from greedystep.replay import ReplayBuffer, ReplayState, RowIndex, StepRows, integers_below


class TargetPool(NamedTuple):
    """Whole episodes with the targets of their steps: P rows, copied, since the replay buffer goes on changing."""

    observations: jax.Array
    """[P, W], packed as in the replay buffer."""
    action: jax.Array
    """int32 [P]."""
    targets: jax.Array
    """float32 [G, P]: one target per group of networks (see `DQNConfig.groups`)."""
    steps: jax.Array
    """int32 [P]: the chosen n; 0 for returns that mix all lengths."""
    step_rows: jax.Array
    """int32 [P]: indices of the pool's rows that hold a step, then padding."""
    count: jax.Array
    """int32: the number of rows that hold a step."""


class Batch(NamedTuple):
    """A minibatch of B samples with their targets."""

    observations: jax.Array
    """[B, *shape]."""
    action: jax.Array
    """int32 [B]."""
    targets: jax.Array
    """float32 [G, B]: one target per group of networks."""
    steps: jax.Array
    """int32 [B]: the chosen n; 0 for returns that mix all lengths."""


def pool_size(config: DQNConfig, buffer: ReplayBuffer, periods: int = 1) -> int:
    """Return the pool's rows: the samples of a learning rate in `periods` periods, at most the rows of the buffer.

    A period is that between two target network updates.
    """
    return min(periods * config.samples_per_period // config.rates, buffer.rows)


def sample_rows(buffer: ReplayBuffer, key: jax.Array, replay: ReplayState, size: int) -> tuple[RowIndex, StepRows, int]:
    """Return `size` rows of whole episodes, column by column, what they hold, and the number of columns; at most all.

    The last row of a column is there for its value alone. It is the end of an episode, or of the part of one that has
    more than `size` rows, and is then marked as if it held no step: what follows is not among the rows.
    """
    if size == buffer.rows:
        index = jax.tree.map(jnp.ravel, buffer.chronological(replay)[0])
        return index, buffer.read(replay, index), buffer.columns
    index = buffer.sample_episodes(key, replay, size)
    rows = buffer.read(replay, index)
    return index, rows._replace(is_step=rows.is_step.at[-1].set(False)), 1


def make(
    config: DQNConfig,
    buffer: ReplayBuffer,
    hyperparams: LaneHyperparams,
    key: jax.Array,
    replay: ReplayState,
    bootstrap_q: BootstrapQ,
    periods: int = 1,
    support: jax.Array | None = None,
) -> TargetPool:
    """Sample whole episodes from the replay, value their states, and compute the targets of all their steps.

    Args:
        periods: see `pool_size`.
        support: bool [N, R, A], the actions that count in each row of the buffer; None: what `bootstrap_q` says.
    """
    size = pool_size(config, buffer, periods)
    index, rows, columns = sample_rows(buffer, key, replay, size)
    packed = buffer.packed_observations(replay, index)

    def value(block: tuple[jax.Array, jax.Array, jax.Array | None]) -> TargetValues:
        observations, action, allowed = block
        return target_values(config, with_support(bootstrap_q(buffer.unpack(observations)), allowed), action)

    values = in_blocks(value, (packed, rows.action, at_rows(support, index)), size)
    values = jax.tree.map(lambda x: x.reshape(len(x), columns, -1).swapaxes(1, 2), values)
    in_columns = jax.tree.map(lambda x: x.reshape(columns, -1).T, rows)
    targets, steps = sequence_targets(config, hyperparams, in_columns, values)
    return TargetPool(
        observations=packed,
        action=rows.action,
        targets=targets.swapaxes(1, 2).reshape(len(targets), -1),
        steps=steps.T.reshape(-1),
        step_rows=jnp.flatnonzero(rows.is_step, size=size, fill_value=0).astype(jnp.int32),
        count=rows.is_step.sum(dtype=jnp.int32),
    )


def init(config: DQNConfig, buffer: ReplayBuffer, periods: int = 1) -> TargetPool:
    """Return an empty pool with the shapes of a full one."""
    size = pool_size(config, buffer, periods)
    no_rows = RowIndex(*[jnp.zeros(size, jnp.int32)] * 2)
    packed = jax.eval_shape(lambda: buffer.packed_observations(buffer.init(), no_rows))
    zeros = jnp.zeros(size, jnp.int32)
    return TargetPool(
        observations=jnp.zeros(packed.shape, packed.dtype),
        action=zeros,
        targets=jnp.zeros((config.groups, size), jnp.float32),
        steps=jnp.copy(zeros),
        step_rows=jnp.copy(zeros),
        count=jnp.int32(0),
    )


def batch_at(buffer: ReplayBuffer, pool: TargetPool, bits: jax.Array) -> Batch:
    """Return the minibatch of the pool's steps that these `random_bits` choose, uniformly with replacement."""
    at = pool.step_rows[integers_below(jnp.maximum(pool.count, 1), bits)]
    return Batch(buffer.unpack(pool.observations[at]), pool.action[at], pool.targets[:, at], pool.steps[at])


def in_blocks(function, arrays, size: int):
    """Apply `function` to arrays [size, ...] block by block; its results [G, block] are joined to [G, size]."""
    block, side_by_side = _block_sizes()
    if size <= block:
        return function(arrays)
    turns = -(-size // (side_by_side * block))
    padding = turns * side_by_side * block - size

    def in_turns(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, [(0, padding), *[(0, 0)] * (x.ndim - 1)])
        return padded.reshape(turns, side_by_side, block, *x.shape[1:])

    def one_turn(blocks):
        return [function(jax.tree.map(itemgetter(i), blocks)) for i in range(side_by_side)]

    results = lax.map(one_turn, jax.tree.map(in_turns, arrays))  # per block of a turn: [turns, G, B]
    return jax.tree.map(lambda *x: jnp.stack(x, axis=2).swapaxes(0, 1).reshape(x[0].shape[1], -1)[:, :size], *results)


def _block_sizes() -> tuple[int, int]:
    """Return the number of states valued at once, and of such blocks side by side.

    On a CPU the intermediate arrays of a small block stay in its cache, and two blocks keep two cores busy (a quarter
    faster on two cores than one block of 1024); a GPU prefers large products.
    """
    return (256, 2) if jax.default_backend() == "cpu" else (1024, 1)

"""Full-length returns at the price of short ones.

A return that looks to the end of its episode needs the value of every state on the way. Valued afresh for each sample
that would be hundreds of forward passes; but between two copies of the target networks values do not change. So at each
copy a pool is made: whole episodes, drawn uniformly, with as many steps as will be trained on until the next copy (at
most the whole replay). All its states are valued in one pass and all its returns computed in one more; minibatches are
then drawn from it independently. Valuing costs one forward pass per trained sample, the same as for one-step returns.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep.config import DQNConfig
from greedystep.deep.targets import AskNetworks, Numbers, along, judge
from greedystep.replay import Places, Replay, Store


class Pool(NamedTuple):
    """P rows of whole episodes with their targets. Copies, since the replay goes on changing."""

    observations: jax.Array
    """[P, W], as the replay stores them."""
    action: jax.Array
    """int32 [P]."""
    targets: jax.Array
    """float32 [G, P]."""
    steps: jax.Array
    """int32 [P]: the chosen n; 0 for returns that mix all of them."""
    which: jax.Array
    """int32 [P]: the rows that hold a step, then padding."""
    count: jax.Array
    """int32: how many they are."""


class Batch(NamedTuple):
    """Samples to learn from."""

    observations: jax.Array
    """[B, *shape]."""
    action: jax.Array
    """int32 [B]."""
    targets: jax.Array
    """float32 [G, B]."""
    steps: jax.Array
    """int32 [B]."""


def rows_of(config: DQNConfig, store: Store) -> int:
    return min(config.samples_a_period, store.rows)


def make(config: DQNConfig, store: Store, numbers: Numbers, key: jax.Array, replay: Replay, ask: AskNetworks) -> Pool:
    """Draw, value, and go back through the episodes once."""
    size = rows_of(config, store)
    if size == store.rows:
        places = jax.tree.map(jnp.ravel, store.in_time(replay)[0])  # column after column, each in the order of time
        columns = store.columns
    else:
        places, columns = store.sample_episodes(key, replay, size), 1
    rows = store.read(replay, places)
    packed = store.packed(replay, places)

    def value(block: tuple[jax.Array, jax.Array]):
        observations, action = block
        return judge(config, *ask(store.unpack(observations)), action)

    judged = _in_blocks(value, (packed, rows.action), size)
    in_columns = jax.tree.map(lambda x: x.reshape(columns, -1).T, rows)
    judged = jax.tree.map(lambda x: x.reshape(len(x), columns, -1).swapaxes(1, 2), judged)
    targets, steps = along(config, numbers, in_columns, judged)
    return Pool(
        observations=packed,
        action=rows.action,
        targets=targets.swapaxes(1, 2).reshape(len(targets), -1),
        steps=steps.T.reshape(-1),
        which=jnp.flatnonzero(rows.taken, size=size, fill_value=0).astype(jnp.int32),
        count=rows.taken.sum(dtype=jnp.int32),
    )


def empty(config: DQNConfig, store: Store) -> Pool:
    """A pool of the right shapes with nothing in it."""
    size = rows_of(config, store)
    packed = jax.eval_shape(lambda: store.packed(store.init(), Places(*[jnp.zeros(size, jnp.int32)] * 2)))
    zeros = jnp.zeros(size, jnp.int32)
    return Pool(
        observations=jnp.zeros(packed.shape, packed.dtype),
        action=zeros,
        targets=jnp.zeros((config.groups, size), jnp.float32),
        steps=jnp.copy(zeros),
        which=jnp.copy(zeros),
        count=jnp.int32(0),
    )


def draw(store: Store, pool: Pool, key: jax.Array, count: int) -> Batch:
    """Steps of the pool, uniformly at random with replacement."""
    which = pool.which[jax.random.randint(key, (count,), 0, jnp.maximum(pool.count, 1))]
    return Batch(store.unpack(pool.observations[which]), pool.action[which], pool.targets[:, which], pool.steps[which])


def _in_blocks(function, arrays, size: int):
    """function on [size, ...] arrays, some blocks of B at a time; its answers are [G, B] and become [G, size]."""
    block, side_by_side = _blocks()
    if size <= block:
        return function(arrays)
    turns = -(-size // (side_by_side * block))
    padding = turns * side_by_side * block - size

    def in_turns(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, [(0, padding), *[(0, 0)] * (x.ndim - 1)])
        return padded.reshape(turns, side_by_side, block, *x.shape[1:])

    def a_turn(blocks):
        return [function(jax.tree.map(itemgetter(i), blocks)) for i in range(side_by_side)]

    answers = lax.map(a_turn, jax.tree.map(in_turns, arrays))  # of each block of a turn: [turns, G, B]
    return jax.tree.map(lambda *x: jnp.stack(x, axis=2).swapaxes(0, 1).reshape(x[0].shape[1], -1)[:, :size], *answers)


def _blocks() -> tuple[int, int]:
    """States valued at once, and how many such blocks side by side.

    What a CPU makes of a small block stays in its cache, and two of them keep two cores busy (a quarter faster on two
    cores than one block of 1024); a GPU likes large products.
    """
    return (256, 2) if jax.default_backend() == "cpu" else (1024, 1)

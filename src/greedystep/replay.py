"""Replay of whole trajectories on the device: raw steps in a ring, one column for each environment.

A column is a line of rows, one row for each observation; what was done in it (action, reward, ends, the probability of
the action) stands beside it. An episode of T steps has T + 1 rows. The last one has no action, is marked so, and is
never sampled: it is there for its value. So the state that step t led to always is row t + 1, whether the episode went
on, terminated, was truncated, or is still being written (its newest row has no action yet).

    row     0   1   2   3   4   5   6
    state   s0  s1  s2  s0  s1  s2  s3        two episodes: one of two steps, one of three so far
    action  a0  a1  -   a0  a1  a2  -

Nothing that belongs to an algorithm is stored: no discount, no return, no value. Once a column is full, its oldest row
goes for each new one. Columns are independent, since episodes end at different times. All functions are pure and keep
their shapes; `Store` holds what is fixed, `Replay` the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.checks import INT32_MAX, check_int

if TYPE_CHECKING:
    from greedystep.trajectory import Trajectory

TAKEN, TERMINATED, TRUNCATED = 1, 2, 4
"""Marks of a row: an action was taken there, and how its step ended the episode."""
ACTION_BITS = 24
WORD = 32


class Replay(NamedTuple):
    """N columns of R rows each. Rows and steps are numbered from the beginning of time; row i lies in place i mod R."""

    observations: jax.Array
    """[N, R, W]: uint32 words of 32 cells for boolean observations, otherwise their own dtype, flat."""
    steps: jax.Array
    """uint32 [N, R, 3]: marks and action (marks in the lowest 8 bits), bits of the reward, bits of the probability."""
    places: jax.Array
    """int32 [N, R]: step k was written in row places[k mod R]. With it, drawing a stored step at random is exact."""
    next_row: jax.Array
    """int32 [N]: where the next step will be written."""
    newest: jax.Array
    """int32 [N]: the newest row, -1 while there is none: next_row, or the one before it after an episode's end."""
    written: jax.Array
    """int32 [N]: how many steps have ever been written."""
    oldest: jax.Array
    """int32 [N]: the number of the oldest step that is still there."""


class Rows(NamedTuple):
    """What stands in some rows, each array of the same leading shape."""

    action: jax.Array
    """int32."""
    reward: jax.Array
    """float32."""
    taken: jax.Array
    """bool: there is a step here. Where there is none, the other entries mean nothing."""
    terminated: jax.Array
    truncated: jax.Array
    behaviour_prob: jax.Array
    """float32: the probability with which the action was chosen; NaN if unknown."""


class Places(NamedTuple):
    """Some rows of a replay, [...] int32 each."""

    column: jax.Array
    row: jax.Array
    """Already taken modulo R."""


@dataclass(frozen=True)
class Store:
    """The shape of a replay, and everything that can be done with it.

    Args:
        rows: how many rows, final ones included, all columns have together.
        columns: how many environments write side by side.
        shape, dtype: of one observation. Booleans are stored as bits.
    """

    rows: int
    columns: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def __post_init__(self) -> None:
        check_int("columns", self.columns, 1, INT32_MAX)
        check_int("rows", self.rows, 1, INT32_MAX)
        if self.rows < 3 * self.columns or self.rows % self.columns:
            raise ValueError(
                f"rows: expected a multiple of {self.columns} columns, at least 3 rows each, got {self.rows}"
            )

    @property
    def height(self) -> int:
        """R, the rows of one column."""
        return self.rows // self.columns

    @cached_property
    def cells(self) -> int:
        """Numbers in one observation."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def packs(self) -> bool:
        return self.dtype == np.dtype(bool)

    def init(self) -> Replay:
        """An empty replay."""
        n, r = self.columns, self.height
        width, dtype = (-(-self.cells // WORD), jnp.uint32) if self.packs else (self.cells, self.dtype)
        zeros = jnp.zeros(n, jnp.int32)
        return Replay(
            observations=jnp.zeros((n, r, width), dtype),
            steps=jnp.zeros((n, r, 3), jnp.uint32),
            places=jnp.zeros((n, r), jnp.int32),
            next_row=zeros,
            newest=zeros - 1,
            written=zeros,
            oldest=zeros,
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    def add(
        self,
        replay: Replay,
        observation: jax.Array,
        action: jax.Array,
        reward: jax.Array,
        terminated: jax.Array,
        truncated: jax.Array,
        behaviour_prob: jax.Array,
        next_observation: jax.Array,
    ) -> Replay:
        """One step of every column; all arrays are [N, ...].

        `next_observation` is what the step led to, never the beginning of another episode. It becomes the newest row,
        without an action; the next step of the same episode fills it in.
        """
        row, over = replay.next_row, terminated | truncated
        here, after = row % self.height, (row + 1) % self.height
        marks = TAKEN + TERMINATED * terminated.astype(jnp.uint32) + TRUNCATED * truncated.astype(jnp.uint32)
        marks = marks | action.astype(jnp.uint32) << (WORD - ACTION_BITS)
        step = jnp.stack([marks, _bits(reward), _bits(behaviour_prob)], axis=-1)
        # After a step of the same episode, the observation is there already; writing it again needs no branch.
        observations = _put(replay.observations, here, self.pack(observation))
        observations = _put(observations, after, self.pack(next_observation))
        steps = _put(_put(replay.steps, after, jnp.zeros_like(step)), here, step)
        places = _put(replay.places, replay.written % self.height, row)
        # One or two rows have been overwritten, so that one or two steps may be gone.
        newest, oldest = row + 1, replay.oldest
        for _ in range(2):
            oldest_row = _take(places, oldest % self.height)
            oldest = oldest + (oldest_row <= newest - self.height)
        return Replay(observations, steps, places, row + 1 + over, newest, replay.written + 1, oldest)

    def renumbered(self, replay: Replay) -> Replay:
        """The same replay with the smallest numbers for its rows and steps.

        They count on for ever, and int32 ends. Only what they are modulo R, and their differences, mean anything, once
        the ring is full; so multiples of R are taken off.
        """
        rows = jnp.maximum(replay.newest // self.height - 1, 0) * self.height
        steps = jnp.maximum(replay.oldest // self.height, 0) * self.height
        return replay._replace(
            places=replay.places - rows[:, None],
            next_row=replay.next_row - rows,
            newest=replay.newest - rows,
            written=replay.written - steps,
            oldest=replay.oldest - steps,
        )

    @classmethod
    def holding(
        cls, trajectories: Sequence[Trajectory], shape: tuple[int, ...], dtype: np.dtype
    ) -> tuple[Store, Replay]:
        """A full replay of one column that holds exactly these trajectories, and its store.

        A record that stops without an end is a truncated one: its last state has a value and nothing follows it.
        """
        lengths = np.array([len(t) for t in trajectories])
        total = int((lengths + 1).sum())
        store = cls(max(total, 3), 1, shape, dtype)
        final_rows = np.cumsum(lengths + 1) - 1
        is_step = np.ones(total, bool)
        is_step[final_rows] = False

        def line(values: list[np.ndarray], dtype: Any) -> np.ndarray:
            out = np.zeros(total, dtype)
            out[is_step] = np.concatenate(values)
            return out

        terminated = line([t.terminated for t in trajectories], np.uint32)
        truncated = line([t.truncated for t in trajectories], np.uint32)
        truncated[final_rows - 1] |= 1 - terminated[final_rows - 1]
        actions = line([t.actions for t in trajectories], np.uint32)
        unknown = [t.behaviour_prob if t.behaviour_prob is not None else np.full(len(t), np.nan) for t in trajectories]
        marks = is_step * TAKEN + TERMINATED * terminated + TRUNCATED * truncated + (actions << (WORD - ACTION_BITS))
        reward = line([t.rewards for t in trajectories], np.float32)
        words = [marks.astype(np.uint32), reward.view(np.uint32), line(unknown, np.float32).view(np.uint32)]
        seen = store.pack(jnp.asarray(np.concatenate([t.observations for t in trajectories]).astype(dtype)))
        empty, steps = store.init(), int(lengths.sum())
        replay = empty._replace(
            observations=empty.observations.at[0, :total].set(seen),
            steps=empty.steps.at[0, :total].set(np.stack(words, axis=-1)),
            places=empty.places.at[0, :steps].set(np.flatnonzero(is_step)),
            next_row=jnp.full(1, total, jnp.int32),
            newest=jnp.full(1, total - 1, jnp.int32),
            written=jnp.full(1, steps, jnp.int32),
        )
        return store, replay

    # -- reading -------------------------------------------------------------------------------------------------------

    def count(self, replay: Replay) -> jax.Array:
        """int32 [N]: the steps that can be sampled."""
        return replay.written - replay.oldest

    def sample(self, key: jax.Array, replay: Replay, count: int) -> Places:
        """Stored steps, uniformly at random with replacement; there must be at least one."""
        counts = self.count(replay)
        which = jax.random.randint(key, (count,), 0, jnp.maximum(counts.sum(), 1))
        return self.step_places(replay, which)

    def step_places(self, replay: Replay, which: jax.Array) -> Places:
        """The rows of the stored steps 0, 1, ... in the order of their columns and then of time."""
        counts = self.count(replay)
        if self.columns == 1:
            column, which = jnp.zeros_like(which), which
        else:
            until = jnp.cumsum(counts)
            column = jnp.searchsorted(until, which, side="right", method="compare_all")
            which = which - (until - counts)[column]
        row = replay.places[column, (replay.oldest[column] + which) % self.height]
        return Places(column, row % self.height)

    def ahead(self, places: Places, steps: int | jax.Array) -> Places:
        """The rows that many steps later. They belong to the same episode up to its first row without an action."""
        return places._replace(row=(places.row + steps) % self.height)

    def stretch(self, places: Places, length: int) -> Places:
        """Rows t, t + 1, ..., t + length of each place: [length + 1, ...]."""
        rows = places.row + jnp.arange(length + 1).reshape(-1, *[1] * places.row.ndim)
        return Places(jnp.broadcast_to(places.column, rows.shape), rows % self.height)

    def in_time(self, replay: Replay) -> tuple[Places, jax.Array]:
        """All rows [N, R] from the oldest to the newest, and which of them have been written."""
        number = replay.newest[:, None] - self.height + 1 + jnp.arange(self.height)
        column = jnp.broadcast_to(jnp.arange(self.columns)[:, None], number.shape)
        return Places(column, number % self.height), number >= 0

    def sample_episodes(self, key: jax.Array, replay: Replay, rows: int) -> Places:
        """Whole episodes, uniformly at random with replacement, packed back to back into that many rows.

        Each drawn episode is there with all its rows, the final one included; so far as it has been written, and so
        far as it is still there. Only the last one is cut to fit, at its beginning, so that what follows a step is
        always complete.
        """
        order, there = self.in_time(replay)
        is_step = self.read(replay, order).taken & there
        # An episode ends with a row that is no step. The rows before the first step of a column are none either.
        flat = is_step.reshape(-1)
        ended = jnp.cumsum(~flat & jnp.roll(flat, 1), dtype=jnp.int32)  # up to each row; a column's last is no step
        first_step = is_step.argmax(axis=1) + jnp.arange(self.columns) * self.height

        def end_of(number: jax.Array) -> jax.Array:
            return jnp.minimum(jnp.searchsorted(ended, number + 1), self.rows - 1)

        drawn = jax.random.randint(key, (rows // 2 + 1,), 0, jnp.maximum(ended[-1], 1))
        ends = end_of(drawn)
        after = jnp.where(drawn > 0, end_of(drawn - 1) + 1, 0)
        starts = jnp.maximum(after, first_step[ends // self.height])
        # Sums beyond 2^24 are not exact in float32, but they are only compared with `rows`, and cannot overflow.
        until = jnp.cumsum((ends - starts + 1).astype(jnp.float32))
        until = jnp.minimum(until, rows).astype(jnp.int32)
        line = jnp.arange(rows)
        which = jnp.searchsorted(until, line, side="right")
        found = ends[which] - (until[which] - 1 - line)
        return Places(order.column.reshape(-1)[found], order.row.reshape(-1)[found])

    def read(self, replay: Replay, places: Places) -> Rows:
        """What was done in these rows."""
        words = replay.steps[places.column, places.row]
        marks = words[..., 0]
        return Rows(
            action=(marks >> (WORD - ACTION_BITS)).astype(jnp.int32),
            reward=_float(words[..., 1]),
            taken=marks & TAKEN != 0,
            terminated=marks & TERMINATED != 0,
            truncated=marks & TRUNCATED != 0,
            behaviour_prob=_float(words[..., 2]),
        )

    def packed(self, replay: Replay, places: Places) -> jax.Array:
        """The observations of these rows as they are stored, [..., W]."""
        return replay.observations[places.column, places.row]

    def observe(self, replay: Replay, places: Places) -> jax.Array:
        """The observations of these rows, [..., *shape]."""
        return self.unpack(self.packed(replay, places))

    # -- bits ----------------------------------------------------------------------------------------------------------

    def pack(self, observation: jax.Array) -> jax.Array:
        """[..., *shape] -> [..., W]."""
        batch = observation.shape[: observation.ndim - len(self.shape)]
        flat = observation.reshape(*batch, self.cells)
        if not self.packs:
            return flat.astype(self.dtype)
        flat = jnp.pad(flat.astype(jnp.uint32), [*[(0, 0)] * len(batch), (0, -self.cells % WORD)])
        return (flat.reshape(*batch, -1, WORD) << np.arange(WORD, dtype=np.uint32)).sum(axis=-1, dtype=jnp.uint32)

    def unpack(self, words: jax.Array) -> jax.Array:
        """[..., W] -> [..., *shape]."""
        batch = words.shape[:-1]
        if self.packs:
            cells = (words[..., None] >> np.arange(WORD, dtype=np.uint32)) & 1 != 0
            words = cells.reshape(*batch, -1)[..., : self.cells]
        return words.reshape(*batch, *self.shape)


def _put(columns: jax.Array, row: jax.Array, value: jax.Array) -> jax.Array:
    """columns [N, R, ...] with value[n] in row[n] of column n."""
    if len(columns) == 1:  # a slice is written in place without the loop of a scatter
        return lax.dynamic_update_slice(columns, value[:, None], (0, row[0], *[0] * (columns.ndim - 2)))
    return columns.at[jnp.arange(len(columns)), row].set(value)


def _take(columns: jax.Array, row: jax.Array) -> jax.Array:
    return columns[jnp.arange(len(columns)), row]


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)


def _float(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.float32)


def bytes_of(replay: Any) -> int:
    """The memory that a replay (or any pytree of arrays, real or only described) takes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(replay))

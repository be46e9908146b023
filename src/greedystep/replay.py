"""Replay buffer of whole trajectories on the device: raw steps in a ring, one column per environment.

A column is a sequence of rows, one row per observation, each with what was done there (action, reward, how the step
ended, probability of the action). An episode of T steps has T + 1 rows. The final row has no action, is marked so and
is never sampled: it is there for its value. So the state after step t is always row t + 1, whether the episode went on,
terminated, was truncated, or is still being written (its newest row has no action yet).

    row     0   1   2   3   4   5   6
    state   s0  s1  s2  s0  s1  s2  s3        two episodes: one of two steps, one of three so far
    action  a0  a1  -   a0  a1  a2  -

Nothing that belongs to an algorithm is stored: no discount, no return, no value. In a full column each new row replaces
the oldest one. Columns are independent, since episodes end at different times. All functions are pure and keep their
shapes: `ReplayBuffer` holds what is fixed, `ReplayState` the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from greedystep.checks import INT32_MAX, check_int
from greedystep.trajectory import ACTION_BITS, Trajectory

IS_STEP, TERMINATED, TRUNCATED = 1, 2, 4
"""Bits that mark a row: it holds a step, and the step terminated or truncated the episode."""
WORD = 32


class ReplayState(NamedTuple):
    """Arrays of N columns of R rows. Row numbers count from the start of training; row i lies at index i mod R."""

    observations: jax.Array
    """[N, R, W]: uint32 words of 32 cells for boolean observations, otherwise their own dtype, flat."""
    steps: jax.Array
    """uint32 [N, R, 3]: flags (lowest 8 bits) and action; the bits of the reward; the bits of the probability."""
    step_rows: jax.Array
    """int32 [N, R]: the row of step k is step_rows[k mod R]; needed to sample stored steps exactly uniformly."""
    next_row: jax.Array
    """int32 [N]: the row where the next step will be written."""
    newest: jax.Array
    """int32 [N]: the newest row, -1 if there is none: next_row, or after the end of an episode the row before it."""
    written: jax.Array
    """int32 [N]: steps written so far, overwritten ones included."""
    oldest: jax.Array
    """int32 [N]: the number of the oldest step that is still stored."""


class StepRows(NamedTuple):
    """What some rows of the buffer hold; all arrays have the same shape."""

    action: jax.Array
    """int32."""
    reward: jax.Array
    """float32."""
    is_step: jax.Array
    """bool: whether the row holds a step. Where it does not, the other entries mean nothing."""
    terminated: jax.Array
    truncated: jax.Array
    behaviour_prob: jax.Array
    """float32: probability with which the action was chosen; NaN if unknown."""


class RowIndex(NamedTuple):
    """Column and position of some rows of the buffer, int32 [...] each."""

    column: jax.Array
    row: jax.Array
    """Position within the column, 0 to R - 1."""


@dataclass(frozen=True)
class ReplayBuffer:
    """Sizes of a replay buffer and the pure functions on its `ReplayState`.

    Args:
        rows: rows of all columns together, final rows of episodes included.
        columns: number of environments that write side by side.
        shape, dtype: shape and dtype of one observation. Booleans are stored as bits.
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
    def rows_per_column(self) -> int:
        """R, the number of rows of one column."""
        return self.rows // self.columns

    @cached_property
    def observation_size(self) -> int:
        """Number of elements of one observation."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def is_packed(self) -> bool:
        """Whether observations are stored as bits, because they are boolean."""
        return self.dtype == np.dtype(bool)

    @property
    def _stored_observation(self) -> tuple[int, np.dtype]:
        """Width W and dtype of one stored observation."""
        if self.is_packed:
            return -(-self.observation_size // WORD), np.dtype(np.uint32)
        return self.observation_size, self.dtype

    @property
    def observation_bytes(self) -> int:
        """Bytes of one stored observation."""
        width, dtype = self._stored_observation
        return width * dtype.itemsize

    def init(self) -> ReplayState:
        """Return an empty replay state."""
        n, r = self.columns, self.rows_per_column
        width, dtype = self._stored_observation
        zeros = jnp.zeros(n, jnp.int32)
        return ReplayState(
            observations=jnp.zeros((n, r, width), dtype),
            steps=jnp.zeros((n, r, 3), jnp.uint32),
            step_rows=jnp.zeros((n, r), jnp.int32),
            next_row=zeros,
            newest=zeros - 1,
            written=zeros,
            oldest=zeros,
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    def add(
        self,
        replay: ReplayState,
        observation: jax.Array,
        action: jax.Array,
        reward: jax.Array,
        terminated: jax.Array,
        truncated: jax.Array,
        behaviour_prob: jax.Array,
        next_observation: jax.Array,
        is_step: jax.Array | None = None,
    ) -> ReplayState:
        """Store one step per column; all arrays are [N, ...].

        `next_observation` is the state after the step, never the first one of another episode. It becomes the newest
        row, without an action; the next step of the same episode fills the action in. Columns where `is_step` is False
        stay as they are.
        """
        row, over = replay.next_row, terminated | truncated
        here, after = row % self.rows_per_column, (row + 1) % self.rows_per_column
        marks = IS_STEP + TERMINATED * terminated.astype(jnp.uint32) + TRUNCATED * truncated.astype(jnp.uint32)
        marks = marks | action.astype(jnp.uint32) << (WORD - ACTION_BITS)
        step = jnp.stack([marks, _bits(reward), _bits(behaviour_prob)], axis=-1)

        def put(columns: jax.Array, *rows: tuple[jax.Array, jax.Array]) -> jax.Array:
            if is_step is not None:
                mask = [is_step.reshape(-1, *[1] * (value.ndim - 1)) for _, value in rows]
                rows = tuple(
                    (row, jnp.where(m, value, _take(columns, row))) for m, (row, value) in zip(mask, rows, strict=True)
                )
            return _put(columns, *rows)

        # Within an episode the observation is stored already; writing it again needs no branch.
        observations = put(replay.observations, (here, self.pack(observation)), (after, self.pack(next_observation)))
        steps = put(replay.steps, (after, jnp.zeros_like(step)), (here, step))
        step_rows = put(replay.step_rows, (replay.written % self.rows_per_column, row))
        next_row, newest, written = row + 1 + over, row + 1, replay.written + 1
        if is_step is not None:
            next_row, newest = jnp.where(is_step, next_row, row), jnp.where(is_step, newest, replay.newest)
            written = replay.written + is_step
        # One or two rows were overwritten, and so up to two steps.
        oldest = replay.oldest
        for _ in range(2):
            oldest_row = _take(step_rows, oldest % self.rows_per_column)
            oldest = oldest + (oldest_row <= newest - self.rows_per_column)
        return ReplayState(observations, steps, step_rows, next_row, newest, written, oldest)

    def cut(self, replay: ReplayState) -> ReplayState:
        """Return the replay state with the running episodes truncated after their newest steps."""
        runs = replay.next_row == replay.newest
        row = (replay.newest - 1) % self.rows_per_column
        step = _take(replay.steps, row)
        step = step.at[:, 0].set(jnp.where(runs, step[:, 0] | TRUNCATED, step[:, 0]))
        return replay._replace(steps=_put(replay.steps, (row, step)), next_row=replay.next_row + runs)

    def renumbered(self, replay: ReplayState) -> ReplayState:
        """Return the same replay state with smaller row and step numbers, so that int32 never overflows.

        In a full ring only differences of numbers and their values modulo R matter, so multiples of R are subtracted.
        """
        rows = jnp.maximum(replay.newest // self.rows_per_column - 1, 0) * self.rows_per_column
        steps = jnp.maximum(replay.oldest // self.rows_per_column, 0) * self.rows_per_column
        return replay._replace(
            step_rows=replay.step_rows - rows[:, None],
            next_row=replay.next_row - rows,
            newest=replay.newest - rows,
            written=replay.written - steps,
            oldest=replay.oldest - steps,
        )

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[Trajectory],
        steps: int,
        count: int,
        shape: tuple[int, ...],
        dtype: np.dtype,
        *,
        rows: int = 3,
    ) -> tuple[ReplayBuffer, ReplayState]:
        """Return a buffer of one column that holds exactly these trajectories, and its state.

        A trajectory that stops without an end counts as truncated there: its last state has a value. Trajectories are
        read one at a time, and on a CPU the arrays are filled in place, so that one copy of the data is made.

        Args:
            steps, count: number of steps of all trajectories, and of trajectories.
            rows: rows of the buffer, at least; more than steps + count stay empty.
        """
        total = steps + count
        rows = max(total, rows)
        buffer = cls(rows, 1, shape, dtype)
        observations = _aligned_zeros((1, rows, *shape), dtype)
        words, is_step = _aligned_zeros((1, rows, 3), np.uint32), np.zeros(rows, bool)
        at = 0
        for one in episodes:
            T = len(one)
            if at + T + 1 > total:
                raise ValueError(f"dataset: it has more than the {steps} steps and {count} episodes that it says")
            here = slice(at, at + T)
            observations[0, at : at + T + 1] = one.observations
            is_step[here] = True
            truncated = one.truncated.astype(np.uint32)
            truncated[-1] |= ~one.terminated[-1]
            marks = IS_STEP + TERMINATED * one.terminated.astype(np.uint32) + TRUNCATED * truncated
            words[0, here, 0] = marks | one.actions.astype(np.uint32) << (WORD - ACTION_BITS)
            words[0, here, 1] = one.rewards.astype(np.float32).view(np.uint32)
            behaviour_prob = np.full(T, np.nan) if one.behaviour_prob is None else one.behaviour_prob
            words[0, here, 2] = behaviour_prob.astype(np.float32).view(np.uint32)
            at += T + 1
        if at != total:
            raise ValueError(f"dataset: it says that it has {steps} steps in {count} episodes, and has fewer")
        step_rows = _aligned_zeros((1, rows), np.int32)
        step_rows[0, :steps] = np.flatnonzero(is_step)
        stored = observations if buffer.is_packed else observations.reshape(1, rows, -1)
        replay = ReplayState(
            observations=buffer.pack(jnp.asarray(stored)) if buffer.is_packed else _on_device(stored),
            steps=_on_device(words),
            step_rows=_on_device(step_rows),
            next_row=jnp.full(1, total, jnp.int32),
            newest=jnp.full(1, total - 1, jnp.int32),
            written=jnp.full(1, steps, jnp.int32),
            oldest=jnp.zeros(1, jnp.int32),
        )
        return buffer, replay

    # -- reading -------------------------------------------------------------------------------------------------------

    def num_steps(self, replay: ReplayState) -> jax.Array:
        """Return the number of stored steps per column, int32 [N]."""
        return replay.written - replay.oldest

    def sample(self, key: jax.Array, replay: ReplayState, count: int) -> RowIndex:
        """Sample `count` stored steps uniformly with replacement, as row indices; at least one step must be stored."""
        return self.steps_at(replay, random_bits(key, count))

    def steps_at(self, replay: ReplayState, bits: jax.Array) -> RowIndex:
        """Return the stored steps that these `random_bits` choose, uniformly with replacement."""
        return self.step_index(replay, integers_below(jnp.maximum(self.num_steps(replay).sum(), 1), bits))

    def step_index(self, replay: ReplayState, which: jax.Array) -> RowIndex:
        """Return the rows of stored steps by their number, counted column by column, oldest first."""
        counts = self.num_steps(replay)
        if self.columns == 1:
            column = jnp.zeros_like(which)
        else:
            until = jnp.cumsum(counts)
            column = jnp.searchsorted(until, which, side="right", method="compare_all")
            which = which - (until - counts)[column]
        row = replay.step_rows[column, (replay.oldest[column] + which) % self.rows_per_column]
        return RowIndex(column, row % self.rows_per_column)

    def ahead(self, index: RowIndex, steps: int | jax.Array) -> RowIndex:
        """Return the rows `steps` rows later; valid up to the end of the episode, its first row without an action."""
        return index._replace(row=(index.row + steps) % self.rows_per_column)

    def window(self, index: RowIndex, length: int) -> RowIndex:
        """Return rows t, t + 1, ..., t + length for each row t: [length + 1, ...]."""
        rows = index.row + jnp.arange(length + 1).reshape(-1, *[1] * index.row.ndim)
        return RowIndex(jnp.broadcast_to(index.column, rows.shape), rows % self.rows_per_column)

    def chronological(self, replay: ReplayState) -> tuple[RowIndex, jax.Array]:
        """Return the index of all rows, [N, R], oldest first, and bool [N, R]: which of them have been written."""
        number = replay.newest[:, None] - self.rows_per_column + 1 + jnp.arange(self.rows_per_column)
        column = jnp.broadcast_to(jnp.arange(self.columns)[:, None], number.shape)
        return RowIndex(column, number % self.rows_per_column), number >= 0

    def sample_episodes(self, key: jax.Array, replay: ReplayState, rows: int) -> RowIndex:
        """Sample whole episodes uniformly with replacement, and return their rows back to back: an index [rows].

        Each sampled episode comes with all its stored rows, the final one included. Only the last one is cut to fit, at
        its beginning, so that what follows a step is complete. Of an episode that has more rows than are asked for, a
        random part is returned: its last row may hold a step.
        """
        order, is_written = self.chronological(replay)
        is_step = self.read(replay, order).is_step & is_written
        # An episode ends with a row that is no step. The rows before the first step of a column are none either.
        flat = is_step.reshape(-1)
        ended = jnp.cumsum(~flat & jnp.roll(flat, 1), dtype=jnp.int32)  # up to each row; a column's last is no step
        first_step = is_step.argmax(axis=1) + jnp.arange(self.columns) * self.rows_per_column

        def end_of(number: jax.Array) -> jax.Array:
            return jnp.minimum(jnp.searchsorted(ended, number + 1), self.rows - 1)

        drawn = jax.random.randint(key, (rows // 2 + 1,), 0, jnp.maximum(ended[-1], 1))
        ends = end_of(drawn)
        after = jnp.where(drawn > 0, end_of(drawn - 1) + 1, 0)
        starts = jnp.maximum(after, first_step[ends // self.rows_per_column])
        # The end alone would be returned whenever such an episode is drawn. Parts that would reach beyond its first or
        # last row are moved inside, so that rows there are returned at least as often as those in the middle.
        excess = jnp.maximum(ends[0] - starts[0] + 1 - rows, 0)
        behind = jax.random.randint(jax.random.fold_in(key, 1), (), -rows, excess + rows + 1)
        ends = ends.at[0].add(-jnp.clip(behind, 0, excess))
        # Sums beyond 2^24 are not exact in float32, but they are only compared with `rows`, and cannot overflow.
        until = jnp.cumsum((ends - starts + 1).astype(jnp.float32))
        until = jnp.minimum(until, rows).astype(jnp.int32)
        at = jnp.arange(rows)
        which = jnp.searchsorted(until, at, side="right")
        found = ends[which] - (until[which] - 1 - at)
        return RowIndex(order.column.reshape(-1)[found], order.row.reshape(-1)[found])

    def read(self, replay: ReplayState, index: RowIndex) -> StepRows:
        """Return the actions, rewards, ends and probabilities stored in these rows."""
        words = replay.steps[index.column, index.row]
        marks = words[..., 0]
        return StepRows(
            action=(marks >> (WORD - ACTION_BITS)).astype(jnp.int32),
            reward=_float(words[..., 1]),
            is_step=marks & IS_STEP != 0,
            terminated=marks & TERMINATED != 0,
            truncated=marks & TRUNCATED != 0,
            behaviour_prob=_float(words[..., 2]),
        )

    def packed_observations(self, replay: ReplayState, index: RowIndex) -> jax.Array:
        """Return the observations of these rows as they are stored, [..., W]."""
        return replay.observations[index.column, index.row]

    def observations(self, replay: ReplayState, index: RowIndex) -> jax.Array:
        """Return the observations of these rows, [..., *shape]."""
        return self.unpack(self.packed_observations(replay, index))

    # -- bits ----------------------------------------------------------------------------------------------------------

    def pack(self, observation: jax.Array) -> jax.Array:
        """Convert observations [..., *shape] to their stored form [..., W]."""
        batch = observation.shape[: observation.ndim - len(self.shape)]
        flat = observation.reshape(*batch, self.observation_size)
        if not self.is_packed:
            return flat.astype(self.dtype)
        flat = jnp.pad(flat.astype(jnp.uint32), [*[(0, 0)] * len(batch), (0, -self.observation_size % WORD)])
        return (flat.reshape(*batch, -1, WORD) << np.arange(WORD, dtype=np.uint32)).sum(axis=-1, dtype=jnp.uint32)

    def unpack(self, words: jax.Array) -> jax.Array:
        """Convert stored observations [..., W] back to [..., *shape]."""
        batch = words.shape[:-1]
        if self.is_packed:
            cells = (words[..., None] >> np.arange(WORD, dtype=np.uint32)) & 1 != 0
            words = cells.reshape(*batch, -1)[..., : self.observation_size]
        return words.reshape(*batch, *self.shape)


def stored_rewards(replay: ReplayState) -> tuple[jax.Array, jax.Array]:
    """Return bool [..., N, R], which rows hold a step, and float32 [..., N, R], the reward of each row."""
    return replay.steps[..., 0] & IS_STEP != 0, _float(replay.steps[..., 1])


def _aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return zeros aligned to 64 bytes, so that JAX can use the array in place on a CPU."""
    size = int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _on_device(array: np.ndarray) -> jax.Array:
    """Return the array on the device; on a CPU it shares the memory, so that nobody may write to it any more."""
    return jax.device_put(array, may_alias=True)


def random_bits(key: jax.Array, count: int) -> jax.Array:
    """Draw the random bits of `count` integers for `integers_below`, uint32 [2, count]."""
    return jnp.stack([jax.random.bits(half, (count,)) for half in jax.random.split(key)])


def integers_below(bound: jax.Array, bits: jax.Array) -> jax.Array:
    """Return the integers of `jax.random.randint` from 0 to bound - 1, int32 [count], given its random bits.

    So the bits can be drawn before the bound is known. Of two words h and l the integer is h 2^32 + l modulo the bound,
    for bounds above 2^16, where the factor of h does not fit into a word, l alone modulo the bound.
    """
    high, low = bits
    bound = bound.astype(jnp.uint32)
    half = jnp.uint32(2**16) % bound
    return ((high % bound * (half * half % bound) + low % bound) % bound).astype(jnp.int32)


def _put(columns: jax.Array, *rows: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Write rows, each given by its number and content in every column, [N] and [N, ...]; the numbers differ."""
    if len(columns) == 1 and jax.default_backend() == "cpu":  # written in place without the loop of a scatter
        for row, value in rows:
            columns = lax.dynamic_update_slice(columns, value[:, None], (0, row[0], *[0] * (columns.ndim - 2)))
        return columns
    numbers, values = (jnp.stack(parts, axis=1) for parts in zip(*rows, strict=True))
    column = jnp.arange(len(columns))[:, None]
    return columns.at[column, numbers].set(values, unique_indices=True, mode="promise_in_bounds")


def _take(columns: jax.Array, row: jax.Array) -> jax.Array:
    return columns[jnp.arange(len(columns)), row]


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x.astype(jnp.float32), jnp.uint32)


def _float(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.float32)

"""The replay against lists: wrapped rings, ends of episodes, open episodes, one and several columns."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles_replay import ListColumn

from greedystep import envs
from greedystep.deep.device_memory import tree_bytes
from greedystep.replay import ReplayBuffer, RowIndex
from greedystep.trajectory import Trajectory

BOARD = ((2, 7, 3), np.dtype(bool))
VECTOR = ((3,), np.dtype(np.float32))


add = jax.jit(ReplayBuffer.add, static_argnums=0)
step_index = jax.jit(ReplayBuffer.step_index, static_argnums=0)
sample_episodes = jax.jit(ReplayBuffer.sample_episodes, static_argnums=(0, 3))
window = jax.jit(ReplayBuffer.window, static_argnums=(0, 2))
chronological = jax.jit(ReplayBuffer.chronological, static_argnums=0)
renumbered = jax.jit(ReplayBuffer.renumbered, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def look_up(buffer, replay, index):
    return buffer.observations(replay, index), buffer.read(replay, index)


def seen(number, kind):
    """An observation that tells its number."""
    shape, dtype = kind
    if dtype.kind == "b":
        bits = [(int(number) >> i) & 1 for i in range(int(np.prod(shape)))]
        return np.array(bits, bool).reshape(shape)
    return np.full(shape, number, dtype)


def number_of(observation):
    observation = np.asarray(observation)
    if observation.dtype == bool:
        return int(sum(int(bit) << i for i, bit in enumerate(observation.reshape(-1))))
    return int(observation.reshape(-1)[0])


@st.composite
def histories(draw):
    """Heights, and for every column a list of (terminated, truncated)."""
    columns, height = draw(st.sampled_from([(1, 3), (1, 8), (2, 5), (3, 11)]))  # few shapes: each is compiled
    length = draw(st.integers(1, 30))
    end = st.sampled_from([(False, False), (False, False), (True, False), (False, True), (True, True)])
    return height, [draw(st.lists(end, min_size=length, max_size=length)) for _ in range(columns)]


def play(height, ends, kind=BOARD):
    """The same steps into a `ReplayState` and into lists. Observations are numbered from 1 in all columns together."""
    buffer = ReplayBuffer(height * len(ends), len(ends), *kind)
    replay, lists = buffer.init(), [ListColumn(height) for _ in ends]
    fresh = iter(range(1, 10_000))
    current = [next(fresh) for _ in ends]
    for t in range(len(ends[0])):
        after = [next(fresh) for _ in ends]
        steps = [((t + c) % 5, t + 0.5 * c, *ends[c][t], 0.25 + 0.001 * t) for c in range(len(ends))]
        columns = [np.array(x) for x in zip(*steps, strict=True)]
        observations = (np.stack([seen(i, kind) for i in numbers]) for numbers in (current, after))
        now, then = observations
        replay = add(buffer, replay, now, *columns, then)
        for c, column in enumerate(lists):
            column.add(current[c], steps[c], after[c])
        current = [next(fresh) if any(ends[c][t]) else after[c] for c in range(len(ends))]
    return buffer, replay, lists


def rows_at(buffer, replay, index):
    """(number of the observation, step or None) of each of these index, in one list."""
    observations, rows = jax.device_get(look_up(buffer, replay, index))
    flat = observations.reshape(-1, *buffer.shape)
    rows = [x.reshape(-1) for x in rows]
    found = []
    for observation, action, reward, taken, terminated, truncated, probability in zip(flat, *rows, strict=True):
        step = (action, reward, terminated, truncated, probability) if taken else None
        found.append((number_of(observation), step))
    return found


def assert_same_row(found, row):
    observation, step = found
    assert observation == row.observation
    assert (step is None) == (row.step is None)
    if row.step is not None:
        np.testing.assert_allclose(step, row.step, rtol=1e-6)


@settings(deadline=None, max_examples=12)
@given(histories(), st.integers(0, 2**30))
def test_rows_that_are_numbered_anew_are_the_same_rows(history, before):
    """Numbers from late in a training, where they would leave int32, against those of its beginning."""
    height, ends = history
    buffer, replay, _ = play(height, ends)
    late = replay
    if (np.asarray(replay.newest) >= height).all():  # only a full ring can be old
        shift = before // height * height
        late = replay._replace(
            step_rows=replay.step_rows + shift,
            next_row=replay.next_row + shift,
            newest=replay.newest + shift,
            written=replay.written + shift,
            oldest=replay.oldest + shift,
        )
    anew = renumbered(buffer, late)
    assert int(anew.next_row.max()) <= 2 * height + 1
    assert int(anew.written.max()) <= 2 * height
    assert anew.step_rows.dtype == replay.step_rows.dtype
    jax.tree.map(np.testing.assert_array_equal, chronological(buffer, anew), chronological(buffer, replay))
    np.testing.assert_array_equal(buffer.num_steps(anew), buffer.num_steps(replay))
    every = jnp.arange(int(buffer.num_steps(replay).sum()))
    jax.tree.map(np.testing.assert_array_equal, step_index(buffer, anew, every), step_index(buffer, replay, every))


@settings(deadline=None, max_examples=30)
@given(histories())
def test_every_stored_step_can_be_drawn_and_nothing_else(history):
    buffer, replay, lists = play(*history)
    steps = [step for column in lists for step in column.steps()]
    counts = buffer.num_steps(replay)
    assert counts.tolist() == [len(column.steps()) for column in lists]
    found = rows_at(buffer, replay, step_index(buffer, replay, jnp.arange(buffer.rows)))
    for (row, _), here in zip(steps, found, strict=False):
        assert_same_row(here, row)


@settings(deadline=None, max_examples=30)
@given(histories())
def test_the_rows_after_a_step_are_those_of_its_episode_up_to_the_row_without_an_action(history):
    buffer, replay, lists = play(*history, kind=VECTOR)
    steps = [step for column in lists for step in column.steps()]
    index = window(buffer, step_index(buffer, replay, jnp.arange(buffer.rows)), 4)
    found = rows_at(buffer, replay, index)
    for i, (row, following) in enumerate(steps):
        for k, expected in enumerate([row, *following[:4]]):
            assert_same_row(found[k * buffer.rows + i], expected)


@settings(deadline=None, max_examples=30)
@given(histories())
def test_running_episodes_are_cut_as_if_their_newest_steps_had_been_truncated(history):
    height, ends = history
    buffer, replay, _ = play(height, ends)
    last = [[*column[:-1], column[-1] if any(column[-1]) else (False, True)] for column in ends]
    for ours, theirs in zip(buffer.cut(replay), play(height, last)[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(buffer.cut(buffer.init()), buffer.init(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@settings(deadline=None, max_examples=30)
@given(histories())
def test_rows_in_the_order_of_time(history):
    buffer, replay, lists = play(*history)
    index, there = chronological(buffer, replay)
    found = rows_at(buffer, replay, index)
    for c, column in enumerate(lists):
        rows = column.rows()
        assert there[c].sum() == len(rows)
        for row, here in zip(reversed(rows), reversed(found[: (c + 1) * buffer.rows_per_column]), strict=False):
            assert_same_row(here, row)


@settings(deadline=None, max_examples=40)
@given(histories(), st.sampled_from([4, 17, 40]), st.integers(0, 1000))
def test_drawn_episodes_are_whole_and_only_the_last_one_loses_its_beginning(history, rows, seed):
    buffer, replay, lists = play(*history)
    episode_of = {row.observation: episode for column in lists for episode in column.episodes() for row in episode}
    found = rows_at(buffer, replay, sample_episodes(buffer, jax.random.key(seed), replay, rows))
    parts, current = [], []
    for row in found:
        current.append(row)
        if row[1] is None:
            parts.append(current)
            current = []
    if current:  # of an episode that does not fit, any part may be drawn
        assert len(episode_of[current[0][0]]) > rows
        assert not parts
        parts = [current]
    for i, part in enumerate(parts):
        episode = episode_of[part[-1][0]]
        end = [row.observation for row in episode].index(part[-1][0]) + 1
        assert i == len(parts) - 1 or len(part) == len(episode)
        for row, original in zip(part, episode[end - len(part) : end], strict=True):
            assert_same_row(row, original)


@pytest.mark.parametrize("is_over", [True, False])
def test_every_step_of_an_episode_that_does_not_fit_is_drawn(is_over):
    buffer, replay, _ = play(42, [[(False, False)] * 39 + [(is_over, False)]])
    keys = jax.random.split(jax.random.key(0), 4000)
    drawn = jax.vmap(lambda key: buffer.sample_episodes(key, replay, 11).row)(keys)
    counts = np.bincount(np.asarray(drawn).reshape(-1), minlength=42)[:41] / len(keys)
    middle = 11 / (41 + 11 + 1)  # parts that begin up to 11 rows before the episode, or end up to 11 rows after it
    np.testing.assert_allclose(counts[11:-11], middle, atol=0.03)
    assert middle - 0.03 < counts.min() <= counts.max() < 2 * middle + 0.03


def test_steps_and_episodes_are_drawn_uniformly():
    ends = [[(False, False), (False, False), (True, False), (True, False)] * 2]  # 3 steps, 1 step, 3 steps, 1 step
    buffer, replay, _ = play(20, ends)
    index = buffer.sample(jax.random.key(0), replay, 8000)
    share = np.bincount(np.asarray(buffer.observations(replay, index)).reshape(8000, -1) @ (1 << np.arange(42)))
    drawn = share[share > 0] / 8000
    assert len(drawn) == 8
    np.testing.assert_allclose(drawn, 1 / 8, atol=0.02)

    index = buffer.sample_episodes(jax.random.key(0), replay, 8000)
    rows = buffer.read(replay, index)
    lengths = np.diff(np.flatnonzero(~np.asarray(rows.is_step)))
    np.testing.assert_allclose((lengths == 2).mean(), 1 / 2, atol=0.03)  # of episodes, not of steps


def test_different_keys_draw_different_steps():
    buffer, replay, _ = play(50, [[(False, False)] * 40])
    draws = [buffer.sample(jax.random.key(seed), replay, 30).row.tolist() for seed in range(2)]
    assert draws[0] != draws[1]


@pytest.mark.parametrize(("name", "limit"), [("minatar/breakout", 8_000_000), ("minatar/seaquest", 15_000_000)])
def test_memory_of_a_hundred_thousand_steps(name, limit):
    observation = envs.make(name).observation
    buffer = ReplayBuffer(100_000, 1, observation.shape, observation.dtype)
    assert tree_bytes(jax.eval_shape(buffer.init)) <= limit


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3), st.booleans())
def test_logged_trajectories_are_stored_as_they_are(lengths_and_ends, known):
    fresh, trajectories, column = iter(range(1, 1000)), [], ListColumn(1000)
    for length, end in lengths_and_ends:
        numbers = [next(fresh) for _ in range(length + 1)]
        last = np.arange(length) == length - 1
        trajectory = Trajectory(
            observations=np.stack([seen(i, VECTOR) for i in numbers]),
            actions=np.arange(length) % 3,
            rewards=np.arange(length) / 2,
            terminated=last & (end == 0),
            truncated=last & (end == 1),  # 2: the record just stops
            behaviour_prob=np.full(length, 0.5) if known else None,
        )
        trajectories.append(trajectory)
        for t in range(length):
            cut = bool(last[t] and end != 0)
            step = (t % 3, t / 2, bool(trajectory.terminated[t]), cut, 0.5 if known else np.nan)
            column.add(numbers[t], step, numbers[t + 1])
    buffer, replay = ReplayBuffer.from_episodes(trajectories, sum(map(len, trajectories)), len(trajectories), *VECTOR)
    rows = column.rows()
    index = RowIndex(jnp.zeros(len(rows), int), jnp.arange(len(rows)))
    for row, here in zip(rows, rows_at(buffer, replay, index), strict=True):
        assert_same_row(here, row)
    assert buffer.num_steps(replay).tolist() == [len(column.steps())]


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (7, 2), (4, 2), (4, 0)])
def test_a_replay_needs_room_for_every_column(rows, columns):
    with pytest.raises(ValueError, match=r"^(rows|columns): expected"):
        ReplayBuffer(rows, columns, *VECTOR)

"""What the learning targets of the code that the paper's authors released compute, written down in our own words.

The repository QINGYWuuu/Greedy_Step_DQN (2021-09-14, for Atari) builds a matrix over pairs of a step i and a later step
j of an episode, of which row i is completed from row i + 1, from the last row to the first. The first public version
(commit e8d199f) and the last one (f7b844e) differ in how the matrix begins and in the axis of the maximum.
"""

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep.replay import ReplayBuffer
from greedystep.returns import greedy_step, n_step
from greedystep.trajectory import Trajectory

seeds = st.integers(0, 2**32 - 1)


def complete_rows(matrix, discount):
    """Add γ times the next row to each row, the last ones first; entries j < i do not exist."""
    for i in range(len(matrix) - 2, -1, -1):
        matrix[i] += discount * matrix[i + 1]
        matrix[i + 1, : i + 1] = -np.inf
    return matrix


def first_version(rewards, next_values, discount):
    """The matrix begins with the one-step targets on its diagonal; the maximum is over i, the rows."""
    return complete_rows(np.diag(rewards + discount * next_values), discount).max(axis=0)


def last_version(rewards, next_values, discount):
    """The matrix begins with r_i in row i and γ V(s_{i+1}) on the diagonal; the maximum is over j, the columns."""
    matrix = np.triu(np.ones((len(rewards), len(rewards)))) * rewards[:, None]
    return complete_rows(matrix + np.diag(discount * next_values), discount).max(axis=1)


def random_episode(seed, low):
    random = np.random.default_rng(seed)
    length = int(random.integers(1, 30))
    rewards, next_values = random.uniform(low, 3, length), random.uniform(low, 3, length)
    next_values[-1] = 0.0  # the episode is over
    return rewards, next_values, random.choice([0.5, 0.9, 0.99])


def discounts_of(rewards, discount):
    return np.append(np.full(len(rewards) - 1, discount), 0.0)


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_first_version_has_the_one_step_target_where_values_are_not_negative(seed):
    rewards, next_values, discount = random_episode(seed, 0.0)
    one_step = n_step(rewards, discounts_of(rewards, discount), next_values, n=1)
    np.testing.assert_allclose(first_version(rewards, next_values, discount), one_step, rtol=1e-12)


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_where_values_are_negative_it_shrinks_them_by_their_place_in_the_episode(seed):
    """Row i of column j is γ^(j-i) times the one-step target, so that the maximum of negative ones is that of row 0."""
    rewards, next_values, discount = random_episode(seed, -3.0)
    one_step = rewards + discount * next_values
    shrunk = np.where(one_step < 0, one_step * discount ** np.arange(len(rewards)), one_step)
    np.testing.assert_allclose(first_version(rewards, next_values, discount), shrunk, rtol=1e-12, atol=1e-12)


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_last_version_has_the_greedy_step_return(seed):
    rewards, next_values, discount = random_episode(seed, -3.0)
    ours = greedy_step(rewards, discounts_of(rewards, discount), next_values).returns
    np.testing.assert_allclose(last_version(rewards, next_values, discount), ours, rtol=1e-9, atol=1e-12)


def test_episodes_drawn_by_a_random_step_are_trained_on_by_the_square_of_their_length():
    """The released code finds an episode by drawing a step of it, and takes all its steps; our pool draws episodes."""
    lengths = np.array([2, 3, 15])

    def episode(number, length):
        last = np.arange(length) == length - 1
        columns = np.zeros(length, int), np.full(length, float(number)), last, np.zeros(length, bool)
        return Trajectory(np.zeros((length + 1, 1), np.float32), *columns)

    log = [episode(number, length) for number, length in enumerate(lengths)]
    total = int(lengths.sum())
    buffer, replay = ReplayBuffer.from_episodes(log, total, len(log), (1,), np.dtype(np.float32))
    rows = buffer.read(replay, buffer.sample_episodes(jax.random.key(0), replay, 60_000))
    ours = np.bincount(np.asarray(rows.reward)[np.asarray(rows.is_step)].astype(int)) / np.sum(rows.is_step)
    np.testing.assert_allclose(ours, lengths / total, atol=0.01)

    drawn = np.random.default_rng(0).choice(np.repeat(np.arange(3), lengths), 60_000)
    theirs = np.bincount(drawn) * lengths
    np.testing.assert_allclose(theirs / theirs.sum(), lengths**2 / (lengths**2).sum(), atol=0.01)

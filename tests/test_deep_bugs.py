"""Mistakes that users of other libraries met, as small cases with numbers by hand. Each test names its thread.

The state after step t of an episode that began at b is worth b + t + 1; so every value that is read tells where from.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from greedystep.deep.config import DQNConfig
from greedystep.deep.targets import BootstrapValues, LaneHyperparams, n_step_targets, sequence_targets, target_values
from greedystep.replay import ReplayBuffer

GAMMA = 0.5
HYPERPARAMS = LaneHyperparams(*[jnp.float32(0)] * len(LaneHyperparams._fields))


def targets_of(config, episodes, rows=40, columns=1):
    """Targets of all stored steps, column after column in the order of time.

    `episodes` are lists of (rewards, how it ended) for each column, where the end may be None: still going on.
    """
    buffer = ReplayBuffer(rows * columns, columns, (1,), np.dtype(np.float32))
    replay = buffer.init()
    lines = [[step for episode in column for step in steps_of(*episode)] for column in episodes]
    for line in zip(*lines, strict=True):
        seen, reward, terminated, truncated, after = (np.array(x) for x in zip(*line, strict=True))
        zeros = np.zeros(columns, np.int32)
        replay = buffer.add(
            replay, seen[:, None], zeros, reward, terminated, truncated, np.ones(columns), after[:, None]
        )

    def bootstrap_q(seen):  # one network whose only action is worth what is seen
        return BootstrapValues(seen.reshape(1, -1, 1))

    if not config.is_pooled:
        count = int(buffer.num_steps(replay).sum())
        index = buffer.step_index(replay, jnp.arange(count))
        hyperparams = HYPERPARAMS._replace(n=jnp.float32(config.n or 0))
        targets, _, _ = n_step_targets(config, hyperparams, buffer, replay, index, bootstrap_q)
        return targets[0].tolist()
    index, _ = buffer.chronological(replay)
    read = buffer.read(replay, index)
    seen = buffer.observations(replay, index).reshape(-1, 1)
    values = target_values(config, bootstrap_q(seen), read.action.reshape(-1))
    targets = []
    for c in range(columns):
        own = [x.reshape(1, columns, -1)[:, c] for x in values]
        found = sequence_targets(config, HYPERPARAMS, type(read)(*(x[c] for x in read)), type(values)(*own))[0][0]
        targets += found[read.is_step[c]].tolist()
    return targets


def steps_of(begin, rewards, end):
    last = len(rewards) - 1
    return [
        (float(begin + t), r, end == "terminated" and t == last, end == "truncated" and t == last, float(begin + t + 1))
        for t, r in enumerate(rewards)
    ]


def test_a_full_ring_does_not_carry_a_window_into_another_episode():
    """FastTD3 #6: n-step windows crossed episodes once the buffer was full."""
    episodes = [(100 * k, [1.0, 1.0], "terminated") for k in range(9)]
    found = targets_of(DQNConfig(returns="n-step", n=5, discount=GAMMA), [episodes], rows=7)
    assert found == [1.5, 1.0, 1.5, 1.0]  # seven rows: a final row, and two whole episodes


def test_a_window_cut_short_is_discounted_for_its_own_length():
    """RLlib #4626: windows that the end of an episode cut short were still discounted by gamma to the n."""
    found = targets_of(DQNConfig(returns="n-step", n=3, discount=GAMMA), [[(100, [0.0, 0.0, 0.0, 0.0], "truncated")]])
    assert found == [103 / 8, 104 / 8, 104 / 4, 104 / 2]


def test_a_time_limit_leaks_nothing_into_the_next_episode():
    """TF-Agents #939: reward and bootstrap of the next episode leaked over a time limit."""
    episodes = [(100, [1.0, 2.0], "truncated"), (900, [50.0, 50.0], "terminated")]
    for returns, first in (("n-step", 1 + GAMMA * (2 + GAMMA * 102)), ("monte-carlo", 1 + GAMMA * (2 + GAMMA * 102))):
        found = targets_of(DQNConfig(returns=returns, discount=GAMMA), [episodes])
        assert found == [first, 2 + GAMMA * 102, 75.0, 50.0]


def test_parallel_environments_are_not_mixed():
    """ChainerRL #442: with several environments, n-step returns mixed their steps."""
    columns = [[(100, [1.0, 1.0, 1.0], None)], [(500, [7.0, 7.0], "terminated"), (900, [0.0], None)]]
    found = targets_of(DQNConfig(returns="n-step", n=2, discount=GAMMA), columns, columns=2)
    assert found == [1.5 + 102 / 4, 1.5 + 103 / 4, 1 + 103 / 2, 10.5, 7.0, 901 / 2]


@pytest.mark.parametrize(("time_limits", "last"), [("bootstrap", 2 + GAMMA * 102), ("terminal", 2.0)])
@pytest.mark.parametrize("returns", ["one-step", "greedy-step", "watkins", "tree-backup"])
def test_a_time_limit_is_an_end_only_if_asked(returns, time_limits, last):
    """SB3 #284 and #633: timeouts were terminal, and later patched by adding the value to the stored reward."""
    config = DQNConfig(returns=returns, time_limits=time_limits, discount=GAMMA)
    assert targets_of(config, [[(100, [1.0, 2.0], "truncated")]])[-1] == last


def test_the_reward_of_the_last_step_is_not_lost():
    """RLlib PR #59958: terminal rewards were dropped from the targets."""
    for returns, first in (("greedy-step", 4.0), ("monte-carlo", 4.0), ("one-step", -8 * GAMMA)):
        found = targets_of(DQNConfig(returns=returns, discount=GAMMA), [[(-9, [0.0, 8.0], "terminated")]])
        assert found == [first, 8.0]


def test_an_open_episode_bootstraps_from_where_it_is():
    """Tianshou #135: the newest steps of a buffer read what was left over from the round before."""
    episodes = [(0, [9.0] * 6, "terminated"), (100, [1.0, 1.0], None)]
    found = targets_of(DQNConfig(returns="n-step", n=4, discount=GAMMA), [episodes], rows=8)
    assert found[-2:] == [1.5 + 102 / 4, 1 + 102 / 2]

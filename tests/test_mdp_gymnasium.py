"""Finite MDPs of the tables that Gymnasium's toy environments have, or your own."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from test_mdp import assert_same_model

from greedystep.mdp import MDP


def assert_follows_table(mdp: MDP, table) -> None:
    """One backup of random values, straight from the table."""
    v = np.random.default_rng(0).normal(size=mdp.num_states)
    q = mdp.backup(v)
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            expected = sum(p * (r + mdp.discount * v[t] * (not end)) for p, t, r, end in table[s][a])
            assert q[s, a] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "states", "terminals"),
    [
        ("FrozenLake-v1", {}, 16, 5),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 64, 11),
        ("FrozenLake-v1", {"desc": ["SF", "FG"]}, 4, 1),
        ("Taxi-v4", {}, 500, 0),
        ("CliffWalking-v1", {}, 48, None),
    ],
)
def test_gymnasium_tables(name, options, states, terminals):
    mdp = MDP.from_gymnasium(name, 0.95, **options)
    env: Any = gymnasium.make(name, **options)
    assert mdp.num_states == states == env.observation_space.n
    assert mdp.num_actions == env.action_space.n
    assert_follows_table(mdp, env.unwrapped.P)
    assert_same_model(mdp, MDP.from_gymnasium(env, 0.95))
    env.close()
    if terminals is not None:
        assert mdp.terminal.sum() == terminals


class Custom:
    """An environment of somebody's own: just a table, with states that have different actions."""

    def __init__(self, table):
        self.P = table


def test_custom_environments_and_tables():
    table = {
        0: {0: [(0.5, 1, 1.0, False), (0.5, 1, 3.0, True)], 2: [(1.0, 0, 0.0, False)]},
        1: {1: [(1.0, 1, 0.0, True)]},
    }
    mdp = MDP.from_gymnasium(Custom(table), 0.9)
    np.testing.assert_array_equal(mdp.available, [[True, False, True], [False, True, False]])
    np.testing.assert_array_equal(mdp.rewards[mdp.available], [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(mdp.terminal, [False, True])
    lists = [[[(1.0, 1, 1.0, False)]], [[(1.0, 1, 0.0, True)]]]
    assert MDP.from_table(lists, 1.0).discount == 1.0


def test_bad_environments_are_answered_in_one_sentence():
    for name, options in [
        ("Nope-v0", {}),
        ("nomodule:Env-v0", {}),
        ("FrozenLake-v1", {"map_name": "9x9"}),
        ("FrozenLake-v1", {"wind": 3}),
    ]:
        with pytest.raises(ValueError, match=f"env: gymnasium cannot make '{name}'"):
            MDP.from_gymnasium(name, **options)
    with pytest.raises(ValueError, match=r"env: .*CartPole.* has no transition table `P`"):
        MDP.from_gymnasium("CartPole-v1")
    with pytest.raises(ValueError, match="has no transition table"):
        MDP.from_gymnasium(object())
    with pytest.raises(ValueError, match=r"options: \['map_name'\] only apply when env is an id"):
        MDP.from_gymnasium(Custom({}), map_name="8x8")


def test_bad_tables_are_answered_in_one_sentence():
    cases = {
        "table: expected at least one state and one action, got 0 and 0": {},
        "table: expected at least one state and one action, got 1 and 0": {0: {}},
        "available: state 1 has no available action": {0: {0: [(1.0, 1, 0.0, False)]}, 1: {}},
        r"table: next states must lie in 0\.\.0, found 0 to 3": {0: {0: [(0.5, 0, 0.0, False), (0.5, 3, 0.0, False)]}},
        r"table: expected the states 0\.\.1, state 1 is missing": {0: {0: []}, 2: {0: []}},
        r"state 0, action 0 \(row 0\) sums to 0.5": {0: {0: [(0.5, 0, 0.0, True)]}},
        r"p\(s'=0 \| s=0, a=0\) is -1.0": {0: {0: [(-1.0, 0, 0.0, False)]}},
    }
    for message, table in cases.items():
        with pytest.raises(ValueError, match=message):
            MDP.from_table(table, 0.9)

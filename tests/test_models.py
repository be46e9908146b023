"""The example models are valid MDPs, and do what their descriptions say."""

import numpy as np
import oracles
import pytest

from greedystep import models, solve
from greedystep.mdp import MDP
from greedystep.models import DOWN, LEFT, RIGHT, UP


def assert_valid(mdp: MDP) -> None:
    """Distributions over the next state and the end, finite rewards; made again from its arrays it is accepted."""
    p = oracles.dense(mdp)
    ends = np.zeros(mdp.rewards.shape) if mdp.termination is None else mdp.termination
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=2) + ends, 1, atol=1e-12)
    assert np.isfinite(mdp.rewards).all()
    MDP(mdp.transitions, mdp.rewards, mdp.discount, termination=mdp.termination)


def test_a_chain_pays_when_its_last_state_is_left():
    mdp = models.chain(5, 0.9)
    assert_valid(mdp)
    assert mdp.deterministic
    np.testing.assert_allclose(solve(mdp).v, 0.9 ** np.arange(4, -1, -1), atol=1e-9)
    np.testing.assert_array_equal(solve(mdp).policy, 1)
    back, forward = oracles.dense(mdp)[:, 0], oracles.dense(mdp)[:, 1]
    np.testing.assert_array_equal(back, np.eye(5)[[0, 0, 1, 2, 3]])
    np.testing.assert_array_equal(forward[:-1], np.eye(5)[1:])
    assert forward[-1].sum() == 0  # that step ends
    assert models.chain(1, 0.9).num_states == 1
    assert models.chain(3, 1.0).discount == 1.0


def test_the_two_policies_of_the_n_horizon_problem_know_the_way_together():
    for horizon in (1, 2, 7):
        mdp, (first, second) = models.n_horizon(horizon, 0.9)
        assert mdp.num_states == horizon
        np.testing.assert_array_equal(first + second, 1)  # one of the two goes forward in every state
        reached = solve(mdp, "greedy-step", policies=[first, second], horizon=horizon)
        assert reached.v[0] == pytest.approx(0.9 ** (horizon - 1))
        if horizon > 1:
            assert oracles.policy_q(mdp, first).max(axis=1)[0] == 0.0
            assert oracles.policy_q(mdp, second)[0, 0] == 0.0


def walk(height, width, walls, goal, holes, cell, action):
    """Where a move leads, from the rules."""
    row, column = divmod(cell, width)
    r = row + (action == DOWN) - (action == UP)
    c = column + (action == RIGHT) - (action == LEFT)
    inside = 0 <= r < height and 0 <= c < width
    return r * width + c if inside and not walls[r, c] else cell


@pytest.mark.parametrize("slip", [0.0, 0.3, 2 / 3, 1.0])
def test_a_grid_follows_its_rules(slip):
    random = np.random.default_rng(3)
    height, width, goal = 4, 5, (2, 3)
    walls, holes = random.random((height, width)) < 0.2, random.random((height, width)) < 0.2
    walls[goal] = holes[goal] = False
    holes &= ~walls
    mdp = models.grid(
        height, width, goal=goal, walls=walls, holes=holes, slip=slip, step_reward=-1.0, goal_reward=7.0,
        hole_reward=-50.0, discount=0.9,
    )  # fmt: skip
    assert_valid(mdp)
    p, over = oracles.dense(mdp), (walls | holes).ravel()
    over[goal[0] * width + goal[1]] = True
    np.testing.assert_array_equal(mdp.terminal, over)
    for s in np.flatnonzero(~over):
        for a in range(4):
            expected, reward = np.zeros(height * width), 0.0
            for turn, chance in ((0, 1 - slip), (1, slip / 2), (-1, slip / 2)):
                t = walk(height, width, walls, goal, holes, s, (a + turn) % 4)
                expected[t] += chance
                reward += chance * (-1.0 + 7.0 * (divmod(t, width) == goal) - 50.0 * holes.flat[t])
            np.testing.assert_allclose(p[s, a], expected, atol=1e-15)
            assert mdp.rewards[s, a] == pytest.approx(reward)


def test_frozen_lake_is_a_grid():
    lake = MDP.from_gymnasium("FrozenLake-v1", 0.9)
    holes = np.zeros((4, 4), bool)
    holes.flat[[5, 7, 11, 12]] = True
    grid = models.grid(4, 4, holes=holes, slip=2 / 3, step_reward=0.0, goal_reward=1.0, hole_reward=0.0, discount=0.9)
    order = [3, 2, 1, 0]  # gymnasium: left, down, right, up
    v = np.random.default_rng(0).normal(size=16)
    v[grid.terminal] = 0.0
    np.testing.assert_allclose(grid.backup(v)[:, order], lake.backup(v), atol=1e-12)


def test_the_default_goal_is_the_last_cell_and_the_default_step_costs_one():
    mdp = models.grid(3, 3, discount=1.0)
    np.testing.assert_array_equal(np.flatnonzero(mdp.terminal), [8])
    np.testing.assert_allclose(solve(mdp).v, [-4, -3, -2, -3, -2, -1, -2, -1, 0], atol=1e-9)


def test_a_maze_is_a_grid_with_random_walls():
    mdp = models.maze(20, 30, 0.3, seed=1, slip=0.1)
    assert_valid(mdp)
    assert 0.25 < mdp.terminal.mean() < 0.35
    assert mdp.terminal[-1]  # the goal
    assert (models.maze(20, 30, seed=1).terminal == mdp.terminal).all()
    assert not (models.maze(20, 30, seed=2).terminal == mdp.terminal).all()
    assert models.maze(5, 5, 1.0, goal=(0, 0)).terminal.all()
    assert models.maze(5, 5, 0.0, goal=(0, 2)).terminal.sum() == 1


@pytest.mark.parametrize("branching", [1, 3, 10])
def test_a_garnet_has_random_successors(branching):
    mdp = models.garnet(10, 4, branching, discount=0.8, seed=5)
    assert_valid(mdp)
    assert not mdp.terminal.any()
    assert mdp.discount == 0.8
    successors = (oracles.dense(mdp) > 0).sum(axis=2)
    assert successors.min() >= 1
    assert successors.max() <= branching
    assert mdp.deterministic == (branching == 1)
    assert not (models.garnet(10, 4, branching, seed=6).rewards == mdp.rewards).any()
    np.testing.assert_array_equal(models.garnet(10, 4, branching, seed=5).rewards, mdp.rewards)


def test_garnet_rewards_are_standard_normal():
    rewards = models.garnet(500, 4, 2).rewards
    assert abs(rewards.mean()) < 0.1
    assert abs(rewards.std() - 1) < 0.1


@pytest.mark.parametrize(
    "mdp",
    [
        models.grid(4, 5, slip=0.2),
        models.garnet(15, 3, 4),
        models.chain(8),
        MDP(np.full((3, 1, 3), 1 / 3), np.arange(3.0)[:, None], 0.9),
    ],
)
def test_renumbering_keeps_the_values(mdp):
    other = models.renumbered(mdp, seed=2)
    assert_valid(other)
    new = np.random.default_rng(2).permutation(mdp.num_states)
    np.testing.assert_allclose(solve(other).v[new], solve(mdp).v, atol=3e-6)
    np.testing.assert_array_equal(other.rewards[new], mdp.rewards)
    np.testing.assert_array_equal(other.terminal[new], mdp.terminal)
    assert (models.renumbered(mdp, seed=2).rewards == other.rewards).all()


def test_renumbering_keeps_missing_actions():
    mdp = oracles.random_mdp(np.random.default_rng(4))
    assert not mdp.available.all()
    other = models.renumbered(mdp)
    assert other.available.sum() == mdp.available.sum()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.chain(0), "length: expected an integer >= 1, got 0"),
        (lambda: models.grid(0, 3), "height: expected an integer >= 1, got 0"),
        (lambda: models.grid(3, 3, slip=1.5), "slip: expected a number in .0, 1., got 1.5"),
        (lambda: models.grid(3, 3, goal=(3, 0)), r"goal: \(3, 0\) lies outside 3 x 3"),
        (lambda: models.grid(3, 3, goal=(-1, 0)), r"goal: \(-1, 0\) lies outside 3 x 3"),
        (lambda: models.grid(2, 2, walls=np.ones((2, 2), bool)), "goal: it is a wall"),
        (lambda: models.grid(2, 2, walls=np.ones((3, 2), bool)), r"walls: expected bool \[2, 2\]"),
        (lambda: models.grid(2, 2, holes=np.ones((2, 2))), r"holes: expected bool \[2, 2\]"),
        (lambda: models.garnet(5, 2, 0), "branching: expected an integer from 1 to 5, got 0"),
        (lambda: models.garnet(5, 2, 6), "branching: expected an integer from 1 to 5, got 6"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()

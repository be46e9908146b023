"""TabularAgent on Gymnasium environments: learning, limits, seeds, files, and what it refuses."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import greedystep as gs
from greedystep import tabular
from greedystep.tabular import StochasticityWarning

LAKE = {"map_name": "4x4", "is_slippery": False}


class Corridor(gym.Env):
    """Right from `first` to the end pays 1; numbers begin where they like, and nothing is random."""

    def __init__(self, length=4, first=0, first_action=0):
        self.observation_space = gym.spaces.Discrete(length, start=first)
        self.action_space = gym.spaces.Discrete(2, start=first_action)
        self.first, self.first_action, self.length, self.fail_at = first, first_action, length, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self.first, {}

    def step(self, action):
        self.steps += 1
        if self.fail_at is not None and self.steps == self.fail_at:
            raise KeyboardInterrupt
        assert self.action_space.contains(action)
        self.place = max(0, self.place + (1 if action == self.first_action + 1 else -1))
        over = self.place == self.length
        return self.first + (0 if over else self.place), float(over), over, False, {}


def lake(**options):
    return gym.make("FrozenLake-v1", **(LAKE | options))


def test_it_solves_a_lake_without_chance():
    agent = gs.TabularAgent(lake(), epsilon=0.5, seed=1)
    learned = agent.learn(3000)
    assert agent.evaluate().mean == 1.0
    assert agent.evaluate(5, discount=0.99).mean == pytest.approx(0.99**5)
    assert learned.returns.shape == learned.lengths.shape == (3000,)
    assert learned.lengths.max() <= 100
    truth = gs.solve(gs.MDP.from_gymnasium("FrozenLake-v1", **LAKE)).v[0]
    assert agent.q[0].max() == pytest.approx(truth)


def test_on_ice_the_model_finds_the_true_values():
    agent = gs.TabularAgent("FrozenLake-v1", "model", epsilon=1.0, seed=3)
    agent.learn(4000)
    truth = gs.solve(gs.MDP.from_gymnasium("FrozenLake-v1")).v[0]
    assert agent.q[0].max() == pytest.approx(truth, rel=0.2)


def test_on_ice_greedy_step_warns():
    with pytest.warns(StochasticityWarning, match="of state 0 led to state"):
        gs.TabularAgent("FrozenLake-v1").learn(50)


def test_it_learns_what_a_replay_of_its_episodes_teaches():
    agent = gs.TabularAgent(Corridor(), "watkins", limit=7, discount=0.9, alpha=0.5, seed=5)
    other = gs.TabularAgent(Corridor(), "watkins", limit=7, discount=0.9, alpha=0.5, seed=5)
    q, random = np.zeros((4, 2)), np.random.default_rng(5)
    for _ in range(20):
        log = other.task.epsilon_greedy_episode(q, 0.2, random)
        assert len(log.actions) <= 7
        q = tabular.replay(log, q, "watkins", discount=0.9, alpha=0.5)
    agent.learn(20)
    np.testing.assert_array_equal(agent.q, q)


@pytest.mark.parametrize("numbers", [{}, {"first": 5}, {"first": -2, "first_action": 3}])
def test_numbers_that_do_not_begin_at_zero(numbers):
    agent = gs.TabularAgent(Corridor(**numbers), limit=50, epsilon=0.5)
    agent.learn(200)
    np.testing.assert_array_equal(agent.predict(np.arange(4)), 1)
    assert agent.evaluate().mean == 1.0


def test_a_cut_is_not_an_end():
    agent = gs.TabularAgent(Corridor(length=30), "q-learning", limit=1, alpha=1.0, q=7.0, epsilon=1.0, discount=0.5)
    agent.learn(50)
    np.testing.assert_array_equal(agent.q[0], [1.75, 3.5])  # state 1 keeps its 7, worth γ · 7 here; action 0 stays here
    log = agent.task.epsilon_greedy_episode(agent.q, 1.0, np.random.default_rng(0))
    assert not log.terminated[0]


@pytest.mark.parametrize("method", ["greedy-step", "q-learning", "model", "retrace"])
@pytest.mark.filterwarnings("ignore::greedystep.tabular.StochasticityWarning")
def test_a_saved_agent_goes_on_as_if_it_had_not_been_stopped(method, tmp_path):
    agent = gs.TabularAgent("FrozenLake-v1", method, seed=7, epsilon=0.3, discount=0.9, limit=30)
    agent.learn(10)
    agent.save(tmp_path / "agent.npz")
    agent.evaluate(3)  # must not be noticed
    again: Any = gs.TabularAgent.load(tmp_path / "agent.npz")
    assert (again.discount, again.task.limit, again.episodes) == (0.9, 30, 10)
    for one, other in zip(agent.learn(20)[:3], again.learn(20)[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_seed_decides_everything():
    runs = [gs.TabularAgent("FrozenLake-v1", "q-learning", seed=seed).learn(30) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].lengths, runs[1].lengths)
    assert not np.array_equal(runs[0].lengths, runs[2].lengths)


def test_an_environment_that_was_given_is_given_to_load(tmp_path):
    agent = gs.TabularAgent(Corridor(), limit=9)
    agent.learn(30)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="which has to be given to load it"):
        gs.TabularAgent.load(tmp_path / "agent.npz")
    again = gs.TabularAgent.load(tmp_path / "agent.npz", Corridor())
    assert again.task.limit == 9  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(again.q, agent.q)
    with pytest.raises(ValueError, match=r"q: expected one number or \[6, 2\]"):
        gs.TabularAgent.load(tmp_path / "agent.npz", Corridor(length=6))


def test_an_interruption_keeps_the_finished_episodes():
    env = Corridor()
    agent = gs.TabularAgent(env, limit=9, q=-1.0, epsilon=1.0)
    agent.learn(5)
    env.fail_at = 9  # pyright: ignore[reportAttributeAccessIssue] some episodes are shorter than that
    with pytest.raises(KeyboardInterrupt):
        agent.learn(500)
    same = gs.TabularAgent(Corridor(), limit=9, q=-1.0, epsilon=1.0)
    same.learn(agent.episodes)
    assert agent.episodes >= 5
    np.testing.assert_array_equal(agent.q, same.q)


def test_logs_of_gymnasium_are_fitted():
    agent = gs.TabularAgent(Corridor(), limit=50)
    agent.fit([gs.Trajectory([0, 1, 2, 3, 0], [1] * 4, [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0])])
    assert agent.expected_return() == pytest.approx(0.99**3)


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("CartPole-v1", {}, "env: CartPole-v1 has the observation space Box.*; a table needs a Discrete one"),
        ("Nothing-v0", {}, "env: gymnasium cannot make 'Nothing-v0'"),
        ("minatar/breakout", {}, "env: minatar/breakout has array observations; a table needs numbered states"),
        (3, {}, "env: expected a name, a toy task or a Gymnasium environment, got int"),
        ("toy/choice", {"limit": 5}, "limit: toy/choice has its own, got 5"),
        ("toy/choice", {"discount": 0.5}, "discount: toy/choice has its own, got 0.5"),
        ("FrozenLake-v1", {"limit": 0}, "limit: expected an integer >= 1, got 0"),
        ("FrozenLake-v1", {"discount": 0.0}, r"discount: expected a number in \(0, 1\], got 0.0"),
    ],
)
def test_bad_arguments_are_answered_by_one_sentence(env, options, message):
    with pytest.raises(ValueError, match=message):
        gs.TabularAgent(env, **options)


def test_an_environment_that_may_never_end_wants_a_limit():
    with pytest.raises(ValueError, match=r"limit: .* has no time limit, so an episode may never end"):
        gs.TabularAgent(Corridor())
    gs.TabularAgent(gym.wrappers.TimeLimit(Corridor(), 10)).learn(1)


def test_a_continuous_action_space_is_refused():
    env = Corridor()
    env.action_space = gym.spaces.Box(-1, 1)
    with pytest.raises(ValueError, match="has the action space Box"):
        gs.TabularAgent(env, limit=5)


def test_an_environment_that_leaves_its_space_is_reported():
    env = Corridor()
    env.observation_space = gym.spaces.Discrete(2)
    with pytest.raises(ValueError, match=r"returned observation 2, which is not in Discrete\(2\)"):
        gs.TabularAgent(env, limit=50, epsilon=1.0).learn(50)


def test_a_toy_task_is_played_and_valued_exactly():
    agent = gs.TabularAgent(gs.envs.make("toy/choice", delay=5, noise=0.5), "model", seed=1)
    agent.learn(200)
    q, played = agent.q.copy(), agent.evaluate(400, seed=3)
    assert isinstance(played, gs.Evaluation)
    assert played.lengths.tolist() == [5] * 400
    assert not played.unfinished.any()
    assert played.mean == pytest.approx(agent.expected_return(), abs=4 * played.returns.std() / 20)
    assert agent.evaluate(400, epsilon=1.0).mean < played.mean
    np.testing.assert_array_equal(played.returns, agent.evaluate(400, seed=3).returns)
    np.testing.assert_array_equal(agent.q, q)

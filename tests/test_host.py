"""Agents in Gymnasium environments that step on the host: what is stored, and that numbers stay the same."""

import re
import subprocess
import sys
import textwrap
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from host_games import TINY, Counting, Odd, networks_equal, stored

import greedystep as gs
from greedystep.deep.config import DQNConfig
from greedystep.deep.host_loop import HostLoop
from greedystep.deep.trainer import Trainer
from greedystep.envs import host_envs
from greedystep.envs.host import HostEnvironment

# -- what is stored ----------------------------------------------------------------------------------------------------


class OneSeed(SyncVectorEnv):
    """Takes one seed for all environments, as Gymnasium's own vector environments do."""

    unwrapped: Any = property(lambda self: VectorEnv())  # not one of the two that are known to take several

    def reset(self, *, seed=None, options=None):
        if not isinstance(seed, int | None):
            raise gymnasium.error.Error("Seed must be a python integer")
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_that_takes_one_seed_for_all(mode):
    agent = gs.DQN(make_vec=lambda: OneSeed([Counting] * 2, autoreset_mode=mode), **TINY | {"num_envs": 2})
    agent.learn(80)
    assert agent.evaluate(4).lengths.min() >= 3
    for seen, *_, then in stored(agent):
        assert then.tolist() == [seen[0], seen[1] + 1]


def test_the_vector_environments_of_gymnasium_itself():
    agent = gs.DQN(make_vec=lambda: gymnasium.make_vec("CartPole-v1", 2), **TINY | {"num_envs": 2})
    agent.learn(40)
    assert agent.evaluate(2).lengths.min() > 1
    vector = gymnasium.make_vec("CartPole-v1", 2)
    assert gs.evaluate_policy(lambda seen: np.zeros(len(seen), int), vector, 2)[0] > 1


def test_functions_of_vector_environments_that_fail():
    for make_vec, message in {
        (lambda: 1 / 0): "^make_vec raised ZeroDivisionError: division by zero$",
        "CartPole-v1": "^make_vec: expected a function that makes a vector environment, got 'CartPole-v1'$",
    }.items():
        with pytest.raises(ValueError, match=message):
            gs.DQN(make_vec=make_vec, **TINY)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_only_real_steps_are_stored_in_every_reset_mode(mode):
    made = [Counting() for _ in range(3)]
    agent = gs.DQN(
        SyncVectorEnv([lambda env=env: env for env in made], autoreset_mode=mode),
        **TINY | {"num_envs": 3, "warmup": 42, "target_period": 21, "log_every": 42, "replay_size": 399},
    )
    agent.learn(126)
    steps = stored(agent)
    taken = sum(len(env.actions) for env in made)
    assert len(steps) == taken - 3  # the newest one of each environment is still to be learned from
    assert taken == 126 if mode != AutoresetMode.NEXT_STEP else 90 < taken < 120
    for seen, _, reward, terminated, truncated, then in steps:
        episode, t = seen
        assert then.tolist() == [episode, t + 1]  # never the first observation of another episode
        assert reward == t + 1
        over = t + 1 == 3 + episode % 3
        assert (terminated, truncated) == (over and episode % 2 == 0, over and episode % 2 == 1)


def test_a_step_that_only_resets_is_no_episode_where_episodes_are_cut():
    vector = SyncVectorEnv([Counting], autoreset_mode=AutoresetMode.NEXT_STEP)
    agent = gs.DQN(vector, **TINY | {"warmup": 1, "target_period": 1, "log_every": 1, "batch_size": 1})
    ended = 0
    for _ in range(60):
        (row,) = agent.trainer.run(1)
        ended += row["episodes"] * (row["episode_length"] or 0)
        agent.trainer.cut_episodes()
    assert 20 < len(stored(agent)) < 60
    assert ended <= len(stored(agent))


def test_actions_are_counted_from_the_start_of_their_space_and_every_episode_has_a_seed_of_its_own():
    env = Counting()
    agent = gs.DQN(env, **TINY)
    agent.learn(100)
    actions = [int(action) + 5 for _, action, *_ in stored(agent)]
    assert actions == env.actions[:-1]
    assert set(actions) == {5, 6}
    assert len(set(env.seeds)) == len(env.seeds) > 20


# -- exactness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"returns": "lambda", "ensemble": 2, "num_envs": 2}])
def test_a_saved_training_continues_bit_for_bit(tmp_path, settings):
    whole = gs.DQN("CartPole-v1", **TINY | settings)
    whole.learn(130)  # in the middle of a chunk, of a period and of an episode
    whole.save(tmp_path / "agent")
    part = gs.load(tmp_path / "agent")
    rows = [agent.learn(110)[-1] for agent in (whole, part)]
    assert networks_equal(whole, part)
    assert whole.steps == part.steps == 240
    assert rows[0]["loss"] == rows[1]["loss"]
    at_once = gs.DQN("CartPole-v1", **TINY | settings)
    at_once.learn(240)
    assert networks_equal(whole, at_once)


def test_processes_give_the_same_numbers_and_need_no_guard_in_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import gymnasium, jax, numpy as np, greedystep as gs
        def make():
            return gymnasium.make("CartPole-v1")
        agents = [gs.DQN(make, num_envs=2, vectorization=how, **{TINY!r}) for how in ("sync", "async")]
        for agent in agents:
            agent.learn(120)
        pairs = zip(*(jax.tree.leaves(agent.networks) for agent in agents))
        print(all(np.array_equal(a, b) for a, b in pairs))
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("together", [False, True])  # together: as on a GPU
def test_a_lane_does_not_depend_on_the_others(monkeypatch, together, on_host):
    monkeypatch.setattr(HostLoop, "acts_on_host", on_host)
    config = DQNConfig(**TINY | {"returns": "lambda", "ensemble": 2})
    alone = Trainer(config, HostEnvironment("CartPole-v1"), [8])
    if together:
        monkeypatch.setattr(HostLoop, "lanes_together", [slice(0, 2)])
    both = Trainer(config, HostEnvironment("CartPole-v1"), [3, 8])
    rows = both.run(120)[-1]
    one = both.alone(1)
    both.run(60)
    monkeypatch.undo()
    monkeypatch.setattr(HostLoop, "acts_on_host", on_host)
    assert alone.run(120)[-1]["episode_return"] == rows["episode_return"]
    for trained in (alone, one):
        trained.run(60)
        for a, b in zip(jax.tree.leaves(both.params), jax.tree.leaves(trained.params), strict=True):
            if together:
                np.testing.assert_allclose(a[1], b[0], rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(a[1], b[0])


def test_an_interrupt_ends_a_chunk_early_and_nothing_is_lost():
    class Interrupting(Counting):
        def step(self, action):
            if len(self.actions) == 57:
                waiting.append(1)
            return super().step(action)

    waiting, env = [], Interrupting()
    trainer = Trainer(DQNConfig(**TINY), HostEnvironment(env))
    lanes = trainer.loop.begin(trainer.state.lanes)
    lanes, _, rounds = trainer.loop.run(0, lanes, trainer.hyperparams, 100, stop=waiting)
    assert rounds == len(env.actions) == 58
    waiting.clear()
    trainer.loop.run(58, lanes, trainer.hyperparams, 42)
    assert len(env.actions) == 100


def test_an_environment_that_is_not_deterministic_begins_new_episodes_with_a_warning(tmp_path):
    count = iter(range(10**6))
    agent = gs.DQN(Odd(seen=lambda t: np.array([next(count) / 1e6], np.float32)), **TINY)
    agent.learn(100)
    agent.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", Odd(seen=lambda t: np.array([next(count) / 1e6], np.float32)))
    with pytest.warns(RuntimeWarning, match="cannot be brought back to where it was"):
        again.learn(40)
    steps = stored(again)
    assert [truncated for *_, truncated, _ in steps[95:100]] == [False, False, True, False, True]  # 98 and the cut one


def test_new_episodes_begin_where_a_vector_environment_resets_itself(tmp_path):
    def vector():
        return SyncVectorEnv([Counting] * 2, autoreset_mode=AutoresetMode.SAME_STEP)

    settings = TINY | {"num_envs": 2}
    agent = gs.DQN(vector(), **settings)
    agent.learn(80)
    agent.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", vector())
    with pytest.warns(RuntimeWarning, match="cannot be brought back"):
        again.learn(40)
    assert set(again.evaluate(6).lengths) == {3, 4, 5}  # whole episodes, of those that it begins itself
    assert again.learn(40)[-1]["episodes"] > 6
    stopped = again.evaluate(6, limit=3)
    assert stopped.lengths.tolist() == [3] * 6
    assert 0 < stopped.unfinished.sum() < 6
    assert again.evaluate(3, env=Counting).lengths.tolist() == [4, 4, 4]  # the first episode of each environment


class Endless(gymnasium.Env):
    """Episodes that never end."""

    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_evaluation_stops_where_no_episode_ends_and_environments_reset_themselves(mode):
    agent = gs.DQN(SyncVectorEnv([Endless] * 2, autoreset_mode=mode), **TINY)
    found = agent.evaluate(5, limit=10)
    assert found.lengths.tolist() == [10] * 5
    assert found.returns.tolist() == [10] * 5
    assert found.unfinished.all()


def test_the_actions_of_an_endless_episode_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(host_envs, "MOST_ACTIONS", 50)
    agent = gs.DQN(Endless, **TINY)
    agent.learn(40)
    assert len(agent.trainer.loop.envs.state["actions"][0]) == 40
    agent.learn(40)
    assert agent.trainer.loop.envs.state == {"episodes": [1], "actions": [None]}
    agent.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", Endless)
    with pytest.warns(RuntimeWarning, match="cannot be brought back to where it was .* steps in an episode"):
        again.learn(40)
    assert again.trainer.loop.envs.state["episodes"] == [2]
    assert [truncated for *_, truncated, _ in stored(again)].index(True) == 79


# -- speed: what may not change the numbers ----------------------------------------------------------------------------


def test_actions_of_the_host_are_those_of_the_compiled_program_and_the_replay_buffer_is_not_copied(monkeypatch):
    replays, texts = [], []
    for on_host in (True, False):
        monkeypatch.setattr(HostLoop, "acts_on_host", on_host)
        agent = gs.DQN("CartPole-v1", **TINY | {"epsilon_steps": 60, "replay_size": 8_777})
        loop: Any = agent.trainer.loop
        learn = loop._learn[True]

        def spied(*args, learn=learn):
            if not texts:
                texts.append(learn.lower(*args).compile().as_text())
            return learn(*args)

        loop.__dict__["_learn"] = {True: spied, False: loop._learn[False]}
        agent.learn(90)
        replays.append(agent.trainer.state.lanes.replay)
    for ours, theirs in zip(*replays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "8777" in texts[0]
    assert not re.search(r"= \w+\[[\d,]*8777[\d,]*\]\S* copy\(", texts[0])

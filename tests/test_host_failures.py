"""Environments on the host that are closed, or that fail while an agent learns or plays in them."""

import warnings
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from host_games import TINY, Counting, networks_equal, stored

import greedystep as gs
from greedystep.deep import evaluator as evaluator_module
from greedystep.deep.dqn_run import DQNRun, DQNRunConfig
from greedystep.deep.evaluator import KEPT, Evaluator
from greedystep.envs.gymnasium_rules import EnvironmentFailedError

# -- closing -----------------------------------------------------------------------------------------------------------


class Closing(Counting):
    """Counts the environments that are open; episodes are determined by their seeds."""

    is_open = 0

    def __init__(self):
        super().__init__()
        Closing.is_open += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = int(self.np_random.integers(100))
        return np.array([self.episode, 0.0]), {}

    def close(self):
        Closing.is_open -= 1


def test_an_agent_closes_the_environments_that_it_made_and_can_go_on_bit_for_bit(monkeypatch):
    monkeypatch.setattr(Closing, "is_open", 0)
    with gs.DQN(Closing, **TINY, num_envs=2) as agent:
        assert Closing.is_open == 1  # whose spaces were read
        agent.learn(101)
        agent.evaluate(2)
        assert Closing.is_open == 2
        agent.learn(0, eval_env=lambda: Closing())
        assert Closing.is_open == 3
    assert Closing.is_open == 0
    unbroken = gs.DQN(Closing, **TINY, num_envs=2)
    unbroken.learn(101)
    for one in (agent, unbroken):
        one.learn(40)
        one.close()
    assert networks_equal(agent, unbroken)
    assert Closing.is_open == 0


def test_an_agent_leaves_given_environments_open_but_not_those_of_make_vec(monkeypatch):
    monkeypatch.setattr(Closing, "is_open", 0)
    for env in (Closing(), SyncVectorEnv([Closing], autoreset_mode=AutoresetMode.DISABLED)):
        before = Closing.is_open
        with gs.DQN(env, **TINY) as agent:
            agent.learn(40)
        assert Closing.is_open == before
        env.close()
    with gs.DQN(make_vec=lambda: SyncVectorEnv([Closing] * 2), **TINY, num_envs=2) as agent:
        agent.learn(40)
    assert Closing.is_open == 0


def test_a_run_closes_its_environments(tmp_path, monkeypatch):
    monkeypatch.setattr(Closing, "is_open", 0)
    gymnasium.register("test/Closing-v0", Closing, disable_env_checker=True)
    config = DQNRunConfig.from_preset("test/Closing-v0", steps=40, **TINY)
    run = DQNRun.start(tmp_path, config)
    list(run.train())
    run.close()
    assert Closing.is_open <= 1  # the one from which the settings followed
    gymnasium.registry.pop("test/Closing-v0")


def test_evaluators_of_several_environments_are_kept_and_those_dropped_are_closed(monkeypatch):
    monkeypatch.setattr(Closing, "is_open", 0)
    agent, made = gs.DQN(Counting, **TINY), []
    monkeypatch.setattr(evaluator_module, "Evaluator", lambda *how: made.append(how) or Evaluator(*how))
    envs = [partial(Closing) for _ in range(KEPT)]
    for _ in range(3):
        for env in envs:
            agent.evaluate(1, env=env)
    assert len(made) == KEPT
    for _ in range(3):
        agent.learn(0, eval_env=partial(Closing))
    assert Closing.is_open == 3  # they have not played yet
    for env in envs:
        agent.evaluate(1, env=env)
    assert Closing.is_open == 0
    agent.close()


# -- environments that fail --------------------------------------------------------------------------------------------


class Failing(Counting):
    """Raises `problem` once, in its 151st step; gives NaN instead if there is none. Its name is that of a Counting."""

    spec: Any = SimpleNamespace(id="Counting")

    def __init__(self, problem=None):
        super().__init__()
        self.problem, self.has_failed = problem, False

    def step(self, action):
        if len(self.actions) == 150 and not self.has_failed:
            self.has_failed = True
            if self.problem is None:
                return np.array([np.nan, 0.0]), 0.0, False, False, {}
            raise self.problem
        return super().step(action)


def assert_whole_episodes(agent):
    """Every stored step leads to the next observation of its episode, and the last one before a gap is truncated."""
    steps = stored(agent)
    for seen, *_, then in steps:
        assert then.tolist() == [seen[0], seen[1] + 1]
    for (*_, terminated, truncated, then), (seen, *_) in pairwise(steps):
        assert (terminated or truncated) != np.array_equal(then, seen)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (ZeroDivisionError("no simulator"), "^env: step of Counting raised ZeroDivisionError: no simulator$"),
        (SystemExit(3), "^env: step of Counting raised SystemExit: 3$"),
        (None, "^env: Counting returned an observation that is not finite: .*nan"),
    ],
)
def test_an_environment_that_fails_loses_nothing_learned(tmp_path, problem, message):
    env, rows = Failing(problem), []
    agent = gs.DQN(env, **TINY)
    with pytest.raises(EnvironmentFailedError, match=message) as told:
        agent.learn(400, callback=lambda agent, new: rows.extend(new))
    assert told.value.__cause__ is problem
    assert [row["step"] for row in rows] == [40, 80, 120, 150]
    assert (agent.steps, len(stored(agent))) == (150, 150)
    assert stored(agent)[-1][4]  # truncated
    before = agent.networks
    agent.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", Counting())
    assert networks_equal(again, agent)
    assert agent.evaluate(2).lengths.min() >= 3  # in the same environment
    assert jax.tree.all(jax.tree.map(np.array_equal, before, agent.networks))
    episode = env.episode
    for one in (agent, again):
        assert one.learn(100)[-1]["step"] == 250
        assert_whole_episodes(one)
        assert len(stored(one)) == 249
    assert stored(agent)[150][0].tolist() == [episode + 1, 0]


def test_a_training_goes_on_bit_for_bit_after_a_failure_as_its_file_does(tmp_path):
    class Broken(gymnasium.Wrapper):
        def step(self, action):
            if broken:
                broken.clear()
                raise OSError("lost")
            return super().step(action)

    def make():
        return Broken(gymnasium.make("CartPole-v1"))

    broken, agent = [], gs.DQN(make, num_envs=2, **TINY | {"returns": "lambda", "ensemble": 2})
    agent.learn(120)
    broken.append(1)
    with pytest.raises(EnvironmentFailedError, match=r"^env: step of CartPole-v1 raised OSError: lost$"):
        agent.learn(120)
    assert agent.steps == 120
    agent.save(tmp_path / "agent")
    again = gs.load(tmp_path / "agent", make)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # episodes that have ended need not be replayed
        rows = [one.learn(120)[-1] for one in (agent, again)]
    assert rows[0]["loss"] == rows[1]["loss"]
    assert networks_equal(agent, again)


def test_a_failure_in_a_reset_is_named_and_the_next_call_begins_anew():
    class NoReset(Counting):
        def reset(self, *, seed=None, options=None):
            if self.episode == fails_at:
                raise RuntimeError("no level")
            return super().reset(seed=seed)

    fails_at, agent = 0, gs.DQN(NoReset(), **TINY)
    with pytest.raises(EnvironmentFailedError, match=r"^env: reset of NoReset raised RuntimeError: no level$"):
        agent.learn(100)
    assert agent.steps == 0
    fails_at = 10
    with pytest.raises(EnvironmentFailedError, match=r"^env: reset of NoReset raised RuntimeError: no level$"):
        agent.learn(100)
    assert 30 < agent.steps < 50
    fails_at = -1
    agent.learn(100)
    assert_whole_episodes(agent)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environment_that_fails_loses_nothing_learned(mode):
    vector = SyncVectorEnv([Counting, lambda: Failing(OSError("lost"))], autoreset_mode=mode)
    agent = gs.DQN(vector, **TINY | {"num_envs": 2})
    with pytest.raises(EnvironmentFailedError, match=r"^env: step of SyncVectorEnv raised OSError: lost$"):
        agent.learn(800)
    assert agent.steps % 2 == 0
    before = len(stored(agent))
    assert before > 200
    agent.learn(100)
    assert len(stored(agent)) > before
    for seen, *_, then in stored(agent):
        assert then.tolist() == [seen[0], seen[1] + 1]


@pytest.mark.filterwarnings("ignore:.*ERROR")  # what Gymnasium says about the process
@pytest.mark.parametrize(
    ("problem", "message"),
    [(OSError("lost"), "OSError: lost"), (SystemExit(1), r"\w+Error.*; one of its processes has ended")],
)
def test_a_process_that_fails_is_replaced(problem, message):
    class Dies(Counting):
        def step(self, action):
            if self.t == 2 and self.episode == 20:
                raise problem
            return super().step(action)

    agent = gs.DQN(Dies, num_envs=2, vectorization="async", **TINY)
    with pytest.raises(EnvironmentFailedError, match=f"^env: step of Dies raised {message}$"):
        agent.learn(800)
    before = agent.steps
    assert before > 100
    agent.learn(40)
    assert agent.steps == before + 40
    agent.trainer.loop.abandon()


@pytest.mark.filterwarnings("ignore:.*ERROR")  # what Gymnasium says about the process
def test_a_given_vector_environment_whose_process_fails_ends_without_a_noise():
    vector = AsyncVectorEnv([partial(Failing, OSError("lost"))] * 2, context="spawn")
    agent = gs.DQN(vector, **TINY | {"num_envs": 2})
    with pytest.raises(EnvironmentFailedError, match=r"^env: step of AsyncVectorEnv raised OSError: lost$"):
        agent.learn(800)
    assert vector.closed  # its finalizer would wait for the process that is not there any more, and raise
    assert not any(process.is_alive() for process in vector.processes)
    with pytest.raises(EnvironmentFailedError, match="raised ClosedEnvironmentError"):
        agent.learn(40)


def test_an_evaluation_that_fails_in_the_given_environment_ends_the_running_episode():
    env = Failing(OSError("lost"))
    agent = gs.DQN(env, **TINY)
    agent.learn(140)
    with pytest.raises(EnvironmentFailedError, match=r"^env: step of Counting raised OSError: lost$"):
        agent.evaluate(20)
    agent.learn(60)
    assert_whole_episodes(agent)

"""Agents in Gymnasium environments that step on the host."""

import re
import subprocess
import sys
import textwrap
import warnings
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from minari.data_collector import EpisodeBuffer

import greedystep as gs
from greedystep import io, minari_store
from greedystep.deep import agent as agent_module
from greedystep.deep import host_loop
from greedystep.deep.agent import OTHER_ENVS
from greedystep.deep.collect import collect
from greedystep.deep.config import DQNConfig
from greedystep.deep.divergence import UnreachableValueWarning, unreachable_value
from greedystep.deep.dqn_run import DQNRun, DQNRunConfig
from greedystep.deep.env_spec import make_from_spec, spec_of
from greedystep.deep.evaluator import Evaluator
from greedystep.deep.host_loop import HostLoop
from greedystep.deep.networks import MLP
from greedystep.deep.trainer import Trainer
from greedystep.envs import host_envs
from greedystep.envs.gymnasium_rules import EnvironmentFailedError
from greedystep.envs.host import HostEnvironment, LoggedEnvironment
from greedystep.envs.observation_spec import ObservationSpec
from greedystep.envs.space_json import space_from_json, space_to_json

TINY = {
    "returns": "one-step",
    "hidden": (4,),
    "replay_size": 400,
    "batch_size": 4,
    "warmup": 40,
    "target_period": 20,
    "epsilon_steps": 100,
    "log_every": 40,
}


class Counting(gymnasium.Env):
    """Observations [number of the episode, step]; the reward of a step is its number; ends after 3, 4 or 5 steps.

    Episodes terminate and are truncated in turn. `seeds` is what reset was called with.
    """

    observation_space = spaces.Box(0, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self):
        self.episode, self.t, self.seeds, self.actions = 0, 0, [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self.seeds.append(seed)
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        assert action in self.action_space
        self.actions.append(int(action))
        self.t += 1
        over = self.t == 3 + self.episode % 3
        ends = over and self.episode % 2 == 0
        return np.array([self.episode, float(self.t)]), float(self.t), ends, over and not ends, {}


class Odd(gymnasium.Env):
    """An environment whose spaces, observations and rewards are given."""

    def __init__(self, observation_space=None, seen=(0.0,), reward=1.0, action_space=None, ends=False):
        self.observation_space = spaces.Box(-1, 1, (1,)) if observation_space is None else observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self.seen, self.reward, self.ends, self.t = seen, reward, ends, 0

    def _observation(self):
        return self.seen(self.t) if callable(self.seen) else np.array(self.seen, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observation(), {}

    def step(self, action):
        self.t += 1
        return self._observation(), self.reward, self.ends, self.t == 7, {}


class Four(Odd):
    def step(self, action):
        return super().step(action)[:4]


class OldReset(Odd):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


def networks_equal(one, other):
    pairs = zip(jax.tree.leaves(one.networks), jax.tree.leaves(other.networks), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def stored(agent):
    """Return the stored steps: (observation, action, reward, terminated, truncated, next observation) each."""
    buffer, replay = agent.trainer.loop.buffer, jax.tree.map(lambda x: x[0], agent.trainer.state.lanes.replay)
    index = buffer.step_index(replay, np.arange(int(buffer.num_steps(replay).sum())))
    rows, after = buffer.read(replay, index), buffer.ahead(index, 1)
    seen, then = (np.asarray(buffer.observations(replay, at)) for at in (index, after))
    return list(zip(seen, rows.action, rows.reward, rows.terminated, rows.truncated, then, strict=True))


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


def test_a_lane_does_not_depend_on_the_others():
    config = DQNConfig(**TINY)
    both = Trainer(config, HostEnvironment("CartPole-v1"), [3, 8])
    alone = Trainer(config, HostEnvironment("CartPole-v1"), [8])
    rows = both.run(120)[-1]
    assert alone.run(120)[-1]["episode_return"] == rows["episode_return"]
    for a, b in zip(jax.tree.leaves(both.params), jax.tree.leaves(alone.params), strict=True):
        np.testing.assert_allclose(a[1], b[0], rtol=1e-5, atol=1e-6)
    one = both.alone(1)
    both.run(60)
    one.run(60)
    for a, b in zip(jax.tree.leaves(both.params), jax.tree.leaves(one.params), strict=True):
        np.testing.assert_allclose(a[1], b[0], rtol=1e-5, atol=1e-6)


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
    monkeypatch.setattr(agent_module, "Evaluator", lambda *how: made.append(how) or Evaluator(*how))
    envs = [partial(Closing) for _ in range(OTHER_ENVS)]
    for _ in range(3):
        for env in envs:
            agent.evaluate(1, env=env)
    assert len(made) == OTHER_ENVS
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


# -- kinds of environments and observations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Discrete(5, start=2), (), "int32"),
        (spaces.MultiBinary(3), (3,), "int8"),
        (spaces.MultiDiscrete([2, 3]), (5,), "int32"),
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}), (5,), "float32"),
        (spaces.Tuple([spaces.Box(-1, 1, (2, 2), np.float64), spaces.MultiBinary(2)]), (6,), "float32"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), (8, 8, 3), "uint8"),
        (spaces.Box(0, 1, (4,), bool), (4,), "bool"),
    ],
)
def test_observations_of_every_space_that_can_be_flattened(space, shape, dtype):
    space.seed(0)
    agent = gs.DQN(lambda: Odd(space, seen=lambda t: space.sample()), num_envs=2, **TINY)
    assert (agent.env.observation.shape, str(agent.env.observation.dtype)) == (shape, dtype)
    agent.learn(60)
    assert agent.evaluate(3).lengths.tolist() == [7, 7, 7]


def test_integers_that_may_not_fit_into_32_bits_are_stored_as_floats():
    wide = spaces.Box(0, 2**60, (2,), np.int64)
    agent = gs.DQN(lambda: Odd(wide, seen=lambda t: np.array([2**60, 2**40 + t])), **TINY)
    assert agent.env.observation.dtype == np.float32
    agent.learn(40)
    assert {float(seen[0]) for seen, *_ in stored(agent)} == {2.0**60}
    assert gs.DQN(lambda: Odd(spaces.Box(0, 9, (2,), np.uint32)), **TINY).env.observation.dtype == np.int32
    assert gs.DQN(lambda: Odd(spaces.Box(0, 2**32 - 1, (2,), np.uint32)), **TINY).env.observation.dtype == np.float32


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary([2, 2])])
def test_predict_flattens_several_numbers_as_training_does(space):
    space.seed(0)
    agent = gs.DQN(lambda: Odd(space, seen=lambda t: space.sample()), **TINY)
    agent.learn(60)
    one, other = space.sample(), space.sample()
    expected = agent.values(np.stack([spaces.flatten(space, one), spaces.flatten(space, other)]))
    np.testing.assert_allclose(agent.values(one), expected[0], rtol=1e-5)
    np.testing.assert_allclose(agent.values(np.stack([one, other])), expected, rtol=1e-5)
    assert isinstance(agent.predict(one), int)


def test_a_vector_environment_with_observations_of_several_parts():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Tuple([spaces.Discrete(3)])})

    def make():
        return Odd(space, seen=lambda t: {"a": np.full(2, t / 7, np.float32), "b": (t % 3,)})

    agent = gs.DQN(SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.SAME_STEP), **TINY)
    agent.learn(80)
    for seen, *_, then in stored(agent):
        assert np.isclose(then[0], seen[0] + 1 / 7)
        assert then[2:].sum() == 1


def test_an_observation_is_flattened_as_gymnasium_does():
    space = spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(-1, 1, (2,))})
    env = HostEnvironment(Odd(space, seen=lambda t: {"a": np.array([0.5, -0.5], np.float32), "b": 2}))
    assert env.open(1).reset([(0, 0)]).tolist() == [[0.5, -0.5, 0, 0, 1]]


@pytest.mark.parametrize("play", [lambda agent: agent.evaluate(2).returns, lambda agent: collect(agent.trainer, 2)])
def test_playing_in_the_given_environment_truncates_the_running_episode(play):
    agent = gs.DQN(Counting(), **TINY)
    agent.learn(102)
    assert len(play(agent)) == 2
    agent.learn(40)
    for seen, *_, then in stored(agent):
        assert then.tolist() == [seen[0], seen[1] + 1]


class Parts(gymnasium.Env):
    """Dict observations with an image and a number; an action is 5 or 6; the reward is 1 where it is 6."""

    observation_space = spaces.Dict({"image": spaces.Box(0, 1, (2, 2)), "kind": spaces.Discrete(3, start=1)})
    action_space = spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        return self.observation_space.sample(), float(action == 6), True, False, {}


def test_an_agent_takes_observations_and_gives_actions_as_its_environment_does(tmp_path):
    agent = gs.DQN(Parts, **TINY, num_envs=2)
    env, many = Parts(), SyncVectorEnv([Parts] * 3)
    observation, _ = env.reset(seed=0)
    action = agent.predict(observation)
    env.step(action)
    by_hand = spaces.flatten(Parts.observation_space, observation)
    assert agent.predict(by_hand) == action == 5 + agent.values(observation).argmax()
    batch, _ = many.reset(seed=0)
    assert set(agent.predict(batch)) <= {5, 6}
    assert agent.values(batch).shape == (3, 2)
    first = {name: part[0] for name, part in batch.items()}
    np.testing.assert_allclose(agent.values(batch)[0], agent.values(first), rtol=1e-5)
    assert set(agent.predict(np.tile(by_hand, (200, 1)), deterministic=False)) == {5, 6}
    exported = agent.export_policy(tmp_path / "policy.npz")
    for policy in (exported, gs.NumpyPolicy.load(tmp_path / "policy.npz")):
        assert policy.predict(by_hand) == action
        assert 0 <= gs.evaluate_policy(policy, Parts, 5)[0] <= 1
    assert gs.evaluate_policy(lambda seen: np.full(len(seen), 6), Parts, 5) == (1.0, 0.0)
    with pytest.raises(ValueError, match=r"^model: expected 5 actions from 5 to 6, got "):
        gs.evaluate_policy(lambda seen: np.zeros(len(seen), int), Parts, 5)


def test_so_does_one_that_knows_the_environment_from_minari_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    seen = [Parts().reset(seed=seed)[0] for seed in range(9)]
    ends = {"rewards": [1.0], "terminations": [True], "truncations": [False], "infos": {}}
    log = []
    for i in range(8):
        parts = {name: np.stack([seen[i][name], seen[i + 1][name]]) for name in seen[i]}
        log.append(EpisodeBuffer(id=i, observations=parts, actions=[np.int64(5 + i % 2)], **ends))
    how = {"observation_space": Parts.observation_space, "action_space": Parts.action_space}
    with minari_store.without_advice():
        dataset = minari.create_dataset_from_buffers("toy/parts-v0", log, **how)
    observation = seen[0]
    agent = gs.DQN.from_dataset(dataset, hidden=(8,)).fit(updates=2)
    agent.save(tmp_path / "x.agent")
    loaded = gs.load(tmp_path / "x.agent")
    for one in (agent, loaded):
        assert one.predict(observation) in (5, 6)
        flat = spaces.flatten(Parts.observation_space, observation)
        np.testing.assert_array_equal(one.values(observation), agent.values(flat))
        assert one.export_policy(tmp_path / "x.npz").predict(flat) == agent.predict(observation)
    assert loaded.env.space == Parts.observation_space


def test_states_of_minari_s_are_counted_from_the_start_of_their_space_also_after_loading(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = gs.Trajectory([5, 6, 7], [0, 1], [0.0, 1.0], [False, True], [False, False])
    dataset = gs.trajectory.to_minari("toy/starts-v0", [log], spaces.Discrete(3, start=5), spaces.Discrete(2))
    agent = gs.DQN.from_dataset(dataset, hidden=(8,))
    agent.save(tmp_path / "x.agent")
    for one in (agent, gs.load(tmp_path / "x.agent")):
        assert one.values(np.array([5, 6, 7])).shape == (3, 2)
        with pytest.raises(ValueError, match="observations: expected states 0 to 2"):
            one.values(0)
        assert one.export_policy(tmp_path / "x.npz").predict(6) == agent.predict(6)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.array([1.0, 2.5], np.float32)),
        spaces.Box(0, 255, (2, 2, 1), np.uint8),
        spaces.Discrete(3, start=-2),
        spaces.MultiBinary([2, 3]),
        spaces.MultiDiscrete([3, 2], start=[1, 0]),
        spaces.Dict([("b", spaces.Discrete(2)), ("a", spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1)]))]),
    ],
)
def test_a_space_comes_back_from_json(space):
    content = io.from_json(io.to_json(space_to_json(space)))
    found = space_from_json(content, "it")
    assert found == space
    if isinstance(space, spaces.Dict):
        assert list(found.spaces) == ["b", "a"]
    for bad in ({}, 3, {"kind": "Graph"}, {"kind": "Dict", "spaces": [["a"]]}, content | {"kind": "Discrete"}):
        if bad != content:
            with pytest.raises(ValueError, match=r"^it describes no space of Gymnasium$"):
                space_from_json(bad, "it")


def test_states_of_a_discrete_space_are_counted_from_its_start(tmp_path):
    agent = gs.DQN(partial(Odd, spaces.Discrete(4, start=2), seen=lambda t: np.int64(2 + t % 4)), **TINY)
    assert agent.values(np.arange(2, 6)).shape == (4, 2)
    with pytest.raises(ValueError, match=r"^observations: expected states 0 to 3, got 4$"):
        agent.predict(6)
    policy = agent.export_policy(tmp_path / "policy.npz")
    assert [policy.predict(state) for state in range(2, 6)] == [agent.predict(state) for state in range(2, 6)]
    assert gs.evaluate_policy(policy, agent.env, 1) == (7.0, 0.0)


def test_a_single_integer_of_a_box_is_a_quantity_and_no_state(tmp_path):
    for high in (3, 2**31 - 1):  # an input for each of these would take terabytes
        space = spaces.Box(-high, high, (), np.int32)
        agent = gs.DQN(lambda space=space: Odd(space, seen=-2), **TINY)
        agent.learn(80)
        assert isinstance(agent.networks, MLP)
        assert len(set(agent.values(np.array([-3, -2, 2]))[:, 0])) == 3
    quantity = ObservationSpec((), np.dtype(np.int32), 0, 5, is_quantity=True)
    for spec in (quantity, quantity._replace(is_quantity=False)):
        assert make_from_spec(spec_of(LoggedEnvironment("log", spec, 2)), "file").observation == spec


def test_observations_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match=r"^observations: expected finite numbers"):
        gs.DQN("CartPole-v1", **TINY).predict([0.0, 0.0, np.nan, 0.0])


@pytest.mark.parametrize("count", [3, 7])
def test_defaults_are_rounded_to_any_number_of_environments(count):
    config = gs.DQN("CartPole-v1", num_envs=count).config
    assert all(getattr(config, name) % count == 0 for name in ("target_period", "replay_size", "log_every"))
    with pytest.raises(ValueError, match=rf"^replay_size: expected a multiple of num_envs={count} above 0, got 1000$"):
        gs.DQN("CartPole-v1", num_envs=count, replay_size=1000)


def test_functions_vectors_and_names():
    assert repr(gs.DQN("CartPole-v1", **TINY)) == "DQN('CartPole-v1', returns='one-step', 0 steps)"
    assert (
        gs.DQN(
            make_vec=lambda n: SyncVectorEnv([Counting] * n),
            num_envs=3,
            **TINY | {"warmup": 42, "target_period": 21, "log_every": 42, "replay_size": 399},
        ).config.num_envs
        == 3
    )
    two = gs.DQN(make_vec=lambda: SyncVectorEnv([Counting] * 2), **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=partial(gymnasium.make_vec, "CartPole-v1", num_envs=2), **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=partial(gymnasium.make_vec, "CartPole-v1"), num_envs=2, **TINY)
    assert two.config.num_envs == 2
    two = gs.DQN(make_vec=lambda count=2: SyncVectorEnv([Counting] * count), **TINY)
    assert two.config.num_envs == 2
    limited = gs.envs.host.HostEnvironment("CartPole-v1", limit=7)
    agent = gs.DQN("CartPole-v1", **TINY)
    assert max(agent.evaluate(5, env=lambda: gymnasium.make("CartPole-v1", max_episode_steps=7)).lengths) <= 7
    assert limited.options == {"limit": 7}


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (3, "env: expected an environment, its name or a function that makes one, got int"),
        (lambda: 3, "env: expected a function that makes a gymnasium.Env, got a int"),
        ("nothing-v0", "env: gymnasium cannot make 'nothing-v0'"),
        ("minatar/breakot", "did you mean 'minatar/breakout'"),
        (Odd(action_space=spaces.Box(-1, 1)), r"Odd has the action space Box.*; only Discrete actions are supported"),
        (
            Odd(spaces.Sequence(spaces.Discrete(2))),
            r"Odd has the observation space Sequence.*; supported are Box, Discrete",
        ),
        (Odd(spaces.Text(5)), r"Odd has the observation space Text.*; supported are Box, Discrete"),
        (
            Odd(spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Text(5)]))),
            r"Odd has the observation space Dict.*; supported are Box, Discrete",
        ),
        (Odd(spaces.Box(-1, 1, (0,))), r"^env: Odd has the observation space Box.*, parts of which are empty"),
        (Odd(spaces.Dict({})), r"^env: Odd has the observation space Dict\(\), parts of which are empty"),
        (gymnasium.Env(), r"^env: observation_space must be a gymnasium.spaces.Space, got None$"),
        (lambda: 1 / 0, r"^env: the function that makes it raised ZeroDivisionError: division by zero$"),
        ("Nowhere/nothing-v0", r"Namespace Nowhere not found.* name both, MODULE:ID, as in ale_py:ALE/Pong-v5$"),
    ],
)
def test_environments_that_cannot_be_used(env, message):
    with pytest.raises(ValueError, match=message):
        gs.DQN(env, **TINY)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Odd(seen=(0.0, 0.0)), r"^env: Odd returned an observation of shape \(2,\), its space says \(1,\)$"),
        (Odd(seen=(np.nan,)), r"^env: Odd returned an observation that is not finite: \[\[nan\]\]$"),
        (Odd(reward=np.inf), "^env: Odd returned the reward inf; expected one number per step, finite in float32$"),
        (Odd(reward="much"), "^env: Odd returned the reward 'much'; expected one number per step"),
        (Odd(reward="1"), "^env: Odd returned the reward '1'; expected one number per step"),
        (Odd(reward=1e39), r"^env: Odd returned the reward 1e\+39; expected one number per step"),
        (Odd(ends="no"), "^env: Odd returned terminated 'no'; expected one bool per step$"),
        (Odd(ends=0.5), "^env: Odd returned terminated 0.5; expected one bool per step$"),
        (Odd(ends=None), "^env: Odd returned terminated None; expected one bool per step$"),
        (Odd(ends=2), "^env: Odd returned terminated 2; expected one bool per step$"),
        (Odd(spaces.Discrete(3), seen=lambda t: 4), "^env: Odd returned observation 4, which is not in Discrete"),
        (Odd(spaces.Discrete(3), seen=lambda t: 1.5), "^env: Odd returned observation 1.5, which is not in Discrete"),
        (
            Odd(spaces.Dict(a=spaces.Discrete(3)), seen=lambda t: {"a": -1}),
            r"^env: Odd returned observation {'a': -1}, which is not in Dict",
        ),
        (
            Odd(spaces.Box(0, 9, (1,), np.int64), seen=lambda t: np.array([2**40])),
            r"^env: Odd returned observation array\(\[1099511627776\]\), which is not in Box",
        ),
        (Odd(spaces.Discrete(3), seen=lambda t: None), "^env: Odd returned observation None, which is not in Discrete"),
        (Odd(seen=lambda t: "here"), "^env: Odd returned observation 'here', which is not in Box"),
        (Four(), r"^env: Four: step must return \(obs.*info\), got 4 values \(.*\), as in the gym of old$"),
        (OldReset(), r"^env: OldReset: reset must return \(observation, info\), info a dict, got a ndarray$"),
    ],
)
def test_environments_that_break_the_rules(env, message):
    with pytest.raises(ValueError, match=message):
        gs.DQN(env, **TINY).learn(60)


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match=r"num_envs: Counting is 1 environment\(s\), 2 are needed; give a function"):
        gs.DQN(Counting(), num_envs=2, **TINY).learn(10)
    with pytest.raises(ValueError, match="vectorization: processes make their own environments"):
        gs.DQN(Counting(), vectorization="async", **TINY)
    with pytest.raises(ValueError, match="vectorization: only environments of Gymnasium have one"):
        gs.DQN("classic/cartpole", vectorization="async", **TINY)
    with pytest.raises(ValueError, match="vectorization: expected sync, async or actors, got 'threads'"):
        gs.DQN("CartPole-v1", vectorization="threads", **TINY)
    with pytest.raises(ValueError, match="env: expected either an environment or make_vec"):
        gs.DQN(**TINY)
    vector = SyncVectorEnv([Counting])
    vector.metadata = {}
    with pytest.raises(ValueError, match="does not say how it resets"):
        gs.DQN(vector, **TINY).learn(10)


def test_a_file_does_not_decide_which_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    agent = gs.DQN("CartPole-v1", **TINY)
    agent.env.name = "evil_module:CartPole-v1"
    agent.save(tmp_path / "agent")
    with pytest.raises(ValueError, match="for which the module 'evil_module' would be imported; if you trust it"):
        gs.load(tmp_path / "agent")


# -- habits of other libraries -----------------------------------------------------------------------------------------


def test_callbacks_see_every_chunk_and_can_end_training(tmp_path, capsys):
    agent, seen = gs.DQN(Counting(), **TINY), []
    keep = gs.callbacks.KeepBest(tmp_path / "best", every=60, episodes=2, env=Counting)
    save = gs.callbacks.Checkpoint(tmp_path / "kept", every=100)
    agent.learn(200, callback=[lambda agent, rows: seen.append(agent.steps), keep, save], log_interval=2)
    assert seen == [40, 80, 120, 160, 200]
    assert [steps for steps, _ in keep.history] == [40, 120, 200]
    assert gs.load(tmp_path / "best", Counting()).steps == 40  # all evaluations give the same return, the first is best
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["agent-160", "agent-40"]
    assert capsys.readouterr().out.count("Counting: step ") == 2
    agent.learn(200, callback=lambda agent, rows: agent.steps < 240)
    assert agent.steps == 240
    agent.learn(400, callback=gs.callbacks.StopAtReturn(5))  # episodes return 6 at the least
    assert agent.steps == 280
    agent.learn(400, callback=lambda agent, rows: np.float64(3) < 2)
    assert agent.steps == 320
    agent.learn(1000, callback=gs.callbacks.StopWithoutProgress(patience=3))
    assert agent.steps < 1320
    for name in ("eval_freq", "n_eval_episodes"):
        with pytest.raises(ValueError, match=f"^{name}: nothing is evaluated without eval_env"):
            agent.learn(40, **{name: 5})


def test_progress_is_reported_within_a_chunk(monkeypatch):
    monkeypatch.setattr(host_loop, "REPORT_EVERY", 0.0)
    agent, told = gs.DQN(Counting(), **TINY), []
    agent.trainer.on_progress = lambda step, speed: told.append((step, speed))
    list(agent.trainer.chunks(80))
    assert [step for step, _ in told] == list(range(80))
    assert all(speed >= 0 for _, speed in told)
    shown = []

    @contextmanager
    def progress(is_shown, name):
        yield lambda share, text: shown.append((share, text))

    monkeypatch.setattr(agent_module, "_progress", progress)
    agent.learn(80)
    assert (shown[20][0], shown[20][1][:10]) == (0.25, "step 100, ")
    assert shown[50][1].startswith("step 129, return ")  # with the return of the chunk before
    assert shown[-1][0] == 1
    assert agent.trainer.on_progress is not None  # that of before


@pytest.mark.parametrize(
    ("callback", "got"),
    [
        (3, "got 3$"),
        ("print", "got 'print'$"),
        ([print, None], "got None$"),
        (gs.callbacks.StopAtReturn, r"got the class StopAtReturn; make one: StopAtReturn\(...\)$"),
        (networks_equal.__get__(1), "got one of other arguments: networks_equal$"),
    ],
)
def test_what_is_no_callback_is_refused_before_the_training(callback, got):
    agent = gs.DQN(Counting(), **TINY)
    with pytest.raises(
        ValueError, match=rf"^callback: expected a function of \(agent, rows\) or a list of them, {got}"
    ):
        agent.learn(40, callback=callback)
    assert agent.steps == 0


def test_a_callback_that_raises_loses_nothing():
    agent = gs.DQN(Counting(), **TINY)
    with pytest.raises(ZeroDivisionError):
        agent.learn(200, callback=lambda agent, rows: 1 / 0)
    assert agent.steps == 40
    agent.learn(40)
    assert len(stored(agent)) == 79


def test_predict_explores_only_if_asked_to():
    agent = gs.DQN(Counting(), **TINY | {"epsilon_end": 0.5})
    many = np.zeros((1000, 2))
    assert len(set(agent.predict(many))) == 1
    assert 0.2 < np.mean(agent.predict(many, deterministic=False) != agent.predict(many)) < 0.3
    assert isinstance(agent.predict(many[0], deterministic=False), int)


def test_values_that_no_return_can_have_are_said_aloud_once():
    agent = gs.DQN(Odd(seen=(1000.0,)), **TINY | {"learning_rate": 1e-6})
    assert agent.values([1000.0]).max() > 130  # already before it learns
    with pytest.warns(UnreachableValueWarning, match="the largest return possible is 100 .* discount 0.99") as told:
        agent.learn(120)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("mean_q", "rewards", "discount", "is_reachable"),
    [
        (100.0, (0.0, 1.0), 0.99, True),
        (119.0, (0.0, 1.0), 0.99, True),
        (121.0, (0.0, 1.0), 0.99, False),
        (-1.0, (0.0, 1.0), 0.99, True),
        (-21.0, (0.0, 1.0), 0.99, False),
        (-100.0, (-1.0, -1.0), 0.99, True),
        (20.0, (-1.0, -1.0), 0.99, False),
        (1e9, (-1.0, 1.0), 1.0, True),
        (0.4, (0.0, 0.0), 0.99, True),
    ],
)
def test_which_values_a_return_can_have(mean_q, rewards, discount, is_reachable):
    found = unreachable_value(DQNConfig(discount=discount), mean_q, rewards)
    assert (found is None) == is_reachable


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

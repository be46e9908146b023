"""Agents in environments on the host, used as in other libraries: bad input, callbacks, progress, predictions."""

from contextlib import contextmanager

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from host_games import TINY, Counting, Four, Odd, OldReset, networks_equal, stored

import greedystep as gs
from greedystep.deep import agent as agent_module
from greedystep.deep import host_loop
from greedystep.deep.config import DQNConfig
from greedystep.deep.divergence import UnreachableValueWarning, unreachable_value

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

    monkeypatch.setattr(agent_module, "showing_progress", progress)
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

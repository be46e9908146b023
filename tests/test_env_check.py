"""`gs.check_env`: sound environments pass, and every fault has a sentence of its own."""

import importlib.util
import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import greedystep as gs
from greedystep.cli import main
from greedystep.cli.args import warnings_as_notes
from greedystep.deep.env_check import EnvironmentWarning
from greedystep.envs.core import Environment, ObservationSpec, Step, TimeLimit

spec = importlib.util.spec_from_file_location("own_game", Path(__file__).parents[1] / "examples" / "own_game.py")
own_game = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own_game)
Dodge = own_game.Dodge


class Sound(gymnasium.Env):
    """Ends after five steps; subclasses break one rule each."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(3, start=1)

    def seen(self):
        return np.float32([self.np_random.uniform(-1, 1), 0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        return self.seen(), 1.0, self.t == 5, False, {}


def changed(**methods):
    return type("Broken", (Sound,), methods)()


def step_returning(**parts):
    """A Sound whose step returns something else in one place."""

    def step(self, action):
        names = ("observation", "reward", "terminated", "truncated", "info")
        return tuple((dict(zip(names, Sound.step(self, action), strict=True)) | parts).values())

    return changed(step=step)


def seeing(what, space=None):
    return changed(seen=lambda self: what, observation_space=space or Sound.observation_space)


def raises(problem):
    raise problem


def old_reset(self):
    return Sound.reset(self)


GYMNASIUM = {
    "observation_space must be a gymnasium.spaces.Space, got None": lambda: changed(observation_space=None),
    r"has the action space Box\(.*\); only Discrete actions": lambda: changed(action_space=spaces.Box(-1, 1, (1,))),
    r"reset\(seed=0\) raised TypeError: .*unexpected keyword argument 'seed'": lambda: changed(reset=old_reset),
    r"reset must return \(observation, info\), info a dict, got a ndarray": lambda: changed(
        reset=lambda self, *, seed=None, options=None: Sound.reset(self, seed=seed)[0]
    ),
    r"step must return \(observation, .* got 4 values \(.*\), as in the gym of old": lambda: changed(
        step=lambda self, action: Sound.step(self, action)[:4]
    ),
    r"step\(\d\) raised KeyError: 'x'": lambda: changed(step=lambda self, action: raises(KeyError("x"))),
    "the observation of reset must be a NumPy array, got a list": lambda: seeing([0.0, 0.0]),
    r"observation of reset has shape \(3,\), its space says \(2,\)": lambda: seeing(np.zeros(3, np.float32)),
    "observation of reset is float64, its space says float32": lambda: seeing(np.zeros(2)),
    r"observation of reset is not finite: \[nan, 0.0\]": lambda: seeing(np.float32([np.nan, 0])),
    r"observation of reset is 2 at \[1\], its space says -1 to 1": lambda: seeing(np.float32([0, 2])),
    r"observation of reset is 3, which is not in Discrete\(3\)": lambda: seeing(3, spaces.Discrete(3)),
    r"must be a dict of \['a'\], got \['b'\]": lambda: seeing({"b": 0}, spaces.Dict(a=spaces.Discrete(2))),
    r"the observation\['a'\] of reset is 2, which": lambda: seeing({"a": 2}, spaces.Dict(a=spaces.Discrete(2))),
    "the reward must be one number, finite in float32, got nan": lambda: step_returning(reward=np.nan),
    r"the reward must be one number, finite in float32, got array\(\[1.\]\)": lambda: step_returning(reward=np.ones(1)),
    "the reward must be one number, finite in float32, got None": lambda: step_returning(reward=None),
    r"the reward must be one number, finite in float32, got 1e\+39": lambda: step_returning(reward=1e39),
    "observation of reset is not finite": lambda: seeing(np.array([0, 1e39]), spaces.Box(-np.inf, np.inf, (2,), float)),
    r"has the observation space Dict\(\), parts of which are empty": lambda: changed(observation_space=spaces.Dict({})),
    "terminated must be a bool, got 1": lambda: step_returning(terminated=1),
    "truncated must be a bool, got None": lambda: step_returning(truncated=None),
    "info must be a dict, got None": lambda: step_returning(info=None),
    "expected a function that makes a gymnasium.Env, got a int": lambda: lambda: 3,
    "has reset and step, but is not derived from gymnasium.Env": lambda: type(
        "Duck", (), {"reset": None, "step": None, "action_space": Sound.action_space}
    )(),
}


@pytest.mark.parametrize("message", GYMNASIUM)
def test_faults_of_gymnasium_environments(message):
    with pytest.raises(ValueError, match=f"^env: .*{message}"):
        gs.check_env(GYMNASIUM[message](), 20)


@pytest.mark.parametrize(
    "make", [Sound, lambda: Sound, lambda: "CartPole-v1", lambda: SyncVectorEnv([Sound] * 3), lambda: Plain()]
)
def test_sound_environments_pass(make):
    gs.check_env(make(), 50)


def test_what_is_not_determined_by_its_seed_and_what_never_ends_is_doubtful():
    count = itertools.count()
    with pytest.warns(EnvironmentWarning, match="the same seed and actions gave another episode from step 1 on"):
        gs.check_env(changed(step=lambda self, action: (self.seen(), next(count), True, False, {})), 20)
    with pytest.warns(EnvironmentWarning, match="no episode ended within 20 random steps"):
        gs.check_env(step_returning(terminated=False), 20)
    with pytest.warns(EnvironmentWarning, match="no episode ended within 3 random steps"):
        gs.check_env(SyncVectorEnv([Sound] * 2), 3)


# -- compiled ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain(Environment):
    """Counts to five; subclasses break one rule each."""

    name = "plain"  # type: ignore[assignment]
    action_names = ("none", "wait")
    observation = ObservationSpec((1,), np.dtype(np.float32), 0, 5)  # type: ignore[assignment]

    def draw_start(self, key):
        return key

    draw = draw_start

    def start(self, draws):
        return {"t": jnp.int32(0)}

    def advance(self, draws, state, action):
        t = state["t"] + 1
        return {"t": t}, Step(jnp.float32(1), t == 5, jnp.bool_(False))

    def observe(self, state):
        return jnp.float32(state["t"])[None]


def plain(**parts):
    return type("Broken", (Plain,), parts)()


def advancing(change):
    """A Plain whose (state, step) is changed."""
    return plain(advance=lambda self, draws, state, action: change(*Plain.advance(self, draws, state, action)))


COMPILED = {
    "action_names must be a tuple with one word per action, got 3": lambda: plain(action_names=3),
    "observation must be an ObservationSpec, got 5": lambda: plain(observation=5),
    "a Broken has no hash, .* decorate it with @dataclass": lambda: plain(__hash__=None),
    "reset cannot be compiled, since it needs the value of a traced array: use jnp.where": lambda: plain(
        start=lambda self, draws: {"t": jnp.int32(0)} if draws == draws else None
    ),
    "step cannot be compiled, .* jnp instead of np": lambda: advancing(
        lambda state, step: ({"t": np.minimum(np.asarray(state["t"]), 1)}, step)
    ),
    "step cannot be compiled: NameError: oops": lambda: advancing(lambda state, step: raises(NameError("oops"))),
    r"state\['t'\] is int32\[\] after reset and float32\[\] after step": lambda: advancing(
        lambda state, step: ({"t": state["t"] * 1.0}, step)
    ),
    "step returns a state of another structure": lambda: advancing(lambda state, step: (state["t"], step)),
    r"step must return \(state, Step\), got a tuple": lambda: advancing(lambda state, step: (state, tuple(step))),
    r"reward must be float32\[\], got int32\[\]": lambda: advancing(
        lambda state, step: (state, step._replace(reward=jnp.int32(1)))
    ),
    r"observe returns float32\[1\], observation says float32\[4\]": lambda: plain(
        observation=ObservationSpec((4,), np.dtype(np.float32), 0, 5)
    ),
    "gave something else twice with the same key; they must be pure": lambda: plain(
        observe=lambda self, state: jnp.float32([np.random.default_rng().random()])
    ),
    "an observation holds 4, observation says 0 to 3.5": lambda: plain(
        observation=ObservationSpec((1,), np.dtype(np.float32), 0, 3.5)
    ),
    "the reward must be finite, got nan": lambda: advancing(
        lambda state, step: (state, step._replace(reward=jnp.where(step.terminated, jnp.nan, step.reward)))
    ),
    "a step is terminated and truncated at once": lambda: advancing(
        lambda state, step: (state, step._replace(truncated=step.terminated))
    ),
}


@pytest.mark.parametrize("message", COMPILED)
def test_faults_of_compiled_environments(message):
    with pytest.raises(ValueError, match=f"^env: .*{message}"):
        gs.check_env(COMPILED[message](), 200)


def test_the_template_is_sound():
    game = TimeLimit(Dodge(), 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.check_env(game, 100)


def test_a_compiled_environment_that_never_ends_is_doubtful():
    with pytest.warns(EnvironmentWarning, match="no episode ended within 100 random steps"):
        gs.check_env(
            advancing(lambda state, step: ({"t": state["t"] % 5}, step._replace(terminated=state["t"] > 5))), 100
        )


@pytest.mark.parametrize("what", ["a reward", "an observation"])
def test_a_loss_that_is_not_finite_is_blamed_on_an_environment_that_gave_such_numbers(what):
    class Wrong(Plain):
        def advance(self, draws, state, action):
            state, step = Plain.advance(self, draws, state, action)
            return state, step._replace(reward=step.reward * jnp.nan) if what == "a reward" else step

        def observe(self, state):
            return Plain.observe(self, state) * (1 if what == "a reward" else jnp.nan)

    settings = {"returns": "one-step", "hidden": (4,), "replay_size": 200, "batch_size": 4, "log_every": 40}
    agent = gs.DQN(Wrong(), **settings, warmup=20, target_period=20)
    with pytest.raises(
        ValueError, match=f"^the loss of lane 0 .* at step .*: plain gave {what} that is not finite; gs.ch"
    ):
        agent.learn(80)


def test_the_rules_of_the_template():
    """A stone falls for HEIGHT steps; whoever stands under it then loses, others get 1."""
    calm = Dodge(wind=0.0)
    for column, hits in ((2, True), (3, False)):
        state = own_game.DodgeState(jnp.int32(2), jnp.int32(column), jnp.int32(own_game.HEIGHT))
        for _ in range(own_game.HEIGHT):
            state, step = calm.step(jax.random.key(0), state, 1)
        assert (bool(step.terminated), float(step.reward)) == (hits, float(not hits))
    state, _ = calm.step(jax.random.key(0), state, 0)
    assert int(state.player) == 1


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command(capsys):
    assert main(["check", "CartPole-v1", "--steps", "50"]) == 0
    assert capsys.readouterr().out == "CartPole-v1: nothing wrong in 50 random steps\n"
    assert main(["check", "Pendulum-v1"]) == 2
    assert "only Discrete actions are supported" in capsys.readouterr().err
    assert main(["check", "MountainCar-v0", "--steps", "50", "--options", "limit=1e5"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Note: MountainCar-v0: no episode ended within 50 random steps")


def test_deprecations_of_other_packages_are_no_notes(capsys):
    with warnings_as_notes():
        warnings.warn_explicit("builtin type Swig has no __module__", DeprecationWarning, "<frozen importlib>", 1)
        gymnasium.make("CartPole-v0")
        warnings.warn("something", EnvironmentWarning, stacklevel=1)
    old, other = capsys.readouterr().err.splitlines()
    assert old.startswith("Note: WARN: The environment CartPole-v0 is out of date")
    assert other == "Note: something"

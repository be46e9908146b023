"""Our environments as Gymnasium's."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import greedystep
from greedystep import envs
from greedystep.envs.core import ObservationSpec
from greedystep.envs.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, observation_space
from greedystep.envs.gymnasium_ids import gymnasium_id

BREAKOUT = "greedystep/minatar-breakout-v1"


def python(script):
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- ids --------------------------------------------------------------------------------------------------------------


def test_the_ids_are_there_when_gymnasium_was_imported_first_and_cost_nothing():
    heavy = "{'jax', 'numba'} & set(sys.modules)"
    assert (
        python(f"import gymnasium, greedystep, sys; print({BREAKOUT!r} in gymnasium.registry, {heavy})") == "True set()"
    )
    assert python("import greedystep, sys; print('gymnasium' in sys.modules, len(sys.meta_path))") == python(
        "import sys; print(False, len(sys.meta_path))"
    )


@pytest.mark.parametrize("before", ["", "import greedystep; "])
def test_the_module_of_the_adapters_always_registers_the_ids(before):
    script = f"{before}import gymnasium, greedystep.envs.gymnasium; print({BREAKOUT!r} in gymnasium.registry)"
    assert python(script) == "True"
    made = f"gymnasium.make('greedystep.envs.gymnasium:{BREAKOUT}')"  # Gymnasium imports what stands before the colon
    assert python(f"{before}import gymnasium; print({made}.spec.id)").endswith(BREAKOUT)


def test_every_name_has_an_id():
    assert {gymnasium_id(name) for name in envs.names()} <= set(gymnasium.registry)
    assert greedystep.envs is envs


@pytest.mark.parametrize("name", envs.names())
@pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is -?infinity")
def test_gymnasiums_own_check(name):
    env = gymnasium.make(gymnasium_id(name), render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def test_options_pass_through_and_wrong_ones_are_named():
    env = gymnasium.make(BREAKOUT, actions="minimal", limit=7)
    assert env.action_space == gymnasium.spaces.Discrete(3)
    assert env.unwrapped.env.limit == 7  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="sticki: minatar/breakout has no such option"):
        gymnasium.make(BREAKOUT, sticki=0.0)
    with pytest.raises(ValueError, match="render_mode: expected None or rgb_array, got 'human'"):
        GymnasiumEnv("minatar/breakout", render_mode="human")
    with pytest.raises(ValueError, match="sticky: options go with a name"):
        GymnasiumEnv(envs.make("minatar/breakout"), sticky=0.0)
    started = GymnasiumEnv("minatar/breakout")
    started.reset()
    with pytest.raises(ValueError, match=r"action: .*0\.\.5, got 6"):
        started.step(6)


# -- one episode at a time --------------------------------------------------------------------------------------------


def play(env, seed, steps=40):
    """Observations, rewards and ends of the same actions, episodes one after another."""
    random = np.random.default_rng(0)
    seen, _ = env.reset(seed=seed)
    story = [seen]
    for _ in range(steps):
        seen, reward, terminated, truncated, _ = env.step(random.integers(6))
        story += [seen, reward, terminated, truncated]
        if terminated or truncated:
            story.append(env.reset()[0])
    return story


def same(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_seed_decides_everything():
    env, other = GymnasiumEnv("minatar/breakout"), GymnasiumEnv("minatar/breakout")
    first = play(env, 5)
    assert same(first, play(env, 5))
    assert same(first, play(other, 5))
    assert not all(same(first, play(other, seed)) for seed in range(6, 10))


def test_without_a_seed_every_episode_is_another_and_keeps_the_sticky_action():
    env = GymnasiumEnv("minatar/breakout", sticky=1.0)
    env.reset(seed=0)
    sides = {bool(env.reset()[0][3, 0, 1]) for _ in range(20)}
    assert sides == {True, False}
    assert env._current.state.executed == 0
    env.env = envs.make("minatar/breakout", sticky=0.0)
    env.step(3)
    env.reset()
    assert env._current.state.executed == 3
    env.reset(seed=0)
    assert env._current.state.executed == 0


def test_render_gives_the_picture_of_now():
    env = GymnasiumEnv("minatar/breakout", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    env.step(1)
    assert before.dtype == np.uint8
    assert before.shape == (240, 240, 3)
    assert (env.render() != before).any()
    assert GymnasiumEnv("minatar/breakout").render() is None


# -- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_many_are_the_same_as_gymnasiums_vector_of_single_ones(mode):
    """Observations, rewards, ends, final observations and their masks, over several episodes, some cut by a limit."""
    options = {"limit": 9, "sticky": 0.3}
    ours = gymnasium.make_vec(BREAKOUT, num_envs=4, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda: GymnasiumEnv("minatar/breakout", **options)] * 4, autoreset_mode=mode)
    assert isinstance(ours, GymnasiumVectorEnv)
    assert ours.metadata["autoreset_mode"] == mode
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    random = np.random.default_rng(1)
    assert np.array_equal(ours.reset(seed=11)[0], theirs.reset(seed=11)[0])
    ends = 0
    for _ in range(40):
        actions = random.integers(0, 6, 4)
        (*one, infos), (*other, their_infos) = ours.step(actions), theirs.step(actions)
        assert same(one, other)
        assert [part.dtype for part in one] == [part.dtype for part in other]
        assert infos.keys() == their_infos.keys()
        for key in infos.keys() - {"final_obs", "final_info"}:
            assert np.array_equal(infos[key], their_infos[key])
        if "final_obs" in infos:
            ends += 1
            for a, b in zip(infos["final_obs"], their_infos["final_obs"], strict=True):
                assert (a is None and b is None) or np.array_equal(a, b)
    assert (ends > 3) == (mode == AutoresetMode.SAME_STEP)
    assert np.array_equal(ours.reset()[0], theirs.reset()[0])


def test_seeds_may_be_listed():
    env = GymnasiumVectorEnv("minatar/breakout", num_envs=2)
    one, other = env.reset(seed=[7, 7])[0]
    assert np.array_equal(one, other)
    assert np.array_equal(env.reset(seed=3)[0], env.reset(seed=[3, 4])[0])
    with pytest.raises(ValueError, match="seed: expected one number or 2, got 3"):
        env.reset(seed=[1, 2, 3])


def test_without_a_seed_the_environments_differ():
    seen, _ = GymnasiumVectorEnv("minatar/breakout", num_envs=16).reset()
    assert len(np.unique(seen.reshape(16, -1), axis=0)) == 2


def test_bad_input_to_many_is_named():
    env = GymnasiumVectorEnv("minatar/breakout", num_envs=2, render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0])
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions: expected 2 of them"):
        env.step([0, 0, 0])
    with pytest.raises(ValueError, match=r"action: .* got -1"):
        env.step([0, -1])
    with pytest.raises(ValueError, match="autoreset_mode: expected SAME_STEP or NEXT_STEP"):
        GymnasiumVectorEnv("minatar/breakout", autoreset_mode="Disabled")
    assert [frame.shape for frame in env.render()] == [(240, 240, 3)] * 2


def test_whole_numbers_are_discrete():
    assert observation_space(ObservationSpec((), np.dtype(np.int32), 0, 4)) == gymnasium.spaces.Discrete(5)
    assert observation_space(ObservationSpec((), np.dtype(np.int32), 2, 4)) == gymnasium.spaces.Discrete(3, start=2)
    box = observation_space(ObservationSpec((2,), np.dtype(np.float32), [-1, -np.inf], np.inf))
    assert box.low.tolist() == [-1, -np.inf]  # pyright: ignore[reportAttributeAccessIssue]
    assert box.dtype == np.float32

"""Trajectories: their checks, their files, Minari, and agents that learn from them."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import greedystep as gs
from greedystep import envs, tabular, trajectory
from greedystep.trajectory import Trajectory

GOOD = {
    "observations": [0, 1, 2],
    "actions": [1, 0],
    "rewards": [0.5, -1],
    "terminated": [False, True],
    "truncated": [False, False],
}


@st.composite
def trajectories(draw):
    """Some that fit into one file."""
    shape, count = draw(st.sampled_from([(), (2,), (3, 1)])), draw(st.integers(1, 4))
    random, known = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.booleans())
    made = []
    for _ in range(count):
        T = int(random.integers(1, 6))
        end = np.arange(T) == T - 1
        made.append(
            Trajectory(
                random.integers(0, 9, (T + 1, *shape)).astype(np.uint8),
                random.integers(0, 4, T),
                random.normal(size=T),
                end & (random.random() < 0.5),
                end & (random.random() < 0.5),
                random.uniform(0.1, 1, T) if known or random.random() < 0.3 else None,
            )
        )
    return made


def assert_same(one, other):
    for name in Trajectory.__dataclass_fields__:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert a.dtype == b.dtype, name


def test_lists_become_arrays():
    one = Trajectory(**GOOD)
    assert len(one) == 2
    assert (one.rewards.dtype, one.terminated.dtype) == (np.float64, np.bool_)
    assert one.behaviour_prob is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"observations": [0, 1]}, r"observations: expected length 3 beside 2 rewards .*, got shape \[2\]"),
        ({"actions": [0]}, r"actions: expected length 2 beside 2 rewards .*, got shape \[1\]"),
        ({"truncated": [[False, True]]}, r"truncated: expected length 2 .*, got shape \[1, 2\]"),
        ({"observations": [[0], [1, 2], [3]]}, "observations: expected one array, got entries of different shapes"),
        ({"observations": {"a": 1}}, "observations: expected one array of numbers, got dict"),
        ({"rewards": ["a", "b"]}, "rewards: expected numbers, got <U1"),
        ({"rewards": [0.0, np.nan]}, "rewards: expected finite numbers, got nan"),
        ({"terminated": [0.5, 1.0]}, "terminated: expected true or false, got float64"),
        ({"terminated": [True, False]}, "terminated: step 0 of 2 ends the episode"),
        ({"truncated": [True, False]}, "truncated: step 0 of 2 ends the episode"),
        ({"behaviour_prob": [0.5, 0.0]}, r"behaviour_prob: expected probabilities in \(0, 1\], got 0.0"),
        ({"behaviour_prob": [0.5]}, r"behaviour_prob: expected length 2"),
        (
            {"observations": [0], "actions": [], "rewards": [], "terminated": [], "truncated": []},
            "rewards: expected at least one step, got none",
        ),
    ],
)
def test_bad_trajectories_are_answered_by_one_sentence(wrong, message):
    with pytest.raises(ValueError, match=message):
        Trajectory(**(GOOD | wrong))


# -- files ------------------------------------------------------------------------------------------------------------


@given(trajectories())
@settings(max_examples=40, deadline=None)
def test_a_file_gives_back_what_was_saved(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("files") / "log.npz"
    trajectory.save(path, made)
    again = trajectory.load(path)
    assert len(again) == len(made)
    for one, other in zip(made, again, strict=True):
        assert_same(one, other)


def test_what_does_not_fit_into_one_file_is_refused_and_nothing_is_written(tmp_path):
    one, flat = Trajectory(**GOOD), Trajectory(**(GOOD | {"observations": np.zeros((3, 2))}))
    for bad, message in (
        ([one, flat], r"trajectories: observations of number 1 are float64 \[2\], those of number 0 int64 \[\]"),
        ([one, GOOD], "trajectories: number 1 is a dict, not a Trajectory"),
        ([], "trajectories: expected at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            trajectory.save(tmp_path / "log.npz", bad)
    assert not list(tmp_path.iterdir())


def test_broken_files_are_answered_by_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such trajectory file"):
        trajectory.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "array.npy", np.zeros(2))
    np.savez(tmp_path / "other.npz", format="something")
    for name in ("text.npz", "array.npy", "other.npz"):
        with pytest.raises(ValueError, match=f"{name} is no trajectory file of greedystep"):
            trajectory.load(tmp_path / name)
    trajectory.save(tmp_path / "good.npz", [Trajectory(**GOOD)] * 2)
    with np.load(tmp_path / "good.npz") as archive:
        arrays = dict(archive)
    changes = (
        {"lengths": np.array([2, 3])},
        {"lengths": np.array([2, 2, 0])},
        {"lengths": np.array([5, -1])},
        {"lengths": np.array([], np.int64)},
        {"actions": arrays["actions"][:-1]},
        {"rewards": arrays["rewards"] * np.inf},
        {"truncated": None},
    )
    for change in changes:
        np.savez(tmp_path / "bad.npz", **{k: v for k, v in (arrays | change).items() if v is not None})
        with pytest.raises(ValueError, match=r"bad\.npz is damaged"):
            trajectory.load(tmp_path / "bad.npz")


@given(hnp.arrays(np.uint8, st.integers(0, 400)))
@settings(max_examples=40, deadline=None)
def test_a_file_with_broken_bytes_never_gives_anything_but_a_sentence(tmp_path_factory, noise):
    path = tmp_path_factory.mktemp("files") / "log.npz"
    trajectory.save(path, [Trajectory(**GOOD)])
    content = bytearray(path.read_bytes())
    for place, byte in enumerate(noise):
        content[(place * 37) % len(content)] ^= byte
    path.write_bytes(content)
    try:
        assert_same(trajectory.load(path)[0], Trajectory(**GOOD))
    except ValueError as problem:
        assert "greedystep" in str(problem) or "damaged" in str(problem)  # noqa: PT017


# -- Minari -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari's advice to describe a dataset better
@pytest.mark.parametrize("known", [True, False])
def test_minari_gives_back_what_was_put_in(tmp_path, monkeypatch, known):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    made = [
        Trajectory(**GOOD, behaviour_prob=[0.25, 1.0] if known else None),
        Trajectory([2, 0], [1], [2.0], [False], [True], [0.5] if known else None),
    ]
    spaces = (gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    dataset = trajectory.to_minari("toy/tiny-v0", made, *spaces, description="two episodes")
    for source in (dataset, "toy/tiny-v0"):
        again = trajectory.from_minari(source)
        assert len(again) == 2
        for one, other in zip(made, again, strict=True):
            assert_same(one, other)


def test_minari_s_own_words_are_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(ValueError, match="dataset: Minari cannot load 'toy/none-v0'"):
        trajectory.from_minari("toy/none-v0")
    mixed = [Trajectory(**GOOD), Trajectory(**GOOD, behaviour_prob=[1, 1])]
    with pytest.raises(ValueError, match="some have behaviour_prob and some have not"):
        trajectory.to_minari("toy/tiny-v0", mixed, gym.spaces.Discrete(3), gym.spaces.Discrete(2))


def test_observations_of_several_parts_are_refused():
    class Episode:
        id, observations, actions, infos = 7, {"a": np.zeros(3)}, np.zeros(2), {}

    class Dataset:
        def iterate_episodes(self):
            return [Episode]

    with pytest.raises(ValueError, match="dataset: observations of episode 7 are a dict; expected one array"):
        trajectory.from_minari(Dataset())


def test_without_minari_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"pip install 'greedystep\[minari\]'"):
        trajectory.from_minari("toy/tiny-v0")


# -- agents -----------------------------------------------------------------------------------------------------------


def as_trajectories(log):
    for e, ended in enumerate(log.terminated):
        low, high = log.first[e], log.first[e + 1]
        end = np.arange(high - low) == high - low - 1
        yield Trajectory(
            log.states[low + e : high + e + 1], log.actions[low:high], log.rewards[low:high], end & ended, end & ~ended,
            log.behaviour_prob[low:high],
        )  # fmt: skip


@pytest.mark.parametrize("method", ["greedy-step", "retrace", "model"])
def test_an_agent_fits_episodes_tuples_and_trajectories_alike(method):
    task = envs.make_task("toy/grid-world", size=3, horizon=7)
    log = tabular.collect(task, episodes=20, seed=2)
    made = list(as_trajectories(log))
    tuples = [(one.observations, one.actions, one.rewards, one.terminated[-1], one.behaviour_prob) for one in made]
    tables = [gs.TabularAgent(task, method, q=-20.0).fit(given).q for given in (log, made, tuples)]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0], tables[2])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"observations": [0, 1, 99]}, r"episodes: state 99 is not in 0\.\.38"),
        ({"actions": [0, 2]}, r"episodes: action 2 is not in 0\.\.1"),
        (
            {"observations": np.zeros((3, 2), int)},
            r"episodes: states must be integers, one per step, got int64 \[2\]",
        ),
        ({"observations": [0.0, 1.0, 2.0]}, "episodes: states must be integers, one per step, got float64"),
    ],
)
def test_trajectories_that_do_not_fit_a_table_are_answered_by_one_sentence(bad, message):
    agent = gs.TabularAgent("toy/choice")
    before = agent.q.copy()
    with pytest.raises(ValueError, match=message):
        agent.fit([Trajectory(**GOOD), Trajectory(**(GOOD | bad))])
    np.testing.assert_array_equal(agent.q, before)

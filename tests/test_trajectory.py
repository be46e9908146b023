"""Trajectories: their checks, their files, Minari, and agents that learn from them."""

import dataclasses
import sys

import gymnasium as gym
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import greedystep as gs
from greedystep import datasets, envs, tabular, trajectory
from greedystep.datasets import Dataset
from greedystep.trajectory import Trajectory

GOOD = {
    "observations": [0, 1, 2],
    "actions": [1, 0],
    "rewards": [0.5, -1],
    "terminated": [False, True],
    "truncated": [False, False],
}
KEYS = {"terminated": "terminations", "truncated": "truncations"}
"""Our name of an array -> Minari's."""


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
        ({"terminated": [0.5, 1.0]}, r"terminated: expected true or false \(1 or 0\), got 0.5 in step 0"),
        ({"truncated": [0, 2]}, r"truncated: expected true or false \(1 or 0\), got 2 in step 1"),
        ({"truncated": ["no", "yes"]}, r"truncated: expected true or false \(1 or 0\), got <U3"),
        ({"observations": ["a", "b", "c"]}, "observations: expected numbers, got <U1"),
        (
            {"observations": [{"a": 1}] * 3},
            r"got dict; flatten each observation first, with gymnasium\.spaces\.flatten",
        ),
        ({"actions": ["left", "right"]}, "actions: expected numbers, got <U5"),
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
    trajectory.save(path, Trajectory(**GOOD))
    content = bytearray(path.read_bytes())
    for place, byte in enumerate(noise):
        content[(place * 37) % len(content)] ^= byte
    path.write_bytes(content)
    try:
        assert_same(trajectory.load(path)[0], Trajectory(**GOOD))
    except ValueError as problem:
        assert "greedystep" in str(problem) or "damaged" in str(problem)  # noqa: PT017


# -- Minari -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")  # Minari's advice to describe a dataset better is not passed on
@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
@pytest.mark.parametrize("known", [True, False])
def test_minari_gives_back_what_was_put_in(tmp_path, monkeypatch, known, data_format):
    if data_format != "hdf5":
        pytest.importorskip("pyarrow")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    made = [
        Trajectory(**GOOD, behaviour_prob=[0.25, 1.0] if known else None),
        Trajectory([2, 0], [1], [2.0], [False], [True], [0.5] if known else None),
    ]
    spaces = (gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    how = {"description": "two episodes", "data_format": data_format}
    dataset = trajectory.to_minari("toy/tiny-v0", made, *spaces, **how)
    for source in (dataset, "toy/tiny-v0"):
        again = trajectory.from_minari(source)
        assert len(again) == 2
        for one, other in zip(made, again, strict=True):
            assert_same(one, other)
    folder = tmp_path / "toy" / "tiny-v0"
    paths = [folder, folder / "data"] + [folder / "data" / "main_data.hdf5"] * (data_format == "hdf5")
    for path in ("minari:toy/tiny-v0", *paths):
        found = Dataset.of(path)
        assert (found.steps, found.count, found.spaces) == (3, 2, spaces)
        for one, other in zip(made, found, strict=True):
            assert_same(one, other)


def test_images_are_kept_in_minari_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3)).astype(np.uint8)
    spaces = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8), gym.spaces.Discrete(2)
    trajectory.to_minari("toy/images-v0", [Trajectory(**GOOD | {"observations": images})], *spaces)
    np.testing.assert_array_equal(trajectory.from_minari("toy/images-v0")[0].observations, images)


def test_a_space_of_minari_s_that_starts_elsewhere_is_counted_from_0(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    spaces = gym.spaces.Discrete(3, start=5), gym.spaces.Discrete(2, start=-1)
    log = [Trajectory(**GOOD | {"observations": [5, 6, 7], "actions": [-1, 0]})]
    (found,) = Dataset.of(trajectory.to_minari("toy/starts-v0", log, *spaces))
    assert (found.observations.tolist(), found.actions.tolist()) == ([0, 1, 2], [0, 1])


def test_a_file_of_minari_s_without_its_metadata_is_read_where_it_says_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    made = [Trajectory(**GOOD, behaviour_prob=[0.5, i / 20]) for i in range(1, 13)]  # episode_10 comes after episode_9
    spaces = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    trajectory.to_minari("toy/tiny-v0", made, *spaces)
    alone = tmp_path / "steps.hdf5"
    (tmp_path / "toy/tiny-v0/data/main_data.hdf5").rename(alone)
    found = Dataset.of(alone)
    assert (found.steps, found.count, found.spaces) == (24, 12, None)
    for one, other in zip(made, found, strict=True):
        assert_same(one, other)
    images = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    parts = gym.spaces.Dict({"a": spaces[0], "b": spaces[0]})
    seen = np.zeros((3, 32, 32, 3), np.uint8)
    trajectory.to_minari(
        "toy/jpeg-v0", [Trajectory(**GOOD | {"observations": seen})], images, spaces[1], jpeg_encoding=True
    )
    jpegs = tmp_path / "toy/jpeg-v0/data/main_data.hdf5"
    assert next(iter(Dataset.of(jpegs))).observations.shape == seen.shape
    jpegs.rename(tmp_path / "jpegs.hdf5")
    with h5py.File(tmp_path / "parts.hdf5", "w") as file:
        for key, value in GOOD.items():
            file[f"episode_0/{KEYS.get(key, key)}"] = value
        del file["episode_0/observations"]
        for key in parts:
            file[f"episode_0/observations/{key}"] = [0, 1, 2]
    with h5py.File(tmp_path / "less.hdf5", "w") as file:
        file["episode_0/rewards"] = [1.0]
    for name, sentence in {
        "jpegs": "observations of episode_0 are JPEG images: metadata.json is missing beside the file",
        "parts": "observations of episode_0 are several arrays: metadata.json is missing beside the file",
        "less": "episode_0 has no observations",
    }.items():
        with pytest.raises(ValueError, match=rf"{name}\.hdf5'?: {sentence}"):
            list(Dataset.of(tmp_path / f"{name}.hdf5"))


def test_what_is_no_dataset_of_minari_s_is_answered_by_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    trajectory.to_minari("toy/tiny-v0", [Trajectory(**GOOD)], gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    data = tmp_path / "toy" / "tiny-v0" / "data"
    (tmp_path / "empty").mkdir()
    for path, sentence in {
        "minari:toy/none-v0": "it is not on this machine; `minari download toy/none-v0` gets it",
        "minari:bad id": "minari: expected an id such as cartpole/trained-v0: .*, got 'bad id'",
        "minari:none": "minari: expected an id such as cartpole/trained-v0: .*, got 'none'",
        str(tmp_path / "empty"): "a folder; expected a file, or the folder of a Minari dataset with its metadata.json",
        str(data / "0" / "part-0.arrow"): "a part of a dataset; expected a file, or the folder of a Minari dataset",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            Dataset.of(path)
    with h5py.File(data / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
    with pytest.raises(ValueError, match=r"^dataset: Minari cannot load '.*tiny-v0': "):
        list(Dataset.of(tmp_path / "toy" / "tiny-v0"))
    (data / "metadata.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tiny-v0': its metadata.json is not that of a dataset"):
        Dataset.of(tmp_path / "toy" / "tiny-v0")


def test_a_format_whose_reader_is_missing_is_named_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    trajectory.to_minari("toy/tiny-v0", [Trajectory(**GOOD)], gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    about = tmp_path / "toy" / "tiny-v0" / "data" / "metadata.json"
    about.write_text(about.read_text().replace('"hdf5"', '"arrow"'))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "minari.dataset._storages.arrow_storage", raising=False)
    with pytest.raises(ImportError, match=r'^toy/tiny-v0 needs pyarrow, .*: pip install "minari\[arrow\]"$'):
        Dataset.of("minari:toy/tiny-v0")


def test_an_id_is_checked_before_minari_makes_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    spaces = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    for name in ("bad id", "no-version", "../away-v0", ""):
        with pytest.raises(ValueError, match="minari: expected an id such as cartpole/trained-v0"):
            trajectory.to_minari(name, [Trajectory(**GOOD)], *spaces)
    with pytest.raises(NotImplementedError):  # Minari cannot write such a space
        trajectory.to_minari("graph-v0", [Trajectory(**GOOD)], gym.spaces.Graph(spaces[0], None), spaces[1])
    assert not list(tmp_path.iterdir())
    trajectory.to_minari("tiny-v0", [Trajectory(**GOOD)], *spaces)
    with pytest.raises(
        ValueError, match="minari: there is a dataset 'tiny-v0' already; choose another name or version"
    ):
        trajectory.to_minari("tiny-v0", [Trajectory(**GOOD)], *spaces)
    assert len(trajectory.from_minari("tiny-v0")) == 1


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


# -- datasets ---------------------------------------------------------------------------------------------------------

FLAT = {
    "observations": np.zeros((6, 2)),
    "actions": np.array([0, 1, 0, 1, 0, 1]),
    "rewards": np.ones(6),
    "terminals": np.array([0, 0, 1, 0, 0, 1]),
}
"""Two episodes of three steps."""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"observations": np.full(6, "seen")}, "log.npz: observations: expected numbers, got <U4"),
        ({"actions": np.full(6, "left")}, "log.npz: actions: expected numbers, got <U4"),
        (
            {"actions": np.array([0, 1, 0, 1, 0.5, 1])},
            r"log.npz, episode 1: actions: expected whole numbers, got 0.5 in step 1",
        ),
        (
            {"actions": np.array([0, 1, 0, 1, np.nan, 1])},
            r"log.npz, episode 1: actions: expected whole numbers, got nan",
        ),
        ({"actions": np.array([0, 1, 0, 1, 1e300, 1])}, r"log.npz, episode 1: actions: expected at most 16777215"),
        (
            {"actions": np.array([0, 1, 0, 1, 0, -1])},
            r"log.npz, episode 1: actions: expected actions that are numbered from 0, got -1 in step 2",
        ),
        (
            {"actions": np.zeros((6, 2))},
            r"log.npz, episode 0: actions: expected one whole number per step, got arrays of shape \[2\]",
        ),
        (
            {"terminals": np.array([0, 0, 1, 0, 0, 2])},
            r"log.npz, episode 1 \(from step 3\): terminated: expected true or false \(1 or 0\), got 2 in step 2",
        ),
        (
            {"terminals": np.full(6, 2)},
            r"log.npz, episode 0: terminated: expected true or false \(1 or 0\), got 2 in step 0",
        ),
        (
            {"timeouts": np.array([0, 0, 0, 0, np.nan, 0])},
            r"log.npz, episode 1 \(from step 3\): truncated: expected true or false \(1 or 0\), got nan in step 1",
        ),
        ({"observations": np.array(3.0)}, "log.npz: observations: expected one entry per step, got a single float64"),
        (
            {"next_observations": np.zeros((6, 3))},
            r"log.npz: next_observations: expected shape \[2\] as observations have, got \[3\]",
        ),
    ],
)
def test_faults_of_a_dataset_name_file_episode_and_step(wrong, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **FLAT | wrong)
    with pytest.raises(ValueError, match=f"^{message}"):
        Dataset.of("log.npz")


def test_whole_numbers_are_actions_whatever_their_dtype():
    for dtype in (np.float32, bool, np.uint8):
        first, second = Dataset.of(FLAT | {"actions": FLAT["actions"].astype(dtype)})
        assert first.actions.dtype.kind in "iu"
        assert (first.actions.tolist(), second.actions.tolist()) == ([0, 1, 0], [1, 0, 1])


class Frame:
    """What is asked of a pandas or polars DataFrame."""

    columns = ("x", "y")

    def to_dict(self):
        raise AssertionError("never converted")


def test_names_without_their_s_and_next_states_count():
    whole = Dataset.of(FLAT | {"timeouts": np.arange(6) == 1, "next_observations": np.zeros((6, 2))})
    names = {"state": "observations", "action": "actions", "reward": "rewards", "done": "terminals"}
    short = {name: FLAT[key] for name, key in names.items()}
    for timeouts, following in (("timeout", "next_state"), ("truncateds", "new_obs"), ("truncation", "next_states")):
        same = Dataset.of(short | {timeouts: np.arange(6) == 1, following: np.zeros((6, 2))})
        assert [(len(one), one.truncated[-1]) for one in same] == [(2, True), (1, False), (3, False)]
        assert [len(one) for one in same] == [len(one) for one in whole]
    assert len(Dataset.of(FLAT | {"dones": FLAT["terminals"] == 1, "states": np.ones((6, 9))})) == 2  # nothing differs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[[0, 1], [0], [1.0], [True]]], "dataset: episode 0 is a list; expected a Trajectory, a dict of arrays "),
        (
            FLAT | {"observations": {"place": np.zeros(6), "speed": np.zeros(6)}},
            "dataset: observations: expected one array of numbers, got dict; flatten each observation first, with "
            r"gymnasium\.spaces\.flatten\(env\.observation_space, observation\)$",
        ),
        (FLAT | {"observations": [{"place": 0}] * 6}, "got dict; flatten each observation first"),
        (FLAT | {"observations": [[0], [1, 2], [3], [4], [5], [6]]}, "dataset: observations: expected one array, got"),
        ({}, "dataset: expected an array observations or obs or states, got no arrays"),
        ({key: one[:1] for key, one in FLAT.items()}, "dataset: no step is left: the last step of an episode that"),
        ([(*(FLAT[key][:1] for key in FLAT),)], "dataset, episode 0: no step is left: the last step of an episode"),
        (FLAT | {"terminals": 2}, r"dataset: terminated: expected true or false \(1 or 0\), got 2 in step 0"),
        (FLAT | {"dones": np.arange(6) % 2}, "dataset: terminals and dones both mean terminated but differ; leave one"),
        (FLAT | {"rewards": np.zeros((6, 2))}, r"dataset: rewards: expected one per step, got shape \[6, 2\]"),
        (
            (FLAT["observations"], FLAT["actions"], FLAT["rewards"], FLAT["observations"], FLAT["terminals"]),
            r"dataset: terminated: expected one per step, got shape \[6, 2\]",
        ),
        (
            FLAT | {"rewards": np.ma.array(np.ones(6), mask=np.arange(6) == 2)},
            "dataset: rewards: expected no masked entries, got 1 of them",
        ),
        (Frame(), "dataset: expected a dict of arrays, got a DataFrame; write dict"),
        ([Frame()], "dataset, episode 0: expected a dict of arrays, got a DataFrame; write dict"),
    ],
)
def test_what_is_no_dataset_is_told_what_one_is(given, message):
    with pytest.raises(ValueError, match=message):
        Dataset.of(given)


@pytest.mark.parametrize("shape", [(), (2,), (3, 4, 1)])
def test_an_episode_ends_where_the_next_step_begins_elsewhere(shape, monkeypatch):
    monkeypatch.setattr(datasets, "ENTRIES_AT_ONCE", 4)  # several blocks
    seen = np.arange(7 * np.prod(shape, dtype=int)).reshape(7, *shape).astype(np.float32)
    following = seen[1:].astype(np.float64) + 1e-12  # the same in the precision of both
    following.reshape(6, -1)[2, -1] += 0.5  # cut after step 2, where an array differs in one number
    log = {"observations": seen[:6], "actions": np.zeros(6, int), "rewards": np.ones(6), "next_observations": following}
    first, second = Dataset.of(log | {"terminals": np.arange(6) == 5})
    np.testing.assert_array_equal(first.observations, [*seen[:3], following[2]])
    np.testing.assert_array_equal(second.observations, [*seen[3:6], following[5]])
    assert (first.truncated.tolist(), first.terminated.any()) == ([False, False, True], False)
    assert (second.truncated.any(), second.terminated.tolist()) == (False, [False, False, True])


def test_where_nothing_is_known_an_episode_does_not_end():
    seen = np.array([1.0, np.nan, 2.0])
    np.testing.assert_array_equal(datasets._jumps(seen, np.array([np.nan, 2.0, 3.0])), [False, False, False])
    np.testing.assert_array_equal(datasets._jumps(seen, np.array([np.nan, np.nan, 3.0])), [False, True, False])


@pytest.mark.parametrize("ends", [True, 1, np.True_, [False, True], [0, 1], [[False], [True]]])
@pytest.mark.parametrize("kind", [list, np.array])
def test_one_flag_says_how_an_episode_ends(ends, kind):
    parts = (kind(GOOD["observations"]), kind(GOOD["actions"]), kind(GOOD["rewards"]))
    keys = ("observations", "actions", "rewards", "terminals")
    expected = Trajectory(**GOOD)
    for log in ((*parts, ends), [(*parts, ends)], dict(zip(keys, (*parts, ends), strict=True))):
        (found,) = Dataset.of(log)
        assert_same(found, expected)
    (found,) = Dataset.of((parts[0], *parts[1:], False, [0.5, 1.0]))  # with one flag, the fifth is what tables have
    assert (found.terminated.any(), found.behaviour_prob.tolist()) == (False, [0.5, 1.0])
    (found,) = Dataset.of((parts[0][:2], *parts[1:], ends, None))  # without the last observation
    assert (found.observations.tolist(), found.terminated.tolist()) == ([0, 1, 1], [False, True])


def test_a_list_of_minari_s_episodes_is_a_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    made = [Trajectory(**GOOD), Trajectory([2, 0], [1], [2.0], [False], [True])]
    whole = trajectory.to_minari("toy/tiny-v0", made, gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    for log in ([whole[0], whole[1]], list(whole.iterate_episodes())):
        for one, other in zip(Dataset.of(log), made, strict=True):
            assert_same(one, other)
    parts = dataclasses.replace(whole[0], observations={"a": np.zeros(3)})
    with pytest.raises(ValueError, match=r"^dataset, episode 0: observations of several parts; give"):
        Dataset.of([parts])


def test_a_file_that_cannot_be_read_is_told_what_can(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for name in ("log.csv", "log.pkl", "log.npz"):
        (tmp_path / name).write_text("a,b")
        with pytest.raises(
            ValueError, match=rf"{name} is no file of logged steps \(.*\); expected \.npz of .*minari:ID"
        ):
            Dataset.of(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"no such trajectory file: toy/tiny-v0$"):
        Dataset.of("toy/tiny-v0")
    trajectory.to_minari("toy/tiny-v0", [Trajectory(**GOOD)], gym.spaces.Discrete(3), gym.spaces.Discrete(2))
    with pytest.raises(
        FileNotFoundError, match=r"no such trajectory file: toy/tiny-v0; did you mean minari:toy/tiny-v0\?"
    ):
        Dataset.of("toy/tiny-v0")


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
    columns = [(one.observations[:, None].astype(float), *rest) for one, (_, *rest) in zip(made, tuples, strict=True)]
    flags = [(states, actions, rewards, one.terminated.tolist(), *rest)
             for one, (states, actions, rewards, _, *rest) in zip(made, tuples, strict=True)]  # fmt: skip
    forms = (log, made, tuples, columns, flags, iter(tuples), Dataset.of(made), list(log.trajectories()))
    first, *others = (gs.TabularAgent(task, method, q=-20.0).fit(given).q for given in forms)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_table_takes_every_form_of_a_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    flat = {"observations": [0, 1, 3], "actions": [1, 0, 1], "rewards": [0.5, -1, 2], "terminals": [0, 1, 1]}
    tuples = [([0, 1, 0], [1, 0], [0.5, -1], True), ([3, 0], [1], [2.0], True)]
    np.savez(tmp_path / "log.npz", **flat)
    trajectory.save(tmp_path / "own.npz", Dataset.of(flat))
    minari = trajectory.to_minari("log-v0", list(Dataset.of(flat)), gym.spaces.Discrete(39), gym.spaces.Discrete(2))
    expected = gs.TabularAgent("toy/choice", "model").fit(tuples).q
    forms = (flat, tuple(map(np.array, flat.values())), tmp_path / "log.npz", str(tmp_path / "own.npz"), minari)
    for log in (*forms, "minari:log-v0", list(minari.iterate_episodes()), Dataset.of(flat)):
        np.testing.assert_array_equal(gs.TabularAgent("toy/choice", "model").fit(log).q, expected)
    with pytest.raises(
        ValueError, match="log: expected trajectories, arrays, a file or a Minari dataset, got NoneType"
    ):
        gs.TabularAgent("toy/choice").fit(None)
    np.savez(tmp_path / "bad.npz", **flat | {"observations": [0, 1, 99]})
    with pytest.raises(ValueError, match=r"bad\.npz, episode 1, step 0: state 99 is not in 0\.\.38"):
        gs.TabularAgent("toy/choice").fit(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"observations": [0, 1, 99]}, r"log, episode 1, step 2: state 99 is not in 0\.\.38"),
        ({"actions": [0, 2]}, r"log, episode 1, step 1: action 2 is not in 0\.\.1"),
        (
            {"observations": np.zeros((3, 2), int)},
            r"log, episode 1: states must be integers, one per step, got int64 \[2\]",
        ),
        ({"observations": [0.0, 1.5, 2.0]}, "log, episode 1: states must be integers, got 1.5 in step 1"),
    ],
)
def test_trajectories_that_do_not_fit_a_table_are_answered_by_one_sentence(bad, message):
    agent = gs.TabularAgent("toy/choice")
    before = agent.q.copy()
    with pytest.raises(ValueError, match=message):
        agent.fit([Trajectory(**GOOD), Trajectory(**(GOOD | bad))])
    np.testing.assert_array_equal(agent.q, before)

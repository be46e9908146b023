"""Files of MDPs: what is saved comes back, and what is damaged or foreign is refused by one sentence."""

import contextlib
import os
import zipfile

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from test_mdp import P, R, assert_same_model, seeds, sparse

from greedystep import models
from greedystep.mdp import FILE_FORMAT, MDP


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_save_and_load_bring_the_model_back(tmp_path_factory, seed):
    mdp = oracles.random_mdp(np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("models") / "model.npz"
    mdp.save(path)
    again = MDP.load(str(path))
    assert_same_model(mdp, again)
    assert [p.name for p in path.parent.iterdir()] == ["model.npz"]


def test_the_name_and_the_rights_of_a_file_are_those_asked_for(tmp_path):
    path = tmp_path / "model"  # no .npz is put behind it
    MDP(P, R, 0.9).save(path)
    (tmp_path / "plain").write_text("")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert_same_model(MDP.load(path), MDP(P, R, 0.9))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    MDP(P, R, 0.9).save(path)
    before = path.read_bytes()

    def full_disk(file, **arrays):
        file.write(b"half of it")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(OSError, match="No space left"):
        MDP(P, 2 * R, 0.9).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such model file: .*nothing\.npz"):
        MDP.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError, match="it is a folder, not a file"):
        MDP.load(tmp_path)


def test_truncated_files_of_every_length(tmp_path):
    path = tmp_path / "model.npz"
    MDP(P, R, 0.9).save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"model\.npz is no model file of greedystep"):
            MDP.load(path)


def test_flipped_bytes_never_raise_anything_but_a_sentence(tmp_path):
    path = tmp_path / "model.npz"
    models.chain(3).save(path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for place in random.integers(0, len(whole), 300):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):  # and some bytes of an archive say nothing that matters
            MDP.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, format="weights", weights=np.ones(3))
    with pytest.raises(ValueError, match=f"no model file of greedystep .its format is not '{FILE_FORMAT}'"):
        MDP.load(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"no model file of greedystep .it is not an archive of arrays"):
        MDP.load(path)
    with open(path, "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(ValueError, match=r"no model file of greedystep .it holds a single array"):
        MDP.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no arrays")
    with pytest.raises(ValueError, match=r"other\.npz is no model"):
        MDP.load(path)


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    poison = np.array([[print]], dtype=object)
    np.savez(path, format=FILE_FORMAT, rewards=poison, discount=0.9)
    with pytest.raises(
        ValueError, match=r"no model file of greedystep .it holds Python objects, which are never loaded"
    ):
        MDP.load(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indices", np.array([9, 0, 1, 0, 1], np.int32), "is damaged"),
        ("indices", np.array([-1, 0, 1, 0, 1], np.int32), "is damaged"),
        ("indptr", np.array([0, 1, 3, 2, 5], np.int32), "is damaged"),
        ("indptr", np.array([0, 1, 3], np.int32), "is damaged"),
        ("data", np.ones(2), "is damaged"),
        ("data", np.full(5, np.nan), r"is damaged: transitions: p\(s'=1 \| s=0, a=0\) is nan"),
        ("rewards", np.ones(4), "is damaged"),
        ("rewards", np.full((2, 2), np.nan), r"is damaged: rewards: r\[0, 0\] is nan"),
        ("discount", np.array([0.9, 0.9]), "is damaged"),
        ("discount", np.array(7.0), "is damaged: discount"),
        ("termination", np.ones(3), "is damaged: termination"),
        ("rewards", None, "is damaged: it has no 'rewards'"),
        ("data", None, "is damaged: it has no 'data'"),
    ],
)
def test_damaged_arrays_are_named(tmp_path, name, value, message):
    path = tmp_path / "model.npz"
    MDP(sparse(), R, 0.9).save(path)
    with np.load(path) as archive:
        arrays = dict(archive) | {name: value}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(ValueError, match=message):
        MDP.load(path)

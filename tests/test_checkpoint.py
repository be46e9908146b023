"""Checkpoints: what comes back, what a damaged file is answered with, and what a kill or a full disk leaves."""

import errno
import os
import random
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedystep import checkpoint
from greedystep.checkpoint import latest, prune, read_about, restore, save


class State(NamedTuple):
    params: dict
    key: jax.Array
    host: tuple


def make_state(seed: int = 0) -> State:
    key = jax.random.key(seed)
    params = {
        "w": jax.random.normal(key, (3, 4)),
        "half": jnp.asarray([1.5, -jnp.inf, jnp.nan], jnp.bfloat16),
        "tiny": jnp.asarray([-8, 7], jnp.int4),
        "flags": jnp.asarray([[True], [False]]),
        "frames": jnp.arange(7, dtype=jnp.uint8),
        "count": jnp.asarray(2**31 - 1, jnp.int32),
        "empty": jnp.zeros((0, 5)),
        "weak": jnp.full((2,), 0.1),
        "nothing": None,
    }
    host = (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float32(-0.0), np.arange(4, dtype=">i8"))
    return State(params, jax.random.split(key, 3), host)


def assert_same(state, other):
    """Equal to the bit, in values, kinds of array, dtypes and weak types."""
    assert jax.tree.structure(state) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        assert isinstance(b, type(a))
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None)
        assert getattr(a, "committed", None) == getattr(b, "committed", None)
        assert bits(a) == bits(b)


def bits(array) -> bytes:
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array).tobytes()


# -- what comes back --------------------------------------------------------------------------------------------------


def test_everything_comes_back_to_the_bit(tmp_path):
    about = {"config": {"returns": "greedy-step", "ensemble": 6}, "best": -np.inf, "name": "γ"}
    path = save(tmp_path / "new" / "folder", 1000, make_state(), about)
    assert path == latest(tmp_path / "new" / "folder") == tmp_path / "new" / "folder" / "step-000000001000.ckpt"
    state, again = restore(path, like=make_state(seed=1))
    assert_same(make_state(), state)
    assert again == read_about(path) == about


def test_the_template_may_be_shapes_alone(tmp_path):
    state = {"key": jax.random.key(3), "x": jnp.arange(3.0), "weak": jnp.asarray(2.0)}
    restored, _ = restore(save(tmp_path, 0, state, {}), like=jax.eval_shape(lambda: state))
    assert_same(state, restored)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_a_random_key_goes_on_with_the_same_numbers(tmp_path, impl):
    key = jax.random.key(5, impl=impl)
    restored, _ = restore(save(tmp_path, 0, key, {}), like=jax.random.key(0, impl=impl))
    assert jax.random.normal(restored, (4,)).tolist() == jax.random.normal(key, (4,)).tolist()


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(
        hnp.arrays(
            st.sampled_from(["f4", "f8", "i2", "u1", "?", "c8", "<U3", "M8[s]"]),
            hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
        ),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
)
def test_any_tree_of_arrays_comes_back(tmp_path_factory, state):
    path = save(tmp_path_factory.mktemp("tree"), 7, state, {})
    assert_same(state, restore(path, like=jax.tree.map(np.empty_like, state))[0])


def test_the_same_state_makes_the_same_file(tmp_path):
    one, two = (save(tmp_path / name, 5, make_state(), {"a": 1}) for name in "ab")
    assert one.read_bytes() == two.read_bytes()


def test_the_state_may_be_donated_after_saving_and_after_restoring(tmp_path):
    double = jax.jit(lambda tree: jax.tree.map(lambda x: x * 2, tree), donate_argnums=0)
    state = {"big": jnp.arange(100_000.0), "small": jnp.asarray(3, jnp.int32)}
    path = save(tmp_path, 1, state, {})
    doubled = double(state)
    assert state["big"].is_deleted()
    restored, _ = restore(path, like=doubled)
    assert restored["big"].tolist() == list(range(100_000))
    again = double(restored)
    assert_same(doubled, again)


def test_a_committed_array_goes_back_to_its_device(tmp_path):
    state = jax.device_put(jnp.arange(3), jax.devices()[0])
    restored, _ = restore(save(tmp_path, 1, state, {}), like=state)
    assert_same(state, restored)
    assert restored.sharding == state.sharding


def test_a_restored_state_runs_the_program_that_is_already_compiled(tmp_path):
    compiled = []

    @jax.jit
    def chunk(state):
        compiled.append(1)
        return jax.tree.map(lambda x: x, state)

    state = chunk({"weak": jnp.full((2,), 0.1), "key": jax.random.key(0), "x": jnp.zeros(3, jnp.bfloat16)})
    restored, _ = restore(save(tmp_path, 1, state, {}), like=state)
    chunk(restored)
    assert len(compiled) == 1


# -- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ({"a": np.zeros((2, 3), "f4"), "b": np.zeros(2)}, r"state\['a'\]: float32\[2, 2\] where .*float32\[2, 3\]"),
        ({"a": np.zeros((2, 2)), "b": np.zeros(2)}, r"state\['a'\]: float32\[2, 2\] where .*float64\[2, 2\]"),
        ({"a": np.zeros((2, 2), "f4")}, r"state\['b'\]: float64\[2\] where `like` has nothing more"),
        ({"a": np.zeros((2, 2), "f4"), "b": np.zeros(2), "c": np.zeros(1)}, r"nothing more where .*state\['c'\]"),
        ({"a": np.zeros((2, 2), "f4"), "c": np.zeros(2)}, r"state\['b'\]: .* where `like` has state\['c'\]"),
        ({"a": jax.random.key(0), "b": np.zeros(2)}, r"state\['a'\]: float32\[2, 2\] where .*key<fry>\[\]"),
        ({"a": np.zeros((2, 2), "f4"), "b": 3}, r"state\['b'\] must be an array of numbers, got int: 3"),
    ],
)
def test_the_first_leaf_that_differs_is_named(tmp_path, like, said):
    path = save(tmp_path, 0, {"a": np.zeros((2, 2), "f4"), "b": np.zeros(2)}, {})
    with pytest.raises(ValueError, match=said):
        restore(path, like=like)


def test_keys_of_another_generator_do_not_fit(tmp_path):
    path = save(tmp_path, 0, jax.random.key(0, impl="rbg"), {})
    with pytest.raises(ValueError, match=r"key<rbg>\[\] where `like` has state: key<fry>\[\]"):
        restore(path, like=jax.random.key(0))


@pytest.mark.parametrize("leaf", [1, "text", np.asarray([None]), jax.nn.relu, jax.ShapeDtypeStruct((), "f4")])
def test_what_is_no_array_is_refused_and_nothing_is_written(tmp_path, leaf):
    with pytest.raises(ValueError, match=r"state\['a'\]\[0\] must be an array of numbers"):
        save(tmp_path, 0, {"a": [leaf]}, {})
    with pytest.raises(TypeError, match="as JSON"):
        save(tmp_path, 0, np.zeros(1), {"a": leaf if callable(leaf) else object()})
    assert list(tmp_path.iterdir()) == []


def test_bad_numbers_are_named(tmp_path):
    with pytest.raises(ValueError, match="step must be at least 0, got -1"):
        save(tmp_path, -1, np.zeros(1), {})
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        prune(tmp_path, keep=0)


# -- damage -----------------------------------------------------------------------------------------------------------


def small(value: float) -> dict:
    return {"x": np.full(3, value), "flag": np.asarray(True)}


def test_every_changed_byte_and_every_cut_is_found(tmp_path):
    path = save(tmp_path, 1, small(2.0), {"a": 1})
    whole = path.read_bytes()
    broken = [whole[:i] + bytes([whole[i] ^ 64]) + whole[i + 1 :] for i in range(len(whole))]
    broken += [whole[:i] for i in range(len(whole))] + [whole + b"\0"]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(checkpoint.DamagedCheckpointError, match=re.escape(f"{path} is damaged")):
            restore(path, like=small(0.0))
        with pytest.raises(checkpoint.DamagedCheckpointError, match=re.escape(f"no checkpoint is whole: {path} is d")):
            latest(tmp_path)


def test_a_damaged_leaf_is_named(tmp_path):
    path = save(tmp_path, 1, small(2.0), {})
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ValueError, match=r"is damaged: the bytes of state\['x'\] have changed"):
        restore(path, like=small(0.0))


def test_the_checkpoint_before_a_damaged_one_is_used(tmp_path):
    paths = [save(tmp_path, step, small(step), {}) for step in (8, 9, 10)]
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match=r"step-000000000010\.ckpt is damaged: .*; it is passed over"):
        assert latest(tmp_path) == paths[1]


def test_a_checkpoint_of_another_version_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "VERSION", 7)
    path = save(tmp_path, 1, small(1), {})
    monkeypatch.undo()
    for read in (latest, lambda _: restore(path, like=small(0)), lambda _: read_about(path)):
        with pytest.raises(
            ValueError, match=r"step-000000000001\.ckpt is a checkpoint of version 7, .* reads version 1"
        ):
            read(tmp_path)


def test_a_folder_without_checkpoints_has_no_latest(tmp_path):
    (tmp_path / "step-12.ckpt").write_text("not ours")
    assert latest(tmp_path) is None
    assert latest(tmp_path / "missing") is None


# -- pruning ----------------------------------------------------------------------------------------------------------


def test_the_newest_are_kept_and_other_files_are_left_alone(tmp_path):
    steps = [5, 999_999_999_999, 10, 1_000_000_000_000, 70]
    for step in steps:
        save(tmp_path, step, small(step), {})
    (tmp_path / "notes.txt").touch()
    prune(tmp_path, keep=3)
    kept = [f"step-{step:012d}.ckpt" for step in sorted(steps)[-3:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "notes.txt"])
    assert latest(tmp_path) == tmp_path / "step-1000000000000.ckpt"


def test_cut_files_do_not_count_as_kept(tmp_path):
    paths = [save(tmp_path, step, small(step), {}) for step in range(5)]
    for path in paths[3:]:
        path.write_bytes(path.read_bytes()[:-1])
    prune(tmp_path, keep=2)
    assert sorted(tmp_path.iterdir()) == paths[1:]


# -- full disks and kills ---------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    before = save(tmp_path, 1, small(1), {})

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot save .*step-000000000002\.ckpt; .* are whole \(No space left") as caught:
        save(tmp_path, 2, small(2), {})
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == [before]
    assert latest(tmp_path) == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_write_that_stops_half_way_leaves_the_checkpoint_before(tmp_path):
    script = """
import resource, sys
import numpy as np
from greedystep.checkpoint import save
save(sys.argv[1], 1, np.ones(100_000), {})
resource.setrlimit(resource.RLIMIT_FSIZE, (900_000, 900_000))
try:
    save(sys.argv[1], 2, np.ones(200_000), {})
except OSError as problem:
    print(problem)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r".*cannot save .*step-000000000002\.ckpt; the checkpoints before it are whole \(.+\)\n", said)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000001.ckpt"]
    restore(tmp_path / "step-000000000001.ckpt", like=np.ones(100_000))


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path):
    (tmp_path / ".step-000000000001.ckpt.4711.part").write_bytes(b"half")
    path = save(tmp_path, 1, small(1), {})
    assert list(tmp_path.iterdir()) == [path]


SAVING = """
import sys
from itertools import count
import numpy as np
from greedystep.checkpoint import prune, save
for step in count(int(sys.argv[2])):
    save(sys.argv[1], step, {"a": np.full(50_000, step), "b": np.full(50_000, -step)}, {"step": step})
    prune(sys.argv[1], keep=2)
    if step == int(sys.argv[2]):
        print("saving", flush=True)
"""


def kill_while_saving(folder, times: int) -> None:
    """Each process goes on where the last was killed; whatever the moment, the newest file is whole and up to date."""
    moments = random.Random(0)
    like, step = {"a": np.zeros(50_000, int), "b": np.zeros(50_000, int)}, 0
    for _ in range(times):
        command = [sys.executable, "-c", SAVING, str(folder), str(step)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        path = latest(folder)
        assert path is not None
        state, about = restore(path, like=like)
        assert about["step"] >= step
        step = about["step"]
        assert (state["a"] == step).all()
        assert (state["b"] == -step).all()
        assert len(list(folder.glob("step-*"))) <= 3


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    kill_while_saving(tmp_path, times=3)


@pytest.mark.long
def test_a_hundred_kills_leave_a_whole_checkpoint(tmp_path):
    kill_while_saving(tmp_path, times=100)

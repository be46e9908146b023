"""Lanes on one device and on four give the same numbers, and a training that began on some goes on on others."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import four_devices
import jax
import numpy as np
import pytest
from deep_runs import _bits
from four_devices import END, HALF, checkpoint_at, heads_of_lanes, largest_share, make_trainer, train

from greedystep import checkpoint, checks
from greedystep.deep import trainer as trainer_module
from greedystep.deep.device_memory import check_device_memory
from greedystep.deep.lane_devices import lane_devices, one_lane, shares
from greedystep.provenance import device_names

GB = 10**9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("devices")


@pytest.fixture(scope="module")
def one(folder):
    """Six lanes on one device: the trainer at its end, and its rows and episodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer_module, "RENUMBER_FROM", HALF)
        trainer = make_trainer(6)
        assert len(trainer.devices) == 1
        result = train(trainer, folder / "one")
        yield trainer, result


@pytest.fixture(scope="module")
def four(folder, one):
    """The same in a process with four devices: what it wrote."""
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(Path(four_devices.__file__)), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "four.json").read_text())
    assert found["devices"] == 4
    return found


def saved_lanes(path, like, lanes):
    """The states of so many lanes in a checkpoint."""
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((lanes, *x.shape[1:]), x.dtype), like.lanes)
    return checkpoint.restore(path, like._replace(lanes=shapes))[0].lanes


def assert_equal(mine, theirs):
    pairs = list(zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True))
    assert len(pairs) > 10
    for a, b in pairs:
        np.testing.assert_array_equal(_bits(a), _bits(b))


@pytest.mark.parametrize(("lanes", "devices"), [(4, 4), (6, 3)])
def test_each_lane_has_the_numbers_of_one_device(lanes, devices, one, four, folder):
    trainer, expected = one
    found = four[str(lanes)]
    assert found["devices"] == devices
    assert found["rows"] == [row for row in expected["rows"] if row["lane"] < lanes]
    assert found["played"] == [x[:lanes] for x in expected["played"]]
    own = jax.tree.map(lambda x: x[:lanes], trainer.state.lanes)
    assert_equal(saved_lanes(checkpoint_at(folder / f"four-{lanes}", END), trainer.state, lanes), own)


@pytest.mark.parametrize("lanes", ["4", "6"])
def test_devices_send_nothing_to_each_other(lanes, four):
    assert four[lanes]["collectives"] == []


def test_a_training_of_one_device_goes_on_on_three(one, four, folder):
    trainer, expected = one
    assert four["resumed"]["rows"] == [row for row in expected["rows"] if row["step"] > HALF]
    assert four["resumed"]["played"] == expected["played"]
    assert_equal(saved_lanes(checkpoint_at(folder / "resumed", END), trainer.state, 6), trainer.state.lanes)


def test_a_training_of_three_devices_goes_on_on_one(one, four, folder):
    trainer, expected = one
    end = trainer.state
    trainer.restore(checkpoint_at(folder / "four-6", HALF))
    again = train(trainer, folder / "again")
    assert again["rows"] == [row for row in expected["rows"] if row["step"] > HALF]
    assert_equal(trainer.state.lanes, end.lanes)


def test_one_lane_can_leave_the_others(one, four, folder):
    trainer, _ = one
    assert all(four["alone"])
    own = jax.tree.map(lambda x: x[3:4], trainer.state.lanes)
    assert_equal(saved_lanes(checkpoint_at(folder / "alone", END), trainer.state, 1), own)


def test_heads_of_lanes_on_other_devices_are_read(four):
    columns, best = heads_of_lanes(jax.local_devices()[:1])
    assert four["heads"] == [columns, best]
    assert best == [own["head"] for own in columns]


def test_a_device_needs_memory_for_its_share(four):
    assert four["6"]["intermediate"] == largest_share(make_trainer(2)) > 0


def test_the_command_says_how_many_devices_it_used(four):
    assert "per second on 4 devices at the end" in " ".join(four["said"].split())


def test_a_device_chosen_in_jax_is_the_only_one(four):
    assert four["chosen"] == [1]


@pytest.mark.parametrize(("lanes", "used"), {1: 1, 3: 3, 4: 4, 5: 1, 6: 3, 7: 1, 8: 4, 10: 2}.items())
def test_as_many_devices_as_divide_the_lanes(lanes, used, monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: [f"device {i}" for i in range(4)])
    assert lane_devices(lanes) == [f"device {i}" for i in range(used)]


def test_on_one_device_nothing_is_copied():
    lanes = {"a": jax.numpy.arange(6.0).reshape(3, 2)}
    assert shares(lanes)[0] is lanes
    np.testing.assert_array_equal(one_lane(lanes, 2)["a"], [4, 5])


# -- memory and names --------------------------------------------------------------------------------------------------


def device(**stats):
    return SimpleNamespace(device_kind="H200", memory_stats=lambda: stats or None)


def test_the_fullest_device_decides():
    devices = [device(bytes_limit=9 * GB, bytes_in_use=GB), device(bytes_limit=9 * GB, bytes_in_use=7 * GB)]
    check_device_memory("batch_size=8", 3 * GB, devices[:1])
    with pytest.raises(MemoryError, match=r"^batch_size=8: needs about 3 GB of memory, this machine has 2 GB free$"):
        check_device_memory("batch_size=8", 3 * GB, devices)


def test_devices_of_a_cpu_share_its_memory(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: 4 * GB)
    check_device_memory("batch_size=8", GB, [device()] * 4)
    with pytest.raises(MemoryError, match=r"^batch_size=8: needs about 8 GB of memory, this machine has 4 GB free$"):
        check_device_memory("batch_size=8", 2 * GB, [device()] * 4)


def test_devices_are_counted_in_provenance():
    assert device_names([device()]) == "H200"
    assert device_names([device(), device(), SimpleNamespace(device_kind="cpu")]) == "2 x H200, cpu"

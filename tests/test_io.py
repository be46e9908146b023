"""Provenance, and files that are complete or not there."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import greedystep
from greedystep import io, provenance

numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**53), 2**53)
text = st.text().filter(lambda s: s not in io.NOT_FINITE)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(values)
def test_json_comes_back_as_it_was(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "value.json"
    io.write_json(path, value)
    strict = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert strict is not None or value is None
    assert repr(io.read_json(path)) == repr(value)  # repr: nan equals itself, -0.0 differs from 0.0


def test_numpy_becomes_plain_numbers(tmp_path):
    value = {"matrix": np.array([[1, -np.inf], [np.nan, 2]]), "scalar": np.float32(0.5), "flag": np.bool_(True)}
    io.write_json(tmp_path / "a.json", value)
    raw = json.loads((tmp_path / "a.json").read_text())
    assert raw == {"matrix": [[1.0, "-Infinity"], ["NaN", 2.0]], "scalar": 0.5, "flag": True}
    assert io.read_json(tmp_path / "a.json")["matrix"][0][1] == -math.inf


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {3}}, 1j, np.array([1j])])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, value):
    with pytest.raises(TypeError):
        io.write_json(tmp_path / "a.json", value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"a": 1} more'])
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json is not a readable JSON file"):
        io.read_json(tmp_path / "a.json")


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    for write in (lambda path: io.write_text(path, "text"), greedystep.models.chain(3).save):
        with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'$"):
            write(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    io.write_json(path, "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}"):
        io.write_json(path, "new")
    assert io.read_json(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    io.write_json(path, "old")
    script = f"""
import time
from datetime import datetime
from greedystep.io import atomic_write
with atomic_write({str(path)!r}) as file:
    file.write(b"half of the ")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert io.read_json(path) == "old"


def test_files_go_through_links_and_get_ordinary_permissions(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "target.json")
    io.write_json(tmp_path / "link.json", 1)
    assert (tmp_path / "link.json").is_symlink()
    target = tmp_path / "real" / "target.json"
    assert io.read_json(target) == 1
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_provenance_says_what_it_must():
    made = provenance.provenance({"scale": "quick"}, command="greedystep reproduce fig1")
    assert made["command"] == "greedystep reproduce fig1"
    assert made["config"] == {"scale": "quick"}
    assert made["config_hash"] == provenance.config_hash({"scale": "quick"})
    assert made["versions"]["greedystep"] == greedystep.__version__
    assert made["versions"]["numpy"] == np.__version__
    assert {"scipy", "numba", "jax", "tyro", "rich", "matplotlib", "gymnasium"} <= set(made["versions"])
    assert all(made["versions"].values())
    assert made["python"] == ".".join(map(str, sys.version_info[:3]))
    assert abs(time.time() - datetime.fromisoformat(made["date"]).timestamp()) < 60
    assert made["commit"] is None or len(made["commit"].removesuffix("-dirty")) == 40
    json.dumps(made, allow_nan=False)


def test_the_command_is_recorded_without_the_folder_it_is_installed_in(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/greedystep", "plan", "two words"])
    assert provenance.provenance({})["command"] == "greedystep plan 'two words'"


def test_a_module_is_recorded_as_it_is_started(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/greedystep/cli/__main__.py", "plan"])
    monkeypatch.setattr(sys.modules["__main__"], "__package__", "greedystep.cli")
    assert provenance.provenance({})["command"] == "python -m greedystep.cli plan"


def test_the_hash_depends_on_the_settings_and_not_on_their_order():
    assert provenance.config_hash({"a": 1, "b": 2.5}) == provenance.config_hash({"b": 2.5, "a": 1})
    assert provenance.config_hash({"a": 1}) != provenance.config_hash({"a": 2})


def test_asking_for_provenance_does_not_import_jax():
    script = "import sys; from greedystep.provenance import provenance; provenance({}); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)

"""Files are data: what a file names is never imported, and what is wrong with one is said in a sentence."""

import json
import os
import struct
import sys
import zipfile

import gymnasium
import numpy as np
import pytest

import greedystep as gs
from greedystep import checkpoint, checks, io, models, schema, trajectory
from greedystep.cli import main
from greedystep.metrics import read_metrics
from greedystep.trajectory import Trajectory

LOG = [Trajectory([0, 1, 2], [0, 1], [0.0, 1.0], [False, True], [False, False])]

# -- environments that a file names -----------------------------------------------------------------------------------

MODULE = """
import gymnasium

class Walk(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at += int(action)
        return self.at, float(action), self.at == 2, False, {}

gymnasium.register("Walk-v0", entry_point=Walk, max_episode_steps=20)
"""
NAME = "a_module_of_somebody:Walk-v0"


@pytest.fixture
def somebody(tmp_path, monkeypatch):
    """A function that makes this process forget the module, as if it were a new one."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "a_module_of_somebody.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "modules")

    def forget():
        sys.modules.pop("a_module_of_somebody", None)
        gymnasium.registry.pop("Walk-v0", None)

    yield forget
    forget()


def is_imported():
    return "a_module_of_somebody" in sys.modules


def test_a_module_that_an_agent_file_names_is_not_imported(tmp_path, somebody):
    agent = gs.TabularAgent(NAME, method="q-learning")
    agent.learn(5)
    agent.save(tmp_path / "agent.npz")
    np.testing.assert_array_equal(gs.load(tmp_path / "agent.npz").q, agent.q)  # the caller has imported it
    somebody()
    for load in (gs.load, gs.TabularAgent.load):
        with pytest.raises(ValueError, match=r"agent\.npz names the environment 'a_module_of_somebody:Walk-v0'"):
            load(tmp_path / "agent.npz")
    assert not is_imported()
    np.testing.assert_array_equal(gs.load(tmp_path / "agent.npz", env=NAME).q, agent.q)


def test_a_module_that_a_run_names_is_not_imported(tmp_path, somebody, capsys):
    run = str(tmp_path / "run")
    how = ["--method", "q-learning", "--out", run]
    assert main(["train", NAME, "--episodes", "10", *how]) == 0
    somebody()
    assert main(["train", "--resume", run, "--episodes", "20"]) == 2
    assert "name the environment yourself" in capsys.readouterr().err
    with pytest.raises(ValueError, match="would be imported"):
        gs.load(run)
    assert main(["train", "FrozenLake-v1", "--resume", run, "--episodes", "20"]) == 2
    assert f"is a run in '{NAME}', got 'FrozenLake-v1'" in capsys.readouterr().err
    assert not is_imported()
    assert main(["train", NAME, "--resume", run, "--episodes", "20"]) == 0
    assert gs.load(run, env=NAME).episodes == 20


def test_an_id_that_is_registered_needs_no_word(tmp_path):
    assert (
        main(["train", "FrozenLake-v1", "--method", "q-learning", "--episodes", "5", "--out", str(tmp_path / "a")]) == 0
    )
    assert gs.load(tmp_path / "a").task.name == "FrozenLake-v1"


def test_a_module_that_a_minari_dataset_names_is_not_imported(tmp_path, monkeypatch, somebody):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    spaces = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)
    trajectory.to_minari("toy/tiny-v0", LOG, *spaces)
    (about,) = (tmp_path / "datasets").rglob("metadata.json")
    content = json.loads(about.read_text())
    del content["observation_space"]
    wrapped = {"additional_wrappers": [], "entry_point": "a_module_of_somebody:Walk", "id": "Other-v0"}
    about.write_text(json.dumps(content | {"env_spec": json.dumps(wrapped)}))
    with pytest.raises(ValueError, match="does not tell its observation_space"):
        trajectory.from_minari("toy/tiny-v0")
    assert not is_imported()
    about.write_text("{")
    with pytest.raises(ValueError, match="Minari cannot load"):
        trajectory.from_minari("toy/tiny-v0")


# -- what is no file at all -------------------------------------------------------------------------------------------

LOADERS = {
    "agent": gs.load,
    "model": gs.MDP.load,
    "trajectories": trajectory.load,
    "JSON": io.read_json,
    "metrics": read_metrics,
    "checkpoint": checkpoint.read_about,
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_pipes_devices_loops_and_folders_are_refused_at_once(tmp_path, load):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="it is a pipe or device, not a file"):
        load(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe or device, not a file"):
        load("/dev/zero")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        load(tmp_path / "loop")
    if load is not gs.load:
        with pytest.raises(IsADirectoryError, match="it is a folder, not a file"):
            load(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "pipe"],
        ["eval", "loop"],
        ["watch", "pipe"],
        ["plan", "pipe.npz"],
        ["fit", "pipe", "--env", "toy/choice"],
        ["report", "pipe", "--out", "new"],
        ["train", "--resume", "loop"],
        ["train", "toy/choice", "--out", "loop"],
        ["report", "run", "--out", "loop"],
    ],
    ids=" ".join,
)
def test_the_commands_say_so_too(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.mkfifo("pipe.npz")
    os.symlink("loop", "loop")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert main(words) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1, said
    assert sorted(tmp_path.rglob("*")) == before


# -- archives of arrays -----------------------------------------------------------------------------------------------


def made_up(path, header, data=b"", name="format.npy"):
    """An archive whose array has that header, with right checksums everywhere."""
    text = header.encode() + b"\n"
    content = np.lib.format.MAGIC_PREFIX + b"\x01\x00" + struct.pack("<H", len(text)) + text + data
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '''<f8', 'fortran_order': False, 'shape': (1,), }",  # tokenize.TokenError in np.load
        "{'descr': '<f8', 'fortran_order': False, 'shape': (((((1,), }",
        "(" * 5000,
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999, 99999), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': __import__('os'), 'shape': (1,), }",
        "",
    ],
)
def test_made_up_headers_are_one_sentence(tmp_path, header):
    path = made_up(tmp_path / "a.npz", header, b"\0" * 8)
    for load, noun in ((gs.MDP.load, "model"), (gs.load, "agent"), (trajectory.load, "trajectory")):
        with pytest.raises(ValueError, match=rf"a\.npz is no {noun} file of greedystep \(.*\)$"):
            load(path)


def test_an_archive_that_does_not_fit_into_memory_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "bomb.npz", q=np.zeros(2_000_000))
    assert (tmp_path / "bomb.npz").stat().st_size < 20_000
    monkeypatch.setattr(checks, "free_memory", lambda: 1_000_000)
    with pytest.raises(ValueError, match=r"needs about 16 MB of memory, this machine has 1 MB free"):
        io.read_npz(tmp_path / "bomb.npz")


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {
        "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
        "empty": np.zeros((2, 0, 5)),
        "scalar": np.float32(2.5),
        "text": np.array(["a", "γδ"]),
        "big": np.arange(3, dtype=">i2"),
        "flags": np.array([True, False]),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        for name, array in io.read_npz(tmp_path / "a.npz").items():
            assert array.dtype == arrays[name].dtype
            np.testing.assert_array_equal(array, arrays[name])


def test_two_arrays_of_one_name_are_refused(tmp_path):
    models.chain(3).save(tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as made, pytest.warns(UserWarning, match="Duplicate name"):
        made.writestr("rewards.npy", made.read("rewards.npy"))
    with pytest.raises(ValueError, match="it holds 'rewards' twice"):
        gs.MDP.load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("episodes", "many", r"about\.episodes: expected an integer"),
        ("episodes", -1, r"about\.episodes: expected an integer"),
        ("steps", 10**30, r"about\.steps: expected an integer"),
        ("epsilon", "NaN", r"about\.epsilon: expected a number in \[0, 1\], got nan"),
        ("options", [], r"about\.options: expected an object, got \[\]"),
        ("options", {"form": []}, "form: expected one of"),
        ("options", {"seed": 3}, "seed: greedy-step has no such option"),
        ("method", None, r"about\.method: expected text"),
        ("random", {}, r"about\.random has no 'bit_generator'"),
        ("random", {"bit_generator": "MT19937"}, "expected one of PCG64"),
        ("made_with", {"name": "x"}, "name: toy/choice has no such option"),
        ("task", "evil", "'evil' is not one of"),
        ("world", {"discount": 0.9}, r"about\.world has no 'limit'"),
    ],
)
def test_wrong_entries_of_a_table_are_named(tmp_path, entry, value, message):
    gs.TabularAgent("toy/choice").save(tmp_path / "a.npz")
    arrays = io.read_npz(tmp_path / "a.npz")
    about = json.loads(str(arrays["about"])) | {entry: value}
    np.savez(tmp_path / "a.npz", **arrays | {"about": np.array(json.dumps(about))})
    with pytest.raises(ValueError, match=rf"a\.npz (is damaged|cannot be loaded): .*{message}"):
        gs.load(tmp_path / "a.npz")


def test_a_model_whose_lists_are_circles_is_refused(tmp_path):
    agent = gs.TabularAgent("toy/choice", form="expected")
    agent.learn(3)
    agent.save(tmp_path / "a.npz")
    arrays = io.read_npz(tmp_path / "a.npz")
    for name, wrong in (("next", np.arange(len(arrays["memory_next"]))), ("count", 0 * arrays["memory_count"])):
        np.savez(tmp_path / "a.npz", **arrays | {f"memory_{name}": wrong})
        with pytest.raises(ValueError, match=r"stored model (are not in order|do not add up)"):
            gs.load(tmp_path / "a.npz")


# -- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1e999}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 200 + b"]" * 200,
        b"[" * 100_000,
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        '\ufeff{"a": 1}'.encode(),
        '{"a": 1}'.encode("utf-16"),
        b"\0",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_json_that_is_not_ours_is_one_sentence(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json is not a readable JSON file \([^\n]*\)$"):
        io.read_json(tmp_path / "a.json")


def test_a_huge_file_is_not_read_to_find_out(tmp_path):
    for name in ("a.json", "m.jsonl"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(2**40)  # takes no room on the disk
    with pytest.raises(ValueError, match=r"line 1, is not a row of metrics"):
        read_metrics(tmp_path / "m.jsonl")


def test_a_file_larger_than_any_json_of_ours_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(io, "LARGEST_JSON", 100)
    (tmp_path / "a.json").write_text(f'"{"a" * 100}"')
    with pytest.raises(ValueError, match="it is larger than 100 bytes"):
        io.read_json(tmp_path / "a.json")


def test_a_schema_names_the_first_value_that_is_wrong():
    kind = {
        "a": schema.Int(1, 5),
        "b": [schema.Nullable(schema.Float(0))],
        "c": {"d": schema.OneOf("x", "y")},
        "e": bool,
    }
    good = {"a": 3, "b": [None, 2.5], "c": {"d": "x"}, "e": True, "more": object}
    assert schema.check(good, kind, "it") is good
    for change, message in (
        ({"a": True}, "it.a: expected an integer from 1 to 5, got True"),
        ({"a": 2.0}, "it.a: expected an integer from 1 to 5, got 2.0"),
        ({"b": 3}, "it.b: expected a list, got 3"),
        ({"b": [1, float("nan")]}, "it.b[1]: expected a finite number >= 0, got nan"),
        ({"b": [10**400]}, "it.b[0]: expected a finite number >= 0, got 1000"),
        ({"c": {}}, "it.c has no 'd'"),
        ({"c": {"d": "z"}}, "it.c.d: expected one of x, y, got 'z'"),
        ({"e": 1}, "it.e: expected true or false, got 1"),
    ):
        with pytest.raises(ValueError) as problem:
            schema.check(good | change, kind, "it")
        assert str(problem.value).startswith(message)

"""Files of runs, agents and experiments: a wrong entry is named in a sentence, also where all checksums are right."""

import json
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

import greedystep as gs
from greedystep import checkpoint, io
from greedystep.cli import main
from greedystep.metrics import MetricsFile
from greedystep.runs.job_queue import StoppedError
from greedystep.tabular.tabular_run import TabularRun

# -- metrics and configurations ---------------------------------------------------------------------------------------


@pytest.fixture
def table_run(tmp_path):
    folder = tmp_path / "run"
    assert main(["train", "toy/choice", "--options", "delay=5", "--episodes", "20", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("episode_return", "high", "'episode_return'"),
        ("episode_return", [1.0], "'episode_return'"),
        ("episode_return", "NaN", "return is not a finite number"),
        ("episode_return", "-Infinity", "return is not a finite number"),
        ("episodes", None, "'episodes'"),
        ("episodes", "NaN", "'episodes'"),
        ("seed", 0.5, "'seed'"),
        ("seed", 2**70, "is not a row of metrics"),
        ("step", -1, "is not a row of metrics"),
        ("step", 10**9, "steps do not increase"),
        ("lane", "0", "is not a row of metrics"),
        ("more", {"a": 1}, "is not a row of metrics"),
        ("more", [[1]], "is not a row of metrics"),
    ],
)
def test_wrong_values_in_a_row_are_named_by_report(table_run, tmp_path, capsys, column, value, message):
    path = table_run / "metrics.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(json.dumps(json.loads(first) | {column: value}) + "\n" + "".join(rest))
    capsys.readouterr()
    assert main(["report", str(table_run), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "metrics.jsonl" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["", "  ", "[1]", '{"step": 1e999, "lane": 0}', '{"step": 1, "lane": 0, "lane": 1}'])
def test_bad_and_blank_lines_stop_a_resume_and_stay(table_run, capsys, line):
    path = table_run / "metrics.jsonl"
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 21, is not a row of metrics"):
        MetricsFile(path, resume_at=10**9)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": 3}, "it.config.env: expected text, got 3"),
        ({"env": ["toy/choice"]}, "it.config.env: expected text"),
        ({"options": []}, "it.config.options: expected an object"),
        ({"seed": "0"}, "it.config.seed: expected an integer"),
        ({"episodes": 2.5}, "it.config.episodes: expected an integer"),
        ({"episodes": True}, "it.config.episodes: expected an integer"),
        ({"epsilon": "NaN"}, "it.config.epsilon: expected a number in [0, 1], got nan"),
        ({"method": None}, "it.config.method: expected text"),
        ({"speed": 1}, "config has an entry 'speed' that is not known"),
    ],
)
def test_wrong_types_in_the_configuration_of_a_table_are_named(table_run, capsys, change, message):
    path = table_run / "config.json"
    content = json.loads(path.read_text())
    content["config"] |= change
    path.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["train", "--resume", str(table_run), "--episodes", "30"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert str(path) in said
    assert len(said.splitlines()) == 1


# -- tables where networks are expected, and the other way round ------------------------------------------------------


def test_the_folder_of_a_table_s_run_is_loaded(table_run):
    agent = gs.load(table_run)
    assert agent.episodes == 20
    assert agent.task.made_with == {"delay": 5}
    TabularRun.resume(table_run, 30).close()
    (table_run / "agent.npz").unlink()
    with pytest.raises(ValueError, match=r"run has saved no agent yet \(it has no agent\.npz\)"):
        gs.load(table_run)


def test_a_table_is_not_called_damaged_where_networks_are_expected(table_run, tmp_path, capsys):
    for what in (table_run, table_run / "agent.npz"):
        assert main(["export", str(what), "--policy", str(tmp_path / "policy.npz")]) == 2
        said = capsys.readouterr().err
        assert "damaged" not in said
        assert str(what) in said
    with pytest.raises(ValueError, match=r"lane: .* is a table, which has none"):
        gs.load(table_run, lane=1)


def test_no_states_have_no_actions():
    agent = gs.TabularAgent("toy/choice")
    for nothing in ([], np.zeros(0), np.zeros((0, 3), int)):
        assert agent.predict(nothing).shape == np.shape(nothing)


# -- checkpoints with right checksums ---------------------------------------------------------------------------------


def rewritten(path, change, length=None):
    """Change the header of a checkpoint, and make its checksums right again."""
    content, start = path.read_bytes(), checkpoint.PREAMBLE.size + checkpoint.CHECKSUM.size
    _, version, size, _ = checkpoint.PREAMBLE.unpack(content[: checkpoint.PREAMBLE.size])
    header = change(json.loads(content[start : start + size]))
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    made = (checkpoint.MAGIC, version, len(text) if length is None else length, zlib.crc32(text))
    preamble = checkpoint.PREAMBLE.pack(*made)
    path.write_bytes(preamble + checkpoint.CHECKSUM.pack(zlib.crc32(preamble)) + text + content[start + size :])


def leaf(**change):
    return lambda header: header | {"leaves": [header["leaves"][0] | change, *header["leaves"][1:]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header | {"leaves": 3}, "its header.leaves: expected a list, got 3"),
        (lambda header: header | {"leaves": [3]}, r"its header.leaves\[0\]: expected an object"),
        (lambda header: header | {"step": "ten"}, "its header.step: expected an integer"),
        (lambda header: header | {"about": []}, "its header.about: expected an object"),
        (lambda header: [], "its header: expected an object"),
        (lambda header: {k: v for k, v in header.items() if k != "leaves"}, "its header has no 'leaves'"),
        (leaf(bytes=-8), "bytes: expected an integer"),
        (leaf(bytes=2**62), "bytes and should have"),
        (leaf(crc32="x"), "crc32: expected an integer"),
        (leaf(shape=[-1]), r"shape\[0\]: expected an integer"),
        (leaf(name=None), "name: expected text"),
        (lambda header: b"[" * 50_000, "levels"),
        (lambda header: b'{"a": 1, "a": 2}', "occurs twice"),
        (lambda header: b"\xff\xfe", "utf-8"),
        (lambda header: b"", "Expecting value"),
    ],
)
def test_made_up_checkpoints_are_damaged_ones(tmp_path, change, message):
    path = checkpoint.save(tmp_path, 3, {"x": np.arange(4.0), "y": np.arange(3)}, {"a": 1})
    rewritten(path, change)
    for read in (checkpoint.read_about, lambda path: checkpoint.restore(path, {"x": np.zeros(4), "y": np.arange(3)})):
        with pytest.raises(checkpoint.DamagedCheckpointError, match=rf"\.ckpt is damaged: .*{message}"):
            read(path)
    with pytest.raises(checkpoint.DamagedCheckpointError, match="no checkpoint is whole"):
        checkpoint.latest(tmp_path)


def test_a_header_as_long_as_the_file_says_is_not_read(tmp_path):
    path = checkpoint.save(tmp_path, 3, {"x": np.arange(4.0)}, {})
    rewritten(path, lambda header: header, length=2**63)
    with pytest.raises(checkpoint.DamagedCheckpointError, match="its header is cut short or changed"):
        checkpoint.read_about(path)


@pytest.mark.parametrize(("entry", "value"), [("dtype", "float99"), ("key", "threefry2x32"), ("weak", True)])
def test_leaves_that_contradict_themselves_are_refused(tmp_path, entry, value):
    import jax.numpy as jnp

    path = checkpoint.save(tmp_path, 3, {"x": jnp.arange(4, dtype=jnp.uint8)}, {})
    rewritten(path, leaf(**{entry: value}))
    with pytest.raises(ValueError, match=r"\.ckpt (does not fit|is damaged)"):
        checkpoint.restore(path, {"x": jnp.zeros(4, jnp.uint8)})


# -- agents with networks ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_agent(tmp_path_factory):
    """A DQN and its file."""
    settings = {"hidden": (4,), "replay_size": 64, "warmup": 20, "target_period": 20, "batch_size": 4}
    agent = gs.DQN("classic/cartpole", log_every=20, **settings)
    path = tmp_path_factory.mktemp("agents") / "small.agent"
    agent.save(path)
    return agent, path


def about(**change):
    return lambda header: header | {"about": header["about"] | change}


def without(name):
    return lambda header: header | {"about": {k: v for k, v in header["about"].items() if k != name}}


def setting(**change):
    return lambda header: header | {"about": header["about"] | {"config": header["about"]["config"] | change}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("kind"), "about has no 'kind'"),
        (without("config"), "about has no 'config'"),
        (without("seconds"), "about has no 'seconds'"),
        (about(kind="tree"), "about.kind: expected one of dqn, got 'tree'"),
        (about(env="classic/cartpole"), "about.env: expected an object"),
        (
            about(env={"name": "a_module_of_somebody:Walk-v0", "options": {}}),
            "for which the module 'a_module_of_somebody' would be imported",
        ),
        (about(env={"name": "Nothing-v0", "options": {}}), "names an environment that cannot be made"),
        (about(env={"name": "classic/cartpole", "options": {"name": 1}}), "name: classic/cartpole has no such option"),
        (about(seeds="0"), "about.seeds: expected a list"),
        (about(seeds=[-1]), r"about.seeds\[0\]: expected an integer"),
        (about(seeds=[]), "seeds: expected at least one"),
        (about(seconds="long"), "about.seconds: expected a finite number"),
        (about(numbers={}), "about.numbers has no"),
        (setting(hidden=4), "about.config.hidden: expected a list"),
        (setting(hidden=["4"]), r"about.config.hidden\[0\]: expected an integer"),
        (setting(double="yes"), "double: expected one of True, False, got 'yes'"),
        (setting(returns="magic"), "returns: expected one of"),
        (setting(speed=1), "config has an entry 'speed' that is not known"),
        (setting(n=[]), "n: "),
    ],
)
def test_made_up_agent_files_are_one_sentence(small_agent, tmp_path, capsys, change, message):
    path = tmp_path / "made-up.agent"
    path.write_bytes(small_agent[1].read_bytes())
    rewritten(path, change)
    with pytest.raises(ValueError, match=rf"made-up\.agent .*{message}"):
        gs.load(path)
    assert main(["eval", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_no_observations_have_no_actions(small_agent):
    agent, path = small_agent
    assert agent.predict(np.zeros((0, 4))).shape == (0,)
    assert agent.values(np.zeros((3, 0, 4))).shape == (3, 0, 2)
    with pytest.raises(ValueError, match=r"observations: expected shape \(4,\), or many of them, got \(0,\)"):
        agent.predict([])
    with pytest.raises(ValueError, match="env: expected an environment, its name or a function"):
        gs.load(path, env=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": 3}, "it.config.agent: expected an object, got 3"),
        ({"agent": {"hidden": 3}}, "hidden: expected a list, got 3"),
        ({"agent": {"hidden": [8], "discount": "NaN"}}, "discount: expected a number"),
        ({"seeds": [0.5]}, "it.config.seeds[0]: expected an integer"),
        ({"steps": "1e6"}, "it.config.steps: expected an integer"),
        ({"options": None}, "it.config.options: expected an object"),
        ({"env": None}, "it.config.env: expected text"),
        ({"env": "classic/tennis"}, "name: 'classic/tennis' is not one of"),
        ({"options": {"name": 3}}, "name: classic/cartpole has no such option"),
    ],
)
def test_wrong_types_in_the_configuration_of_a_network_are_named(tmp_path, capsys, change, message):
    from greedystep.deep.dqn_run import DQNRunConfig

    config = DQNRunConfig.from_preset("classic/cartpole").as_json() | change
    io.write_json(tmp_path / "run" / "config.json", {"kind": "dqn", "config": config, "tensorboard": False})
    before = sorted(tmp_path.rglob("*"))
    for words in (["train", "--resume"], ["eval"], ["watch"]):
        assert main([*words, str(tmp_path / "run")]) == 2
        said = capsys.readouterr().err
        assert "config.json is not the configuration of a DQN run" in said
        assert message in said
        assert len(said.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


# -- parts of experiments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["3", "{}", '{"times": []}', '{"times": {"task": "x"}}'])
def test_times_that_cannot_be_read_count_as_missing(tmp_path, content):
    from greedystep.experiments.fig3 import training_time

    (tmp_path / "timing").mkdir()
    (tmp_path / "timing" / "freeway-fast-5.json").write_text(content)
    problems = []
    assert training_time.load_or_measure(tmp_path, "freeway", "fast", 5, may_measure=False, problems=problems) is None
    assert len(problems) == 1
    assert "freeway-fast-5.json does not hold training times" in problems[0]


class Stub:
    """As much of a trainer as a stopped training needs; its first lane diverges at once."""

    def __init__(self):
        self.seeds, self.state, self.on_diverged = [0], SimpleNamespace(step=0), None

    def chunks(self, steps):
        self.on_diverged(0, 7)
        yield [{"step": 10, "lane": 0, "steps_per_second": 1.0, "n_histogram": [1]}]

    def save(self, folder, **more):
        return checkpoint.save(folder, 10, {"x": np.zeros(1)}, more)

    def restore(self, path):
        self.state = SimpleNamespace(step=10)


def test_a_training_that_diverged_can_be_stopped_and_found_again(tmp_path):
    from greedystep.experiments.deep import training

    def stop(steps, speed):
        raise StoppedError

    trainer, so_far, again = Stub(), training.PartialTraining([], {}), training.PartialTraining([], {})
    trainer.on_diverged = so_far.on_diverged
    with pytest.raises(StoppedError):
        training._run(trainer, training.Budget(20), stop, so_far, tmp_path / "half-way", None)
    again.restore(trainer, tmp_path / "half-way")
    assert again.diverged == {"0": 7}
    assert again.rows == so_far.rows != []


def test_a_half_way_state_that_tells_something_else_begins_again(tmp_path):
    from greedystep.experiments.deep.training import PartialTraining

    checkpoint.save(tmp_path / "half-way", 10, {"x": np.zeros(1)}, {"so_far": {"rows": 3}})
    with pytest.warns(RuntimeWarning, match=r"so_far\.rows: expected a list, got 3; this training begins again"):
        (so_far := PartialTraining([], {})).restore(Stub(), tmp_path / "half-way")
    assert so_far == ([], {})

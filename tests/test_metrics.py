"""Rows of metrics: whole lines, exact resume, columns, TensorBoard events."""

import builtins
import errno
import json
import math
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep.metrics import EventFiles, MetricsFile, read_metrics


def rows_of(step: int, lanes: int = 2) -> list[dict]:
    """What a chunk that ends at `step` has to say."""
    return [{"step": step, "lane": lane, "episode_return": step / (lane + 3), "game": "γ"} for lane in range(lanes)]


def write_run(path, steps, **options) -> None:
    with MetricsFile(path, **options) as metrics:
        for step in steps:
            metrics.append(rows_of(step))


# -- writing and reading ----------------------------------------------------------------------------------------------


def test_rows_are_in_the_file_as_soon_as_they_are_appended(tmp_path):
    with MetricsFile(tmp_path / "new" / "metrics.jsonl") as metrics:
        assert metrics.path.read_bytes() == b""
        metrics.append(rows_of(10))
        metrics.append([])
        metrics.append(rows_of(20))
        metrics.sync()
        lines = metrics.path.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [*rows_of(10), *rows_of(20)]
    assert lines[-1] == ""


def test_columns_come_back_per_lane(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.append(
            [
                {"step": np.int64(5), "lane": 1, "loss": np.float32(0.5), "chosen": [1, 2], "seed": 7, "solved": False},
                {"step": 5, "lane": 0, "loss": math.nan, "chosen": np.array([3, 4]), "seed": 8, "solved": True},
                {"step": 9, "lane": 1, "loss": -math.inf, "late": 2.5, "seed": 7, "solved": True},
            ]
        )
    lanes = read_metrics(path)
    assert list(lanes) == [0, 1]
    assert list(lanes[1]) == ["step", "lane", "loss", "chosen", "seed", "solved", "late"]
    assert lanes[1]["step"].tolist() == [5, 9]
    assert lanes[1]["seed"].dtype.kind == "i"
    assert lanes[1]["solved"].tolist() == [False, True]
    assert lanes[1]["loss"].tolist() == [0.5, -math.inf]
    assert math.isnan(lanes[0]["loss"][0])
    np.testing.assert_array_equal(lanes[1]["chosen"], [[1, 2], [np.nan, np.nan]])
    np.testing.assert_array_equal(lanes[1]["late"], [np.nan, 2.5])


def test_lists_of_different_lengths_are_named(tmp_path):
    with MetricsFile(tmp_path / "m.jsonl") as metrics:
        metrics.append([{"step": 1, "lane": 0, "n": [1, 2]}, {"step": 2, "lane": 0, "n": [1]}])
    with pytest.raises(ValueError, match=r"m\.jsonl: the values of 'n' differ in kind or length"):
        read_metrics(tmp_path / "m.jsonl")


@pytest.mark.parametrize("row", [{"lane": 0}, {"step": 1}, {"step": 1.5, "lane": 0}, {"step": True, "lane": 0}])
def test_rows_without_step_or_lane_are_refused_and_nothing_is_written(tmp_path, row):
    with (
        MetricsFile(tmp_path / "m.jsonl") as metrics,
        pytest.raises(ValueError, match=r"a row of metrics.* (has no|expected an integer)"),
    ):
        metrics.append([*rows_of(1), row])
    assert (tmp_path / "m.jsonl").read_bytes() == b""


def test_a_new_run_does_not_go_over_an_old_one(tmp_path):
    write_run(tmp_path / "m.jsonl", [1])
    before = (tmp_path / "m.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"m\.jsonl holds the metrics of another run"):
        MetricsFile(tmp_path / "m.jsonl")
    assert (tmp_path / "m.jsonl").read_bytes() == before


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b"\xff", b"", b'{"step": 1}'])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "m.jsonl"
    write_run(path, [1])
    damaged = path.read_bytes() + line + b"\n" + path.read_bytes()
    path.write_bytes(damaged)
    for read in (read_metrics, lambda p: MetricsFile(p, resume_at=1)):
        with pytest.raises(ValueError, match=r"m\.jsonl, line 3, is not a row of metrics"):
            read(path)
    assert path.read_bytes() == damaged


# -- resuming ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("resume")
    steps = list(range(10, 80, 10))
    write_run(folder / "straight.jsonl", steps)
    straight = (folder / "straight.jsonl").read_bytes()

    killed = folder / "killed.jsonl"
    killed_after = data.draw(st.integers(0, len(straight)), label="bytes on the disk")
    killed.write_bytes(straight[:killed_after])
    whole = [step for step in [0, *steps] if len(b"".join(lines_up_to(straight, step))) <= killed_after]
    checkpoint = data.draw(st.sampled_from(whole), label="step of the checkpoint")
    write_run(killed, [step for step in steps if step > checkpoint], resume_at=checkpoint)
    assert killed.read_bytes() == straight
    assert sorted(path.name for path in folder.iterdir()) == ["killed.jsonl", "straight.jsonl"]


def lines_up_to(content: bytes, step: int) -> list[bytes]:
    return [line for line in content.splitlines(keepends=True) if json.loads(line)["step"] <= step]


def test_half_a_line_is_left_out_when_reading(tmp_path):
    path = tmp_path / "m.jsonl"
    write_run(path, [1, 2])
    path.write_bytes(path.read_bytes()[:-5])
    assert read_metrics(path)[1]["step"].tolist() == [1]


def test_resuming_without_a_file_begins_one(tmp_path):
    write_run(tmp_path / "m.jsonl", [5], resume_at=0)
    assert read_metrics(tmp_path / "m.jsonl")[0]["step"].tolist() == [5]


SCRIPT = """
import sys
import numpy as np
from greedystep.checkpoint import latest, prune, read_about, save
from greedystep.metrics import MetricsFile
folder = sys.argv[1]
path = latest(folder)
start = read_about(path)["step"] if path else 0
with MetricsFile(folder + "/metrics.jsonl", resume_at=start) as metrics:
    print("training", flush=True)
    for step in range(start + 1, int(sys.argv[2]) + 1):
        metrics.append([{"step": step, "lane": lane, "loss": step / 7} for lane in range(3)])
        if step % 3 == 0:
            metrics.sync()
            save(folder, step, np.full(10_000, step), {"step": step})
            prune(folder)
"""


def test_kills_at_random_moments_do_not_show_in_the_rows(tmp_path):
    moments = random.Random(1)
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, tmp_path, "100000"], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
    reached = max(read_metrics(tmp_path / "metrics.jsonl")[0]["step"])
    subprocess.run([sys.executable, "-c", SCRIPT, tmp_path, str(reached + 5)], check=True, stdout=subprocess.DEVNULL)
    expected = [{"step": s, "lane": lane, "loss": s / 7} for s in range(1, reached + 6) for lane in range(3)]
    assert [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == expected


# -- full disks -------------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_in_the_middle_of_a_line_leaves_the_rows_before(tmp_path, monkeypatch):
    path = tmp_path / "m.jsonl"
    really_write, room = os.write, [30]

    def write(descriptor, data):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = really_write(descriptor, bytes(data[: room[0]]))
        room[0] -= written
        return written

    with MetricsFile(path) as metrics:
        metrics.append(rows_of(1))
        before = path.read_bytes()
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(OSError, match=r"cannot add rows to .*m\.jsonl; the rows before are whole \(No space left"):
            metrics.append(rows_of(2))
        monkeypatch.undo()
        assert path.read_bytes() == before
        metrics.append(rows_of(2))
    assert read_metrics(path)[0]["step"].tolist() == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_real_limit_leaves_the_rows_before(tmp_path):
    script = """
import resource, sys
from greedystep.metrics import MetricsFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
with MetricsFile(sys.argv[1]) as metrics:
    for step in range(100):
        try:
            metrics.append([{"step": step, "lane": 0}])
        except OSError as problem:
            print(problem)
            break
"""
    path = tmp_path / "m.jsonl"
    said = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r".*cannot add rows to .*m\.jsonl; the rows before are whole \(.+\)\n", said)
    assert path.read_bytes().endswith(b"}\n")
    assert read_metrics(path)[0]["step"].tolist() == [0, 1, 2, 3]


def test_a_full_disk_while_resuming_leaves_the_file(tmp_path, monkeypatch):
    path = tmp_path / "m.jsonl"
    write_run(path, [1, 2])
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="cannot remove the rows after step 1 from"):
        MetricsFile(path, resume_at=1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- TensorBoard ------------------------------------------------------------------------------------------------------


def events_in(folder) -> list:
    """Every event of a folder's files, in the order of their names; a record is length, checksum, bytes, checksum."""
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

    found = []
    for path in sorted(folder.iterdir()):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            found.append(Event.FromString(content[at + 12 : at + 12 + length]))
            at += 12 + length + 4
    return found


def test_tensorboard_gets_every_number_of_every_lane(tmp_path):
    with MetricsFile(tmp_path / "m.jsonl", tensorboard=tmp_path / "events") as metrics:
        metrics.append(rows_of(10))
        metrics.append(rows_of(20))
        for lane in range(2):
            version, *events = events_in(tmp_path / "events" / f"lane-{lane}")
            assert version.file_version == "brain.Event:2"
            assert [event.step for event in events] == [10, 20]
            assert [[value.tag for value in event.summary.value] for event in events] == [
                ["charts/episodic_return"]
            ] * 2
            scalars = [event.summary.value[0].simple_value for event in events]
            assert scalars == pytest.approx([10 / (lane + 3), 20 / (lane + 3)])


def test_tensorboard_is_told_to_forget_what_came_after_the_checkpoint(tmp_path):
    write_run(tmp_path / "m.jsonl", [10, 20], tensorboard=tmp_path / "events")
    write_run(tmp_path / "m.jsonl", [20], tensorboard=tmp_path / "events", resume_at=10)
    _, *events = events_in(tmp_path / "events" / "lane-0")
    assert [event.step for event in events if event.HasField("summary")] == [10, 20, 20]
    started = [event.step for event in events if event.HasField("session_log")]
    assert started == [11]
    assert events[2].file_version == "brain.Event:2"


def test_tensorboard_files_of_one_second_are_kept_apart(tmp_path):
    for step in (10, 20, 30):  # files are named after the second, and later ones
        events = EventFiles(tmp_path)
        events.append([{"step": step, "lane": 0, "loss": 1.0}])
        events.close()
    assert [event.step for event in events_in(tmp_path / "lane-0") if event.HasField("summary")] == [10, 20, 30]


def test_a_missing_tensorboard_package_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    really_import = builtins.__import__

    def without(name, *rest):
        if name.startswith("tensorboardX"):
            raise ImportError(name)
        return really_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=re.escape("pip install 'greedystep[tensorboard]'")):
        MetricsFile(tmp_path / "m.jsonl", tensorboard=tmp_path / "events")
    assert list(tmp_path.iterdir()) == []

"""Clusters that do not answer, shrink to nothing, or run out of memory: one sentence, in time, and nothing is lost."""

import os
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from pathlib import Path

import pytest
from deep_runs import words

from greedystep.cli import main
from greedystep.runs.ray_cluster import import_ray

IN_TIME = 30.0
RAY = str(Path(sysconfig.get_path("scripts")) / "ray")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "greedystep: ray-address: nobody answers at 127.0.0.1:1 (Connection refused)\n"),
        (
            "ray://head:10001",
            "greedystep: ray-address: expected HOST:PORT of the cluster's head, got 'ray://head:10001'\n",
        ),
    ],
)
def test_an_address_at_which_nobody_answers(address, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(import_ray(), "is_initialized", lambda: False)  # another test may have started one here
    begin = time.monotonic()
    assert main(words(400, tmp_path / "runs", "--seeds", "2", "--on", "ray", "--ray-address", address)) == 2
    assert time.monotonic() - begin < IN_TIME
    assert capsys.readouterr().err == sentence
    assert not (tmp_path / "runs").exists()


def command(arguments, **env):
    return subprocess.Popen(
        [sys.executable, "-m", "greedystep", *arguments],
        env=os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": "", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_ended(process, since):
    """Check how a command ended, and return its last line."""
    out, err = process.communicate(timeout=90)
    assert process.returncode == 2, err
    assert time.monotonic() - since < IN_TIME
    assert out == ""
    assert "Traceback" not in err
    return err.splitlines()[-1]


def test_a_worker_out_of_memory(tmp_path):
    """Ray ends workers once a part of the machine's memory is used, here next to nothing."""
    out = tmp_path / "runs"
    limits = {"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "100"}
    process, began = command(words("1e7", out, "--on", "ray"), **limits), time.monotonic()
    while not (out / "config.json").exists() and process.poll() is None:
        time.sleep(0.1)
        began = time.monotonic()
    said = has_ended(process, began)
    assert "greedystep: seed 3: its worker was ended because the memory of its node is full; what was finished" in said
    assert said.endswith(f"; go on with: greedystep train --resume {out} --on ray")


class Node:
    """A node of a Ray cluster on this machine, whose processes are a session of their own."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [RAY, "start", "--block", "--object-store-memory=80000000", "--disable-usage-stats", *arguments],
            env=os.environ | {"RAY_AUTH_MODE": "disabled", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:  # a busy machine may take many seconds
            if b"Ray runtime started" in line:
                break

    def kill(self):
        for process in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]:
            with suppress(OSError):
                if os.getsid(process) == self._process.pid:
                    os.kill(process, 9)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cluster_that_shrinks_to_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    out, nodes = tmp_path / "runs", []
    try:
        port = address.partition(":")[2]
        nodes.append(Node("--head", "--num-cpus=0", f"--port={port}", "--include-dashboard=false"))
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 1):
                break
            time.sleep(0.2)
        nodes.append(Node("--num-cpus=1", f"--address={address}"))
        more = ("--seeds", "2", "--save-every", "0", "--on", "ray", "--ray-address", address)
        process = command(words("1e7", out, *more))
        while not list(out.glob("seed*/checkpoints/step-0000*[1-9]*")) and process.poll() is None:
            time.sleep(0.2)
        nodes[1].kill()
        said = has_ended(process, time.monotonic())
    finally:
        for node in nodes:
            node.kill()
    assert "has no node left that could work (a node needs a free CPU); what was finished stays" in said
    assert said.endswith(f"; go on with: greedystep train --resume {out} --on ray")
    assert list(out.glob("seed*/checkpoints/step-0000*[1-9]*"))

"""The benchmark of lanes on several devices: what it records is consistent. No timing is judged here."""

from types import SimpleNamespace

import jax
import numpy as np

from benchmarks import devices
from greedystep.cli import main
from greedystep.io import read_json


class Timed:
    """Stands for a trainer: so many lanes on one device if one was chosen, on four otherwise, which are faster."""

    period = 10

    def __init__(self, game, preset, lanes, **settings):
        count = 1 if jax.config.values["jax_default_device"] is not None else 4
        lane_state = {"replay": np.zeros((lanes, 250), np.float32)}
        self.trainer = SimpleNamespace(devices=[None] * count, state=SimpleNamespace(lanes=lane_state))

    def time(self, steps):
        return steps / 10 / len(self.trainer.devices)


def test_one_device_and_many_in_turn(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "TimedTrainer", Timed)
    (device,) = jax.local_devices()
    monkeypatch.setattr(jax, "local_devices", lambda: [device] * 4)
    result = devices.run(tmp_path, 3, ["minatar/breakout"], [8])
    assert read_json(tmp_path / "devices.json")["rows"] == result["rows"]
    (row,) = result["rows"]
    assert (row["lanes"], row["devices"], row["steps"], len(row["rounds"])) == (8, 4, 10, 3)
    assert (row["one_steps_per_second"], row["many_steps_per_second"], row["speedup"]) == (80, 320, 4)
    assert row["bytes_per_lane"] == 1000
    text = (tmp_path / "devices.md").read_text(encoding="utf-8")
    assert "| minatar/breakout | 8 | 4 | 80 | 320 | 4.00 | " in text


def test_one_device_is_not_enough(tmp_path, capsys):
    assert main(["bench", "devices", "--out", str(tmp_path)]) == 2
    assert "devices: JAX has only one here; JAX_NUM_CPU_DEVICES=2 makes two of a CPU" in capsys.readouterr().err

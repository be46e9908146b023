"""The benchmark of large datasets: what it makes and what it records. No timing is judged here."""

import numpy as np
import pytest

from benchmarks import data
from greedystep.datasets import Dataset


@pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning", "ignore:env_spec is None:UserWarning")
def test_the_dataset_and_the_replay_buffer_have_the_same_size(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data.make_dataset("bench/500-v0", 500)
    found = Dataset.of("minari:bench/500-v0")
    assert (found.steps, len(found)) == (500, 2)
    first = next(iter(found))
    assert first.observations.shape == (data.EPISODE + 1, data.FEATURES)
    assert first.observations.dtype == np.float32
    buffer, replay = data._own_replay(500)
    assert int(buffer.num_steps(replay).sum()) == 500
    assert buffer.rows == found.steps + len(found)


def test_targets_are_ratios(tmp_path, monkeypatch):
    row = {"rule": "one-step", "dataset": [90.0], "own": [100.0], "speed": 0.9}
    large = {"steps": 2000, "data_bytes": 1000, "load_seconds": 1.5, "peak_bytes": 5600, "rows": [row]}
    monkeypatch.setattr(data, "_measure", lambda _, steps, *more: large if steps == 2000 else {"peak_bytes": 3000})
    result = data.run(tmp_path, 1, steps=2000)
    assert [(one["value"], one["met"]) for one in result["targets"]] == [(0.9, True), (2.6, False)]
    text = (tmp_path / "data.md").read_text(encoding="utf-8")
    assert "2,000 steps, 1 kB; loaded in 1.5 s." in text
    assert "| one-step | 90 | 100 |" in text

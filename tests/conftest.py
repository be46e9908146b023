"""Fixtures of several test files."""

import pytest


@pytest.fixture
def made_up(monkeypatch):
    """Stands for real trainings and timings; imports JAX only where it is asked for."""
    from deep_experiments import MadeUp

    from greedystep.experiments.deep import session
    from greedystep.experiments.fig3 import training_time

    def measure(task, preset, lanes):
        seconds = {name: [1.0, 1.0, 1.1] for name in training_time.AGENTS}
        return {"task": task, "preset": preset, "lanes": lanes, "steps": 100, "device": "cpu", "seconds": seconds}

    trainer = MadeUp()
    monkeypatch.setattr(session, "train", trainer)
    monkeypatch.setattr(session.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(training_time, "measure", measure)
    return trainer

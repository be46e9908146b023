"""The measurement of tabular methods in steps per second."""

from benchmarks.tabular_speed import steps_per_second
from greedystep import envs


def test_the_speed_is_measured():
    assert steps_per_second(envs.make_task("toy/choice"), "greedy-step", rounds=1, steps=100) > 0

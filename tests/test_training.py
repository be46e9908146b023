"""Trainings of experiments: which runs share a program, and how trainings share a GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from deep_runs import SETTINGS

from greedystep.deep import conv_kernels
from greedystep.experiments import paper_protocol
from greedystep.experiments.deep import training
from greedystep.experiments.deep.protocol import SELECTION_SEEDS
from greedystep.experiments.deep.runner import programs
from greedystep.experiments.deep.training import Budget, RunSpec


def test_runs_that_differ_in_their_number_of_networks_share_a_program_only_in_kernels(monkeypatch):
    """Kernels leave out the networks that a lane does not have; elsewhere they would cost as much as those it has."""
    protocol = next(one for one in paper_protocol.SCALES["paper"] if one.task == "seaquest")
    settings = [setting for method in protocol.methods for setting in protocol.candidates(method)]

    def groups():
        runs = [run for setting in settings for run in protocol.runs(setting, SELECTION_SEEDS)]
        return {(group[0].lane_config.returns, len(group)) for group in programs(runs)}

    assert groups() == {("n-step", 40), ("n-step", 10), ("sarsa", 30), ("greedy-step", 10)}
    monkeypatch.setattr(conv_kernels, "is_available", lambda: True)
    assert groups() == {("n-step", 80), ("sarsa", 30), ("greedy-step", 40)}


def test_runs_of_the_preset_fast_do_not_share_a_program_across_numbers_of_networks(monkeypatch):
    monkeypatch.setattr(conv_kernels, "is_available", lambda: True)
    runs = [RunSpec("breakout", "fast", {"returns": "greedy-step", "ensemble": count}, 0) for count in (2, 6)]
    assert len(programs(runs)) == 2


def test_a_training_has_the_gpu_from_beginning_to_end(monkeypatch):
    """No test has a GPU, so that the CPU, which needs no turns, is given its lock here."""
    monkeypatch.setattr(training, "nullcontext", lambda: training.GPU)
    runs = [RunSpec("catcher", "paper", SETTINGS | {"returns": "one-step"}, seed) for seed in (0, 1)]
    told = []

    def train(run: RunSpec) -> None:
        training.train([run], Budget(600, points=6, episodes=0), lambda steps, speed: told.append(run.seed))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(train, runs))
    assert told in ([0] * 6 + [1] * 6, [1] * 6 + [0] * 6)

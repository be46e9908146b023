"""Steps per second of every method on one core: `python -m greedystep.tabular.speed [TASK]`."""

from __future__ import annotations

import sys
import time

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.tabular.loops import learn
from greedystep.tabular.methods import METHODS


def steps_per_second(task: ToyTask, method: str, rounds: int = 5, steps: int = 500_000) -> float:
    """The best of some rounds of about so many steps each, acting and learning, without the time to compile.

    Processor time counts, so that other work on the machine disturbs as little as possible.
    """
    episodes = max(1, steps // int(learn(task, method, episodes=20, q=task.lowest_return).lengths.mean()))
    best = 0.0
    for seed in range(rounds):
        began = time.process_time()
        lengths = learn(task, method, episodes=episodes, q=task.lowest_return, seed=seed).lengths
        best = max(best, float(lengths.sum()) / (time.process_time() - began))
    return best


if __name__ == "__main__":
    chosen = envs.make(sys.argv[1] if len(sys.argv) > 1 else "toy/choice")
    for name in METHODS:
        try:
            speed = f"{steps_per_second(chosen, name) / 1e6:6.1f} million steps/s"
        except FloatingPointError as problem:  # on such a task there is no speed to speak of
            speed = str(problem)
        print(f"{chosen.name}  {name:20s} {speed}")

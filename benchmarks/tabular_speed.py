"""Steps per second of every method on one core: `python -m benchmarks.tabular_speed [TASK]`."""

from __future__ import annotations

import sys
import time

from greedystep import envs
from greedystep.envs import ToyTask
from greedystep.tabular import METHODS, learn


def steps_per_second(task: ToyTask, method: str, rounds: int = 5, steps: int = 500_000) -> float:
    """Return the best rate of some rounds of about `steps` steps, acting and learning, without compilation.

    Processor time is measured, so that other work on the machine disturbs as little as possible.
    """
    episodes = max(1, steps // int(learn(task, method, episodes=20, q=task.lowest_return).lengths.mean()))
    best = 0.0
    for seed in range(rounds):
        began = time.process_time()
        lengths = learn(task, method, episodes=episodes, q=task.lowest_return, seed=seed).lengths
        best = max(best, float(lengths.sum()) / (time.process_time() - began))
    return best


if __name__ == "__main__":
    chosen = envs.make_task(sys.argv[1] if len(sys.argv) > 1 else "toy/choice")
    for name in METHODS:
        try:
            speed = f"{steps_per_second(chosen, name) / 1e6:6.1f} million steps/s"
        except FloatingPointError as problem:  # a method that diverges has no rate
            speed = str(problem)
        print(f"{chosen.name}  {name:20s} {speed}")

"""Train on MinAtar's Breakout in a folder, stop half-way, go on, and look at what was learned.

So short a training learns next to nothing: give it a million steps, and the settings of the preset, for more than that.
"""

from pathlib import Path

import greedystep as gs
from greedystep.deep.dqn_run import DQNRun, DQNRunConfig

folder = Path("breakout")
small = {"replay_size": 2_000, "warmup": 500, "target_period": 250, "log_every": 500}
config = DQNRunConfig.from_preset("minatar/breakout", returns="greedy-step", ensemble=2, steps=2_000, **small)

training = DQNRun.start(folder, config).train()
for progress in training:
    if progress.done >= 1_000:
        break
training.close()  # saves, as Ctrl-C does
print(f"stopped after {progress.done} steps")

for progress in DQNRun.resume(folder).train():
    print(f"{progress.done} steps: return {progress.episode_return:.2f}, {progress.steps_per_second:.0f} steps/s")

agent = gs.load(folder)
print(f"20 greedy episodes: {agent.evaluate(episodes=20, limit=1_000).mean:.2f} points on average")
print(f"the agent can go on by itself: {agent.learn(500)[-1]['step']} steps")

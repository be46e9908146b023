"""Benchmark of training in Gymnasium environments: steps per second beside stable-baselines3, same workload.

Both agents step the same host environments and make one update of 32 samples per step of all of them, with a network of
two layers of 64 units. An environment that sleeps 2 ms per step is timed in one process and in four. All learners take
turns, so that a busy machine slows all of them alike; figures are medians of the turns.
"""

from __future__ import annotations

import statistics
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import greedystep as gs
from benchmarks.targets import bound_text, check_target, met_text, three_digits
from benchmarks.train_peers import PEER, peer_is_installed
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

ENV = "CartPole-v1"
SETTINGS: dict[str, Any] = {
    "returns": "one-step",
    "hidden": (64, 64),
    "batch_size": 32,
    "replay_size": 48_000,
    "target_period": 240,
    "log_every": 24_000,
}
MIN_SPEEDUPS = {1: 2.0, 8: 4.0}
"""Targets for our steps/s over the peer's, by the number of environments."""
MIN_ASYNC = 1.8
"""Target for four processes over one, where a step takes 2 ms."""


class Sleeping(gymnasium.Env):
    """An environment whose step takes 2 ms."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self._t = 0
        return self.np_random.normal(size=4).clip(-1, 1).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        time.sleep(0.002)
        self._t += 1
        return self.np_random.normal(size=4).clip(-1, 1).astype(np.float32), 1.0, False, self._t == 100, {}


class _Ours:
    def __init__(self, env: Any, num_envs: int, **more: Any) -> None:
        self._agent = gs.DQN(env, num_envs=num_envs, warmup=240, **SETTINGS | more)
        self.run(480)

    def run(self, steps: int) -> None:
        self._agent.learn(steps)


class _Peer:
    def __init__(self, num_envs: int) -> None:
        torch, peer = import_module("torch"), import_module("stable_baselines3")
        torch.set_num_threads(1)  # faster than two for networks of this size
        vector = import_module("stable_baselines3.common.env_util").make_vec_env(ENV, n_envs=num_envs)
        how = {"learning_starts": 240, "train_freq": 1, "gradient_steps": 1, "target_update_interval": 240}
        how |= {"batch_size": SETTINGS["batch_size"], "buffer_size": SETTINGS["replay_size"]}
        self._model = peer.DQN("MlpPolicy", vector, policy_kwargs={"net_arch": list(SETTINGS["hidden"])}, **how)
        self.run(480)

    def run(self, steps: int) -> None:
        self._model.learn(steps, log_interval=None, reset_num_timesteps=False)


def run(out: Path, repeats: int = 5) -> dict[str, Any]:
    """Time all learners, write `gym.json` and `gym.md` to `out`, and return the content of the JSON file."""
    makers: dict[tuple[str, str, int], Any] = {}
    for n in MIN_SPEEDUPS:
        makers["greedystep", ENV, n] = lambda n=n: _Ours(ENV, n)
        if peer_is_installed():
            makers[PEER, ENV, n] = lambda n=n: _Peer(n)
    makers["greedystep", "sleeps 2 ms", 1] = lambda: _Ours(Sleeping, 1)
    makers["greedystep", "sleeps 2 ms, processes", 4] = lambda: _Ours(Sleeping, 4, vectorization="async")
    learners = {who: make() for who, make in makers.items()}
    steps = {who: 960 * (who[2] if who[1] == ENV else 1) for who in learners}
    rates: dict[tuple[str, str, int], list[float]] = {who: [] for who in learners}
    for _ in range(repeats):
        for who, learner in learners.items():
            begin = time.perf_counter()
            learner.run(steps[who])
            rates[who].append(steps[who] / (time.perf_counter() - begin))
    rows = [
        {"package": package, "env": env, "num_envs": n, "rounds": found, "steps_per_second": statistics.median(found)}
        for (package, env, n), found in rates.items()
    ]
    result = {"absent": [] if peer_is_installed() else [PEER], "rows": rows, "targets": targets(rows)}
    result["provenance"] = provenance({"repeats": repeats, "settings": SETTINGS})
    write_json(out / "gym.json", result)
    write_text(out / "gym.md", markdown(result))
    return result


def targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the targets beside the measured ratios."""
    rate = {(row["package"], row["env"], row["num_envs"]): row["steps_per_second"] for row in rows}
    found = []
    for n, least in MIN_SPEEDUPS.items():
        if (PEER, ENV, n) in rate:
            what = f"{ENV}, {n} environment(s): times as fast as {PEER}"
            found.append(check_target(what, rate["greedystep", ENV, n] / rate[PEER, ENV, n], at_least=least))
    ratio = rate["greedystep", "sleeps 2 ms, processes", 4] / rate["greedystep", "sleeps 2 ms", 1]
    found.append(check_target("steps of 2 ms: four processes over one", ratio, at_least=MIN_ASYNC))
    return found


def markdown(result: dict[str, Any]) -> str:
    """Return the tables as text."""
    lines = ["# Training in Gymnasium environments", "", "| package | environment | number | steps/s |"]
    lines += ["| --- | --- | ---: | ---: |"]
    for row in result["rows"]:
        rate = three_digits(row["steps_per_second"])
        lines.append(f"| {row['package']} | {row['env']} | {row['num_envs']} | {rate} |")
    lines += ["", "| target | bound | measured | met |", "| --- | ---: | ---: | --- |"]
    for one in result["targets"]:
        lines.append(f"| {one['what']} | {bound_text(one)} | {three_digits(one['value'])} | {met_text(one)} |")
    return "\n".join(lines) + "\n"

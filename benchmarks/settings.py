"""Benchmark of settings known to work: greedy play after training in Gymnasium environments, and the time it takes.

Ours are the default settings for features, the same everywhere. Beside them stands stable-baselines3's DQN with the
settings tuned for each environment by RL Baselines3 Zoo. Every run is kept in `settings.json` as soon as it has ended;
the command started again makes the missing ones only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import greedystep as gs
from benchmarks.targets import bound_text, check_target, met_text
from benchmarks.train_peers import PEER, peer_is_installed
from greedystep.deep.config import described
from greedystep.deep.presets import make_config
from greedystep.io import from_json, read_json, to_json, write_json, write_text
from greedystep.provenance import provenance

OURS = "greedystep"
EPISODES = 100
"""Episodes of greedy play after each training."""
FIRST_SEED = 100
"""Our default settings were chosen on smaller seeds; those of the zoo on seeds that it does not name."""


class Task(NamedTuple):
    """An environment, how long it is trained in, and what counts as solved."""

    steps: int
    """Steps of our training."""
    solved: float
    """The mean return of greedy play is to be above this ..."""
    share: float
    """... from this share of the seeds."""
    zoo: dict[str, Any]
    """Arguments of stable-baselines3's DQN; `steps` is how long it trains, and `net_arch` its hidden layers."""


# hyperparams/dqn.yml of RL Baselines3 Zoo, April 2026 (commit 22e3ff2).
_ZOO: dict[str, Any] = {
    "steps": 100_000,
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
    "net_arch": [256, 256],
}
_ZOO_CARTPOLE = _ZOO | {
    "steps": 50_000,
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
}
TASKS = {
    "CartPole-v1": Task(100_000, 475, 0.9, _ZOO_CARTPOLE),
    "Acrobot-v1": Task(100_000, -100, 0.8, _ZOO),
    "LunarLander-v3": Task(300_000, 200, 0.8, _ZOO),
}


def run(out: Path, repeats: int = 5, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Train with every missing seed, write `settings.json` and `settings.md` to `out`, and return the JSON's content.

    Args:
        repeats: number of seeds, from FIRST_SEED on.
        names: environments; all of TASKS by default.
    """
    packages: dict[str, Callable[..., dict[str, Any]]] = {OURS: train_ours}
    if peer_is_installed():
        packages[PEER] = train_peer
    for seed in range(FIRST_SEED, FIRST_SEED + repeats):
        for name in names or TASKS:
            for package, train in packages.items():
                who = {"env": name, "package": package, "seed": seed, "settings": settings(name, package)}
                if _find(_read(out), who):
                    continue
                row = who | train(name, seed)
                result = _read(out)  # again: another process may have added runs meanwhile
                if not _find(result, who):
                    result["rows"].append(row)
                _write(out, result)
    result = _read(out)
    _write(out, result)
    return result


def _find(result: dict[str, Any], who: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the runs of this environment, package, seed and settings."""
    return [row for row in result["rows"] if who == {column: row[column] for column in who}]


def settings(name: str, package: str) -> dict[str, Any]:
    """Return what is trained with: the steps, and our default settings or for the peer those of its zoo."""
    return TASKS[name].zoo if package == PEER else {"steps": TASKS[name].steps} | from_json(to_json(_defaults()))


def _defaults() -> dict[str, Any]:
    """Return our settings for features of any environment; a run with other ones counts as missing."""
    return described(make_config(""))


def train_ours(name: str, seed: int) -> dict[str, Any]:
    """Train our agent with its default settings, and play greedily."""
    with _Stopwatch() as watch:
        agent = gs.DQN(name, seed=seed)
        agent.learn(TASKS[name].steps)
    return watch.spent | {"returns": [float(x) for x in agent.evaluate(episodes=EPISODES).returns]}


def train_peer(name: str, seed: int) -> dict[str, Any]:
    """Train stable-baselines3's DQN with the settings of its zoo, and play greedily."""
    torch, peer = import_module("torch"), import_module("stable_baselines3")
    evaluate = import_module("stable_baselines3.common.evaluation").evaluate_policy
    make = import_module("stable_baselines3.common.env_util").make_vec_env
    torch.set_num_threads(1)  # faster than two for networks of this size
    chosen = dict(TASKS[name].zoo)
    steps, layers = chosen.pop("steps"), chosen.pop("net_arch")
    with _Stopwatch() as watch:
        model = peer.DQN("MlpPolicy", make(name, seed=seed), policy_kwargs={"net_arch": layers}, seed=seed, **chosen)
        model.learn(steps)
    played, _ = evaluate(model, make(name, seed=seed), n_eval_episodes=EPISODES, return_episode_rewards=True)
    return watch.spent | {"returns": [float(x) for x in played]}


class _Stopwatch:
    """Measures the time of a block, on the clock and on all cores."""

    def __enter__(self) -> _Stopwatch:
        self._begin = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        minutes, cpu = time.perf_counter() - self._begin[0], time.process_time() - self._begin[1]
        self.spent = {"minutes": minutes / 60, "cpu_minutes": cpu / 60}


def _read(out: Path) -> dict[str, Any]:
    path = out / "settings.json"
    return read_json(path) if path.exists() else {"rows": []}


def _write(out: Path, result: dict[str, Any]) -> None:
    result["absent"] = [] if peer_is_installed() else [PEER]
    result["targets"] = targets(result["rows"])
    result["provenance"] = provenance({"episodes": EPISODES})
    write_json(out / "settings.json", result)
    write_text(out / "settings.md", markdown(result))


def scores(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the runs by environment and package, seeds in order; only those with the present settings."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in TASKS:
        for package in (OURS, PEER):
            own = [
                r for r in rows if (r["env"], r["package"], r["settings"]) == (name, package, settings(name, package))
            ]
            if own:
                found[name, package] = sorted(own, key=lambda row: row["seed"])
    return found


def targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the targets for our default settings beside the share of seeds that solve each environment."""
    found = []
    for (name, package), runs in scores(rows).items():
        if package == OURS:
            task = TASKS[name]
            solved = float(np.mean([np.mean(run["returns"]) > task.solved for run in runs]))
            what = f"{name}: share of {len(runs)} seeds with a mean return above {task.solved:g}"
            found.append(check_target(what, solved, at_least=task.share))
    return found


def markdown(result: dict[str, Any]) -> str:
    """Return the tables as text."""
    lines = ["# Settings known to work", "", f"Mean return of {EPISODES} episodes of greedy play after training."]
    if result["absent"]:
        lines += ["", f"Not installed, so not compared: {', '.join(result['absent'])}."]
    lines += ["", "| environment | package | settings | steps | mean of each seed | mean | minutes | CPU minutes |"]
    lines.append("| --- | --- | --- | ---: | --- | ---: | ---: | ---: |")
    for (name, package), runs in scores(result["rows"]).items():
        means = [float(np.mean(run["returns"])) for run in runs]
        times = [f"{np.median([run[column] for run in runs]):.1f}" for column in ("minutes", "cpu_minutes")]
        how, steps = "default" if package == OURS else "of its zoo", settings(name, package)["steps"]
        who = f"{name} | {package} | {how} | {steps:,} | {', '.join(f'{mean:.0f}' for mean in means)}"
        lines.append(f"| {who} | {np.mean(means):.0f} | {' | '.join(times)} |")
    lines += ["", "| target | bound | measured | met |", "| --- | ---: | ---: | --- |"]
    for one in result["targets"]:
        lines.append(f"| {one['what']} | {bound_text(one)} | {one['value']:.2g} | {met_text(one)} |")
    return "\n".join(lines) + "\n"

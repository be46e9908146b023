"""Benchmark of learning from a large Minari dataset: loading time, updates per second, and peak memory.

The dataset has a million steps of 64 float32 features, in episodes of 250 steps. A process of its own loads it and
makes updates on it, in turns with updates on a replay buffer of the same size that was filled step by step, as training
does. Peak memory is that of the process minus that of one that does the same with a thousand steps: the rest is Python,
JAX and compiled programs.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.targets import bound_text, check_target, met_text, three_digits
from greedystep.checks import format_bytes
from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

STEPS, EPISODE, FEATURES, ACTIONS = 1_000_000, 250, 64, 4
UPDATES = 4_000
"""Updates per timing."""
RULES: dict[str, dict[str, Any]] = {
    "one-step": {"returns": "one-step"},
    "lambda, 2 networks": {"returns": "lambda", "ensemble": 2},
}
MIN_SPEED = 0.8
"""Target for updates per second from the dataset over those from a replay buffer of our own."""
MAX_MEMORY = 2.5
"""Target for peak memory over the size of the data."""


def run(out: Path, repeats: int = 5, *, steps: int = STEPS, updates: int = UPDATES) -> dict[str, Any]:
    """Measure, write `data.json` and `data.md` to `out`, and return the content of the JSON file."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = (_measure(folder, count, repeats, updates) for count in (4 * EPISODE, steps))
    extra = large["peak_bytes"] - small["peak_bytes"]
    result = {key: large[key] for key in ("steps", "data_bytes", "load_seconds", "rows")}
    result |= {"peak_bytes": large["peak_bytes"], "peak_bytes_small": small["peak_bytes"], "extra_bytes": extra}
    result["targets"] = [
        *(
            check_target(f"{row['rule']}: speed over our own replay buffer", row["speed"], at_least=MIN_SPEED)
            for row in large["rows"]
        ),
        check_target("peak memory over the size of the data", extra / large["data_bytes"], below=MAX_MEMORY),
    ]
    result["provenance"] = provenance({"repeats": repeats, "steps": steps, "updates": updates, "rules": RULES})
    write_json(out / "data.json", result)
    write_text(out / "data.md", markdown(result))
    return result


def markdown(result: dict[str, Any]) -> str:
    """Return the tables as text."""
    lines = [
        "# Learning from a Minari dataset",
        "",
        f"{result['steps']:,} steps, {format_bytes(result['data_bytes'])}; loaded in {result['load_seconds']:.1f} s.",
        f"Peak memory {format_bytes(result['peak_bytes'])}, {format_bytes(result['extra_bytes'])} of it for the data.",
        "",
        "| rule | updates/s from the dataset | from our own replay buffer |",
        "| --- | ---: | ---: |",
    ]
    for row in result["rows"]:
        dataset, own = (three_digits(statistics.median(row[key])) for key in ("dataset", "own"))
        lines.append(f"| {row['rule']} | {dataset} | {own} |")
    lines += ["", "| target | bound | measured | met |", "| --- | ---: | ---: | --- |"]
    for one in result["targets"]:
        lines.append(f"| {one['what']} | {bound_text(one)} | {three_digits(one['value'])} | {met_text(one)} |")
    return "\n".join(lines) + "\n"


# -- the dataset and the process ---------------------------------------------------------------------------------------


def _measure(folder: str, steps: int, repeats: int, updates: int) -> dict[str, Any]:
    """Make a dataset of that many steps and measure in a process of its own."""
    env = os.environ | {"MINARI_DATASETS_PATH": folder}
    words = [sys.executable, "-m", "benchmarks.data", *map(str, (f"bench/{steps}-v0", steps, repeats, updates))]
    for what in ("make", "measure"):
        done = subprocess.run([*words, what], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the process that measures failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def make_dataset(dataset_id: str, steps: int) -> None:
    """Write a Minari dataset of random steps."""
    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    make_buffer: Any = EpisodeBuffer  # it is declared for lists, and takes arrays
    rng = np.random.default_rng(0)
    buffers = [
        make_buffer(
            id=number,
            observations=rng.normal(size=(EPISODE + 1, FEATURES)).astype(np.float32),
            actions=rng.integers(ACTIONS, size=EPISODE),
            rewards=list(rng.normal(size=EPISODE)),
            terminations=[False] * (EPISODE - 1) + [True],
            truncations=[False] * EPISODE,
            infos={},
        )
        for number in range(steps // EPISODE)
    ]
    minari.create_dataset_from_buffers(
        dataset_id,
        buffers,
        observation_space=spaces.Box(-np.inf, np.inf, (FEATURES,)),
        action_space=spaces.Discrete(ACTIONS),
    )


def measure(dataset_id: str, steps: int, repeats: int, updates: int) -> dict[str, Any]:
    """Load the dataset and time updates on it and on a replay buffer of our own, in turns."""
    import greedystep as gs
    from greedystep.deep import offline

    data = gs.datasets.Dataset.of(f"minari:{dataset_id}")
    agents = [gs.DQN.from_dataset(data, **settings) for settings in RULES.values()]
    begin = time.perf_counter()
    loaded = offline.fill_replay(agents[0].trainer.learner, data)
    load_seconds = time.perf_counter() - begin
    timers = {"dataset": [_timer(agent, *loaded) for agent in agents]}
    for timer in timers["dataset"]:
        timer(updates)  # compiles
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    own = _own_replay(steps)
    timers["own"] = [_timer(agent, *own) for agent in agents]
    for timer in timers["own"]:
        timer(updates)
    rows: list[dict[str, Any]] = [{"rule": rule, "dataset": [], "own": []} for rule in RULES]
    for _ in range(repeats):
        for number, row in enumerate(rows):
            for source, found in timers.items():
                row[source].append(found[number](updates))
    for row in rows:
        row["speed"] = statistics.median(row["dataset"]) / statistics.median(row["own"])
    per_step = 4 * FEATURES + 8 + 8 + 2  # observation, action, reward, two ends
    data_bytes = steps * per_step
    return {"steps": steps, "data_bytes": data_bytes, "load_seconds": load_seconds, "peak_bytes": peak, "rows": rows}


def _timer(agent: Any, buffer: Any, replay: Any) -> Callable[[int], float]:
    """Return a function that makes updates on a replay buffer and returns how many per second."""
    import jax

    from greedystep.deep import cloning, offline

    learner = agent.trainer.learner
    fit = jax.jit(partial(offline.fit, learner, buffer))
    state, hyperparams = jax.tree.map(lambda x: x[0], (agent.trainer.state.lanes.learner, agent.trainer.hyperparams))
    clones = learner.config.conservatism == "bcq"
    support = jax.jit(partial(cloning.find_support, learner, buffer))(replay, state.params) if clones else None

    def updates_per_second(updates: int) -> float:
        begin = time.perf_counter()
        which = cloning.UpdateRange.of(0, updates, updates)
        jax.block_until_ready(fit(replay, which, state, hyperparams, jax.random.key(0), support))
        return updates / (time.perf_counter() - begin)

    return updates_per_second


def _own_replay(steps: int) -> Any:
    """Return a replay buffer, and its state, that training would have after that many steps."""
    import jax
    import jax.numpy as jnp

    from greedystep.replay import ReplayBuffer

    buffer = ReplayBuffer(steps + steps // EPISODE, 1, (FEATURES,), np.dtype(np.float32))

    def observation(t: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.fold_in(jax.random.key(1), t), (1, FEATURES))

    def add(t: jax.Array, replay: Any) -> Any:
        action, number = (t % ACTIONS)[None], (t % 7).astype(jnp.float32)[None]
        ends, never, unknown = (t % EPISODE == EPISODE - 1)[None], jnp.zeros(1, bool), jnp.full(1, jnp.nan)
        return buffer.add(replay, observation(t), action, number, ends, never, unknown, observation(t + 1))

    return buffer, jax.jit(lambda: jax.lax.fori_loop(0, steps, add, buffer.init()))()


if __name__ == "__main__":
    dataset_id, *numbers, what = sys.argv[1:]
    steps, repeats, updates = map(int, numbers)
    if what == "make":
        make_dataset(dataset_id, steps)
    else:
        print(json.dumps(measure(dataset_id, steps, repeats, updates)))

"""Benchmark of the alternatives to returns="auto": the `auto_variants`, and the rule of the library beside them.

It is what `auto` was chosen from. The rule of the library has two learning rates, three outputs on each network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.auto_variants import HEADS, PAIR, VARIANTS, VariantLoop
from greedystep import envs
from greedystep.deep.compilation_cache import keep_compiled_programs
from greedystep.deep.learner import Learner
from greedystep.deep.presets import make_config
from greedystep.deep.targets import LaneHyperparams
from greedystep.deep.train_loop import LaneState, map_lanes
from greedystep.deep.train_metrics import ChunkMetrics
from greedystep.deep.trainer import Trainer
from greedystep.experiments.deep.suite import TASKS
from greedystep.io import read_json, write_json, write_text
from greedystep.provenance import provenance

NAME = "auto-alternatives"
"""The benchmark's name, and that of its files."""
FORMER_NAME = "choosing"
"""The name under which results were kept before; those that lie in the output folder are read."""
AUTO = "auto"
GAMES = ("catcher", "pixelcopter", "mountaincar")
"""Tasks that a CPU trains in; those of MinAtar want a GPU."""
STEPS = {"minatar": 1_000_000, "ple": 250_000, "classic": 100_000}
"""Steps of each training, by family of environments."""
FIRST_SEED = 900
"""A seed that no other experiment uses."""


def run(out: Path, repeats: int = 2, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Train every variant on each task, write NAME.json and NAME.md to `out`, and return the JSON's content.

    Args:
        repeats: number of seeds, from FIRST_SEED on.
        names: tasks of Figure 3; GAMES by default. Tasks that are in NAME.json with as many seeds are kept.
    """
    keep_compiled_programs()
    path, seeds = out / f"{NAME}.json", [FIRST_SEED + i for i in range(repeats)]
    kept = [file for file in (path, out / f"{FORMER_NAME}.json") if file.exists()]
    result = read_json(kept[0]) if kept else {"tasks": {}}
    for name in names or GAMES:
        if len(result["tasks"].get(name, {}).get("seeds", ())) < repeats:
            steps = STEPS[TASKS[name].env.split("/")[0]]
            finals = train_variants(name, steps, seeds) | {AUTO: train_auto(name, steps, seeds)}
            about = provenance({"task": name, "steps": steps})
            result["tasks"][name] = {"steps": steps, "seeds": seeds, "finals": finals, "provenance": about}
            write_json(path, result)
    write_text(out / f"{NAME}.md", markdown(result))
    return result


def _preset(name: str) -> str:
    return "paper" if name == "mountaincar" else "fast"


def train_variants(name: str, steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Train all VARIANTS with all seeds as lanes of one program; return the final return of each seed."""
    task = TASKS[name]
    env = envs.make(task.env, **task.env_options)
    config = make_config(task.env, _preset(name), returns="lambda", lambda_=0.5, ensemble=HEADS * PAIR)
    loop = VariantLoop(Learner(config, env.observation, env.num_actions), env)
    lanes = [(name, seed) for name in VARIANTS for seed in seeds]
    variants = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(y) for y in x]), *[VARIANTS[name] for name, _ in lanes])
    numbers = jnp.array([seed for _, seed in lanes], jnp.uint32)
    state = jax.jit(partial(map_lanes, loop.init_variant))(numbers, variants)
    hyperparams = LaneHyperparams(
        learning_rate=jnp.float32(config.learning_rate),
        epsilon_end=jnp.float32(config.epsilon_end),
        lambda_=jnp.float32(0),
        gate=jnp.float32(0),
        n=jnp.float32(0),
        ensemble=jnp.float32(config.ensemble),
    )

    def chunk(done: jax.Array, state: LaneState, rounds: jax.Array) -> tuple[LaneState, ChunkMetrics]:
        return map_lanes(lambda lane: loop.run(done, lane, hyperparams, rounds), state)

    train, rounds = jax.jit(chunk, donate_argnums=1), steps // config.num_envs
    last_tenth = rounds - rounds // 10
    state, _ = train(jnp.int32(0), state, jnp.int32(last_tenth))
    state, metrics = train(jnp.int32(last_tenth), state, jnp.int32(rounds - last_tenth))
    final = np.asarray(metrics.episode_return) / np.asarray(metrics.episodes)
    return {name: [float(x) for (own, _), x in zip(lanes, final, strict=True) if own == name] for name in VARIANTS}


def train_auto(name: str, steps: int, seeds: Sequence[int]) -> list[float]:
    """Train the rule of the library; return the mean return of the episodes in the last tenth, of each seed."""
    task = TASKS[name]
    config = make_config(task.env, _preset(name), returns=AUTO)
    # One row of metrics for the last tenth, as `train_variants` has it.
    config = dataclasses.replace(config, log_every=-(-steps // config.num_envs) * config.num_envs)
    last_tenth = steps // config.num_envs // 10 * config.num_envs
    trainer = Trainer(config, envs.make(task.env, **task.env_options), seeds)
    trainer.run(steps - last_tenth)
    return [float(row["episode_return"]) for row in trainer.run(last_tenth)]


def markdown(result: dict[str, Any]) -> str:
    """Return the table as text: the mean over seeds, and each of them."""
    tasks = result["tasks"]
    lines = ["# Alternatives to auto", "", "Mean return of the episodes in the last tenth of the training."]
    for name, one in tasks.items():
        lines.append(f"{TASKS[name].title}: {one['steps']:,} steps, {len(one['seeds'])} seeds.")
    lines += ["", f"| variant | {' | '.join(TASKS[name].title for name in tasks)} |", "| --- " * (len(tasks) + 1) + "|"]
    for variant in (*VARIANTS, AUTO):
        cells = [one["finals"][variant] for one in tasks.values()]
        shown = [f"{np.mean(x):.1f} ({', '.join(f'{y:.1f}' for y in x)})" for x in cells]
        lines.append(f"| {variant} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"

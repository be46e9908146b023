"""A tiny training, and how two runs of it are compared."""

import json

import jax
import numpy as np

from greedystep.deep.dqn_run import DQNRun, DQNRunConfig

SETTINGS = {
    "returns": "greedy-step",
    "hidden": (8,),
    "replay_size": 300,  # wraps soon
    "warmup": 50,
    "target_period": 50,
    "epsilon_steps": 500,
    "batch_size": 8,
    "log_every": 200,
}
TIMES = ("steps_per_second", "wall_seconds")


def tiny(steps=1000, seeds=(3,), **changes):
    return DQNRunConfig.from_preset("classic/cartpole", seeds=seeds, steps=steps, **SETTINGS | changes)


def words(steps, out, *more):
    """The same as a command."""
    options = [
        word
        for name, value in SETTINGS.items()
        for word in (f"--{name.replace('_', '-')}", str(value[0] if isinstance(value, tuple) else value))
    ]
    where = ("--seed", "3", "--steps", str(steps), "--out", str(out))
    return ["train", "classic/cartpole", *options, *where, *map(str, more)]


def rows(folder):
    """All rows without the columns that measure time."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in TIMES} for line in lines]


def assert_equal_runs(one, other):
    assert rows(one) == rows(other)
    states = [DQNRun.resume(folder).trainer.state for folder in (one, other)]
    leaves = [jax.tree.leaves(jax.tree.map(_bits, state)) for state in states]
    assert len(leaves[0]) == len(leaves[1]) > 10
    for mine, theirs in zip(*leaves, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def _bits(leaf):
    is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.ascontiguousarray(jax.random.key_data(leaf) if is_key else leaf).reshape(-1).view(np.uint8)

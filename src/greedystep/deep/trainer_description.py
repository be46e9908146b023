"""What a checkpoint of a `Trainer` says of itself: its description in JSON, checked, and the names of its arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from greedystep import checkpoint, schema
from greedystep.checks import INT32_MAX, LARGEST_SEED
from greedystep.deep.config import DQNConfig, is_used
from greedystep.deep.targets import LaneHyperparams

ABOUT = {
    "kind": schema.OneOf("dqn"),
    "env": {"name": str, "options": schema.Nullable(dict)},
    "config": {"returns": str, "hidden": [schema.Int(1)]},
    "seeds": [schema.Int(0, LARGEST_SEED)],
    "numbers": {name: [schema.Float()] for name in LaneHyperparams._fields if name != "n"},
    "seconds": schema.Float(0),
}
"""Schema of a checkpoint's description; the other entries of "config" are checked by `DQNConfig`."""
ENV_STATE = schema.Nullable({"episodes": [schema.Int()], "actions": [[schema.Int(-INT32_MAX, INT32_MAX)]]})
"""Schema of `HostEnvs.state` in a checkpoint."""


def read_about(path: str | os.PathLike) -> dict[str, Any]:
    """Return the description in a DQN checkpoint; ValueError if the file is not one."""
    try:
        about = schema.check(checkpoint.read_about(path), ABOUT, "about")
        schema.check(about["numbers"].get("n"), schema.Nullable([schema.Int(1)]), "about.numbers.n")
        return about
    except checkpoint.DamagedCheckpointError:
        raise
    except ValueError as problem:
        raise ValueError(f"{path} is not the checkpoint of a DQN: {problem}") from None


def config_from_json(content: dict[str, Any]) -> DQNConfig:
    """Return the `DQNConfig` stored as JSON; ValueError names the first setting that is wrong."""
    hidden = schema.check(content.get("hidden"), [schema.Int(1)], "hidden")
    return schema.build(DQNConfig, content | {"hidden": tuple(hidden)}, "config")


def described_hyperparams(config: DQNConfig, hyperparams: LaneHyperparams) -> dict[str, list[float]]:
    """Return the lane hyperparameters as JSON. Earlier versions had no n: it is there only if a lane has its own."""
    numbers = {name: np.asarray(x).tolist() for name, x in hyperparams._asdict().items()}
    numbers["n"] = [int(n) for n in numbers["n"]]
    if set(numbers["n"]) == {int(np.float32(config.n or 0))}:
        del numbers["n"]
    return numbers


def own_hyperparams(about: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the lane hyperparameters in a checkpoint's description, without those its `returns` does not use."""
    return {name: x for name, x in about["numbers"].items() if is_used(name, about["config"]["returns"])}


_FORMER_NAMES = {
    "state.lanes.knowledge.networks": "state.lanes.learner.params",
    "state.lanes.knowledge.targets": "state.lanes.learner.target_params",
    "state.lanes.knowledge.averages.first": "state.lanes.learner.opt_state[{}].mu",
    "state.lanes.knowledge.averages.second": "state.lanes.learner.opt_state[{}].nu",
    "state.lanes.knowledge.averages.count": "state.lanes.learner.opt_state[{}].count",
    "state.lanes.replay.places": "state.lanes.replay.step_rows",
    "state.lanes.pool.which": "state.lanes.pool.step_rows",
    "state.lanes.episode.reward": "state.lanes.episode.total_reward",
    "state.lanes.episode.surplus": "state.lanes.episode.q_minus_return",
    "state.lanes.episode.judged": "state.lanes.episode.num_valued",
}
"""Prefix of array names in checkpoints of earlier versions -> its present form."""


def current_name(config: DQNConfig, stored: str) -> str | None:
    """Return the present name of an array in a checkpoint; None for an array that is not needed any more."""
    for former, name in _FORMER_NAMES.items():
        if stored.startswith(former):
            if former.endswith(".count") and config.optimiser != "adam":
                return None  # optax counts the updates of Adam alone
            position = 0 if config.max_gradient_norm is None else 1  # within the chain, after clipping
            return name.format(position) + stored.removeprefix(former)
    return stored

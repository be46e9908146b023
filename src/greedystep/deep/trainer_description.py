"""What a checkpoint of a `Trainer` says of itself: its description in JSON, checked, and the names of its arrays."""

from __future__ import annotations

import os
from typing import Any

from greedystep import checkpoint, schema
from greedystep.checks import INT32_MAX, LARGEST_SEED
from greedystep.deep.config import DQNConfig
from greedystep.deep.lane_hyperparams import LARGEST_IN_CONFIG
from greedystep.deep.targets import LaneHyperparams

ABOUT = {
    "kind": schema.OneOf("dqn"),
    "env": {"name": str, "options": schema.Nullable(dict)},
    "config": {"returns": str, "hidden": [schema.Int(1)]},
    "seeds": [schema.Int(0, LARGEST_SEED)],
    "numbers": {name: [schema.Float()] for name in LaneHyperparams._fields if name not in LARGEST_IN_CONFIG},
    "seconds": schema.Float(0),
}
"""Schema of a checkpoint's description; the other entries of "config" are checked by `DQNConfig`."""
ENV_STATE = schema.Nullable(
    {"episodes": [schema.Int()], "actions": [schema.Nullable([schema.Int(-INT32_MAX, INT32_MAX)])]}
)
"""Schema of `HostEnvs.state` in a checkpoint."""


def read_about(path: str | os.PathLike) -> dict[str, Any]:
    """Return the description in a DQN checkpoint; ValueError if the file is not one."""
    try:
        about = schema.check(checkpoint.read_about(path), ABOUT, "about")
        for name in LARGEST_IN_CONFIG:
            schema.check(about["numbers"].get(name), schema.Nullable([schema.Int(1)]), f"about.numbers.{name}")
        return about
    except checkpoint.DamagedCheckpointError:
        raise
    except ValueError as problem:
        raise ValueError(f"{path} is not the checkpoint of a DQN: {problem}") from None


def config_from_json(content: dict[str, Any]) -> DQNConfig:
    """Return the `DQNConfig` stored as JSON; ValueError names the first setting that is wrong."""
    hidden = schema.check(content.get("hidden"), [schema.Int(1)], "hidden")
    return schema.build(DQNConfig, content | {"hidden": tuple(hidden)}, "config")


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
    "state.lanes.heads.explained": "state.lanes.heads.r_squared",
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

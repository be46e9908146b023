"""The settings that differ between lanes (trainings side by side) of one compiled program: checked, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from greedystep.deep.config import DQNConfig, is_used
from greedystep.deep.learner import Learner
from greedystep.deep.targets import LaneHyperparams

LARGEST_IN_CONFIG = ("n", "ensemble")
"""Integer settings of which the config has the largest; checkpoints have them only where lanes differ."""


def make_hyperparams(learner: Learner, given: Mapping[str, Sequence[float]], lanes: int) -> LaneHyperparams:
    """Return one value per lane of each setting that may differ between lanes, checked as in `DQNConfig`."""
    config, names = learner.config, LaneHyperparams._fields
    for name, values in given.items():
        if name not in names:
            raise ValueError(f"lane_hyperparams: expected names among {', '.join(names)}, got {name!r}")
        if not is_used(name, config.returns):
            raise ValueError(f"lane_hyperparams: returns={config.returns!r} has no {name}")
        if len(values) != lanes:
            raise ValueError(f"lane_hyperparams: expected {lanes} values of {name}, one per lane, got {len(values)}")
        for value in values:
            dataclasses.replace(config, **{name: value})
        largest = getattr(config, name)
        if name in LARGEST_IN_CONFIG and largest is not None and max(values) > largest:
            raise ValueError(f"lane_hyperparams: {name} above that of the config, {largest}: {max(values)}")
        if name == "ensemble" and set(values) != {largest} and not learner.can_leave_out:
            raise ValueError("lane_hyperparams: lanes of this agent cannot differ in ensemble")
    columns = {name: given.get(name, [getattr(config, name) or 0.0] * lanes) for name in names}
    return LaneHyperparams(**{name: jnp.asarray(np.asarray(values, np.float32)) for name, values in columns.items()})


def described_hyperparams(config: DQNConfig, hyperparams: LaneHyperparams) -> dict[str, list[float]]:
    """Return the lane hyperparameters as JSON; those of LARGEST_IN_CONFIG are there only if a lane has its own."""
    numbers = {name: np.asarray(x).tolist() for name, x in hyperparams._asdict().items()}
    for name in LARGEST_IN_CONFIG:
        numbers[name] = [int(x) for x in numbers[name]]
        if set(numbers[name]) == {int(np.float32(getattr(config, name) or 0))}:
            del numbers[name]
    return numbers


def own_hyperparams(about: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the lane hyperparameters in a checkpoint's description, without those its `returns` does not use."""
    return {name: x for name, x in about["numbers"].items() if is_used(name, about["config"]["returns"])}

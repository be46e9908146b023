"""Greedy-step reinforcement learning: let the data choose the bootstrapping step.

The public names are imported on first use, so that planning never pays for JAX and `greedystep --help` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from greedystep.gymnasium_ids import register_with_gymnasium

if TYPE_CHECKING:
    from greedystep import envs, models, operators, returns, tabular, trajectory
    from greedystep.agents import load
    from greedystep.deep.agent import DQN
    from greedystep.deep.config import DQNConfig
    from greedystep.mdp import MDP
    from greedystep.planning import Solution, solve
    from greedystep.tabular import TabularAgent
    from greedystep.trajectory import Trajectory

__version__ = "0.1.0"

_HOME = {
    "DQN": "greedystep.deep.agent",
    "DQNConfig": "greedystep.deep.config",
    "MDP": "greedystep.mdp",
    "Solution": "greedystep.planning",
    "TabularAgent": "greedystep.tabular",
    "Trajectory": "greedystep.trajectory",
    "load": "greedystep.agents",
    "solve": "greedystep.planning",
    "envs": None,
    "models": None,
    "operators": None,
    "returns": None,
    "tabular": None,
    "trajectory": None,
}
"""Where each public name lives; None marks a submodule."""

__all__ = [
    "DQN",
    "MDP",
    "DQNConfig",
    "Solution",
    "TabularAgent",
    "Trajectory",
    "envs",
    "load",
    "models",
    "operators",
    "returns",
    "solve",
    "tabular",
    "trajectory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'greedystep' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"greedystep.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


register_with_gymnasium()

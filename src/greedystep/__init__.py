"""Greedy-step reinforcement learning: let the data choose the bootstrapping step.

The public names are imported on first use, so that planning and tables need no JAX and `greedystep --help` is quick.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from greedystep.extras import deep_extra as _deep_extra

if _TYPE_CHECKING:
    from greedystep import datasets, envs, models, operators, pretrained, returns, stats, tabular, trajectory
    from greedystep.agents import load
    from greedystep.deep import callbacks
    from greedystep.deep.agent import DQN
    from greedystep.deep.config import DQNConfig
    from greedystep.deep.env_check import check_env
    from greedystep.deep.evaluator import evaluate_policy
    from greedystep.evaluation import Evaluation
    from greedystep.mdp import MDP
    from greedystep.numpy_policy import NumpyPolicy
    from greedystep.planning import Solution, solve
    from greedystep.planning.matrix_free import MatrixFreeMDP
    from greedystep.planning.other_criteria import solve_average_reward, solve_finite_horizon
    from greedystep.planning.simulate import simulate
    from greedystep.pretrained import load_pretrained
    from greedystep.tabular import TabularAgent
    from greedystep.trajectory import Trajectory

__version__ = "1.0.0"

_MODULES = {
    "DQN": "deep.agent",
    "DQNConfig": "deep.config",
    "Evaluation": "evaluation",
    "NumpyPolicy": "numpy_policy",
    "MDP": "mdp",
    "MatrixFreeMDP": "planning.matrix_free",
    "Solution": "planning",
    "TabularAgent": "tabular",
    "Trajectory": "trajectory",
    "check_env": "deep.env_check",
    "evaluate_policy": "deep.evaluator",
    "load": "agents",
    "load_pretrained": "pretrained",
    "simulate": "planning.simulate",
    "solve": "planning",
    "solve_average_reward": "planning.other_criteria",
    "solve_finite_horizon": "planning.other_criteria",
}
"""Public name -> the module that defines it; the other public names are modules themselves."""

__all__ = [
    "DQN",
    "MDP",
    "DQNConfig",
    "Evaluation",
    "MatrixFreeMDP",
    "NumpyPolicy",
    "Solution",
    "TabularAgent",
    "Trajectory",
    "callbacks",
    "check_env",
    "datasets",
    "envs",
    "evaluate_policy",
    "load",
    "load_pretrained",
    "models",
    "operators",
    "pretrained",
    "returns",
    "simulate",
    "solve",
    "solve_average_reward",
    "solve_finite_horizon",
    "stats",
    "tabular",
    "trajectory",
]


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module 'greedystep' has no attribute {name!r}")
    with _deep_extra():
        if name in _MODULES:
            value = getattr(_import_module(f"greedystep.{_MODULES[name]}"), name)
        else:
            value = _import_module(f"greedystep.{'deep.' if name == 'callbacks' else ''}{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if "gymnasium" in _sys.modules:
    _import_module("greedystep.envs.gymnasium_ids").register_ids()

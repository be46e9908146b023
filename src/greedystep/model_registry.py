"""Models and behaviour policies by name, as `greedystep plan` takes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from greedystep import models
from greedystep.checks import check_float, parse_int
from greedystep.mdp import MDP
from greedystep.memory import check_memory

DISCOUNT = 0.99
"""The default discount."""

PATTERNS = "frozenlake-4x4, frozenlake-8x8, cliffwalking, taxi, chain-100, grid-20x30, maze-20x30, garnet-1000x4x3"

POLICY_SETS = "greedy, each-action, uniform, random-8"


@dataclass(frozen=True)
class GridLayout:
    """The cells of a model whose states lie on a grid, row by row, and an arrow for each action."""

    height: int
    width: int
    arrows: str
    """One character per action."""
    cells: np.ndarray
    """[S]: "" (a plain state), "goal", "hole" or "wall"."""


@dataclass(frozen=True)
class NamedModel:
    """A named MDP, with a layout if its states lie on a grid."""

    name: str
    mdp: MDP
    layout: GridLayout | None = None


def model(name: str, discount: float | None = None, slip: float | None = None) -> NamedModel:
    """Make the model of that name: built in (see PATTERNS), a .npz file, or a Gymnasium id with a transition table.

    Args:
        name: numbers in a built-in name are sizes: chain-STATES, grid-HEIGHTxWIDTH, maze-HEIGHTxWIDTH,
            garnet-STATESxACTIONSxBRANCHING. Mazes and Garnets are drawn with seed 0.
        discount: γ; by default the file's own, or 0.99.
        slip: probability of not moving in the chosen direction, for frozenlake, grid and maze.
    """
    if name.endswith(".npz"):
        _refuse_slip(name, slip)
        mdp = MDP.load(name)
        if discount is not None:
            mdp = MDP(mdp.transitions, mdp.rewards, discount, termination=mdp.termination)
        return NamedModel(name, mdp)
    gamma = DISCOUNT if discount is None else discount
    family, _, size = name.partition("-")
    if family in _SIZED:
        build, example = _SIZED[family]
        if not re.fullmatch(r"\d+(x\d+)*", size) or size.count("x") != example.count("x"):
            raise ValueError(f"model: expected sizes as in {example}, got {name!r}")
        try:
            sizes = [parse_int(number) for number in size.split("x")]
        except ValueError as problem:
            raise ValueError(f"model: {problem}") from None
        return build(name, sizes, gamma, slip)
    if name in _TOY_TEXTS:
        title, options = _TOY_TEXTS[name]
        return _gymnasium(name, _newest(title), options, gamma, slip)
    if re.search(r"-v\d+$", name):
        return _gymnasium(name, name, {}, gamma, slip)
    raise ValueError(
        f"model: {name!r} is not known; give a built-in name ({PATTERNS}; sizes are free), a Gymnasium id with a "
        "transition table such as FrozenLake-v1, or a .npz file"
    )


def policies(name: str, mdp: MDP) -> list[np.ndarray] | None:
    """Return the behaviour policies of that name, int [S] or float [S, A]; None for "greedy", that of the current Q."""
    some_action = mdp.available.argmax(axis=1)
    if name == "greedy":
        return None
    if name == "uniform":
        return [mdp.available / mdp.available.sum(axis=1, keepdims=True)]
    if name == "each-action":
        return [np.where(has, action, some_action) for action, has in enumerate(mdp.available.T)]
    if found := re.fullmatch(r"random-([1-9]\d*)", name):
        count = parse_int(found[1])
        check_memory(f"policies: {name}", 3 * 8 * count * mdp.available.size)
        preference = np.random.default_rng(0).random((count, *mdp.available.shape))
        return list(np.where(mdp.available, preference, -1.0).argmax(axis=2))
    raise ValueError(f"policies: {name!r} is not known; there are {POLICY_SETS} (any number)")


# -- built-in models of any size --------------------------------------------------------------------------------------


def _chain(name: str, size: list[int], discount: float, slip: float | None) -> NamedModel:
    _refuse_slip(name, slip)
    (length,) = size
    return NamedModel(name, models.chain(length, discount), GridLayout(1, length, "←→", np.full(length, "")))


def _grid(name: str, size: list[int], discount: float, slip: float | None) -> NamedModel:
    build = models.maze if name.startswith("maze") else models.grid
    height, width = size
    mdp = build(height, width, slip=slip or 0.0, discount=discount)
    cells = np.where(mdp.terminal, "wall", "")
    cells[-1] = "goal"
    return NamedModel(name, mdp, GridLayout(height, width, "↑→↓←", cells))


def _garnet(name: str, size: list[int], discount: float, slip: float | None) -> NamedModel:
    _refuse_slip(name, slip)
    return NamedModel(name, models.garnet(*size, discount=discount))


_SIZED: dict[str, tuple[Callable[[str, list[int], float, float | None], NamedModel], str]] = {
    "chain": (_chain, "chain-100"),
    "grid": (_grid, "grid-20x30"),
    "maze": (_grid, "maze-20x30"),
    "garnet": (_garnet, "garnet-1000x4x3"),
}


# -- Gymnasium --------------------------------------------------------------------------------------------------------

_TOY_TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "frozenlake-4x4": ("FrozenLake", {"map_name": "4x4"}),
    "frozenlake-8x8": ("FrozenLake", {"map_name": "8x8"}),
    "cliffwalking": ("CliffWalking", {}),
    "taxi": ("Taxi", {}),
}


def _newest(title: str) -> str:
    """Return the id with the highest version: Gymnasium raises it when it corrects a rule."""
    from gymnasium.envs.registration import find_highest_version

    return f"{title}-v{find_highest_version(None, title)}"


def _gymnasium(name: str, env_id: str, options: dict[str, Any], discount: float, slip: float | None) -> NamedModel:
    import gymnasium

    if slip is not None:
        if not env_id.startswith("FrozenLake"):
            _refuse_slip(name, slip)
        slip = check_float("slip", slip, 0, 1)
        options = {**options, "is_slippery": slip > 0, "success_rate": 1 - slip}
    try:
        env = gymnasium.make(env_id, **options).unwrapped
    except (gymnasium.error.Error, ImportError, TypeError) as problem:
        raise ValueError(f"model: gymnasium cannot make {env_id!r}: {problem}") from None
    try:
        return NamedModel(name, MDP.from_gymnasium(env, discount), _gymnasium_layout(env))
    finally:
        env.close()


def _gymnasium_layout(env: Any) -> GridLayout | None:
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    if isinstance(env, FrozenLakeEnv):
        letters = np.asarray(env.desc).astype(str)
        height, width = letters.shape
        cells = np.select([letters == "G", letters == "H"], ["goal", "hole"], "")
        return GridLayout(height, width, "←↓→↑", cells.ravel())
    if isinstance(env, CliffWalkingEnv):
        cells = np.full(env.shape, "", dtype="<U4")
        cells[-1, 1:-1], cells[-1, -1] = "hole", "goal"
        return GridLayout(*env.shape, "↑→↓←", cells.ravel())
    return None


def _refuse_slip(name: str, slip: float | None) -> None:
    if slip is not None:
        raise ValueError(f"slip: {name} does not take it; frozenlake, grid and maze do")

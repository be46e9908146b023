"""Example models of any size: chain, grid world, maze, Garnet, the paper's N-horizon problem; and models by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from greedystep.checks import check_float, check_int, check_memory, check_seed, did_you_mean, parse_int
from greedystep.mdp import MDP

BYTES_PER_ENTRY, BYTES_PER_PAIR = 50, 60
"""Bytes of memory needed to make a model, per transition and per pair (s, a); measured with tracemalloc."""

UP, RIGHT, DOWN, LEFT = range(4)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
"""Row and column change of the four grid actions, clockwise: a slip goes to a neighbour in this list."""


def chain(length: int, discount: float = 0.99) -> MDP:
    """Make a chain of `length` states: action 0 steps back, 1 forward; leaving the last state pays 1 and ends."""
    length = check_int("length", length)
    _check_size(f"length={length}", pairs=2 * length, entries=2 * length)
    here = np.arange(length)
    successor = np.stack([np.maximum(here - 1, 0), np.minimum(here + 1, length - 1)], axis=1)
    rewards, termination = np.zeros((length, 2)), np.zeros((length, 2))
    rewards[-1, 1] = termination[-1, 1] = 1.0
    stays = 1.0 - termination
    table = sp.csr_array((stays.ravel(), successor.ravel(), np.arange(2 * length + 1)), shape=(2 * length, length))
    return MDP(table, rewards, discount, termination=termination)


def n_horizon(horizon: int, discount: float = 0.99) -> tuple[MDP, list[np.ndarray]]:
    """Make the paper's N-horizon problem (Figure 1, as far as the text defines it) and its two behaviour policies [S].

    A chain of `horizon` steps whose last one pays 1. The first policy goes forward in the first half only, the second
    one in the second half only: neither reaches the reward, together they cover the way.
    """
    mdp = chain(horizon, discount)
    first_half = np.arange(horizon) < horizon // 2
    return mdp, [first_half.astype(int), (~first_half).astype(int)]


def grid(
    height: int,
    width: int,
    *,
    goal: tuple[int, int] | None = None,
    walls: ArrayLike | None = None,
    holes: ArrayLike | None = None,
    slip: float = 0.0,
    step_reward: float = -1.0,
    goal_reward: float = 0.0,
    hole_reward: float = -100.0,
    discount: float = 0.99,
) -> MDP:
    """Make a grid world with state `row * width + column` and actions up, right, down, left.

    Args:
        goal: the cell (row, column) that ends the episode; the last one by default.
        walls: bool [height, width], cells that cannot be entered: a move into one, or off the grid, stays.
        holes: bool [height, width], cells that end the episode with `hole_reward`.
        slip: probability of moving at a right angle to the chosen direction, half of it to each side (2/3 is
            FrozenLake's ice).
        step_reward: paid by every step; `goal_reward` and `hole_reward` are added on arrival there.
    """
    height, width = check_int("height", height), check_int("width", width)
    slip = check_float("slip", slip, 0, 1)
    for name, value in (("step_reward", step_reward), ("goal_reward", goal_reward), ("hole_reward", hole_reward)):
        check_float(name, value)
    _check_size(f"{height} x {width}", pairs=4 * height * width, entries=4 * height * width * (1 if slip == 0 else 3))
    goal_row, goal_column = goal if goal is not None else (height - 1, width - 1)
    if not (0 <= goal_row < height and 0 <= goal_column < width):
        raise ValueError(f"goal: {goal} lies outside {height} x {width}")
    wall, hole = (_cells(cells, name, height, width) for cells, name in ((walls, "walls"), (holes, "holes")))
    here = np.arange(height * width)
    at_goal = here == goal_row * width + goal_column
    if wall[at_goal].any():
        raise ValueError("goal: it is a wall")

    row, column = np.divmod(here, width)
    target = np.empty((4, here.size), int)
    for action, (down, right) in enumerate(MOVES):
        there = np.clip(row + down, 0, height - 1) * width + np.clip(column + right, 0, width - 1)
        target[action] = np.where(wall[there], here, there)
    arrival = step_reward + goal_reward * at_goal + hole_reward * hole

    # Outcome k of action a: straight on, or to either side.
    turns, chance = ([0], [1.0]) if slip == 0 else ([0, 1, 3], [1 - slip, slip / 2, slip / 2])
    landing = np.stack([target[(np.arange(4) + turn) % 4].T for turn in turns], axis=-1)  # [S, 4, outcomes]
    probability = np.broadcast_to(chance, landing.shape)
    rewards = (probability * arrival[landing]).sum(axis=-1)
    rows = np.repeat(np.arange(landing.shape[0] * 4), len(turns))
    entries = (probability.ravel(), (rows, landing.ravel()))
    table = sp.csr_array(entries, shape=(landing.shape[0] * 4, landing.shape[0]))  # equal landings are added up
    return MDP(table, rewards, discount, terminal=at_goal | hole | wall)


def maze(height: int, width: int, wall_share: float = 0.3, *, seed: int = 0, **options: Any) -> MDP:
    """Make a `grid` in which a share of the cells, drawn at random, are walls; `options` as for `grid`.

    From cells cut off from the goal episodes never end, so that the discount must be below 1.
    """
    height, width = check_int("height", height), check_int("width", width)
    _check_size(f"{height} x {width}", pairs=4 * height * width, entries=4 * height * width)
    wall_share, random = check_float("wall_share", wall_share, 0, 1), np.random.default_rng(check_seed(seed))
    walls = random.random((height, width)) < wall_share
    row, column = options.get("goal") or (height - 1, width - 1)
    if 0 <= row < height and 0 <= column < width:  # `grid` says what is wrong with another goal
        walls[row, column] = False
    return grid(height, width, walls=walls, **options)


def garnet(states: int, actions: int, branching: int, *, discount: float = 0.99, seed: int = 0) -> MDP:
    """Make a Garnet: each (s, a) leads to `branching` random states with random probabilities; r ~ Normal(0, 1)."""
    states, actions = check_int("states", states), check_int("actions", actions)
    branching = check_int("branching", branching, 1, states)
    size = f"states={states}, actions={actions}, branching={branching}"
    _check_size(size, pairs=states * actions, entries=states * actions * branching)
    random = np.random.default_rng(check_seed(seed))
    rows = states * actions
    successors = random.integers(0, states, (rows, branching))
    cuts = np.sort(random.random((rows, branching - 1)), axis=1)
    edges = np.concatenate([np.zeros((rows, 1)), cuts, np.ones((rows, 1))], axis=1)
    entries = (np.diff(edges).ravel(), successors.ravel(), np.arange(rows + 1) * branching)
    table = sp.csr_array(entries, shape=(rows, states))
    table.sum_duplicates()
    return MDP(table, random.normal(size=(states, actions)), discount)


def renumbered(mdp: MDP, seed: int = 0) -> MDP:
    """Return the same model with its states renumbered at random."""
    new = np.random.default_rng(seed).permutation(mdp.num_states)
    old = np.argsort(new)
    rows = (old[:, None] * mdp.num_actions + np.arange(mdp.num_actions)).ravel()
    matrix = sp.csr_array(mdp.transitions)[rows]
    matrix = sp.csr_array((matrix.data, new[matrix.indices], matrix.indptr), shape=matrix.shape)
    termination = None if mdp.termination is None else mdp.termination[old]
    return MDP(matrix, mdp.rewards[old], mdp.discount, termination=termination)


def _cells(cells: Any, name: str, height: int, width: int) -> np.ndarray:
    if cells is None:
        return np.zeros(height * width, bool)
    array = np.asarray(cells)
    if array.shape != (height, width) or array.dtype != bool:
        raise ValueError(f"{name}: expected bool [{height}, {width}]")
    return array.ravel()


def _check_size(sizes: str, *, pairs: int, entries: int) -> None:
    """Raise MemoryError if a model with so many pairs (s, a) and transitions does not fit; `sizes` describes it."""
    check_memory(sizes, BYTES_PER_ENTRY * entries + BYTES_PER_PAIR * pairs)


# -- models and behaviour policies by name ----------------------------------------------------------------------------

DISCOUNT = 0.99  # the default discount of named models
SIZED = {"chain": "chain-100", "grid": "grid-20x30", "maze": "maze-20x30", "garnet": "garnet-1000x4x3"}
"""Family of models of any size -> example of a name."""
TOY_TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "frozenlake-4x4": ("FrozenLake", {"map_name": "4x4"}),
    "frozenlake-8x8": ("FrozenLake", {"map_name": "8x8"}),
    "cliffwalking": ("CliffWalking", {}),
    "taxi": ("Taxi", {}),
}
"""Name -> (title, options) of Gymnasium's toy texts, which have transition tables."""
POLICY_SETS = "greedy, each-action, uniform, random-8"


@dataclass(frozen=True)
class GridLayout:
    """For models whose states lie on a grid: which state each cell shows, row by row, and an arrow per action."""

    height: int
    width: int
    arrows: str  # one character per action
    cells: np.ndarray  # [S]: "" (a plain state), "goal", "hole" or "wall"


@dataclass(frozen=True)
class NamedModel:
    """An MDP with its name and, if its states lie on a grid, their layout."""

    name: str
    mdp: MDP
    layout: GridLayout | None = None


def by_name(name: str, discount: float | None = None, slip: float | None = None) -> NamedModel:
    """Make the MDP of that name: a built-in one, a .npz file, or a Gymnasium id with a transition table.

    Args:
        name: numbers in a built-in name are sizes: chain-STATES, grid-HEIGHTxWIDTH, maze-HEIGHTxWIDTH,
            garnet-STATESxACTIONSxBRANCHING. Mazes and Garnets are drawn with seed 0.
        discount: γ; by default the file's own, or 0.99.
        slip: probability of not moving in the chosen direction, for frozenlake, grid and maze.
    """
    family, _, size = name.partition("-")
    gamma = DISCOUNT if discount is None else discount
    if name.endswith(".npz"):
        _refuse_slip(name, slip)
        mdp = MDP.load(name)
        if discount is not None:
            rows = mdp.transitions
            if isinstance(rows, np.ndarray):
                rows = rows.reshape(*mdp.rewards.shape, mdp.num_states)
            mdp = MDP(rows, mdp.rewards, discount, termination=mdp.termination)
        return NamedModel(name, mdp)
    if family in SIZED:
        if not re.fullmatch(r"\d+(x\d+)*", size) or size.count("x") != SIZED[family].count("x"):
            raise ValueError(f"model: expected sizes as in {SIZED[family]}, got {name!r}")
        try:
            sizes = [parse_int(number) for number in size.split("x")]
        except ValueError as problem:
            raise ValueError(f"model: {problem}") from None
        return _sized(name, family, sizes, gamma, slip)
    if name in TOY_TEXTS or re.search(r"-v\d+$", name):
        return _gymnasium(name, gamma, slip)
    built_in = ", ".join([*TOY_TEXTS, *SIZED.values()])
    raise ValueError(
        f"model: {name!r} is not known; give a built-in name ({built_in}; sizes are free), a Gymnasium id with a "
        f"transition table such as FrozenLake-v1, or a .npz file{_suggestion(name)}"
    )


def _suggestion(name: str) -> str:
    """Return "; did you mean 'x'?" for a misspelt name, with the sizes that it has; "" if no name is close."""
    size = name.partition("-")[2]
    known = [*TOY_TEXTS, *(f"{family}-{size}" for family in SIZED)] if size else TOY_TEXTS
    return did_you_mean(name.lower(), known)


def policies_by_name(name: str, mdp: MDP) -> list[np.ndarray] | None:
    """Return the behaviour policies of that name, each int [S] or float [S, A]; None for "greedy" (greedy in Q_k)."""
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


def _sized(name: str, family: str, size: list[int], discount: float, slip: float | None) -> NamedModel:
    """Build the built-in MDP of this family, such as a grid, with `size` as its numbers (height and width, states)."""
    if family in ("grid", "maze"):
        height, width = size
        mdp = (maze if family == "maze" else grid)(height, width, slip=slip or 0.0, discount=discount)
        cells = np.where(mdp.terminal, "wall", "")
        cells[-1] = "goal"
        return NamedModel(name, mdp, GridLayout(height, width, "↑→↓←", cells))
    _refuse_slip(name, slip)
    if family == "chain":
        (length,) = size
        return NamedModel(name, chain(length, discount), GridLayout(1, length, "←→", np.full(length, "")))
    return NamedModel(name, garnet(*size, discount=discount))


def _gymnasium(name: str, discount: float, slip: float | None) -> NamedModel:
    """Make the model of a Gymnasium id, or of a name in TOY_TEXTS in its newest version."""
    import gymnasium
    from gymnasium.envs.registration import find_highest_version

    env_id, options = TOY_TEXTS.get(name, (name, {}))
    if name in TOY_TEXTS:  # Gymnasium raises the version when it corrects a rule
        env_id = f"{env_id}-v{find_highest_version(None, env_id)}"
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

"""Example models of any size: chain, grid world, maze, Garnet, and the paper's N-horizon problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from greedystep.checks import check_float, check_int, check_seed
from greedystep.mdp import MDP
from greedystep.memory import check_memory

BYTES_PER_ENTRY, BYTES_PER_PAIR = 50, 60
"""Bytes of memory to make a model, per transition and per pair (s, a): measured with tracemalloc."""

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
    _check(0 <= goal_row < height and 0 <= goal_column < width, f"goal: {goal} lies outside {height} x {width}")
    wall = _cells(walls, "walls", height, width)
    hole = _cells(holes, "holes", height, width)
    at_goal = np.zeros(height * width, bool)
    at_goal[goal_row * width + goal_column] = True
    _check(not wall[at_goal].any(), "goal: it is a wall")

    row, column = np.divmod(np.arange(height * width), width)
    target = np.empty((4, height * width), int)
    for action, (down, right) in enumerate(MOVES):
        r, c = np.clip(row + down, 0, height - 1), np.clip(column + right, 0, width - 1)
        target[action] = np.where(wall[r * width + c], np.arange(height * width), r * width + c)
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
    walls = np.random.default_rng(check_seed(seed)).random((height, width)) < check_float(
        "wall_share", wall_share, 0, 1
    )
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
    _check(array.shape == (height, width) and array.dtype == bool, f"{name}: expected bool [{height}, {width}]")
    return array.ravel()


def _check_size(sizes: str, *, pairs: int, entries: int) -> None:
    """Raise MemoryError before a model is made that has too many transitions."""
    check_memory(sizes, BYTES_PER_ENTRY * entries + BYTES_PER_PAIR * pairs)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)

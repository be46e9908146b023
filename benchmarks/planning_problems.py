"""The models that planning is timed on, in four kinds.

goal        shortest-path problems: a good policy moves steadily towards a terminal state
diffusive   noise outweighs the choice of action, as in a random walk; values spread slowly
mixing      fast-mixing chains without termination
other       none of these, or several at once
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy import stats

from greedystep import models
from greedystep.mdp import MDP

Kind = Literal["goal", "diffusive", "mixing", "other"]

ICE = 2 / 3
"""FrozenLake's slip probability: each of three directions is equally likely."""


@dataclass(frozen=True)
class Problem:
    """A named model; `build` always returns the same one."""

    name: str
    kind: Kind
    build: Callable[[], MDP]


def fresh_rewards(mdp: MDP, draw: int) -> np.ndarray:
    """Return the model's rewards with each distinct value scaled by its own random factor in [0.9, 1.1].

    No timing can profit from an earlier one, equal rewards stay equal, and terminal states and missing actions keep
    theirs.
    """
    values, place = np.unique(mdp.rewards, return_inverse=True)
    factors = np.random.default_rng([2024, draw]).uniform(0.9, 1.1, values.size)
    return (values * factors)[place].reshape(mdp.rewards.shape)


# -- families ---------------------------------------------------------------------------------------------------------


def with_costs(mdp: MDP, seed: int = 0) -> MDP:
    """Return the model with a random cost in [0.5, 1.5] per step, so that no two paths cost the same."""
    return mdp.with_rewards(-np.random.default_rng(seed).uniform(0.5, 1.5, mdp.rewards.shape))


def ice(height: int, width: int, hole_share: float = 0.05, seed: int = 0, **options: float) -> MDP:
    """FrozenLake of any size: random holes and a goal in the middle."""
    goal = (height // 2, width // 2)
    holes = np.random.default_rng(seed).random((height, width)) < hole_share
    holes[goal] = False
    return models.grid(height, width, goal=goal, holes=holes, slip=ICE, **options)


def ending_garnet(states: int, actions: int, branching: int, chance: float, discount: float) -> MDP:
    """A Garnet in which every step may terminate, with a random probability of `chance` on average."""
    mdp = models.garnet(states, actions, branching, discount=discount)
    ends = np.random.default_rng(1).uniform(0, 2 * chance, mdp.rewards.shape)
    table = sp.csr_array(sp.diags_array(1 - ends.ravel()) @ mdp.transitions)
    return MDP(table, mdp.rewards, discount, termination=ends)


def clusters(count: int, size: int, actions: int, leak: float, discount: float) -> MDP:
    """A nearly decomposable model: groups of states, each a Garnet, left with probability `leak` per step."""
    random = np.random.default_rng(0)
    states, branching = count * size, 3
    group = np.repeat(np.arange(states) // size, actions)[:, None]
    inside = group * size + random.integers(0, size, (states * actions, branching))
    outside = random.integers(0, states, (states * actions, 1))
    shares = random.dirichlet(np.ones(branching), states * actions) * (1 - leak)
    chances = np.hstack([shares, np.full((states * actions, 1), leak)])
    table = _table(states, np.hstack([inside, outside]), chances)
    return MDP(table, random.normal(size=(states, actions)), discount)


def bipartite(states: int, actions: int, branching: int, discount: float) -> MDP:
    """A Garnet of two halves, each leading only to the other, so that the chain has period 2."""
    random = np.random.default_rng(0)
    half = states // 2
    first = np.repeat(np.arange(states) < half, actions)[:, None]
    successors = random.integers(0, half, (states * actions, branching)) + np.where(first, half, 0)
    table = _table(states, successors, random.dirichlet(np.ones(branching), states * actions))
    return MDP(table, random.normal(size=(states, actions)), discount)


def dense(states: int, actions: int, discount: float) -> MDP:
    """A random dense model: every state is a successor of every other."""
    random = np.random.default_rng(0)
    transitions = random.random((states, actions, states))
    transitions /= transitions.sum(axis=2, keepdims=True)
    return MDP(transitions, random.normal(size=(states, actions)), discount)


def torus(height: int, width: int, slip: float, discount: float) -> MDP:
    """A walk on a grid that wraps around, without termination and with random rewards."""
    states = height * width
    row, column = np.divmod(np.arange(states), width)
    target = np.stack([(row + d) % height * width + (column + r) % width for d, r in models.MOVES], axis=1)
    turns = [(np.arange(4) + turn) % 4 for turn in (0, 1, 3)]
    successors = np.stack([target[:, turn] for turn in turns], axis=-1).reshape(states * 4, 3)
    table = _table(states, successors, np.tile([1 - slip, slip / 2, slip / 2], (states * 4, 1)))
    return MDP(table, np.random.default_rng(0).random((states, 4)), discount)


def queue(capacity: int, discount: float) -> MDP:
    """A uniformised queue with five service rates; a long queue and a fast service both cost more."""
    arrival, services = 0.4, np.linspace(0.1, 0.6, 5)
    length = np.repeat(np.arange(capacity + 1), services.size)
    served = np.tile(services, capacity + 1) * (length > 0)
    joined = arrival * (length < capacity)
    successors = np.stack([np.minimum(length + 1, capacity), np.maximum(length - 1, 0), length], axis=1)
    chances = np.stack([joined, served, 1 - joined - served], axis=1)
    cost = 0.01 * length + 3 * np.tile(services, capacity + 1) ** 2
    return MDP(_table(capacity + 1, successors, chances), -cost.reshape(capacity + 1, services.size), discount)


def inventory(capacity: int, largest_order: int, demand: float, discount: float) -> MDP:
    """Inventory control under Poisson demand; orders are limited by the capacity, and unmet demand is lost."""
    stock, order = np.divmod(np.arange((capacity + 1) * (largest_order + 1)), largest_order + 1)
    fits = stock + order <= capacity
    after = np.minimum(stock + order, capacity)
    demands = np.arange(int(stats.poisson.isf(1e-9, demand)) + 1)
    chance = stats.poisson.pmf(demands, demand)
    chance[-1] += 1 - chance.sum()
    left = np.maximum(after[:, None] - demands, 0)
    sold = (chance * np.minimum(after[:, None], demands)).sum(axis=1)
    rewards = 5 * sold - 0.1 * after - 2 * order - 4 * (order > 0)
    shape = (capacity + 1, largest_order + 1)
    table = _table(capacity + 1, left, np.broadcast_to(chance, left.shape))
    return MDP(table, rewards.reshape(shape), discount, available=fits.reshape(shape))


def _table(states: int, successors: np.ndarray, chances: np.ndarray) -> sp.csr_array:
    """Return a CSR matrix from one row of successors and probabilities per (s, a); equal successors are summed."""
    rows, width = successors.shape
    table = sp.csr_array(
        (chances.ravel(), successors.ravel(), np.arange(rows + 1) * width), shape=(rows, states), dtype=np.float64
    )
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


# -- the list ---------------------------------------------------------------------------------------------------------


def _renumbered(build: Callable[[], MDP]) -> MDP:
    return models.renumbered(build())


def _gymnasium(name: str) -> MDP:
    return models.by_name(name).mdp


def _million() -> MDP:
    return models.grid(1000, 1000, slip=0.2, discount=0.99)


def _problems() -> list[Problem]:
    found: list[Problem] = []

    def add(kind: Kind, name: str, family: Callable[..., MDP], *sizes: float, **options: float) -> Callable[[], MDP]:
        build = partial(family, *sizes, **options)
        found.append(Problem(name, kind, build))
        return build

    def add_renumbered(kind: Kind, name: str, build: Callable[[], MDP]) -> None:
        found.append(Problem(f"{name}, renumbered", kind, partial(_renumbered, build)))

    # Shortest paths.
    add("goal", "grid 25x25", models.grid, 25, 25)
    add("goal", "grid 100x100, γ .999", models.grid, 100, 100, discount=0.999)
    plain = add("goal", "grid 300x300", partial(models.grid, goal=(150, 150)), 300, 300)
    add_renumbered("goal", "grid 300x300", plain)
    add("goal", "grid 100x100, costs", lambda: with_costs(models.grid(100, 100)))
    costs = add("goal", "grid 300x300, costs, γ .999", lambda: with_costs(models.grid(300, 300, discount=0.999)))
    add_renumbered("goal", "grid 300x300, costs, γ .999", costs)
    add("goal", "grid 30x30, slip .2", models.grid, 30, 30, slip=0.2)
    add("goal", "grid 100x100, slip .1, γ .999", models.grid, 100, 100, slip=0.1, discount=0.999)
    slippery = add("goal", "grid 200x200, slip .2", models.grid, 200, 200, slip=0.2)
    add_renumbered("goal", "grid 200x200, slip .2", slippery)
    add("goal", "grid 100x100, slip .4, γ .999", models.grid, 100, 100, slip=0.4, discount=0.999)
    add("goal", "maze 50x50", models.maze, 50, 50)
    maze = add("goal", "maze 300x300, γ .999", models.maze, 300, 300, discount=0.999)
    add_renumbered("goal", "maze 300x300, γ .999", maze)
    add("goal", "maze 200x200, costs", lambda: with_costs(models.maze(200, 200)))
    add("goal", "maze 100x100, slip .2, γ .999", models.maze, 100, 100, slip=0.2, discount=0.999)
    add("goal", "chain 600", models.chain, 600)
    chain = add("goal", "chain 5000, γ .999", models.chain, 5000, 0.999)
    add_renumbered("goal", "chain 5000, γ .999", chain)
    # Random walks.
    add("diffusive", "ice 40x40", ice, 40, 40)
    frozen = add("diffusive", "ice 150x150", ice, 150, 150)
    add_renumbered("diffusive", "ice 150x150", frozen)
    add("diffusive", "ice 150x150, γ .999", ice, 150, 150, discount=0.999)
    add("diffusive", "ice 100x100, no holes, γ .999", ice, 100, 100, hole_share=0.0, discount=0.999)
    add("diffusive", "torus 100x100", torus, 100, 100, ICE, 0.99)
    add("diffusive", "torus 60x60, γ .999", torus, 60, 60, ICE, 0.999)
    add("diffusive", "queue 1000, γ .999", queue, 1000, 0.999)
    add("diffusive", "queue 10000", queue, 10_000, 0.99)
    # Fast mixing.
    add("mixing", "garnet 600, 4 actions, 3 successors", models.garnet, 600, 4, 3)
    add("mixing", "garnet 10000, 2 actions, 2 successors, γ .999", models.garnet, 10_000, 2, 2, discount=0.999)
    garnet = add("mixing", "garnet 20000, 8 actions, 5 successors", models.garnet, 20_000, 8, 5)
    add_renumbered("mixing", "garnet 20000, 8 actions, 5 successors", garnet)
    add("mixing", "garnet 20000, 4 actions, 5 successors, γ .9", models.garnet, 20_000, 4, 5, discount=0.9)
    add("mixing", "garnet 2000, 4 actions, 50 successors, γ .999", models.garnet, 2000, 4, 50, discount=0.999)
    add("mixing", "garnet 1000, 100 actions, 4 successors", models.garnet, 1000, 100, 4)
    add("mixing", "dense 600, 8 actions", dense, 600, 8, 0.99)
    add("mixing", "dense 1000, 4 actions, γ .999", dense, 1000, 4, 0.999)
    # The rest.
    add("other", "garnet 5000, 4 actions, 1 successor", models.garnet, 5000, 4, 1)
    add("other", "ending garnet 10000, 4 actions, 4 successors", ending_garnet, 10_000, 4, 4, 0.02, 0.99)
    add("other", "ending garnet 5000, 4 actions, 4 successors, γ .999", ending_garnet, 5000, 4, 4, 0.001, 0.999)
    add("other", "clusters 40x100, 4 actions, γ .999", clusters, 40, 100, 4, 1e-3, 0.999)
    add("other", "bipartite 5000, 4 actions, 4 successors", bipartite, 5000, 4, 4, 0.99)
    add("other", "inventory 500", inventory, 500, 50, 20.0, 0.99)
    add("other", "inventory 1000, γ .999", inventory, 1000, 30, 10.0, 0.999)
    # Small, from Gymnasium, and large.
    add("diffusive", "FrozenLake 8x8", partial(_gymnasium, "frozenlake-8x8"))
    add("goal", "Taxi", partial(_gymnasium, "taxi"))
    add("goal", "CliffWalking", partial(_gymnasium, "cliffwalking"))
    add("goal", "grid 1000x1000, slip .2", _million)
    return found


PROBLEMS = _problems()


def select(texts: Sequence[str]) -> list[Problem]:
    """Return the problems of these kinds or with these texts in their names; ValueError if a text fits none."""

    def fits(problem: Problem, text: str) -> bool:
        return text == problem.kind or text in problem.name

    for text in texts:
        if not any(fits(problem, text) for problem in PROBLEMS):
            names = "; ".join(problem.name for problem in PROBLEMS)
            raise ValueError(f"problems: {text!r} is no kind and in no name; known are {names}")
    return [problem for problem in PROBLEMS if any(fits(problem, text) for text in texts)]

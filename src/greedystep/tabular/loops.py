"""The loops: act and learn, only act, only learn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from greedystep.envs.toy import ToyTask
from greedystep.tabular import kernels
from greedystep.tabular.empirical import EmpiricalModel
from greedystep.tabular.episodes import Episodes, World
from greedystep.tabular.methods import METHODS, NEEDS_CHANCES, checked_share, checked_whole, parameters_of
from greedystep.tabular.updates import BACKWARD_Q_LEARNING, GREEDY_STEP, MODEL

CURE = "try a smaller alpha, lambda_ or n"


class Learned(NamedTuple):
    """What `learn` has found, and how it went."""

    q: np.ndarray
    """float64 [S, A]; -inf where the state does not have the action."""
    returns: np.ndarray
    """float64 [episodes]: the discounted return of each episode, exploration included."""
    lengths: np.ndarray
    """int64 [episodes]."""
    memory: Any
    """What the method keeps besides its table, to go on with: the `EmpiricalModel` of "model"; None for most."""


def learn(
    task: ToyTask,
    method: str = "greedy-step",
    *,
    episodes: int,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    memory: Any = None,
    **options: Any,
) -> Learned:
    """Act ε-greedily, ties broken at random, and learn from every episode when it is over.

    Args:
        method: one of `METHODS`, where its `options` and their defaults stand too.
        epsilon: ε, the share of actions drawn uniformly.
        q: the table to begin with, float [S, A], or one number for all its entries. Greedy-step never lowers a value,
            so it must begin at or below the optimal ones: `task.lowest_return` where rewards are negative.
        seed: the same seed gives the same numbers; a Generator goes on where it is.
        memory: of the call that this one goes on from (`Learned.memory`); it grows in place.

    Raises:
        FloatingPointError: the values grew beyond float64, as those of an uncorrected off-policy method may.
    """
    code, parameters = parameters_of(method, options)
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    returns, lengths = np.empty(checked_whole("episodes", episodes)), np.empty(episodes, np.int64)
    epsilon, memory = checked_share("epsilon", epsilon), checked_memory(method, table.shape, memory)
    if code == MODEL:
        done, memory.counts = kernels.learn_by_planning(table, memory.counts, world, epsilon, random, returns, lengths)
    else:
        done = kernels.learn_from_episodes(code, parameters, table, world, epsilon, random, returns, lengths)
    if done < episodes:
        raise FloatingPointError(f"{method}: its values have no bound, and left float64 in episode {done}; {CURE}")
    return Learned(table, returns, lengths, memory)


def collect(
    task: ToyTask, *, episodes: int, epsilon: float = 1.0, q: Any = 0.0, seed: int | np.random.Generator = 0
) -> Episodes:
    """Episodes of the ε-greedy policy of a table that does not change; by default, of the uniformly random one."""
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    return Episodes(
        *kernels.collect(table, world, checked_share("epsilon", epsilon), random, checked_whole("episodes", episodes))
    )


def replay(
    log: Episodes,
    q: Any,
    method: str = "greedy-step",
    *,
    discount: float,
    sweeps: int = 1,
    memory: Any = None,
    **options: Any,
) -> np.ndarray:
    """The table after learning from logged episodes, in their order, `sweeps` times over.

    The method "model" counts the log once and then plans until the values are those of its model, whatever `sweeps`.

    Args:
        q: the table to begin with, float [S, A]; it is not changed. -inf marks actions that a state does not have.
            Greedy-step, "model", and backward Q-learning with α = 1 may begin with -inf everywhere: then the pairs that
            the log does not show count as unavailable.
        discount: γ.
        memory: as in `learn`.
    """
    code, parameters = parameters_of(method, options)
    table = np.array(q, np.float64, order="C")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"q: expected a table [S, A], got shape {list(table.shape)}")
    log.check(*table.shape)
    if not 0 < discount <= 1:
        raise ValueError(f"discount: expected a number in (0, 1], got {discount!r}")
    if method in NEEDS_CHANCES and not (log.chances > 0).all():
        raise ValueError(f"log: {method} needs the behaviour's probability of every action")
    memory, sweeps = checked_memory(method, table.shape, memory), checked_whole("sweeps", sweeps)
    if code == MODEL:
        memory.add(log)
        table[memory.seen & (table == -np.inf)] = 0.0  # planning finds their values from any number, but not from -inf
        bounded = kernels.replay_by_planning(table, memory.counts, log, float(discount))
    else:
        bounded = _replay(code, parameters, table, log, float(discount), sweeps, method)
    if not bounded:
        raise FloatingPointError(f"{method}: its values have no bound, and left float64; {CURE}")
    return table


def _replay(
    code: int, parameters: Any, table: np.ndarray, log: Episodes, gamma: float, sweeps: int, method: str
) -> bool:
    assigns = code == GREEDY_STEP or (code == BACKWARD_Q_LEARNING and parameters.alpha == 1.0)
    if not assigns:
        _check_known(log, table, method)
    return kernels.replay(code, parameters, table, log, gamma, sweeps, assigns)


def checked_memory(method: str, shape: tuple[int, ...], memory: Any) -> EmpiricalModel | None:
    """The memory to go on with, a new one if there is none yet; None for methods that keep nothing but their table."""
    if METHODS[method][0] != MODEL:
        if memory is not None:
            raise ValueError(f"memory: {method} keeps nothing but its table")
        return None
    if memory is None:
        return EmpiricalModel(*shape)
    if not isinstance(memory, EmpiricalModel) or memory.visits.shape != shape:
        raise ValueError(f"memory: expected an EmpiricalModel of {shape[0]} states and {shape[1]} actions")
    return memory


def _check_known(log: Episodes, table: np.ndarray, method: str) -> None:
    number = np.repeat(np.arange(len(log.terminated)), np.diff(log.first))
    pairs = table[log.states[np.arange(len(log.actions)) + number], log.actions]
    # The last state of a terminated episode has no value and may hold anything.
    last = log.states[log.first[1:] + np.arange(len(log.terminated))][~log.terminated]
    if not (np.isfinite(pairs).all() and np.isfinite(table[last].max(axis=1)).all()):
        raise ValueError(f"q: {method} cannot begin with infinite values at pairs that the log shows")


def _world(task: ToyTask) -> World:
    states = np.flatnonzero(task.start)
    cumulative = np.cumsum(task.start[states])
    return World(task.outcomes, states, cumulative, float(task.mdp.discount), task.horizon)


def starting_table(task: ToyTask, q: Any) -> np.ndarray:
    """A new table [S, A] of these values, -inf where a state does not have the action."""
    array = np.asarray(q, np.float64)
    if array.shape not in ((), task.mdp.rewards.shape):
        raise ValueError(f"q: expected one number or {list(task.mdp.rewards.shape)}, got shape {list(array.shape)}")
    table = np.where(task.mdp.available, array, -np.inf)
    if not np.isfinite(table[task.mdp.available]).all():
        raise ValueError("q: values of available actions must be finite")
    return table

"""The loops: act and learn, only act, only learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from greedystep.checks import check_float, check_float_array, check_int
from greedystep.envs.toy import ToyTask
from greedystep.memory import check_memory
from greedystep.tabular import kernels
from greedystep.tabular.branching import Watch, make_seen
from greedystep.tabular.episodes import Episodes, World
from greedystep.tabular.memory import KINDS, Memory, checked_memory
from greedystep.tabular.methods import NEEDS_CHANCES, parameters_of
from greedystep.tabular.updates import BACKWARD_Q_LEARNING, GREEDY_STEP, GREEDY_STEP_STORED, Parameters

BYTES_PER_STEP = 40
"""Of `make_buffer`, which has room for the longest episode."""
CURE = "try a smaller alpha, lambda_ or n"


class Learned(NamedTuple):
    """What `learn` has found, and how it went."""

    q: np.ndarray
    """float64 [S, A]; -inf where the state does not have the action."""
    returns: np.ndarray
    """float64 [episodes]: the discounted return of each episode, exploration included."""
    lengths: np.ndarray
    """int64 [episodes]."""
    memory: Memory
    """What the method keeps besides its table, to go on with; None for most."""


def learn(
    task: ToyTask,
    method: str = "greedy-step",
    *,
    episodes: int,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    memory: Memory = None,
    watch: Watch | None = None,
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
        watch: is shown every step of greedy-step's sampled forms, if given.

    Raises:
        FloatingPointError: the values grew beyond float64, as those of an uncorrected off-policy method may.
    """
    go_on = learning(task, method, epsilon=epsilon, q=q, seed=seed, memory=memory, watch=watch, **options)
    return go_on(episodes)


def learning(
    task: ToyTask,
    method: str,
    *,
    epsilon: float,
    q: Any,
    seed: int | np.random.Generator,
    memory: Memory = None,
    watch: Watch | None = None,
    **options: Any,
) -> Callable[[int], Learned]:
    """`learn` in instalments: a function that has so many more episodes, with everything checked and made once.

    The table of what it returns is its own, which the next call goes on changing.
    """
    code, parameters = parameters_of(method, options)
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    epsilon, kept = check_float("epsilon", epsilon, 0, 1), checked_memory(code, table.shape, memory)
    seen = make_seen(0) if watch is None else watch.seen

    def go_on(episodes: int) -> Learned:
        check_memory(f"episodes={check_int('episodes', episodes)}", 16 * episodes)
        returns, lengths = np.empty(episodes), np.empty(episodes, np.int64)
        if code == GREEDY_STEP_STORED:
            done, kept.shelf = kernels.learn_from_all(
                parameters, table, kept.shelf, seen, world, epsilon, random, returns, lengths
            )
        elif kept is not None:
            done, kept.counts = kernels.learn_from_counts(
                code, parameters, table, kept.counts, world, epsilon, random, returns, lengths
            )
        else:
            done = kernels.learn_from_episodes(code, parameters, table, seen, world, epsilon, random, returns, lengths)
        if done < episodes:
            raise FloatingPointError(f"{method}: its values have no bound, and left float64 in episode {done}; {CURE}")
        return Learned(table, returns, lengths, kept)

    return go_on


def collect(
    task: ToyTask, *, episodes: int, epsilon: float = 1.0, q: Any = 0.0, seed: int | np.random.Generator = 0
) -> Episodes:
    """Episodes of the ε-greedy policy of a table that does not change; by default, of the uniformly random one."""
    world, table, random = _world(task), starting_table(task, q), np.random.default_rng(seed)
    return Episodes(
        *kernels.collect(table, world, check_float("epsilon", epsilon, 0, 1), random, check_int("episodes", episodes))
    )


def replay(
    log: Episodes,
    q: Any,
    method: str = "greedy-step",
    *,
    discount: float,
    sweeps: int = 1,
    memory: Memory = None,
    **options: Any,
) -> np.ndarray:
    """The table after learning from logged episodes, in their order, `sweeps` times over.

    "model" and greedy-step's expected form count the log once, and the stored form stores it once; after that "model"
    plans until its values are those of the counted model, whatever `sweeps`, and the stored form values everything it
    has stored again, `sweeps` times.

    Args:
        q: the table to begin with, float [S, A]; it is not changed. -inf marks actions that a state does not have.
            Greedy-step, "model", and backward Q-learning with α = 1 may begin with -inf everywhere: then the pairs that
            nothing logged shows count as unavailable.
        discount: γ.
        memory: as in `learn`.
    """
    code, parameters = parameters_of(method, options)
    table = np.array(q, np.float64, order="C")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"q: expected a table [S, A], got shape {list(table.shape)}")
    log.check(*table.shape)
    gamma = check_float("discount", discount, 0, 1, above=True)
    if method in NEEDS_CHANCES and not (log.chances > 0).all():
        raise ValueError(f"log: {method} needs the behaviour's probability of every action")
    if not _assigns(code, parameters):
        _check_known(log, table, method)
    kept = checked_memory(code, table.shape, memory)
    if not study(code, parameters, table, kept, log, gamma, check_int("sweeps", sweeps)):
        raise FloatingPointError(f"{method}: its values have no bound, and left float64; {CURE}")
    return table


def study(
    code: int, parameters: Parameters, table: np.ndarray, memory: Any, log: Episodes, gamma: float, sweeps: int
) -> bool:
    """`replay` in place, without the checks; whether the values have a bound."""
    if memory is None:
        return kernels.replay_episodes(code, parameters, table, log, gamma, sweeps, _assigns(code, parameters))
    memory.add(log)
    if code == GREEDY_STEP_STORED:
        return kernels.replay_all(parameters, table, memory.episodes, gamma, sweeps)
    table[memory.seen & (table == -np.inf)] = 0.0  # their values are found from any number, but not from -inf
    return kernels.replay_counts(code, parameters, table, memory.counts, log, gamma, sweeps)


def _assigns(code: int, parameters: Parameters) -> bool:
    """Whether the update puts a number where -inf stood."""
    return code == GREEDY_STEP or code in KINDS or (code == BACKWARD_Q_LEARNING and parameters.alpha == 1.0)


def _check_known(log: Episodes, table: np.ndarray, method: str) -> None:
    pairs = table[log.origins, log.actions]
    # The last state of a terminated episode has no value and may hold anything.
    last = log.states[log.first[1:] + np.arange(len(log.terminated))][~log.terminated]
    if not (np.isfinite(pairs).all() and np.isfinite(table[last].max(axis=1)).all()):
        raise ValueError(f"q: {method} cannot begin with infinite values at pairs that the log shows")


def _world(task: ToyTask) -> World:
    check_longest_episode(task)
    states = np.flatnonzero(task.start)
    cumulative = np.cumsum(task.start[states])
    return World(task.outcomes, states, cumulative, float(task.mdp.discount), task.horizon)


def check_longest_episode(task: ToyTask) -> None:
    """MemoryError if there is no room for the longest episode."""
    check_memory(f"horizon={task.horizon}", BYTES_PER_STEP * task.horizon)


def starting_table(task: ToyTask, q: Any) -> np.ndarray:
    """A new table [S, A] of these values, -inf where a state does not have the action."""
    return filled_table(task.mdp.available, q)


def filled_table(available: np.ndarray, q: Any) -> np.ndarray:
    """The same for any bool [S, A] of actions that there are."""
    array = check_float_array("q", q)
    if array.shape not in ((), available.shape):
        raise ValueError(f"q: expected one number or {list(available.shape)}, got shape {list(array.shape)}")
    table = np.where(available, array, -np.inf)
    if not np.isfinite(table[available]).all():
        raise ValueError("q: values of available actions must be finite")
    return table

"""Tabular learning: act and learn (`learn`), act only (`collect`), learn from a log only (`replay`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from greedystep.checks import check_float, check_float_array, check_int, check_memory
from greedystep.envs import ToyTask, as_task
from greedystep.tabular import compiled_loops
from greedystep.tabular.acting import make_simulator
from greedystep.tabular.episodes import Episodes
from greedystep.tabular.methods import MEMORY_CLASSES, NEEDS_BEHAVIOUR_PROB, Memory, check_method_memory, parameters_of
from greedystep.tabular.stochasticity_warning import StochasticityDetector, unseen_outcomes
from greedystep.tabular.updates import BACKWARD_Q_LEARNING, GREEDY_STEP, GREEDY_STEP_STORED, Parameters

if TYPE_CHECKING:
    from greedystep.envs import ToyEnvironment

Task: TypeAlias = "str | ToyTask | ToyEnvironment"
"""A toy task: its name, the task itself or its environment."""
DIVERGED = "its values have no bound, and left float64{}; try a smaller alpha, lambda_ or n"
"""The message of a FloatingPointError, with the place where it happened."""


class LearnResult(NamedTuple):
    """The table that was learned, and the episodes it was learned from."""

    q: np.ndarray
    """float64 [S, A]; -inf where the state does not have the action."""
    returns: np.ndarray
    """float64 [episodes]: the discounted return of each episode, exploration included."""
    lengths: np.ndarray
    """int64 [episodes]."""
    memory: Memory
    """What the method keeps besides its table, for the next call; None for most methods."""


def learn(
    task: Task,
    method: str = "greedy-step",
    *,
    episodes: int,
    epsilon: float = 0.2,
    q: Any = 0.0,
    seed: int | np.random.Generator = 0,
    memory: Memory = None,
    detector: StochasticityDetector | None = None,
    **options: Any,
) -> LearnResult:
    """Act ε-greedily, ties broken at random, and learn from every episode when it is over.

    Args:
        task: the name of a toy task, a `ToyTask` or its environment.
        method: one of `METHODS`, which lists its `options` and their defaults too.
        epsilon: ε, the share of actions drawn uniformly.
        q: the table to begin with, float [S, A], or one number for all its entries. Greedy-step never lowers a value,
            so it must begin at or below the optimal ones: `task.lowest_return` where rewards are negative.
        seed: a number, or a Generator, which continues from its state.
        memory: `LearnResult.memory` of the call that this one continues; it grows in place.
        detector: checks every step of greedy-step's sampled forms, if given.

    Raises:
        FloatingPointError: the values diverged, as those of an uncorrected off-policy method may.
    """
    more = make_learner(task, method, epsilon=epsilon, q=q, seed=seed, memory=memory, detector=detector, **options)
    return more(episodes)


def make_learner(
    task: Task,
    method: str,
    *,
    epsilon: float,
    q: Any,
    seed: int | np.random.Generator,
    memory: Memory = None,
    detector: StochasticityDetector | None = None,
    **options: Any,
) -> Callable[[int], LearnResult]:
    """Return a function that learns for so many more episodes, with all arguments of `learn` checked once.

    The table in its results is shared: the next call changes it in place.
    """
    code, parameters = parameters_of(method, options)
    task = as_task(task)
    simulator, table, random = make_simulator(task), initial_table(task, q), np.random.default_rng(seed)
    epsilon, kept = check_float("epsilon", epsilon, 0, 1), check_method_memory(code, table.shape, memory)
    first_outcomes = unseen_outcomes(0) if detector is None else detector.outcomes

    def more(episodes: int) -> LearnResult:
        check_memory(f"episodes={check_int('episodes', episodes)}", 16 * episodes)
        returns, lengths = np.empty(episodes), np.empty(episodes, np.int64)
        if code == GREEDY_STEP_STORED:
            done, kept.store = compiled_loops.learn_from_all(
                parameters, table, kept.store, first_outcomes, simulator, epsilon, random, returns, lengths
            )
        elif kept is not None:
            done, kept.counts = compiled_loops.learn_from_counts(
                code, parameters, table, kept.counts, simulator, epsilon, random, returns, lengths
            )
        else:
            done = compiled_loops.learn_from_episodes(
                code, parameters, table, first_outcomes, simulator, epsilon, random, returns, lengths
            )
        if done < episodes:
            raise FloatingPointError(f"{method}: {DIVERGED.format(f' in episode {done}')}")
        return LearnResult(table, returns, lengths, kept)

    return more


def collect(
    task: Task, *, episodes: int, epsilon: float = 1.0, q: Any = 0.0, seed: int | np.random.Generator = 0
) -> Episodes:
    """Simulate episodes of the ε-greedy policy of a fixed table; by default, of the uniformly random policy."""
    task, epsilon, episodes = as_task(task), check_float("epsilon", epsilon, 0, 1), check_int("episodes", episodes)
    simulator, table, random = make_simulator(task), initial_table(task, q), np.random.default_rng(seed)
    return Episodes(*compiled_loops.collect(table, simulator, epsilon, random, episodes))


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
    """Return the table after learning from logged episodes, in their order, `sweeps` times over.

    "model" and greedy-step's expected form count the log once, and the stored form stores it once. "model" then plans
    until its values are those of the counted model, whatever `sweeps`; the stored form computes the returns of all that
    it has stored again, `sweeps` times.

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
    if method in NEEDS_BEHAVIOUR_PROB and not (log.behaviour_prob > 0).all():
        raise ValueError(f"log: {method} needs the behaviour's probability of every action")
    if not _assigns(code, parameters):
        _check_known(log, table, method)
    kept = check_method_memory(code, table.shape, memory)
    if not replay_in_place(code, parameters, table, kept, log, gamma, check_int("sweeps", sweeps)):
        raise FloatingPointError(f"{method}: {DIVERGED.format('')}")
    return table


def replay_in_place(
    code: int, parameters: Parameters, table: np.ndarray, memory: Any, log: Episodes, gamma: float, sweeps: int
) -> bool:
    """`replay` without its checks, changing the table; return whether the values stayed bounded."""
    if memory is None:
        return compiled_loops.replay_episodes(code, parameters, table, log, gamma, sweeps, _assigns(code, parameters))
    memory.add(log)
    if code == GREEDY_STEP_STORED:
        return compiled_loops.replay_all(parameters, table, memory.episodes, gamma, sweeps)
    table[memory.seen & (table == -np.inf)] = 0.0  # any finite value converges, -inf does not
    return compiled_loops.replay_counts(code, parameters, table, memory.counts, log, gamma, sweeps)


def _assigns(code: int, parameters: Parameters) -> bool:
    """Whether the update replaces -inf by a number."""
    return code == GREEDY_STEP or code in MEMORY_CLASSES or (code == BACKWARD_Q_LEARNING and parameters.alpha == 1.0)


def _check_known(log: Episodes, table: np.ndarray, method: str) -> None:
    pairs = table[log.origins, log.actions]
    # The last state of a terminated episode has no value and may hold anything.
    last = log.states[log.first[1:] + np.arange(len(log.terminated))][~log.terminated]
    if not (np.isfinite(pairs).all() and np.isfinite(table[last].max(axis=1)).all()):
        raise ValueError(f"q: {method} cannot begin with infinite values at pairs that the log shows")


def initial_table(task: ToyTask, q: Any) -> np.ndarray:
    """Return a new table [S, A] of one number or of given values, -inf where an action is unavailable."""
    return filled_table(task.mdp.available, q)


def filled_table(available: np.ndarray, q: Any) -> np.ndarray:
    """Return a new table [S, A] like `initial_table`, for any bool [S, A] of available actions."""
    array = check_float_array("q", q)
    if array.shape not in ((), available.shape):
        raise ValueError(f"q: expected one number or {list(available.shape)}, got shape {list(array.shape)}")
    table = np.where(available, array, -np.inf)
    if not np.isfinite(table[available]).all():
        raise ValueError("q: values of available actions must be finite")
    return table

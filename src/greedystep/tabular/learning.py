"""Tabular learning: act and learn (`learn`), act only (`collect`), learn from a log only (`replay`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from greedystep.checks import check_float, check_float_array, check_int, check_memory
from greedystep.envs import ToyTask, as_task
from greedystep.tabular.acting import make_simulator, simulate_episode
from greedystep.tabular.empirical_model import EmpiricalModel, count_episode, make_counts, with_capacity
from greedystep.tabular.episodes import (
    Episodes,
    StoredEpisodes,
    append_episode,
    buffer_for,
    load_episode,
    longest_episode,
    make_buffer,
    make_store,
    used_log,
)
from greedystep.tabular.horizon_means import HorizonMeans, best_horizon, make_statistics
from greedystep.tabular.methods import (
    AUTO,
    BACKWARD_Q_LEARNING,
    GREEDY_STEP,
    GREEDY_STEP_EXPECTED,
    GREEDY_STEP_STORED,
    MODEL,
    NEEDS_BEHAVIOUR_PROB,
    Parameters,
    greedy_step_targets,
    is_bounded,
    parameters_of,
    update,
)
from greedystep.tabular.model_updates import backup_and_enqueue, expected_greedy_step, make_queue, process_queue
from greedystep.tabular.stochasticity_warning import StochasticityDetector, check_episode, unseen_outcomes
from greedystep.trajectory import Trajectory

if TYPE_CHECKING:
    from greedystep.envs import ToyEnvironment

Task: TypeAlias = "str | ToyTask | ToyEnvironment"  # A toy task: its name, the task itself or its environment
DIVERGED = "its values have no bound, and left float64{}; try a smaller alpha, lambda_ or n"
"""Message of the FloatingPointError for values that are not finite; takes the place where it happened."""

Memory = EmpiricalModel | StoredEpisodes | HorizonMeans | None  # what a method keeps besides its table
MEMORY_CLASSES = {
    MODEL: EmpiricalModel,
    GREEDY_STEP_EXPECTED: EmpiricalModel,
    GREEDY_STEP_STORED: StoredEpisodes,
    AUTO: HorizonMeans,
}
"""Code of a method -> class of its memory; all other methods keep their table only."""
NO_COUNTS, NO_EPISODES, NO_STATISTICS = make_counts(0, 0), make_store(0), make_statistics(0, 0)
"""Empty memories, which compiled loops get if the method has none."""


class LearnResult(NamedTuple):
    """Result of `learn`: the table, the returns and lengths of the episodes, and the method's memory."""

    q: np.ndarray  # float64 [S, A]; -inf where the state does not have the action
    returns: np.ndarray  # float64 [episodes]: the discounted return of each episode, exploration included
    lengths: np.ndarray  # int64 [episodes]
    memory: Memory  # what the method keeps besides its table, for the next call; None for most methods


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
    """Check the arguments of `learn` once; return a function of a number of episodes that learns for so many more.

    The table in its results is shared: the next call changes it in place.
    """
    code, parameters = parameters_of(method, options)
    task = as_task(task)
    simulator, table, random = make_simulator(task), initial_table(task.mdp.available, q), np.random.default_rng(seed)
    epsilon, kept = check_float("epsilon", epsilon, 0, 1), check_method_memory(code, table.shape, memory)
    first_outcomes = unseen_outcomes(0) if detector is None else detector.outcomes

    def more(episodes: int) -> LearnResult:
        check_memory(f"episodes={check_int('episodes', episodes)}", 16 * episodes)
        returns, lengths = np.empty(episodes), np.empty(episodes, np.int64)
        common = first_outcomes, simulator, epsilon, random, returns, lengths
        if kept is None or isinstance(kept, HorizonMeans):
            done = _learn(code, parameters, table, NO_STATISTICS if kept is None else kept.stats, *common)
        elif isinstance(kept, EmpiricalModel):
            done, kept.counts, _ = _learn_with_memory(code, parameters, table, kept.counts, NO_EPISODES, *common)
        else:
            done, _, kept.store = _learn_with_memory(code, parameters, table, NO_COUNTS, kept.store, *common)
        if done < episodes:
            raise FloatingPointError(f"{method}: {DIVERGED.format(f' in episode {done}')}")
        return LearnResult(table, returns, lengths, kept)

    return more


def collect(
    task: Task, *, episodes: int, epsilon: float = 1.0, q: Any = 0.0, seed: int | np.random.Generator = 0
) -> Episodes:
    """Simulate episodes of the ε-greedy policy of a fixed table; by default, of the uniformly random policy."""
    task, epsilon, episodes = as_task(task), check_float("epsilon", epsilon, 0, 1), check_int("episodes", episodes)
    simulator, table, random = make_simulator(task), initial_table(task.mdp.available, q), np.random.default_rng(seed)
    return _collect(table, simulator, epsilon, random, episodes)


def replay(
    log: Episodes | Iterable[tuple | Trajectory],
    q: Any,
    method: str = "greedy-step",
    *,
    discount: float,
    sweeps: int = 1,
    memory: Memory = None,
    **options: Any,
) -> np.ndarray:
    """Return a copy of the table q after learning from logged episodes, in their order, `sweeps` times over.

    "model" and greedy-step's expected form count the log once, and the stored form stores it once. "model" then plans
    until its values are those of the counted model, whatever `sweeps`; the stored form computes the returns of all that
    it has stored again, `sweeps` times.

    Args:
        log: logged episodes, or a list of them as `Episodes.of` takes it.
        q: the table to begin with, float [S, A]; it is not changed. -inf marks actions that a state does not have.
            Greedy-step, "model", and backward Q-learning with α = 1 may begin with -inf everywhere: then pairs (s, a)
            that are not in the log count as unavailable.
        discount: γ.
        memory: as in `learn`.
    """
    code, parameters = parameters_of(method, options)
    table = np.array(q, np.float64, order="C")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"q: expected a table [S, A], got shape {list(table.shape)}")
    log = Episodes.of(log)
    log.check(*table.shape)
    gamma = check_float("discount", discount, 0, 1, above=True)
    if method in NEEDS_BEHAVIOUR_PROB and not (log.behaviour_prob > 0).all():
        raise ValueError(f"log: {method} needs the behaviour's probability of every action")
    if not _assigns(code, parameters):
        # The last state of a terminated episode has no value and may hold anything.
        last = log.states[log.first[1:] + np.arange(len(log.terminated))][~log.terminated]
        if not (np.isfinite(table[log.origins, log.actions]).all() and np.isfinite(table[last].max(axis=1)).all()):
            raise ValueError(f"q: {method} cannot begin with infinite values at pairs that the log shows")
    kept = check_method_memory(code, table.shape, memory)
    if not replay_in_place(code, parameters, table, kept, log, gamma, check_int("sweeps", sweeps)):
        raise FloatingPointError(f"{method}: {DIVERGED.format('')}")
    return table


def replay_in_place(
    code: int, parameters: Parameters, table: np.ndarray, memory: Any, log: Episodes, gamma: float, sweeps: int
) -> bool:
    """Do what `replay` does, without its checks, on the table itself; return whether all values stayed finite."""
    counts, stats = NO_COUNTS, NO_STATISTICS
    if isinstance(memory, StoredEpisodes):
        log = memory.add(log).episodes
    elif isinstance(memory, EmpiricalModel):
        counts = memory.add(log).counts
        table[memory.seen & (table == -np.inf)] = 0.0  # any finite value converges, -inf does not
    elif memory is not None:
        stats = memory.stats
    return _replay(code, parameters, table, counts, stats, log, gamma, sweeps, _assigns(code, parameters))


def _assigns(code: int, parameters: Parameters) -> bool:
    """Whether the method's update can replace -inf by a number, because it assigns values instead of averaging."""
    always = code in (GREEDY_STEP, GREEDY_STEP_STORED, GREEDY_STEP_EXPECTED, MODEL)
    return always or (code == BACKWARD_Q_LEARNING and parameters.alpha == 1.0)


def initial_table(available: np.ndarray, q: Any) -> np.ndarray:
    """Return a new table [S, A] with q (a number or values) where `available`, bool [S, A], is True, else -inf."""
    array = check_float_array("q", q)
    if array.shape not in ((), available.shape):
        raise ValueError(f"q: expected one number or {list(available.shape)}, got shape {list(array.shape)}")
    table = np.where(available, array, -np.inf)
    if not np.isfinite(table[available]).all():
        raise ValueError("q: values of available actions must be finite")
    return table


def check_method_memory(code: int, shape: tuple[int, ...], memory: Any = None) -> Any:
    """Return the given memory, checked, or a new one; None for methods that need none."""
    kind = MEMORY_CLASSES.get(code)
    if kind is None:
        if memory is not None:
            raise ValueError("memory: this method keeps nothing but its table")
        return None
    if memory is None:
        return kind(*shape)
    if not isinstance(memory, kind) or memory.shape != shape:
        raise ValueError(f"memory: expected {kind.__name__} of {shape[0]} states and {shape[1]} actions")
    return memory


# -- compiled loops ---------------------------------------------------------------------------------------------------


@njit(cache=True)
def _collect(q, simulator, epsilon, random, episodes):
    buffer, store = make_buffer(simulator.horizon), make_store(simulator.horizon + 1)
    for _ in range(episodes):
        steps, terminated, _ = simulate_episode(q, simulator, epsilon, random, buffer)
        store = append_episode(store, buffer, steps, terminated)
    return used_log(store)


@njit(cache=True, nogil=True)
def _learn(method, parameters, q, stats, first_outcomes, simulator, epsilon, random, returns, lengths):
    """Act, and learn from each episode; return the number of episodes before the values diverged, usually all."""
    buffer = make_buffer(simulator.horizon)
    for episode in range(len(returns)):
        steps, terminated, returns[episode] = simulate_episode(q, simulator, epsilon, random, buffer)
        lengths[episode] = steps
        check_episode(first_outcomes, buffer, steps, terminated, q.shape[1])
        _update(method, parameters, q, stats, buffer, steps, terminated, simulator.discount)
        if not is_bounded(q, buffer, steps, False):
            return episode
    return len(returns)


@njit(cache=True, nogil=True)
def _learn_with_memory(
    method, parameters, q, counts, store, first_outcomes, simulator, epsilon, random, returns, lengths
):
    """Act, and learn from all episodes so far; return (episodes before values diverged, counts, store)."""
    buffer = make_buffer(max(simulator.horizon, longest_episode(used_log(store))))
    queue, targets, gamma = make_queue(q if method == MODEL else q[:0], counts), np.empty(0), simulator.discount
    for episode in range(len(returns)):
        steps, terminated, returns[episode] = simulate_episode(q, simulator, epsilon, random, buffer)
        lengths[episode] = steps
        if method == GREEDY_STEP_STORED:
            check_episode(first_outcomes, buffer, steps, terminated, q.shape[1])
            store = append_episode(store, buffer, steps, terminated)
            if len(targets) < len(store.log.actions):
                targets = np.empty(len(store.log.actions))
            bounded = _assign_best_returns(q, used_log(store), gamma, parameters.n, buffer, targets)
        else:
            counts = with_capacity(counts, steps)
            count_episode(counts, buffer, steps, terminated, q.shape[1])
            bounded = _learn_from_counts(method, parameters, q, counts, queue, buffer, steps, gamma, False)
            bounded = bounded and process_queue(q, counts, queue, gamma)
        if not bounded:
            return episode, counts, store
    return len(returns), counts, store


@njit(cache=True, nogil=True)
def _replay(method, parameters, q, counts, stats, log, gamma, sweeps, allow_minus_inf):
    """Learn from a log whose steps are in `counts` already; return whether the values stayed bounded."""
    buffer, targets = buffer_for(log), np.empty(len(log.actions))
    queue = make_queue(q if method == MODEL else q[:0], counts)
    for _ in range(1 if method == MODEL else sweeps):  # planning converges in one sweep
        if method == GREEDY_STEP_STORED:
            if not _assign_best_returns(q, log, gamma, parameters.n, buffer, targets):
                return False
            continue
        for episode in range(len(log.terminated)):
            steps, terminated = load_episode(buffer, log, episode)
            if method in (MODEL, GREEDY_STEP_EXPECTED):
                bounded = _learn_from_counts(method, parameters, q, counts, queue, buffer, steps, gamma, True)
            else:
                _update(method, parameters, q, stats, buffer, steps, terminated, gamma)
                bounded = is_bounded(q, buffer, steps, allow_minus_inf)
            if not bounded:
                return False
    return process_queue(q, counts, queue, gamma)


@njit(cache=True)
def _update(method, parameters, q, stats, buffer, steps, terminated, gamma):
    """Learn from the buffered episode by a method that needs no other."""
    if method == AUTO:
        best_horizon(q, stats, buffer, steps, terminated, gamma)
    else:
        update(method, parameters, q, buffer, steps, terminated, gamma)


@njit(cache=True)
def _learn_from_counts(method, parameters, q, counts, queue, buffer, steps, gamma, allow_minus_inf):
    """Learn from the buffered episode by counts ("model" only queues it); return whether the values stayed bounded."""
    if method == MODEL:
        for t in range(steps - 1, -1, -1):
            backup_and_enqueue(q, counts, queue, buffer.states[t] * q.shape[1] + buffer.actions[t], gamma)
        return True
    expected_greedy_step(q, counts, buffer, steps, gamma, parameters.n)
    return is_bounded(q, buffer, steps, allow_minus_inf)


@njit(cache=True)
def _assign_best_returns(q, log, gamma, horizon, buffer, targets):
    """Apply the paper's literal rule: q(s, a) <- the largest greedy-step return of all stored episodes from (s, a).

    All returns are computed from the table before the update; pairs that are not stored keep their values. Return
    whether all returns are below infinity.
    """
    states, actions, bounded = log.states, log.actions, True
    for episode in range(len(log.terminated)):
        steps, terminated = load_episode(buffer, log, episode)
        greedy_step_targets(q, buffer, steps, terminated, gamma, horizon)
        targets[log.first[episode] : log.first[episode + 1]] = buffer.targets[:steps]
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            q[states[k + episode], actions[k]] = -np.inf
    for episode in range(len(log.terminated)):
        for k in range(log.first[episode], log.first[episode + 1]):
            s, a = states[k + episode], actions[k]
            q[s, a] = max(q[s, a], targets[k])
            bounded = bounded and targets[k] < np.inf
    return bounded

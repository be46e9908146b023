"""Toy tasks with delayed rewards, each a finite table of outcomes whose exact answers are known.

A task is written down once, as the list of everything that can happen: in state s, action a has outcomes k, each with a
probability, a successor (or the end of the episode), and a reward drawn from Normal(reward[k], noise[k]). The exact MDP
holds the expectations of that list, and a simulator draws from the list itself, so that the two cannot disagree.

Time and whatever reward is still pending are part of the state wherever they matter: every task is Markov.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from greedystep import models
from greedystep.checks import INT32_MAX, check_float, check_int
from greedystep.mdp import MDP, Policy
from greedystep.memory import check_memory
from greedystep.planning import solve

if TYPE_CHECKING:
    from greedystep.envs.toy_env import ToyEnvironment

SOLVED_SHARE = 0.9
"""RUDDER's rule: a task is solved when the policy earns this share of the optimal expected return."""

BYTES_PER_OUTCOME, BYTES_PER_PAIR = 220, 50
"""Memory while a task is being made, for each outcome and for each pair (s, a): measured with tracemalloc."""

END = -1
"""The successor of an outcome that ends the episode."""


class Outcomes(NamedTuple):
    """Everything that can happen, sorted by row s*A + a, for compiled loops. A row without outcomes: no such action."""

    first: np.ndarray
    """int64 [S*A + 1]: the outcomes of row i are first[i] .. first[i + 1] - 1."""
    cumulative: np.ndarray
    """float64 [K]: the probabilities summed up within the row; the last one of a row is 1."""
    successor: np.ndarray
    """int32 [K]: the next state, or END."""
    reward: np.ndarray
    """float64 [K]: the mean reward of the outcome."""
    noise: np.ndarray
    """float64 [K]: the standard deviation of its reward, which is Gaussian."""


@njit(cache=True)
def draw(cumulative, low, high, random):
    """An index from low..high-1 with the probabilities whose sums are `cumulative`; a single one costs no number."""
    k = low
    if high - low > 1:
        u = random.random()
        while k < high - 1 and u >= cumulative[k]:
            k += 1
    return k


@dataclass(frozen=True, eq=False)
class ToyTask:
    """A finite task: S states, A actions, and what is known about it exactly."""

    name: str
    mdp: MDP
    """The exact model: expected rewards, transitions, termination, discount."""
    outcomes: Outcomes
    """What a simulator draws from."""
    start: np.ndarray
    """float64 [S]: the distribution of the first state."""
    horizon: int
    """No episode is longer. Where the task itself may go on, the episode is cut there (truncated, not terminated)."""
    made_with: dict[str, Any] | None = None
    """The options that `envs.make` was given, so that a saved agent can make its task again; None: made otherwise."""

    @property
    def num_states(self) -> int:
        """S, which is also the number of different observations: the agent sees the state's number."""
        return self.mdp.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.mdp.num_actions

    @cached_property
    def optimal_return(self) -> float:
        """Σ_s start(s) v*(s): the expected discounted return of the best policy, from the exact model."""
        return float(self.start @ solve(self.mdp, tolerance=1e-9 * max(1.0, self._largest_reward)).v)

    @property
    def solved_return(self) -> float:
        """The expected return from which the task counts as solved: 90 % of the optimal one.

        A negative optimum may be missed by 10 % of its size.
        """
        return self.optimal_return - (1 - SOLVED_SHARE) * abs(self.optimal_return)

    @property
    def lowest_return(self) -> float:
        """A number that no expected return lies below: the worst mean reward, if negative, at every step.

        A table that begins here is pessimistic, which greedy-step's running maximum needs.
        """
        worst, gamma = min(float(self.outcomes.reward.min()), 0.0), self.mdp.discount
        steps = self.horizon if gamma == 1 else np.expm1(self.horizon * np.log(gamma)) / (gamma - 1)  # Σ γᵗ
        return worst * float(steps)

    def expected_return(self, policy: Policy) -> float:
        """The exact expected discounted return of an episode under a policy, int [S] or float [S, A].

        `horizon` backups v <- r^π + γ T^π v from zero: what lies behind the cut of a truncated episode is not counted.
        """
        chain, reward = self.mdp.under(policy)
        v = np.zeros(self.num_states)
        for _ in range(self.horizon):
            before, v = v, reward + self.mdp.discount * (chain @ v)
            if np.array_equal(v, before):  # nor will it ever change
                break
        return float(self.start @ v)

    def solved_by(self, policy: Policy) -> bool:
        """Whether the policy's exact expected return reaches `solved_return`."""
        return self.expected_return(policy) >= self.solved_return - 1e-9 * max(1.0, self._largest_reward)

    def as_env(self) -> ToyEnvironment:
        """The task as an environment of the common protocol (`envs.core`), for JAX: `reset`, `step`, `observe`."""
        from greedystep.envs.toy_env import ToyEnvironment

        return ToyEnvironment(self)

    @property
    def _largest_reward(self) -> float:
        return float(np.abs(self.outcomes.reward).max(initial=0.0))


def from_mdp(name: str, mdp: MDP, start: Any, horizon: int) -> ToyTask:
    """A task from a model whose rewards are not random: every step pays r(s, a). A terminal state ends on arrival.

    Args:
        start: the first state, or float [S], its distribution.
        horizon: episodes are cut after so many steps.
    """
    matrix = sp.coo_array(mdp.transitions)
    possible = matrix.data > 0
    row, successor = (index[possible] for index in matrix.coords)
    successor = np.where(mdp.terminal[successor], END, successor)
    ends = np.zeros(mdp.rewards.shape) if mdp.termination is None else mdp.termination
    ending = np.flatnonzero(ends)
    row = np.concatenate([row, ending])
    outcomes = _outcomes(
        mdp.rewards.shape,
        row=row,
        probability=np.concatenate([matrix.data[possible], ends.ravel()[ending]]),
        successor=np.concatenate([successor, np.full(len(ending), END)]),
        reward=mdp.rewards.ravel()[row],
        noise=0.0,
    )
    return ToyTask(name, mdp, outcomes, _start(start, mdp.num_states), check_int("horizon", horizon))


# -- the tasks --------------------------------------------------------------------------------------------------------


def choice(delay: int = 20, noise: float = 0.0, best: float = 1.0, other: float = 0.0) -> ToyTask:
    """Choice: the first of `delay` actions decides what the last step pays; all others change nothing.

    After RUDDER's Task II "The Choice", whose exact definition is not published; reconstructed from its description:
    one early decision, a reward long after it, and unrelated rewards in between that make returns noisy.

    States: 0, then 1 + 2 (t - 1) + c after t steps with choice c. Action 0 of state 0 leads to `best`, action 1 to
    `other`. Discount 1. The optimal return is `best`.

    Args:
        delay: the length of an episode, at least 2.
        noise: standard deviation of the zero-mean reward of every irrelevant step; 0 is the deterministic task.
        best, other: what the last step pays after the good and after the other choice; best > other.
    """
    delay = check_int("delay", delay, 2)
    noise, best, other = check_float("noise", noise, 0), check_float("best", best), check_float("other", other)
    _check(best > other, f"best: expected more than other = {other}, got {best}")
    _check_size(f"delay={delay}", states=2 * delay - 1, actions=2, outcomes=4 * delay - 2)
    time, chosen, action = np.meshgrid(np.arange(1, delay), [0, 1], [0, 1], indexing="ij")
    state, last = 1 + 2 * (time - 1) + chosen, time == delay - 1
    decide, wait = _Steps(), _Steps()
    decide.add(state=0, action=[0, 1], successor=[1, 2])
    wait.add(
        state=state,
        action=action,
        successor=np.where(last, END, state + 2),
        reward=np.where(last, np.where(chosen == 0, best, other), 0.0),
        noise=noise,
    )
    return _task("toy/choice", 2 * delay - 1, 2, 1.0, 0, delay, decide, wait)


def trace_back(delay: int = 20, terminal_only: bool = False) -> ToyTask:
    """Trace Back: up and then right in the first two moves costs 50 and pays 150 at the end; all else pays 50 at once.

    RUDDER's Task III "Trace-Back", reconstructed from memory of its description (its code is not published; the sizes
    agree with its published delays): a square grid of side ⌊3 delay / 4⌋, start in the centre, episodes of `delay`
    steps, moves off the grid stay. The first two moves are the agent's; from the third on every action leads to a
    neighbour drawn uniformly. The state is position, time and whether 150 is pending. Discount 1, optimal return 100.

    Actions are up, right, down, left. States: 0; 1 + a after the first move a; then, after t >= 2 steps in cell c,
    5 + (2 (t - 2) + pending) side² + c.

    Args:
        delay: the length of an episode, at least 4.
        terminal_only: pay everything with the last step, 100 or 50, as the greedy-step paper describes the task.
    """
    delay = check_int("delay", delay, 4)
    _check(isinstance(terminal_only, bool | np.bool_), f"terminal_only: expected True or False, got {terminal_only!r}")
    side = 3 * delay // 4
    cells, states = side * side, 5 + 2 * (delay - 2) * side * side
    moves = 4 * side * (side - 1)  # from a cell to a neighbour
    _check_size(f"delay={delay}", states=states, actions=4, outcomes=4 + 16 + 2 * (delay - 2) * 4 * moves)
    centre = np.array([side // 2, side // 2])
    early_wrong, early_right, late_wrong, late_right = (0, 0, 50, 100) if terminal_only else (50, -50, 0, 150)

    first, second, wander = _Steps(), _Steps(), _Steps()
    first.add(state=0, action=np.arange(4), successor=1 + np.arange(4))
    for a in range(4):
        for b in range(4):
            row, column = np.clip(np.clip(centre + models.MOVES[a], 0, side - 1) + models.MOVES[b], 0, side - 1)
            right = (a, b) == (models.UP, models.RIGHT)
            landing = 5 + right * cells + row * side + column
            second.add(state=1 + a, action=b, successor=landing, reward=early_right if right else early_wrong)

    row, column = np.divmod(np.arange(cells), side)
    target, inside = [], []
    for down, aside in models.MOVES:
        inside.append((row + down >= 0) & (row + down < side) & (column + aside >= 0) & (column + aside < side))
        target.append((row + down) * side + column + aside)
    here, move = np.nonzero(np.stack(inside, axis=1))
    neighbours = np.stack(inside, axis=1).sum(axis=1)
    for time in range(2, delay):
        for pending in (0, 1):
            block = 5 + (2 * (time - 2) + pending) * cells
            last = time == delay - 1
            wander.add(
                state=(block + here)[:, None],
                action=np.arange(4),
                probability=(1.0 / neighbours[here])[:, None],
                successor=END if last else (block + 2 * cells + np.stack(target, axis=1)[here, move])[:, None],
                reward=(late_right if pending else late_wrong) if last else 0.0,
            )
    return _task("toy/trace-back", states, 4, 1.0, 0, delay, first, second, wander)


def grid_world(size: int = 10, discount: float = 0.99, horizon: int | None = None) -> ToyTask:
    """Grid World: from one corner of a size x size grid to the other, -1 a step; up, right, down, left.

    The greedy-step paper's offline task, whose text fixes the reward and nothing else; corner to corner and the
    discount are our choice. State `row * size + column`. With 2 (size - 1) = d steps the optimal return is
    -(1 - γ^d) / (1 - γ).

    Args:
        discount: γ below 1, because a policy may walk for ever.
        horizon: episodes are cut after so many steps; 10 size² by default.
    """
    size, discount = check_int("size", size, 2), _below_one(discount)
    _check_size(f"size={size}", states=size * size, actions=4, outcomes=4 * size * size)
    horizon = 10 * size * size if horizon is None else horizon
    return from_mdp("toy/grid-world", models.grid(size, size, discount=discount), 0, horizon)


def bomb(delay: int = 6, side: int = 31) -> ToyTask:
    """RUDDER's Task I: having been at the bomb pays 1000 at the end with probability 1/2; every step on the way costs.

    Reconstructed from memory of its description (its code is not published). A grid of 31 x 31, the bomb in the middle
    of the last row, the start `delay` cells above it, ⌊1.5 delay⌋ steps an episode. Step number t = 1, 2, ... pays
    -0.09 t h if it came closer to the bomb and +0.1 t h if it went away, with h the grid distance after the step; a
    move off the grid stays and pays nothing. These distractions make going to the bomb look bad. Discount 1.

    Actions are up, right, down, left. State after t steps in cell c: (2 t + visited) side² + c.

    Args:
        delay: distance from the start to the bomb, 1 .. side - 1.
        side: of the grid.
    """
    side = check_int("side", side, 2)
    delay = check_int("delay", delay, 1, side - 1)
    cells, length = side * side, delay + delay // 2
    # The last step has two outcomes, all others have one.
    _check_size(f"side={side}", states=2 * length * cells, actions=4, outcomes=8 * (length + 1) * cells)
    goal = np.array([side - 1, side // 2])
    row, column = np.divmod(np.arange(cells), side)
    distance = np.abs(row - goal[0]) + np.abs(column - goal[1])
    down, aside = models.MOVES.T[:, :, None]
    landing = np.clip(row + down, 0, side - 1) * side + np.clip(column + aside, 0, side - 1)  # [4, cells]
    closer = distance - distance[landing]
    pay = np.where(closer > 0, -0.09, np.where(closer < 0, 0.1, 0.0)) * distance[landing]

    steps, action = _Steps(), np.arange(4)[:, None]
    for time in range(length):
        for visited in (0, 1):
            state = (2 * time + visited) * cells + np.arange(cells)
            found = np.where(distance[landing] == 0, 1, visited)
            if time < length - 1:
                successor = (2 * (time + 1) + found) * cells + landing
                steps.add(state=state, action=action, successor=successor, reward=(time + 1) * pay)
            else:
                for prize in (0.0, 1000.0):
                    steps.add(state=state, action=action, probability=0.5, reward=(time + 1) * pay + prize * found)
    start = (goal[0] - delay) * side + goal[1]
    return _task("toy/bomb", 2 * length * cells, 4, 1.0, start, length, steps)


def watch_repair(length: int = 50) -> ToyTask:
    """Watch repair: whether to repair a watch now, when the profit is known only at delivery, `length` steps later.

    The task of the RUDDER demonstration (ml-jku/rudder-demonstration-code), from its rules. One of four brands comes in
    with equal probability. Action 0 in the first step repairs it and costs Normal([1, 4, 5, 24.5], [2, 2, 2, 1]). Each
    step, the first included, the delivery jams with probability 0.1 (cost 0.1) and, independently, has a flat tyre with
    probability 0.05 (cost 7). The last step pays, if repaired, the price [18, 28, 31, 59] less the cost of all events
    less Normal([0.5, 2.5, 4.5, 18], 1.5). After the first step only action 1, "wait", is available. Discount 1.

    At length 50 repairing earns -1.5, 3.5, 3.5, -1.5 on average, so the optimal return is 1.75. A state is (time,
    repaired, brand, jams, flat tyres): some 340 000 of them.

    Args:
        length: steps of an episode, at least 2.
    """
    length = check_int("length", length, 2)
    states = 8 * (length * (length + 1) * (2 * length + 1) // 6 - 1) + 4  # 8 t² of them before step t = 2, 3, ...
    _check_size(f"length={length}", states=states, actions=2, outcomes=4 * (states + 4))
    brands = np.arange(4)
    repair, repair_noise = np.array([1, 4, 5, 24.5]), np.array([2.0, 2, 2, 1])
    price, delivery = np.array([18.0, 28, 31, 59]), np.array([0.5, 2.5, 4.5, 18])
    block = np.concatenate([[0, 4], 4 + np.cumsum([8 * (t + 1) ** 2 for t in range(1, length)])])

    def number(time, repaired, brand, jams, tyres):
        """The state after `time` >= 1 steps; each kind of event can have happened at most once a step."""
        return block[time] + (((repaired * 4 + brand) * (time + 1)) + jams) * (time + 1) + tyres

    steps = _Steps()
    for jam, tyre in np.ndindex(2, 2):
        chance = (0.1 if jam else 0.9) * (0.05 if tyre else 0.95)
        for repaired in (0, 1):
            steps.add(
                state=brands,
                action=1 - repaired,
                probability=chance,
                successor=number(1, repaired, brands, jam, tyre),
                reward=-repair * repaired,
                noise=repair_noise * repaired,
            )
        for time in range(1, length):
            counts = np.arange(time + 1)
            repaired, brand, jams, tyres = np.meshgrid([0, 1], brands, counts, counts, indexing="ij", sparse=True)
            last = time == length - 1
            profit = price[brand] - delivery[brand] - 0.1 * (jams + jam) - 7.0 * (tyres + tyre)
            steps.add(
                state=number(time, repaired, brand, jams, tyres),
                action=1,
                probability=chance,
                successor=END if last else number(time + 1, repaired, brand, jams + jam, tyres + tyre),
                reward=repaired * profit if last else 0.0,
                noise=1.5 * repaired if last else 0.0,
            )
    start = np.zeros(block[-1])
    start[brands] = 0.25
    return _task("toy/watch-repair", block[-1], 2, 1.0, start, length, steps)


def n_horizon(length: int = 10, discount: float = 0.99, horizon: int | None = None) -> ToyTask:
    """The N-horizon chain: `length` steps forward (action 1; action 0 steps back), the last of which pays 1.

    After the greedy-step paper's Figure 1, reconstructed as in `models.n_horizon`. Optimal return: γ^(length - 1).

    Args:
        discount: γ below 1, because a policy may step back for ever.
        horizon: episodes are cut after so many steps; 10 length² by default.
    """
    length, discount = check_int("length", length), _below_one(discount)
    _check_size(f"length={length}", states=length, actions=2, outcomes=2 * length)
    horizon = 10 * length * length if horizon is None else horizon
    return from_mdp("toy/n-horizon", models.chain(length, discount), 0, horizon)


# -- building ---------------------------------------------------------------------------------------------------------


class _Steps:
    """Outcomes of many rows at once: every argument is an array, and all of one call are broadcast together."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, ...]] = []

    def add(
        self, *, state, action, probability: Any = 1.0, successor: Any = END, reward: Any = 0.0, noise: Any = 0.0
    ) -> None:
        columns = np.broadcast_arrays(state, action, probability, successor, reward, noise)
        self.parts.append(tuple(column.ravel() for column in columns))


def _task(name: str, S: int, A: int, discount: float, start: Any, horizon: int, *steps: _Steps) -> ToyTask:
    """The task of these outcomes, with the exact model of their expectations."""
    parts = [part for group in steps for part in group.parts]
    state, action, probability, successor, reward, noise = map(np.concatenate, zip(*parts, strict=True))
    row = state * A + action
    outcomes = _outcomes((S, A), row=row, probability=probability, successor=successor, reward=reward, noise=noise)
    rewards = np.bincount(row, probability * reward, minlength=S * A)
    rewards[np.bincount(row, minlength=S * A) == 0] = -np.inf
    ends = successor == END
    termination = np.bincount(row[ends], probability[ends], minlength=S * A).reshape(S, A)
    entries = (probability[~ends], (row[~ends], successor[~ends]))
    mdp = MDP(sp.csr_array(entries, shape=(S * A, S)), rewards.reshape(S, A), discount, termination=termination)
    return ToyTask(name, mdp, outcomes, _start(start, S), horizon)


def _outcomes(shape: tuple[int, int], *, row, probability, successor, reward, noise) -> Outcomes:
    order = np.argsort(row, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0] * shape[1]))]).astype(np.int64)
    total = np.cumsum(probability[order])
    before = np.concatenate([[0.0], total])[first[:-1]]
    cumulative = total - np.repeat(before, np.diff(first))
    cumulative[first[1:][np.diff(first) > 0] - 1] = 1.0
    return Outcomes(
        first,
        cumulative,
        successor[order].astype(np.int32),
        reward[order].astype(np.float64),
        np.broadcast_to(noise, row.shape)[order].astype(np.float64),
    )


def _start(start: Any, S: int) -> np.ndarray:
    if np.ndim(start) == 0:
        _check(0 <= start < S, f"start: expected a state in 0..{S - 1}, got {start}")
        return np.eye(1, S, int(start))[0]
    start = np.asarray(start, np.float64)
    _check(
        start.shape == (S,) and start.min() >= 0 and abs(start.sum() - 1) <= 1e-9,
        f"start: expected a distribution over {S} states",
    )
    return start


def _check_size(options: str, *, states: int, actions: int, outcomes: int) -> None:
    """MemoryError before a task is made that has too many outcomes."""
    check_memory(options, BYTES_PER_OUTCOME * outcomes + BYTES_PER_PAIR * states * actions)
    check_int("states", states, 1, INT32_MAX)


def _below_one(discount: Any) -> float:
    value = check_float("discount", discount, 0, 1, above=True)
    _check(value < 1, f"discount: expected a number below 1, got {discount!r}")
    return value


def _check(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)

"""The toy tasks: small finite tasks with delayed rewards, whose optimal return is known exactly.

Time and pending rewards are part of the state wherever they matter: every task is Markov.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep import models
from greedystep.checks import check_float, check_int
from greedystep.envs.toy_task import END, OutcomeList, ToyTask, build_task, check_size, from_mdp, require


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
    require(best > other, f"best: expected more than other = {other}, got {best}")
    check_size(f"delay={delay}", states=2 * delay - 1, actions=2, outcomes=4 * delay - 2)
    time, chosen, action = np.meshgrid(np.arange(1, delay), [0, 1], [0, 1], indexing="ij")
    state, last = 1 + 2 * (time - 1) + chosen, time == delay - 1
    outcomes = OutcomeList()
    outcomes.add(state=0, action=[0, 1], successor=[1, 2])
    outcomes.add(
        state=state,
        action=action,
        successor=np.where(last, END, state + 2),
        reward=np.where(last, np.where(chosen == 0, best, other), 0.0),
        noise=noise,
    )
    return build_task("toy/choice", 2 * delay - 1, 2, 1.0, 0, delay, outcomes)


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
    require(isinstance(terminal_only, bool | np.bool_), f"terminal_only: expected True or False, got {terminal_only!r}")
    side = 3 * delay // 4
    cells, states = side * side, 5 + 2 * (delay - 2) * side * side
    moves = 4 * side * (side - 1)  # from a cell to a neighbour
    check_size(f"delay={delay}", states=states, actions=4, outcomes=4 + 16 + 2 * (delay - 2) * 4 * moves)
    centre = np.array([side // 2, side // 2])
    early_wrong, early_right, late_wrong, late_right = (0, 0, 50, 100) if terminal_only else (50, -50, 0, 150)

    outcomes = OutcomeList()
    outcomes.add(state=0, action=np.arange(4), successor=1 + np.arange(4))
    for a in range(4):
        for b in range(4):
            row, column = np.clip(np.clip(centre + models.MOVES[a], 0, side - 1) + models.MOVES[b], 0, side - 1)
            right = (a, b) == (models.UP, models.RIGHT)
            landing = 5 + right * cells + row * side + column
            outcomes.add(state=1 + a, action=b, successor=landing, reward=early_right if right else early_wrong)

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
            outcomes.add(
                state=(block + here)[:, None],
                action=np.arange(4),
                probability=(1.0 / neighbours[here])[:, None],
                successor=END if last else (block + 2 * cells + np.stack(target, axis=1)[here, move])[:, None],
                reward=(late_right if pending else late_wrong) if last else 0.0,
            )
    return build_task("toy/trace-back", states, 4, 1.0, 0, delay, outcomes)


def grid_world(size: int = 10, discount: float = 0.99, horizon: int | None = None) -> ToyTask:
    """Grid World: from one corner of a size x size grid to the other, -1 per step; up, right, down, left.

    The greedy-step paper's offline task, whose text fixes the reward and nothing else; corner to corner and the
    discount are our choice. State `row * size + column`. With 2 (size - 1) = d steps the optimal return is
    -(1 - γ^d) / (1 - γ).

    Args:
        discount: γ below 1, since a policy may never reach the goal.
        horizon: episodes are truncated after this number of steps; 10 size² by default.
    """
    size, discount = check_int("size", size, 2), _below_one(discount)
    check_size(f"size={size}", states=size * size, actions=4, outcomes=4 * size * size)
    horizon = 10 * size * size if horizon is None else horizon
    return from_mdp("toy/grid-world", models.grid(size, size, discount=discount), 0, horizon)


def bomb(delay: int = 6, side: int = 31) -> ToyTask:
    """RUDDER's Task I: having been at the bomb pays 1000 at the end with probability 1/2; every step on the way costs.

    Reconstructed from memory of its description (its code is not published). A grid of 31 x 31, the bomb in the middle
    of the last row, the start `delay` cells above it, ⌊1.5 delay⌋ steps per episode. Step number t = 1, 2, ... pays
    -0.09 t h if it came closer to the bomb and +0.1 t h if it went away, with h the grid distance after the step; a
    move off the grid stays and pays nothing. These distractions make going to the bomb look bad. Discount 1.

    Actions are up, right, down, left. State after t steps in cell c: (2 t + visited) side² + c.

    Args:
        delay: distance from the start to the bomb, 1 .. side - 1.
        side: cells per side of the grid.
    """
    side = check_int("side", side, 2)
    delay = check_int("delay", delay, 1, side - 1)
    cells, length = side * side, delay + delay // 2
    # The last step has two outcomes, all others have one.
    check_size(f"side={side}", states=2 * length * cells, actions=4, outcomes=8 * (length + 1) * cells)
    goal = np.array([side - 1, side // 2])
    row, column = np.divmod(np.arange(cells), side)
    distance = np.abs(row - goal[0]) + np.abs(column - goal[1])
    down, aside = models.MOVES.T[:, :, None]
    landing = np.clip(row + down, 0, side - 1) * side + np.clip(column + aside, 0, side - 1)  # [4, cells]
    closer = distance - distance[landing]
    pay = np.where(closer > 0, -0.09, np.where(closer < 0, 0.1, 0.0)) * distance[landing]

    outcomes, action = OutcomeList(), np.arange(4)[:, None]
    for time in range(length):
        for visited in (0, 1):
            state = (2 * time + visited) * cells + np.arange(cells)
            found = np.where(distance[landing] == 0, 1, visited)
            if time < length - 1:
                successor = (2 * (time + 1) + found) * cells + landing
                outcomes.add(state=state, action=action, successor=successor, reward=(time + 1) * pay)
            else:
                for prize in (0.0, 1000.0):
                    outcomes.add(state=state, action=action, probability=0.5, reward=(time + 1) * pay + prize * found)
    start = (goal[0] - delay) * side + goal[1]
    return build_task("toy/bomb", 2 * length * cells, 4, 1.0, start, length, outcomes)


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
        length: steps per episode, at least 2.
    """
    length = check_int("length", length, 2)
    states = 8 * (length * (length + 1) * (2 * length + 1) // 6 - 1) + 4  # 8 t² of them before step t = 2, 3, ...
    check_size(f"length={length}", states=states, actions=2, outcomes=4 * (states + 4))
    brands = np.arange(4)
    repair, repair_noise = np.array([1, 4, 5, 24.5]), np.array([2.0, 2, 2, 1])
    price, delivery = np.array([18.0, 28, 31, 59]), np.array([0.5, 2.5, 4.5, 18])
    block = np.concatenate([[0, 4], 4 + np.cumsum([8 * (t + 1) ** 2 for t in range(1, length)])])

    def number(time, repaired, brand, jams, tyres):
        """The state after `time` >= 1 steps; each kind of event can have happened at most once per step."""
        return block[time] + (((repaired * 4 + brand) * (time + 1)) + jams) * (time + 1) + tyres

    outcomes = OutcomeList()
    for jam, tyre in np.ndindex(2, 2):
        chance = (0.1 if jam else 0.9) * (0.05 if tyre else 0.95)
        for repaired in (0, 1):
            outcomes.add(
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
            outcomes.add(
                state=number(time, repaired, brand, jams, tyres),
                action=1,
                probability=chance,
                successor=END if last else number(time + 1, repaired, brand, jams + jam, tyres + tyre),
                reward=repaired * profit if last else 0.0,
                noise=1.5 * repaired if last else 0.0,
            )
    start = np.zeros(block[-1])
    start[brands] = 0.25
    return build_task("toy/watch-repair", block[-1], 2, 1.0, start, length, outcomes)


def n_horizon(length: int = 10, discount: float = 0.99, horizon: int | None = None) -> ToyTask:
    """The N-horizon chain: `length` steps forward (action 1; action 0 steps back), the last of which pays 1.

    After the greedy-step paper's Figure 1, reconstructed as in `models.n_horizon`. Optimal return: γ^(length - 1).

    Args:
        discount: γ below 1, since a policy may never reach the end.
        horizon: episodes are truncated after this number of steps; 10 length² by default.
    """
    length, discount = check_int("length", length), _below_one(discount)
    check_size(f"length={length}", states=length, actions=2, outcomes=2 * length)
    horizon = 10 * length * length if horizon is None else horizon
    return from_mdp("toy/n-horizon", models.chain(length, discount), 0, horizon)


def _below_one(discount: Any) -> float:
    value = check_float("discount", discount, 0, 1, above=True)
    require(value < 1, f"discount: expected a number below 1, got {discount!r}")
    return value

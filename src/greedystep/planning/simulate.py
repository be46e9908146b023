"""Simulate a policy in a finite MDP."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from greedystep.checks import check_int, check_seed
from greedystep.mdp import MDP, Policy
from greedystep.trajectory import Trajectory


def simulate(
    mdp: MDP, policy: Policy, *, start: int = 0, episodes: int = 1, max_steps: int = 1000, seed: int = 0
) -> list[Trajectory]:
    """Play episodes of a policy; the trajectories hold states, actions, rewards r(s, a) and behaviour probabilities.

    An episode begins in `start` and ends where the model terminates, or is truncated after `max_steps`. After a
    terminated step the last observation repeats the state before, since the end of an episode is not a state.

    Args:
        policy: int [S], or float [S, A] with rows that sum to one.
    """
    check_int("start", start, 0, mdp.num_states - 1)
    check_int("episodes", episodes)
    check_int("max_steps", max_steps)
    random, chosen = np.random.default_rng(check_seed(seed)), mdp.check_policy(policy)
    probabilities = chosen if chosen.ndim == 2 else np.eye(mdp.num_actions)[chosen]
    rows = sp.csr_array(mdp.transitions)
    return [_episode(mdp, rows, probabilities, start, max_steps, random) for _ in range(episodes)]


def _episode(
    mdp: MDP, rows: sp.csr_array, probabilities: np.ndarray, state: int, max_steps: int, random: np.random.Generator
) -> Trajectory:
    states, actions, ended = [state], [], False
    while len(actions) < max_steps and not ended:
        action = _draw(random, probabilities[state])
        row = state * mdp.num_actions + action
        low, high = rows.indptr[row], rows.indptr[row + 1]
        end = 0.0 if mdp.termination is None else mdp.termination[state, action]
        which = _draw(random, np.append(rows.data[low:high], end))
        ended = which == high - low
        actions.append(action)
        state = state if ended else int(rows.indices[low + which])
        states.append(state)
    taken, T = (np.array(states[:-1]), np.array(actions)), len(actions)
    last = np.arange(T) == T - 1
    ends = last & ended, last & (not ended)
    return Trajectory(np.array(states), taken[1], mdp.rewards[taken], *ends, probabilities[taken])


def _draw(random: np.random.Generator, weights: np.ndarray) -> int:
    total = np.cumsum(weights)
    return int(min(np.searchsorted(total, random.random() * total[-1], side="right"), np.flatnonzero(weights)[-1]))

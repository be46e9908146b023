"""Planning on the empirical model: value iteration that works only where something has changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from greedystep.tabular.counts import NONE, backup
from greedystep.tabular.updates import best

PRECISION = 1e-10
"""A value is passed on when it has changed by more than this, or by this share of its size."""
PATIENCE = 10_000
"""With discount 1 values may grow for ever: planning gives up after this many backups of every edge."""


class Agenda(NamedTuple):
    """The states whose new value their predecessors have not heard of yet, first come first served."""

    told: np.ndarray
    """float64 [S]: the value that the predecessors have been told."""
    waiting: np.ndarray
    """bool [S]: whether the state is in the queue."""
    queue: np.ndarray
    """int32 [S]: a ring."""
    ends: np.ndarray
    """int64 [2]: where the ring's first entry is, and how many there are."""


@njit(cache=True)
def make_agenda(q):
    """An empty agenda: the table is taken to be in order."""
    S = len(q)
    told = np.empty(S)
    for s in range(S):
        told[s] = best(q, s)
    return Agenda(told, np.zeros(S, np.bool_), np.empty(S, np.int32), np.zeros(2, np.int64))


@njit(cache=True)
def back_up(q, counts, agenda, row, gamma):
    """q(s, a) <- its backup; the state joins the queue if its value changes."""
    A = q.shape[1]
    s = row // A
    q[s, row % A] = backup(q, counts, row, gamma)
    if not agenda.waiting[s] and _differ(best(q, s), agenda.told[s]):
        agenda.waiting[s] = True
        agenda.queue[(agenda.ends[0] + agenda.ends[1]) % len(agenda.queue)] = s
        agenda.ends[1] += 1


@njit(cache=True)
def _differ(one, other):
    """Whether a change is worth telling; -inf, a state without actions, differs from every number."""
    if one == other:
        return False
    return np.isinf(one) or np.isinf(other) or abs(one - other) > PRECISION * max(1.0, abs(one))


@njit(cache=True)
def plan(q, counts, agenda, gamma):
    """Work off the queue; False if it does not end.

    Afterwards every change is known to the predecessors. With γ < 1 the entries of the pairs that were seen are then
    within PRECISION max(1, |v|) γ / (1 - γ) of q* of the model in which all other entries stay as they are.
    """
    patience = PATIENCE * counts.size[0] if gamma == 1.0 else np.iinfo(np.int64).max
    while agenda.ends[1] > 0:
        s = agenda.queue[agenda.ends[0]]
        agenda.ends[0] = (agenda.ends[0] + 1) % len(agenda.queue)
        agenda.ends[1] -= 1
        agenda.waiting[s] = False
        agenda.told[s] = best(q, s)
        edge = counts.into[s]
        while edge != NONE:
            back_up(q, counts, agenda, counts.row[edge], gamma)
            edge = counts.next_into[edge]
            patience -= 1
        if patience < 0:
            return False
    return True

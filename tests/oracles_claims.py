"""Slow, obvious references for what claims are judged by."""

import numpy as np
import oracles


def variance(mdp, behaviour, ratio, start, state, action, steps):
    """Of the N-step return with ratios from (state, action) on: over all trajectories, with their probabilities."""
    outcomes = list(_returns(mdp, oracles.dense(mdp), behaviour, ratio, start, state, action, steps))
    assert abs(sum(p for p, _ in outcomes) - 1) < 1e-12
    mean = sum(p * value for p, value in outcomes)
    return sum(p * (value - mean) ** 2 for p, value in outcomes)


def _returns(mdp, transitions, behaviour, ratio, start, state, action, steps):
    """Probability and return of every trajectory."""
    if steps == 0:
        yield 1.0, start[state, action]
        return
    for later in range(mdp.num_states):
        for then in range(mdp.num_actions):
            p = transitions[state, action, later] * behaviour[later, then]
            for q, value in _returns(mdp, transitions, behaviour, ratio, start, later, then, steps - 1) if p else ():
                yield p * q, mdp.rewards[state, action] + mdp.discount * ratio[later, then] * value


def trace_operator(mdp, target, behaviour, traces):
    """The exact operator of a trace method as an affine map of q [S*A]: matrix and offset.

        q + (I - γ P_c)^-1 (B^π q - q),    P_c[(s,a),(s',a')] = p(s' | s, a) μ(a' | s') c(s', a')

    (Munos et al. 2016); target, behaviour and traces are [S, A].
    """
    pairs = mdp.num_states * mdp.num_actions
    step = oracles.dense(mdp).reshape(pairs, mdp.num_states)

    def chain(weights):
        return (step[:, :, None] * weights).reshape(pairs, pairs)

    identity = np.eye(pairs)
    inverse = np.linalg.inv(identity - mdp.discount * chain(behaviour * traces))
    matrix = identity + inverse @ (mdp.discount * chain(target) - identity)
    return matrix, inverse @ mdp.rewards.ravel()

"""From stored rows to targets: what the target networks say of states, and the return estimators on top.

Everywhere `q` is [M, B, A]: networks, states, actions. Networks are judged in `config.groups` groups (one, but for
greedy-step-twin); answers are [G, B].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from greedystep import returns
from greedystep.deep.config import DQNConfig
from greedystep.replay import Places, Replay, Rows, Store

AskNetworks = Callable[[jax.Array], tuple[jax.Array, jax.Array | None]]
"""observations [B, ...] -> q of the target networks, and q of the online networks where they choose (`double`)."""


class Numbers(NamedTuple):
    """The settings that may differ from lane to lane; float32."""

    learning_rate: jax.Array
    epsilon_end: jax.Array
    lambda_: jax.Array
    gate: jax.Array


class Judgement(NamedTuple):
    """What the networks say of states and of the actions taken there; π is ε-greedy with ε = target_epsilon."""

    value: jax.Array
    """[G, B]: E_π Q(s, ·), or max_a Q(s, a) for the greedy policy."""
    taken: jax.Array
    """[G, B]: Q(s, a)."""
    probability: jax.Array
    """[G, B]: π(a|s)."""
    greedy: jax.Array
    """[G, B] bool: a attains the maximum; ties count."""


def judge(config: DQNConfig, q: jax.Array, chooser: jax.Array | None, action: jax.Array) -> Judgement:
    """Minimum over the networks of a group, then the policy over actions (Maxmin DQN, Lan et al. 2020).

    With a `chooser` (the online networks of double Q-learning) the greedy action is the chooser's.
    """
    groups, epsilon = config.groups, config.target_epsilon or 0.0
    q = jnp.stack([q[g::groups].min(axis=0) for g in range(groups)])
    own = q if chooser is None else jnp.stack([chooser[g::groups].min(axis=0) for g in range(groups)])
    best = own.argmax(axis=-1)
    value = _pick(q, best)
    if epsilon:
        value = (1 - epsilon) * value + epsilon * q.mean(axis=-1)
    action = jnp.broadcast_to(action, best.shape)
    probability = epsilon / q.shape[-1] + (1 - epsilon) * (action == best)
    return Judgement(value, _pick(q, action), probability, _pick(own, action) >= own.max(axis=-1))


def _pick(q: jax.Array, action: jax.Array) -> jax.Array:
    """q[..., a], [..., A] and [...] -> [...]."""
    return jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def boundaries(config: DQNConfig, rows: Rows, next_taken: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(discounts, cuts) of steps, from their rows and from whether the rows after them have an action.

    Discounts are γ(1 - terminated), and 0 in rows without a step. A cut stands where nothing follows that belongs to
    the episode: it was truncated, or is still being written.
    """
    ends = rows.terminated if config.time_limits == "bootstrap" else rows.terminated | rows.truncated
    return jnp.where(ends | ~rows.taken, 0, config.discount).astype(jnp.float32), rows.truncated | ~next_taken


# -- one state to bootstrap from ---------------------------------------------------------------------------------------


def direct(
    config: DQNConfig, store: Store, replay: Replay, places: Places, ask: AskNetworks
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Targets [1, B] of one-step, n-step or sarsa for these steps, the number of rewards taken, and the actions, [B].

    Fewer than n where the episode ends sooner; then discounted, and bootstrapped, for just those.
    """
    n = min(config.n or 1, store.height)  # no episode in the replay is longer
    rows = store.read(replay, store.stretch(places, n))
    steps, next_taken = jax.tree.map(lambda x: x[:-1], rows), rows.taken[1:]
    discounts, cuts = boundaries(config, steps, next_taken)
    goes_on = (discounts != 0) & ~cuts
    taken = 1 + jnp.cumprod(goes_on[: n - 1], axis=0).sum(axis=0, dtype=jnp.int32)
    last = store.ahead(places, taken)
    at_last = jax.tree.map(lambda x: jnp.take_along_axis(x, taken[None], axis=0)[0], rows)
    judged = judge(config, *ask(store.observe(replay, last)), at_last.action)
    value = judged.value[0]
    if config.returns == "sarsa":
        value = jnp.where(at_last.taken, judged.taken[0], value)
    value = jnp.broadcast_to(value, discounts.shape)  # only read where the return stops
    return returns.n_step(steps.reward, discounts, value, n, cuts=cuts)[:1], taken, steps.action[0]


# -- whole episodes ----------------------------------------------------------------------------------------------------


def along(config: DQNConfig, numbers: Numbers, rows: Rows, judged: Judgement) -> tuple[jax.Array, jax.Array]:
    """Targets [G, T, ...] of all steps of rows in the order of time [T, ...], and the chosen steps [T, ...].

    The judgements [G, T, ...] are of the same rows: those of row t + 1 belong to step t. Steps are 0 for returns that
    mix all lengths. In rows without a step, targets mean nothing.
    """
    next_taken = jnp.roll(rows.taken, -1, axis=0)
    discounts, cuts = boundaries(config, rows, next_taken)
    rewards = jnp.where(rows.taken, rows.reward, 0)
    value, taken, probability, greedy = (jnp.roll(x, -1, axis=1) for x in judged)
    stretch = (rewards, discounts)
    if config.returns == "greedy-step-twin":
        found = [returns.greedy_step_twin(*stretch, value[g], value[1 - g], cuts=cuts) for g in range(2)]
        return jnp.stack([one.returns for one in found]), found[0].steps
    v, q, pi, is_greedy = value[0], taken[0], probability[0], greedy[0]
    if config.returns == "greedy-step":
        found = returns.greedy_step(*stretch, v, cuts=cuts, horizon=config.horizon)
        return found.returns[None], found.steps
    match config.returns:
        case "soft-greedy-step":
            y = returns.soft_greedy_step(*stretch, v, numbers.gate, cuts=cuts)
        case "lambda":
            y = returns.lambda_return(*stretch, v, numbers.lambda_, cuts=cuts)
        case "watkins":
            y = returns.watkins(*stretch, v, is_greedy, numbers.lambda_, cuts=cuts)
        case "tree-backup":
            y = returns.tree_backup(*stretch, v, q, pi, numbers.lambda_, cuts=cuts)
        case "retrace":
            mu = jnp.roll(rows.behaviour_prob, -1, axis=0)
            y = returns.retrace(*stretch, v, q, pi, mu, numbers.lambda_, cuts=cuts)
        case "monte-carlo":
            y = returns.monte_carlo(*stretch, v, cuts=cuts)
        case other:
            raise ValueError(f"returns: {other!r} is not computed along whole episodes")
    return y[None], jnp.zeros(rewards.shape, jnp.int32)

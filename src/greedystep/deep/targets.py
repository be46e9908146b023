"""Compute learning targets from stored steps: bootstrap values from the target networks, then a return estimator.

Everywhere `q` is [M, B, A]: networks, states, actions. The networks form `config.groups` groups (two for
greedy-step-twin, the heads of "auto", otherwise one), each with targets of its own: results are [G, B].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from greedystep import returns
from greedystep.deep.config import AUTO_OUTPUTS, AUTO_RATES, DQNConfig
from greedystep.deep.heads import head_q
from greedystep.replay import ReplayBuffer, ReplayState, RowIndex, StepRows


class BootstrapValues(NamedTuple):
    """What networks say of some states, from which their values follow."""

    q: jax.Array
    """[M, B, A]: q of the target networks."""
    selection_q: jax.Array | None = None
    """[M, B, A]: q of the online networks, which choose the greedy action in double Q-learning; None: `q` does."""
    support: jax.Array | None = None
    """bool [B, A]: the actions that count, with conservatism "bcq" those in the data; None: all."""


BootstrapQ = Callable[[jax.Array], BootstrapValues]
"""observations [B, ...] -> what the networks say of them."""


class LaneHyperparams(NamedTuple):
    """The settings that may differ between lanes of one compiled program; float32 scalars, or [L] for all lanes."""

    learning_rate: jax.Array
    epsilon_end: jax.Array
    lambda_: jax.Array
    gate: jax.Array
    n: jax.Array
    """At most the config's n, which is the length of the windows that are read."""
    ensemble: jax.Array
    """At most the config's number of networks; those from this number on are left out (`networks.leave_out`)."""


class TargetValues(NamedTuple):
    """Values of states and of the actions taken there, under the target policy π: ε-greedy, ε = target_epsilon."""

    value: jax.Array
    """[G, B]: E_π Q(s, ·), which is max_a Q(s, a) for the greedy policy."""
    action_value: jax.Array
    """[G, B]: Q(s, a) of the action taken."""
    action_prob: jax.Array
    """[G, B]: π(a|s) of the action taken."""
    is_greedy: jax.Array
    """[G, B] bool: whether the action taken attains the maximum; ties count."""


def target_values(config: DQNConfig, values: BootstrapValues, action: jax.Array) -> TargetValues:
    """Take the values of each group of networks, then the policy over actions (Maxmin DQN, Lan et al. 2020).

    With `support` both parts of the ε-greedy policy, the greedy and the uniform one, are over the actions in it alone
    (Batch-Constrained Q-learning, Fujimoto et al. 2019).
    """
    (q, selection_q, support), epsilon = values, config.target_epsilon or 0.0
    q = group_q(config, q)
    selection = q if selection_q is None else group_q(config, selection_q)
    selection = within(support, selection)
    best = selection.argmax(axis=-1)
    value = _pick(q, best)
    if epsilon:
        value = (1 - epsilon) * value + epsilon * q.mean(axis=-1, where=support)
    action = jnp.broadcast_to(action, best.shape)
    share = epsilon / q.shape[-1] if support is None else epsilon * _pick(support, action[0]) / support.sum(axis=-1)
    probability = share + (1 - epsilon) * (action == best)
    return TargetValues(value, _pick(q, action), probability, _pick(selection, action) >= selection.max(axis=-1))


def group_q(config: DQNConfig, q: jax.Array) -> jax.Array:
    """Return the Q-values [G, B, A] of each group of networks: their minimum, or those of the heads of "auto"."""
    if config.returns == "auto":
        return head_q(q)
    return jnp.stack([q[g :: config.groups].min(axis=0) for g in range(config.groups)])


def within(support: jax.Array | None, q: jax.Array) -> jax.Array:
    """Return q [..., A] with -inf for the actions outside the support."""
    return q if support is None else jnp.where(support, q, -jnp.inf)


def at_rows(support: jax.Array | None, index: RowIndex) -> jax.Array | None:
    """Return the support of these rows, bool [B, A], of that of all rows of the buffer, [N, R, A]."""
    return None if support is None else support[index.column, index.row]


def with_support(values: BootstrapValues, support: jax.Array | None) -> BootstrapValues:
    """Return the values with a support that is known already, if it is."""
    return values if support is None else values._replace(support=support)


def _pick(q: jax.Array, action: jax.Array) -> jax.Array:
    """Return q[..., a] for the actions a: [..., A] and [...] -> [...]."""
    return jnp.take_along_axis(q, action[..., None], axis=-1)[..., 0]


def discounts_and_cuts(config: DQNConfig, rows: StepRows, next_is_step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the discount and whether there is a cut, for each row; `next_is_step`: whether the next row holds a step.

    Discounts are γ(1 - terminated), and 0 in rows without a step. A cut stands where an episode stops without having
    terminated: it was truncated, or is still being written.
    """
    ends = rows.terminated if config.time_limits == "bootstrap" else rows.terminated | rows.truncated
    return jnp.where(ends | ~rows.is_step, 0, config.discount).astype(jnp.float32), rows.truncated | ~next_is_step


def n_step_targets(
    config: DQNConfig,
    hyperparams: LaneHyperparams,
    buffer: ReplayBuffer,
    replay: ReplayState,
    index: RowIndex,
    bootstrap_q: BootstrapQ,
    support: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute one-step, n-step or sarsa targets [1, B] of the steps at `index`; return them, their n and the actions.

    An episode that ends within n steps gives fewer rewards, and is discounted and bootstrapped for just those: with
    m ≤ n steps the target is Σₖ γᵏ rₖ + γᵐ v, k < m, and without v where the episode terminated. It is written out,
    since all steps have the same discount γ and of each window only the first return is needed: one kernel on a GPU,
    where the recursion of `returns.n_step` would be a loop.

    Args:
        support: bool [N, R, A], the actions that count in each row of the buffer; None: what `bootstrap_q` says.
    """
    longest = min(config.n or 1, buffer.rows_per_column)  # no episode in the buffer is longer
    rows = buffer.read(replay, buffer.window(index, longest))
    steps, next_is_step = jax.tree.map(lambda x: x[:-1], rows), rows.is_step[1:]
    discounts, cuts = discounts_and_cuts(config, steps, next_is_step)
    number = jnp.arange(longest)[:, None]
    goes_on = (discounts != 0) & ~cuts & (number + 1 < hyperparams.n)
    length = 1 + jnp.cumprod(goes_on[:-1], axis=0).sum(axis=0, dtype=jnp.int32)
    last = jax.tree.map(lambda x: jnp.take_along_axis(x, length[None], axis=0)[0], rows)
    ahead = buffer.ahead(index, length)
    bootstrap = with_support(bootstrap_q(buffer.observations(replay, ahead)), at_rows(support, ahead))
    values = target_values(config, bootstrap, last.action)
    value = values.value[0]
    if config.returns == "sarsa":
        value = jnp.where(last.is_step, values.action_value[0], value)
    powers = jnp.float32(config.discount) ** jnp.arange(longest + 1, dtype=jnp.float32)
    rewards = jnp.where(number < length, powers[:-1, None] * steps.reward, 0).sum(axis=0)
    bootstraps = jnp.take_along_axis(discounts, length[None] - 1, axis=0)[0] != 0
    targets = rewards + jnp.where(bootstraps, powers[length] * value, 0)
    return targets[None], length, steps.action[0]


def sequence_targets(
    config: DQNConfig, hyperparams: LaneHyperparams, rows: StepRows, values: TargetValues
) -> tuple[jax.Array, jax.Array]:
    """Compute the targets [G, T, ...] of the steps in consecutive rows [T, ...], and the n that was chosen [T, ...].

    `values` [G, T, ...] are those of the same rows; step t bootstraps from the value in row t + 1. n is 0 for returns
    that mix all lengths. The targets of rows without a step are undefined.
    """
    next_is_step = jnp.roll(rows.is_step, -1, axis=0)
    discounts, cuts = discounts_and_cuts(config, rows, next_is_step)
    rewards = jnp.where(rows.is_step, rows.reward, 0)
    value, action_value, action_prob, is_greedy = (jnp.roll(x, -1, axis=1) for x in values)
    steps = (rewards, discounts)
    if config.returns == "greedy-step-twin":
        twins = [returns.greedy_step_twin(*steps, value[g], value[1 - g], cuts=cuts) for g in range(2)]
        return jnp.stack([twin.returns for twin in twins]), twins[0].steps
    if config.returns == "auto":
        traces = jnp.array([output.lambda_ for output in AUTO_OUTPUTS] * len(AUTO_RATES))
        targets = jax.vmap(lambda v, trace: returns.lambda_return(*steps, v, trace, cuts=cuts))(value, traces)
        return targets, jnp.zeros(rewards.shape, jnp.int32)
    v, q, pi, is_greedy = value[0], action_value[0], action_prob[0], is_greedy[0]
    if config.returns == "greedy-step":
        greedy = returns.greedy_step(*steps, v, cuts=cuts, horizon=config.horizon)
        return greedy.returns[None], greedy.steps
    match config.returns:
        case "soft-greedy-step":
            targets = returns.soft_greedy_step(*steps, v, hyperparams.gate, cuts=cuts)
        case "lambda":
            targets = returns.lambda_return(*steps, v, hyperparams.lambda_, cuts=cuts)
        case "watkins":
            targets = returns.watkins(*steps, v, is_greedy, hyperparams.lambda_, cuts=cuts)
        case "tree-backup":
            targets = returns.tree_backup(*steps, v, q, pi, hyperparams.lambda_, cuts=cuts)
        case "retrace":
            mu = jnp.roll(rows.behaviour_prob, -1, axis=0)
            targets = returns.retrace(*steps, v, q, pi, mu, hyperparams.lambda_, cuts=cuts)
        case "monte-carlo":
            targets = returns.monte_carlo(*steps, v, cuts=cuts)
        case other:
            raise ValueError(f"returns: {other!r} is not computed along whole episodes")
    return targets[None], jnp.zeros(rewards.shape, jnp.int32)

"""The DQN learner: Q-values, minibatches with targets, and gradient steps, as pure functions of arrays.

A `Learner` holds what is fixed in a training (config, shapes, optimiser); `LearnerState` is what it learns.

With conservatism "bcq" one more network of the same shape stands behind the M that estimate Q. Its outputs are the
logits of the behaviour policy, and it learns by cross-entropy which action the data have in a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from greedystep.deep import conv_gradient, conv_kernels, target_pool
from greedystep.deep.config import AUTO_RATES, DQNConfig
from greedystep.deep.conv_kernels import ConvShape
from greedystep.deep.heads import head_q, split_policy
from greedystep.deep.networks import (
    MLP,
    ConvNet,
    MakeNetwork,
    batch_q,
    check_network,
    default_network,
    ensemble_q,
    leave_out,
    make_ensemble,
)
from greedystep.deep.optimisers import make_optimiser
from greedystep.deep.target_pool import Batch, TargetPool
from greedystep.deep.targets import BootstrapValues, LaneHyperparams, n_step_targets, within
from greedystep.envs.core import ObservationSpec
from greedystep.replay import ReplayBuffer, ReplayState, integers_below, random_bits
from greedystep.trajectory import ACTION_BITS

CLONING_RATE = 10.0
"""Learning rate of the behaviour network, as a multiple of `learning_rate`: its targets are actions, which do
not move as values do, and a few thousand updates have to be enough for the rare states of a log too."""


class LearnerState(NamedTuple):
    """Parameters and optimiser state of all networks; every array has a leading axis [M], with bcq [M + 1]."""

    params: Any
    """Arrays of the online networks."""
    target_params: Any
    """Arrays of the target networks."""
    opt_state: Any
    """State of the optimiser of each network."""


class UpdateDraws(NamedTuple):
    """Random numbers of one update."""

    bits: jax.Array
    """uint32 [2, B]: the `replay.random_bits` that choose the samples."""
    network: jax.Array
    """int32: the network that learns, where one does (`ensemble_update`)."""


class UpdateInfo(NamedTuple):
    """Metrics of one update."""

    loss: jax.Array
    mean_q: jax.Array
    """Mean of Q(s, a) over the batch and the updated networks, before the update."""


@dataclass(frozen=True, eq=False)
class Learner:
    """A DQN learner for one kind of observation.

    Args:
        network: makes the networks; None: MinAtar's network for images, an MLP for everything else.
    """

    config: DQNConfig
    observation: ObservationSpec
    num_actions: int
    network: MakeNetwork | None = None

    def __post_init__(self) -> None:
        if self.num_actions > 2**ACTION_BITS:
            raise ValueError(
                f"env: expected at most {2**ACTION_BITS} actions, which a replay buffer holds, got {self.num_actions}"
            )

    @property
    def _make_network(self) -> MakeNetwork:
        config = self.config
        return self.network or default_network(config.hidden, config.init_scale, config.observations == "standardised")

    @property
    def _num_outputs(self) -> int:
        """Outputs of a network: one per action, for "auto" one per action and `AutoOutput`."""
        return self.num_actions * self.config.outputs

    @cached_property
    def _static(self) -> Any:
        """The parts of a network that are not arrays; ValueError if the network does not fit the environment."""
        network = eqx.filter_eval_shape(
            lambda key: self._make_network(key, self.observation, self._num_outputs), jax.random.key(0)
        )
        check_network(network, self.observation, self._num_outputs)
        return eqx.filter(network, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))

    def networks_of(self, params: Any) -> Any:
        """Return the network or networks that have these arrays."""
        return eqx.combine(params, self._static)

    @property
    def is_plain_mlp(self) -> bool:
        """Whether the agent acts on the minimum of MLPs: no other networks, heads or actions that are left out."""
        return type(self._static) is MLP and self.config.returns != "auto" and self.config.bcq_threshold is None

    @cached_property
    def kernel_shape(self) -> ConvShape | None:
        """The sizes of the networks if the kernels of `conv_kernels` train them, otherwise None.

        They are made for the small batches of the preset "paper" on a GPU. Larger ones keep a GPU busy as it is. A
        network of the user's own may have other sizes than the config says, whatever its type.
        """
        config = self.config
        is_usual = (
            self.network is None
            and type(self._static) is ConvNet
            and self.observation.dtype == np.bool_
            and config.optimiser == "centred-rmsprop"
            and config.max_gradient_norm is None
            and config.target_rate == 1
            and config.conservatism in ("auto", "none")
            and config.returns != "auto"
            and (config.ensemble == 1 or config.ensemble_update == "one")
            and conv_kernels.takes_batch(config.batch_size)
        )
        if not (is_usual and conv_kernels.is_available()):
            return None
        return ConvShape.of(self.observation.shape, config.hidden, self.num_actions)

    @property
    def can_leave_out(self) -> bool:
        """Whether lanes of one program can have fewer networks than the config says, the others being left out."""
        config = self.config
        one_learns = config.ensemble_update == "one" and config.groups == 1 and config.returns != "auto"
        return type(self._static) is ConvNet and one_learns and config.conservatism in ("auto", "none")

    def with_networks(self, state: LearnerState, count: jax.Array) -> LearnerState:
        """Return the first state of a learner with the networks from number `count` on left out."""
        params, targets = (leave_out(x, count) for x in (state.params, state.target_params))
        return state._replace(params=params, target_params=targets)

    @cached_property
    def _optimiser(self) -> optax.GradientTransformation:
        return make_optimiser(self.config)

    @property
    def without_behaviour(self) -> Learner:
        """The same learner with the networks that estimate Q alone: what learns where the support is known already."""
        return replace(self, config=replace(self.config, conservatism="none", bcq_threshold=None))

    def init(self, key: jax.Array) -> LearnerState:
        """Return randomly initialised networks whose targets are copies."""
        _ = self._static
        networks = make_ensemble(self._make_network, key, self.config.num_networks, self.observation, self._num_outputs)
        params = eqx.filter(networks, eqx.is_array)
        return LearnerState(params, jax.tree.map(jnp.copy, params), jax.vmap(self._optimiser.init)(params))

    # -- Q-values ------------------------------------------------------------------------------------------------------

    def q_and_support(self, params: Any, observations: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Return the Q-values of every network, [B, ...] -> [M, B, A], and with bcq the actions in the data, [B, A].

        Those are the actions with μ(a|s) ≥ threshold · max_b μ(b|s), where μ is the cloned behaviour.

        With returns="auto" each network has several outputs per action, output by output: [K, B, O A] (`heads.py`).
        """
        if self.kernel_shape is not None:
            return conv_kernels.ensemble_q(params, observations, self.kernel_shape), None
        outputs = ensemble_q(self.networks_of(params), observations)
        threshold = self.config.bcq_threshold
        if threshold is None:
            return outputs, None
        logits = outputs[-1, :, : self.num_actions]
        log_threshold = math.log(threshold) if threshold else -math.inf
        return outputs[:-1], logits - logits.max(axis=-1, keepdims=True) >= log_threshold

    def acting_q_and_support(self, policy: Any, observations: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """Return the Q-values on which the agent acts, [B, ...] -> [B, A], and with bcq the actions in the data.

        Args:
            policy: arrays of the networks, whose minimum it acts on; with returns="auto" a `HeadPolicy`.
        """
        params, head = split_policy(policy)
        q, support = self.q_and_support(params, observations)
        if self.config.returns != "auto":
            return q.min(axis=0), support
        head = jnp.broadcast_to(head, q.shape[1])
        return jnp.take_along_axis(head_q(q), head[None, :, None], axis=0)[0], support

    def acting_q(self, policy: Any, observations: jax.Array) -> jax.Array:
        """Return the Q-values on which the agent acts: [B, ...] -> [B, A].

        With bcq they are -inf for the actions that are not in the data.
        """
        q, support = self.acting_q_and_support(policy, observations)
        return within(support, q)

    def bootstrap_q(self, state: LearnerState, observations: jax.Array) -> BootstrapValues:
        """Return q of the target networks, and with `double` q of the online networks, which choose the action."""
        selection_q = self.q_and_support(state.params, observations)[0] if self.config.double else None
        q, support = self.q_and_support(state.target_params, observations)
        return BootstrapValues(q, selection_q, support)

    # -- targets and minibatches ---------------------------------------------------------------------------------------

    def refresh_targets(
        self,
        buffer: ReplayBuffer,
        hyperparams: LaneHyperparams,
        key: jax.Array,
        replay: ReplayState,
        state: LearnerState,
        periods: int = 1,
        support: jax.Array | None = None,
    ) -> tuple[Any, TargetPool | None]:
        """Return the new target networks, and the new target pool where the returns need one; called once per period.

        With `double` the new targets value the actions that those of the period before choose: the online networks,
        which choose elsewhere, are what has just been copied.

        Args:
            periods: number of periods whose samples the pool has.
            support: bool [N, R, A], the actions in the data for all rows of the buffer, where they are known already.
        """
        config = self.config
        copied = state._replace(target_params=state.params) if config.target_rate == 1 else state
        valued_by = copied._replace(params=state.target_params) if config.double and config.target_rate == 1 else copied
        pool = None
        if config.is_pooled:
            bootstrap_q = partial(self.bootstrap_q, valued_by)
            pool = target_pool.make(config, buffer, hyperparams, key, replay, bootstrap_q, periods, support)
        return copied.target_params, pool

    def sample_batch(
        self,
        buffer: ReplayBuffer,
        hyperparams: LaneHyperparams,
        bits: jax.Array,
        replay: ReplayState,
        pool: TargetPool | None,
        state: LearnerState,
        support: jax.Array | None = None,
    ) -> Batch:
        """Sample a minibatch with its targets from the pool, or from the replay buffer if there is no pool.

        Args:
            bits: random bits that choose the samples, see `UpdateDraws`.
            support: see `refresh_targets`.
        """
        config = self.config
        if pool is not None:
            return target_pool.batch_at(buffer, pool, bits)
        index, bootstrap_q = buffer.steps_at(replay, bits), partial(self.bootstrap_q, state)
        targets, steps, action = n_step_targets(config, hyperparams, buffer, replay, index, bootstrap_q, support)
        return Batch(buffer.observations(replay, index), action, targets, steps)

    # -- gradient steps ------------------------------------------------------------------------------------------------

    def draw_update(self, key: jax.Array, hyperparams: LaneHyperparams) -> UpdateDraws:
        """Draw all random numbers that one update needs."""
        sample_key, network_key = jax.random.split(key)
        network = jnp.int32(0)
        if self.config.ensemble > 1:
            network = integers_below(hyperparams.ensemble, random_bits(network_key, 1))[0]
        return UpdateDraws(random_bits(sample_key, self.config.batch_size), network)

    def update(
        self, state: LearnerState, batch: Batch, network: jax.Array, learning_rate: jax.Array
    ) -> tuple[LearnerState, UpdateInfo]:
        """Make one gradient step of one random network or of all (`ensemble_update`), and with bcq of the behaviour.

        Also return the metrics of the step.

        Args:
            network: int32, the one that learns, see `UpdateDraws`.
        """
        config, size = self.config, self.config.num_q_networks
        if self.kernel_shape is not None:
            return self._update_by_kernels(self.kernel_shape, state, batch, network, learning_rate)

        def step(params: Any, opt_state: Any, targets: jax.Array):
            return self.network_step(params, opt_state, batch, targets, learning_rate)

        def unchanged(params: Any, opt_state: Any, targets: jax.Array):
            return params, opt_state, UpdateInfo(jnp.float32(0), jnp.float32(0))

        def step_in_place(params: Any, opt_state: Any, targets: jax.Array):
            """Make the step within a branch that is always taken: a barrier that lets XLA write new arrays in place.
            Without it, XLA fuses computing and writing, and for that copies the old arrays.
            """
            return lax.cond(batch.action[0] >= 0, step, unchanged, params, opt_state, targets)

        networks: tuple[Any, Any] = (state.params, state.opt_state)
        behaviour: tuple[Any, Any] = (None, None)
        if config.conservatism == "bcq":
            networks, behaviour = (jax.tree.map(itemgetter(at), networks) for at in (slice(size), size))
        if size == 1:
            # The network is taken out of its axis: XLA's products with a batch of one are slow on a CPU.
            params, opt_state = jax.tree.map(lambda x: x[0], networks)
            # Without a pool, the next states are valued on another core meanwhile, which a branch would prevent.
            in_place = config.is_pooled and jax.default_backend() == "cpu"
            params, opt_state, info = (step_in_place if in_place else step)(params, opt_state, batch.targets[0])
            networks = jax.tree.map(lambda x: x[None], (params, opt_state))
        elif config.returns == "auto":
            networks, info = self._update_each_rate(networks, batch, network, learning_rate)
        elif config.ensemble_update == "all":
            params, opt_state, info = jax.vmap(step)(*networks, batch.targets[jnp.arange(size) % config.groups])
            networks, info = (params, opt_state), jax.tree.map(jnp.mean, info)
        else:
            params, opt_state = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, network, keepdims=False), networks)
            params, opt_state, info = step_in_place(params, opt_state, batch.targets[network % config.groups])
            networks = jax.tree.map(
                lambda x, new: lax.dynamic_update_index_in_dim(x, new, network, 0), networks, (params, opt_state)
            )
        if config.conservatism == "bcq":
            params, opt_state, _ = self.clone_behaviour(*behaviour, batch.observations, batch.action, learning_rate)
            networks = jax.tree.map(lambda x, one: jnp.concatenate([x, one[None]]), networks, (params, opt_state))
        params, opt_state = networks
        target_params, rate = state.target_params, config.target_rate
        if rate < 1:
            target_params = jax.tree.map(lambda old, new: old + rate * (new - old), target_params, params)
        return LearnerState(params, target_params, opt_state), info

    def _update_by_kernels(
        self, shape: ConvShape, state: LearnerState, batch: Batch, network: jax.Array, learning_rate: jax.Array
    ) -> tuple[LearnerState, UpdateInfo]:
        """Do what `update` does, in the kernels of `conv_kernels`."""
        config, (averages,) = self.config, state.opt_state
        result = conv_gradient.gradient_step(
            state.params,
            averages.mu,
            averages.nu,
            network,
            batch.observations,
            batch.action,
            batch.targets[network % config.groups],
            learning_rate,
            shape=shape,
            loss=_loss_function(config),
            decay=config.optimiser_decay,
            epsilon=config.optimiser_epsilon,
        )
        opt_state = (averages._replace(mu=result.mu, nu=result.nu),)
        return LearnerState(result.params, state.target_params, opt_state), UpdateInfo(result.loss, result.mean_q)

    def _update_each_rate(
        self, networks: tuple[Any, Any], batch: Batch, network: jax.Array, learning_rate: jax.Array
    ) -> tuple[tuple[Any, Any], UpdateInfo]:
        """Make one gradient step of one random network of each learning rate, or of all (`ensemble_update`).

        Each rate learns from its own part of the batch. So an update of one network each has as many samples as that of
        a single network.
        """
        config, rates = self.config, self.config.rates
        size = len(batch.action) // rates
        members = jnp.arange(config.ensemble) if config.ensemble_update == "all" else network[None]
        rate = np.repeat(np.arange(rates), len(members))
        chosen = rate * config.ensemble + jnp.tile(members, rates)

        def step(params: Any, opt_state: Any, part: Batch, learning_rate: jax.Array) -> tuple[Any, Any, UpdateInfo]:
            return self.network_step(params, opt_state, part, part.targets, learning_rate)

        def parts(x: jax.Array) -> jax.Array:
            return x[: rates * size].reshape(rates, size, *x.shape[1:])

        own_targets = jnp.stack([parts(x.T)[r] for r, x in enumerate(jnp.split(batch.targets, rates))])  # [R, B, O]
        own = Batch(parts(batch.observations), parts(batch.action), own_targets, parts(batch.steps))
        params, opt_state = jax.tree.map(lambda x: x[chosen], networks)
        part = jax.tree.map(lambda x: x[rate], own)
        *new, info = jax.vmap(step)(params, opt_state, part, learning_rate * jnp.array(AUTO_RATES)[rate])
        networks = jax.tree.map(lambda x, changed: x.at[chosen].set(changed), networks, tuple(new))
        return networks, jax.tree.map(jnp.mean, info)

    def network_step(
        self, params: Any, opt_state: Any, batch: Batch, targets: jax.Array, learning_rate: jax.Array
    ) -> tuple[Any, Any, UpdateInfo]:
        """Make one gradient step of one network, whatever it is one of; return its arrays and the metrics of the step.

        Args:
            params, opt_state: those of this network, without a leading axis.
            targets: those of this network, [B], with "auto" [B, O]; those of the batch are not used.
        """
        (loss, q), gradient = jax.value_and_grad(self._loss, has_aux=True)(params, batch, targets)
        return *self._descend(params, opt_state, gradient, learning_rate), UpdateInfo(loss, q)

    def _descend(self, params: Any, opt_state: Any, gradient: Any, learning_rate: jax.Array) -> tuple[Any, Any]:
        """Return the parameters and the optimiser state of one network after a step down its gradient."""
        updates, opt_state = self._optimiser.update(gradient, opt_state, params)
        return optax.apply_updates(params, jax.tree.map(lambda x: -learning_rate * x, updates)), opt_state

    def clone_behaviour(
        self, params: Any, opt_state: Any, observations: jax.Array, action: jax.Array, learning_rate: jax.Array
    ) -> tuple[Any, Any, jax.Array]:
        """Make one gradient step of the behaviour network, and return its arrays and the loss before it.

        The loss is the cross-entropy of the actions taken, int32 [B], given the observations [B, ...].
        """

        def cross_entropy(params: Any) -> jax.Array:
            logits = batch_q(self.networks_of(params), observations)[:, : self.num_actions]
            return optax.softmax_cross_entropy_with_integer_labels(logits, action).mean()

        loss, gradient = jax.value_and_grad(cross_entropy)(params)
        return *self._descend(params, opt_state, gradient, CLONING_RATE * learning_rate), loss

    def _loss(self, params: Any, batch: Batch, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the mean loss and the mean Q(s, a) of one network on the batch.

        Conservative Q-learning (Kumar et al. 2020, CQL(H)) adds α (log Σ_b exp Q(s, b) - Q(s, a)), which lowers the
        values of the actions that are not in the data relative to those that are.
        """
        q = batch_q(self.networks_of(params), batch.observations)
        if self.config.returns == "auto":  # [B, O, A]; Q(s, a) and targets are [B, O]
            q = q.reshape(len(q), self.config.outputs, -1)
            taken = jnp.take_along_axis(q, batch.action[:, None, None], axis=2)[..., 0]
        else:
            taken = jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]
        total = _loss_function(self.config)(taken - targets).mean()
        if self.config.cql_alpha is not None:
            total += self.config.cql_alpha * (jax.nn.logsumexp(q, axis=-1) - taken).mean()
        return total, taken.mean()


def _loss_function(config: DQNConfig) -> Callable[[jax.Array], jax.Array]:
    """Return the loss as a function of Q(s, a) - target, by element."""
    return optax.huber_loss if config.loss == "huber" else optax.squared_error

"""The agent's mathematics: values, actions, samples with targets, updates. Pure functions of arrays.

A `Learner` holds what does not change in a training (config, shapes, formulas); `Knowledge` is what it learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from greedystep.deep import optimisers, target_pool
from greedystep.deep.config import DQNConfig
from greedystep.deep.networks import (
    MakeNetwork,
    check_network,
    default_network,
    ensemble_of,
    one_network,
    q_values,
)
from greedystep.deep.optimisers import Averages, Optimiser
from greedystep.deep.target_pool import Batch, Pool
from greedystep.deep.targets import Numbers, direct
from greedystep.envs.core import ObservationSpec
from greedystep.replay import Replay, Store


class Knowledge(NamedTuple):
    """All networks and their optimisers; every array has a leading axis [M]."""

    networks: Any
    """The arrays of the online networks."""
    targets: Any
    """The arrays of the target networks."""
    averages: Averages


class Learned(NamedTuple):
    """What an update has to tell."""

    loss: jax.Array
    q: jax.Array
    """Mean of Q(s, a) over batch and updated networks, before the update."""


@dataclass(frozen=True, eq=False)
class Learner:
    """One agent on one kind of observation.

    Args:
        network: makes the networks; None for MinAtar's on pictures, and an MLP on everything else.
    """

    config: DQNConfig
    observation: ObservationSpec
    num_actions: int
    network: MakeNetwork | None = None

    @property
    def _make(self) -> MakeNetwork:
        return self.network or default_network(self.config.hidden)

    @cached_property
    def _fixed(self) -> Any:
        """The parts of the networks that are not arrays, after a look at whether the networks fit."""
        one = eqx.filter_eval_shape(lambda key: self._make(key, self.observation, self.num_actions), jax.random.key(0))
        check_network(one, self.observation, self.num_actions)
        return eqx.filter(one, lambda leaf: not isinstance(leaf, jax.ShapeDtypeStruct))

    @property
    def optimiser(self) -> Optimiser:
        c = self.config
        return Optimiser(c.optimiser, c.optimiser_decay, c.optimiser_epsilon)

    def begin(self, key: jax.Array) -> Knowledge:
        """Random networks; the targets are copies."""
        _ = self._fixed
        made = ensemble_of(self._make, key, self.config.ensemble, self.observation, self.num_actions)
        arrays = eqx.filter(made, eqx.is_array)
        averages = jax.vmap(lambda params: optimisers.start(self.optimiser, params))(arrays)
        return Knowledge(arrays, jax.tree.map(jnp.copy, arrays), averages)

    # -- acting --------------------------------------------------------------------------------------------------------

    def q(self, networks: Any, observations: jax.Array) -> jax.Array:
        """[B, ...] -> [M, B, A]."""
        return q_values(eqx.combine(networks, self._fixed), observations)

    def values(self, networks: Any, observations: jax.Array) -> jax.Array:
        """What the agent acts on, the minimum over its networks: [B, ...] -> [B, A]."""
        return self.q(networks, observations).min(axis=0)

    # -- learning ------------------------------------------------------------------------------------------------------

    def ask(self, knowledge: Knowledge, observations: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The target networks, and the online ones where these choose the action."""
        chooser = self.q(knowledge.networks, observations) if self.config.double else None
        return self.q(knowledge.targets, observations), chooser

    def renew(
        self, store: Store, numbers: Numbers, key: jax.Array, replay: Replay, knowledge: Knowledge
    ) -> tuple[Any, Pool | None]:
        """What is due once a period: the target networks copied, and a new pool where the returns need one.

        With `double` the pool is made first: then the targets still are those of the period before, and differ from
        the online networks, which choose.
        """
        config = self.config
        copied = knowledge._replace(targets=knowledge.networks) if config.target_rate == 1 else knowledge
        made = self.make_pool(store, numbers, key, replay, knowledge if config.double else copied)
        return copied.targets, made

    def make_pool(
        self, store: Store, numbers: Numbers, key: jax.Array, replay: Replay, knowledge: Knowledge
    ) -> Pool | None:
        if not self.config.is_pooled:
            return None
        return target_pool.make(self.config, store, numbers, key, replay, lambda seen: self.ask(knowledge, seen))

    def samples(self, store: Store, key: jax.Array, replay: Replay, made: Pool | None, knowledge: Knowledge) -> Batch:
        """A batch with its targets: from the pool, or straight from the replay where there is none."""
        if made is not None:
            return target_pool.draw(store, made, key, self.config.batch_size)
        places = store.sample(key, replay, self.config.batch_size)
        targets, steps, action = direct(self.config, store, replay, places, lambda seen: self.ask(knowledge, seen))
        return Batch(store.observe(replay, places), action, targets, steps)

    def update(
        self, knowledge: Knowledge, batch: Batch, key: jax.Array, learning_rate: jax.Array
    ) -> tuple[Knowledge, Learned]:
        """One gradient step of one random network, or of all."""
        config, size = self.config, self.config.ensemble
        networks, averages = knowledge.networks, knowledge.averages

        def step(network: Any, averages: Averages, targets: jax.Array):
            (loss, q), gradient = jax.value_and_grad(self._loss, has_aux=True)(network, batch, targets)
            gradient = optimisers.clip_by_norm(gradient, config.max_gradient_norm)
            return *optimisers.update(self.optimiser, learning_rate, gradient, averages, network), Learned(loss, q)

        def unchanged(network: Any, averages: Averages, targets: jax.Array):
            return network, averages, Learned(jnp.float32(0), jnp.float32(0))

        def step_apart(network: Any, averages: Averages, targets: jax.Array):
            """The same within a branch that is always taken. XLA does not look through it, and so writes the new arrays
            in their places; otherwise it computes them while it writes, and for that copies them."""
            return lax.cond(averages.count >= 0, step, unchanged, network, averages, targets)

        every = networks, averages
        if size == 1:
            # The network is taken out of its axis: XLA's products with a batch of one are slow on a CPU.
            network, own = jax.tree.map(lambda x: x[0], every)
            # Without a pool, the next states are valued on another core meanwhile, which a branch would prevent.
            is_apart = config.is_pooled and jax.default_backend() == "cpu"
            network, own, learned = (step_apart if is_apart else step)(network, own, batch.targets[0])
            networks, averages = jax.tree.map(lambda x: x[None], (network, own))
        elif config.ensemble_update == "all":
            networks, averages, learned = jax.vmap(step)(*every, batch.targets[jnp.arange(size) % config.groups])
            learned = jax.tree.map(jnp.mean, learned)
        else:
            chosen = jax.random.randint(key, (), 0, size)
            network, own = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, chosen, keepdims=False), every)
            network, own, learned = step_apart(network, own, batch.targets[chosen % config.groups])
            networks, averages = jax.tree.map(
                lambda x, one: lax.dynamic_update_index_in_dim(x, one, chosen, 0), every, (network, own)
            )
        targets, rate = knowledge.targets, config.target_rate
        if rate < 1:
            targets = jax.tree.map(lambda old, new: old + rate * (new - old), targets, networks)
        return Knowledge(networks, targets, averages), learned

    def _loss(self, network: Any, batch: Batch, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        q = one_network(eqx.combine(network, self._fixed), batch.observations)
        taken = jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]
        return optimisers.loss_of(self.config.loss, taken - targets).mean(), taken.mean()

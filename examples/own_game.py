"""A game of your own in JAX: a template. Copy it, change the rules, and `gs.check_env` says what is wrong.

Dodge: stones fall, one at a time, down five columns of four cells; move left or right. A stone that passes pays 1, one
that hits ends the episode.

The rules are four functions without side effects. `draw` and `draw_start` turn a key into random numbers; `start` and
`advance` apply the rules to them. The state is a NamedTuple of arrays whose shapes and dtypes never change: instead of
`if`, write `jnp.where`. Then the game runs under jit, vmap and scan, a thousand at a time, on a CPU or a GPU.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import greedystep as gs
from greedystep.envs.core import Environment, ObservationSpec, Step

COLUMNS, HEIGHT = 5, 4


class DodgeState(NamedTuple):
    """All that the rules need to know."""

    player: jax.Array  # int32: column
    stone: jax.Array  # int32: column
    height: jax.Array  # int32: rows between the stone and the player


@dataclass(
    frozen=True
)  # options, here `wind`, are fields; frozen, so that compiled programs can be kept per environment
class Dodge(Environment):
    """Dodge falling stones."""

    wind: float = 0.1  # probability with which a step blows the player one column to the right

    default_limit = 200
    action_names = ("left", "none", "right")

    @property
    def name(self) -> str:
        return "own/dodge"

    @property
    def observation(self) -> ObservationSpec:
        return ObservationSpec((3,), np.dtype(np.float32), 0.0, 1.0)

    def observe(self, state: DodgeState) -> jax.Array:
        """What the agent sees, scaled to [0, 1]."""
        last = COLUMNS - 1
        return jnp.array([state.player / last, state.stone / last, state.height / HEIGHT], jnp.float32)

    def draw_start(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (2,), 0, COLUMNS)

    def start(self, draws: jax.Array) -> DodgeState:
        return DodgeState(player=draws[0], stone=draws[1], height=jnp.int32(HEIGHT))

    def draw(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        blow, column = jax.random.split(key)
        return jax.random.uniform(blow) < self.wind, jax.random.randint(column, (), 0, COLUMNS)

    def advance(self, draws, state: DodgeState, action: jax.Array) -> tuple[DodgeState, Step]:
        is_blown, next_stone = draws
        player = jnp.clip(state.player + action - 1 + is_blown, 0, COLUMNS - 1)
        height = state.height - 1
        landed = height == 0
        hit = landed & (player == state.stone)
        after = DodgeState(player, jnp.where(landed, next_stone, state.stone), jnp.where(landed, HEIGHT, height))
        reward = jnp.where(landed & ~hit, 1.0, 0.0).astype(jnp.float32)
        return after, Step(reward, terminated=hit, truncated=jnp.bool_(False))


if __name__ == "__main__":
    from greedystep.envs.core import TimeLimit

    game = TimeLimit(Dodge(), 200)
    gs.check_env(game)
    agent = gs.DQN(game, hidden=(32,), num_envs=4, updates=2, learning_rate=1e-3, seed=0)
    print(f"untrained: {agent.evaluate(episodes=20).mean:.1f} of at most 50 stones dodged")
    agent.learn(6_000)
    print(f"trained:   {agent.evaluate(episodes=20).mean:.1f}")

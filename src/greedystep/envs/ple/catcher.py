"""PLE's Catcher: a paddle with momentum under falling fruit; +1 per fruit caught, and three may be missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.ple import LOSS, NEGATIVE, POSITIVE, PLEGame, check_rounding, one_of

HEIGHT = 64  # height of the screen in pixels; its width is the same
LAST_X = 51
"""Largest column of the paddle's centre. (The paddle is 13 pixels wide; the original compares its centre as if it were
the left edge.)
"""
PUSH, FRICTION = 1.344, 0.9
LIVES = 3
COLUMNS, ROWS = 12, 7  # A fruit begins at x = 8, 12, ..., 52 and y = -4, -8, ..., -28


class Fruit(NamedTuple):
    """Centre of a fruit in int32 pixels; also the random numbers of a step: the next fruit."""

    x: jax.Array
    y: jax.Array


class State(NamedTuple):
    """State of Catcher."""

    x: jax.Array  # int32: centre of the paddle; it is 3 pixels high with its centre in row 58
    velocity: jax.Array  # float32, pixels per step
    fruit: Fruit
    lives: jax.Array  # int32
    over: jax.Array  # bool


@dataclass(frozen=True)
class Catcher(PLEGame):
    """Catcher: move a paddle to catch falling fruit. It keeps 90 % of its velocity in each step.

    Observation: [(x - 26) / 26, velocity / 8, (fruit x - 26) / 26, (fruit y - 20) / 45].

    Args:
        rounding: "round" (pygame since 2.3.0) or "truncate" (older ones): how coordinates become whole pixels. It
            changes the game: with "truncate" a fruit falls faster above the screen, and the paddle creeps to the left
            after every push to the left.
    """

    rounding: str = "round"

    title = "catcher"
    action_names = ("left", "right", "none")
    default_limit: ClassVar[int | None] = 2000
    # The velocity approaches PUSH * 0.9 / (1 - 0.9); a fruit is gone the step after it has reached row 64.
    bounds = ((-1, 25 / 26), (-12.096 / 8, 12.096 / 8), (-18 / 26, 1), (-48 / 45, 1))

    def __post_init__(self) -> None:
        check_rounding(self.rounding)

    def draw(self, key: jax.Array) -> Fruit:
        which = one_of(jax.random.bits(key), COLUMNS * ROWS)
        return Fruit(8 + 4 * (which % COLUMNS), -4 * (1 + which // COLUMNS))

    draw_start = draw

    def start(self, draws: Fruit) -> State:
        x = 26 if self.rounding == "round" else 25  # the original says 25.5
        return State(jnp.int32(x), jnp.float32(0), draws, jnp.int32(LIVES), jnp.bool_(False))

    def play(self, draws: Fruit, state: State, action: jax.Array) -> tuple[State, jax.Array]:
        x, velocity, fruit, lives, _ = state
        missed = fruit.y >= HEIGHT
        ahead = fruit.x - x
        caught = (ahead > -8) & (ahead < 9) & (fruit.y > 55) & (fruit.y < 62)
        fruit = jax.tree.map(lambda new, old: jnp.where(missed | caught, new, old), draws, fruit)
        lives = lives - missed

        push = (action == 1).astype(jnp.float32) - (action == 0).astype(jnp.float32)
        velocity = (velocity + np.float32(PUSH) * push) * np.float32(FRICTION)
        # x is whole, so the places x + velocity <= 0 and >= 51 are compared, and rounded, without rounding the sum.
        at_left, at_right = velocity <= -x, velocity >= LAST_X - x
        whole = jnp.round(velocity) if self.rounding == "round" else jnp.floor(velocity)
        x = jnp.where(at_left, 0, jnp.where(at_right, LAST_X, x + whole.astype(jnp.int32)))
        velocity = jnp.where(at_left | at_right, 0, velocity)

        # 2.02667 pixels per step, of which truncation towards zero makes 3 while the fruit stays above row 0.
        fall = 2 if self.rounding == "round" else jnp.where(fruit.y <= -3, 3, 2)
        fruit = fruit._replace(y=fruit.y + fall)
        over = lives == 0
        reward = POSITIVE * caught + NEGATIVE * missed + LOSS * over
        return State(x, velocity, fruit, lives, over), reward

    def observe(self, state: State) -> jax.Array:
        x, fruit_x, fruit_y = (place.astype(jnp.float32) for place in (state.x, *state.fruit))
        return jnp.stack([(x - 26) / 26, state.velocity / 8, (fruit_x - 26) / 26, (fruit_y - 20) / 45])

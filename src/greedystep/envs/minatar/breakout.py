"""MinAtar Breakout: a ball, a paddle, and a wall of three rows of bricks; +1 per brick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from greedystep.envs.minatar import LEFT, NONE, RIGHT, ROW, SIZE, MinAtar, cell

WALL = (1 << 3 * SIZE) - 1  # all bricks of rows 1 to 3: bit 10 (y - 1) + x


class Position(NamedTuple):
    """Position of the game: columns 0..9 and rows 0..9, int32."""

    x: jax.Array
    y: jax.Array
    dx: jax.Array  # -1 or 1, the way the ball goes; dy likewise, 1 is down
    dy: jax.Array
    trail_x: jax.Array  # where the ball was one step before
    trail_y: jax.Array
    paddle: jax.Array  # its column; its row is 9
    bricks: jax.Array  # uint32, as `WALL`
    struck: jax.Array  # bool: the ball met a brick in the last step; then it passes through bricks until it meets none


@dataclass(frozen=True)
class Breakout(MinAtar):
    """Breakout: bounce a ball off a paddle to break the bricks of a wall. Only the ball's first corner is random.

    Brick, paddle and ceiling hold the ball's row for a step and turn it round, while it still moves sideways. A cleared
    wall comes back when the ball next reaches the bottom; a ball that misses the paddle there ends the game.
    """

    title = "breakout"
    channels = ("paddle", "ball", "trail", "brick")
    minimal = (NONE, LEFT, RIGHT)
    start_words = 1

    def chance_of_start(self, words: jax.Array) -> jax.Array:
        """Return a bool: whether the ball starts on the right."""
        return words[0] >> 31 != 0

    def first(self, chance: jax.Array) -> Position:
        x, dx = jnp.where(chance, 9, 0).astype(jnp.int32), jnp.where(chance, -1, 1).astype(jnp.int32)
        y = jnp.int32(3)
        return Position(x, y, dx, jnp.int32(1), x, y, jnp.int32(4), jnp.uint32(WALL), jnp.bool_(False))

    def play(self, chance: Any, position: Position, action: jax.Array) -> tuple[Position, jax.Array, jax.Array]:
        x, y, dx, dy, _, _, paddle, bricks, struck = position
        paddle = jnp.clip(paddle + (action == RIGHT) - (action == LEFT), 0, SIZE - 1)

        to_x, to_y = x + dx, y + dy
        side = (to_x < 0) | (to_x >= SIZE)
        to_x = jnp.where(side, x, to_x)

        ceiling = to_y < 0
        place = jnp.uint32(1) << jnp.clip(SIZE * (to_y - 1) + to_x, 0, 31).astype(jnp.uint32)
        brick = (to_y >= 1) & (bricks & place != 0)
        broken = brick & ~struck
        bottom = to_y == SIZE - 1
        straight = bottom & (x == paddle)
        back = bottom & (x != paddle) & (to_x == paddle)
        lost = bottom & ~straight & ~back

        turn = ceiling | broken | straight | back
        bricks = jnp.where(broken, bricks ^ place, jnp.where(bottom & (bricks == 0), jnp.uint32(WALL), bricks))
        to_y, dx, dy = jnp.where(turn, y, to_y), jnp.where(side ^ back, -dx, dx), jnp.where(turn, -dy, dy)
        return Position(to_x, to_y, dx, dy, x, y, paddle, bricks, brick), broken, lost

    def rows(self, position: Position) -> list[jax.Array]:
        shift = jnp.clip(SIZE * (ROW - 1), 0, 31).astype(jnp.uint32)
        wall = jnp.where((ROW >= 1) & (ROW <= 3), position.bricks >> shift, 0)
        ball, trail = cell(position.x, position.y), cell(position.trail_x, position.trail_y)
        return [cell(position.paddle, jnp.int32(SIZE - 1)), ball, trail, wall]

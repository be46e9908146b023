"""PLE's Pong: first to eleven points against a paddle that follows the ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import int32s
from greedystep.envs.ple import LOSS, NEGATIVE, POSITIVE, WIN, PLEGame, unit

PIXEL = 50  # what never meets chance (the ball's column, the opponent's row) stands on a grid of 50ths of a pixel
WIDTH, HEIGHT, MIDDLE_X, MIDDLE_Y = 64 * PIXEL, 48, 32 * PIXEL, 24 * PIXEL
SERVE, FASTER = 60, 3
"""Horizontal speed of a serve (36 pixels per second), and what each hit adds, in 50ths of a pixel per step."""
SECONDS = np.float32(1 / 30)  # seconds per step
BALL_SPEED = 36  # pixels per second
PUSH, FRICTION = 0.64, 0.9  # the player's: 19.2 pixels per second, per step
FOLLOW, RETURN = 48, 12  # the opponent's rows per step, in 50ths: 28.8 and 7.2 pixels per second
HALF_PADDLE = 3.5
LOWEST, HIGHEST = 175, 2225  # 3.5 and 44.5, in 50ths
POINTS = 11


class StartDraws(NamedTuple):
    """Random numbers of a first state."""

    right: jax.Array  # bool: the first serve goes to the right
    slope: jax.Array  # float32 in [0, 1): how it goes down


class State(NamedTuple):
    """State of Pong. The player's paddle is on the left, in column 4, the opponent's in column 60."""

    y: jax.Array  # float32: row of the centre of the player's paddle, which is 1 pixel wide and 7 high
    velocity: jax.Array  # float32, pixels per step
    opponent_y: jax.Array  # int32: row of the centre of the opponent's paddle, in 50ths of a pixel
    ball_x: jax.Array  # int32: column of the ball's centre, in 50ths of a pixel; its radius is 1 pixel
    ball_y: jax.Array  # float32
    ball_dx: jax.Array  # int32: 50ths of a pixel per step; -63, -60, 57 or 60
    ball_vy: jax.Array  # float32, pixels per second
    points: jax.Array  # int32
    opponent_points: jax.Array  # int32
    over: jax.Array  # bool


@dataclass(frozen=True)
class Pong(PLEGame):
    """Pong: +1 for a ball that the opponent misses, -1 for a ball missed, +5 for winning the game, -5 for losing it.

    Observation: [y, velocity, opponent's y, ball x, ball y, ball vx, ball vy]; pixels, the player's velocity in pixels
    per step, the ball's in pixels per second.
    """

    title = "pong"
    action_names = ("up", "down", "none")
    default_limit: ClassVar[int | None] = 10_000
    # The player's velocity approaches PUSH * 0.9 / (1 - 0.9); the opponent's paddle is kept in before it moves.
    bounds = ((3.5, 44.5), (-5.76, 5.76), (2.54, 45.46), (0, 64), (-np.inf, np.inf), (-37.8, 36), (-np.inf, np.inf))

    def draw(self, key: jax.Array) -> jax.Array:
        """Return a random float32 in [0, 1), which a hit or a serve uses; no step has both."""
        return unit(jax.random.bits(key))

    def draw_start(self, key: jax.Array) -> StartDraws:
        words = jax.random.bits(key, (2,))
        return StartDraws(words[0] >> 31 != 0, unit(words[1]))

    def start(self, draws: StartDraws) -> State:
        return State(
            **int32s(opponent_y=MIDDLE_Y, ball_x=MIDDLE_X, points=0, opponent_points=0),
            y=jnp.float32(24),
            velocity=jnp.float32(0),
            ball_y=jnp.float32(24),
            over=jnp.bool_(False),
            ball_dx=jnp.where(draws.right, SERVE, -SERVE).astype(jnp.int32),
            ball_vy=_served(draws.slope),
        )

    def play(self, draws: jax.Array, state: State, action: jax.Array) -> tuple[State, jax.Array]:
        before = state
        state = _ball_moved(draws, state)
        lost, won = state.ball_x <= 0, state.ball_x >= WIDTH
        point = lost | won
        # A serve leaves the ball's row as it is, and the paddles do not move in that step.
        served = before._replace(
            ball_x=jnp.int32(MIDDLE_X),
            ball_y=state.ball_y,
            ball_dx=jnp.where(won, SERVE, -SERVE).astype(jnp.int32),
            ball_vy=_served(draws),
        )
        state = jax.tree.map(lambda new, old: jnp.where(point, new, old), served, _paddles_moved(state, action))
        points, opponent_points = state.points + won, state.opponent_points + lost
        winner, loser = points == POINTS, opponent_points == POINTS
        reward = POSITIVE * won + NEGATIVE * lost + WIN * winner + LOSS * loser
        return state._replace(points=points, opponent_points=opponent_points, over=winner | loser), reward

    def observe(self, state: State) -> jax.Array:
        opponent_y, ball_x = (place.astype(jnp.float32) / PIXEL for place in (state.opponent_y, state.ball_x))
        ball_vx = state.ball_dx.astype(jnp.float32) * np.float32(BALL_SPEED / SERVE)
        return jnp.stack([state.y, state.velocity, opponent_y, ball_x, state.ball_y, ball_vx, state.ball_vy])


# -- the rules in parts ------------------------------------------------------------------------------------------------


def _served(slope: jax.Array) -> jax.Array:
    return slope * np.float32(BALL_SPEED) - np.float32(BALL_SPEED / 2)


def _ball_moved(draws: jax.Array, state: State) -> State:
    """Return the state with the ball moved by one step, bounced off paddles and walls. (A serve is too far from both
    paddles for a hit, so the original's "previous position", which a serve does not change, needs no extra state.)
    """
    x, y, dx, vy = state.ball_x + state.ball_dx, state.ball_y + state.ball_vy * SECONDS, state.ball_dx, state.ball_vy

    def meets(paddle_x: int, paddle_y: jax.Array) -> jax.Array:
        """Whether the ball's path in this step crosses the front of a paddle, part of the line x = paddle_x / 50."""
        crosses = (jnp.minimum(x, state.ball_x) <= paddle_x) & (paddle_x <= jnp.maximum(x, state.ball_x))
        share = (paddle_x - state.ball_x).astype(jnp.float32) / dx.astype(jnp.float32)
        height = state.ball_y + share * (y - state.ball_y) - (paddle_y - np.float32(HALF_PADDLE))
        return crosses & (height >= 0) & (height <= 2 * HALF_PADDLE)

    by_player = (x <= 5 * PIXEL) & meets(9 * PIXEL // 2, state.y)
    by_opponent = (x >= 59 * PIXEL) & meets(119 * PIXEL // 2, state.opponent_y.astype(jnp.float32) / PIXEL)
    hit = by_player | by_opponent
    x = jnp.where(by_player, jnp.maximum(0, x) + PIXEL, jnp.where(by_opponent, jnp.minimum(WIDTH, x) - PIXEL, x))
    dx = jnp.where(hit, -(dx + FASTER), dx)
    vy = vy + jnp.where(by_player, 2 * state.velocity, 0)
    vy = vy + jnp.where(hit, draws * np.float32(0.001) - np.float32(0.0005), 0)

    at_top, at_bottom = y - 1 <= 0, y + 1 >= HEIGHT
    vy = jnp.where(at_top | at_bottom, vy * np.float32(-0.99), vy)
    y = y + at_top - at_bottom
    return state._replace(ball_x=x, ball_y=y, ball_dx=dx, ball_vy=vy)


def _paddles_moved(state: State, action: jax.Array) -> State:
    push = (action == 1).astype(jnp.float32) - (action == 0).astype(jnp.float32)
    velocity = (state.velocity + np.float32(PUSH) * push) * np.float32(FRICTION)
    y = state.y + velocity
    low, high = np.float32(HALF_PADDLE), np.float32(HEIGHT - HALF_PADDLE)
    velocity = jnp.where((y <= low) | (y >= high), 0, velocity)
    y = jnp.clip(y, low, high)

    follows = (state.ball_dx >= 0) & (state.ball_x >= MIDDLE_X)
    above_ball = state.opponent_y.astype(jnp.float32) / PIXEL <= state.ball_y
    down = jnp.where(follows, above_ball, state.opponent_y <= MIDDLE_Y)
    pace = jnp.where(follows, FOLLOW, RETURN)
    opponent_y = jnp.clip(state.opponent_y, LOWEST, HIGHEST) + jnp.where(down, pace, -pace)
    return state._replace(y=y, velocity=velocity, opponent_y=opponent_y)

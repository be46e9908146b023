"""Players of the MinAtar games, from the picture alone: good enough to reach what random play never sees.

A player has `act(picture) -> one of the six actions`, where picture is bool [10, 10, channels].
"""

from __future__ import annotations

import numpy as np

from greedystep.envs.minatar.common import LEFT, NONE, RIGHT


class Random:
    """Any of the six actions, held for a few steps now and then."""

    def __init__(self, seed: int = 0, hold: float = 0.0) -> None:
        self.random = np.random.default_rng(seed)
        self.hold = hold
        self.action = NONE

    def act(self, picture: np.ndarray) -> int:
        if self.random.random() >= self.hold:
            self.action = int(self.random.integers(6))
        return self.action


class Careless:
    """Another player, with a random action now and then."""

    def __init__(self, player, slips: float, seed: int = 0) -> None:
        self.player, self.slips = player, slips
        self.random = np.random.default_rng(seed)

    def act(self, picture: np.ndarray) -> int:
        action = self.player.act(picture)
        return int(self.random.integers(6)) if self.random.random() < self.slips else action


class Breakout:
    """Keeps track of the ball's way and waits where it will come down, under its old or its new column by chance."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.dx = self.dy = 1
        self.beside = 0

    def act(self, picture: np.ndarray) -> int:
        paddle = int(np.argmax(picture[9, :, 0]))
        (y, x), (was_y, was_x) = (np.argwhere(picture[:, :, channel])[0] for channel in (1, 2))
        if (y, x) == (was_y, was_x):  # the first picture
            self.dx, self.dy = (1 if x == 0 else -1), 1
        else:  # a ball that kept its row or column has turned round
            self.dx = int(np.sign(x - was_x)) or -self.dx
            self.dy = int(np.sign(y - was_y)) or -self.dy
        if self.dy < 0:
            self.beside = int(self.random.random() < 0.5)
            return _towards(paddle, 4 + int(self.random.random() < 0.5))
        return _towards(paddle, self._column(x, self.dx, 8 - y + self.beside))

    @staticmethod
    def _column(x: int, dx: int, steps: int) -> int:
        """Where the ball is after that many steps in the free."""
        for _ in range(steps):
            if not 0 <= x + dx <= 9:
                dx = -dx
            else:
                x += dx
        return x


def _towards(x: int, aim: int) -> int:
    return RIGHT if aim > x else LEFT if aim < x else NONE

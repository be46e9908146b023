"""Players of the MinAtar games, from the picture alone: good enough to reach what random play never sees.

A player has `act(picture) -> one of the six actions`, where picture is bool [10, 10, channels].
"""

from __future__ import annotations

import numpy as np

from greedystep.envs.minatar import DOWN, FIRE, LEFT, NONE, RIGHT, UP


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
    """Keeps track of the ball's way and waits where it will come down, under its old or its new column by chance.

    With `satisfied`, it lets the ball go once the wall is down.
    """

    def __init__(self, seed: int = 0, satisfied: bool = False) -> None:
        self.satisfied = satisfied
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
        aim = self._column(x, self.dx, 8 - y + self.beside)
        if self.satisfied and not picture[:, :, 3].any():
            return LEFT if aim > 4 else RIGHT
        return _towards(paddle, aim)

    @staticmethod
    def _column(x: int, dx: int, steps: int) -> int:
        """Where the ball is after that many steps in the free."""
        for _ in range(steps):
            if not 0 <= x + dx <= 9:
                dx = -dx
            else:
                x += dx
        return x


class Asterix:
    """Looks ahead `DEPTH` steps, as if no newcomers came: away from enemies and borders, towards gold.

    When the objects will move it learns from their last two moves.
    """

    DEPTH = 9
    MOVES = ((NONE, 0, 0), (LEFT, 0, -1), (RIGHT, 0, 1), (UP, -1, 0), (DOWN, 1, 0))

    def __init__(self, seed: int = 0) -> None:
        self.seen = np.zeros((10, 10), bool)
        self.since, self.period = 0, 5

    def act(self, picture: np.ndarray) -> int:
        player, enemy, trail, gold = np.moveaxis(picture, -1, 0)
        objects = enemy | gold
        self.since += 1
        if (self.seen[1:9, 1:9] & ~objects[1:9, 1:9] & ~player[1:9, 1:9]).any():
            self.period, self.since = min(self.since, 5), 0
        self.seen = objects
        value = self._values(enemy, gold, trail)
        (y, x) = np.argwhere(player)[0]
        return max(self.MOVES, key=lambda move: value[1 + y + move[1], 1 + x + move[2]])[0]

    def _values(self, enemy: np.ndarray, gold: np.ndarray, trail: np.ndarray) -> np.ndarray:
        """Of being in each cell after the next step; with a frame of bad cells around the board."""
        objects = enemy | gold
        behind = np.zeros_like(objects)
        behind[:, 1:] = trail[:, :-1]
        right = objects & (behind | (np.arange(10) == 0))  # a fresh object has no trail
        scenes = []
        for ahead in range(self.DEPTH):
            before = enemy
            if (self.since + 1 + ahead) % self.period == 0:
                enemy = _shift(enemy & right, 1) | _shift(enemy & ~right, -1)
                gold = _shift(gold & right, 1) | _shift(gold & ~right, -1)
                right = _shift(right, 1)
            scenes.append((before | enemy, gold))
        value = np.full((12, 12), -2.0)
        value[2:10, 1:11] = 0
        comfort = np.zeros((10, 10))
        comfort[:, [0, 9]] = -0.4  # where newcomers appear
        comfort[:, [1, 8]] = -0.2  # and where they are next
        for danger, gain in reversed(scenes):
            best = np.max([value[1 + dy : 11 + dy, 1 + dx : 11 + dx] for _, dy, dx in self.MOVES], axis=0)
            now = np.where(danger, -1.0, comfort + gain + 0.9 * np.maximum(best, -1))
            now[[0, 9]] = -2
            value[1:11, 1:11] = now
        return value


class Freeway:
    """Goes up whenever the car of the next row stays away from it for as long as it will be there."""

    def act(self, picture: np.ndarray) -> int:
        y = int(np.argmax(picture[:, 4, 0]))
        return NONE if y > 1 and self._risky(picture[y - 1]) else UP

    @staticmethod
    def _risky(row: np.ndarray) -> bool:
        """Whether its car may reach column 4 within three steps; row is [10, channels]."""
        x = int(np.argmax(row[:, 1]))
        behind, speed = (int(place) for place in np.argwhere(row[:, 2:])[0])
        way = (4 - x) if (behind + 1) % 10 == x else (x - 4)
        return 0 <= way % 10 <= (2 if speed == 0 else 1)


class Seaquest:
    """Keeps out of the way of what swims and flies, shoots what is in its row, collects divers, and surfaces for air.

    After a full rescue surfacing is free, and with `bobs` it then goes up and down below the surface, until the sea is
    as full as it gets.
    """

    MOVES = ((FIRE, 0, 0), (NONE, 0, 0), (LEFT, 0, -1), (RIGHT, 0, 1), (UP, -1, 0), (DOWN, 1, 0))

    def __init__(self, seed: int = 0, bobs: bool = True) -> None:
        self.random = np.random.default_rng(seed)
        self.bobs = bobs
        self.free = self.full = False
        self.row = 0

    def act(self, picture: np.ndarray) -> int:
        player, back, _, trail, torpedo, fish, sub, air, aboard, diver = np.moveaxis(picture, -1, 0)
        (y, x), looks_right = np.argwhere(player)[0], bool(_shift(back, 1)[player][0])
        divers, tenths = int(aboard.sum()), int(air.sum())
        if picture.sum() == 12:  # the player's two cells and the air: a new game
            self.free = False
        elif y == 0 < self.row and self.full:
            self.free = self.bobs
        self.full, self.row = divers == 6, int(y)

        risky = self._risky(torpedo, fish, sub, trail)
        aim = self._aim(y, x, divers, tenths, diver)
        target = (fish | sub)[y, x + 1 :] if looks_right else (fish | sub)[y, :x]

        def value(move: tuple[int, int, int]) -> float:
            action, dy, dx = move
            to_y, to_x = int(np.clip(y + dy, 0, 8)), int(np.clip(x + dx, 0, 9))
            deadly = risky[to_y, to_x] or (to_y == 0 < y and divers == 0 and not self.free)
            comfort = 2.5 * (action == FIRE and target.any()) - 3 * (to_x in (0, 9)) - 100 * deadly
            return comfort - abs(to_y - aim[0]) - abs(to_x - aim[1]) + 0.1 * self.random.random()

        return max(self.MOVES, key=value)[0]

    def _aim(self, y: int, x: int, divers: int, tenths: int, diver: np.ndarray) -> tuple[int, int]:
        if self.free:
            return (0 if y > 0 else 1), 5
        if divers == 6 or (divers > 0 and tenths <= 2):
            return 0, x
        if diver.any():
            row, column = min(np.argwhere(diver).tolist(), key=lambda place: abs(place[0] - y) + abs(place[1] - x))
            return row, column
        return 4, 5

    @staticmethod
    def _risky(torpedo: np.ndarray, fish: np.ndarray, sub: np.ndarray, trail: np.ndarray) -> np.ndarray:
        """Cells that something may be in, or come into, in the next step."""
        risky = torpedo | _shift(torpedo, 1) | _shift(torpedo, -1)
        enemies = fish | sub
        for way in (1, -1):
            going = enemies & (_shift(trail, way) | (np.arange(10) == (0 if way > 0 else 9)))
            risky |= going | _shift(going, way) | _shift(_shift(going & sub, way), way)
        return risky


class SpaceInvaders:
    """Dodges bullets and goes where a shot will soonest hit, if the aliens go on as they did."""

    AHEAD = 16

    def __init__(self, seed: int = 0) -> None:
        self.aliens = np.zeros((10, 10), bool)
        self.since, self.period, self.cool = 0, 12, 0

    def act(self, picture: np.ndarray) -> int:
        x = int(np.argmax(picture[9, :, 0]))
        aliens, bomb = picture[:, :, 1], picture[:, :, 5]
        self.since += 1
        if (aliens & ~self.aliens).any():
            if self.aliens.sum() >= 12:
                self.period = min(self.since, 12)
            self.since = 0
        self.aliens = aliens
        self.cool = 4 if picture[8, :, 4].any() else max(self.cool - 1, 0)

        deadly = picture[9, :, 1].copy()
        if bomb.any():
            bomb_y, bomb_x = np.argwhere(bomb)[0]
            deadly[bomb_x] |= bomb_y >= 6
        wish = self._wish(x, picture)
        for action in (wish, LEFT, RIGHT) if x > 4 else (wish, RIGHT, LEFT):
            if not deadly[np.clip(x + (action == RIGHT) - (action == LEFT), 0, 9)]:
                return action
        return NONE

    def targets(self, aliens: np.ndarray) -> np.ndarray:
        """The aliens to shoot at."""
        return aliens

    def stroll(self, aliens: np.ndarray) -> int:
        """The column to be in when there is nothing to shoot at."""
        return int(np.argmax(aliens.sum(0)))

    def _wish(self, x: int, picture: np.ndarray) -> int:
        scenes = self._scenes(picture)
        best, aim = self.AHEAD - 1, None
        for column in range(10):
            for wait in range(max(abs(column - x), self.cool), best):
                path = [scenes[wait + n][8 - n, column] for n in range(min(9, self.AHEAD - wait))]
                if next((target for alien, target in path if alien), False):
                    best, aim = wait, column
                    break
        if aim is None:
            return _towards(x, self.stroll(picture[:, :, 1]))
        return FIRE if best == 0 else _towards(x, aim)

    def _scenes(self, picture: np.ndarray) -> list[np.ndarray]:
        """The aliens, and the targets among them, after each of the next steps: [10, 10, 2]."""
        aliens, right = picture[:, :, 1], picture[:, :, 3].any()
        period = min(int(aliens.sum()), self.period)
        timer = max(period - 1 - self.since, 0)
        scene = np.stack([aliens, self.targets(aliens)], axis=-1)
        scenes = []
        for _ in range(self.AHEAD):
            if timer == 0:
                timer = period
                if scene[:, 9 if right else 0, 0].any():
                    scene, right = np.roll(scene, 1, axis=0), not right
                else:
                    scene = np.roll(scene, 1 if right else -1, axis=1)
            timer -= 1
            scenes.append(scene)
        return scenes


class BesiegedSpaceInvaders(SpaceInvaders):
    """Lets the aliens land: spares the left column and the top of the right one, and lives between them.

    So the aliens reach the last row beside the cannon and end the game at the border, or when the cannon rams one. Now
    and then the columns are an even number apart, so that the cannon may be as near to one as to the other.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = np.random.default_rng(seed)
        self.apart, self.place, self.rams = 5, 0.5, False

    def act(self, picture: np.ndarray) -> int:
        if picture[:, :, 1].sum() == 24 and not picture[:, :, 4].any():
            self.apart, self.rams = int(self.random.integers(4, 6)), bool(self.random.integers(2))
        if self.random.random() < 0.05:
            self.place = self.random.random()
        x = int(np.argmax(picture[9, :, 0]))
        if self.rams and picture[9, :x, 1].any() and self.random.random() < 0.7:
            return LEFT if not picture[9, x - 1, 1] or self.random.random() < 0.3 else NONE
        return super().act(picture)

    def targets(self, aliens: np.ndarray) -> np.ndarray:
        left, right = self._borders(aliens)
        chosen = aliens.copy()
        chosen[:, left] = False
        if right - left <= self.apart:
            chosen[np.argmax(aliens[:, right]), right] = False
        return chosen

    def stroll(self, aliens: np.ndarray) -> int:
        left, right = self._borders(aliens)
        return left + 1 + int(self.place * max(right - left - 1, 1))

    @staticmethod
    def _borders(aliens: np.ndarray) -> tuple[int, int]:
        columns = np.flatnonzero(aliens.any(0))
        return int(columns[0]), int(columns[-1])


def _shift(board: np.ndarray, columns: int) -> np.ndarray:
    """What leaves the board is gone."""
    moved = np.roll(board, columns, axis=1)
    moved[:, 0 if columns > 0 else -1] = False
    return moved


def _towards(x: int, aim: int) -> int:
    return RIGHT if aim > x else LEFT if aim < x else NONE

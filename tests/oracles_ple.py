"""The three PLE games once more, in plain Python: float64, lists of things, one rule after the other as the rules go.

Each game takes the same random choices as the fast one (whatever the test hands it) and answers `step` with reward and
end. `closest` is the smallest distance by which a comparison of two random real numbers was decided in the last step:
below it, an implementation in float32 may rightly decide otherwise. `adopt` replaces the real numbers by those of an
observation, so that every step can be compared on its own, without the drift of the steps before.
"""

import math
from fractions import Fraction

DT = 1000.0 / 30


def whole(number, rounding):
    """What pygame makes of a coordinate."""
    if rounding == "truncate":
        return math.trunc(number)
    return math.floor(number + 0.5) if number >= 0 else math.ceil(number - 0.5)


def half_distance(number, rounding):
    """How far a number is from where `whole` jumps."""
    shifted = number if rounding == "truncate" else number + 0.5
    return abs(shifted - round(shifted))


class Rect:
    """A pygame rectangle from its centre, which must be whole."""

    def __init__(self, centre_x, centre_y, width, height):
        self.left, self.top = centre_x - width // 2, centre_y - height // 2
        self.right, self.bottom = self.left + width, self.top + height

    def shares_columns(self, other):
        return self.left < other.right and other.left < self.right

    def overlaps(self, other):
        return self.shares_columns(other) and self.top < other.bottom and other.top < self.bottom


class Catcher:
    """fruit: (x, y) of a new fruit."""

    def __init__(self, fruit, rounding):
        self.rounding = rounding
        self.x, self.velocity = whole(64 / 2 - 13 / 2, rounding), 0.0
        self.fruit_x, self.fruit_y = fruit
        self.lives = 3
        self.closest = math.inf

    def step(self, action, fruit):
        self.closest = math.inf
        reward = 0
        if self.fruit_y >= 64:
            reward -= 1
            self.lives -= 1
            self.fruit_x, self.fruit_y = fruit
        if Rect(self.x, 58, 13, 3).overlaps(Rect(self.fruit_x, self.fruit_y, 4, 4)):
            reward += 1
            self.fruit_x, self.fruit_y = fruit
        push = {0: -0.021 * 64, 1: 0.021 * 64, 2: 0.0}[action]
        self.velocity = (self.velocity + push) * 0.9
        x = self.x + self.velocity
        if action != 2 or abs(self.velocity) > 1e-3:  # a velocity that only fades keeps its sign, however small
            self.closest = min(half_distance(x, self.rounding), abs(x), abs(x + 13 - 64))
        if x <= 0:
            x, self.velocity = 0, 0.0
        if x + 13 >= 64:
            x, self.velocity = 64 - 13, 0.0
        self.x = whole(x, self.rounding)
        self.fruit_y = whole(self.fruit_y + 0.00095 * 64 * DT, self.rounding)
        if self.lives == 0:
            reward -= 5
        return reward, self.lives == 0

    def observe(self):
        return [(self.x - 26) / 26, self.velocity / 8, (self.fruit_x - 26) / 26, (self.fruit_y - 20) / 45]

    def adopt(self, seen):
        self.velocity = float(seen[1]) * 8


class Cave:
    """The terrain: a list of [x, start, batch]; heights are somebody else's."""

    def __init__(self):
        self.pieces = []
        self.batches = 0
        self._add(0)

    def _add(self, begin):
        self.pieces += [[float(begin + 2 + 4 * i), begin + 2 + 4 * i, self.batches] for i in range(48)]
        self.batches += 1

    def move(self):
        for piece in self.pieces:
            piece[0] -= 0.0004 * 48 * DT

    def remove(self):
        """How many pieces have left the screen."""
        staying = [piece for piece in self.pieces if piece[0] > -4]
        removed = len(self.pieces) - len(staying)
        self.pieces = staying
        return removed

    def refill(self):
        """Whether a batch was added."""
        if len(self.pieces) > 13:
            return False
        self._add(48)
        return True


def removal_steps(last):
    """The steps 1 .. last in which a piece of the cave goes, and those in which a batch comes."""
    cave, gone, filled = Cave(), [], []
    for step in range(1, last + 1):
        cave.move()
        gone += [step] * cave.remove()
        filled += [step] * cave.refill()
    return gone, filled


class Pixelcopter:
    """block: (x, y) of a block. height(start, batch) -> 24 + 6 sin(...) of that piece, before it is made whole."""

    def __init__(self, block, height, rounding):
        self.rounding = rounding
        self.y, self.momentum = 24.0, 0.0
        self.blocks = [[float(block[0]), block[1]]]
        self.height = height
        self.cave = Cave()
        self.lives = 1
        self.closest = math.inf

    def _player(self):
        return Rect(16, whole(self.y, self.rounding), 2, 2)

    def _touching(self):
        """The heights of the pieces that the player overlaps, oldest first."""
        found = []
        for x, start, batch in self.cave.pieces:
            column = whole(x, self.rounding)
            if Rect(column, 0, 4, 72).shares_columns(self._player()):
                height = self.height(start, batch)
                # int() jumps at 19 .. 29; the sine only touches 18 and 30.
                self.closest = min(self.closest, *(abs(height - jump) for jump in range(19, 30)))
                if Rect(column, int(height), 4, 72).overlaps(self._player()):
                    found.append(int(height))
        return found

    def step(self, action, block):
        self.closest = math.inf
        reward = 0
        self.momentum += (0.0192 * -0.875 if action == 0 else 0.0192 * 0.09) * DT
        self.momentum *= 0.99
        self.y += self.momentum
        for b in self.blocks:
            b[0] -= 0.0004 * 48 * DT
        self.cave.move()

        for x, y in self.blocks:
            column = whole(x, self.rounding)
            if 10 < column < 22:
                self.closest = min(self.closest, half_distance(self.y, self.rounding))
            if Rect(column, y, 4, 9).overlaps(self._player()):
                self.lives -= 1
        for height in self._touching():
            self.closest = min(self.closest, abs(self.y - 2.4 - height + 12), abs(self.y - height - 12))
            if self.y - 2.4 <= height - 12:
                self.lives -= 1
            if self.y >= height + 12:
                self.lives -= 1
        for b in list(self.blocks):
            if b[0] <= 16 and len(self.blocks) == 1:
                reward += 1
                self.blocks.append([float(block[0]), block[1]])
            if b[0] <= -4:
                self.blocks.remove(b)
        reward += self.cave.remove()
        self.closest = min(self.closest, abs(self.y - 6), abs(self.y - 42))
        if self.y < 6:
            self.lives -= 1
        if self.y > 42:
            self.lives -= 1
        self.cave.refill()
        if self.lives <= 0:
            reward -= 5
        return reward, self.lives <= 0

    def observe(self):
        height = self._touching()[0]
        distance, y = min((x - 16, y) for x, y in self.blocks if x - 16 > 0)
        return [self.y, self.momentum, self.y - (height - 12), (height + 12) - self.y, distance, y, y + 9]

    def adopt(self, seen):
        self.y, self.momentum = float(seen[0]), float(seen[1])


class Pong:
    """start: (right, uniform). Numbers that never meet chance are exact fractions, where the original's float64 decides
    ties by its rounding errors; number=float does as the original."""

    def __init__(self, start, number=Fraction):
        self.number = number
        self.second = number(1) / 30
        self.previous = None
        self.agent_y, self.agent_v = 24.0, 0.0
        self.cpu_y = self.number(24)
        self.x, self.y = self.number(32), 24.0
        self._serve(1 if start[0] else -1, start[1])
        self.previous = (self.x, self.y)
        self.points = {"agent": 0, "cpu": 0}
        self.closest = math.inf

    def _serve(self, direction, uniform):
        self.x = self.number(32)
        self.vx = self.number(36) * direction
        self.vy = uniform * 36.0 - 18.0

    def _near(self, left, right):
        self.closest = min(self.closest, abs(float(left) - float(right)))

    def _crosses(self, wall_x, middle):
        """Whether the ball's way from the previous position meets {wall_x} x [middle - 3.5, middle + 3.5]."""
        (from_x, from_y), to_x, to_y = self.previous, self.x, self.y  # pyright: ignore[reportGeneralTypeIssues]
        share = (wall_x - from_x) / (to_x - from_x)
        if not 0 <= share <= 1:
            return False
        y = from_y + float(share) * (to_y - from_y)
        self._near(y, middle - 3.5)
        self._near(y, middle + 3.5)
        return middle - 3.5 <= y <= middle + 3.5

    def step(self, action, uniform):
        self.closest = math.inf
        self.x += self.vx * self.second
        self.y += self.vy * float(self.second)
        half, extra = self.number(1) / 2, self.number(9) / 5
        hit = False
        if self.x <= 5 and self._crosses(4 + half, self.agent_y):
            self.x = max(self.number(0), self.x)
            self.vx = -(self.vx + extra)
            self.vy += self.agent_v * 2.0
            self.x += 1
            hit = True
        if self.x >= 59 and self._crosses(60 - half, float(self.cpu_y)):
            self.x = min(self.number(64), self.x)
            self.vx = -(self.vx + extra)
            self.x -= 1
            hit = True
        if hit:
            self.vy += uniform * 0.001 - 0.0005
        self._near(self.y, 1)
        self._near(self.y, 47)
        if self.y - 1 <= 0:
            self.vy *= -0.99
            self.y += 1.0
        if self.y + 1 >= 48:
            self.vy *= -0.99
            self.y -= 1.0
        self.previous = (self.x, self.y)

        reward, point = 0, False
        if self.x <= 0:
            reward -= 1
            self.points["cpu"] += 1
            self._serve(-1, uniform)
            point = True
        if self.x >= 64:
            reward += 1
            self.points["agent"] += 1
            self._serve(1, uniform)
            point = True
        if point:
            reward += 5 * (self.points["agent"] == 11) - 5 * (self.points["cpu"] == 11)
        else:
            self._move_agent({0: -0.4 * 48, 1: 0.4 * 48, 2: 0.0}[action])
            self._move_cpu()
        return reward, 11 in self.points.values()

    def _move_agent(self, dy):
        self.agent_v = (self.agent_v + dy * float(self.second)) * 0.9
        self.agent_y += self.agent_v
        if self.agent_v != 0:
            self._near(self.agent_y, 3.5)
            self._near(self.agent_y, 44.5)
        if self.agent_y - 3.5 <= 0:
            self.agent_y, self.agent_v = 3.5, 0.0
        if self.agent_y + 3.5 >= 48:
            self.agent_y, self.agent_v = 44.5, 0.0

    def _move_cpu(self):
        speed = self.number(48) * 3 / 5
        if self.vx >= 0 and self.x >= 32:
            self._near(self.cpu_y, self.y)
            dy = -speed if self.cpu_y > self.y else speed
        else:
            dy = -speed / 4 if self.cpu_y > 24 else speed / 4
        half = self.number(7) / 2
        if self.cpu_y - half <= 0:
            self.cpu_y = half
        if self.cpu_y + half >= 48:
            self.cpu_y = 48 - half
        self.cpu_y += dy * self.second

    def observe(self):
        numbers = [self.agent_y, self.agent_v, self.cpu_y, self.x, self.y, self.vx, self.vy]
        return [float(number) for number in numbers]

    def adopt(self, seen):
        self.agent_y, self.agent_v, self.y, self.vy = (float(seen[i]) for i in (0, 1, 4, 6))
        self.previous = (self.previous[0], self.y)

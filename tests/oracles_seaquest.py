"""Seaquest with lists of objects and loops over them, rule by rule: slow and obvious.

`Game.step` follows the numbered order of the rules. Nothing is bounded here; `encode` writes a game in the masks of our
`Position`, and fails where they cannot hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from greedystep.envs.minatar.seaquest import Position

LEFT, UP, RIGHT, DOWN, FIRE = 1, 2, 3, 4, 5


@dataclass(eq=False)
class Thing:
    """A diver, a fish, a submarine, a shot or a torpedo."""

    x: int
    y: int
    step: int
    """-1 or 1: the way it goes."""
    timer: int = 0
    fire_timer: int = 0

    @property
    def cell(self) -> tuple[int, int]:
        return self.x, self.y

    @property
    def on_board(self) -> bool:
        return 0 <= self.x <= 9


@dataclass
class Game:
    """Lists are in the order of birth."""

    ramping: bool = True
    old_air: bool = False
    """The rule of version 1.0.10."""
    x: int = 5
    y: int = 0
    looks: int = -1
    air: int = 200
    aboard: int = 0
    at_surface: bool = True
    shots: list[Thing] = field(default_factory=list)
    torpedoes: list[Thing] = field(default_factory=list)
    fish: list[Thing] = field(default_factory=list)
    subs: list[Thing] = field(default_factory=list)
    divers: list[Thing] = field(default_factory=list)
    period: int = 20
    wait: int = 5
    enemy_timer: int = 20
    diver_timer: int = 30
    shot_timer: int = 0
    ramps: int = 0
    steps: int = 0
    """Since the beginning; no rule reads it."""
    reward: int = 0
    over: bool = False

    def step(self, chance: Any, action: int) -> tuple[int, bool]:
        """-> reward, terminated."""
        self.reward, self.over = 0, False
        self.enemies_come(chance)
        self.divers_come(chance)
        self.player_acts(action)
        for shot in list(self.shots):
            self.shot_flies(shot)
        for diver in reversed(list(self.divers)):
            self.diver_swims(diver)
        for sub in list(self.subs):
            self.enemy_moves(sub, self.subs)
            self.sub_fires(sub)
        for torpedo in list(self.torpedoes):
            self.touch(torpedo)
            torpedo.x += torpedo.step
            if torpedo.on_board:
                self.touch(torpedo)
            else:
                self.torpedoes.remove(torpedo)
        for fish in list(self.fish):
            self.enemy_moves(fish, self.fish)
        self.enemy_timer -= self.enemy_timer > 0
        self.diver_timer -= self.diver_timer > 0
        self.shot_timer -= self.shot_timer > 0
        if self.air < 0 or (self.air == 0 and not self.old_air):
            self.over = True
        if self.y > 0:
            self.air -= 1
            self.at_surface = False
        elif not self.at_surface:
            if self.aboard == 0:
                self.over = True
            else:
                self.surface()
        self.steps += 1
        return self.reward, self.over

    def enemies_come(self, chance: Any) -> None:
        if self.enemy_timer > 0:
            return
        self.enemy_timer = self.period
        step, row = (1 if chance.enemy_right else -1), int(chance.enemy_row)
        if any(other.y == row and other.step != step for other in self.fish + self.subs):
            return
        enemy = Thing(0 if step > 0 else 9, row, step, self.wait, 10)
        (self.subs if chance.enemy_sub else self.fish).append(enemy)

    def divers_come(self, chance: Any) -> None:
        if self.diver_timer == 0:
            step = 1 if chance.diver_right else -1
            self.divers.append(Thing(0 if step > 0 else 9, int(chance.diver_row), step, 5))
            self.diver_timer = 30

    def player_acts(self, action: int) -> None:
        if action == FIRE and self.shot_timer == 0:
            self.shots.append(Thing(self.x, self.y, self.looks))
            self.shot_timer = 5
        if action in (LEFT, RIGHT):
            self.looks = -1 if action == LEFT else 1
            self.x = min(max(self.x + self.looks, 0), 9)
        if action == UP:
            self.y = max(self.y - 1, 0)
        if action == DOWN:
            self.y = min(self.y + 1, 8)

    def shot_flies(self, shot: Thing) -> None:
        shot.x += shot.step
        if not shot.on_board:
            self.shots.remove(shot)
            return
        for enemies in (self.fish, self.subs):
            met = [enemy for enemy in enemies if enemy.cell == shot.cell]
            if met:
                enemies.remove(met[0])
                self.shots.remove(shot)
                self.reward += 1
                return

    def diver_swims(self, diver: Thing) -> None:
        if self.take(diver):
            return
        if diver.timer > 0:
            diver.timer -= 1
            return
        diver.timer = 5
        diver.x += diver.step
        if not diver.on_board:
            self.divers.remove(diver)
        else:
            self.take(diver)

    def take(self, diver: Thing) -> bool:
        here = diver.cell == (self.x, self.y) and self.aboard < 6
        if here:
            self.divers.remove(diver)
            self.aboard += 1
        return here

    def enemy_moves(self, enemy: Thing, kind: list[Thing]) -> None:
        self.touch(enemy)
        if enemy.timer > 0:
            enemy.timer -= 1
            return
        enemy.timer = self.wait
        enemy.x += enemy.step
        if not enemy.on_board:
            kind.remove(enemy)
            return
        if self.touch(enemy):
            return
        for shot in self.shots:
            if shot.cell == enemy.cell:
                self.shots.remove(shot)
                kind.remove(enemy)
                self.reward += 1
                return

    def touch(self, thing: Thing) -> bool:
        here = thing.cell == (self.x, self.y)
        self.over |= here
        return here

    def sub_fires(self, sub: Thing) -> None:
        """Also one that has just been shot or has left the board."""
        if sub.fire_timer > 0:
            sub.fire_timer -= 1
            return
        sub.fire_timer = 10
        self.torpedoes.append(Thing(sub.x, sub.y, sub.step))

    def surface(self) -> None:
        self.at_surface = True
        if self.aboard == 6:
            self.reward += self.air // 20
            self.aboard = 0
        self.air = 200
        self.aboard -= 1
        if self.ramping and (self.period > 1 or self.wait > 2):
            if self.wait > 2 and self.ramps % 2 == 1:
                self.wait -= 1
            if self.period > 1:
                self.period -= 1
            self.ramps += 1

    def picture(self) -> np.ndarray:
        picture = np.zeros((10, 10, 10), bool)
        picture[self.y, self.x, 0] = True
        picture[self.y, self.x - self.looks, 1] = True
        for channel, things in ((2, self.shots), (4, self.torpedoes), (5, self.fish), (6, self.subs), (9, self.divers)):
            for thing in things:
                picture[thing.y, thing.x, channel] = True
                behind = thing.x - thing.step
                if channel > 4 and 0 <= behind <= 9:
                    picture[thing.y, behind, 3] = True
        bar = self.air // 20 if self.old_air else max(self.air, 0) // 20
        picture[9, : 9 if bar < 0 else bar, 7] = True
        picture[9, 9 - max(self.aboard, 0) : 9, 8] = True
        return picture


def encode(game: Game) -> Position:
    """The game in our masks. The clock is free to choose, and here the number of steps so far gives it."""
    clock = game.steps % 11 + 1
    schedules = np.zeros((2, 4, 10), np.uint32)
    rightward = np.zeros(10, bool)
    for kind in (game.fish, game.subs):
        for enemy in kind:
            # Its torpedo leaves `fire_timer` steps from now.
            code = 15 if kind is game.fish else (clock - 1 + enemy.fire_timer) % 11 + 1
            place = np.uint32(1 << 10 * (enemy.timer % 3) + enemy.x)
            masks = schedules[enemy.timer // 3, :, enemy.y]
            assert not (masks & place).any(), f"two enemies of a cell move at once: {game}"
            masks |= np.where(code >> np.arange(4) & 1, place, 0).astype(np.uint32)
            rightward[enemy.y] = enemy.step > 0
    flights = np.zeros((2, 10), np.uint32)
    for flight, things in zip(flights, (game.shots, game.torpedoes), strict=True):
        for thing in things:
            flight[thing.y] |= np.uint32(1 << thing.x + (0 if thing.step > 0 else 16))
    newer, older = 0, 0
    for diver in game.divers:
        swum = diver.x if diver.step > 0 else 9 - diver.x
        word = diver.y + 16 * (diver.step > 0)
        progress = (30 - game.diver_timer) // 6
        assert swum in (progress, progress + 5), f"a diver out of step: {game}"
        newer, older = (word, older) if swum == progress else (newer, word)
    return Position(
        x=game.x,
        y=game.y,
        right=game.looks > 0,
        at_surface=game.at_surface,
        air=game.air,
        aboard=game.aboard,
        near=schedules[0],
        far=schedules[1],
        rightward=rightward,
        shots=flights[0],
        torpedoes=flights[1],
        newer=newer,
        older=older,
        enemy_timer=game.enemy_timer,
        diver_timer=game.diver_timer,
        shot_timer=game.shot_timer,
        clock=clock,
        ramp=game.ramps,
    )

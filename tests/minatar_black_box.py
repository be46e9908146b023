"""Plays one of our games and the original `minatar` package side by side, with the same chance, and compares them.

The original is a black box: it is made, reset, acted in and looked at, and its two random streams (`Environment.random`
for sticky actions, `Environment.env.random` for the game) are replaced by a `Script` of what we drew. The script knows
in which order the original asks, by which method and for which range, and fails on any other question.

A game plugs in with an entry of `GAMES`: the questions of a reset and of a step, as functions of our draws. Questions
of a step come in groups, since not every step asks all of them; a group is asked whole or not at all.

`Match` plays; `tests/minatar_players.py` has the players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import minatar
import numpy as np

from greedystep import envs
from greedystep.envs.core import AutoReset

# -- questions and answers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One question that the original may ask its random stream, and the answer."""

    method: str
    low: int
    high: int | None
    """Answers are low .. high - 1; None: the original chooses, in 1..8, and `answer` is a function of its choice."""
    size: int | None
    answer: Any


def uniform(true: bool, probability: float = 0.5) -> Asked:
    """A number in [0, 1) that is below the probability, or is not."""
    if true:
        assert probability > 0, "nothing is below 0"
    return Asked("rand", 0, 1, None, probability / 2 if true else (1 + probability) / 2)


def uniforms(above: np.ndarray) -> Asked:
    """Numbers that are above 1/2, or below it."""
    return Asked("rand", 0, 1, len(above), np.where(above, 0.75, 0.25))


def integer(low: int, high: int, answer: int) -> Asked:
    return Asked("randint", low, high, None, int(answer))


def integers(low: int, high: int, answers: np.ndarray) -> Asked:
    return Asked("randint", low, high, len(answers), np.asarray(answers, dtype=int))


def integer_below(answer: Callable[[int], int]) -> Asked:
    """An integer in 0 .. n - 1, where the original says n."""
    return Asked("randint", 0, None, None, answer)


class Script:
    """Stands in for a `numpy.random.RandomState`."""

    def __init__(self) -> None:
        self.groups: list[list[Asked]] = []
        self.open: list[Asked] = []
        self.asked = 0
        """Questions so far, over the whole life."""

    def expect(self, groups: list[list[Asked]]) -> None:
        """What may be asked from now on; what has begun must have been finished."""
        assert not self.open, f"the original left questions of a group unasked: {self.open}"
        self.groups = [list(group) for group in groups]

    def finish(self, all_groups: bool) -> None:
        """Nothing may be asked from now on."""
        assert not (all_groups and self.groups), f"the original left groups unasked: {self.groups}"
        self.expect([])

    def rand(self, size: int | None = None) -> Any:
        return self._answer("rand", 0, 1, size)

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        if high is None:
            low, high = 0, low
        return self._answer("randint", low, high, size)

    def _answer(self, method: str, low: int, high: int, size: int | None) -> Any:
        call = f"{method} of {low}..{high} x {size}"
        if not self.open:  # the first group that begins like this; groups passed over are not asked in this step
            while self.groups and not self._fits(self.groups[0][0], method, low, high, size):
                self.groups.pop(0)
            assert self.groups, f"the original asked for {call}, and no group that is left begins so"
            self.open = self.groups.pop(0)
        question = self.open.pop(0)
        assert self._fits(question, method, low, high, size), f"the original asked for {call}, not {question}"
        self.asked += 1
        if question.high is not None:
            return question.answer
        answer = question.answer(high)
        assert 0 <= answer < high, f"{answer} is not in 0..{high - 1}"
        return answer

    @staticmethod
    def _fits(question: Asked, method: str, low: int, high: int, size: int | None) -> bool:
        in_range = 1 <= high <= 8 if question.high is None else high == question.high
        return (question.method, question.low, question.size) == (method, low, size) and in_range


# -- the games ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Questions:
    """What the original asks, as functions of our draws of one reset or one step, as NumPy values."""

    of_start: Callable[[Any], list[list[Asked]]] = lambda draws: []
    of_step: Callable[[Any], list[list[Asked]]] = lambda chance: []
    timers: type[SeaquestTimers] | None = None
    """Says which groups a step asks, where the first question of a group does not."""


class SeaquestTimers:
    """When the original asks for an enemy and when for a diver, from its pictures. Both begin with a direction."""

    def __init__(self, ramping: bool) -> None:
        self.ramping = ramping
        self.reset()

    def reset(self) -> None:
        self.enemy, self.diver, self.surfacings, self.row = 20, 30, 0, 0

    def due(self, groups: list[list[Asked]], picture: np.ndarray) -> list[list[Asked]]:
        """To be called once a step, with the picture before it."""
        row = int(picture[..., 0].any(1).argmax())
        self.surfacings += row == 0 < self.row
        self.row = row
        asked = [group for group, timer in zip(groups, (self.enemy, self.diver), strict=True) if timer == 0]
        period = max(20 - self.surfacings * self.ramping, 1)
        self.enemy = (self.enemy or period) - 1
        self.diver = (self.diver or 30) - 1
        return asked


def _newcomer(chance: Any) -> list[list[Asked]]:
    """Direction, gold, and the row, which is not asked for where all rows are taken."""
    kind = [uniform(bool(chance.right)), uniform(bool(chance.gold), 1 / 3)]
    rank = integer_below(lambda empty: int(chance.where) * empty >> 28)
    return [kind, [rank]]


def _cars(chance: Any) -> list[list[Asked]]:
    """Eight classes, then eight directions."""
    lanes = 4 * np.arange(8, dtype=np.uint32)
    return [[integers(1, 6, chance.slowness >> lanes & 15), uniforms(chance.right >> lanes & 1 != 0)]]


def _enemy_and_diver(chance: Any) -> list[list[Asked]]:
    """Direction, kind and row of an enemy; direction and row of a diver."""
    enemy = [
        uniform(bool(chance.enemy_right)),
        uniform(bool(chance.enemy_sub), 1 / 3),
        integer(1, 9, chance.enemy_row),
    ]
    return [enemy, [uniform(bool(chance.diver_right)), integer(1, 9, chance.diver_row)]]


GAMES = {
    "asterix": Questions(of_step=_newcomer),
    "freeway": Questions(of_start=_cars, of_step=_cars),
    "seaquest": Questions(of_step=_enemy_and_diver, timers=SeaquestTimers),
    "space_invaders": Questions(),
    "breakout": Questions(of_start=lambda right: [[integer(0, 2, right)]]),
}


# -- the match ---------------------------------------------------------------------------------------------------------

LEG = 625
"""Steps between two comparisons. All legs of all matches of an environment are one compiled program."""


@partial(jax.jit, static_argnums=0)
def first_state(env: Any, key: jax.Array) -> tuple[Any, Any]:
    """Our state, and the draws it was made of."""
    return env.reset(key), env.draw_start(key)


@partial(jax.jit, static_argnums=0)
def leg_draws(env: Any, keys: jax.Array) -> tuple[Any, Any]:
    """The draws of steps and of new beginnings that `AutoReset` makes of its keys."""
    step_keys, start_keys = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    return jax.vmap(env.draw)(step_keys), jax.vmap(env.draw_start)(start_keys)


class Shown(NamedTuple):
    """What a game shows in a step, [T, ...]."""

    picture: Any
    """Before the step: the first picture of a new episode after an end."""
    next_picture: Any
    """After it: the last picture of the episode at an end."""
    reward: Any
    end: Any


@partial(jax.jit, static_argnums=0)
def our_leg(env: Any, state: Any, keys: jax.Array, actions: jax.Array) -> tuple[Any, Shown]:
    env = AutoReset(env)

    def one(state: Any, now: Any) -> tuple[Any, Shown]:
        key, action = now
        before = env.observe(state)
        state, step = env.step(key, state, action)
        return state, Shown(before, env.observe(step.last), step.reward, step.terminated | step.truncated)

    return jax.lax.scan(one, state, (keys, actions))


class Match:
    """A game of ours and the original, in the same state, playing the same chance.

    `Match("breakout", sticky=0.0).play(player, steps)` lets a player play the original, then replays its actions in
    ours with auto-reset, and compares every picture, reward and end. A player has `act(picture) -> one of the six
    actions`; where the environment has no such action, nothing is done. `play` may be called again, with any player,
    and goes on where it stopped.
    """

    def __init__(self, game: str, seed: int = 0, **options: Any) -> None:
        self.env = envs.make(f"minatar/{game}", **options)
        self.questions = GAMES[game]
        self.key, key = jax.random.split(jax.random.key(seed))
        self.state, start = first_state(self.env, key)
        self.sticky, self.game = Script(), Script()
        self.timers = self.questions.timers(bool(self.env.ramping)) if self.questions.timers else None
        self.original: Any = minatar.Environment(
            game, sticky_action_prob=self.env.sticky, difficulty_ramping=bool(self.env.ramping)
        )
        self.original.random = self.sticky
        self.original.env.random = self.game
        self.reset_original(jax.device_get(start))

    def play(self, player: Any, steps: int) -> Shown:
        """What the original showed. The number of steps must be a multiple of `LEG`."""
        assert steps > 0, "a match needs steps"
        assert steps % LEG == 0, f"{steps} is no multiple of {LEG}"
        legs = [self._play_leg(player) for _ in range(steps // LEG)]
        return Shown(*map(np.concatenate, zip(*legs, strict=True)))

    def _play_leg(self, player: Any) -> Shown:
        self.key, key = jax.random.split(self.key)
        keys = jax.random.split(key, LEG)
        draws = jax.device_get(leg_draws(self.env, keys))
        leaves, tree = jax.tree.flatten(draws)
        codes = self.env.action_codes
        actions, shown = [], []
        for t in range(LEG):
            step, start = jax.tree.unflatten(tree, [leaf[t] for leaf in leaves])
            picture = self.original.state()
            code = player.act(picture)
            actions.append(codes.index(code) if code in codes else 0)
            reward, end = self.step_original(step, codes[actions[-1]])
            shown.append(Shown(picture, self.original.state(), reward, end))
            if end:
                self.reset_original(start)
        theirs = Shown(*map(np.array, zip(*shown, strict=True)))
        self.state, ours = jax.device_get(our_leg(self.env, self.state, keys, np.array(actions, dtype=np.int32)))
        for what in Shown._fields:
            self._compare(what, getattr(ours, what), getattr(theirs, what))
        assert ours.picture.dtype == theirs.picture.dtype == bool
        return theirs

    def reset_original(self, start: Any) -> None:
        self.game.expect(self.questions.of_start(start))
        self.original.reset()
        self.game.finish(all_groups=True)
        if self.timers:
            self.timers.reset()

    def step_original(self, draws: Any, action: int) -> tuple[float, bool]:
        """-> reward, end."""
        self.sticky.expect([[uniform(bool(draws.repeat), self.env.sticky)]])
        groups = self.questions.of_step(draws.chance)
        self.game.expect(self.timers.due(groups, self.original.state()) if self.timers else groups)
        reward, end = self.original.act(action)
        self.sticky.finish(all_groups=True)
        self.game.finish(all_groups=False)
        return float(reward), bool(end)

    def _compare(self, what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        assert ours.shape == theirs.shape, f"{what}: {ours.shape} is not {theirs.shape}"
        wrong = np.argwhere(ours != theirs)
        assert not len(wrong), (
            f"{self.env.name}: {what} differs from the original in {len(wrong)} places, first at step, row, column, "
            f"channel {wrong[0].tolist()}: {ours[tuple(wrong[0])]} is not {theirs[tuple(wrong[0])]}"
        )

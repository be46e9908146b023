"""Seaquest's masks against a plain restatement of its rules, and against the original package in deep play.

What all MinAtar games share is in test_minatar.py, where Seaquest meets the original too.
"""

from functools import partial

import jax
import jax.numpy as jnp
import minatar_players as players
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minatar_black_box import LEG, Match
from oracles_seaquest import DOWN, FIRE, LEFT, RIGHT, UP, Game, Thing, encode
from scipy.stats import chisquare

from greedystep import envs
from greedystep.envs.minatar import NONE, State
from greedystep.envs.minatar.seaquest import Chance, Position, Seaquest, once

SPELL = 128
"""Steps that are compared in one call."""


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, 0, 0, 0))
def our_step(env, chance, position, action):
    after, reward, terminated = env.play(chance, position, action)
    return after, reward, terminated, env.observe(State(after, jnp.int32(0), terminated))


def stacked(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def in_sight(position):
    """Without the directions of empty rows, which mean nothing."""
    empty = (position.near | position.far).sum(-2) == 0
    return position._replace(rightward=position.rightward & ~empty)


class Chances:
    """Draws that favour some rows, ways and kinds, so that crowds form."""

    def __init__(self, random):
        self.random = random
        self.rows = random.integers(1, 9, random.integers(1, 9))
        self.right, self.sub = random.choice([0.0, 0.1, 0.5, 1.0]), random.choice([0.1, 0.33, 0.9])

    def draw(self):
        r = self.random
        row = partial(r.choice, self.rows)
        return Chance(r.random() < self.right, r.random() < self.sub, row(), r.random() < 0.5, row())


def begin(random, ramps, **rules):
    """A first state, but for what surfacing, diving and rescuing would have changed."""
    game = Game(ramps=ramps, period=20 - ramps, wait=max(2, 5 - ramps // 2), **rules)
    game.enemy_timer = random.integers(game.period + 1)
    game.y = int(random.integers(9))
    game.at_surface = game.y == 0
    game.air = int(random.choice([random.integers(201), 1, 60]))
    game.aboard = int(random.integers(-3, 7))
    return game


def chase(game, random, habit):
    """An action: any, mostly shots, or towards the next diver or enemy."""
    if random.random() < 0.4 or habit == "random":
        return int(random.integers(6))
    aims = {"shoot": game.fish + game.subs, "collect": game.divers, "bob": []}[habit]
    if not aims:
        return int(random.choice([UP, DOWN]))
    aim = min(aims, key=lambda thing: abs(thing.x - game.x) + abs(thing.y - game.y))
    if aim.y != game.y:
        return DOWN if aim.y > game.y else UP
    towards, way = (RIGHT, 1) if aim.x > game.x else (LEFT, -1)
    return FIRE if habit == "shoot" and game.looks == way else towards


def spell(game, random, habit, steps):
    """Plays, through deaths too: no rule asks whether the player is still alive -> what each step was and gave."""
    chances = Chances(random)
    told = []
    for _ in range(steps):
        if game.air < 0:
            game.air = int(random.integers(201))
        if random.random() < 0.05:
            game.aboard = int(random.choice([-1, 1, 5, 6]))
        before, chance, action = encode(game), chances.draw(), chase(game, random, habit)
        reward, over = game.step(chance, action)
        told.append((before, chance, action, (encode(game), reward, over, game.picture())))
    return told


def assert_equal(told, **options):
    before, chance, action, expected = stacked(told)
    found = jax.device_get(our_step(Seaquest(**options), chance, before, action))
    for name, ours, theirs in zip(Position._fields, in_sight(found[0]), in_sight(expected[0]), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    for name, ours, theirs in zip(("reward", "terminated", "picture"), found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    ramps=st.sampled_from([0, 1, 3, 5, 6, 17, 18, 19]),
    habit=st.sampled_from(["random", "shoot", "collect", "bob"]),
    ramping=st.booleans(),
    old_air=st.booleans(),
)
def test_equal_to_the_rules_from_any_state(seed, ramps, habit, ramping, old_air):
    random = np.random.default_rng(seed)
    game = begin(random, ramps if ramping else 0, ramping=ramping, old_air=old_air)
    told = spell(game, random, habit, SPELL)
    assert_equal(told, ramping=ramping, version="1.0.10" if old_air else "1.0.15")


# -- rules that play seldom tries --------------------------------------------------------------------------------------

NOBODY = Chance(False, False, 1, False, 1)


def step(game, action=NONE, **options):
    """One step of the restated rules, compared with ours -> reward, terminated."""
    before = encode(game)
    reward, over = game.step(NOBODY, action)
    assert_equal([(before, NOBODY, action, (encode(game), reward, over, game.picture()))] * SPELL, **options)
    return reward, over


def fast(**things):
    """Enemies come in every step and move in every third."""
    return Game(**{"ramps": 19, "period": 1, "wait": 2, "enemy_timer": 1, "y": 8, "at_surface": False} | things)


@pytest.mark.parametrize(("fish", "subs", "left"), [((0, 1), (2,), (1, 2)), ((2,), (0, 1), (0, 1)), ((), (0, 2), (2,))])
def test_a_shot_hits_the_oldest_fish_or_else_the_oldest_submarine(fish, subs, left):
    """Timers of those who share a cell: the oldest one's is the smallest."""
    crowd = [[Thing(4, 3, 1, timer, 5) for timer in kind] for kind in (fish, subs)]
    game = fast(shots=[Thing(5, 3, -1)], fish=crowd[0], subs=crowd[1])
    assert step(game) == (1, False)
    after = sorted((thing.timer + 1) % 3 for thing in game.fish + game.subs)
    assert after == sorted(left)
    assert len(game.fish) == max(len(fish) - 1, 0)


def test_a_submarine_that_is_shot_while_moving_still_fires():
    game = fast(shots=[Thing(6, 3, -1)], subs=[Thing(4, 3, 1, 0, 0)])
    assert step(game) == (1, False)
    assert not game.subs
    assert [torpedo.cell for torpedo in game.torpedoes] == [(6, 3)]


@pytest.mark.parametrize("timer", range(6))
def test_a_submarine_that_is_shot_before_it_moves_does_not_fire(timer):
    game = Game(shots=[Thing(5, 3, -1)], subs=[Thing(4, 3, 1, timer, 0)])
    assert step(game) == (1, False)
    assert not game.torpedoes


@pytest.mark.parametrize(("aboard", "taken"), [(4, 2), (5, 1), (6, 0)])
def test_the_newer_diver_is_taken_first(aboard, taken):
    """Both are in the player's cell; the older one goes right, the newer one left."""
    game = fast(x=7, aboard=aboard, diver_timer=13, divers=[Thing(7, 8, 1), Thing(7, 8, -1)])
    step(game)
    assert game.aboard == aboard + taken
    assert [diver.step for diver in game.divers] == [1, -1][: 2 - taken]


@pytest.mark.parametrize(("version", "last"), [("1.0.15", 201), ("1.0.10", 202)])
def test_air_lasts_for_200_steps_under_water(version, last):
    """And the old version shows nine tenths of it before the step that ends the game."""
    game = Game(old_air=version == "1.0.10", y=4, x=5, enemy_timer=1000, at_surface=False)
    bars = []
    for n in range(1, 203):
        told = encode(game), NOBODY, NONE
        reward, over = game.step(NOBODY, NONE)
        picture = game.picture()
        bars.append(int(picture[9, :, 7].sum()))
        if n in (1, 2, 20, 21, last - 2, last - 1, last):
            told = [(*told, (encode(game), reward, over, picture))] * SPELL
            assert_equal(told, version=version)
        assert over == (n >= last)
        if over:
            break
    assert bars[:3] == [9, 9, 9]
    assert bars[199:] == ([0, 0] if version == "1.0.15" else [0, 9, 9])


@pytest.mark.parametrize(
    ("version", "air", "reward", "terminated"),
    [("1.0.15", 39, 1, False), ("1.0.15", 0, 0, True), ("1.0.10", 0, 0, False), ("1.0.10", -1, -1, True)],
)
def test_a_rescue_pays_the_tenths_of_air_left(version, air, reward, terminated):
    game = Game(old_air=version == "1.0.10", y=1, air=air, aboard=6, at_surface=False)
    assert step(game, UP, version=version) == (reward, terminated)
    assert (game.aboard, game.air) == (-1, 200)


# -- the original in deep play -----------------------------------------------------------------------------------------


def surfacings(shown):
    under = ~shown.picture[:, 0, :, 0].any(1)
    return int((under[:-1] & ~under[1:] & ~shown.end[:-1]).sum())


def test_equal_to_the_original_through_many_rescues():
    shown = Match("seaquest", seed=2, sticky=0.0).play(players.Seaquest(bobs=False), 5 * LEG)
    assert (shown.reward >= 3).sum() >= 8  # kills pay 1 or 2
    assert surfacings(shown) > 19  # the end of the ramp


def test_equal_to_the_original_in_a_full_sea():
    shown = Match("seaquest", seed=3, sticky=0.0).play(players.Seaquest(), 4 * LEG)
    assert surfacings(shown) > 300
    assert shown.picture[..., 5:7].any(-1).sum((1, 2)).max() >= 18


@pytest.mark.long
@pytest.mark.parametrize("bobs", [True, False])
@pytest.mark.parametrize("sticky", [0.0, 0.1])
def test_equal_to_the_original_in_deep_play_for_long(bobs, sticky):
    match = Match("seaquest", seed=4, sticky=sticky)
    match.play(players.Careless(players.Seaquest(bobs=bobs), slips=0.01), 40 * LEG)


# -- chance and numbers ------------------------------------------------------------------------------------------------


def test_chance_is_even_and_independent():
    """Ways are even, a third of the enemies are submarines, rows are even, and none tells anything of another."""
    keys = jax.random.split(jax.random.key(0), 400_000)
    draws = jax.device_get(jax.jit(jax.vmap(envs.make("minatar/seaquest").draw))(keys))
    repeat, chance = draws
    cells = repeat * 1
    for way, row in ((chance.enemy_right, chance.enemy_row), (chance.diver_right, chance.diver_row)):
        assert (row.min(), row.max()) == (1, 8)
        cells = (cells * 2 + way) * 8 + row - 1
    cells = cells * 2 + chance.enemy_sub
    each = np.multiply.outer(np.multiply.outer([0.9, 0.1], np.full(256, 1 / 256)), [2 / 3, 1 / 3]).ravel()
    assert chisquare(np.bincount(cells, minlength=each.size), each * len(cells)).pvalue > 1e-4


def test_once_changes_nothing():
    for dtype, values in ((jnp.uint32, [0, 1, 2**30 - 1, 2**32 - 2]), (jnp.int32, [-5, -1, 0, 31])):
        numbers = jnp.array(values, dtype)
        assert once(numbers).dtype == dtype
        np.testing.assert_array_equal(once(numbers), numbers)

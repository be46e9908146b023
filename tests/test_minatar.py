"""The MinAtar games against the original package, step for step, and their chance against what the rules say."""

from functools import partial

import jax
import jax.numpy as jnp
import minatar_players as players
import numpy as np
import pytest
from minatar_black_box import GAMES, LEG, Match, leg_draws
from scipy.stats import chisquare

from greedystep import envs

PLAYERS = {
    "asterix": players.Asterix,
    "breakout": players.Breakout,
    "freeway": players.Freeway,
    "seaquest": players.Seaquest,
    "space_invaders": players.SpaceInvaders,
}
LOSERS = {
    "breakout": partial(players.Breakout, satisfied=True),
    "space_invaders": players.BesiegedSpaceInvaders,
}
SETTINGS = [
    {"sticky": 0.0, "ramping": True, "actions": "full"},
    {"sticky": 0.1, "ramping": False, "actions": "minimal"},
    {"sticky": 0.1, "ramping": True, "actions": "full"},
    {"sticky": 0.0, "ramping": False, "actions": "minimal"},
]
game = pytest.mark.parametrize("game", sorted(GAMES))


def play(game, legs, **options):
    """Legs of random play, of good play, of good play with slips, and of play with another end in view."""
    match = Match(game, **options)
    good = PLAYERS[game]()
    each = [players.Random(hold=0.5), good, players.Careless(good, slips=0.02)]
    if game in LOSERS:
        each.insert(1, LOSERS[game]())
    for leg in range(legs):
        match.play(each[leg % len(each)], LEG)


@game
@pytest.mark.parametrize("options", SETTINGS[:2], ids=str)
def test_equal_to_the_original(game, options):
    play(game, 4, **options)


@game
@pytest.mark.long
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_equal_to_the_original_for_long(game, options):
    play(game, 40, seed=1, **options)


# -- states that random play never sees --------------------------------------------------------------------------------


def longest_episode(shown):
    """In steps; the last one may be unfinished."""
    return max(np.diff([-1, *np.flatnonzero(shown.end), len(shown.end) - 1]))  # pyright: ignore[reportCallIssue]


def rises(shown, channel, least):
    """How often the number of lit cells in a channel rises to `least` or more within an episode."""
    lit = shown.picture[..., channel].sum((1, 2))
    return int(((lit[:-1] < least) & (lit[1:] >= least) & ~shown.end[:-1]).sum())


def test_asterix_is_equal_at_full_speed_and_with_all_rows_taken():
    shown = Match("asterix", **SETTINGS[0], seed=2).play(players.Asterix(), 4 * LEG)
    assert longest_episode(shown) > 918 + 100  # the last of nine ramps is in step 918
    assert shown.picture[..., [1, 3]].sum((1, 2, 3)).max() == 8


def test_breakout_is_equal_when_the_wall_comes_back():
    assert rises(Match("breakout", **SETTINGS[0], seed=2).play(players.Breakout(), 4 * LEG), 3, 30) >= 2


def test_breakout_is_equal_when_the_ball_is_lost_with_no_brick_left():
    shown = Match("breakout", **SETTINGS[0], seed=2).play(players.Breakout(satisfied=True), 8 * LEG)
    bare = shown.end & ~shown.picture[..., 3].any((1, 2))
    assert bare.sum() >= 3
    assert shown.next_picture[bare][:, 1:4, :, 3].all()


def test_freeway_is_equal_after_many_crossings_and_at_the_end_of_the_clock():
    shown = Match("freeway", **SETTINGS[0], seed=2).play(players.Freeway(), 5 * LEG)
    assert np.flatnonzero(shown.end).tolist() == [2500]
    assert shown.reward[:2501].sum() >= 40


def test_space_invaders_is_equal_after_many_waves():
    shown = Match("space_invaders", **SETTINGS[0], seed=2).play(players.SpaceInvaders(), 3 * LEG)
    assert rises(shown, 1, 24) >= 7  # six waves make the aliens as fast as they get


def test_space_invaders_is_equal_when_the_aliens_land():
    """Three endings: at the border, by an alien that comes, by an alien that is run into."""
    shown = Match("space_invaders", **SETTINGS[0], seed=2).play(players.BesiegedSpaceInvaders(), 10 * LEG)
    landed = shown.end & shown.picture[:, 9, :, 1].any(1)
    wrapped = landed & shown.next_picture[:, 0, :, 1].any(1)  # a turn in the last row brings it in at the top
    assert wrapped.sum() >= 3
    assert (landed & ~wrapped).sum() >= 3


# -- around the game ---------------------------------------------------------------------------------------------------


@game
def test_after_the_end_nothing_happens_but_the_sticky_memory(game):
    match = Match(game, **SETTINGS[1])
    match.play(players.Random(), 4 * LEG)  # one step before the end of Freeway's clock
    env, state = match.env, match.state
    draws, _ = jax.device_get(leg_draws(env, jax.random.split(jax.random.key(3), LEG)))

    @jax.jit
    def advance(state, draws, action):
        state, step = env.advance(draws, state, action)
        return state, step, env.observe(state)

    after = 0
    for t in range(LEG):
        now = jax.tree.map(lambda leaf, t=t: leaf[t], draws)
        action = t % env.num_actions
        before = state
        state, step, picture = jax.device_get(advance(state, now, action))
        reward, end = match.step_original(now, env.action_codes[action])
        assert (step.reward, step.terminated) == (reward, end)
        assert (picture == match.original.state()).all()
        if before.over:
            after += 1
            assert (step.reward, step.terminated) == (0, True)
            assert state.executed == (before.executed if now.repeat else env.action_codes[action])
    assert after >= 50


def test_after_the_end_nothing_is_paid():
    """Gold lies in the player's cell: taken in a game that goes on, left alone in one that is over."""
    env = envs.make("minatar/asterix", sticky=0.0)
    draws, state = env.draw(jax.random.key(0)), env.reset(jax.random.key(0))
    row_5 = jnp.uint32(1 << 4 * (5 - 1))
    state = state._replace(position=state.position._replace(place=6 * row_5, gold=row_5))
    after, step = env.advance(draws, state, jnp.int32(0))
    assert (step.reward, step.terminated, after.position.place) == (1, False, 0)
    after, step = env.advance(draws, state._replace(over=jnp.bool_(True)), jnp.int32(0))
    assert (step.reward, step.terminated, after.position.place) == (0, True, 6 * row_5)


@game
def test_the_sticky_memory_outlives_an_episode_but_no_bare_reset(game):
    env = envs.make(f"minatar/{game}")
    state = env.reset(jax.random.key(0))
    assert state.executed == 0
    state = state._replace(executed=jnp.int32(3), over=jnp.bool_(True))
    again = env.restart(jax.random.key(1), state)
    assert again.executed == 3
    assert not again.over


@game
def test_states_are_small_and_the_specification_holds(game):
    env = envs.make(f"minatar/{game}")
    state = env.reset(jax.random.key(0))
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(state)) < 2048
    picture = env.observe(state)
    assert (picture.shape, picture.dtype) == (env.observation.shape, env.observation.dtype)
    assert env.num_actions == 6
    assert envs.make(f"minatar/{game}", actions="minimal").num_actions == len(env.minimal)
    assert hash(env) == hash(envs.make(f"minatar/{game}"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sticky": 1.1}, r"sticky: expected a number in \[0, 1\], got 1.1"),
        ({"sticky": float("nan")}, "sticky: expected a number in"),
        ({"sticky": True}, "sticky: expected a number in"),
        ({"sticky": "0.1"}, "sticky: expected a number in"),
        ({"ramping": 1}, "ramping: expected True or False, got 1"),
        ({"actions": "some"}, "actions: expected 'full' or 'minimal', got 'some'"),
        ({"version": "1.0.11"}, "version: expected '1.0.15' or '1.0.10', got '1.0.11'"),
        ({"lives": 3}, "lives: minatar/breakout has no such option"),
    ],
)
def test_options_out_of_range_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        envs.make("minatar/breakout", **options)


@pytest.mark.parametrize(("actions", "wrong"), [("full", 6), ("minimal", 3)])
def test_actions_out_of_range_are_named(actions, wrong):
    env = envs.make("minatar/breakout", actions=actions)
    with pytest.raises(ValueError, match=f"minatar/breakout has the actions 0..{wrong - 1}, got {wrong}"):
        env.step(jax.random.key(0), env.reset(jax.random.key(0)), wrong)


# -- chance ------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(0, 1))
def many(method, env, keys):
    return jax.vmap(getattr(env, method))(keys)


def draws_of(method, game, seed=0, **options):
    keys = jax.random.split(jax.random.key(seed), 200_000)
    return jax.device_get(many(method, envs.make(f"minatar/{game}", **options), keys))


def assert_frequencies(counts, probabilities):
    """A chi-square test; with fixed keys it passes or fails for ever, and a right draw fails once in 10 000 keys."""
    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    assert chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize("sticky", [0.0, 0.1, 0.25, 1.0])
def test_how_often_an_action_sticks(sticky):
    repeat = draws_of("draw", "breakout", sticky=sticky).repeat
    if sticky in (0, 1):
        assert (repeat == bool(sticky)).all()
    else:
        assert_frequencies(np.bincount(repeat, minlength=2), [1 - sticky, sticky])


def test_breakout_starts_on_either_side():
    assert_frequencies(np.bincount(draws_of("draw_start", "breakout")), [1, 1])


@pytest.mark.parametrize("empty", range(1, 9))
def test_the_newcomers_of_asterix(empty):
    """Stickiness, direction, gold and row are independent, and have the probabilities of the rules."""
    repeat, (right, gold, where) = draws_of("draw", "asterix", seed=empty)
    rank = (where.astype(np.int64) * empty) >> 28
    cells = ((repeat * 2 + right) * 2 + gold) * empty + rank
    each = np.multiply.outer(np.multiply.outer([0.9, 0.1], [0.5, 0.5]), [2 / 3, 1 / 3])
    assert_frequencies(np.bincount(cells, minlength=8 * empty), np.repeat(each.ravel(), empty))


@pytest.mark.parametrize("method", ["draw", "draw_start"])
def test_the_cars_of_freeway(method):
    """Every four neighbours' classes, and every car's class and direction, are even and independent."""
    draws = draws_of(method, "freeway")
    repeat, cars = (draws.repeat, draws.chance) if method == "draw" else (0, draws)
    slowness, right = (number[:, None] >> 4 * np.arange(8, dtype=np.uint32) & 15 for number in cars)
    assert (slowness.min(), slowness.max(), right.max()) == (1, 5, 1)
    for first in range(5):
        four = (slowness[:, first : first + 4] - 1) @ (5 ** np.arange(4))
        assert_frequencies(np.bincount(four, minlength=625), np.ones(625))
    assert_frequencies(np.bincount(right @ (2 ** np.arange(8)), minlength=256), np.ones(256))
    for lane in range(8):
        pair = (slowness[:, lane] - 1) * 2 + right[:, lane]
        assert_frequencies(np.bincount(pair, minlength=10), np.ones(10))
        if method == "draw":
            assert_frequencies(np.bincount(pair * 2 + repeat, minlength=20), np.tile([0.9, 0.1], 10))

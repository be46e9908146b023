"""The MinAtar games against the original package, step for step, and their chance against what the rules say."""

import jax
import jax.numpy as jnp
import minatar_players as players
import numpy as np
import pytest
from minatar_black_box import GAMES, Match

from greedystep import envs

PLAYERS = {
    "breakout": players.Breakout,
}
SETTINGS = [
    {"sticky": 0.1, "ramping": True, "actions": "full"},
    {"sticky": 0.0, "ramping": False, "actions": "minimal"},
    {"sticky": 0.1, "ramping": False, "actions": "minimal"},
    {"sticky": 0.0, "ramping": True, "actions": "full"},
]
LENGTH = 1250
"""Steps of one leg of a match; all legs of a match are one compiled program."""
game = pytest.mark.parametrize("game", sorted(GAMES))


def play(game, legs, **options):
    """Legs of random play, good play and good play with slips, in turn."""
    match = Match(game, **options)
    good = PLAYERS[game]()
    each = (players.Random(hold=0.5), good, players.Careless(good, slips=0.02))
    return [match.play(each[leg % 3], LENGTH) for leg in range(legs)]


@game
@pytest.mark.parametrize("options", SETTINGS[:2], ids=str)
def test_equal_to_the_original(game, options):
    play(game, 4, **options)


@game
@pytest.mark.long
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_equal_to_the_original_for_long(game, options):
    play(game, 24, seed=1, **options)


def wall_refills(played):
    bricks = [picture[:, :, 3].sum() for picture in played.pictures]
    return sum(
        before == 0 and after == 30 and not end
        for before, after, end in zip(bricks, bricks[1:], played.ends, strict=False)
    )


DEEP = {"breakout": (5000, wall_refills, 3)}


@pytest.mark.parametrize("game", sorted(DEEP))
def test_equal_in_deep_states(game):
    steps, count, least = DEEP[game]
    assert count(Match(game, sticky=0.0, seed=2).play(PLAYERS[game](), steps)) >= least


# -- around the game ---------------------------------------------------------------------------------------------------


@game
def test_after_the_end_nothing_happens_but_the_sticky_memory(game):
    match = Match(game, sticky=0.5)
    env = match.env
    advance = jax.jit(env.advance)
    player = players.Random()
    draws = jax.jit(jax.vmap(env.draw))(jax.random.split(jax.random.key(3), 5000))
    draws = jax.tree.map(np.asarray, draws)
    state, after = match.state, 0
    for t in range(5000):
        now = jax.tree.map(lambda leaf, t=t: leaf[t], draws)
        action = player.act(None)
        frozen = bool(state.over)
        before, state = state, advance(now, state, jnp.int32(action))[0]
        reward, over = match._act(now, action)
        assert bool(state.over) == over
        assert (np.asarray(env.observe(state)) == match.original.state()).all()
        if frozen:
            after += 1
            assert reward == 0
            assert over
            assert state.executed == (before.executed if now.repeat else action)
        if after == 20:
            return
    raise AssertionError("the game never ended")


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
        ({"sticky": 1.1}, r"sticky: expected a probability in \[0, 1\], got 1.1"),
        ({"sticky": float("nan")}, "sticky: expected a probability"),
        ({"sticky": True}, "sticky: expected a probability"),
        ({"sticky": "0.1"}, "sticky: expected a probability"),
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


def draws_of(method, count=200_000, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(method))(keys))


def assert_frequencies(counts, probabilities):
    """A chi-square test; with fixed keys it passes or fails for ever, and a right draw fails once in 10 000 keys."""
    from scipy.stats import chisquare

    counts, probabilities = np.asarray(counts), np.asarray(probabilities)
    assert chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue > 1e-4


@game
@pytest.mark.parametrize("sticky", [0.0, 0.1, 0.25, 1.0])
def test_how_often_an_action_sticks(game, sticky):
    repeat = draws_of(envs.make(f"minatar/{game}", sticky=sticky).draw).repeat
    if sticky in (0, 1):
        assert (repeat == bool(sticky)).all()
    else:
        assert_frequencies(np.bincount(repeat, minlength=2), [1 - sticky, sticky])


def test_breakout_starts_on_either_side():
    assert_frequencies(np.bincount(draws_of(envs.make("minatar/breakout").draw_start)), [1, 1])

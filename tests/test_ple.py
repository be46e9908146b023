"""The PLE games against a plain-Python restatement of their rules, step by step with the same random choices."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles_ple as oracles
import pytest
from scipy import stats

from greedystep import envs
from greedystep.envs.core import AutoReset
from greedystep.envs.ple import pixelcopter
from greedystep.envs.ple.catcher import Catcher
from greedystep.envs.ple.pixelcopter import Pixelcopter
from greedystep.envs.ple.pong import Pong

both_roundings = pytest.mark.parametrize("rounding", ["round", "truncate"])
NAMES = ["ple/catcher", "ple/pixelcopter", "ple/pong"]
GONE, FILLED = oracles.removal_steps(2000)


# -- walks: many steps of the fast games, with everything that was drawn ----------------------------------------------


class Walk(NamedTuple):
    """T steps of N lanes, each one episode after the other; arrays [N, T, ...]."""

    start: Any
    """The draws of the episode that begins with this step, if one does."""
    draws: Any
    actions: np.ndarray
    rewards: np.ndarray
    over: np.ndarray
    before: np.ndarray
    """What was seen before the step, and after it (in the old episode)."""
    after: np.ndarray
    first: np.ndarray
    """Whether the step belongs to the first episode of its lane."""


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _walk(env, policy, lanes, steps, key):
    def one(carry, key):
        state, over, start, episode = carry
        start_key, act, draw = jax.random.split(key, 3)
        new = env.draw_start(start_key)
        start, state = jax.tree.map(lambda n, o: jnp.where(over, n, o), (new, env.start(new)), (start, state))
        draws, action = env.draw(draw), policy(env, act, state)
        after, step = env.advance(draws, state, action)
        episode = episode + over
        seen = env.observe(state), env.observe(after)
        walked = Walk(start, draws, action, step.reward, step.terminated, *seen, first=episode == 1)
        return (after, step.terminated, start, episode), walked

    def lane(key):
        first = env.draw_start(key)
        return jax.lax.scan(
            one, (env.start(first), jnp.bool_(True), first, jnp.int32(0)), jax.random.split(key, steps)
        )[1]

    return jax.vmap(lane)(jax.random.split(key, lanes))


@cache
def walk(env, policy, lanes, steps, seed=0):
    """Lanes come back as episodes: a list of `Walk`s with arrays [T, ...], unfinished ones too."""
    walked = jax.tree.map(np.asarray, _walk(env, policy, lanes, steps, jax.random.key(seed)))
    found = []
    for lane in range(lanes):
        ends = np.flatnonzero(walked.over[lane]) + 1
        for begin, end in zip([0, *ends], [*ends, steps], strict=True):
            if begin < end:
                episode = (lane, slice(begin, end))
                found.append(jax.tree.map(lambda leaf, where=episode: leaf[where], walked))
    return found


def random_play(env):
    return walk(env, at_random, 256, 80 if isinstance(env, Pixelcopter) else 1300)


def total(episodes):
    return sum(len(episode.actions) for episode in episodes)


class MatchPoint(Pong):
    """The end of a game: ten all."""

    def start(self, draws):
        return super().start(draws)._replace(points=jnp.int32(10), opponent_points=jnp.int32(10))


# -- policies ---------------------------------------------------------------------------------------------------------


def at_random(env, key, state):
    return jax.random.randint(key, (), 0, env.num_actions)


def sometimes_at_random(share, policy):
    def mixed(env, key, state):
        which, key = jax.random.split(key)
        return jnp.where(jax.random.uniform(which) < share, at_random(env, key, state), policy(env, key, state))

    return mixed


def catch(env, key, state):
    """Stop under the fruit: friction leaves nine times the velocity to go."""
    ahead = state.fruit.x - (state.x + 9 * state.velocity)
    return jnp.where(ahead < -3, 0, jnp.where(ahead > 3, 1, 2))


fumble = sometimes_at_random(0.4, catch)


def dodge(env, key, state):
    """Meet the fruit only by accident."""
    return jnp.where(state.fruit.x > 26, 0, 1)


def look_ahead(env, key, state, tries=64, horizon=40):
    """The first action of the random plan that flies on for longest."""
    eagerness = jnp.linspace(0, 0.3, tries)[:, None]
    plans = jnp.where(jax.random.uniform(key, (tries, horizon)) < eagerness, 0, 1)
    draws = env.draw(key)

    def flown(plan):
        def one(state, action):
            state, step = env.advance(draws, state, action)
            return state, ~step.terminated

        last, flying = jax.lax.scan(one, state, plan)
        return jnp.sum(flying) - jnp.abs(env.observe(last)[2] - 12) / 100

    return plans[jnp.argmax(jax.vmap(flown)(plans)), 0]


def follow(env, key, state):
    """Keep the paddle's resting place at the ball's height."""
    ahead = state.ball_y - (state.y + 9 * state.velocity)
    return jnp.where(ahead < -1, 0, jnp.where(ahead > 1, 1, 2))


falter = sometimes_at_random(0.3, follow)


def drive(env, key, state, tries=64, horizon=20):
    """Plan ahead to return the ball as steeply as possible, which is what beats the opponent."""
    turns, key = jax.random.split(key)
    changes = jax.random.uniform(turns, (tries, horizon)) < 0.15
    choices = jax.random.randint(key, (tries, horizon), 0, 3)
    latest = jax.lax.cummax(jnp.where(changes, jnp.arange(horizon), 0), axis=1)
    plans = jnp.take_along_axis(choices, latest, axis=1)

    def worth(plan):
        last, steps = jax.lax.scan(lambda state, action: env.advance(jnp.float32(0.5), state, action), state, plan)
        returned = (state.ball_dx < 0) & (last.ball_dx > 0)
        return jnp.where(returned, jnp.abs(last.ball_vy), -jnp.abs(last.y - 24)) + 1000 * jnp.sum(steps.reward)

    return plans[jnp.argmax(jax.vmap(worth)(plans)), 0]


# -- the comparison ---------------------------------------------------------------------------------------------------


def oracle_of(env, episode):
    """The oracle at the start of that episode, and what it needs to know in step t."""
    start, draws = jax.tree.map(lambda leaf: leaf[0], episode.start), episode.draws
    if isinstance(env, Catcher):
        return oracles.Catcher((int(start.x), int(start.y)), env.rounding), lambda t: (int(draws.x[t]), int(draws.y[t]))
    if isinstance(env, Pong):
        oracle = oracles.Pong((bool(start.right), float(start.slope)))
        oracle.points = dict.fromkeys(oracle.points, 10 if isinstance(env, MatchPoint) else 0)
        return oracle, lambda t: float(draws[t])

    # The original draws the phases of a batch at once, ours are drawn as the pieces before them go.
    steps = len(episode.actions)
    frequencies = [float(start.frequency), *(float(draws.frequency[t - 1]) for t in FILLED if t <= steps)]
    phases = [*map(float, start.phases), *(float(draws.phases[t - 1]) for t in GONE if t <= steps)]

    def height(begin, batch):
        number = 48 * batch + (begin - (50 if batch else 2)) // 4
        return 24 + 6 * np.sin(frequencies[batch] * begin + phases[number])

    def block(x, y):
        return int(x) // pixelcopter.PIXEL, int(y)

    return (
        oracles.Pixelcopter(block(*start.block), height, env.rounding),
        lambda t: block(draws.block.x[t], draws.block.y[t]),
    )


def compare(env, episodes, *, adopt=True, close=None, tolerance=2e-5, share=0.8):
    """Every step: the same reward, the same end, and the same observation to within `tolerance`.

    A decision closer than `close` may fall otherwise in float32: the comparison of that episode ends there. At least
    `share` of all steps must have been compared. Without `adopt`, rounding errors add up over an episode.
    """
    close = close or (2e-6 if isinstance(env, Catcher) else 2e-5)
    compared = 0
    for episode in episodes:
        oracle, choices = oracle_of(env, episode)
        expected, seen = [], [oracle.observe()]
        if oracle.closest < close:
            continue
        for t, action in enumerate(episode.actions.tolist()):
            if adopt:
                oracle.adopt(episode.before[t])
            outcome = oracle.step(action, choices(t))
            observation = oracle.observe()
            if oracle.closest < close:
                break
            expected.append(outcome)
            seen.append(observation)
        steps = len(expected)
        got = list(zip(episode.rewards[:steps].tolist(), episode.over[:steps].tolist(), strict=True))
        assert got == expected
        np.testing.assert_allclose(
            np.vstack([episode.before[:1], episode.after[:steps]]), seen, rtol=1e-6, atol=tolerance
        )
        compared += steps
    assert compared >= share * total(episodes)
    return compared


# -- every step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "count"),
    [(Catcher(), 60), (Catcher("truncate"), 60), (Pixelcopter(), 600), (Pixelcopter("truncate"), 600), (Pong(), 20)],
)
def test_random_play_follows_the_rules(env, count):
    compare(env, random_play(env)[:count])


@both_roundings
@pytest.mark.parametrize("policy", [catch, fumble, dodge])
def test_catcher_follows_its_rules(rounding, policy):
    compare(Catcher(rounding), walk(Catcher(rounding), policy, 4, 2000))


@both_roundings
def test_pixelcopter_follows_its_rules_beyond_two_new_batches_of_cave(rounding):
    env = Pixelcopter(rounding)
    episodes = walk(env, look_ahead, 4, 560)
    assert sum(len(episode.actions) > FILLED[1] + 20 for episode in episodes) >= 2
    compare(env, episodes)


def test_the_cave_stands_where_it_should_for_1200_steps():
    env, draws = Pixelcopter(), Pixelcopter().draw(jax.random.key(0))

    def one(state, _):
        state, _ = env.play(draws, state._replace(y=jnp.float32(24)), jnp.int32(1))
        return state, env.cave_columns(state)

    _, columns = jax.lax.scan(one, env.reset(jax.random.key(0)), length=1200)
    cave = oracles.Cave()
    for step, ours in enumerate(np.asarray(columns) / pixelcopter.PIXEL, start=1):
        cave.move()
        cave.remove()
        cave.refill()
        assert ours == pytest.approx([x for x, _, _ in cave.pieces[: pixelcopter.PIECES]], abs=1e-9), f"step {step}"


def test_pong_follows_its_rules():
    compare(Pong(), walk(Pong(), falter, 4, 1500))


def test_pong_follows_its_rules_to_the_last_point():
    episodes = walk(MatchPoint(), drive, 4, 700) + walk(MatchPoint(), at_random, 4, 200)
    ends = {episode.rewards[-1] for episode in episodes}
    assert {6, -6} <= ends
    compare(MatchPoint(), episodes)


def test_rounding_errors_stay_small_over_an_episode():
    """Without starting every step from the same numbers."""
    for env, policy, steps in [
        (Catcher("round"), catch, 2000),
        (Catcher("truncate"), catch, 2000),
        (Pixelcopter(), look_ahead, 560),
        (Pong(), falter, 1500),
    ]:
        compare(env, walk(env, policy, 4, steps), adopt=False, close=1e-3, tolerance=1e-3, share=0.3)


@pytest.mark.long
@both_roundings
@pytest.mark.parametrize("policy", [at_random, catch, fumble, dodge])
def test_catcher_follows_its_rules_for_long(rounding, policy):
    compare(Catcher(rounding), walk(Catcher(rounding), policy, 20, 5000, seed=10))


@pytest.mark.long
@both_roundings
@pytest.mark.parametrize(("policy", "lanes", "steps"), [(at_random, 100, 1000), (look_ahead, 50, 2000)])
def test_pixelcopter_follows_its_rules_for_long(rounding, policy, lanes, steps):
    compare(Pixelcopter(rounding), walk(Pixelcopter(rounding), policy, lanes, steps, seed=10))


@pytest.mark.long
@pytest.mark.parametrize("policy", [at_random, follow, falter, drive])
def test_pong_follows_its_rules_for_long(policy):
    compare(Pong(), walk(Pong(), policy, 50, 2000, seed=10))


# -- chance -----------------------------------------------------------------------------------------------------------


def drawn(draw, count=100_000, seed=0):
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(seed), count)))


def check_equally_likely(values, choices):
    """chi-squared; a fair generator fails once in 100 000 seeds, and this seed does not."""
    found, counts = np.unique(values, axis=0, return_counts=True)
    assert len(found) == choices
    assert stats.chisquare(counts).pvalue > 1e-5


def check_uniform(values, low, high):
    values = np.sort(np.ravel(values).astype(float))
    assert low <= values[0]
    assert values[-1] <= high
    assert stats.kstest((values - low) / (high - low), "uniform").pvalue > 1e-5


@pytest.mark.parametrize("which", ["draw", "draw_start"])
def test_catcher_draws_each_fruit_equally_often(which):
    fruit = drawn(getattr(Catcher(), which))
    assert set(fruit.x.tolist()) == set(range(8, 53, 4))
    assert set(fruit.y.tolist()) == set(range(-28, 0, 4))
    check_equally_likely(np.stack(fruit, axis=1), 12 * 7)


@pytest.mark.parametrize("which", ["draw", "draw_start"])
def test_pixelcopter_draws_blocks_frequencies_and_phases_evenly(which):
    draws = drawn(getattr(Pixelcopter(), which))
    x, y = draws.block.x / pixelcopter.PIXEL, draws.block.y
    assert set(x.tolist()) == set(range(48, 72))
    assert set(y.tolist()) == set(range(12, 36))
    check_equally_likely(np.stack([x, y], axis=1), 24 * 24)
    check_uniform(draws.frequency, 0.08375, 0.10375)
    phases = draws.phases.reshape(len(x), -1)
    assert phases.shape[1] == (1 if which == "draw" else pixelcopter.PIECES)
    for column in phases.T:
        check_uniform(column, 0, 0.5)
    together = np.corrcoef(np.column_stack([x, y, draws.frequency, phases]).T)
    assert np.abs(together - np.eye(len(together))).max() < 0.02


def test_pong_draws_serves_and_spins_evenly():
    check_uniform(drawn(Pong().draw), 0, 1)
    start = drawn(Pong().draw_start)
    check_equally_likely(start.right, 2)
    check_uniform(start.slope, 0, 1)
    assert abs(np.corrcoef(start.right, start.slope)[0, 1]) < 0.02


# -- what is known of the games ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "returned", "length"),
    [(Catcher(), -6.7, 170), (Pixelcopter(), -4.8, 7), (Pong(), -16.0, 492)],
)
def test_random_play_earns_what_it_earns_in_the_originals(env, returned, length):
    episodes = [episode for episode in random_play(env) if episode.first[0]]
    assert len(episodes) == 256
    assert all(episode.over[-1] for episode in episodes)
    returns = [episode.rewards.sum() for episode in episodes]
    lengths = [len(episode.rewards) for episode in episodes]
    error = 4 / np.sqrt(len(episodes))
    assert np.mean(returns) == pytest.approx(returned, abs=0.05 + error * np.std(returns))
    assert np.mean(lengths) == pytest.approx(length, abs=0.5 + error * np.std(lengths))


@pytest.mark.parametrize(("rounding", "low", "high"), [("round", 53, 56), ("truncate", 57, 60)])
def test_good_play_of_catcher_is_worth_a_fruit_in_about_35_steps(rounding, low, high):
    for episode in walk(Catcher(rounding), catch, 4, 2000):
        assert low <= episode.rewards.sum() <= high


def test_good_play_of_pixelcopter_earns_79_pieces_and_some_blocks():
    best = max(episode.rewards[:500].sum() for episode in walk(Pixelcopter(), look_ahead, 4, 560))
    assert 84 <= best <= 88


# -- the protocol -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "limit"), [("ple/catcher", 2000), ("ple/pixelcopter", 500), ("ple/pong", 10_000)])
def test_limits(name, limit):
    assert envs.make(name).limit == limit
    assert envs.make(name, limit=7).limit == 7
    assert envs.make(name, limit=None).name == name


@pytest.mark.parametrize("name", NAMES)
def test_what_is_seen_is_what_was_announced(name):
    env = AutoReset(envs.make(name, limit=300))
    spec = env.observation

    def one(state, key):
        state, step = env.step(key, state, at_random(env, key, state))
        return state, (env.observe(state), env.observe(step.last), step)

    state = env.reset(jax.random.key(0))
    _, (seen, last, step) = jax.jit(lambda state: jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 3000)))(
        state
    )
    assert env.observe(state).shape == spec.shape
    for observations in (seen, last):
        assert observations.dtype == spec.dtype
        assert (spec.low <= observations).all()
        assert (observations <= spec.high).all()
    assert step.reward.dtype == jnp.float32
    assert (step.terminated | step.truncated).any()


@pytest.mark.parametrize("env", [Catcher(), Pixelcopter(), Pong()])
def test_nothing_happens_after_the_end(env):
    state = env.reset(jax.random.key(0))._replace(over=jnp.bool_(True))
    after, step = env.step(jax.random.key(1), state, 0)
    assert jax.tree.all(jax.tree.map(lambda old, new: bool((old == new).all()), state, after))
    assert step.terminated
    assert step.reward == 0


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize("rounding", ["up", "", None, 1])
def test_roundings_that_do_not_exist_are_named(name, rounding):
    with pytest.raises(ValueError, match=r"rounding: expected 'round' or 'truncate', got"):
        envs.make(name, rounding=rounding)


def test_pong_needs_no_rounding():
    with pytest.raises(ValueError, match="rounding: ple/pong has no such option, only limit"):
        envs.make("ple/pong", rounding="round")


def test_the_ball_of_pong_has_four_speeds():
    """So its column stays on the grid of whole 50ths of a pixel."""
    seen = {round(float(v), 3) for episode in walk(Pong(), falter, 4, 1500) for v in episode.after[:, 5]}
    assert seen == {-37.8, -36.0, 34.2, 36.0}

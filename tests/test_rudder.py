"""RUDDER: its network and gradient, the redistribution, and that it solves what it is for."""

import jax
import numpy as np
import optax
import oracles_rudder
import pytest

from greedystep import envs
from greedystep.tabular import collect, rudder, rudder_lstm
from greedystep.tabular.rudder import Rudder, features_of, rudder_episodes_to_solve


def sequence(seed, steps, inputs, units):
    random = np.random.default_rng(seed)
    theta = rudder_lstm.initial_parameters(inputs, units, 0.7, random) + 0.3 * random.normal(
        size=rudder_lstm.num_parameters(inputs, units)
    )
    x = random.normal(size=(steps, inputs)) * (random.random((steps, inputs)) < 0.7)  # zeros are skipped
    return theta, x, float(random.normal())


def gradient_of(theta, x, target, units):
    work, gradient = rudder_lstm.make_workspace(len(x), units), np.zeros_like(theta)
    last = rudder_lstm.add_gradient(theta, x, len(x), target, work, gradient)
    assert last == pytest.approx((work.predictions[-1] - target) ** 2)
    return work.predictions, gradient


# -- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "inputs", "units"), [(1, 1, 1), (4, 3, 2), (6, 4, 5)])
def test_predictions_and_gradient_are_those_of_the_formulas(steps, inputs, units):
    theta, x, target = sequence(steps, steps, inputs, units)
    predictions, gradient = gradient_of(theta, x, target, units)
    single = theta.astype(np.float32), x.astype(np.float32)
    np.testing.assert_allclose(predictions, oracles_rudder.predictions(*single, units), rtol=1e-4, atol=1e-4)
    slope = jax.grad(oracles_rudder.loss)(*single, target, units)
    np.testing.assert_allclose(gradient, slope, rtol=1e-3, atol=1e-3)


def test_the_gradient_is_the_slope_of_the_loss():
    theta, x, target = sequence(3, 6, 4, 5)

    def loss(theta):
        g = gradient_of(theta, x, target, 5)[0]
        return (g[-1] - target) ** 2 + 0.5 * np.mean((g - target) ** 2)

    ways = 1e-5 * np.eye(len(theta))
    slope = [(loss(theta + way) - loss(theta - way)) / 2e-5 for way in ways]
    np.testing.assert_allclose(gradient_of(theta, x, target, 5)[1], slope, rtol=1e-6, atol=1e-8)


def test_gradients_of_a_batch_add_up():
    theta, x, target = sequence(1, 4, 3, 2)
    once = gradient_of(theta, x, target, 2)[1]
    twice, work = once.copy(), rudder_lstm.make_workspace(4, 2)
    rudder_lstm.add_gradient(theta, x, 4, target, work, twice)
    np.testing.assert_allclose(twice, 2 * once)


def test_adam_is_adam():
    random = np.random.default_rng(0)
    theta, first, second = random.normal(size=5), np.zeros(5), np.zeros(5)
    theirs = theta.astype(np.float32)
    reference = optax.chain(optax.add_decayed_weights(0.01), optax.adam(0.1))
    state = reference.init(theirs)
    for count in range(1, 6):
        slope = random.normal(size=5)
        rudder_lstm.adam_step(theta, slope, first, second, count, 0.1, 0.01)
        change, state = reference.update(slope.astype(np.float32), state, theirs)
        theirs = optax.apply_updates(theirs, change)
    np.testing.assert_allclose(theta, theirs, rtol=1e-4)  # pyright: ignore[reportCallIssue]


def test_gates_begin_nearly_closed_and_the_prediction_at_the_mean():
    theta = rudder_lstm.initial_parameters(200, 400, 5.0, np.random.default_rng(0))
    W, U, b_z, b_i, w, b = rudder_lstm.split(theta, 200, 400)
    for part, mean, spread in ((W, 0, 0.1), (U, 0, 0.1), (w, 0, 0.1), (b_z, 0, 1), (b_i, -3, 1)):
        assert part.mean() == pytest.approx(mean, abs=0.15)
        assert part.std() == pytest.approx(spread, rel=0.1)
    assert b == [5.0]


# -- features ---------------------------------------------------------------------------------------------------------


def test_features_are_what_the_state_numbers_say():
    task = envs.make_task("toy/trace-back", delay=8)
    features, log = features_of(task), collect(task, episodes=200)
    right = 0
    for e in range(200):
        states, actions = log.states[9 * e : 9 * e + 8], log.actions[8 * e : 8 * e + 8]
        moves = np.abs(np.diff(features[states, :2], axis=0)).sum(axis=1) * 6
        assert set(np.round(moves, 9)) <= {0.0, 1.0}  # one cell at a time
        pending = (actions[0], actions[1]) == (0, 1)
        right += pending
        np.testing.assert_array_equal(features[states, 2], [0, 0] + [float(pending)] * 6)
    assert right > 0
    np.testing.assert_array_equal(features_of(envs.make_task("toy/choice", delay=3))[:, 0], [0, 1, -1, 1, -1])


def test_inputs_are_action_change_of_features_and_time():
    features = np.array([[0.0], [2.0], [5.0]])
    x = np.full((3, 4), np.nan)
    rudder.encode_episode(np.array([0, 1, 2, 0]), np.array([1, 0, 1]), 3, 6, features, x)
    expected = [[0, 1, 2, 1 / 6], [1, 0, 3, 2 / 6], [0, 1, 0, 3 / 6]]  # the end of the episode is no state
    np.testing.assert_allclose(x, expected)


# -- learning ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    task = envs.make_task("toy/trace-back", delay=6)
    learner = Rudder(task, seed=1)
    learner.learn(1500)
    return task, learner


def test_what_is_handed_out_adds_up_to_the_return(trained):
    task, learner = trained
    log = collect(task, episodes=50, seed=3)
    for e in range(50):
        states, actions, rewards = (
            log.states[7 * e : 7 * e + 6],
            log.actions[6 * e : 6 * e + 6],
            log.rewards[6 * e :][:6],
        )
        shares = learner.redistribute(states, actions, rewards.sum())
        assert shares.sum() == pytest.approx(rewards.sum(), abs=1e-9)


def test_the_move_that_decides_gets_the_most_credit():
    """The 50 more of the right pair are paid with the last step; most of them belong to the second."""
    task = envs.make_task("toy/trace-back", delay=6)
    log, extra = collect(task, episodes=400, seed=4), []
    for seed in range(4):
        learner = Rudder(task, seed=seed)
        learner.learn(1500)
        credit = {50.0: [], 100.0: []}
        for e in range(400):
            actions, total = log.actions[6 * e : 6 * e + 6], log.rewards[6 * e : 6 * e + 6].sum()
            if actions[0] == 0:
                credit[total].append(learner.redistribute(log.states[7 * e : 7 * e + 6], actions, total))
        extra.append(np.mean(credit[100.0], axis=0) - np.mean(credit[50.0], axis=0))
    steps = np.mean(extra, axis=0)
    assert steps.sum() == pytest.approx(50)
    assert steps[1] > 1.5 * max(steps[0], *steps[2:])


def test_the_table_waits_for_the_network():
    task = envs.make_task("toy/trace-back", delay=6)
    learner = Rudder(task, q=3.0)
    learner.learn(rudder.WARM_UP)
    assert (learner.q[task.mdp.available] == 3.0).all()
    with pytest.raises(ValueError, match="has not been trained yet"):
        learner.redistribute([0], [0], 1.0)
    learner.learn(1)
    assert (learner.q[task.mdp.available] != 3.0).any()


def test_a_task_whose_returns_never_differ_is_never_trained_on():
    task = envs.make_task("toy/choice", delay=3, best=1.0, other=0.0)
    learner = Rudder(task, q=np.tile([1.0, 0.0], (5, 1)), epsilon=0.0)
    assert set(learner.learn(400)) == {1.0}
    assert learner.episodes == 400
    assert not learner._state.numbers[rudder.TRAINED]


@pytest.mark.parametrize(("name", "delay"), [("toy/choice", 12), ("toy/trace-back", 6)])
def test_it_solves_the_delayed_reward_tasks(name, delay):
    task = envs.make_task(name, delay=delay)
    found = [rudder_episodes_to_solve(task, limit=5000, seed=seed) for seed in range(3)]
    assert all(episodes is not None and episodes > rudder.WARM_UP for episodes in found)
    assert rudder_episodes_to_solve(task, limit=100) is None


def test_old_episodes_make_room():
    task = envs.make_task("toy/choice", delay=2)
    learner = Rudder(task, seed=0)
    learner.learn(rudder.CAPACITY + 10)
    numbers = learner._state.numbers
    assert (numbers[rudder.STORED], numbers[rudder.SEEN]) == (rudder.CAPACITY, rudder.CAPACITY + 10)


def test_a_seed_decides_everything_however_the_episodes_are_counted_out():
    task = envs.make_task("toy/trace-back", delay=6)
    whole, parts, other = Rudder(task, seed=5), Rudder(task, seed=5), Rudder(task, seed=6)
    returns = whole.learn(700)
    pieces = np.concatenate([parts.learn(100), parts.learn(270), parts.learn(330)])
    np.testing.assert_array_equal(returns, pieces)
    np.testing.assert_array_equal(whole.q, parts.q)
    other.learn(700)
    assert (whole.q != other.q).any()


def test_what_it_cannot_use_is_refused():
    with pytest.raises(ValueError, match=r"undiscounted returns, toy/grid-world has 0.99"):
        Rudder(envs.make_task("toy/grid-world"))
    with pytest.raises(ValueError, match=r"features: toy/watch-repair has none of its own"):
        Rudder(envs.make_task("toy/watch-repair", length=3))
    with pytest.raises(ValueError, match=r"features: expected \[5, K\] for toy/choice, got \[4, 2\]"):
        Rudder(envs.make_task("toy/choice", delay=3), np.zeros((4, 2)))
    assert rudder.features_of(envs.make_task("toy/choice", delay=3)).shape == (5, 1)

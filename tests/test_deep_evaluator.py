"""Evaluation: whole episodes, each once, beside a plain loop over steps."""

from functools import partial

import jax
import numpy as np
import pytest
from deep_runs import tiny

from greedystep.deep.evaluator import Evaluator, PolicyEvaluator, play
from greedystep.deep.policy_export import numpy_policy
from greedystep.deep.train_loop import epsilon_greedy


@pytest.fixture(scope="module")
def trainer():
    trainer = tiny(seeds=(3, 4)).trainer()
    trainer.run(400)
    return trainer


def step_by_step(learner, networks, env, key, epsilon, episodes, limit):
    """The same episodes, one step of one environment after another; Q is compared with returns that are written out."""
    values, rewards, ends = ([[] for _ in range(episodes)] for _ in range(3))
    of_starts, of_steps = jax.random.split(key)
    states = [env.reset(k) for k in jax.random.split(of_starts, episodes)]
    returns, lengths, over = np.zeros(episodes), np.zeros(episodes, int), np.zeros(episodes, bool)
    for t in range(limit):
        of_choice, of_envs = jax.random.split(jax.random.fold_in(of_steps, t))
        seen = np.stack([env.observe(state) for state in states])
        q = learner.acting_q(networks, seen)
        actions, _ = epsilon_greedy(of_choice, q, epsilon)
        for i, k in enumerate(jax.random.split(of_envs, episodes)):
            if not over[i]:
                states[i], told = env.step(k, states[i], actions[i])
                returns[i], lengths[i] = returns[i] + told.reward, lengths[i] + 1
                over[i] = told.terminated | told.truncated
                values[i].append(float(q[i, actions[i]]))
                rewards[i].append(float(told.reward))
                ends[i] = bool(told.terminated)
    errors = []
    for value, reward, terminated in zip(values, rewards, ends, strict=True):
        if not terminated:
            reward[-1] = value[-1]  # cut off: the last value stands for all that would have followed
        powers = learner.config.discount ** np.arange(len(reward))
        following = [np.sum(powers[: len(reward) - t] * reward[t:]) for t in range(len(reward))]
        errors.append(np.mean(np.array(value) - following))
    return returns, lengths, ~over, np.array(errors)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_episodes_are_those_of_a_plain_loop(trainer, epsilon):
    networks = jax.tree.map(lambda x: x[1], trainer.params)
    how = (trainer.env, jax.random.key(7), epsilon, 4, 15)
    played = play(partial(trainer.learner.acting_q, networks), *how, discount=trainer.config.discount)
    *exactly, errors = step_by_step(trainer.learner, networks, *how)
    for found, expected in zip(played, exactly, strict=False):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(played.overestimation, errors, rtol=1e-4)
    assert played.mean_overestimation == pytest.approx(np.average(errors, weights=played.lengths), rel=1e-4)
    lanes = Evaluator(trainer.learner, trainer.env)(trainer.params, 7, episodes=4, epsilon=epsilon, limit=15)
    assert lanes.returns.shape == (2, 4)
    np.testing.assert_array_equal(lanes.returns[1], played.returns)
    exported = PolicyEvaluator(numpy_policy(trainer.learner, networks), trainer.env)
    again = exported(7, episodes=4, epsilon=epsilon, limit=15)
    for found, expected in zip(again[:3], played, strict=False):
        np.testing.assert_array_equal(found, expected)
    assert again.overestimation is None


def test_the_limit_stops_what_would_go_on_for_ever(trainer):
    evaluate = Evaluator(trainer.learner, trainer.env)
    networks = trainer.params
    short, long = (evaluate(networks, episodes=6, epsilon=1.0, limit=limit) for limit in (5, 10_000))
    assert short.unfinished.all()
    assert (short.lengths == 5).all()
    assert not long.unfinished.any()
    assert long.mean == pytest.approx(long.lengths.mean())  # a point a step
    assert 15 < long.mean < 35  # what random actions get


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"episodes": 0}, "^episodes: expected an integer from 1 to 2147483647, got 0$"),
        ({"limit": 0}, "^limit: expected"),
        ({"epsilon": float("nan")}, r"^epsilon: expected a number in \[0, 1\], got nan$"),
        ({"seed": -1}, "^seed: expected an integer from 0 to 4294967295"),
    ],
)
def test_what_makes_no_sense_is_refused(trainer, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Evaluator(trainer.learner, trainer.env)(trainer.params, **arguments)

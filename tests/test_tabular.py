"""Every tabular update against plain Python, what greedy-step is equal to, and where it is too high."""

import numpy as np
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from greedystep import envs, models
from greedystep.envs import toy
from greedystep.tabular import (
    METHODS,
    EmpiricalModel,
    Episodes,
    collect,
    episodes_to_solve,
    greedy_policy,
    learn,
    replay,
)
from greedystep.tabular.learning import check_method_memory

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=60, deadline=None)
every_method = pytest.mark.parametrize("method", METHODS)
every_update = pytest.mark.parametrize("method", [method for method in METHODS if method not in ("model", "auto")])


def random_options(random, method):
    """A value for every option that the method has."""
    draws = {
        "alpha": lambda: random.choice([0.1, 0.5, 1.0]),
        "n": lambda: int(random.integers(1, 6)),
        "horizon": lambda: [None, 1, 2, 3, 100][random.integers(5)],
        "form": lambda: "running",
    }
    return {name: draws.get(name, lambda: random.choice([0.0, 0.3, 0.9, 1.0]))() for name in METHODS[method][1]}


def random_episode(random, q):
    """An episode through random states, by actions that exist, with values and rewards that often tie."""
    T = random.integers(1, 9)
    states = random.integers(0, q.shape[0], T + 1)
    actions = [random.choice(np.flatnonzero(q[s] > -np.inf)) for s in states[:-1]]
    return (
        states,
        np.array(actions),
        random.integers(-2, 3, T).astype(float),
        random.uniform(0.1, 1, T),
        random.random() < 0.5,
    )


def random_table(random):
    q = random.integers(-3, 4, (random.integers(1, 6), random.integers(1, 4))).astype(float)
    missing = random.random(q.shape) < 0.2
    missing[np.arange(len(q)), random.integers(0, q.shape[1], len(q))] = False
    return np.where(missing, -np.inf, q)


def as_log(*episodes):
    return Episodes.of((s, a, r, ended, mu) for s, a, r, mu, ended in episodes)


def as_tuples(log):
    """The other way round."""
    for e, terminated in enumerate(log.terminated):
        low, high = log.first[e], log.first[e + 1]
        states = log.states[low + e : high + e + 1]
        yield states, log.actions[low:high], log.rewards[low:high], log.behaviour_prob[low:high], bool(terminated)


def deterministic_task(random):
    mdp = oracles.random_mdp(random, deterministic=True)
    assume(not mdp.terminal[-1])
    return toy.from_mdp("random", mdp, mdp.num_states - 1, horizon=12)


# -- against the oracles ----------------------------------------------------------------------------------------------


@every_update
@given(seed=seeds)
@thorough
def test_one_update_is_the_definition_written_out(method, seed):
    random = np.random.default_rng(seed)
    q, gamma, options = random_table(random), random.choice([0.1, 0.5, 0.9, 1.0]), random_options(random, method)
    episodes = [random_episode(random, q) for _ in range(2)]
    both = replay(as_log(*episodes), q, method, discount=gamma, **options)
    for episode in episodes:
        expected = oracles.tabular_update(method, options, q, episode, gamma)
        q = replay(as_log(episode), q, method, discount=gamma, **options)
        # The oracle goes on from this very table: a rounding error may make or break a tie, and so change a trace.
        np.testing.assert_allclose(q, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(both, q)


@pytest.mark.parametrize("method", ["sarsa-lambda", "watkins", "harutyunyan"])
@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_where_the_state_holds_the_time_it_equals_traces_updated_at_every_step(method, seed):
    task = envs.make_task("toy/trace-back", delay=6)
    random = np.random.default_rng(seed)
    q = random.integers(0, 3, (task.num_states, 4)).astype(float)
    log = collect(task, episodes=1, q=q, epsilon=0.5, seed=random)
    (episode,) = as_tuples(log)
    actual = replay(log, q, method, discount=0.9, alpha=0.3, lambda_=0.8)
    np.testing.assert_allclose(actual, oracles.eligibility(method, q, episode, 0.9, 0.3, 0.8), rtol=1e-10, atol=1e-10)


@every_method
def test_learning_is_acting_and_updating_in_turn(method):
    task = envs.make_task("toy/grid-world", size=3, horizon=8)
    learned = learn(task, method, episodes=5, epsilon=0.3, seed=4)
    random, q, memory = np.random.default_rng(4), np.zeros((9, 4)), check_method_memory(METHODS[method][0], (9, 4))
    for episode in range(5):
        log = collect(task, episodes=1, epsilon=0.3, q=q, seed=random)
        q = replay(log, q, method, discount=0.99, memory=memory)
        assert len(log.actions) == learned.lengths[episode]
        assert 0.99 ** np.arange(len(log.actions)) @ log.rewards == pytest.approx(learned.returns[episode])
    np.testing.assert_array_equal(learned.q, q)


def test_with_a_greedy_target_three_methods_are_one_where_nothing_ties():
    random = np.random.default_rng(0)
    q = random.normal(size=(6, 3))
    episode = random_episode(random, q)
    watkins, *others = (replay(as_log(episode), q, m, discount=0.9) for m in ("watkins", "tree-backup", "retrace"))
    for other in others:
        np.testing.assert_allclose(other, watkins, rtol=1e-12)


# -- exploration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_exploration_is_epsilon_greedy_with_random_ties(epsilon):
    q = np.array([[1.0, -np.inf, 1.0, 0.0, 1.0]])
    ends = np.ones((1, 5))
    mdp = models.MDP(np.zeros((1, 5, 1)), ends, 1.0, available=q > -np.inf, termination=ends)
    log = collect(toy.from_mdp("bandit", mdp, 0, 1), episodes=40_000, epsilon=epsilon, q=q)
    wanted = np.array(oracles.epsilon_greedy(q[0], epsilon))
    np.testing.assert_allclose(np.bincount(log.actions, minlength=5) / 40_000, wanted, atol=0.012)
    np.testing.assert_allclose(log.behaviour_prob, wanted[log.actions], rtol=1e-12)


@every_method
def test_the_seed_decides_everything(method):
    task = envs.make_task("toy/choice", delay=6, noise=1.0)
    one, again, other = (learn(task, method, episodes=50, seed=seed) for seed in (1, 1, 2))
    for a, b in zip(one[:3], again[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.q, other.q)
    assert not np.array_equal(one.returns, other.returns)


# -- what greedy-step is ----------------------------------------------------------------------------------------------


@given(seeds)
@thorough
def test_backward_one_step_q_learning_is_greedy_step_where_no_state_comes_twice(seed):
    random = np.random.default_rng(seed)
    task = deterministic_task(random)
    log = collect(task, episodes=8, seed=random)
    lowest = np.where(task.mdp.available, task.lowest_return / (1 - task.mdp.discount), -np.inf)
    greedy = backward = lowest
    for episode in as_tuples(log):
        states = episode[0][:-1] if episode[-1] else episode[0]
        one = as_log(episode)
        previous = greedy
        greedy = replay(one, previous, discount=task.mdp.discount)
        backward = replay(one, previous, "backward-q-learning", discount=task.mdp.discount)
        if len(set(states.tolist())) == len(states):
            np.testing.assert_allclose(backward, greedy, rtol=1e-10)
        # A loop lets the backward pass see what was found later in the episode from the same state: never less.
        assert (backward >= greedy - 1e-9).all()


@pytest.mark.parametrize("name", ["toy/choice", "toy/trace-back"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_on_the_delayed_reward_tasks_backward_q_learning_is_greedy_step(name, epsilon):
    task = envs.make_task(name, delay=12)
    for seed in range(3):
        greedy, backward = (
            learn(task, method, episodes=200, epsilon=epsilon, seed=seed)
            for method in ("greedy-step", "backward-q-learning")
        )
        np.testing.assert_array_equal(backward.q, greedy.q)
        np.testing.assert_array_equal(backward.returns, greedy.returns)


@given(seeds, st.sampled_from([1, 2, None]))
@settings(max_examples=30, deadline=None)
def test_on_deterministic_logs_greedy_step_converges_to_the_empirical_optimum(seed, horizon):
    random = np.random.default_rng(seed)
    task = deterministic_task(random)
    log = collect(task, episodes=6, seed=random)
    nothing = np.full(task.mdp.rewards.shape, -np.inf)
    truth = oracles.empirical_optimum(list(as_tuples(log)), nothing.shape, task.mdp.discount)
    for method, options in (("greedy-step", {"horizon": horizon}), ("backward-q-learning", {})):
        q = replay(log, nothing, method, discount=task.mdp.discount, sweeps=4000, **options)
        np.testing.assert_allclose(q, truth, atol=1e-6)


def test_greedy_step_with_horizon_one_needs_an_episode_for_every_step_of_the_chain():
    task = envs.make_task("toy/n-horizon", length=6)
    way = as_log((np.arange(7) % 6, np.ones(6, int), np.eye(6)[-1], np.ones(6), True))
    for horizon, sweeps in ((None, 1), (6, 1), (3, 2), (2, 3), (1, 6)):
        q = replay(way, np.zeros((6, 2)), discount=0.99, sweeps=sweeps, horizon=horizon)
        assert q[0, 1] == pytest.approx(task.optimal_return)
        if sweeps > 1:
            q = replay(way, np.zeros((6, 2)), discount=0.99, sweeps=sweeps - 1, horizon=horizon)
            assert q[0, 1] == 0.0


def test_in_stochastic_worlds_greedy_step_is_too_high_and_more_data_makes_it_worse():
    task = envs.make_task("toy/choice", delay=5, noise=1.0)
    values = [learn(task, episodes=episodes, epsilon=1.0).q[0].max() for episodes in (10, 100, 10_000)]
    assert task.optimal_return < values[0] < values[1] < values[2]
    assert values[2] > task.optimal_return + 3.0
    average = learn(task, "q-learning", episodes=10_000, epsilon=1.0, alpha=0.01).q[0].max()
    assert abs(average - task.optimal_return) < 0.3


def test_greedy_step_believes_in_the_luckiest_transition():
    transitions = np.zeros((3, 1, 3))
    transitions[0, 0] = [0.0, 0.5, 0.5]
    rewards = np.array([[0.0], [1.0], [-1.0]])
    mdp = models.MDP(transitions, rewards, 1.0, termination=np.array([[0.0], [1.0], [1.0]]))
    task = toy.from_mdp("coin", mdp, 0, 2)
    assert task.optimal_return == pytest.approx(0.0, abs=1e-9)
    assert learn(task, episodes=100, q=-2.0).q[0, 0] == 1.0


def test_greedy_step_solves_trace_back_at_the_first_right_episode():
    task = envs.make_task("toy/trace-back", delay=20)
    learned = learn(task, episodes=400, epsilon=1.0, seed=5)
    first = int(np.argmax(learned.returns == 100))
    for episodes, solved in ((first, False), (first + 1, True)):
        q = learn(task, episodes=episodes, epsilon=1.0, seed=5).q
        assert task.solved_by(q.argmax(axis=1)) == solved


def test_values_without_bound_are_reported_and_not_returned():
    # Harutyunyan's Q(λ) contracts only for λ < (1 - γ) / 2γ or so; 0.9 is far beyond.
    task = envs.make_task("toy/grid-world")
    with pytest.raises(FloatingPointError, match="harutyunyan: its values have no bound, and left float64 in episode"):
        learn(task, "harutyunyan", episodes=20_000, q=task.lowest_return, lambda_=1.0, alpha=0.5)
    log = collect(task, episodes=20)
    with pytest.raises(FloatingPointError, match="harutyunyan: its values have no bound"):
        replay(log, np.zeros((100, 4)), "harutyunyan", discount=0.99, sweeps=20_000, lambda_=1.0, alpha=0.5)


# -- solving ----------------------------------------------------------------------------------------------------------


def test_a_greedy_policy_shares_ties():
    q = np.array([[1.0, 1.0, 0.0], [-np.inf, 2.0, 1.0]])
    np.testing.assert_array_equal(greedy_policy(q), [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])


@pytest.mark.parametrize("method", ["greedy-step", "backward-q-learning", "monte-carlo"])
def test_episodes_to_solve_is_the_first_episode_after_which_the_task_is_solved(method):
    task = envs.make_task("toy/trace-back", delay=8)
    for seed in range(3):
        solved = episodes_to_solve(task, method, limit=5000, epsilon=0.5, seed=seed, resolution=0.0)
        assert solved is not None
        assert task.solved_by(greedy_policy(learn(task, method, episodes=solved, epsilon=0.5, seed=seed).q))
        if solved > 1:
            assert not task.solved_by(greedy_policy(learn(task, method, episodes=solved - 1, epsilon=0.5, seed=seed).q))
        coarse = episodes_to_solve(task, method, limit=5000, epsilon=0.5, seed=seed, resolution=0.1)
        assert coarse is not None
        assert solved <= coarse <= 1.1 * solved + 1


def test_a_task_that_is_not_solved_within_the_limit_says_so():
    task = envs.make_task("toy/trace-back", delay=20)
    assert episodes_to_solve(task, "q-learning", limit=7) is None


def test_a_limit_or_resolution_out_of_range_is_refused():
    task = envs.make_task("toy/choice")
    with pytest.raises(ValueError, match="limit: expected an integer >= 1, got 0"):
        episodes_to_solve(task, limit=0)
    with pytest.raises(ValueError, match=r"resolution: expected a number in \[0, 1\], got -1"):
        episodes_to_solve(task, limit=5, resolution=-1)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "magic"}, "method: 'magic' is not one of greedy-step"),
        ({"alpha": 0.5}, "alpha: greedy-step has no such option, only horizon, form"),
        ({"horizon": 0}, "horizon: expected an integer >= 1, got 0"),
        ({"method": "q-learning", "alpha": 0.0}, r"alpha: expected a number in \(0, 1\], got 0.0"),
        ({"method": "peng", "lambda_": 1.5}, r"lambda_: expected a number in \[0, 1\], got 1.5"),
        ({"method": "n-step-q", "n": 2.0}, "n: expected an integer >= 1, got 2.0"),
        ({"epsilon": -0.1}, r"epsilon: expected a number in \[0, 1\]"),
        ({"episodes": 0}, "episodes: expected an integer >= 1, got 0"),
        ({"q": np.zeros((2, 2))}, r"q: expected one number or \[39, 2\]"),
        ({"q": np.nan}, "q: values of available actions must be finite"),
    ],
)
def test_bad_arguments_of_learn_are_answered_by_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        learn(envs.make_task("toy/choice"), **({"episodes": 1} | arguments))


@pytest.mark.parametrize(
    ("episode", "arguments", "message"),
    [
        (
            ([0, 1], [0, 0], [0.0], True),
            {},
            "log, episode 0 has 2 states, 2 actions, 1 rewards and 2 behaviour",
        ),
        (([0, 5], [0], [0.0], True), {}, r"state 5 is not in 0\.\.1"),
        (([0, 1], [-1], [0.0], True), {}, r"action -1 is not in 0\.\.1"),
        (([0.5, 1], [0], [0.0], True), {}, "log, episode 0: states must be integers, got 0.5 in step 0"),
        (([0, 1], [0], [np.nan], True), {}, "log, episode 0, step 0: expected a finite reward, got nan"),
        (([0, 1, 0], [0, 0], [0.0, 0.0], [True, False]), {}, "terminated: step 0 of 2 ends the episode"),
        (([0, 1, 0], [0, 0], [0.0, 0.0], [True]), {}, r"expected one flag, or one per step, 2, got shape \[1\]"),
        (([0, 1], [0], [0.0], 0.5), {}, r"terminated: expected true or false \(1 or 0\), got 0.5"),
        (([0, 1], [0], [0.0]), {}, r"log, episode 0: expected \(states, .*\), got 3 of them"),
        (([0, 1], [0], ["1"], True), {}, "log, episode 0: rewards: expected numbers, got <U1"),
        (
            ([0, 1], [0], [[0.0, 1.0]], True),
            {},
            r"episode 0: rewards: expected one number per step, got shape \[1, 2\]",
        ),
        (
            ([0, 1], [0], [0.0], True, [2.0]),
            {},
            r"log, episode 0: behaviour_prob: expected probabilities in \(0, 1\], got 2.0",
        ),
        (([0, 1], [0], [0.0], True, 0.5), {}, r"behaviour_prob: expected one number per step, got shape \[\]"),
        (([0, 1], [0], [0.0], True), {"method": "retrace"}, "retrace needs the behaviour's probability"),
        (
            ([0, 1], [0], [0.0], True),
            {"method": "peng", "q": np.full((2, 2), -np.inf)},
            "peng cannot begin with infinite",
        ),
        (([0, 1], [0], [0.0], False), {"discount": 1.5}, r"discount: expected a number in \(0, 1\], got 1.5"),
    ],
)
def test_bad_logs_are_answered_by_one_sentence(episode, arguments, message):
    with pytest.raises(ValueError, match=message):
        replay(Episodes.of([episode]), **({"q": np.zeros((2, 2)), "discount": 0.9} | arguments))


def test_one_flag_per_step_is_the_last_one():
    for flags, expected in (([False, False], False), (np.array([False, True]), True), ([[0], [1]], True)):
        assert Episodes.of([([0, 1, 2], [1, 1], [0.0, 1.0], flags)]).terminated.tolist() == [expected]


def test_a_list_of_episodes_is_a_log():
    episodes = [([0, 1, 2], [0, 1], [0.0, 1.0], True), ([0, 1, 0], [0, 0], [0.0, 0.0], False)]
    log = Episodes.of(episodes)
    assert Episodes.of(log) is log
    q = np.zeros((3, 2))
    for method in ("model", "q-learning"):
        same = replay(episodes, q, method, discount=0.9), replay(log, q, method, discount=0.9)
        np.testing.assert_array_equal(*same)
    assert EmpiricalModel.of(episodes).visits.tolist() == EmpiricalModel.of(log).visits.tolist()


def test_an_empty_log_is_refused():
    with pytest.raises(ValueError, match="log: expected a list of episodes, got int"):
        Episodes.of(3)
    with pytest.raises(ValueError, match="log: expected at least one episode"):
        Episodes.of([])

"""`time_limit` and Ctrl-C hold within an iteration, whatever the solver is doing, and the answer keeps its proof."""

import itertools
import os
import signal
import threading
import time

import numpy as np
import oracles
import pytest

from greedystep import models, signals
from greedystep.cli import main
from greedystep.mdp import MDP
from greedystep.planning import (
    METHODS,
    elimination,
    policy_evaluation,
    solve,
    transition_tables,
)
from greedystep.planning.undiscounted import UndiscountedModel
from greedystep.signals import Deadline, TimeLimitError

HORIZON = ("greedy-step", "modified-policy-iteration", "multi-step")
MODELS = {
    "garnet": models.garnet(60, 3, 4, discount=0.999),
    "slippery": models.grid(7, 8, slip=0.3, discount=0.99),
    "maze": models.renumbered(models.maze(9, 9, slip=0.2, discount=0.999)),
}


def ending(states, actions, branching, chance, discount):
    """A Garnet whose every step may end the episode."""
    mdp = models.garnet(states, actions, branching, discount=0.9)
    table = mdp.transitions * (1 - chance)
    return MDP(table, mdp.rewards, discount, termination=np.full((states, actions), chance))


def dense(states, actions, chance, discount):
    random = np.random.default_rng(0)
    table = random.dirichlet(np.ones(states), (states, actions)) * (1 - chance)
    return MDP(table, random.normal(size=(states, actions)), discount, termination=np.full((states, actions), chance))


MODELS |= {"undiscounted": ending(40, 2, 3, 0.05, 1.0), "dense": dense(30, 3, 0.01, 0.99)}


def options(mdp, method):
    return {"policies": [mdp.available.argmax(axis=1)]} if method == "multi-step" else {}


def assert_proved(mdp, solution):
    assert np.abs(solution.v - oracles.exact_optimum(mdp)).max() <= solution.error_bound


# -- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", HORIZON)
def test_a_horizon_without_end_is_stopped_by_the_clock(method):
    mdp = models.garnet(100, 4, 8, discount=0.9999)
    began = time.perf_counter()
    solution = solve(mdp, method, horizon=10**7, tolerance=1e-12, time_limit=0.2, **options(mdp, method))
    assert time.perf_counter() - began < 3
    assert solution.message.startswith("stopped by the time limit of 0.2 s: v is only known to be within")
    assert_proved(mdp, solution)


def test_policy_iteration_on_a_model_that_fills_up_under_elimination():
    mdp = models.garnet(5000, 2, 8, discount=0.9999)  # sparse LU of one policy takes ten seconds and more
    began = time.perf_counter()
    solution = solve(mdp, "policy-iteration", time_limit=0.3)
    assert time.perf_counter() - began < 3
    assert solution.converged or solution.message.startswith("stopped by the time limit")
    assert np.isfinite(solution.error_bound)


def test_the_command_line_stops_by_the_clock(capsys):
    began = time.perf_counter()
    command = (
        "plan garnet-100x4x8 --discount .9999 --method greedy-step --horizon 1e7 --tolerance 1e-12 --time-limit .2"
    )
    assert main(command.split()) == 0
    assert time.perf_counter() - began < 5
    assert "stopped by the time limit of 0.2 s" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stop", [TimeLimitError("stopped by the clock"), KeyboardInterrupt()])
def test_whenever_a_solve_is_stopped_it_keeps_a_proof(name, method, stop, monkeypatch):
    """Stop at the first check, the second, the fourth ...: in the set-up, inside sweeps, evaluations and operators."""
    mdp = MODELS[name]
    small_pieces(monkeypatch)
    stopped = 0
    for count in (0, 1, 2, 4, 7, 11, 20, 50):
        calls = itertools.count()

        def check(self, calls=calls, count=count):
            if next(calls) == count:
                raise stop

        monkeypatch.setattr(Deadline, "check", check)
        solution = solve(mdp, method, tolerance=1e-9, max_iterations=100, **options(mdp, method))
        stopped += next(calls) > count
        if next(calls) > count + 1 and not solution.converged and np.isfinite(solution.error_bound):
            assert solution.message.startswith(str(stop) or "interrupted")
        assert_proved(mdp, solution)
    assert stopped >= 4


# -- work in pieces ---------------------------------------------------------------------------------------------------


def small_pieces(monkeypatch):
    for module in (signals, transition_tables, policy_evaluation):
        monkeypatch.setattr(module, "CHUNK", 20)
    monkeypatch.setattr(elimination, "AT_ONCE", 10)
    monkeypatch.setattr(elimination, "BLOCK", 7)
    monkeypatch.setattr(elimination, "WORK", 40)


@pytest.mark.parametrize("method", ["auto", "policy-iteration"])
@pytest.mark.parametrize("name", MODELS)
def test_work_in_pieces_is_the_same_work(name, method, monkeypatch):
    mdp = MODELS[name]
    whole = solve(mdp, method, **options(mdp, method))
    small_pieces(monkeypatch)
    pieces = solve(mdp, method, **options(mdp, method))
    if name == "dense":  # blocks are added up in another order
        np.testing.assert_allclose(pieces.v, whole.v, rtol=1e-12)
    else:
        np.testing.assert_array_equal(pieces.v, whole.v)
        assert pieces.iterations == whole.iterations


@pytest.mark.parametrize("name", ["garnet", "slippery", "maze", "undiscounted"])
def test_an_order_in_pieces_is_the_same_order(name, monkeypatch):
    rows = transition_tables.as_table(MODELS[name])
    final = transition_tables.absorbing_states(rows)
    sources = np.arange(final.size) % 7 == 3
    whole = transition_tables.backward_order(rows, final, sources, Deadline())
    small_pieces(monkeypatch)
    for one, other in zip(transition_tables.backward_order(rows, final, sources, Deadline()), whole, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rounds", [0, 1, 4, 9])
def test_bicgstab_that_is_stopped_hands_back_its_best(rounds, monkeypatch):
    mdp = MODELS["garnet"]
    rows = transition_tables.as_table(mdp)
    chain = policy_evaluation.PolicyEvaluator(rows).chain(rows.first[:-1].copy(), mdp.discount)
    whole, stopped = np.zeros(mdp.num_states), np.zeros(mdp.num_states)
    assert policy_evaluation.bicgstab(chain, whole, 0.0, rounds, Deadline())[0] == rounds
    small_pieces(monkeypatch)
    limit, calls = Deadline(), itertools.count()

    def check():
        if next(calls) == rounds:
            raise TimeLimitError

    monkeypatch.setattr(limit, "check", check)
    with pytest.raises(TimeLimitError):
        policy_evaluation.bicgstab(chain, stopped, 0.0, 1000, limit)
    np.testing.assert_array_equal(stopped, whole)


@pytest.mark.parametrize("states", [1, 9, 10, 11, 35, 36])
def test_elimination_in_blocks(states, monkeypatch):
    small_pieces(monkeypatch)
    random = np.random.default_rng(states)
    matrix, rows = random.dirichlet(np.ones(states), 2 * states), random.permutation(2 * states)[:states]
    reward = random.normal(size=states)
    truth = np.linalg.solve(np.eye(states) - 0.999 * matrix[rows], reward)
    v = elimination.solve_dense(matrix, rows, 0.999, reward, Deadline())
    np.testing.assert_allclose(v, truth, rtol=1e-10)


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch):
    """Signals wait from the first check on, however early it is."""
    monkeypatch.setattr(signals, "HOLD_AFTER", 0.0)


@pytest.mark.usefixtures("held")
def test_a_signal_waits_for_the_next_check_and_then_its_handler_runs():
    before = signal.getsignal(signal.SIGINT)
    with Deadline() as limit:
        limit.check()
        signal.raise_signal(signal.SIGINT)
        waited = True
        with pytest.raises(KeyboardInterrupt):
            limit.check()
        limit.check()
    assert waited
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("held")
def test_a_second_ctrl_c_does_not_wait():
    with pytest.raises(KeyboardInterrupt), Deadline() as limit:  # noqa: PT012
        limit.check()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("still waiting")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("held")
def test_a_signal_that_comes_too_late_is_handed_on():
    finished = False
    with pytest.raises(KeyboardInterrupt), Deadline() as limit:  # noqa: PT012
        limit.check()
        signal.raise_signal(signal.SIGINT)
        finished = True
    assert finished


@pytest.mark.usefixtures("held")
def test_ctrl_c_does_not_break_into_a_callback_but_ends_the_solve():
    told = []

    def press(news):
        if news.iteration == 3:
            signal.raise_signal(signal.SIGINT)
        told.append(news.iteration)

    solution = solve(MODELS["garnet"], "value-iteration", callback=press)
    assert told == [1, 2, 3]
    assert solution.message.startswith("interrupted: v is only known to be within")
    assert_proved(MODELS["garnet"], solution)


@pytest.mark.parametrize("method", HORIZON)
def test_ctrl_c_within_an_iteration(method):
    mdp = models.garnet(100, 4, 8, discount=0.9999)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    solution = solve(mdp, method, horizon=10**7, tolerance=1e-12, **options(mdp, method))
    assert time.perf_counter() - began < 3
    assert solution.message.startswith("interrupted: v is only known to be within")
    assert_proved(mdp, solution)


@pytest.mark.usefixtures("held")
def test_ctrl_c_in_the_set_up():
    """The value of a policy to start from, with discount 1: the first thing that takes time."""
    mdp, evaluate = MODELS["undiscounted"], UndiscountedModel.policy_value

    def press(*arguments):
        signal.raise_signal(signal.SIGINT)
        return evaluate(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UndiscountedModel, "policy_value", press)
        solution = solve(mdp, initial=np.zeros(mdp.num_states, int))
    assert solution.message.startswith("interrupted")
    assert solution.iterations == 0


def test_limits_hold_in_other_threads_too():
    answers = []

    def work():
        answers.append(solve(MODELS["garnet"], "greedy-step", horizon=10**7, tolerance=1e-12, time_limit=0.1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert answers[0].message.startswith("stopped by the time limit")


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2.5, 2.0, np.float64(3), True, np.inf])
def test_iterations_are_counted_in_whole_numbers(count):
    with pytest.raises(ValueError, match=r"max_iterations: expected an integer >= 1, got "):
        solve(MODELS["garnet"], max_iterations=count)


def test_the_command_line_counts_iterations_in_whole_numbers(capsys):
    assert main(["plan", "chain-5", "--max-iterations", "2.5"]) == 2
    assert "2.5" in capsys.readouterr().err

"""Judging a table quickly: the same answer as from the exact model."""

import numpy as np
import pytest

from greedystep import envs
from greedystep.envs import toy
from greedystep.models import chain
from greedystep.planning import solve
from greedystep.tabular import greedy_policy
from greedystep.tabular.time_to_solve import make_solved_test

TASKS = {
    "choice": toy.choice(5, noise=1.0),
    "trace-back": toy.trace_back(6),
    "bomb": toy.bomb(2, side=5),
    "watch-repair": toy.watch_repair(4),
    "grid-world": toy.grid_world(3),
    "cut short": toy.from_mdp("cut", chain(4, 0.9), 0, 3),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_quick_judge_agrees_with_the_exact_model(name):
    task = TASKS[name]
    solves, random = make_solved_test(task), np.random.default_rng(0)
    optimum = np.where(task.mdp.available, solve(task.mdp).q, -np.inf)
    answers = []
    for noise in (0.0, 0.0, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0):
        q = np.round(optimum + noise * random.normal(size=optimum.shape) * max(1.0, abs(task.optimal_return)), 2)
        answers.append(solves(q))
        assert answers[-1] == task.solved_by(greedy_policy(q))
    assert len(set(answers)) == (1 if name == "cut short" else 2)


@pytest.mark.parametrize(("name", "quick"), [("choice", True), ("trace-back", True), ("grid-world", False)])
def test_one_pass_is_taken_only_where_it_is_exact(name, quick, monkeypatch):
    task = TASKS[name]
    monkeypatch.setattr(toy.ToyTask, "solved_by", lambda *_: pytest.fail("asked") if quick else "asked")
    undecided = np.zeros((task.num_states, task.num_actions))
    assert make_solved_test(task)(undecided) == (False if quick else "asked")


def test_an_episode_that_the_horizon_cuts_is_not_taken_in_one_pass():
    whole = toy.from_mdp("forward", envs.make_task("toy/choice", delay=4).mdp, 0, 4)
    short = toy.from_mdp("forward", envs.make_task("toy/choice", delay=4).mdp, 0, 3)
    right = np.tile([1.0, 0.0], (7, 1))
    assert make_solved_test(whole)(right)
    assert not make_solved_test(short)(right)  # the reward comes with the fourth step

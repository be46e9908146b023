"""With and without sticky actions: what is trained, and how it is judged, on made-up trainings."""

import pytest
from deep_experiments import silent
from made_runs import made

from greedystep import envs
from greedystep.experiments import sticky_actions as luck
from greedystep.experiments.deep.suite import GREEDY, TASKS, steady


def test_the_games_differ_in_nothing_but_sticky_actions():
    for game in luck.GAMES:
        with_luck, without = (envs.make(TASKS[task].env, **TASKS[task].env_options) for task in (game, steady(game)))
        assert (with_luck.sticky, without.sticky) == (0.1, 0)
        assert TASKS[steady(game)].steps == TASKS[game].steps


def test_settings_are_chosen_with_sticky_actions_and_used_without(made_up, tmp_path):
    result = luck.run("paper", silent, tmp_path)
    assert not result["numbers"]["missing"]
    assert {task for task, _, seed, _ in made_up.trained if seed >= 1_000_000} == set(luck.GAMES)
    for game in luck.GAMES:
        own, other = (result["numbers"]["tasks"][task]["methods"] for task in (game, steady(game)))
        assert all(own[method]["setting"] == other[method]["setting"] for method in luck.BOTH)
    before = len(made_up.trained)
    assert luck.run("paper", silent, tmp_path)["claims"] == result["claims"]
    assert len(made_up.trained) == before


def test_only_one_task_is_trained_when_it_alone_is_asked_for(made_up, tmp_path):
    luck.run("quick", silent, tmp_path, ["breakout-steady"])
    assert {task for task, *_ in made_up.trained} == {"breakout-steady"}


@pytest.mark.parametrize(
    ("without", "for_skill", "ahead"),
    [
        ({"dqn": made(10, over=1), GREEDY: made(20, over=1)}, "confirmed", "confirmed"),
        ({"dqn": made(10, over=1), GREEDY: made(5, over=9)}, "refuted", "refuted"),
    ],
)
def test_verdicts(without, for_skill, ahead):
    found = {}
    for game in luck.GAMES:
        found |= {(game, "dqn"): made(10, over=1), (game, GREEDY): made(5, over=5)}
        found |= {(steady(game), method): one for method, one in without.items()}
    assert [claim.verdict for claim in luck.claims(found)] == [for_skill, ahead]
    del found["breakout", "dqn"], found["space-invaders-steady", GREEDY]
    claims = luck.claims(found)
    assert {claim.verdict for claim in claims} == {"untested"}
    assert "Breakout: with sticky actions: not trained: DQN" in claims[0].measured
    assert "Space Invaders: without: not trained: Greedy-Step DQN" in claims[0].measured

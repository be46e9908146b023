"""The trials of Figure 2 in one queue, kept in pieces: what is done is not done again, and nothing else changes."""

import json
import threading
import time

import pytest

from greedystep.experiments import fig2
from greedystep.experiments.fig2 import delayed, grid_world
from greedystep.experiments.fig2.trial_store import PIECE, Batch, TrialStore, run_trials

SMALL = {
    "delays": {"trace-back": [4, 5], "choice": [3]},
    "epsilons": [1.0],
    "trials": {"fast": 3, "medium": 2, "slow": 2},
    "limit": 300,
    "noise": [0.5],
    "noisy_delay": 3,
    "noisy_episodes": 300,
    "sizes": [3, 4, 5],
    "logged": 4,
    "offline_trials": 2,
}
"""Figure 2, as small as it can be."""


def silent(share, what):
    pass


def batch(name="squares", work=lambda seed: seed * seed, trials=5, cost=PIECE / 2, **settings):
    def is_whole(found):
        return type(found) is int

    return Batch(name, f"the {name}", {"name": name, **settings}, trials, cost, lambda: work, is_whole)


# -- the queue --------------------------------------------------------------------------------------------------------


def test_all_trials_are_run_and_stand_in_the_order_of_their_seeds():
    kept, batches = TrialStore(), [batch(), batch("cubes", lambda seed: seed**3, trials=40, cost=PIECE / 7)]
    run_trials(batches, kept, silent)
    assert [kept.of(one) for one in batches] == [[s**2 for s in range(5)], [s**3 for s in range(40)]]


def test_the_longest_trials_begin_first(monkeypatch):
    monkeypatch.setattr("greedystep.experiments.fig2.trial_store.available_cores", lambda: 1)
    begun = []
    costs = {"short": 1.0, "long": 9.0, "middle": 5.0}
    batches = [
        batch(name, lambda seed, name=name: begun.append(name) or 0, 2, cost=cost) for name, cost in costs.items()
    ]
    run_trials(batches, TrialStore(), silent)
    assert begun == ["long"] * 2 + ["middle"] * 2 + ["short"] * 2


def test_no_worker_waits_for_another_batch_to_end(monkeypatch):
    """The one trial of the first batch ends only when the second has begun."""
    monkeypatch.setattr("greedystep.experiments.fig2.trial_store.available_cores", lambda: 2)
    begun = threading.Event()
    first = batch("first", lambda seed: int(begun.wait(20)), trials=1, cost=PIECE)
    second = batch("second", lambda seed: begun.set() or 7, trials=1)
    kept = TrialStore()
    run_trials([first, second], kept, silent)
    assert kept.of(first) == [1]
    assert kept.of(second) == [7]


def test_progress_says_how_many_are_left():
    told = []
    run_trials([batch(trials=3)], TrialStore(), lambda share, what: told.append((round(share, 3), what)))
    assert told == [
        (0.0, "0 of 3 trials are there already"),
        (0.333, "2 of 3 trials left; the squares"),
        (0.667, "1 of 3 trials left; the squares"),
        (1.0, "0 of 3 trials left; the squares"),
    ]


def test_what_goes_wrong_is_raised_and_nothing_more_is_begun(monkeypatch):
    monkeypatch.setattr("greedystep.experiments.fig2.trial_store.available_cores", lambda: 1)
    begun = []

    def work(seed):
        begun.append(seed)
        if seed > 3:
            time.sleep(0.01)  # all of them take ten seconds: long enough to be stopped
        return 6 // (3 - seed)

    with pytest.raises(ZeroDivisionError):
        run_trials([batch(work=work, trials=1000)], TrialStore(), silent)
    assert len(begun) < 1000


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_pieces_are_found_again_and_not_run_again(tmp_path):
    run_trials([batch()], TrialStore(tmp_path / "parts"), silent)
    assert len(list((tmp_path / "parts" / "fig2").iterdir())) == 3  # five trials, two a piece
    kept = TrialStore(tmp_path / "parts")
    run_trials([batch(work=lambda seed: pytest.fail("run again"))], kept, silent)
    assert kept.of(batch()) == [0, 1, 4, 9, 16]
    assert kept.problems == []


def test_whole_pieces_survive_an_interruption(tmp_path):
    run = []

    def work(seed):
        run.append(seed)
        return seed

    def interrupt(share, what):
        if what.startswith("1 of 5"):  # four are done: two pieces at least are whole, one is not
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trials([batch(work=work)], TrialStore(tmp_path), interrupt)
    done = {
        seed for file in tmp_path.glob("fig2/*") for seed in range(*json.loads(file.read_text())["config"]["seeds"])
    }
    assert 3 <= len(done) <= 4
    run.clear()
    kept = TrialStore(tmp_path)
    run_trials([batch(work=work)], kept, silent)
    assert set(run) == set(range(5)) - done
    assert len(run) == 5 - len(done)
    assert kept.of(batch()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: text.replace('"trials"', '"trails"'),
        lambda text: json.dumps(json.loads(text) | {"trials": [0]}),
        lambda text: json.dumps(json.loads(text) | {"trials": [0, None]}),
        lambda text: json.dumps(json.loads(text) | {"config": {}}),
    ],
)
def test_a_damaged_piece_is_reported_and_run_again(damage, tmp_path):
    run_trials([batch()], TrialStore(tmp_path), silent)
    file = next(tmp_path.glob("fig2/squares-0-*.json"))
    file.write_text(damage(file.read_text()))
    again, kept = [], TrialStore(tmp_path)
    run_trials([batch(work=lambda seed: again.append(seed) or seed * seed)], kept, silent)
    assert sorted(again) == [0, 1]
    assert kept.of(batch()) == [0, 1, 4, 9, 16]
    assert len(kept.problems) == 1
    assert str(file) in kept.problems[0]
    assert kept.problems[0].endswith("its trials count as missing")
    assert TrialStore(tmp_path).of(batch()) == [0, 1, 4, 9, 16]


def test_other_settings_are_other_pieces(tmp_path):
    run_trials([batch(limit=10)], TrialStore(tmp_path), silent)
    kept = TrialStore(tmp_path)
    run_trials([batch(work=lambda seed: -seed, limit=20)], kept, silent)
    assert kept.of(batch(limit=20)) == [0, -1, -2, -3, -4]
    assert kept.of(batch(limit=10)) == [0, 1, 4, 9, 16]
    assert kept.problems == []


def test_what_decides_a_number_decides_the_piece():
    def files(**changes):
        scale = SMALL | changes
        batches = [*delayed.plan("trace-back", scale), *delayed.plan_exploration(scale), *grid_world.plan(scale)]
        return {piece.file for batch in batches for piece in batch.pieces()}

    batches = len(files())
    assert not files() & files(limit=301, logged=5)
    assert len(files(delays={"trace-back": [4, 6], "choice": [3]}) - files()) == batches_of_a_delay()
    assert batches == 2 * batches_of_a_delay() + 3


def batches_of_a_delay():
    return len(delayed.METHODS) + len(SMALL["epsilons"])


@pytest.mark.parametrize("found", [[1, 2], [None, 1], [None, None]])
def test_a_trial_is_two_numbers_of_episodes(found):
    assert delayed._is_trial(found)


@pytest.mark.parametrize(
    "found", [None, [1], [1, 2, 3], [0, 1], [1.5, 1], [True, 1], ["1", 1], {"solved": 1, "seen": 1}]
)
def test_anything_else_is_not(found):
    assert not delayed._is_trial(found)


# -- the experiment ---------------------------------------------------------------------------------------------------


def run(*arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fig2.SCALES, "quick", SMALL)
        return fig2.run("quick", silent, *arguments)


@pytest.fixture(scope="module")
def whole():
    return run()


def test_a_run_in_pieces_is_the_run_in_one(whole, tmp_path, monkeypatch):
    choice = run(tmp_path, ["choice"])
    assert choice["numbers"]["choice"] == whole["numbers"]["choice"]
    assert choice["numbers"]["noise"] == whole["numbers"]["noise"]
    assert [choice["numbers"][part] for part in ("trace-back", "exploration", "offline")] == [[], [], []]
    assert choice["numbers"]["missing"] == [
        "trace-back: 26 of 26 batches of trials are missing; they come with --only trace-back, or without --only",
        "exploration: 2 of 2 batches of trials are missing; they come with --only trace-back, or without --only",
        "offline: 3 of 3 batches of trials are missing; they come with --only grid-world, or without --only",
    ]
    assert run(tmp_path) == whole
    monkeypatch.setattr(delayed, "trial", lambda *_, **__: pytest.fail("run again"))
    monkeypatch.setattr(grid_world, "learn_from_log", lambda *_: pytest.fail("run again"))
    assert run(tmp_path) == whole
    assert whole["numbers"]["missing"] == whole["numbers"]["problems"] == []


@pytest.mark.parametrize("task", fig2.TASKS)
def test_one_task_alone_is_drawn_and_judged(task, tmp_path, whole):
    result = run(tmp_path, [task])
    assert set(fig2.draw(result)) == set(fig2.draw(whole))
    ids = [table.id for table in fig2.tables(result)]
    expected = {"choice": ["choice", "noise"], "trace-back": ["fig2", "order", "exploration"], "grid-world": ["grid"]}
    assert ids == expected[task]
    claims = {"choice": 0, "trace-back": 4, "grid-world": 1}
    assert len(result["claims"]) == claims[task]
    assert all(claim in whole["claims"] for claim in result["claims"])

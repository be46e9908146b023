"""The experiment on the code that the paper's authors released: what it computes, what it measures, how it judges."""

import json

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_results import KEPT, needs_kept_results

from greedystep import io
from greedystep.experiments import released_code
from greedystep.experiments.released_code import FIRST, LAST, TITLE, first_version, last_version, random_episode
from greedystep.replay import ReplayBuffer
from greedystep.returns import greedy_step, n_step
from greedystep.trajectory import Trajectory

seeds = st.integers(0, 2**32 - 1)


def episode_of(seed, lowest):
    return random_episode(np.random.default_rng(seed), lowest)


def discounts_of(rewards, discount):
    return np.append(np.full(len(rewards) - 1, discount), 0.0)


# -- learning targets -------------------------------------------------------------------------------------------------


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_first_version_has_the_one_step_target_where_values_are_not_negative(seed):
    rewards, next_values, discount = episode_of(seed, 0.0)
    one_step = n_step(rewards, discounts_of(rewards, discount), next_values, n=1)
    np.testing.assert_allclose(first_version(rewards, next_values, discount), one_step, rtol=1e-12)
    np.testing.assert_allclose(released_code.one_step(rewards, next_values, discount), one_step, rtol=1e-12)


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_where_values_are_negative_it_shrinks_them_by_their_place_in_the_episode(seed):
    """Row i of column j is γ^(j-i) times the one-step target, so that the maximum of negative ones is that of row 0."""
    rewards, next_values, discount = episode_of(seed, -3.0)
    one_step = rewards + discount * next_values
    shrunk = np.where(one_step < 0, one_step * discount ** np.arange(len(rewards)), one_step)
    np.testing.assert_allclose(first_version(rewards, next_values, discount), shrunk, rtol=1e-12, atol=1e-12)


@given(seed=seeds)
@settings(max_examples=100, deadline=None)
def test_the_last_version_has_the_greedy_step_return(seed):
    rewards, next_values, discount = episode_of(seed, -3.0)
    ours = greedy_step(rewards, discounts_of(rewards, discount), next_values).returns
    np.testing.assert_allclose(last_version(rewards, next_values, discount), ours, rtol=1e-9, atol=1e-12)


def test_both_versions_on_an_episode_worked_out_by_hand():
    rewards, next_values = np.array([0.0, 0.0, 8.0]), np.array([3.0, 1.0, 0.0])
    np.testing.assert_array_equal(first_version(rewards, next_values, 0.5), [1.5, 0.5, 8.0])
    np.testing.assert_array_equal(last_version(rewards, next_values, 0.5), [2.0, 4.0, 8.0])


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_targets_leave_their_arguments_as_they_are(seed):
    rewards, next_values, discount = episode_of(seed, -3.0)
    for targets in (first_version, last_version):
        before = rewards.copy(), next_values.copy()
        targets(rewards, next_values, discount)
        np.testing.assert_array_equal((rewards, next_values), before)


# -- drawing ----------------------------------------------------------------------------------------------------------


def test_episodes_drawn_by_a_random_step_are_trained_on_by_the_square_of_their_length():
    """The released code finds an episode by drawing a row of it, and takes all its steps; our pool draws episodes."""
    lengths = np.array([10, 15, 75])

    def episode(number, length):
        last = np.arange(length) == length - 1
        columns = np.zeros(length, int), np.full(length, float(number)), last, np.zeros(length, bool)
        return Trajectory(np.zeros((length + 1, 1), np.float32), *columns)

    log = [episode(number, length) for number, length in enumerate(lengths)]
    total = int(lengths.sum())
    buffer, replay = ReplayBuffer.from_episodes(log, total, len(log), (1,), np.dtype(np.float32))
    rows = buffer.read(replay, buffer.sample_episodes(jax.random.key(0), replay, 600_000))
    trained = np.bincount(np.asarray(rows.reward)[np.asarray(rows.is_step)].astype(int))
    np.testing.assert_allclose(trained / trained.sum(), lengths / total, atol=0.01)

    random = np.random.default_rng(0)
    alike = released_code.draw_alike(lengths, 60_000, random)
    np.testing.assert_allclose(released_code.frequency(lengths, alike), 1, atol=0.03)
    drawn = released_code.draw_by_row(lengths, 60_000, random)
    assert drawn.sum() == 60_000
    theirs, by_square = drawn * lengths, lengths * (lengths + 1)  # one row per observation, one more than steps
    np.testing.assert_allclose(theirs / theirs.sum(), by_square / by_square.sum(), atol=0.01)
    np.testing.assert_allclose(released_code.frequency(lengths, drawn) * lengths / total, theirs / theirs.sum())


def test_the_released_code_never_uses_an_episode_of_fewer_than_ten_steps():
    assert list(released_code.draw_by_row(np.array([1, 9, 10]), 100, np.random.default_rng(0))) == [0, 0, 100]


# -- the experiment ---------------------------------------------------------------------------------------------------


def run():
    reported = []
    result = released_code.run("quick", lambda share, what: reported.append((share, what)))
    assert all(0 <= share <= 1 and what for share, what in reported)
    return json.loads(io.to_json(result))


@pytest.fixture(scope="module")
def result():
    return run()


def judged(result):
    return {claim["id"]: claim for claim in result["claims"]}


def verdicts(rows, drawing):
    return [claim.verdict for claim in released_code.claims(rows, drawing)]


def test_the_same_run_gives_the_same_result(result):
    assert run() == result


def test_the_first_version_is_one_step_the_last_greedy_step_and_long_episodes_count_more(result):
    claims = judged(result)
    assert {name: claim["verdict"] for name, claim in claims.items()} == {
        "released-first-looks-ahead": "refuted",
        "released-last-is-greedy-step": "confirmed",
        "released-drawing": "refuted",
    }
    assert "in 0 of 1,000 random episodes" in claims["released-first-looks-ahead"]["measured"]
    assert "in 0 of 2,000 random episodes" in claims["released-last-is-greedy-step"]["measured"]
    assert all("was written after the code was read" in claim["rule"] for claim in claims.values())
    assert all("not in the paper" in claim["where"] for claim in claims.values())


def test_the_counts_are_those_of_the_functions(result):
    rows = {(row["targets"], row["values"]): row["differ from"] for row in result["numbers"]["targets"]}
    assert len(rows) == len(result["numbers"]["targets"]) == 6
    for kind in released_code.LOWEST:
        assert rows["greedy-step", kind]["greedy-step"] == rows[LAST, kind]["greedy-step"] == 0
        assert rows[LAST, kind] == rows["greedy-step", kind]
        assert rows["greedy-step", kind]["one-step"] > 900  # few episodes give nothing to look ahead for
        assert rows[FIRST, kind]["greedy-step"] > 900
    assert rows[FIRST, "not negative"]["one-step"] == 0
    assert rows[FIRST, "of both signs"]["one-step"] > 900


def test_a_step_counts_by_the_length_of_its_episode(result):
    drawing = result["numbers"]["drawing"]
    steps, theirs, ours = (np.array([row[name] for row in drawing]) for name in ("steps", "released", "ours"))
    expected = (steps + 1) * steps.sum() / np.sum(steps * (steps + 1))
    np.testing.assert_allclose(theirs, expected, rtol=0.2)
    np.testing.assert_allclose(ours, 1, rtol=0.05)


def test_verdicts_are_others_if_the_numbers_are(result, monkeypatch):
    rows, drawing = result["numbers"]["targets"], result["numbers"]["drawing"]
    even = [row | {"released": 1.0} for row in drawing]
    assert verdicts(rows, even) == ["refuted", "confirmed", "confirmed"]
    swapped = {FIRST: last_version, LAST: first_version}
    monkeypatch.setattr(released_code, "VERSIONS", swapped)
    monkeypatch.setattr(
        released_code, "DRAWINGS", {"released": released_code.draw_alike, "ours": released_code.draw_alike}
    )
    assert [claim["verdict"] for claim in run()["claims"]] == ["confirmed", "partly", "confirmed"]


@pytest.mark.parametrize(("differ", "expected"), [(0, "refuted"), (1, "partly"), (8, "partly"), (9, "confirmed")])
def test_looking_ahead_is_judged_beside_greedy_step(differ, expected):
    assert released_code._ahead(differ, 9) == expected


@pytest.mark.parametrize(("differ", "expected"), [(0, "confirmed"), (1, "partly"), (9, "partly"), (10, "refuted")])
def test_being_greedy_step_is_judged_by_all_episodes(differ, expected):
    assert released_code._same(differ, 10) == expected


@pytest.mark.parametrize(
    ("times", "expected"), [(0.8, "refuted"), (0.95, "confirmed"), (1.09, "confirmed"), (2, "refuted")]
)
def test_equally_often_is_within_a_tenth(times, expected):
    assert released_code._equal(times) == expected


def test_the_figure_and_the_table_come_from_the_json_alone(result):
    assert set(result) == {"title", "settings", "numbers", "claims"}
    assert result["title"] == TITLE
    assert "ε = 0;" in result["settings"]["evaluation"]
    (figure,) = released_code.draw(result).values()
    targets, often = figure.axes
    example = result["numbers"]["example"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in targets.lines}
    assert drawn["released, first version"] == drawn["one-step targets"] == example["one-step"]
    assert drawn["greedy-step returns"] == example["greedy-step"]
    np.testing.assert_allclose(drawn["released, last version"], drawn["greedy-step returns"])
    assert [list(line.get_ydata()) for line in often.lines] == [
        [row[name] for row in result["numbers"]["drawing"]] for name in ("ours", "released")
    ]
    (table,) = released_code.tables(result)
    assert table.id == released_code.NAME
    assert [FIRST, "not negative", 1000, 0] in [row[:4] for row in table.rows]


@needs_kept_results
def test_the_documentation_has_the_kept_numbers():
    kept = json.loads((KEPT / "released.json").read_text())
    said = (KEPT.parents[1] / "docs" / "results.md").read_text()
    rows = {(row["targets"], row["values"]): row for row in kept["numbers"]["targets"]}
    first, greedy = (rows[name, "not negative"] for name in (FIRST, "greedy-step"))
    assert first["differ from"]["one-step"] == 0
    assert f"differ in none of {first['episodes']:,} random episodes" in said
    assert f"differ in {greedy['differ from']['one-step']:,}." in said
    often = [row["released"] for row in kept["numbers"]["drawing"]]
    assert f"one of 2,048 steps {often[-1] / often[0]:.0f} times as often as one of 16" in said
    assert {claim["verdict"] for claim in kept["claims"]} == {"refuted", "confirmed"}

"""The interactive page docs/grid-world.html: its update rules beside the library's, and its use with mouse and keys."""

import json
from pathlib import Path

import numpy as np
import pytest
from browser import Browser

import greedystep as gs

PAGE = Path(__file__).parents[1] / "docs" / "grid-world.html"
WORLDS, GAMMA, SLIP, WALKS = ("Bridge", "Ice", "Maze"), 0.95, 0.3, 120


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(opened):
    """The page, freshly loaded from its file in a window in daylight."""
    opened.events.clear()
    opened.resize(1200, 900)
    opened.media()
    opened.open(PAGE.as_uri())
    yield opened
    assert opened.complaints() == []
    assert [address for address in opened.requests() if not address.startswith("file:")] == []


def compute(page, body):
    """Return what JavaScript returns that has the names of `gridworld`; its arrays of numbers become lists."""
    names = page.evaluate("Object.keys(gridworld).join()")
    call = (
        f"JSON.stringify((({{{names}}}) => {{ {body} }})(gridworld), (_, x) => x instanceof Float64Array ? [...x] : x)"
    )
    return json.loads(page.evaluate(call))


def library_model(rows, slip):
    kind = np.array([list(row) for row in rows])
    (goal,) = np.argwhere(kind == "G")
    return gs.models.grid(
        *kind.shape,
        goal=tuple(goal),
        walls=kind == "#",
        holes=kind == "o",
        slip=slip,
        step_reward=0.0,
        goal_reward=1.0,
        hole_reward=0.0,
        discount=GAMMA,
    )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("slip", [0.0, SLIP])
def test_its_worlds_are_grids_of_the_library(page, world, slip):
    rows, free = compute(page, f"const rows = WORLDS.{world}; return [rows, makeModel(rows, {slip}).free]")
    mdp, q = library_model(rows, slip), np.zeros((63, 4))
    q[free] = np.random.default_rng(0).random((len(free), 4))
    model = f"const model = makeModel(WORLDS.{world}, {slip});"
    body = f"{model} return [bellman(model, {q.ravel().tolist()}), optimum(model)]"
    after, best = (np.reshape(table, (63, 4)) for table in compute(page, body))
    np.testing.assert_allclose(after, gs.operators.bellman(mdp, q), rtol=0, atol=1e-9)
    np.testing.assert_allclose(best, gs.solve(mdp, tolerance=1e-11).q, rtol=0, atol=1e-9)


@pytest.fixture
def log(page):
    """Walks on the ice, and a table that is not smooth."""
    q = np.random.default_rng(1).random((63, 4))
    body = f"const model = makeModel(WORLDS.Ice, {SLIP}), log = walk(model, {WALKS}, 5); return {{model, log}}"
    return compute(page, body) | {"q": q, "start": f"{body.split('return')[0]} const q = {q.ravel().tolist()};"}


def test_walks_take_steps_of_the_model(log):
    outcomes, slips = log["model"]["outcomes"], []
    for walk in log["log"]:
        steps = zip(walk["states"], walk["actions"], walk["rewards"], walk["states"][1:], strict=False)
        for t, (s, a, reward, there) in enumerate(steps):
            possible = [row for row in outcomes[s][a] if row[0] == there]
            assert possible
            assert reward == possible[0][2]
            assert possible[0][3] == (walk["terminated"] and t == len(walk["actions"]) - 1)
        assert walk["terminated"] or len(walk["actions"]) == 60
        slips += walk["slipped"]
    assert abs(np.mean(slips) - SLIP) < 4 * (SLIP * (1 - SLIP) / len(slips)) ** 0.5


def segments(log):
    for walk in log["log"]:
        rewards = np.array(walk["rewards"], float)
        discounts = np.full(len(rewards), GAMMA)
        discounts[-1] *= not walk["terminated"]
        yield walk, (rewards, discounts, log["q"].max(axis=1)[walk["states"][1:]])


def test_returns_are_those_of_the_library(page, log):
    body = """return log.map(one => segment(one, q)).map(part => [nStep(part, 4), lambdaReturn(part, 0.7),
        greedyStep(part).returns, greedyStep(part).steps])"""
    for theirs, (_, part) in zip(compute(page, log["start"] + body), segments(log), strict=True):
        greedy = gs.returns.greedy_step(*part)
        ours = gs.returns.n_step(*part, n=4), gs.returns.lambda_return(*part, lambda_=0.7), greedy.returns, greedy.steps
        for one, other in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_sweeps_are_those_of_the_library(page, log):
    body = """return [meanSweep(log, q, part => nStep(part, 4)), greedySweep(log, q).q,
        expectedSweep(log, count(log), q).q]"""
    mean, greedy, expected = (np.reshape(table, (63, 4)) for table in compute(page, log["start"] + body))
    tuples = [(walk["states"], walk["actions"], walk["rewards"], walk["terminated"]) for walk in log["log"]]
    sums, counts = np.zeros((63, 4)), np.zeros((63, 4))
    for walk, part in segments(log):
        np.add.at(sums, (walk["states"][:-1], walk["actions"]), gs.returns.n_step(*part, n=4))
        np.add.at(counts, (walk["states"][:-1], walk["actions"]), 1)
    ours = np.where(counts > 0, sums / np.maximum(counts, 1), log["q"])
    np.testing.assert_allclose(mean, ours, rtol=0, atol=1e-9)
    np.testing.assert_allclose(greedy, gs.operators.sampled(tuples, log["q"], GAMMA), rtol=0, atol=1e-9)
    episodes = gs.tabular.Episodes.of(tuples)
    ours = gs.tabular.replay(episodes, log["q"], "greedy-step", form="expected", discount=GAMMA)
    np.testing.assert_allclose(expected, ours, rtol=0, atol=1e-9)


def test_the_chosen_piece_of_a_walk_gives_the_value(page, log):
    body = "const after = greedySweep(log, q); return [after.q, after.chosen]"
    after, chosen = compute(page, log["start"] + body)
    parts = list(segments(log))
    assert len(chosen) > 50
    for pair, found in chosen.items():
        walk, (rewards, discounts, values) = parts[found["episode"]]
        t, n = found["t"], found["n"]
        assert 4 * walk["states"][t] + walk["actions"][t] == int(pair)
        weights = np.append(1.0, np.cumprod(discounts[t : t + n]))
        value = weights[:-1] @ rewards[t : t + n] + weights[-1] * values[t + n - 1]
        assert value == pytest.approx(after[int(pair)], abs=1e-9)


# -- the page ---------------------------------------------------------------------------------------------------------


def errors(page, method):
    return page.evaluate(f"(({{over, under}}) => [over, under])(shown.runs.{method}[state.sweeps])")


def attempt(page, number):
    page.evaluate(f"document.querySelectorAll('[data-try]')[{number - 1}].click()")


def test_what_the_page_suggests_to_try_shows_what_it_says(page):
    attempt(page, 1)
    assert np.abs(errors(page, "greedy")).max() < 1e-9
    assert errors(page, "vi")[1] < -0.5
    for done in (False, True):
        page.evaluate(f"state.sweeps = {10 + done}; draw()")
        assert (errors(page, "vi")[1] > -1e-9) == done
    attempt(page, 2)
    few = errors(page, "greedy")[0]
    attempt(page, 3)
    assert 0.1 < few < errors(page, "greedy")[0] == pytest.approx(0.57, abs=0.005)
    assert page.evaluate("document.querySelectorAll('#board .lies').length === shown.model.free.length")
    attempt(page, 4)
    assert errors(page, "n")[1] < -0.25
    attempt(page, 5)
    assert np.abs(errors(page, "expected")).max() < 0.07


def test_keys_and_buttons_step_choose_and_reset(page):
    page.press("3", "3")
    assert page.evaluate("document.querySelector('[name=method]:checked').value") == "lambda"
    page.press("s", "s")
    page.click("#step")
    assert "after 2 sweeps" in page.evaluate("document.getElementById('believes').textContent")
    assert "2 sweeps" in page.evaluate("document.getElementById('status').textContent")
    page.press("n", "n")
    page.press("0", "0")
    assert page.evaluate("[state.sweeps, state.seed]") == [0, 2]
    page.press("r", "r")
    page.wait_for("state.sweeps >= 2")
    page.click("#run")
    assert page.evaluate("state.timer") is None


def test_arrow_keys_move_through_the_board_and_the_cell_is_told(page):
    page.press("s", "s")
    page.click("#board [data-cell='34']")
    assert "row 4, column 8" in page.evaluate("document.getElementById('detail-title').textContent")
    page.evaluate("document.querySelector('#board [data-cell=\"34\"]').focus()")
    page.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "row 4, column 9: goal"
    page.press("ArrowRight")
    assert page.evaluate("state.cell") == 35
    page.press("ArrowUp")
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == "row 3, column 9: value 1.00, truth 1.00, n 1"
    assert page.evaluate("document.querySelectorAll('#board [tabindex=\"0\"]').length") == 1


def test_turning_up_slip_keeps_the_sweep_and_changes_the_world(page):
    attempt(page, 1)
    page.evaluate("slip.value = 0.4; slip.dispatchEvent(new Event('input'))")
    assert page.evaluate("[state.sweeps, shown.model.slip]") == [2, 0.4]
    assert errors(page, "greedy")[0] > 0.3
    assert page.evaluate("document.querySelectorAll('#path circle.slip').length") > 0


@pytest.mark.parametrize("world", WORLDS)
def test_every_world_can_be_chosen_on_a_phone(page, world):
    page.resize(360, 740, mobile=True)
    page.evaluate(f"world.value = '{world}'; world.dispatchEvent(new Event('change'))")
    page.click("#step")
    assert page.evaluate("[document.documentElement.scrollWidth, state.world]") == [360, world]
    assert page.evaluate("shown.model.free.includes(state.cell)")


def test_light_and_dark_follow_the_system_and_the_button(page):
    def ground():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = ground()
    page.click("#theme")
    dark = ground()
    assert light != dark
    page.media("dark")
    page.click("#theme")
    assert ground() == dark
    page.click("#theme")
    assert ground() == light

"""Charts as matplotlib and the page's script draw them: rounded numbers, shared steps, readable colours."""

import json
import math

import numpy as np
import pytest
from deep_experiments import silent
from kept_results import KEPT, needs_kept_results

from greedystep import figures
from greedystep.charts import Chart, Line, learning_charts, line_styles
from greedystep.experiments import fig1, fig2, fig3, fig4, fig5, horizon, page_charts
from greedystep.experiments.fig2.delayed import published
from greedystep.report import elements as colours
from greedystep.report.elements import chart_data

BINS = ["1", "2", "3-4"]


def entry(label, steps, values, seeds=(0, 1), **more):
    values = np.asarray(values, float)
    curve = {"estimate": list(values), "low": list(values - 1), "high": list(values + 1)}
    return {
        "label": label,
        "seeds": list(seeds),
        "steps": list(steps),
        "curves": {"returns": curve, "q": None, "n": None, "overestimation": None},
        **more,
    }


def made(name="fig3", bins=None, **methods):
    task = {"title": "Breakout", "full_steps": 100, "methods": methods}
    return {"name": name, "numbers": {"tasks": {"breakout": task}} | ({"bins": bins} if bins else {})}


def drawn_on_page(result, experiment=fig3):
    found = page_charts(experiment, result)
    assert found is not None
    return chart_data(found.charts)


def test_curves_keep_their_numbers_and_share_their_steps():
    result = made(
        dqn=entry("DQN", [50, 100], [math.nan, 1.23456789]),
        twin=entry("twin", [50, 100], [2.0, 2.5]),
        soft=entry("soft", [30], [7.0], seeds=[0]),
    )
    drawn = drawn_on_page(result)
    assert [method["label"] for method in drawn["methods"]] == ["DQN", "twin", "soft"]
    assert [method["shown"] for method in drawn["methods"]] == [True, False, False]  # the paper's own at first
    assert drawn["grids"] == [[50, 100], [30]]
    (quantity,) = drawn["quantities"]  # nothing else has a curve
    assert quantity["label"] == "return of the last 100 episodes"
    assert quantity["shown"]
    (panel,) = quantity["panels"]
    assert panel["title"] == "Breakout"
    assert panel["digits"] == 3
    one, other, single = panel["curves"]
    assert one == {"method": 0, "grid": 0, "y": [None, 1.235], "low": [None, 0.235], "high": [None, 2.235]}
    assert other["grid"] == 0
    assert single == {"method": 2, "grid": 1, "y": [7]}  # one seed has no interval


def test_a_task_without_trainings_has_no_panel_unless_none_has_any():
    pong = {"title": "Pong", "full_steps": 100, "methods": {}}
    result = made(dqn=entry("DQN", [100], [1.0]))
    result["numbers"]["tasks"]["pong"] = pong
    (quantity,) = drawn_on_page(result)["quantities"]
    assert [panel["title"] for panel in quantity["panels"]] == ["Breakout"]
    drawn = learning_charts({"tasks": {"pong": pong}}, {}, ["returns"])
    assert [(chart.title, chart.if_empty) for chart in drawn] == [("Pong", "not trained")]
    assert page_charts(fig3, made()) is None
    assert page_charts(fig3, {"numbers": {"rows": []}}) is None


def test_each_quantity_has_a_row_of_panels_whatever_tasks_have_no_trainings():
    trained = entry("DQN", [100], [1.0])
    trained["curves"]["q"] = trained["curves"]["returns"]
    methods = {"breakout": {"dqn": trained}, "pong": {}, "catcher": {"dqn": trained}, "asterix": {}, "freeway": {}}
    tasks = {name: {"title": name, "full_steps": 100, "methods": own} for name, own in methods.items()}
    figure = figures.draw_learning_charts({"tasks": tasks}, {}, ["returns", "q"])
    rows = {axis.get_subplotspec().rowspan.start: axis.get_subplotspec().get_gridspec().ncols for axis in figure.axes}
    assert rows == {0: 2, 1: 2}


def test_a_quantity_that_what_was_trained_does_not_have_says_so():
    table, network = entry("table", [100], [1.0]), entry("network", [100], [1.0])
    network["curves"]["q"] = network["curves"]["returns"]
    tasks = {
        "maze": {"title": "Maze", "full_steps": 100, "methods": {"table": table}},
        "pong": {"title": "Pong", "full_steps": 100, "methods": {"network": network}},
    }
    drawn = learning_charts({"tasks": tasks}, {}, ["returns", "q"])
    assert [(chart.title, chart.if_empty) for chart in drawn if not chart.lines] == [("Maze", "not recorded")]


def test_shares_of_n_are_bars():
    shares = {"first": [0.5, 0.5, 0.0], "last": [0.123456, 0.0, 0.0], "phase": 100_000}
    result = made("fig5", BINS, **{"greedy-step": entry("Greedy-Step DQN", [100], [1.0], **shares)})
    drawn = drawn_on_page(result, fig5)
    assert drawn["methods"][0]["light"] == figures.COLOURS[1].lower()
    (panel,) = drawn["quantities"][-1]["panels"]
    assert panel["bins"] == ["1", "2"]
    assert [bar["label"] for bar in panel["bars"]] == ["first 100,000 steps", "last 100,000 steps"]
    assert [bar["values"] for bar in panel["bars"]] == [[0.5, 0.5], [0.1235, 0]]
    untrained = made("fig5", BINS, **{"greedy-step": entry("Greedy-Step DQN", [100], [1.0], first=[0.0], last=[])})
    assert drawn_on_page(untrained, fig5)["quantities"][-1]["panels"][0]["curves"] == []


def test_charts_keep_their_axes_and_share_a_legend():
    steep = Line("steep", [1, 10], [1.23456, 98765.4], [1.0, None], [2.0, None], ("#0072B2", "-"))
    flat = Line("flat", [1, 10], [None, 3.0], style=("#D55E00", figures.DASHES[1]))
    even = Line("steep", [5, 6, 7], [0.51239, 0.6, 0.7])
    charts = [
        Chart("one", "delay", "episodes", [steep, flat], log_x=True, log_y=True),
        Chart("two", "size", "share", [even]),
    ]
    drawn = chart_data(charts)
    assert [method["label"] for method in drawn["methods"]] == ["steep", "flat"]
    assert [method["dash"] for method in drawn["methods"]] == [[], [5, 1.5]]
    assert drawn["grids"] == [[1, 10], [5, 6, 7]]
    first, second = drawn["quantities"]
    assert (first["label"], second["label"]) == ("episodes", "share")
    (panel,) = first["panels"]
    assert (panel["title"], panel["x"], panel["logX"], panel["logY"]) == ("one", "delay", True, True)
    assert panel["curves"] == [
        {"method": 0, "grid": 0, "y": [1.235, 98770], "low": [1, None], "high": [2, None]},  # four digits of each
        {"method": 1, "grid": 0, "y": [None, 3]},
    ]
    (panel,) = second["panels"]
    assert not panel["logX"]
    assert panel["curves"] == [{"method": 0, "grid": 1, "y": [0.5124, 0.6, 0.7]}]


def test_matplotlib_draws_the_same_charts():
    band = Line("steep", [1, 10], [1.0, 3.0], [1.0, None], [2.0, None])
    charts = [
        Chart("one", "delay", "episodes", [band, Line("flat", [1, 10], [None, 3.0])], log_x=True),
        Chart("two", "size", "share", [Line("flat", [5], [0.5])]),
        Chart("three", "size", "share"),
    ]
    figure = figures.draw_charts(charts, columns=2)
    one, two, three, unused = figure.axes
    assert [(axis.get_title(), axis.get_xlabel()) for axis in (one, two)] == [("one", "delay"), ("two", "size")]
    assert (one.get_xscale(), one.get_yscale(), two.get_xscale()) == ("log", "linear", "linear")
    assert [line.get_color() for line in (*one.lines, *two.lines)] == [figures.COLOURS[i] for i in (0, 1, 1)]
    np.testing.assert_array_equal(one.lines[1].get_ydata(), [np.nan, 3.0])
    assert len(one.collections) == 1
    assert [text.get_text() for text in three.texts] == ["not run"]
    assert not unused.axison
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["steep", "flat"]


def test_lines_without_a_style_take_the_palette_in_turn():
    lines = [Line("a", [1], [1]), Line("b", [1], [1], style=("#123456", "-")), Line("c", [1], [1])]
    found = line_styles([Chart("", "", "", lines[:1]), Chart("", "", "", lines)])
    assert [colour for colour, _ in found.values()] == [figures.COLOURS[0], "#123456", figures.COLOURS[2]]


def test_the_charts_of_figure_1_show_its_counts():
    result = fig1.run("quick", silent)
    (row,) = [row for row in result["numbers"]["rows"] if row["horizon"] == 64]
    for chart, measure in zip(fig1.charts(result), ("iterations", "sweeps"), strict=True):
        found = {one.label: one.y[one.x.index(64)] for one in chart.lines}
        assert found == {method: row[method][measure] for method in fig1.LOOK_AHEAD}


@needs_kept_results
def test_the_charts_of_figure_2_show_medians_bands_and_published_numbers():
    result = json.loads((KEPT / "fig2.json").read_text())
    charts = fig2.charts(result)
    assert [chart.title.split(",")[0] for chart in charts] == ["Choice", "Trace Back", "Grid World"]
    assert all(len(one.x) == len(one.y) for chart in charts for one in chart.lines)
    lines = {one.label: one for one in charts[1].lines}
    rows = {(row["method"], row["delay"]): row["solved"] for row in result["numbers"]["trace-back"]}
    ours, at = lines["Greedy-Step"], lines["Greedy-Step"].x.index(10)
    assert {"median": ours.y[at], "low": ours.low[at], "high": ours.high[at]} == {
        name: rows["greedy-step", 10][name] for name in ("median", "low", "high")
    }
    theirs = lines["RUDDER, published"]
    assert theirs.y[theirs.x.index(10)] == published("rudder", 10)
    given_up = [i for i, delay in enumerate(lines["SARSA(λ)"].x) if rows["sarsa-lambda", delay]["high"] is None]
    assert all(lines["SARSA(λ)"].low[i] is lines["SARSA(λ)"].high[i] is None for i in given_up)


def test_a_full_figure_stays_small():
    random = np.random.default_rng(0)
    steps = np.linspace(25_000, 5_000_000, 200).astype(int).tolist()
    methods = {f"m{i}": entry(f"m{i}", steps, random.normal(size=200).cumsum()) for i in range(10)}
    text = json.dumps(drawn_on_page(made(**methods)))
    assert len(text) < 9 * (10 * 3 * 200 + 200)  # bytes for each number


@pytest.mark.parametrize("styles", [fig3.STYLES, fig4.STYLES, horizon.STYLES], ids=["fig3", "fig4", "horizon"])
@pytest.mark.parametrize("paper", [colours.LIGHT, colours.DARK])
def test_every_colour_is_seen_on_both_papers(styles, paper):
    for colour, _ in styles.values():
        shown = colours.readable(colour, paper)
        assert colours.contrast(colours.rgb(shown), colours.rgb(paper)) >= colours.CONTRAST


def test_strong_colours_stay_and_black_is_white_on_black():
    assert colours.readable("#0072B2", colours.LIGHT) == "#0072b2"
    assert colours.readable("#000000", colours.DARK) == "#ffffff"
    assert colours.contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    yellow, darker = colours.rgb("#E69F00"), colours.rgb(colours.readable("#E69F00", colours.LIGHT))
    assert darker < yellow
    np.testing.assert_allclose(np.divide(darker[:2], yellow[:2]), darker[0] / yellow[0], atol=0.01)  # the hue is kept


def test_dashes_are_those_of_the_figures():
    drawn = drawn_on_page(made(dqn=entry("DQN", [1], [1.0]), double=entry("Double", [1], [1.0])))
    assert [method["dash"] for method in drawn["methods"]] == [[], [5, 1.5]]


def test_the_papers_of_the_page_are_those_that_colours_are_made_for():
    from importlib.resources import files

    style = files("greedystep.report").joinpath("page.css").read_text()
    assert f"--paper: light-dark({colours.LIGHT}, {colours.DARK});" in style

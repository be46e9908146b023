"""`greedystep report RUN ...`: learning curves, final returns, and folders that are no runs."""

import json
import re

import numpy as np
import pytest

from greedystep import figures
from greedystep.cli import main
from greedystep.io import write_json
from greedystep.metrics import MetricsFile
from greedystep.provenance import provenance
from greedystep.report import run_report

AGENT = {"returns": "greedy-step", "horizon": None, "n": None, "ensemble": 6, "hidden": [128], "learning_rate": 3e-4}


def row(step, lane, seed, value, **more):
    columns = {"episode_return": value, "episodes": 50, "mean_n": None, "overestimation": 1.0}
    columns["mean_q"] = None if value is None else value + 1
    return {"step": step, "lane": lane, "seed": seed, **columns, "steps_per_second": 1000.0, **more}


def make_run(folder, seeds=(0, 1, 2), env="minatar/breakout", last=5, options=(), **agent):
    """A run of some thousands of steps whose lanes return their seed plus the thousands of steps."""
    settings = AGENT | agent
    config = {"env": env, "options": dict(options), "preset": "paper", "agent": settings, "steps": 1000 * last}
    config["seeds"] = list(seeds)
    made = provenance(config, command="greedystep train <b>")
    write_json(folder / "config.json", {"kind": "dqn", "config": config, "provenance": made})
    with MetricsFile(folder / "metrics.jsonl") as file:
        first = [row(1000, lane, seed, None, episodes=0) for lane, seed in enumerate(seeds)]
        file.append(first)
        for t in range(2, last + 1):
            n = {} if settings["returns"] == "lambda" else {"mean_n": 2.0}
            file.append([row(1000 * t, lane, seed, seed + t, **n) for lane, seed in enumerate(seeds)])
    return folder


def test_runs_are_compared(tmp_path, capsys):
    greedy = make_run(tmp_path / "greedy")
    peng = make_run(tmp_path / "peng", last=6, returns="lambda", lambda_=0.7, ensemble=1)
    assert main(["report", str(greedy), str(peng), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "greedy-step, ensemble 6" in out
    assert "lambda, ensemble 1, lambda 0.7" in out
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        *("runs.html", "runs.json", "runs.md", "runs.png", "runs.svg", "runs.tex"),
    ]
    html = (tmp_path / "out" / "runs.html").read_text()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html).replace("http-equiv", "")
    written = json.loads((tmp_path / "out" / "runs.json").read_text())
    assert written["provenance"]["config"]["runs"] == [str(greedy), str(peng)]
    one, other = written["methods"]
    assert one["curves"]["mean_n"]["estimate"] == ["NaN", 2, 2, 2, 2]
    assert other["curves"]["mean_n"] is None
    # Seeds 0, 1, 2 after 5000 steps: the last hundred episodes are those of the rows with 4 and 5.
    np.testing.assert_allclose(one["curves"]["episode_return"]["estimate"][1:], [3, 3.5, 4.5, 5.5])
    assert one["curves"]["episode_return"]["estimate"][0] == "NaN"
    assert one["final"]["episode_return"] == {"estimate": [5.5], "low": [4.5], "high": [6.5]}
    assert one["final"]["mean_q"]["estimate"] == [7]
    table = run_report.final_table(_numbers(greedy, peng))
    assert dict(zip(table.header, table.rows[1], strict=True))["steps"] == 6000


def _numbers(*folders):
    return [run_report.summarize(group) for group in run_report.group(map(run_report.read, folders))]


def test_runs_that_differ_in_their_seed_are_one_method(tmp_path):
    folders = [make_run(tmp_path / str(seed), (seed,), last=seed + 3) for seed in range(3)]
    (method,) = run_report.group(map(run_report.read, folders))
    assert method.label == "greedy-step"
    assert len(method.lanes) == 3
    (numbers,) = _numbers(*folders)
    np.testing.assert_array_equal(numbers["steps"], [1000, 2000, 3000])  # as far as all have got
    np.testing.assert_allclose(numbers["final"]["episode_return"]["estimate"], 3.5)
    with pytest.raises(ValueError, match=r"are the same training \(seed 1\)"):
        run_report.group(map(run_report.read, [folders[1], make_run(tmp_path / "again", (1,))]))


def test_one_seed_has_no_interval(tmp_path):
    (numbers,) = _numbers(make_run(tmp_path / "run", (4,)))
    table = run_report.final_table([numbers])
    cells = dict(zip(table.header, table.rows[0], strict=True))
    assert cells["final return"] == 8.5
    assert cells["from"] is None
    assert "one seed has no interval" in run_report.caption([numbers])


def test_environments_have_panels_of_their_own(tmp_path):
    folders = [
        make_run(tmp_path / "a"),
        make_run(tmp_path / "b", options={"sticky": 0.0}),
        make_run(tmp_path / "c", options={"sticky": 0.0}, learning_rate=1e-3),
    ]
    numbers = _numbers(*folders)
    charts = run_report.charts(numbers)
    assert [chart.title for chart in charts] == ["minatar/breakout", "minatar/breakout (sticky 0)"] * 4
    assert [len(chart.lines) for chart in charts] == [1, 2] * 4
    figure = figures.draw_charts(charts, columns=2)
    assert [axes.get_title() for axes in figure.axes] == [chart.title for chart in charts]
    assert figure.axes[1].lines[1].get_label() == "greedy-step, learning rate 0.001"


def test_tabular_runs_count_all_their_episodes(tmp_path, capsys):
    folders = []
    for seed in (0, 1):
        folders.append(tmp_path / str(seed))
        how = ["--episodes", "50", "--seed", str(seed), "--out", str(folders[-1])]
        assert main(["train", "toy/choice", "--options", "delay=5", *how]) == 0
    assert main(["report", *map(str, folders), "--out", str(tmp_path / "out")]) == 0
    (numbers,) = _numbers(*folders)
    lanes = [run.lanes[0] for run in map(run_report.read, folders)]
    assert [lane["episodes"].sum() for lane in lanes] == [50, 50]
    np.testing.assert_allclose(
        numbers["final"]["episode_return"]["estimate"],
        np.mean([np.average(lane["episode_return"], weights=lane["episodes"]) for lane in lanes]),
    )


def test_a_long_run_is_thinned_out_and_keeps_its_ends():
    steps = run_report.common_steps([{"step": np.arange(1, 10_001)}])
    assert len(steps) == run_report.POINTS
    assert (steps[0], steps[-1]) == (1, 10_000)


def test_what_is_no_run_is_answered_by_one_sentence(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    unstarted = make_run(tmp_path / "unstarted")
    (unstarted / "metrics.jsonl").write_text("")
    strange = make_run(tmp_path / "strange")
    write_json(strange / "config.json", {"kind": "dqn", "config": {"env": "x"}})
    damaged = make_run(tmp_path / "damaged")
    (damaged / "metrics.jsonl").write_text("hello\n")
    for given, sentence in {
        (tmp_path / "empty",): "holds no results",
        (run, tmp_path / "empty"): "empty holds no run (config.json and metrics.jsonl)",
        (run, tmp_path / "nowhere"): "no such file or folder",
        (unstarted,): "unstarted has no rows of metrics yet",
        (strange,): "config.json is not the configuration of a run",
        (damaged,): "metrics.jsonl, line 1, is not a row of metrics",
    }.items():
        assert main(["report", *map(str, given), "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()

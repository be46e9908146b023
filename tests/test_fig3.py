"""The experiments with networks, from the plan to the files, on made-up trainings; and one real training of lanes."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from deep_experiments import MadeUp, silent
from deep_runs import SETTINGS

from greedystep import io
from greedystep.cli import main
from greedystep.deep.divergence import DivergenceCheck
from greedystep.experiments import NOTHING, fig3, fig4, fig5, horizon, paper_protocol, presets
from greedystep.experiments import greedy_curves as evaluation
from greedystep.experiments import sticky_actions as luck
from greedystep.experiments.deep import training
from greedystep.experiments.deep.method_runs import MethodRuns, from_records, only_end
from greedystep.experiments.deep.runner import RunStore
from greedystep.experiments.deep.suite import BEYOND, FIGURE_3, GREEDY, METHODS, PAPER
from greedystep.experiments.deep.training import Budget, RunSpec
from greedystep.experiments.fig3 import training_time
from greedystep.runs.job_queue import StoppedError

TIMES = ("seconds", "steps_per_second")
EXPERIMENTS = (fig3, fig4, fig5, horizon, luck, presets, paper_protocol, evaluation)


# -- the protocol -----------------------------------------------------------------------------------------------------


def test_the_full_protocol_on_one_task(made_up, tmp_path):
    result = fig3.run("paper", silent, tmp_path, ["breakout"])
    finals = [one for one in made_up.trained if one[2] < 100]
    choices = [one for one in made_up.trained if one[2] >= 100]
    assert {one[0] for one in made_up.trained} == {"breakout"}
    assert len(choices) == len(METHODS) * 4 * 2  # four settings, two seeds, none of them used later
    assert {one[3] for one in choices} == {1_000_000}
    seeds = Counter((one[1]["returns"], one[1].get("double", False), one[3]) for one in finals)
    assert seeds["greedy-step", False, 5_000_000] == 10
    assert seeds["one-step", False, 5_000_000] == 15  # DQN 5, and Maxmin DQN, the best baseline here, 10
    assert seeds["n-step", False, 5_000_000] == seeds["sarsa", False, 5_000_000] == 5
    assert seeds["lambda", False, 2_000_000] == seeds["one-step", True, 2_000_000] == 3
    assert len(made_up.trained) == len({json.dumps(one) for one in made_up.trained})
    methods = result["numbers"]["tasks"]["breakout"]["methods"]
    assert set(methods) == set(METHODS)
    assert methods["dqn"]["setting"]["learning_rate"] == 1e-4  # the best by construction
    assert methods["maxmin"]["setting"]["ensemble"] == methods[GREEDY]["setting"]["ensemble"] == 6
    assert methods["multi-step"]["setting"]["n"] == 5
    assert methods[GREEDY]["env"]["options"]["sticky"] == 0.1
    assert len(methods[GREEDY]["final"]["returns"]) == 10
    missing = result["numbers"]["missing"]
    in_paper, others = (", ".join(METHODS[name].label for name in names) for names in (PAPER, BEYOND))
    assert f"Seaquest, {in_paper}: not trained" in missing
    assert f"Seaquest, {others}: not trained" in missing
    assert not any("Breakout" in sentence for sentence in missing)


def test_nothing_is_trained_twice(made_up, tmp_path):
    fig3.run("paper", silent, tmp_path, ["breakout"])
    before = len(made_up.trained)
    fig3.run("paper", silent, tmp_path, ["breakout"])
    fig5.run("paper", silent, tmp_path, ["breakout"])
    assert len(made_up.trained) == before
    result = fig4.run("paper", silent, tmp_path, ["breakout"])
    added = made_up.trained[before:]
    assert {one[1]["ensemble"] for one in added} == {1, 2, 4}  # 6 is that of Figure 3, as far as 2M steps
    assert len(added) == 3 * 3
    entries = result["numbers"]["tasks"]["breakout"]["methods"]
    assert {entry["steps"][-1] for entry in entries.values()} == {2_000_000}
    assert {entry["setting"]["learning_rate"] for entry in entries.values()} == {1e-4}
    before = len(made_up.trained)
    horizon.run("paper", silent, tmp_path, ["breakout"])
    added = made_up.trained[before:]
    assert len(added) == (2 * len(horizon.HORIZONS["paper"]) + 1 - 2) * 3  # T-t is there with 1 and with 6 networks


def test_a_baseline_that_turns_out_to_be_the_best_gets_more_seeds_too(made_up, tmp_path):
    made_up.fading = ("one-step", 6)  # Maxmin DQN, the best with five seeds
    result = fig3.run("paper", silent, tmp_path, ["breakout"])
    seeds = {name: len(one["seeds"]) for name, one in result["numbers"]["tasks"]["breakout"]["methods"].items()}
    assert {name: seeds[name] for name in PAPER} == {
        "dqn": 10,
        "maxmin": 10,
        "multi-step": 5,
        "sarsa": 5,
        GREEDY: 10,
    }
    before = len(made_up.trained)
    fig3.run("paper", silent, tmp_path, ["breakout"])
    assert len(made_up.trained) == before


def test_the_result_tells_of_a_shared_store_without_training(made_up, tmp_path):
    fig3.run("paper", silent, tmp_path, ["pong"])
    made_up.trained.clear()
    result = fig3.run("paper", silent, tmp_path, ["freeway"])
    assert {one[0] for one in made_up.trained} == {"freeway"}
    shown = result["numbers"]["tasks"]
    assert shown["pong"]["methods"]
    assert shown["freeway"]["methods"]
    assert not shown["seaquest"]["methods"]


def test_an_interrupted_run_goes_on(made_up, tmp_path):
    made_up.fail_at = 40
    with pytest.raises(KeyboardInterrupt):
        fig3.run("paper", silent, tmp_path, ["breakout"])
    finished = {lane["name"] for path in tmp_path.glob("*.json") for lane in io.read_json(path)["lanes"]}
    made_up.fail_at = None
    made_up.trained.clear()
    fig3.run("paper", silent, tmp_path, ["breakout"])
    everything = {lane["name"] for path in tmp_path.glob("*.json") for lane in io.read_json(path)["lanes"]}
    assert 0 < len(finished) < len(everything)
    assert len(made_up.trained) == len(everything) - len(finished)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["{", "[]", '{"lanes": [{"name": "x"}]}', '{"lanes": []}', b"\xff\xfe"])
def test_a_damaged_part_is_one_sentence_and_is_run_again(made_up, tmp_path, damage):
    fig5.run("quick", silent, tmp_path)
    before = len(made_up.trained)
    path = sorted(tmp_path.glob("catcher-*.json"))[0]
    good = path.read_bytes()
    path.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    result = fig5.run("quick", silent, tmp_path)
    assert len(made_up.trained) == before + 5
    (sentence,) = result["numbers"]["problems"]
    assert path.name in sentence
    assert "count as missing" in sentence
    assert json.loads(path.read_bytes())["lanes"] == json.loads(good)["lanes"]
    assert fig5.run("quick", silent, tmp_path)["numbers"]["problems"] == []


def test_a_curve_with_a_column_too_short_is_not_taken(made_up, tmp_path):
    fig5.run("quick", silent, tmp_path)
    path = sorted(tmp_path.glob("*.json"))[0]
    part = json.loads(path.read_text())
    part["lanes"][0]["curve"]["mean_q"].pop()
    path.write_text(json.dumps(part))
    assert "curve is not complete" in RunStore(tmp_path).problems[0]


@pytest.mark.parametrize("seed", range(20))
def test_the_end_of_a_curve_tells_the_same_final_return(seed):
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(1, 60))
    episodes = draw.integers(0, 30, rows)
    episodes[draw.integers(rows)] += 1
    lane = RunSpec("catcher", "paper", {"returns": "one-step"}, 0)
    (whole,) = MadeUp()([lane], Budget(1000))
    whole |= {"side_by_side": 1, "part": "one"}
    whole["curve"] = {
        "step": np.linspace(1000 / rows, 1000, rows).astype(int).tolist(),
        "episodes": episodes.tolist(),
        "episode_return": [float(draw.normal()) if count else None for count in episodes],
        **{name: draw.normal(size=rows).tolist() for name in ("mean_q", "mean_n", "overestimation")},
    }
    end = whole | {"curve": only_end(whole["curve"])}
    assert sum(end["curve"]["episodes"]) == episodes.sum()
    assert {len(column) for column in end["curve"].values()} == {len(end["curve"]["step"])}
    assert len(end["curve"]["step"]) <= 1 + rows - (episodes[::-1].cumsum() > 129).sum()
    np.testing.assert_allclose(
        from_records([end], 1000).final_return, from_records([whole], 1000).final_return, rtol=1e-12
    )
    assert from_records([end], 1000).q[:, -1] == from_records([whole], 1000).q[:, -1]


def test_the_shortest_training_that_is_long_enough_serves(made_up):
    store = RunStore()
    lane = RunSpec("catcher", "paper", {"returns": "one-step"}, 0)

    def length(steps):
        return None if (found := store.get(lane, steps)) is None else found["steps"]

    assert length(1) is None
    store.keep(made_up([lane], Budget(1000)), {"returns": "one-step", "ensemble": 1})
    assert (length(500), length(1000), length(1001)) == (1000, 1000, None)
    store.keep(made_up([lane], Budget(2000)), {"returns": "one-step", "ensemble": 1})
    store.keep(made_up([lane], Budget(800)), {"returns": "one-step", "ensemble": 1})
    assert (length(500), length(801), length(1001), length(2001)) == (800, 1000, 2000, None)


def test_a_lane_is_known_by_what_is_trained():
    lane = RunSpec("catcher", "paper", {"returns": "one-step", "learning_rate": 1e-3}, 0)
    assert (
        lane.name == RunSpec("catcher", "paper", {"learning_rate": 1e-3, "returns": "one-step", "log_every": 7}, 0).name
    )
    others = [
        RunSpec("catcher", "paper", {"returns": "one-step", "learning_rate": 1e-4}, 0),
        RunSpec("catcher", "paper", {"returns": "one-step", "learning_rate": 1e-3}, 1),
        RunSpec("pong", "paper", {"returns": "one-step", "learning_rate": 1e-3}, 0),
        RunSpec("catcher", "fast", {"returns": "one-step", "learning_rate": 1e-3}, 0),
        RunSpec("catcher", "paper", {"returns": "one-step", "learning_rate": 1e-3, "double": True}, 0),
    ]
    assert len({lane.name, *(other.name for other in others)}) == 6
    assert [other.program == lane.program for other in others] == [True, True, False, False, False]
    several = [RunSpec("catcher", "paper", {"returns": "n-step", "n": n, "learning_rate": 1e-3}, 0) for n in (3, 5)]
    assert {one.program for one in several} == {lane.program}
    assert len({lane.name, *(one.name for one in several)}) == 3


# -- what is made of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "only"),
    [
        pytest.param(experiment, only, id=" ".join((experiment.NAME, *only)))
        for experiment in EXPERIMENTS
        for only in ((), ("breakout",), ("seaquest",))
        if experiment not in (presets, luck) or only == ()  # they have tasks of their own
    ],
)
def test_figures_and_tables_come_from_the_json_alone(made_up, experiment, only, tmp_path):
    scale = "paper" if only else "quick"
    result = experiment.run(scale, silent, tmp_path, only)
    assert set(result) == {"title", "settings", "numbers", "claims"}
    stored = io.from_json(io.to_json(result))
    drawn, tables = experiment.draw(stored), experiment.tables(stored)
    assert all(figure.axes for figure in drawn.values())
    assert tables[0].id == experiment.NAME
    assert all(table.rows for table in tables)
    assert len(io.to_json(result)) < 1_000_000
    words = [text.get_text() for figure in drawn.values() for axis in figure.axes for text in axis.texts]
    assert not any("not trained" in word for word in words)  # tasks without trainings have no panels


def test_the_probability_of_improvement_is_told_for_each_rival(made_up, tmp_path):
    result = io.from_json(io.to_json(fig3.run("quick", silent, tmp_path)))
    table = next(table for table in fig3.tables(result) if table.id == "fig3-improvement")
    rows = {row[0]: row[1:] for row in table.rows}
    assert set(rows) == {METHODS[method].label for method in METHODS if method != GREEDY}
    assert rows["DQN"] == [3, 1.0, 1.0, 1.0]  # all three tasks; made up so that every seed wins
    assert rows["Multi-Step SARSA"][0] == 2


def test_shorter_trainings_are_compared_after_as_many_steps(made_up, tmp_path):
    result = io.from_json(io.to_json(fig3.run("paper", silent, tmp_path, ["breakout"])))
    methods = result["numbers"]["tasks"]["breakout"]["methods"]
    ours, peng = methods[GREEDY], methods["peng"]
    assert (ours["steps"][-1], peng["steps"][-1]) == (5_000_000, 2_000_000)
    at_two_million = np.array(ours["final"]["levels"]["2000000"])
    np.testing.assert_allclose(at_two_million, 0.4 * np.array(ours["final"]["returns"]))  # made up as straight lines
    assert peng["final"]["levels"] == {}
    table = next(table for table in fig3.tables(result) if table.id == "fig3-improvement")
    assert {row[0]: row[1:3] for row in table.rows}["Peng's Q(λ)"] == [1, 0.0]  # 0.4 of 24 against all of 12
    ours["final"]["levels"].clear()
    table = next(table for table in fig3.tables(result) if table.id == "fig3-improvement")
    assert "Peng's Q(λ)" not in {row[0] for row in table.rows}


def test_what_was_trained_in_full_is_compared_alone(made_up, tmp_path):
    result = io.from_json(io.to_json(fig3.run("quick", silent, tmp_path)))
    whole = result["numbers"]["tasks"]["catcher"]
    whole["full_steps"] = whole["methods"]["dqn"]["steps"][-1]
    table = next(table for table in fig3.tables(result) if table.id == "fig3-improvement")
    assert {row[1] for row in table.rows} == {1}


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda module: module.NAME)
def test_an_empty_folder_is_drawn_as_missing(made_up, experiment, tmp_path):
    result = io.from_json(io.to_json(experiment.run("paper", silent, tmp_path, NOTHING)))
    assert made_up.trained == []
    assert {claim["verdict"] for claim in result["claims"]} == {"untested"}
    assert result["numbers"]["missing"]
    experiment.draw(result)
    experiment.tables(result)


def test_claims_have_names_of_their_own(made_up):
    claims = [claim for experiment in EXPERIMENTS for claim in experiment.run("quick", silent)["claims"]]
    assert len({claim["id"] for claim in claims}) == len(claims)


def test_the_made_up_numbers_arrive_in_the_verdicts(made_up, tmp_path):
    result = fig3.run("paper", silent, tmp_path, ["breakout"])
    verdict = {claim["id"]: claim["verdict"] for claim in result["claims"]}
    assert verdict["fig3-twice-breakout"] == "undecided"  # (18 + 6) / (10 + 6) is about 1.5
    assert verdict["fig3-twice-seaquest"] == "untested"
    step = fig5.run("paper", silent, tmp_path, ["breakout"])["claims"]
    assert {claim["verdict"] for claim in step} == {"confirmed"}


def test_quick_trains_every_method_with_five_seeds(made_up):
    result = fig3.run("quick", silent)
    for task in ("mountaincar", "catcher"):
        methods = result["numbers"]["tasks"][task]["methods"]
        assert set(methods) == set(METHODS)
        assert all(entry["seeds"] == [0, 1, 2, 3, 4] for entry in methods.values())
        assert all(len(entry["steps"]) <= 200 for entry in methods.values())
    assert set(result["numbers"]["tasks"]["breakout"]["methods"]) == {"dqn", GREEDY}
    assert result["numbers"]["missing"] == []


def test_on_the_command_line(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "fig5", "--scale", "paper", "--only", "breakout", "--out", "here"]) == 0
    said = capsys.readouterr()
    assert "fig5: Seaquest, Greedy-Step DQN: not trained" in said.err
    assert "larger" in said.out
    before = len(made_up.trained)
    assert main(["reproduce", "fig5", "--scale", "paper", "--out", "here", "--resume"]) == 0  # it was not whole
    assert {one[0] for one in made_up.trained[before:]} == {"seaquest", "space-invaders"}
    assert main(["reproduce", "fig5", "--scale", "paper", "--out", "here", "--resume"]) == 0
    assert "already in here" in capsys.readouterr().err
    assert {"fig5.json", "fig5.png", "fig5.svg", "fig5.md", "report.html", "parts"} <= {
        path.name for path in (tmp_path / "here").iterdir()
    }


def test_presets_share_the_choice_and_differ_in_the_learning_rate(made_up, tmp_path):
    parts = tmp_path / "parts"
    result = json.loads(io.to_json(presets.run("paper", silent, parts)))
    methods = result["numbers"]["tasks"]["breakout"]["methods"]
    assert len(methods) == 2 * len(PAPER)
    for method in PAPER:
        slow, fast = (methods[presets.name(method, preset)] for preset in ("paper", "fast"))
        assert (slow["preset"], fast["preset"]) == ("paper", "fast")
        assert slow["setting"] == {k: v for k, v in fast["setting"].items() if k != "learning_rate"}
    before = len(made_up.trained)
    fig3.run("paper", silent, parts, ["breakout"])
    short = [one for one in made_up.trained[before:] if one[3] == 1_000_000]
    assert all(dict(setting)["returns"] not in ("n-step", "sarsa") for _, setting, _, _ in short)  # the choice is there


@pytest.mark.parametrize(
    ("slow", "fast", "verdict"),
    [
        ((1, 5), (2, 6), "confirmed"),
        ((1, 5), (2, 9), "partly"),  # in the same order, but further apart
        ((5, 5), (2, 9), "partly"),
        ((5, 1), (2, 9), "refuted"),
    ],
)
def test_presets_agree_where_no_pair_of_methods_changes(slow, fast, verdict):
    def seeds(level):
        steps = np.array([1, 2])
        noise = np.array([[0.0, 0.1], [0, -0.1], [0, 0.2]])
        curves = level + noise
        return MethodRuns(steps, curves, curves, curves, curves)

    levels = {"paper": slow, "fast": fast}
    found = {
        presets.name(method, preset): seeds(level)
        for preset, both in levels.items()
        for method, level in zip(("dqn", GREEDY), both, strict=True)
    }
    claim = presets.agree(found, "breakout")
    assert claim.verdict == verdict
    assert claim.measured.startswith("Breakout alone, after 2 steps: of 1 pairs ")
    assert presets.agree({}, "breakout").verdict == "untested"


@pytest.mark.parametrize(
    ("times", "verdict"),
    [([1.0] * 5, "confirmed"), ([1.0, 1, 1, 0.7, 1.3], "partly"), ([1.4] * 5, "refuted"), ([1.0] * 4, "untested")],
)
def test_our_dqn_is_set_beside_the_published_one(times, verdict):
    steps = np.array([2_500_000, 5_000_000])
    found = {}
    for one, share in zip(fig3.MINATAR, times, strict=False):
        curves = np.full((3, 2), share * fig3.MINATAR[one])
        found[one] = MethodRuns(steps, curves, curves, curves, curves)
    assert fig3.baseline_claims(found)[0].verdict == verdict


def test_a_mean_near_the_published_one_decides_nothing_if_seeds_differ_much():
    steps = np.array([2_500_000, 5_000_000])
    curves = {one: np.array([[0.5], [1.0], [1.5]]) * np.full((3, 2), level) for one, level in fig3.MINATAR.items()}
    found = {one: MethodRuns(steps, each, each, each, each) for one, each in curves.items()}
    claim = fig3.baseline_claims(found)[0]
    assert (claim.verdict, claim.brief) == ("undecided", "5 of 5")
    assert claim.reason.startswith("Breakout, DQN; Seaquest, DQN; ")


def test_seeds_that_learned_nothing_are_told_of():
    steps, found = np.array([1_000_000, 3_500_000]), {}
    for one, level in fig3.SMALL.items():
        curves = np.full((3, 2), level)
        found[one] = MethodRuns(steps, curves, curves, curves, curves)
    assert fig3.baseline_claims(found)[1].verdict == "confirmed"
    found["mountaincar", "maxmin"].returns[0] = -1000
    claim = fig3.baseline_claims(found)[1]
    assert claim.verdict == "partly"
    assert "MountainCar, Maxmin DQN: a median of -154, the worst of 3 seeds at -1000" in claim.reason


def test_gathering_runs_nothing(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made_up.fail_at = 60  # after the choices of all methods, and some trainings with the chosen settings
    with pytest.raises(KeyboardInterrupt):
        fig3.run("paper", silent, tmp_path / "here" / "parts", ["breakout"])
    before = len(made_up.trained)
    assert main(["reproduce", "fig3", "--scale", "paper", "--out", "here", "--gather"]) == 0
    assert len(made_up.trained) == before
    found = io.read_json("here/fig3.json")["numbers"]
    assert found["tasks"]["breakout"]["methods"]
    assert any(one.startswith("Seaquest, DQN, ") and one.endswith(": not trained") for one in found["missing"])
    capsys.readouterr()
    assert main(["reproduce", "fig3", "--gather", "--only", "breakout"]) == 2
    assert "only: --gather runs no task at all" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--gather"]) == 2
    assert "gather: table1 is short and made in one piece" in capsys.readouterr().err


def test_a_quick_run_checks_the_verdicts_of_the_full_one(made_up, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "fig3", "--out", "alone"]) == 0
    assert main(["reproduce", "fig3", "--scale", "paper", "--only", "breakout"]) == 0
    full = io.read_json("results/paper/fig3.json")
    for claim in full["claims"]:
        if claim["id"] == "fig3-equal-time":
            claim |= {"verdict": "refuted", "reason": "made up"}
    io.write_json(Path("results/paper/fig3.json"), full)
    capsys.readouterr()
    assert main(["reproduce", "fig3", "--out", "both"]) == 0  # finds results/paper by itself
    assert "shows the kept results" in capsys.readouterr().err
    alone, both = (io.read_json(f"{folder}/fig3.json") for folder in ("alone", "both"))
    assert both["claims"] == alone["claims"]  # its own verdicts stay in its JSON,
    page = Path("both/report.html").read_text()
    shown = dict(re.findall(r'data-claim="([^"]+)" data-verdict="(\w+)"', page))
    assert shown == {
        claim["id"]: claim["verdict"] for claim in full["claims"]
    }  # and the page has those of the full run
    checks = dict(re.findall(r'data-claim="([^"]+)".*?data-check="([^"]+)"', page))
    own = {claim["id"]: claim["verdict"] for claim in both["claims"]}
    assert own["fig3-equal-time"] == "confirmed"
    assert checks["fig3-equal-time"] == "not consistent"
    assert checks["fig3-twice-breakout"] == "not checked"  # a quick run is too short for it
    assert set(checks) == set(shown)
    assert 'id="fig3-charts"' in page
    assert 'id="fig3-quick-charts"' in page
    written = page
    assert main(["report", "both"]) == 0
    assert Path("both/report.html").read_text() == written
    assert "| quick run |" in Path("both/claims.md").read_text()
    assert main(["reproduce", "fig3", "--out", "three", "--kept", "nowhere"]) == 2
    assert main(["reproduce", "fig3", "--out", "four/../three", "--kept", "nowhere"]) == 2
    assert not (tmp_path / "four").exists()
    assert "no such file or folder: nowhere" in capsys.readouterr().err
    assert main(["reproduce", "fig3", "--out", "three", "--kept", "alone", "--scale", "paper"]) == 2
    assert "kept: results of --scale quick are checked" in capsys.readouterr().err
    assert not (tmp_path / "three").exists()
    assert main(["report", "results/paper", "--kept", "alone"]) == 2
    assert "kept: only results of scale quick" in capsys.readouterr().err


# -- for real ---------------------------------------------------------------------------------------------------------


def test_lanes_with_their_own_numbers_are_trained_together():
    fixed = SETTINGS | {"returns": "lambda"}
    settings = [fixed | {"learning_rate": 1e-3, "lambda_": 0.5}, fixed | {"learning_rate": 1e-2, "lambda_": 0.9}]
    lanes = [RunSpec("catcher", "paper", setting, seed) for setting in settings for seed in (0, 1)]
    told = []
    together = training.train(lanes, Budget(600, points=3, episodes=2), lambda steps, speed: told.append(steps))
    assert sum(told) == 4 * 600
    assert [one["curve"]["step"] for one in together] == [[200, 400, 600]] * 4
    (alone,) = training.train(lanes[3:], Budget(600, points=3, episodes=2))
    assert alone["name"] == together[3]["name"]
    for column in ("mean_q", "overestimation"):
        values = [[np.nan if x is None else x for x in one["curve"][column]] for one in (alone, together[3])]
        np.testing.assert_allclose(*values, rtol=1e-3)
    qs = [one["curve"]["mean_q"][-1] for one in together]
    assert len(set(qs)) == 4
    assert all(one["evaluation"] is not None for one in together)


def test_agents_are_timed_in_turn_and_once(tmp_path, monkeypatch):
    monkeypatch.setattr(training_time, "ROUNDS", 2)
    monkeypatch.setattr(training_time, "SECONDS", 0.0)
    assert training_time.load_or_measure(tmp_path, "mountaincar", "paper", 1, may_measure=False, problems=[]) is None
    times = training_time.load_or_measure(tmp_path, "mountaincar", "paper", 1, may_measure=True, problems=[])
    assert times is not None
    assert times["steps"] == 100
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in times["seconds"].values())
    assert training_time.load_or_measure(tmp_path, "mountaincar", "paper", 1, may_measure=True, problems=[]) == times
    assert training_time.claim(times).verdict in ("confirmed", "partly", "undecided", "refuted")


def test_a_stopped_training_goes_on_to_the_same_end(tmp_path, monkeypatch):
    """Stopped after its second chunk, then killed within its fifth: the record is that of one that went through."""
    lanes = [RunSpec("catcher", "paper", SETTINGS | {"returns": "greedy-step"}, seed) for seed in (0, 1)]
    length = Budget(600, points=6, episodes=2, greedy_points=3)
    monkeypatch.setattr(training, "GREEDY_EPISODES", 2)
    told = []

    def stop_at_second(steps, speed):
        told.append(steps)
        if len(told) == 2:
            raise StoppedError

    def killed_in_fifth(check, metrics, replay, step):
        if step == 500:
            raise SystemExit  # before its row is there: nothing may be saved

    with pytest.raises(StoppedError):
        training.train(lanes, length, stop_at_second, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(training, "SAVE_EVERY", 0.0)
        patched.setattr(DivergenceCheck, "check_values", killed_in_fifth)
        with pytest.raises(SystemExit):
            training.train(lanes, length, lambda steps, speed: told.append(steps), tmp_path)
    resumed = training.train(lanes, length, lambda steps, speed: told.append(steps), tmp_path)
    assert told == [200, 200, 600, 200, 1000, 200]  # what was done before is told at once
    straight = training.train(lanes, length)
    assert [one["greedy"]["step"] for one in straight] == [[200, 400, 600]] * 2
    assert np.isfinite([one["greedy"][column] for one in straight for column in ("return", "overestimation")]).all()
    for one, other in zip(resumed, straight, strict=True):
        assert {k: v for k, v in one.items() if k not in TIMES} == {k: v for k, v in other.items() if k not in TIMES}


def test_a_few_steps_more_than_asked_for_are_still_the_whole_training():
    fixed = SETTINGS | {"returns": "one-step", "num_envs": 8, "replay_size": 304, "warmup": 48, "target_period": 48}
    lane = RunSpec("catcher", "paper", fixed, 0)
    (trained,) = training.train([lane], Budget(596, points=3, episodes=2))
    assert trained["curve"]["step"][-1] == trained["steps"] == 596
    trained |= {"side_by_side": 1, "part": "one"}
    found = from_records([trained], 596)
    assert found.steps[-1] == 596
    assert found.greedy_play is not None


def test_a_lane_that_diverges_does_not_end_the_others():
    fixed = SETTINGS | {"returns": "one-step", "max_gradient_norm": None, "optimiser": "rmsprop"}
    lanes = [RunSpec("catcher", "paper", fixed | {"learning_rate": rate}, 0) for rate in (1e-3, 1e30)]
    good, bad = training.train(lanes, Budget(600, points=3, episodes=0))
    assert good["diverged"] is None
    assert 50 <= bad["diverged"] <= 600
    assert bad["curve"]["mean_q"][-1] is None
    assert good["curve"]["mean_q"][-1] is not None


def test_the_paper_methods_are_five():
    assert [METHODS[name].label for name in PAPER] == [
        "DQN",
        "Maxmin DQN",
        "Multi-Step DQN",
        "Multi-Step SARSA",
        "Greedy-Step DQN",
    ]
    assert len(FIGURE_3) == 9

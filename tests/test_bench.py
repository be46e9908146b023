"""The benchmarks: what they record is consistent, whichever packages are there. No timing is judged here."""

import importlib.util
import json

import numpy as np
import pytest

from benchmarks import planning, planning_large, planning_problems, planning_solvers, planning_timing, returns
from benchmarks.planning_problems import PROBLEMS, Problem, fresh_rewards
from benchmarks.planning_solvers import OURS, PEERS, Configuration
from benchmarks.solver_process import OverrunError, SolverError, SolverProcess, TimedSolve
from greedystep import models, solve
from greedystep.cli import main
from greedystep.io import read_json
from greedystep.mdp import MDP

TINY = (
    Problem("tiny grid", "goal", lambda: models.grid(4, 5, slip=0.2, discount=0.9)),
    Problem("tiny dense", "mixing", lambda: planning_problems.dense(5, 2, 0.9)),
    Problem("tiny inventory", "other", lambda: planning_problems.inventory(6, 3, 2.0, 0.9)),
)

FAMILIES = {
    "with_costs": lambda: planning_problems.with_costs(models.grid(4, 4)),
    "ice": lambda: planning_problems.ice(6, 6, 0.1),
    "ending_garnet": lambda: planning_problems.ending_garnet(12, 3, 2, 0.1, 0.95),
    "clusters": lambda: planning_problems.clusters(3, 5, 2, 0.01, 0.95),
    "bipartite": lambda: planning_problems.bipartite(10, 2, 2, 0.95),
    "dense": lambda: planning_problems.dense(6, 2, 0.95),
    "torus": lambda: planning_problems.torus(4, 5, 0.5, 0.95),
    "queue": lambda: planning_problems.queue(10, 0.95),
    "inventory": lambda: planning_problems.inventory(9, 4, 2.0, 0.95),
}


# -- problems ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_makes_a_checked_model_with_the_shape_it_promises(family):
    mdp = FAMILIES[family]()
    assert solve(mdp).converged
    if family == "bipartite":
        table, half = mdp.transitions.toarray(), mdp.num_states // 2  # pyright: ignore[reportAttributeAccessIssue]
        assert not table[: 2 * half, :half].any()
        assert not table[2 * half :, half:].any()
    if family == "inventory":
        assert not mdp.available.all()
        assert mdp.available[:, 0].all()
    if family in ("torus", "clusters", "queue"):
        assert mdp.row_sums == pytest.approx((1, 1))
    if family == "ending_garnet":
        assert (mdp.termination > 0).all()


def test_the_list_has_every_kind_mostly_above_the_size_that_counts():
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS)
    assert {problem.kind for problem in PROBLEMS} == set(planning.TARGETS)


def test_fresh_rewards_differ_by_draw_and_keep_the_structure():
    mdp = models.grid(4, 4)
    one, again, other = (fresh_rewards(mdp, draw) for draw in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
    assert np.unique(one).size == np.unique(mdp.rewards).size
    assert (one[mdp.terminal] == 0).all()
    stocked = FAMILIES["inventory"]()
    assert (np.isneginf(fresh_rewards(stocked, 1)) == ~stocked.available).all()


# -- solvers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_peers_get_the_same_problem(family):
    mdp = FAMILIES[family]()
    pairs = planning_solvers.state_action_pairs(mdp)
    table, states = pairs.transitions, pairs.states
    if isinstance(table, np.ndarray):
        assert not pairs.has_absorbing
        table = table.reshape(-1, table.shape[-1])
    rewards = planning_solvers.pair_rewards(pairs, mdp.rewards).ravel()
    assert table @ np.ones(table.shape[1]) == pytest.approx(1.0)
    values = np.zeros(table.shape[1])
    for _ in range(3000):
        values = np.maximum.reduceat(
            rewards + pairs.discount * (table @ values), np.flatnonzero(np.diff(states, prepend=-1))
        )
    assert values[: mdp.num_states] == pytest.approx(solve(mdp, tolerance=1e-9).v, abs=1e-8)


@pytest.mark.parametrize("package", planning_solvers.SOLVERS)
@pytest.mark.parametrize("family", ["ice", "dense", "inventory"])
def test_every_package_that_is_there_solves_them(package, family, tmp_path):
    if not planning_solvers.installed(package):
        pytest.skip(f"{package} is not installed")
    mdp = FAMILIES[family]()
    mdp.save(tmp_path / "model.npz")
    first = next(configuration for configuration in (OURS, *PEERS) if configuration.package == package)
    with SolverProcess(package, tmp_path / "model.npz") as process:
        run = process.run(first, 1e-8, mdp.rewards, 60.0)
    assert run.values[: mdp.num_states] == pytest.approx(solve(mdp, tolerance=1e-9).v, abs=1e-6)
    assert 0 < run.solve_seconds <= run.total_seconds


# -- processes --------------------------------------------------------------------------------------------------------


def test_a_process_that_is_late_or_fails_is_replaced_by_the_next(tmp_path):
    mdp = models.grid(150, 150, slip=2 / 3, discount=0.999)  # takes long enough to be late, however busy the machine
    mdp.save(tmp_path / "model.npz")
    with SolverProcess("greedystep", tmp_path / "model.npz") as process:
        with pytest.raises(OverrunError):
            process.run(OURS, 1e-6, mdp.rewards, 0.0)
        with pytest.raises(SolverError, match="rewards"):
            process.run(OURS, 1e-6, mdp.rewards[:1], 60.0)
        assert process.run(OURS, 1e-6, mdp.rewards, 60.0).values.shape == (22_500,)
        before, peak = process.memory(OURS, 1e-6, mdp.rewards, 60.0)
    assert before <= peak


# -- planning ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run on tiny problems with quantecon and, whether it is installed or not, without mdpsolver."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning_solvers, "installed", lambda package: package != "mdpsolver")
        patch.setattr(planning_timing, "MEMORY_MIN_BYTES", 3000)
        patch.setattr(planning_timing, "QUICK_FACTOR", 1)
        patch.setattr(planning, "TARGET_STATES", 0)
        planning.run(out, 2, TINY)
    return out


def test_whoever_counts_is_within_the_target(measured):
    rows = read_json(measured / "planning.json")["problems"]
    assert [row["name"] for row in rows] == [problem.name for problem in TINY]
    for row in rows:
        assert row["reference_error"] <= planning_timing.REFERENCE_LIMIT
        assert row["solvers"][0]["package"] == "greedystep"
        for record in row["solvers"]:
            counted = record["solve_seconds"] is not None
            assert counted == (not record["excluded"])
            if counted:
                assert len(record["rounds"]) == 2
                assert (
                    record["largest_error"]
                    == max(round_["error"] for round_ in record["rounds"])
                    <= planning_timing.TARGET_ERROR
                )
                assert all(
                    round_["tolerance"] in (*planning_timing.TOLERANCES, planning_timing.TARGET_ERROR)
                    for round_ in record["rounds"]
                )


def test_ratios_are_those_of_the_times(measured):
    for row in read_json(measured / "planning.json")["problems"]:
        ours, peers = row["solvers"][0], row["solvers"][1:]
        for kind in ("solve", "total"):
            times = {peer["configuration"]: peer[f"{kind}_seconds"] for peer in peers if not peer["excluded"]}
            best = row[f"best_peer_{kind}"]
            assert times[best] == min(times.values())
            assert row[f"ratio_{kind}"] == pytest.approx(times[best] / ours[f"{kind}_seconds"])
        assert not row["at_least"]


def test_the_file_is_strict_json_with_its_provenance(measured):
    text = (measured / "planning.json").read_text(encoding="utf-8")
    result = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    assert result["provenance"]["config"]["repeats"] == 2
    assert result["packages"]["quantecon"]
    assert not list(measured.glob("*.part"))


def test_a_missing_peer_is_said_to_be_missing(measured):
    result = read_json(measured / "planning.json")
    assert result["packages"]["mdpsolver"] is None
    table = (measured / "planning.md").read_text(encoding="utf-8")
    assert "Not installed, so not compared: mdpsolver." in table
    assert all(f"| {problem.name} | {problem.kind} |" in table for problem in TINY)


def test_memory_is_measured_where_the_model_is_large_enough(measured):
    memory = {row["name"]: row["memory"] for row in read_json(measured / "planning.json")["problems"]}
    assert set(memory["tiny grid"]) == {"greedystep", "quantecon"}
    assert all(used["peak_bytes"] >= used["before_bytes"] > 0 for used in memory["tiny grid"].values())


def test_without_any_peer_there_is_a_table_without_ratios(monkeypatch, tmp_path):
    monkeypatch.setattr(planning_solvers, "installed", lambda package: package == "greedystep")
    result = planning.run(tmp_path, 1, TINY[1:2])
    (row,) = result["problems"]
    assert row["ratio_solve"] is None
    assert row["best_peer_solve"] is None
    assert result["summary"]["kinds"] == {}
    assert "quantecon, mdpsolver" in (tmp_path / "planning.md").read_text(encoding="utf-8")


def test_a_run_that_is_stopped_keeps_what_it_has(monkeypatch, tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(planning_solvers, "installed", lambda package: package == "greedystep")
    with pytest.raises(KeyboardInterrupt):
        planning.run(tmp_path, 1, [TINY[1], Problem("endless", "other", interrupted)])
    assert [row["name"] for row in read_json(tmp_path / "planning.json")["problems"]] == ["tiny dense"]
    assert "Stopped after 1 of 2 problems." in (tmp_path / "planning.md").read_text(encoding="utf-8")


def record(seconds, excluded="", name="quantecon VI"):
    return {"configuration": name, "excluded": excluded, "solve_seconds": seconds, "total_seconds": seconds}


def test_where_every_peer_is_too_slow_the_ratio_is_a_lower_bound():
    compared = planning.compare(
        [record(2.0), record(None, planning_timing.TIMED_OUT), record(None, "failed: it broke")]
    )
    assert compared["at_least"]
    assert compared["ratio_solve"] == planning_timing.TIME_LIMIT / 2
    assert not planning.compare([record(2.0), record(None, "failed: it broke")])["at_least"]


def test_the_summary_names_the_worst_and_every_miss():
    def row(name, kind, solve_ratio, total_ratio, states=1000):
        return {
            "name": name,
            "kind": kind,
            "states": states,
            "ratio_solve": solve_ratio,
            "ratio_total": total_ratio,
            "memory": None,
            "solvers": [record(1.0)],
        }

    rows = [row("a", "goal", 30, 19), row("b", "goal", 21, 40), row("c", "mixing", 2, 2), row("d", "mixing", 1, 1, 500)]
    kinds = planning.summarise(rows)["kinds"]
    assert kinds["goal"]["misses"] == ["a"]
    assert (kinds["goal"]["worst_solve"], kinds["goal"]["worst_total"]) == ("b", "a")
    assert kinds["mixing"]["misses"] == []
    assert set(kinds) == {"goal", "mixing"}


class FakeProcess:
    """A process whose answers are off by nine times the tolerance."""

    def __init__(self, values, seconds=0.001):
        self.values, self.seconds, self.tolerances = values, seconds, []

    def run(self, configuration, tolerance, rewards, limit, warmup_rewards=None):
        self.tolerances.append(tolerance)
        return TimedSolve(self.seconds, self.seconds, self.values + 9 * tolerance)


def test_a_peer_gets_the_loosest_tolerance_that_meets_the_target():
    mdp = models.garnet(6, 2, 2, discount=0.9)
    task = planning_timing.make_round(mdp, 0)
    process = FakeProcess(task.values)
    timer = planning_timing.ConfigurationTimer(Configuration("quantecon", "VI"), process)
    timer.run_trial(task, dict.fromkeys(planning_timing.TIMES, np.inf))
    # Each is tried twice, for a first run may be slow by accident.
    assert process.tolerances == [tolerance for tolerance in planning_timing.TOLERANCES[:5] for _ in range(2)]
    assert timer.trial["tolerance"] == 1e-7
    timer.time(task, task)
    assert timer.record()["largest_error"] <= planning_timing.TARGET_ERROR


def test_a_peer_that_never_meets_it_or_is_far_behind_is_out():
    mdp = models.garnet(6, 2, 2, discount=0.9)
    task = planning_timing.make_round(mdp, 0)
    wrong = planning_timing.ConfigurationTimer(Configuration("quantecon", "VI"), FakeProcess(task.values + 1))
    wrong.run_trial(task, dict.fromkeys(planning_timing.TIMES, np.inf))
    assert "error stays above" in wrong.excluded
    late = planning_timing.ConfigurationTimer(Configuration("quantecon", "VI"), FakeProcess(task.values, seconds=1.0))
    late.run_trial(task, dict.fromkeys(planning_timing.TIMES, 0.1))
    assert "times slower" in late.excluded
    assert late.record()["solve_seconds"] is None


def test_a_reference_that_cannot_be_proved_is_refused():
    large = models.garnet(5, 2, 2, discount=0.999)
    with pytest.raises(RuntimeError, match="only known to within"):
        planning_timing.make_round(large.with_rewards(1e9 * large.rewards), 0)


# -- the command, and returns -----------------------------------------------------------------------------------------


def test_problems_are_chosen_by_parts_of_their_names(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    asked = {}

    def run(out, repeats, problems):
        asked["names"] = [problem.name for problem in problems]
        (out / "planning.md").write_text("a table\n")

    monkeypatch.setattr(planning, "run", run)
    assert main(["bench", "planning", "--problems", "torus", "Taxi"]) == 0
    assert asked["names"] == [name for name in (p.name for p in PROBLEMS) if "torus" in name or name == "Taxi"]
    assert main(["bench", "planning", "--problems", "nothing like it"]) == 2
    assert "'nothing like it' is no kind and in no name" in capsys.readouterr().err
    assert main(["bench", "returns", "--problems", "torus"]) == 2
    assert "only planning has this option" in capsys.readouterr().err


@pytest.mark.parametrize("rlax", [True, False])
def test_returns_are_timed_with_and_without_rlax(rlax, monkeypatch, tmp_path):
    if rlax and importlib.util.find_spec("rlax") is None:
        pytest.skip("rlax is not installed")
    monkeypatch.setattr(returns, "SHAPES", {"3 lanes of 600 steps": (600, 3)})
    if not rlax:
        monkeypatch.setattr(returns, "find_spec", lambda name: None)
    result = returns.run(tmp_path, 1)
    assert read_json(tmp_path / "returns.json")["rows"] == result["rows"]
    compared = [row for row in result["rows"] if row["ratio"] is not None]
    by_name = {row["estimator"]: row["milliseconds"] for row in compared}
    assert bool(compared) == rlax
    assert all(row["ratio"] == pytest.approx(row["milliseconds"] / by_name[returns.REFERENCE]) for row in compared)
    assert ("rlax is not installed" in (tmp_path / "returns.md").read_text(encoding="utf-8")) == (not rlax)


# -- large models -----------------------------------------------------------------------------------------------------


def test_large_models_are_the_same_for_every_package():
    """The arrays of the grid are the rows of its function, and quantecon's input has no termination to add."""
    arrays = planning_large.grid(100)
    side, table = 10, arrays.transitions.toarray().reshape(100, 4, 100)
    for s in (0, 9, 55, 99):
        for a in range(4):
            to, p, reward = planning_large.grid_row(s, a, side)
            expected = np.zeros(100)
            np.add.at(expected, list(to), p)
            np.testing.assert_allclose(table[s, a], expected)
            assert arrays.rewards[s, a] == reward
    assert arrays.nbytes == 100 * 4 * (3 * 12 + 4 + 8) + 4
    assert solve(MDP(planning_large.garnet(50).transitions, planning_large.garnet(50).rewards, 0.9)).converged


def test_a_large_result_tells_ratio_memory_and_what_was_left_out(tmp_path):
    (*_, record) = planning_large.solve_with("greedystep", "grid", 100, tmp_path / "greedystep.npy")
    assert record["converged"]
    assert record["states"] == 100
    np.save(tmp_path / "quantecon.npy", np.load(tmp_path / "greedystep.npy") + 1e-7)
    peer = {key: 30.0 * value if "seconds" in key else value for key, value in record.items() if key != "error_bound"}
    compared = planning_large.compare({"greedystep": record, "quantecon": peer}, tmp_path)
    assert compared["ratio"] == pytest.approx(30.0)
    assert compared["difference"] == pytest.approx(1e-7)
    stopped = {key: 7 * record[key] for key in ("total_seconds", "total_cpu_seconds")}
    stopped |= {"excluded": "over 5 s", "stopped": True}
    shown = planning_large.markdown(
        {
            "models": {
                "grid": {"packages": {"greedystep": record, "quantecon": peer}, **compared},
                "garnet": {
                    "packages": {"greedystep": record, "quantecon": stopped},
                    **planning_large.compare({"greedystep": record, "quantecon": stopped}, tmp_path),
                },
            },
            "without_matrix": {"excluded": "MemoryError: none"},
            "mdpsolver": None,
            "provenance": {"cpu": "a CPU"},
        }
    )
    assert "grid: 30.0 times as fast as quantecon, 30.0 in CPU time." in shown
    assert "garnet: at least 7.0 times as fast as quantecon, at least 7.0 in CPU time." in shown
    assert "Without a matrix: MemoryError: none." in shown

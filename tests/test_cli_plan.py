"""`greedystep plan`: maps and summaries, files, options, and what Ctrl-C leaves."""

import json
import os
import subprocess
import sys
from itertools import islice
from typing import get_args

import numpy as np
import pytest

import greedystep as gs
from greedystep.cli import main, plan


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test runs in an empty folder, on a terminal of ordinary width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def run(*words, **options):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "greedystep.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def test_plan_prints_a_map_with_arrows(capsys):
    assert main(["plan", "frozenlake-4x4", "--slip", "0"]) == 0
    out = capsys.readouterr().out
    assert "frozenlake-4x4: 16 states, 4 actions" in out
    assert "deterministic, discount 0.99" in out
    assert "v is within " in out
    policy = [line.split() for line in out.split("policy\n")[1].splitlines()[:4]]
    assert [row.count("H") for row in policy] == [0, 2, 1, 1]
    assert policy[3][3] == "G"
    # Without slipping the walk from the start ends at the goal.
    row = column = 0
    for _ in range(6):
        down, right = {"←": (0, -1), "↓": (1, 0), "→": (0, 1), "↑": (-1, 0)}[policy[row][column]]
        row, column = row + down, column + right
    assert (row, column) == (3, 3)
    values = [line.split() for line in out.split("v\n", 1)[1].splitlines()[:4]]
    assert float(values[0][0]) == pytest.approx(0.99**5, abs=1e-3)
    assert "\x1b" not in out


def test_plan_marks_walls_and_goal(capsys):
    assert main(["plan", "maze-5x7"]) == 0
    out = capsys.readouterr().out
    assert "G goal, # wall" in out
    wall = gs.models.maze(5, 7).terminal.reshape(5, 7)
    policy = [line.split() for line in out.split("policy\n")[1].splitlines()[:5]]
    assert [[cell == "#" or cell == "G" for cell in row] for row in policy] == wall.tolist()


@pytest.mark.parametrize(
    ("columns", "has_values", "has_policy"), [(200, True, True), (70, False, True), (20, False, False)]
)
def test_plan_minds_the_width(columns, has_values, has_policy, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["plan", "grid-3x30"]) == 0
    out = capsys.readouterr().out
    assert ("v\n" in out) == has_values
    assert ("policy\n" in out) == has_policy
    assert ("lowest" in out) != has_values
    maps = out.split("\n\n", 1)[1]
    if has_policy:
        assert max(map(len, maps.splitlines())) <= columns


def test_big_and_shapeless_models_get_a_summary(capsys):
    for name in ("grid-100x20", "taxi", "garnet-50x3x2"):
        assert main(["plan", name]) == 0
        out = capsys.readouterr().out
        assert "lowest" in out
        assert len(out.splitlines()) < 12


def test_plan_draws_in_colour_on_a_terminal():
    out = run("plan", "frozenlake-4x4", env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}).stdout
    assert "\x1b[" in out


def test_plan_falls_back_to_ascii():
    done = run("plan", "grid-2x3", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "v" in done.stdout.split("policy\n")[1]
    assert done.stdout.isascii()


def test_plan_never_imports_jax():
    script = (
        "import sys; from greedystep.cli import main; main(['plan', 'frozenlake-8x8']); sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_plan_writes_the_solution(suffix, elsewhere, capsys):
    words = ["plan", "frozenlake-8x8", "--discount", "0.9", "--out", f"made/solution{suffix}"]
    assert main(words) == 0
    assert f"Written: made/solution{suffix}" in capsys.readouterr().out
    path = elsewhere / "made" / f"solution{suffix}"
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            content = {key: archive[key].tolist() for key in archive}
        content["provenance"] = json.loads(content["provenance"])
    else:
        content = json.loads(path.read_text())
    expected = gs.solve(gs.MDP.from_gymnasium("FrozenLake-v1", 0.9, map_name="8x8"))
    np.testing.assert_allclose(content["v"], expected.v, atol=2e-6)
    assert np.shape(content["q"]) == (64, 4)
    assert content["policy"] == np.argmax(content["q"], axis=1).tolist()
    assert content["converged"] is True
    assert content["error_bound"] <= 1e-6
    assert content["provenance"]["config"]["discount"] == 0.9
    assert "out" not in content["provenance"]["config"]
    assert [path.name for path in (elsewhere / "made").iterdir()] == [f"solution{suffix}"]


def test_plan_reads_files_and_their_discount(elsewhere, capsys):
    gs.models.chain(5, 0.5).save(elsewhere / "chain.npz")
    assert main(["plan", "chain.npz"]) == 0
    assert "discount 0.5" in capsys.readouterr().out
    assert main(["plan", "chain.npz", "--discount", "0.8"]) == 0
    out = capsys.readouterr().out
    assert "discount 0.8" in out
    assert "state 4: v 1, action 1" in out
    assert "state 3: v 0.8, action 1" in out


def test_plan_gives_a_dense_file_another_discount(elsewhere, capsys):
    gs.MDP(np.full((2, 2, 2), 0.5), np.eye(2), 0.5).save(elsewhere / "dense.npz")
    assert main(["plan", "dense.npz", "--discount", "0.8"]) == 0
    assert "discount 0.8" in capsys.readouterr().out


@pytest.mark.parametrize("policies", ["greedy", "each-action", "uniform", "random-3"])
def test_plan_takes_behaviour_policies(policies, capsys):
    assert main(["plan", "grid-4x4", "--method", "greedy-step", "--policies", policies, "--horizon", "6"]) == 0
    assert "greedy-step: " in capsys.readouterr().out


def test_plan_says_when_it_stopped_early(capsys):
    words = ["plan", "garnet-200x4x3", "--method", "value-iteration", "--max-iterations", "3"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "3 iterations" in out
    assert "stopped" in out.lower()


def test_the_methods_are_those_of_solve():
    from greedystep.planning import METHODS

    assert get_args(plan.Method) == METHODS


def test_ctrl_c_during_a_solve_still_gives_an_answer_and_its_bound(elsewhere, capsys, monkeypatch):
    from greedystep.planning import dynamic_programming

    uninterrupted = dynamic_programming.value_iteration

    def interrupted(*arguments):
        yield from islice(uninterrupted(*arguments), 10)
        raise KeyboardInterrupt

    monkeypatch.setattr(dynamic_programming, "value_iteration", interrupted)
    assert main(["plan", "chain-30", "--method", "value-iteration", "--out", "stopped.json"]) == 130
    assert "interrupted: v is only known to be within" in capsys.readouterr().out
    stopped = json.loads((elsewhere / "stopped.json").read_text())
    assert stopped["iterations"] == 10
    assert stopped["converged"] is False
    optimum = 0.99 ** np.arange(29, -1, -1.0)
    assert 1e-3 < np.abs(np.array(stopped["v"]) - optimum).max() <= stopped["error_bound"]


def test_a_reader_who_leaves_early_sees_no_complaint():
    command = f"set -o pipefail; {sys.executable} -m greedystep.cli plan grid-20x20 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("grid-20x20: 400 states")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [("plan chain-3 2>&-", "chain-3: 3 states"), ("plan --help", "? in (0, 1] (default: the file's own")],
)
def test_closed_streams_and_poor_encodings_stop_no_command(arguments, said):
    command, ascii_only = f"{sys.executable} -m greedystep {arguments}", os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(["bash", "-c", command], env=ascii_only, capture_output=True, text=True, check=True)
    assert said in done.stdout


def test_ctrl_c(monkeypatch, capsys):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan.Plan, "run", interrupted)
    assert main(["plan", "grid-3x3"]) == 130
    assert capsys.readouterr().err == "greedystep: interrupted\n"

"""The command line: help, answers to bad input, reproduce, report, bench."""

import dataclasses
import json
import subprocess
import sys
import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import get_args, get_type_hints

import numpy as np
import pytest

import greedystep as gs
from benchmarks.command import Bench
from greedystep import experiments
from greedystep.cli import args, bench, deep_settings, envs, main, plan, report, reproduce, watch
from greedystep.deep.config import DQNConfig, Returns
from greedystep.experiments.claims import Claim
from greedystep.tables import Table

COMMANDS = {
    "plan": plan.Plan,
    "reproduce": reproduce.Reproduce,
    "report": report.Report,
    "bench": Bench,
    "envs": envs.Envs,
    "watch": watch.Watch,
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Every test runs in an empty folder, on a terminal of ordinary width."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


# -- help -------------------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    heavy = "{'jax', 'numba', 'scipy', 'matplotlib', 'gymnasium'}"
    script = "import sys; from greedystep.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    subprocess.run([sys.executable, "-c", f"{script}assert not {heavy} & set(sys.modules)"], check=True)


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_command(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"• {name} " in shown for name in COMMANDS if name != "bench")
    assert "greedystep bench" in shown
    assert "--version" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    source = COMMANDS[name].__doc__
    assert source is not None
    assert source in shown
    for field in dataclasses.fields(COMMANDS[name]):
        option = f"--{field.name.replace('_', '-')} "
        arguments = ("env", "game", "model", "name", "names", "paths", "ray")  # the last: --on, --ray-address
        assert option in shown or field.name in arguments


def test_deep_settings_are_those_of_the_config():
    """Names, order and choices."""
    config, options = get_type_hints(DQNConfig), get_type_hints(deep_settings.DeepSettings)
    assert [field.name for field in dataclasses.fields(deep_settings.DeepSettings)] == [
        field.name for field in dataclasses.fields(DQNConfig)
    ]
    unions = {name: config[name] if name == "double" else config[name] | deep_settings.Unset for name in config}
    assert options == unions
    assert deep_settings.given(deep_settings.DeepSettings()) == {}


def test_deep_settings_are_explained_by_the_docstrings_of_the_config(capsys):
    docs = deep_settings.field_docs(DQNConfig)
    assert list(docs) == [field.name for field in dataclasses.fields(DQNConfig)]
    assert docs["n"] == "Steps before bootstrapping (n-step, sarsa)."
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert [name for name, doc in docs.items() if doc.removesuffix(".") not in shown] == []


@pytest.mark.parametrize("command", ["train", "fit"])
def test_help_names_every_kind_of_returns(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f"Return estimator of the learning targets: {', '.join(get_args(Returns))}." in shown


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"greedystep {gs.__version__}\n"


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "number"), [("5e6", 5_000_000), ("1_000", 1000), ("12", 12), ("-3", -3)])
def test_counts(text, number):
    assert args.parse_int(text) == number


@pytest.mark.parametrize("text", ["5.5", "nan", "inf", "five", "", "5k"])
def test_what_is_no_count(text):
    with pytest.raises(ValueError, match="expected an integer such as 1000 or 5e6"):
        args.parse_int(text)


BAD = {
    "plan": "Missing from greedystep plan: MODEL",
    "plan nope": "model: 'nope' is not known",
    "plan grid-20": "expected sizes as in grid-20x30",
    "plan grid-0x5": "height: expected an integer >= 1, got 0",
    "plan missing.npz": "no such model file: missing.npz",
    "plan broken.npz": "broken.npz is no model file of greedystep",
    "plan foreign.npz": "foreign.npz",
    "plan Nothing-v1": "gymnasium cannot make 'Nothing-v1'",
    "plan CartPole-v1": "has no transition table",
    "plan taxi --slip 0.1": "slip: taxi does not take it",
    "plan frozenlake-4x4 --slip 1.5": "slip: expected a number in [0, 1], got 1.5",
    "plan grid-3x3 --slip -0.5": "slip: expected a number in [0, 1], got -0.5",
    "plan grid-3x3 --discount 0": "discount",
    "plan grid-3x3 --discount 1.01": "discount",
    "plan grid-3x3 --discount x": "--discount: expected a finite number, got 'x'",
    "plan garnet-20x2x2 --discount 1": "discount: 1 needs a terminal state",
    "plan grid-3x3 --tolerance -1": "tolerance",
    "plan grid-3x3 --tolerance nan": "tolerance",
    "plan grid-3x3 --method fast": "invalid choice 'fast'",
    "plan grid-3x3 --method greedy-step --horizon 0": "horizon",
    "plan grid-3x3 --method greedy-step --horizon 2.5": "--horizon: expected an integer",
    "plan grid-3x3 --method value-iteration --horizon 3": "horizon",
    "plan grid-3x3 --method value-iteration --policies uniform": "policies",
    "plan grid-3x3 --method greedy-step --policies some": "policies: 'some' is not known",
    "plan grid-3x3 --method greedy-step --policies random-0": "policies: 'random-0' is not known",
    "plan grid-3x3 --method multi-step": "policies: multi-step needs at least one behaviour policy",
    "plan grid-3x3 --max-iterations 0": "max_iterations",
    "plan grid-3x3 --time-limit -1": "time_limit",
    "plan grid-3x3 --out solution.pickle": "out: expected a file that ends in .npz or .json",
    "plan grid-3x3 --out broken.npz/solution.json": "broken.npz is not a folder one can write to",
    "plan grid-3x3 --fast": "Unrecognized options: --fast",
    "plan grid-3x3 extra": "Unrecognized options: extra",
    "fly": "Unrecognized command: fly\n",
    "pln frozenlake-4x4": "Unrecognized command: pln; did you mean 'plan'?",
    "vi": "Unrecognized command: vi; did you mean 'plan MODEL --method value-iteration'?",
    "plan frozenlke-4x4": "or a .npz file; did you mean 'frozenlake-4x4'?",
    "plan FrozenLake": "; did you mean 'frozenlake-4x4'?",
    "plan chian-10": "; did you mean 'chain-10'?",
    "plan girds-3x4": "; did you mean 'grid-3x4'?",
    "plan --model grid-3x3": "Unrecognized options: --model; give it without --model\n",
    "train CartPole-v1 --learnin-rate 1e-3": "Unrecognized options: --learnin-rate; did you mean '--learning-rate'?",
    "train CartPole-v1 --learnin-rate=1e-3": "Unrecognized options: --learnin-rate; did you mean '--learning-rate'?",
    "watch x --polcy agent": "Unrecognized options: --polcy; did you mean '--policy'?",
    "plan --metod value-iteration grid-3x3": "Unrecognized options: --metod; did you mean '--method'?",
    "train --stps 100": "Unrecognized options: --stps; did you mean '--steps'?",
    "fit --sed 3 log.npz": "Unrecognized options: --sed; did you mean '--seed'?",
    "reproduce": "names: give at least one of table1, fig1, fig2, fig3, fig4, fig5, horizon, luck, presets, "
    "protocol, evaluation, released, settings, auto, offline, or all",
    "reproduce fig9": "invalid choice 'fig9'",
    "reproduce fig1 --scale huge": "invalid choice 'huge'",
    "reproduce fig1 --only breakout": "only: fig1 is short and made in one piece",
    "reproduce fig2 --only breakout": "quick (choice, trace-back, grid-world), got 'breakout'",
    "reproduce fig3 --only chess": "only: expected a task at scale quick (breakout, mountaincar, ca",
    "reproduce evaluation --scale paper --only freeway": "scale paper (breakout, seaquest, ",
    "reproduce fig1 --out broken.npz": "broken.npz is not a folder one can write to",
    "bench returns --out broken.npz/deeper": "broken.npz is not a folder one can write to",
    "report --out here": "paths: give at least one",
    "report nowhere --out here": "no such file or folder: nowhere",
    "report . --out here": "holds no results",
    "report .": "holds no results",
    "report nowhere nowhere": "out: name a folder to write to",
    "report broken.npz": "out: name a folder to write to",
    "report broken.npz --out here": "broken.npz is not a readable JSON file",
    "bench": "names: give at least one of auto-alternatives, data, devices, envs, gym, install, offline, planning",
    "bench speed": "invalid choice 'speed'",
    "bench returns --repeats 0": "repeats: expected an integer >= 1, got 0",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_answered_in_one_sentence(line, elsewhere, capsys):
    (elsewhere / "broken.npz").write_bytes(b"PK\x03\x04 and then nothing")
    np.savez(elsewhere / "foreign.npz", a=np.arange(3))
    before = {path: path.read_bytes() for path in elsewhere.rglob("*")}
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("greedystep: ")
    assert said.err.count("\n") == 1
    assert BAD[line] in said.err
    assert {path: path.read_bytes() for path in elsewhere.rglob("*")} == before


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(scale, progress):
        raise ValueError("a bug in an experiment is not the user's mistake")

    monkeypatch.setitem(sys.modules, "greedystep.experiments.fig1", SimpleNamespace(run=broken))
    with pytest.raises(ValueError, match="a bug"):
        main(["reproduce", "fig1"])


def test_a_full_disk_is_reported_in_one_sentence(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plan, "_write_solution", full)
    assert main(["plan", "grid-3x3", "--out", "a.json"]) == 1
    assert "No space left on device" in capsys.readouterr().err


# -- reproduce, report, bench -----------------------------------------------------------------------------------------


class Stand:
    """A stand-in for an experiment, which counts how often it is run."""

    def __init__(self, name):
        self.NAME, self.TITLE, self.runs = name, f"The {name} stand-in", 0
        self.interrupt = False

    def run(self, scale, progress):
        if self.interrupt:
            raise KeyboardInterrupt
        self.runs += 1
        progress(0.5, "half of it")
        claim = Claim(f"{self.NAME}-two", "Two iterations", "Figure 1", 2, 2, "confirmed")
        return {
            "title": self.TITLE,
            "settings": {"scale": scale},
            "numbers": {"runs": np.arange(3), "rate": np.inf},
            "claims": [dataclasses.asdict(claim)],
        }

    def draw(self, result):
        from greedystep import figures

        assert result["numbers"] == {"runs": [0, 1, 2], "rate": float("inf")}
        figure, axes = figures.panels()
        axes.plot(result["numbers"]["runs"])
        return {self.NAME: figure}

    def tables(self, result):
        return [Table("runs", "Runs", ["n"], [[number] for number in result["numbers"]["runs"]])]


@pytest.fixture
def stands(monkeypatch):
    for module in ("report.page", "experiments.outcome_figure"):  # before the experiments that they need are replaced
        import_module(f"greedystep.{module}")
    made = {name: Stand(name) for name in experiments.NAMES}
    for name, stand in made.items():
        monkeypatch.setitem(sys.modules, f"greedystep.experiments.{experiments.MODULES.get(name, name)}", stand)
    return made


def names(folder):
    return {path.name for path in folder.iterdir()}


ALL = {"report.html", "claims.md", "claims.tex"}


def files_of(name):
    return {f"{name}.json", f"{name}.png", f"{name}.svg", f"{name}-runs.md", f"{name}-runs.tex"}


def test_reproduce_writes_everything(stands, elsewhere, capsys):
    assert main(["reproduce", "fig1"]) == 0
    assert names(elsewhere / "results" / "quick") == files_of("fig1") | ALL
    said = capsys.readouterr()
    assert "Two iterations" in said.out
    assert "confirmed" in said.out
    assert "fig1: done in" in said.err
    result = json.loads((elsewhere / "results/quick/fig1.json").read_text())
    assert result["name"] == "fig1"
    assert result["provenance"]["config"] == {"experiment": "fig1", "scale": "quick"}
    assert result["numbers"]["rate"] == "Infinity"


def test_reproduce_all_and_again(stands, elsewhere, capsys):
    assert main(["reproduce", "all", "--scale", "paper", "--out", "here"]) == 0
    assert names(elsewhere / "here") == set().union(*map(files_of, stands)) | ALL
    assert main(["reproduce", "all", "fig1", "--scale", "paper", "--out", "here", "--resume"]) == 0
    assert "already in here" in capsys.readouterr().err
    assert all(stand.runs == 1 for stand in stands.values())
    assert main(["reproduce", "fig1", "--scale", "paper", "--out", "here"]) == 0
    assert {name for name, stand in stands.items() if stand.runs == 2} == {"fig1"}
    assert main(["reproduce", "fig1", "--scale", "quick", "--out", "here", "--resume"]) == 0  # other settings
    assert stands["fig1"].runs == 3


def test_the_kept_results_are_on_the_page_before_anything_is_run(stands, elsewhere, capsys):
    three = ["table1", "fig1", "fig2"]
    assert main(["reproduce", *three, "--scale", "paper"]) == 0  # what is kept
    page, seen = elsewhere / "results" / "quick" / "report.html", []
    shows = "Quick run, to check it"
    for name in three:

        def run(scale, progress, run=stands[name].run, name=name):
            html = page.read_text()
            assert all(f'id="{one}"' in html for one in three)
            seen.append((name, html.count(shows)))
            return run(scale, progress)

        stands[name].run = run
    assert main(["reproduce", *three]) == 0
    assert seen == [(name, place) for place, name in enumerate(three)]  # each is added when it is finished
    html = page.read_text()
    assert html.count(shows) == html.count('data-check="consistent"') == len(three)
    assert f"consistent with {len(three)} of them, not consistent with 0" in html
    assert "shows the kept results" in capsys.readouterr().err
    pictures = {file.name for file in page.parent.glob("*.png")}
    assert pictures == {f"{name}.png" for name in three}


def test_an_interrupted_reproduction_keeps_what_is_finished(stands, elsewhere, capsys):
    stands["fig1"].interrupt = True
    assert main(["reproduce", "all", "--out", "here"]) == 130
    said = capsys.readouterr().err
    assert "What is finished is in here and is not run again" in said
    assert "interrupted" in said
    assert "table1.json" in names(elsewhere / "here")
    stands["fig1"].interrupt = False
    assert main(["reproduce", "all", "--out", "here", "--resume"]) == 0
    assert all(stand.runs == 1 for stand in stands.values())


def test_a_broken_result_in_the_folder_is_noticed_before_the_work(stands, elsewhere, capsys):
    (elsewhere / "here").mkdir()
    (elsewhere / "here" / "fig1.json").write_text("{")
    assert main(["reproduce", "table1", "--out", "here"]) == 2
    assert "fig1.json is not a readable JSON file" in capsys.readouterr().err
    assert stands["table1"].runs == 0


def test_report_draws_without_running(stands, elsewhere, capsys):
    main(["reproduce", "all", "--out", "here"])
    first = {path.name: path.read_bytes() for path in (elsewhere / "here").iterdir()}
    assert main(["report", *(f"here/{name}.json" for name in stands), "--out", "there"]) == 0
    assert {path.name: path.read_bytes() for path in (elsewhere / "there").iterdir()} == first
    (elsewhere / "there" / "report.html").unlink()
    assert main(["report", "there"]) == 0  # into itself
    assert {path.name: path.read_bytes() for path in (elsewhere / "there").iterdir()} == first
    assert all(stand.runs == 1 for stand in stands.values())


def test_bench_runs_each_subject_once(monkeypatch, elsewhere, capsys):
    calls = []

    def timed(out, repeats):
        calls.append((str(out), repeats))
        (out / "returns.md").write_text("| a table |\n")
        return {}

    monkeypatch.setitem(sys.modules, "benchmarks.returns", SimpleNamespace(run=timed))
    assert main(["bench", "returns", "returns", "--repeats", "1e1"]) == 0
    assert calls == [("benchmarks/results", 10)]
    assert "| a table |" in capsys.readouterr().out


def test_bench_needs_a_checkout(monkeypatch, elsewhere, capsys):
    monkeypatch.delitem(sys.modules, "benchmarks", raising=False)
    monkeypatch.setattr(bench, "CHECKOUT", elsewhere)
    assert main(["bench", "returns"]) == 2
    assert "bench: the benchmarks are in the source tree only" in capsys.readouterr().err


def test_benchmarks_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "planning", "--help"],
        cwd=bench.CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--problems" in done.stdout


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch):
    from io import StringIO

    from rich.console import Console

    from greedystep.runs import progress

    now = iter([0.0, 10.0, 60.0, 70.0, 100.0, 120.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    log = StringIO()
    with progress.progress_line(Console(file=log), "fig1") as report:
        for share in (0.1, 0.5, 0.6, 0.8):
            report(share, "some work")
    lines = ["fig1 ...", "fig1: 50%, about 1 min left; some work", "fig1: 80%, about 0 min left; some work"]
    assert log.getvalue().splitlines() == [*lines, "fig1: done in 120.0 s"]


def test_progress_on_a_terminal_shows_the_share_and_goes_away():
    import io

    from rich.console import Console

    from greedystep.runs.progress import progress_line

    screen = io.StringIO()
    with progress_line(Console(file=screen, force_terminal=True, width=80), "fig1") as report:
        report(0.25, "N = 16")
    assert "fig1: done in" in screen.getvalue()


@pytest.mark.filterwarnings("default")
def test_warnings_are_notes_of_one_line(monkeypatch, capsys):
    monkeypatch.setattr(
        envs.Envs, "run", lambda self: warnings.warn("\x1b[33mWARN: old\nname\x1b[0m", stacklevel=1) or 0
    )
    assert main(["envs"]) == 0
    assert capsys.readouterr().err == "Note: WARN: old name\n"

"""Benchmark of installing: packages, size and start-up time of the built wheel, without and with each extra.

The wheel is built from the sdist, which is built from the checkout. Each case has an empty environment of its own, in
which a small program uses the extra; an environment is removed before the next is made. Times are CPU seconds (user and
system) of processes whose files have been read before, so that other programs on the machine hardly matter.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from greedystep.io import write_json, write_text
from greedystep.provenance import provenance

ROOT = Path(__file__).parents[1]

SMALL = {"returns": "one-step", "replay_size": 200, "warmup": 50, "batch_size": 8}
"""Settings of a network that trains within seconds."""
WORDS = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]

PROGRAMS = {
    "": """
import sys
import greedystep as gs
from greedystep.cli import main
assert gs.solve(gs.MDP.from_gymnasium("FrozenLake-v1", discount=0.99)).converged
assert main(["plan", "chain-50", "--method", "greedy-step", "--policies", "each-action", "--horizon", "50"]) == 0
gs.TabularAgent("toy/choice", "greedy-step", seed=0).learn(10)
assert gs.returns.greedy_step([0.0, 1.0], [0.9, 0.0], [0.5, 0.0]).steps.tolist() == [2, 1]
assert gs.load_pretrained("classic/cartpole").predict([0.0, 0.0, 0.1, 0.1]) == 1
assert main(["reproduce", "fig1"]) == 0
assert main(["check", "classic/cartpole"]) == 2  # says that it needs the extra `deep`
assert "jax" not in sys.modules
""",
    "deep": f"""
import greedystep as gs
gs.DQN("classic/cartpole", seed=0, **{SMALL}).learn(200)
""",
    "gymnax": """
import jax
import greedystep as gs
env = gs.envs.from_gymnax("CartPole-v1")
env.step(jax.random.key(1), env.reset(jax.random.key(0)), 1)
""",
    "minari": """
from gymnasium.spaces import Discrete
import greedystep as gs
one = gs.Trajectory([0, 1, 2], [1, 1], [0.0, 1.0], [False, True], [False, False])
gs.trajectory.to_minari("greedystep/test-v0", [one], Discrete(3), Discrete(2))
(back,) = gs.trajectory.from_minari("greedystep/test-v0")
assert back.rewards.tolist() == one.rewards.tolist()
""",
    "onnx": """
import onnx
import greedystep as gs
gs.load_pretrained("classic/cartpole").save("policy.onnx")
onnx.checker.check_model("policy.onnx")
""",
    "ray": f"""
from greedystep.cli import main
assert main(["train", "classic/cartpole", "--steps", "200", "--seeds", "2", "--on", "ray", *{WORDS}]) == 0
""",
    "tensorboard": f"""
from pathlib import Path
from greedystep.cli import main
assert main(["train", "classic/cartpole", "--steps", "200", "--tensorboard", "--out", "run", *{WORDS}]) == 0
assert list(Path("run").rglob("events.out.tfevents.*"))
""",
    "torch": """
import torch
import greedystep as gs
found = gs.returns.greedy_step(*map(torch.tensor, ([0.0, 1.0], [0.9, 0.0], [0.5, 0.0])))  # gradients need `deep` too
assert found.steps.tolist() == [2, 1]
""",
    "tune": f"""
from pathlib import Path
from greedystep.cli import main
assert main(["tune", "classic/cartpole", "--trials", "1", "--search", "learning_rate", "--steps", "200", *{WORDS}]) == 0
assert list(Path("runs").rglob("tune.json"))
""",
}
"""Extra, "" for none, -> a program that uses it; the other extras are for work on greedystep itself."""

UNPINNED = {"gymnax": ["gymnasium"]}
"""Extra -> packages whose pin in constraints.txt it cannot have: gymnax 1.0.1 wants an older Gymnasium."""

IMPORTS = {"import greedystep": "gs", "gs.solve": "gs.solve", "gs.DQN": "gs.DQN"}
"""What is timed -> the name that is used after the import; names without extra, and `gs.DQN` with the extra `deep`."""


def run(out: Path, repeats: int = 5, *, extras: Sequence[str] = tuple(PROGRAMS)) -> dict[str, Any]:
    """Measure, write `install.json` and `install.md` to `out`, and return the content of the JSON file.

    The files have a row more after each extra. An extra that does not work is a RuntimeError, after the others.
    """
    result, problems = {}, []
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, "-m", "build", "--outdir", folder, ROOT])
        (wheel,), (sdist,) = (list(Path(folder).glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
        built = {"wheel_bytes": wheel.stat().st_size, "sdist_bytes": sdist.stat().st_size}
        rows = []
        for extra in extras:
            try:
                rows.append(measure(wheel, extra, repeats))
            except RuntimeError as problem:
                problems.append(str(problem))
                continue
            result = {**built, "rows": rows, "provenance": provenance({"repeats": repeats, "extras": list(extras)})}
            write_json(out / "install.json", result)
            write_text(out / "install.md", markdown(result))
    if problems:
        raise RuntimeError("\n".join(problems))
    return result


def measure(wheel: Path, extra: str, repeats: int) -> dict[str, Any]:
    """Install the wheel with one extra into an empty environment, use it there, and measure.

    Returns:
        A row: `packages` (name -> version) and `bytes` of site-packages, `largest` (its five largest entries and their
        bytes), and `seconds` (what -> CPU seconds, medians).
    """
    with tempfile.TemporaryDirectory() as folder:
        environment, elsewhere = Path(folder, "environment"), Path(folder, "elsewhere")
        elsewhere.mkdir()
        venv.create(environment, with_pip=False)  # so that everything in it came with greedystep
        python = environment / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "-c", _constraints(folder, extra)]
        _run([*pip, f"{wheel}[{extra}]" if extra else wheel])
        (site_packages,) = environment.glob("lib/python*/site-packages")
        sizes = {path.name: size_of(path) for path in site_packages.iterdir()}
        _run([python, "-c", PROGRAMS[extra]], cwd=elsewhere, MINARI_DATASETS_PATH=str(elsewhere))
        packages = json.loads(_run([python, "-c", LIST_PACKAGES]))
        seconds = {
            what: _median_seconds([python, "-c", TIME_IMPORT.format(name)], elsewhere, repeats)
            for what, name in IMPORTS.items()
            if (name, extra) in (("gs", extra), ("gs.solve", ""), ("gs.DQN", "deep"))
        }
        seconds["greedystep --help"] = _median_seconds(
            [environment / "bin" / "greedystep", "--help"], elsewhere, repeats
        )
    largest = sorted(sizes.items(), key=lambda item: item[1], reverse=True)[:5]
    return {
        "extra": extra,
        "packages": packages,
        "bytes": sum(sizes.values()),
        "largest": dict(largest),
        "seconds": seconds,
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the table as text."""
    made = result["provenance"]
    columns = [*IMPORTS, "greedystep --help"]
    lines = [
        "# Installing",
        "",
        f"greedystep {made['versions']['greedystep']}, Python {made['python']}, {made['platform']}. The wheel has "
        f"{_megabytes(result['wheel_bytes'], 1)} MB, the sdist {_megabytes(result['sdist_bytes'], 1)} MB. Sizes are "
        "those of site-packages; times are CPU seconds, medians.",
        "",
        f"| extra | packages | MB | {' | '.join(f'{name}, s' for name in columns)} | largest, MB |",
        f"| --- | ---: | ---: |{' ---: |' * len(columns)} --- |",
    ]
    for row in result["rows"]:
        seconds = [f"{row['seconds'][name]:.2f}" if name in row["seconds"] else "" for name in columns]
        largest = ", ".join(f"{name} {_megabytes(size)}" for name, size in list(row["largest"].items())[:3])
        cells = [row["extra"] or "none", str(len(row["packages"])), _megabytes(row["bytes"]), *seconds, largest]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file() and not one.is_symlink()]
    return sum(one.stat().st_size for one in files)


def _megabytes(size: int, digits: int = 0) -> str:
    return f"{size / 1e6:.{digits}f}"


# -- processes ---------------------------------------------------------------------------------------------------------

TIME_IMPORT = (
    "import time; begin = time.process_time(); import greedystep as gs; {}; print(time.process_time() - begin)"
)

LIST_PACKAGES = """
import json
from importlib.metadata import distributions
print(json.dumps({one.metadata["Name"].lower(): one.version for one in distributions()}))
"""


def _constraints(folder: str, extra: str) -> Path:
    """Write the pins that hold with this extra to a file."""
    path = Path(folder, "constraints.txt")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.partition("==")[0] not in UNPINNED.get(extra, ())))
    return path


def _median_seconds(command: Sequence[Any], folder: Path, repeats: int) -> float:
    """Return the median CPU seconds of a command, or what it prints as its time, after one run that is not counted."""
    found = []
    for _ in range(repeats + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        printed = _run(command, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        found.append(spent if "--help" in command else float(printed))
    return statistics.median(found[1:])


def _run(command: Sequence[Any], cwd: Path | None = None, **variables: str) -> str:
    """Return what a command prints; a failure shows all that it said."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | variables
    words = list(map(str, command))
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} said:\n{done.stdout}{done.stderr}")
    return done.stdout

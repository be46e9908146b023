"""Run the same commands with two checkouts and compare their answers: python benchmarks/same_answers.py OLD NEW.

Solutions, trainings, fits, reports and the claims of the experiments are compared number by number; words may differ,
and times are left out. Exit status 1 if anything else differs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

COMMANDS = {
    "plan-auto": ["plan frozenlake-8x8 --tolerance 1e-9 --out plan.npz"],
    "plan-greedy": ["plan chain-50 --method greedy-step --policies each-action --horizon 50 --out plan.npz"],
    "plan-garnet": ["plan garnet-300x4x5 --method policy-iteration --out plan.npz"],
    "table": ["train toy/trace-back --options delay=8 --episodes 400 --seed 3 --out run"],
    "table-model": ["train FrozenLake-v1 --method model --episodes 200 --out run"],
    "network": ["train classic/mountaincar --returns greedy-step --ensemble 2 --steps 6000 --seeds 2 --out run"],
    "network-fast": ["train minatar/breakout --preset fast --returns lambda --steps 30000 --warmup 5000 --out run"],
    "network-double": ["train ple/catcher --returns retrace --double --steps 3000 --warmup 500 --out run"],
    "evaluate": [
        "train classic/cartpole --returns n-step --steps 3000 --out run",
        "eval run --episodes 20 --out eval.json",
    ],
    "resumed": [
        "train toy/choice --episodes 100 --out run",
        "train --resume run --episodes 200",
    ],
    "theory": ["reproduce table1 fig1 --out results"],
    "kept": ["reproduce fig2 fig3 fig4 fig5 horizon luck presets settings --scale paper --gather --out results"],
}
"""Name of a probe -> the commands that are run in an empty folder (`kept`: one with the kept results of OLD)."""
TIMES = re.compile(r"second|date|provenance|version|device|command|time")
"""Entries that hold times or tell where a result comes from."""
TEXTS = ("title", "label", "claim", "where", "reason", "header", "caption", "missing", "problems", "message")


def run(checkout: Path, commands: list[str], folder: Path, kept: Path | None) -> None:
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "JAX_PLATFORMS": "cpu"}
    if kept is not None:
        (folder / "results").mkdir()
        for item in kept.iterdir():
            if item.name == "parts" or item.name.endswith(".gz"):
                (shutil.copytree if item.is_dir() else shutil.copy)(item, folder / "results" / item.name)
    for command in commands:
        program = [sys.executable, "-m", "greedystep", *command.split()]
        done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{checkout}: {command}\n{done.stderr[-2000:]}")


def answers(folder: Path) -> dict[str, Any]:
    """All numbers that the commands wrote, by file and place."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if "parts" in path.parts or not path.is_file():
            continue
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                numbers = {key: arrays[key] for key in arrays if arrays[key].dtype.kind in "biuf"}
            found |= {f"{name}: {key}": array.tolist() for key, array in numbers.items() if not TIMES.search(key)}
        elif path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            found |= {f"{name}:{i}{place}": value for i, row in enumerate(rows) for place, value in leaves(row)}
        elif path.suffix == ".json":
            found |= {f"{name}{place}": value for place, value in leaves(json.loads(path.read_text()))}
    return found


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers, truth values, verdicts, and the numbers within measured texts, each with its place."""
    if isinstance(value, dict):
        own = f"[{value['id']}]" if isinstance(value.get("id"), str) else ""
        for key, entry in value.items():
            if not TIMES.search(key) and key not in TEXTS:
                yield from leaves(entry, f"{place}{own}.{key}")
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            has_id = isinstance(entry, dict) and isinstance(entry.get("id"), str)
            yield from leaves(entry, place if has_id else f"{place}[{index}]")
    elif isinstance(value, str) and place.endswith((".measured", ".claimed")):
        yield place, re.findall(r"-?\d+(?:\.\d+)?", value.replace(",", ""))
    elif not isinstance(value, str) or place.endswith(".verdict"):
        yield place, value


def main(old: Path, new: Path, only: list[str]) -> int:
    differ = 0
    for name, commands in COMMANDS.items():
        if only and name not in only:
            continue
        found = []
        for checkout in (old, new):
            with tempfile.TemporaryDirectory() as folder:
                run(checkout, commands, Path(folder), old / "results" / "paper" if name == "kept" else None)
                found.append(answers(Path(folder)))
        before, after = found
        different = sorted(
            place for place in before.keys() | after.keys() if repr(before.get(place)) != repr(after.get(place))
        )
        print(f"{name}: {len(before):,} answers, {len(different)} differ", flush=True)
        for place in different[:10]:
            print(f"  {place}: {str(before.get(place))[:100]} -> {str(after.get(place))[:100]}")
        differ += bool(different)
    return int(differ > 0)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:]))

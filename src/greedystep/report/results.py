"""A folder of results: read, check, and write everything that is made from them.

NAME.json           the result itself, the only thing that took time to make
NAME-*.png, .svg    its figures
NAME-*.md, .tex     its tables
report.html         all results of the folder on one page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from greedystep import experiments, figures
from greedystep.experiments.claims import Claim, Table
from greedystep.record import read_json, write_text
from greedystep.report import page, tables

KEYS = ("name", "title", "settings", "numbers", "claims", "provenance")
PAGE = "report.html"


def read(path: Path) -> dict[str, Any]:
    """One result; ValueError says in one sentence why a file is none."""
    result = read_json(path)
    missing = [key for key in KEYS if key not in result] if isinstance(result, dict) else list(KEYS)
    if missing:
        raise ValueError(f"{path} is not a result of `greedystep reproduce`: it has no {', '.join(missing)}")
    experiments.load(result["name"])
    for claim in result["claims"]:
        try:
            Claim(**claim)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"{path} holds a claim that cannot be read ({problem})") from None
    return result


def collect(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The results in some folders and files, in the order of the paper; a name may occur once."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder: {path}")
        files = [file for name in experiments.NAMES if (file := path / f"{name}.json").is_file()]
        if path.is_dir() and not files:
            named = ", ".join(f"{name}.json" for name in experiments.NAMES)
            raise ValueError(f"{path} holds no results ({named}) and no run (config.json and metrics.jsonl)")
        for file in files if path.is_dir() else [path]:
            result = read(file)
            earlier = found.setdefault(result["name"], (file, result))[0]
            if earlier != file:
                raise ValueError(f"{result['name']} was given twice: {earlier} and {file}")
    return [found[name][1] for name in experiments.NAMES if name in found]


def write(results: list[dict[str, Any]], folder: Path) -> Path:
    """Draw every result into the folder and return the page of them all."""
    sections = []
    for result in results:
        experiment = experiments.load(result["name"])
        with figures.style():
            drawings = experiment.draw(result)
        pictures = {}
        for key, drawing in drawings.items():
            _, svg = figures.save(drawing, folder / _stem(result, key))
            pictures[_stem(result, key)] = svg.read_bytes()
        made = experiment.tables(result)
        for table in made:
            _write_table(table, folder / _stem(result, table.id))
        sections.append(page.Section(result, pictures, made))
    write_text(folder / PAGE, page.render(sections))
    return folder / PAGE


def _write_table(table: Table, stem: Path) -> None:
    write_text(f"{stem}.md", tables.markdown(table))
    write_text(f"{stem}.tex", tables.latex(table))


def _stem(result: dict[str, Any], key: str) -> str:
    """The experiment's name leads every file, once."""
    return key if key.startswith(result["name"]) else f"{result['name']}-{key}"

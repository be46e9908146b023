"""Compare training runs by their learning curves: read run folders, group them by settings, write numbers and a page.

runs.json           the curves with their intervals, and the table's numbers
runs.png, .svg      return, mean Q, over-estimation and mean n over environment steps
runs.md, .tex       final returns
runs.html           all of it on one page

A run is a folder with config.json and metrics.jsonl, as `greedystep train` writes it. Runs that differ only in their
seeds form one group; so do the lanes of one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import figures, schema, tables
from greedystep.charts import Chart, learning_charts
from greedystep.io import read_json, write_json, write_text
from greedystep.learning_curves import last_episodes
from greedystep.metrics import read_metrics
from greedystep.provenance import config_hash, provenance
from greedystep.report import elements
from greedystep.stats import Interval, interval
from greedystep.tables import Table, cell

Lane = dict[str, np.ndarray]
"""Metrics columns of one lane (one seed's training), by name."""

CHOICE = {"dqn": "returns", "tabular": "method"}
"""Kind of run -> the setting that names a group in legends."""
CONTENT = {"kind": schema.OneOf(*CHOICE), "config": {"env": str, "options": dict}, "provenance": {"command": str}}
"""Schema of config.json."""
CONFIG = {"dqn": {"agent": {"returns": str}}, "tabular": {"method": str, "method_options": dict}}
"""Kind of run -> schema of its settings."""
COLUMNS = {"returns": "episode_return", "q": "mean_q", "overestimation": "overestimation", "n": "mean_n"}
"""Quantity -> the column of metrics.jsonl that holds it."""
NOT_SETTINGS = (
    "env",
    "options",
    "agent",
    "method_options",
    "steps",
    "episodes",
    "seeds",
    "seed",
    "preset",
    "vectorization",
)
"""Entries of a run's config that do not distinguish groups, or are handled separately."""


@dataclass(frozen=True)
class Run:
    """What is read from one run folder."""

    folder: Path
    kind: str
    env: str
    """The environment's name with its options."""
    settings: dict[str, Any]
    """All settings except environment, seeds and length."""
    lanes: list[Lane]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same settings in the same environment."""

    env: str
    label: str
    runs: list[Run] = field(repr=False)

    @property
    def lanes(self) -> list[Lane]:
        return [lane for run in self.runs for lane in run.lanes]


def is_run(path: Path) -> bool:
    """Return whether the path is a folder with the two files of a run."""
    return (path / "config.json").is_file() and (path / "metrics.jsonl").is_file()


def read(folder: Path) -> Run:
    """Read one run; ValueError says in one sentence what is wrong with the folder."""
    if not folder.exists():
        raise FileNotFoundError(f"no such file or folder: {folder}")
    if not is_run(folder):
        raise ValueError(f"{folder} holds no run (config.json and metrics.jsonl)")
    content = read_json(folder / "config.json")
    try:
        kind = schema.check(content, CONTENT, "it")["kind"]
        config = schema.check(content["config"], CONFIG[kind], "config")
    except ValueError as problem:
        raise ValueError(f"{folder / 'config.json'} is not the configuration of a run ({problem})") from None
    settings = {name: value for name, value in config.items() if name not in NOT_SETTINGS}
    settings |= config["agent"] if kind == "dqn" else config["method_options"]
    env, options, provenance = config["env"], config["options"], content["provenance"]
    lanes = [_checked(folder, kind, lane) for lane in read_metrics(folder / "metrics.jsonl").values()]
    if not lanes:
        raise ValueError(f"{folder} has no rows of metrics yet")
    named = ", ".join(f"{name} {cell(value)}" for name, value in options.items())
    return Run(folder, kind, f"{env} ({named})" if named else env, settings, lanes, provenance)


def _checked(folder: Path, kind: str, lane: Lane) -> Lane:
    """Check the metrics columns of a lane; return them with `episodes` per row instead of in total."""
    path, whole = folder / "metrics.jsonl", ("episodes", "seed")
    for name in ("episode_return", *whole):
        if name not in lane:
            raise ValueError(f"{path} has no column {name!r}")
    for name in (*whole, *COLUMNS.values(), "steps_per_second"):
        kinds = "iu" if name in whole else "iuf"
        if name in lane and (lane[name].dtype.kind not in kinds or lane[name].ndim != 1):
            raise ValueError(f"{path} has values that are not numbers in the column {name!r}")
    if not (np.diff(lane["step"]) > 0).all():
        raise ValueError(f"{path} has rows whose steps do not increase, as if two runs had written to it")
    if kind == "tabular":  # counts all episodes so far
        lane["episodes"] = np.diff(lane["episodes"], prepend=0)
    if (lane["episodes"] < 0).any():
        raise ValueError(f"{path} has a negative number of episodes")
    if not np.isfinite(lane["episode_return"][lane["episodes"] > 0].astype(float)).all():
        raise ValueError(f"{path} has episodes whose return is not a finite number")
    return lane


def group(runs: Iterable[Run]) -> list[RunGroup]:
    """Group runs of equal environment and settings, in order of first occurrence; ValueError if a seed occurs twice."""
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.env, run.kind, config_hash(run.settings)), []).append(run)
    for same in found.values():
        where: dict[int, Path] = {}
        for folder, seed in ((run.folder, int(lane["seed"][0])) for run in same for lane in run.lanes):
            if where.setdefault(seed, folder) != folder:
                raise ValueError(f"{where[seed]} and {folder} are the same training (seed {seed}): give one")
    labels = _labels([same[0] for same in found.values()])
    return [RunGroup(same[0].env, label, same) for same, label in zip(found.values(), labels, strict=True)]


def _labels(runs: Sequence[Run]) -> list[str]:
    """Label each run by its method and every other setting in which the runs of its environment differ.

    Runs in other environments are not compared, because their presets differ.
    """

    def label(run: Run) -> str:
        beside = [other for other in runs if (other.env, other.kind) == (run.env, run.kind)]
        others = dict.fromkeys(name for other in beside for name in other.settings if name not in CHOICE.values())
        varying = [name for name in others if len({cell(other.settings.get(name)) for other in beside}) > 1]
        differs = [(name, run.settings.get(name)) for name in varying]
        parts = [f"{name.strip('_').replace('_', ' ')} {cell(value)}" for name, value in differs if value is not None]
        return ", ".join([run.settings[CHOICE[run.kind]], *parts])

    return [label(run) for run in runs]


# -- the report -------------------------------------------------------------------------------------------------------

EPISODES = 100
"""Number of last episodes over which returns are averaged."""
POINTS = 400
"""Largest number of points of a curve."""
LAST = 0.1
"""Share of the steps, at the end, over which all final numbers except the return are averaged."""


def write(groups: Sequence[RunGroup], folder: Path) -> Path:
    """Write runs.json, figures, tables and the page into the folder; return the path of the page."""
    numbers = [summarize(group) for group in groups]
    drawn, table = charts(numbers), final_table(numbers)
    config = {"runs": [str(run.folder) for group in groups for run in group.runs], "episodes": EPISODES}
    write_json(folder / "runs.json", {"methods": numbers, "provenance": provenance(config)})
    columns = len({one["env"] for one in numbers})
    _, svg = figures.save(figures.draw_charts(drawn, columns if columns > 1 else min(2, len(drawn))), folder / "runs")
    tables.write(table, folder / "runs")
    body = [
        f"<p>{elements.text(caption(numbers))}</p>",
        elements.charts(
            "runs", drawn, [elements.picture("runs", svg.read_bytes(), "Learning curves", "Learning curves")]
        ),
        elements.table(table),
        *(part for group in groups for part in _section(group)),
    ]
    write_text(folder / "runs.html", elements.document("training runs", "Training runs", body))
    return folder / "runs.html"


def _section(group: RunGroup) -> list[str]:
    parts = [f"<section><h2>{elements.text(f'{group.env}: {group.label}')}</h2>"]
    parts += ["<h3>Settings</h3>", elements.pairs(group.runs[0].settings)]
    for run in group.runs:
        parts += [f"<h3>{elements.text(run.folder)}</h3>", *elements.provenance(run.provenance)]
    return [*parts, "</section>"]


def caption(numbers: list[dict[str, Any]]) -> str:
    """Return a sentence that explains the lines and bands of the charts."""
    fewest = min(one["seeds"] for one in numbers)
    several = "Lines are means over seeds, bands their 95 % bootstrap intervals."
    return several if fewest > 1 else f"{several} A method with one seed has no interval."


# -- numbers ----------------------------------------------------------------------------------------------------------


def summarize(group: RunGroup) -> dict[str, Any]:
    """Return the curves and final numbers of a group as JSON; None for quantities that its runs do not have."""
    steps = common_steps(group.lanes)
    curves, final = dict.fromkeys(COLUMNS.values()), dict.fromkeys(COLUMNS.values())
    for column in curves:
        values = [_curve(lane, column, steps) for lane in group.lanes]
        if any(curve is None for curve in values):
            continue
        runs = np.array(values)  # [lanes, points]
        is_end = steps == steps[-1] if column == "episode_return" else steps > (1 - LAST) * steps[-1]
        at_end = np.ma.masked_invalid(runs[:, is_end]).mean(axis=1, keepdims=True).filled(np.nan)
        curves[column] = interval({"": runs}, "mean", resamples=2_000)._asdict()
        final[column] = interval({"": at_end}, "mean", resamples=10_000)._asdict()
    speeds = [np.median(run.lanes[0]["steps_per_second"]) for run in group.runs if "steps_per_second" in run.lanes[0]]
    return {
        "env": group.env,
        "method": group.label,
        "seeds": len(group.lanes),
        "steps": steps,
        "curves": curves,
        "final": final,
        "steps_per_second": float(np.mean(speeds)) if speeds else None,
    }


def common_steps(lanes: Sequence[Lane]) -> np.ndarray:
    """Return at most POINTS steps to compare lanes at: those of the one with the fewest rows, while all have rows."""
    end = min(lane["step"][-1] for lane in lanes)
    steps = min((lane["step"] for lane in lanes), key=len)
    steps = np.unique(np.append(steps[steps <= end], end))
    return steps[np.linspace(0, len(steps) - 1, min(POINTS, len(steps))).round().astype(int)]


def _curve(lane: Lane, column: str, steps: np.ndarray) -> np.ndarray | None:
    """Return the latest value of a metrics column at each of `steps`; NaN before the first, None if it has none."""
    if column == "episode_return":
        return last_episodes(lane["step"], lane[column], steps, EPISODES, lane["episodes"])
    known = np.isfinite(lane[column].astype(float)) if column in lane else np.array([False])
    if not known.any():
        return None
    at = np.searchsorted(lane["step"][known], steps, side="right")
    return np.append(np.nan, lane[column][known])[at]


# -- table and charts -------------------------------------------------------------------------------------------------


def final_table(numbers: list[dict[str, Any]]) -> Table:
    """Return the table of final numbers, one row per group."""

    def number(of: dict[str, Any] | None, part: str) -> float | None:
        return None if of is None or not np.isfinite(of[part]).all() else float(of[part][0])

    header = ["environment", "method", "seeds", "steps", "final return", "from", "to"]
    header += ["mean Q", "over-estimation", "mean n", "steps/s"]
    rows = []
    for one in numbers:
        final = one["final"]
        row = [one["env"], one["method"], one["seeds"], int(one["steps"][-1])]
        row += [number(final["episode_return"], part) for part in Interval._fields]
        row += [number(final[column], "estimate") for column in list(COLUMNS.values())[1:]]
        rows.append([*row, one["steps_per_second"]])
    title = f"Mean return of the last {EPISODES} episodes with its 95 % interval over seeds; other columns: last 10 %"
    return Table("runs", title, header, rows)


def charts(numbers: list[dict[str, Any]]) -> list[Chart]:
    """Return one chart per environment and quantity, with a line per group."""
    tasks: dict[str, dict[str, Any]] = {}
    for one in numbers:
        methods = tasks.setdefault(one["env"], {"title": one["env"], "full_steps": 0, "methods": {}})["methods"]
        curves = {quantity: one["curves"][column] for quantity, column in COLUMNS.items()}
        entry = {"label": one["method"], "steps": one["steps"], "seeds": range(one["seeds"]), "curves": curves}
        methods[str(len(methods))] = entry  # a table and a network may have the same label
    return learning_charts({"tasks": tasks}, {}, COLUMNS)

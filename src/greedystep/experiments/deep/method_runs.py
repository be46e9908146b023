"""The trainings of one method on one task as arrays over seeds, from which figures and verdicts are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep.charts import Style
from greedystep.experiments.deep.suite import networks
from greedystep.figures import draw_learning_charts
from greedystep.learning_curves import area, last_episodes
from greedystep.stats import interval
from greedystep.tables import Table

EPISODES = 100
"""Episodes over which a training return is averaged, as in Lan et al. (2020)."""
POINTS = 200
"""Largest number of points of a curve."""
MARKS = (2_000_000,)
"""Steps at which full-length trainings are compared with the shorter ones of methods that are not the paper's."""
CURVES = ("returns", "q", "n", "overestimation", "greedy_returns", "greedy_overestimation")
"""Curves of `MethodRuns` that a result's JSON has."""
LAST = 0.1
"""Share of the steps, at the end, over which final Q, chosen n and over-estimation are averaged."""
PHASE = 100_000
"""Steps covered by each of the two histograms of n, at the beginning and at the end (the paper's Figure 5)."""


@dataclass(frozen=True)
class MethodRuns:
    """The trainings of one method on one task, one per seed; curves are [seeds, points], NaN before the first value."""

    steps: np.ndarray
    """[points]: environment steps."""
    returns: np.ndarray
    """Mean training return of the last EPISODES episodes."""
    q: np.ndarray
    """Mean of Q(s, a) over the training batches."""
    n: np.ndarray
    """Mean bootstrapping step n that was chosen; all NaN for returns that choose none."""
    overestimation: np.ndarray
    """Q(s, a) of the steps played minus the discounted return of the exploring behaviour policy that followed."""
    n_first: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[seeds, bins]: histogram of n within the first PHASE steps."""
    n_last: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[seeds, bins]: histogram of n within the last PHASE steps; empty if the trainings go on beyond `steps`."""
    greedy_play: np.ndarray | None = None
    """[seeds]: mean return of greedy play after training."""
    greedy_returns: np.ndarray | None = None
    """[seeds, points]: mean return of greedy play along the training, on straight lines between evaluations."""
    greedy_overestimation: np.ndarray | None = None
    """[seeds, points]: Q(s, a) minus the discounted return of greedy play that followed, likewise."""
    final_greedy_return: np.ndarray | None = None
    """[seeds]: mean of the evaluations of greedy play in the last tenth of the steps."""
    final_greedy_overestimation: np.ndarray | None = None
    """[seeds]: Q minus the return of greedy play, mean of the same evaluations."""
    steps_per_second: float = np.nan
    """Environment steps per second of all seeds together."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Setting, seeds, devices and other facts for the result's JSON."""

    @property
    def final_return(self) -> np.ndarray:
        """Return [seeds]: the training return at the end."""
        return self.returns[:, -1]

    @property
    def final_overestimation(self) -> np.ndarray:
        """Return [seeds]: Q minus the behaviour return at the end."""
        return self.at_end(self.overestimation)

    @property
    def first_return(self) -> np.ndarray:
        """Return [seeds]: the training return at the first point where all seeds have one; NaN if there is none."""
        known = np.isfinite(self.returns).all(axis=0)
        return self.returns[:, known.argmax()] if known.any() else np.full(len(self.returns), np.nan)

    def return_at(self, steps: int) -> np.ndarray:
        """Return [seeds]: the training return after that many steps."""
        return self.returns[:, np.searchsorted(self.steps, steps, side="right") - 1]

    def at_end(self, curves: np.ndarray) -> np.ndarray:
        """Return [seeds]: mean of a curve over the last tenth of the steps; NaN if it has no value there."""
        last = curves[:, self.steps > (1 - LAST) * self.steps[-1]]
        known = np.isfinite(last)
        count = known.sum(axis=1)
        return np.where(count, np.where(known, last, 0).sum(axis=1) / np.maximum(count, 1), np.nan)

    def mean_return(self, share: float = 1.0) -> np.ndarray:
        """Return [seeds]: mean return over the first `share` of the steps (area under the curve)."""
        known = np.isfinite(self.returns).all(axis=0) & (self.steps <= share * self.steps[-1])
        if known.sum() < 2:
            return np.full(len(self.returns), np.nan)
        return area(self.steps[known], self.returns[:, known])


# -- from records of the store ----------------------------------------------------------------------------------------


def from_records(records: Sequence[Mapping[str, Any]], steps: int) -> MethodRuns:
    """Return stored trainings, one record per seed, as `MethodRuns` on one grid of at most `steps` steps."""

    def column(name: str) -> np.ndarray:
        return np.array([record[name] for record in records], float)

    def curves(name: str) -> np.ndarray:
        return np.array([_latest(record["curve"], name, grid) for record in records])

    grid = _grid(records, steps)
    whole = all(record["steps"] <= steps for record in records)
    evaluated = all("greedy" in record for record in records)
    return MethodRuns(
        steps=grid,
        returns=np.array([_returns(record["curve"], grid) for record in records]),
        q=curves("mean_q"),
        n=curves("mean_n"),
        overestimation=curves("overestimation"),
        n_first=column("n_first"),
        n_last=column("n_last") if whole else np.zeros((0, 0)),
        greedy_play=column("evaluation") if whole else None,
        **(_greedy_play(records, grid) if evaluated else {}),
        steps_per_second=float(np.median(column("steps_per_second"))),
        info={
            **{name: records[0][name] for name in ("setting", "phase", "preset", "env")},
            "seeds": [record["seed"] for record in records],
            "side_by_side": max(record["side_by_side"] for record in records),
            "machines": _machines(records),
            "diverged": [record["seed"] for record in records if record["diverged"] is not None],
        },
    )


def _machines(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return {device: trainings, steps and seconds}; trainings that shared a device share its seconds."""
    machines: dict[str, dict[str, float]] = {}
    for device in sorted({record["device"] for record in records}):
        own = [record for record in records if record["device"] == device]
        seconds = {one["part"]: one["seconds"] / one["side_by_side"] for one in own}  # lanes of a part share them
        steps = sum(record["steps"] for record in own)
        machines[device] = {"trainings": len(own), "steps": steps, "seconds": sum(seconds.values())}
    return machines


def _grid(records: Sequence[Mapping[str, Any]], steps: int) -> np.ndarray:
    """Return at most POINTS steps for the points of all curves: those of the record with the fewest rows."""
    fewest = min((np.array(record["curve"]["step"]) for record in records), key=len)
    inside = fewest[fewest <= steps]
    return inside[np.unique(np.linspace(0, len(inside) - 1, min(POINTS, len(inside))).round().astype(int))]


def _returns(curve: Mapping[str, Any], grid: np.ndarray) -> np.ndarray:
    returns = [0.0 if value is None else value for value in curve["episode_return"]]
    return last_episodes(curve["step"], returns, grid, EPISODES, curve["episodes"])


def _latest(curve: Mapping[str, Any], column: str, grid: np.ndarray) -> np.ndarray:
    """Return the latest known value of a column at each step of the grid.

    A last row much shorter than the others is skipped: too few episodes ended in it.
    """
    values = np.array([np.nan if value is None else value for value in curve[column]], float)
    steps = np.array(curve["step"])
    lengths = np.diff(steps, prepend=0)
    known = np.isfinite(values) & (lengths > np.median(lengths) / 2)
    at = np.searchsorted(steps[known], grid, side="right")
    return np.append(np.nan, values[known])[at]


def _greedy_play(records: Sequence[Mapping[str, Any]], grid: np.ndarray) -> dict[str, np.ndarray]:
    """Return the evaluations of greedy play as curves on the grid, NaN before the first one, and their final means."""
    found = {}
    for name, curve in (("return", "greedy_returns"), ("overestimation", "greedy_overestimation")):
        known = [(np.array(one["greedy"]["step"]), np.array(one["greedy"][name], float)) for one in records]
        curves = [np.interp(grid, steps, values, left=np.nan) for steps, values in known]
        finals = [values[(steps > (1 - LAST) * grid[-1]) & (steps <= grid[-1])].mean() for steps, values in known]
        found |= {curve: np.array(curves), f"final_greedy_{name}": np.array(finals)}
    return found


def only_end(curve: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Shorten a curve without changing its final return: merge all rows before the last EPISODES episodes into one."""
    episodes, returns = np.array(curve["episodes"]), curve["episode_return"]
    later = episodes[::-1].cumsum()[::-1] - episodes
    first = int((later >= EPISODES).sum())
    if first < 2:
        return {name: list(column) for name, column in curve.items()}
    number = int(episodes[:first].sum())
    total = sum(count * value for count, value in zip(episodes[:first], returns, strict=False) if count)
    merged = {"episodes": number, "episode_return": float(total) / number if number else None}
    return {name: [merged.get(name, column[first - 1]), *column[first:]] for name, column in curve.items()}


# -- as JSON ----------------------------------------------------------------------------------------------------------


def summary(runs: MethodRuns) -> dict[str, Any]:
    """Return the JSON of one method: mean curves with 95 % CIs, and final numbers of each seed."""
    final = runs.final_return
    return {
        **runs.info,
        "steps": runs.steps,
        "curves": {name: _mean_curve(getattr(runs, name)) for name in CURVES if getattr(runs, name) is not None},
        "final": {
            "returns": final,
            "levels": {str(mark): runs.return_at(mark) for mark in MARKS if mark < runs.steps[-1]},
            "iqm": interval(final, "iqm")._asdict(),
            "mean": interval(final, "mean")._asdict(),
            **{
                name: interval(runs.at_end(getattr(runs, name)), "mean")._asdict()
                for name in ("q", "overestimation", "n")
            },
            "greedy_play": runs.greedy_play,
            "greedy_return": runs.final_greedy_return,
            "greedy_overestimation": runs.final_greedy_overestimation,
        },
        "steps_per_second": runs.steps_per_second,
    }


def _mean_curve(curves: np.ndarray) -> dict[str, list[float]] | None:
    """Return mean and 95 % CI over seeds, rounded to five digits; None if no seed has any value."""
    if not np.isfinite(curves).any():
        return None
    parts = interval({"": curves}, "mean", resamples=1_000)._asdict()
    return {name: [float(f"{value:.5g}") for value in np.asarray(part, float)] for name, part in parts.items()}


# -- as a figure and a table ------------------------------------------------------------------------------------------


def make_draw(
    name: str, styles: Mapping[str, Style], quantities: Sequence[str], bands: bool = True
) -> Callable[[dict[str, Any]], dict[str, Figure]]:
    """Return the `draw` function of an experiment with one figure of learning curves."""
    return lambda result: {name: draw_learning_charts(result["numbers"], styles, quantities, bands=bands)}


def make_tables(name: str, heading: str) -> Callable[[dict[str, Any]], list[Table]]:
    """Return the `tables` function of an experiment with one table of final numbers."""
    return lambda result: [final_table(name, heading, result["numbers"]["tasks"])]


def final_table(name: str, heading: str, tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one row of final numbers per task and method, from the tasks of a result's JSON."""
    header = ["task", "method", "setting", "preset", "steps", "seeds", "mean return", "95 % CI low", "95 % CI high"]
    header += ["IQM", "greedy play", "mean Q", "Q minus behaviour return", "mean n", "steps/s"]
    rows = []
    for task in tasks.values():
        for entry in task["methods"].values():
            final, played = entry["final"], entry["final"]["greedy_play"]
            about = [task["title"], entry["label"], format_setting(entry["setting"]), entry["preset"]]
            numbers = [final["mean"][part] for part in ("estimate", "low", "high")]
            numbers += [final["iqm"]["estimate"], None if played is None else np.mean(played)]
            numbers += [*(final[part]["estimate"] for part in ("q", "overestimation", "n")), entry["steps_per_second"]]
            numbers = [None if number is None else float(number) for number in numbers]
            rows.append([*about, entry["steps"][-1], len(entry["seeds"]), *numbers])
    return Table(name, heading, header, rows)


def tried_table(name: str, tasks: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return one row per setting that was tried, from the tasks of a result's JSON."""
    rows = [
        [task["title"], entry["label"], format_setting(tried["setting"])]
        + [float(pick(np.asarray(tried["returns"], float))) for pick in (np.min, np.max)]
        + [tried["setting"].items() <= entry["setting"].items()]
        for task in tasks.values()
        for entry in task["methods"].values()
        for tried in entry.get("tried", ())
    ]
    header = ["task", "method", "setting", "lower return", "higher return", "chosen"]
    return Table(name, "Settings tried on two seeds that are not used later", header, rows)


_FORMATS: dict[str, Callable[[Any], str]] = {
    "learning_rate": "lr {:g}".format,
    "ensemble": networks,
    "n": "n {}".format,
    "lambda_": "λ {:g}".format,
    "gate": "gate {:g}".format,
    "horizon": "N {}".format,
}


def format_setting(setting: Mapping[str, Any]) -> str:
    """Return a method's setting in short, such as "lr 0.0003, n 3"."""
    return ", ".join(write(setting[name]) for name, write in _FORMATS.items() if setting.get(name) is not None)

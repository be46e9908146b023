"""Trainings of one method on one task as arrays: what figures show and rules judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from greedystep.learning_curves import area, last_episodes
from greedystep.stats import interval

EPISODES = 100
"""Returns are means over so many of the last episodes, as in Lan et al. (2020)."""
POINTS = 200
"""Points of a curve."""
MARKS = (2_000_000,)
"""Steps at which longer trainings can be set beside the shorter ones of methods beyond the paper."""
LAST = 0.1
"""Q and over-estimation at the end are means over this last share of the steps."""
PHASE = 100_000
"""Steps of the two histograms of n, at the beginning and at the end (the paper's Figure 5)."""


@dataclass(frozen=True)
class Evidence:
    """One training a seed; curves are [seeds, points], NaN where there is nothing to tell yet."""

    steps: np.ndarray
    """[points] environment steps."""
    returns: np.ndarray
    """Mean training return of the last episodes."""
    q: np.ndarray
    """Mean of Q(s, a) over what was trained on."""
    n: np.ndarray
    """Mean chosen step; all NaN for returns that choose none."""
    overestimation: np.ndarray
    """Q(s, a) of the steps played minus the discounted return that followed."""
    n_first: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[seeds, bins] chosen steps within the first 1e5 steps."""
    n_last: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """Likewise within the last; empty where the trainings are longer than what is looked at."""
    evaluation: np.ndarray | None = None
    """[seeds] mean return of greedy play after training."""
    speed: float = np.nan
    """Environment steps a second of all seeds together."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Settings, seeds, devices: what is told and not computed with."""

    @property
    def final(self) -> np.ndarray:
        """[seeds] return at the end."""
        return self.returns[:, -1]

    def level(self, steps: int) -> np.ndarray:
        """[seeds] return after so many steps."""
        return self.returns[:, np.searchsorted(self.steps, steps, side="right") - 1]

    def at_end(self, curves: np.ndarray) -> np.ndarray:
        """[seeds] the mean of a curve over the last tenth of the steps; NaN where nothing is known."""
        return _mean_of_known(curves[:, self.steps > (1 - LAST) * self.steps[-1]])

    def height(self, share: float = 1.0) -> np.ndarray:
        """[seeds] the mean return over the first share of the steps: high for those that learn soon."""
        known = np.isfinite(self.returns).all(axis=0) & (self.steps <= share * self.steps[-1])
        if known.sum() < 2:
            return np.full(len(self.returns), np.nan)
        return area(self.steps[known], self.returns[:, known])


def gather(lanes: Sequence[Mapping[str, Any]], steps: int) -> Evidence:
    """Trainings of the store, as far as `steps`, on one grid."""
    grid = _grid(lanes, steps)
    curves = [lane["curve"] for lane in lanes]
    whole = all(lane["steps"] <= steps for lane in lanes)
    return Evidence(
        steps=grid,
        returns=np.array([_returns(curve, grid) for curve in curves]),
        q=np.array([_latest(curve, "mean_q", grid) for curve in curves]),
        n=np.array([_latest(curve, "mean_n", grid) for curve in curves]),
        overestimation=np.array([_latest(curve, "overestimation", grid) for curve in curves]),
        n_first=np.array([lane["n_first"] for lane in lanes], float),
        n_last=np.array([lane["n_last"] for lane in lanes], float) if whole else np.zeros((0, 0)),
        evaluation=np.array([lane["evaluation"] for lane in lanes], float) if whole else None,
        speed=float(np.median(np.array([lane["steps_per_second"] for lane in lanes], float))),
        about={
            "setting": lanes[0]["setting"],
            "seeds": [lane["seed"] for lane in lanes],
            "phase": lanes[0]["phase"],
            "preset": lanes[0]["preset"],
            "env": lanes[0]["env"],
            "side_by_side": max(lane["side_by_side"] for lane in lanes),
            "machines": _machines(lanes),
            "diverged": [lane["seed"] for lane in lanes if lane["diverged"] is not None],
        },
    )


def _machines(lanes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """What was trained on each device, and for how long: those that shared it count with their share."""
    machines: dict[str, dict[str, float]] = {}
    for device in sorted({lane["device"] for lane in lanes}):
        own = [lane for lane in lanes if lane["device"] == device]
        seconds = {lane["part"]: lane["seconds"] / lane["side_by_side"] for lane in own}  # one for all lanes of a part
        steps = sum(lane["steps"] for lane in own)
        machines[device] = {"trainings": len(own), "steps": steps, "seconds": sum(seconds.values())}
    return machines


def _grid(lanes: Sequence[Mapping[str, Any]], steps: int) -> np.ndarray:
    """At most POINTS steps, those of the lane with the fewest rows."""
    fewest = min((np.array(lane["curve"]["step"]) for lane in lanes), key=len)
    inside = fewest[fewest <= steps]
    return inside[np.unique(np.linspace(0, len(inside) - 1, min(POINTS, len(inside))).round().astype(int))]


def _returns(curve: Mapping[str, Any], grid: np.ndarray) -> np.ndarray:
    returns = [0.0 if value is None else value for value in curve["episode_return"]]
    return last_episodes(curve["step"], returns, grid, EPISODES, curve["episodes"])


def _latest(curve: Mapping[str, Any], column: str, grid: np.ndarray) -> np.ndarray:
    """The last known value at each step of the grid.

    A last row much shorter than the others is passed over: the few episodes that ended in it tell only of chance.
    """
    values = np.array([np.nan if value is None else value for value in curve[column]], float)
    steps = np.array(curve["step"])
    lengths = np.diff(steps, prepend=0)
    known = np.isfinite(values) & (lengths > np.median(lengths) / 2)
    at = np.searchsorted(steps[known], grid, side="right")
    return np.append(np.nan, values[known])[at]


def _mean_of_known(values: np.ndarray) -> np.ndarray:
    known = np.isfinite(values)
    count = known.sum(axis=1)
    return np.where(count, np.where(known, values, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def only_end(curve: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The same final return in fewer rows: all rows before the last EPISODES episodes are put together into one."""
    episodes, returns = np.array(curve["episodes"]), curve["episode_return"]
    later = episodes[::-1].cumsum()[::-1] - episodes
    first = int((later >= EPISODES).sum())
    if first < 2:
        return {name: list(column) for name, column in curve.items()}
    number = int(episodes[:first].sum())
    total = sum(count * value for count, value in zip(episodes[:first], returns, strict=False) if count)
    put_together = {"episodes": number, "episode_return": float(total) / number if number else None}
    return {name: [put_together.get(name, column[first - 1]), *column[first:]] for name, column in curve.items()}


# -- as JSON ----------------------------------------------------------------------------------------------------------


def numbers(found: Evidence) -> dict[str, Any]:
    """What a result keeps: curves with intervals of the mean over seeds, and the final numbers of each seed."""
    q, over, n = (found.at_end(curves) for curves in (found.q, found.overestimation, found.n))
    return {
        **found.about,
        "steps": found.steps,
        "curves": {
            name: _with_interval(getattr(found, name), 1_000) for name in ("returns", "q", "n", "overestimation")
        },
        "final": {
            "returns": found.final,
            "levels": {str(mark): found.level(mark) for mark in MARKS if mark < found.steps[-1]},
            "iqm": interval(found.final, "iqm")._asdict(),
            "mean": interval(found.final, "mean")._asdict(),
            "q": interval(q, "mean")._asdict(),
            "overestimation": interval(over, "mean")._asdict(),
            "n": interval(n, "mean")._asdict(),
            "greedy_play": None if found.evaluation is None else found.evaluation,
        },
        "steps_per_second": found.speed,
    }


def _with_interval(curves: np.ndarray, resamples: int) -> dict[str, list[float]] | None:
    """None where no seed has anything to tell."""
    if not np.isfinite(curves).any():
        return None
    return {k: _short(v) for k, v in interval({"": curves}, "mean", resamples=resamples)._asdict().items()}


def _short(values: np.ndarray) -> list[float]:
    """Five digits are enough for a line."""
    return [float(f"{value:.5g}") for value in np.asarray(values, float)]

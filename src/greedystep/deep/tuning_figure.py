"""Draw what mattered in a search over settings: the share of each setting, and the scores over its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from greedystep import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3


@figures.style()
def draw(results: Mapping[str, Any]) -> Figure:
    """Return the figure of the content of tune.json: importances first, then one panel per setting."""
    done = [trial for trial in results["trials"] if trial["state"] == "complete"]
    names = sorted({name for trial in done for name in trial["params"]})
    rows = -(-(len(names) + 1) // COLUMNS)
    figure, axes = figures.panels(rows, COLUMNS, squeeze=False)
    first, *others = axes.flat
    _draw_importance(first, results["importance"])
    best = results["best"]["number"] if results["best"] else None
    for axis, name in zip(others, names, strict=False):
        _draw_scores(axis, name, [trial for trial in done if name in trial["params"]], best)
    for axis in others[len(names) :]:
        axis.set_axis_off()
    return figure


def _draw_importance(axis: Any, importance: Mapping[str, float]) -> None:
    axis.set_title("what mattered (PED-ANOVA)")
    if not importance:
        figures.draw_missing(axis, "too few trials")
        return
    ordered = sorted(importance.items(), key=lambda item: item[1])
    axis.barh([name for name, _ in ordered], [share for _, share in ordered])
    axis.set_xlabel("share")


def _draw_scores(axis: Any, name: str, trials: list[Any], best: int | None) -> None:
    values = [trial["params"][name] for trial in trials]
    if any(isinstance(value, str) for value in values):
        values = [str(value) for value in values]
    elif min(values) > 0 and max(values) >= 10 * min(values):
        axis.set_xscale("log")
    axis.scatter(values, [trial["score"] for trial in trials], s=18, alpha=0.7)
    for trial, value in zip(trials, values, strict=True):
        if trial["number"] == best:
            axis.scatter([value], [trial["score"]], s=90, marker="*", label="best", zorder=3)
    axis.set_title(name.replace("_", " "))
    axis.set_ylabel("score")

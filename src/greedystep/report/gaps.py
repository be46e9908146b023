"""What a page of results lacks: experiments that were not run, trainings that are missing or short, small scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from greedystep import experiments
from greedystep.report.elements import heading


def not_run(results: Sequence[dict[str, Any]]) -> list[str]:
    """Names of experiments that have no result here."""
    present = {result["name"] for result in results}
    return [name for name in experiments.NAMES if name not in present]


def sentences(results: Sequence[dict[str, Any]]) -> list[str]:
    """Everything that is missing in or around these results, and how to get it."""
    absent = not_run(results)
    found = [f"{heading(name)} was not run: greedystep reproduce {name}" for name in absent]
    for result in results:
        found += [f"{heading(result['name'])}: {sentence}" for sentence in of_result(result)]
    return found


def of_result(result: dict[str, Any]) -> list[str]:
    """What one result lacks."""
    numbers = result["numbers"]
    found = [*numbers.get("problems", ()), *numbers.get("missing", ()), *_short(numbers.get("tasks", {}))]
    if result["settings"].get("scale") == "quick":
        found.insert(0, "smaller than in the paper (scale quick); its sizes: --scale paper")
    return found


def _short(tasks: dict[str, Any]) -> list[str]:
    """Trainings that are shorter than the task's full length."""
    found = []
    for task in tasks.values():
        labels: dict[int, list[str]] = {}
        for one in task["methods"].values():
            if one["steps"][-1] < 0.99 * task["full_steps"]:  # a chunk may end a few steps before
                labels.setdefault(one["steps"][-1], []).append(one["label"])
        for steps, methods in labels.items():
            who = "" if len(methods) == len(task["methods"]) else f" ({', '.join(methods)})"
            found.append(f"{task['title']}: {steps:,} of {task['full_steps']:,} steps{who}")
    return found

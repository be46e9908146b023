"""What a page of results lacks: experiments that were not run, trainings that are missing or short, small scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from greedystep import experiments
from greedystep.report.elements import heading

Gaps = dict[str, list[str]]
"""Sentences under headings."""


def of_results(results: Sequence[dict[str, Any]]) -> Gaps:
    """Everything that is missing in or around these results, and how to get it."""
    present = {result["name"] for result in results}
    quick = ", ".join(heading(result["name"]) for result in results if result["settings"].get("scale") == "quick")
    found = {
        "Not run": [f"{heading(n)}: greedystep reproduce {n}" for n in experiments.NAMES if n not in present],
        "Smaller than in the paper": [f"{quick}: scale quick; in full: --scale paper"] if quick else [],
    }
    found |= {heading(result["name"]): of_result(result) for result in results}
    return {name: sentences for name, sentences in found.items() if sentences}


def of_result(result: dict[str, Any]) -> list[str]:
    """What one result lacks."""
    numbers = result["numbers"]
    return [*numbers.get("problems", ()), *numbers.get("missing", ()), *_short(numbers.get("tasks", {}))]


def _short(tasks: dict[str, Any]) -> list[str]:
    """Trainings that are shorter than their task's full length; tasks that are alike in one sentence."""
    found: dict[str, list[str]] = {}
    for task in tasks.values():
        labels: dict[int, list[str]] = {}
        for one in task["methods"].values():
            if one["steps"][-1] < 0.99 * task["full_steps"]:  # a chunk may end a few steps before
                labels.setdefault(one["steps"][-1], []).append(one["label"])
        for steps, methods in labels.items():
            who = "" if len(methods) == len(task["methods"]) else f" of {', '.join(methods)}"
            found.setdefault(f"{steps:,} of {task['full_steps']:,} steps{who}", []).append(task["title"])
    return [f"{', '.join(titles)}: {length}" for length, titles in found.items()]

"""Full-size results that were kept, shown beside a small run of the same experiment and labelled so."""

from __future__ import annotations

from typing import Any

from greedystep import schema

LABEL = "kept"


TASK = {"title": str, "methods": dict}


def check(kept: dict[str, Any]) -> None:
    """ValueError if the tasks of a result that was read cannot be shown beside others."""
    for name, task in schema.check(kept["numbers"].get("tasks", {}), dict, "numbers.tasks").items():
        schema.check(task, TASK, f"numbers.tasks.{name}")


def beside(result: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """`result` with the tasks of `kept` as panels of their own, and with its verdicts where a short run has none."""
    made = kept["provenance"]
    numbers = result["numbers"] | {LABEL: {name: made.get(name) for name in ("command", "commit", "date", "device")}}
    if "tasks" in kept["numbers"]:
        tasks = {
            f"{name}-{LABEL}": task | {"title": f"{task['title']}, {LABEL}"}
            for name, task in kept["numbers"]["tasks"].items()
            if task["methods"]
        }
        numbers["tasks"] = result["numbers"]["tasks"] | tasks
    judged = {claim["id"]: claim for claim in kept["claims"] if claim["verdict"] != "untested"}
    return result | {"numbers": numbers, "claims": [_better(claim, judged) for claim in result["claims"]]}


def _better(claim: dict[str, Any], judged: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if claim["verdict"] != "untested" or claim["id"] not in judged:
        return claim
    found = judged[claim["id"]]
    return found | {"measured": f"{found['measured']} ({LABEL} results)"}

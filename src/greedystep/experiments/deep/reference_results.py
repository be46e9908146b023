"""Full-size results of earlier runs, shown beside a quick run of the same experiment and labelled so."""

from __future__ import annotations

from typing import Any

from greedystep import schema

LABEL = "kept"
TASK = {"title": str, "methods": dict}


def check(kept: dict[str, Any]) -> None:
    """Raise ValueError if the tasks of a result that was read cannot be shown beside others."""
    for name, task in schema.check(kept["numbers"].get("tasks", {}), dict, "numbers.tasks").items():
        schema.check(task, TASK, f"numbers.tasks.{name}")


def beside(result: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Add the tasks of `kept` to `result` as panels of their own, and its verdicts where `result` has none."""
    made = kept["provenance"]
    numbers = result["numbers"] | {LABEL: {name: made.get(name) for name in ("command", "commit", "date", "device")}}
    if "tasks" in kept["numbers"]:
        numbers["tasks"] = result["numbers"]["tasks"] | {
            f"{name}-{LABEL}": task | {"title": f"{task['title']}, {LABEL}"}
            for name, task in kept["numbers"]["tasks"].items()
            if task["methods"]
        }
    judged = {
        claim["id"]: claim | {"measured": f"{claim['measured']} ({LABEL} results)"}
        for claim in kept["claims"]
        if claim["verdict"] != "untested"
    }
    claims = [judged.get(one["id"], one) if one["verdict"] == "untested" else one for one in result["claims"]]
    return result | {"numbers": numbers, "claims": claims}

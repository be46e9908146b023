"""What Greedy-Step costs: its training beside that of DQN, timed in turn with nothing else running.

The trainings of Figure 3 share a machine with others, so their own times tell nothing. The rule replaces one that
judged those; it was written before any run that it judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from greedystep import schema
from greedystep.deep.train_speed import TimedTrainer, steps_lasting
from greedystep.experiments.claims import Claim, Verdict
from greedystep.experiments.deep.rules import Judged, below, together, words
from greedystep.experiments.deep.tasks import TASKS
from greedystep.io import read_json, write_json
from greedystep.provenance import provenance
from greedystep.stats import Interval, interval
from greedystep.tables import Table

AGENTS = {"one-step, 1": ("one-step", 1), "greedy-step, 1": ("greedy-step", 1)}
AGENTS |= {"one-step, 6": ("one-step", 6), "greedy-step, 6": ("greedy-step", 6)}
"""Returns and number of networks."""
DQN = "one-step, 1"
ROUNDS = 20
SECONDS = 0.3
"""A timed run is this long or longer: short, so that those that are compared see the same machine."""
ALMOST_EQUAL = 1.25

TIMES = {
    "task": str,
    "preset": str,
    "lanes": schema.Whole(1),
    "device": str,
    "seconds": {agent: [schema.Real(1e-9)] for agent in AGENTS},
}
Times = Mapping[str, Any]
"""task, preset, lanes, device, and "seconds": for each agent the seconds that equal steps took in each round."""


def measure(task: str, preset: str, lanes: int) -> dict[str, Any]:
    """Time all agents in turn. Runs last whole periods of the targets, so that each has its share of their renewal."""
    learners = {
        name: TimedTrainer(TASKS[task].env, preset, lanes, returns=returns, ensemble=ensemble)
        for name, (returns, ensemble) in AGENTS.items()
    }
    steps = min(steps_lasting(learner, SECONDS) for learner in learners.values())
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for _ in range(ROUNDS):
        for name, learner in learners.items():
            seconds[name].append(learner.time(steps))
    about = {"task": task, "preset": preset, "lanes": lanes, "steps": steps}
    return about | {"device": jax.devices()[0].device_kind, "seconds": seconds}


def kept(
    parts: Path | None, task: str, preset: str, lanes: int, *, may_measure: bool, problems: list[str]
) -> dict[str, Any] | None:
    """The times of a task: those that are kept in the folder, or measured now and kept; None where there are none.

    `problems` gets a sentence if the kept ones cannot be read.
    """
    path = None if parts is None else parts / "timing" / f"{task}-{preset}-{lanes}.json"
    if path is not None and path.exists():
        try:
            return _checked(schema.check(read_json(path), {"times": TIMES}, "it")["times"])
        except ValueError as problem:
            problems.append(f"{path} does not tell times ({problem}); they count as missing")
    if not may_measure:
        return None
    times = measure(task, preset, lanes)
    if path is not None:
        write_json(path, {"times": times, "provenance": provenance({"timing": [task, preset, lanes]})})
    return times


def _checked(times: dict[str, Any]) -> dict[str, Any]:
    """Times whose rounds can be compared."""
    lengths = {len(rounds) for rounds in times["seconds"].values()}
    if times["task"] not in TASKS or len(lengths) > 1 or 0 in lengths:
        raise ValueError("its task is not known, or its rounds differ in number")
    return times


def times_as_long(times: Times, ours: str, theirs: str) -> Interval:
    """How many times as long one takes as the other, from the ratios of runs that stood side by side."""
    return interval(np.array(times["seconds"][ours]) / np.array(times["seconds"][theirs]), "iqm")


def table(name: str, times: Times) -> Table:
    """Each agent beside DQN."""
    where = f"{TASKS[times['task']].title}, preset {times['preset']}, {times['lanes']} at a time, {times['device']}"
    heading = f"How many times as long as DQN's a training takes, with its 95 % interval ({where})"
    rows = [[returns, number, *times_as_long(times, agent, DQN)] for agent, (returns, number) in AGENTS.items()]
    return Table(name, heading, ["returns", "networks", "times", "from", "to"], rows)


def claim(times: Times | None) -> Claim:
    """Confirmed: at most 1.25 times as long as DQN, with 1 and with 6 networks; partly: only beside one-step returns
    with as many networks; refuted: not even so."""
    if times is None:
        judged = Judged("untested", "not timed")
    else:
        plain, as_many, alone = (
            times_as_long(times, *pair)
            for pair in (
                ("greedy-step, 1", DQN),
                ("greedy-step, 6", "one-step, 6"),
                ("greedy-step, 6", DQN),
            )
        )
        verdict: Verdict = together(below(one, ALMOST_EQUAL) for one in (plain, as_many))
        why = ""
        if verdict == "confirmed" and below(alone, ALMOST_EQUAL) != "confirmed":
            verdict, why = "partly", "six networks cost more than one, as they do in Maxmin DQN (fig3)"
        said = f"{words(plain)} times with 1 network, {words(alone)} with 6; {words(as_many)} times Maxmin DQN with 6"
        where = f"{TASKS[times['task']].title}, {times['device']}"
        judged = Judged(verdict, f"{where}: {said}", why)
    return judged.claim(
        "fig3-equal-time",
        "Greedy-Step DQN needs almost the same training time as DQN.",
        "Section 4.1, computation complexity",
        "almost 1 times",
    )

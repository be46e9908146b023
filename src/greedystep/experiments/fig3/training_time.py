"""The training time of Greedy-Step DQN relative to DQN, timed in turn with nothing else running.

The trainings of Figure 3 share a machine with others, so their own times cannot be compared. The rule was written
before any run that it judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import schema
from greedystep.deep.presets import make_config
from greedystep.deep.train_speed import TimedTrainer, steps_lasting
from greedystep.experiments.claims import Outcome, judges
from greedystep.experiments.deep.judging import Estimate, over_tasks
from greedystep.experiments.deep.suite import TASKS
from greedystep.io import read_json, write_json
from greedystep.provenance import device_names, provenance
from greedystep.stats import interval
from greedystep.tables import Table

AGENTS = {f"{returns}, {m}": (returns, m) for m in (1, 6) for returns in ("one-step", "greedy-step")}
"""Agent -> its returns and number of networks."""
DQN = "one-step, 1"
ROUNDS = 20
SECONDS = 0.3
"""Seconds that a timed run lasts at least: short, so that compared runs see the same load on the machine."""
ALMOST_EQUAL = 1.25
"""Largest ratio of times that counts as almost equal."""

TIMES = {
    "task": str,
    "preset": str,
    "lanes": schema.Int(1),
    "device": str,
    "seconds": {agent: [schema.Float(1e-9)] for agent in AGENTS},
}
Times = Mapping[str, Any]
"""The JSON that `measure` returns; "seconds" are those that equal steps took in each round, by agent."""


def measure(task: str, preset: str, lanes: int) -> dict[str, Any]:
    """Time equal steps of all agents in turn, ROUNDS times."""
    agents = {
        name: TimedTrainer(TASKS[task].env, preset, lanes, returns=returns, ensemble=ensemble)
        for name, (returns, ensemble) in AGENTS.items()
    }
    steps = min(steps_lasting(agent, SECONDS) for agent in agents.values())
    seconds: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(ROUNDS):
        for name, agent in agents.items():
            seconds[name].append(agent.time(steps))
    about = {"task": task, "preset": preset, "lanes": lanes, "steps": steps}
    devices = next(iter(agents.values())).trainer.devices
    return about | {"device": device_names(devices), "seconds": seconds}


def load_or_measure(
    parts: Path | None, task: str, preset: str, lanes: int, *, may_measure: bool, problems: list[str]
) -> dict[str, Any] | None:
    """Return the times saved in the folder `parts`; without any, measure and save them if `may_measure`, else None.

    A sentence is added to `problems` if the saved ones cannot be read.
    """
    path = None if parts is None else parts / "timing" / f"{task}-{preset}-{lanes}.json"
    if path is not None and path.exists():
        try:
            times = schema.check(read_json(path), {"times": TIMES}, "it")["times"]
            rounds = {len(seconds) for seconds in times["seconds"].values()}
            if times["task"] not in TASKS or len(rounds) > 1 or 0 in rounds:
                raise ValueError("its task is not known, or its rounds differ in number")
            return times
        except ValueError as problem:
            problems.append(f"{path} does not hold training times ({problem}); they count as missing")
    if not may_measure:
        return None
    times = measure(task, preset, lanes)
    if path is not None:
        write_json(path, {"times": times, "provenance": provenance({"timing": [task, preset, lanes]})})
    return times


def times_as_long(times: Times, ours: str, theirs: str) -> Estimate:
    """Return how many times as long one agent takes as another: the IQM over rounds of the ratio within a round."""
    return Estimate(*interval(np.array(times["seconds"][ours]) / np.array(times["seconds"][theirs]), "iqm"))


def table(name: str, times: Times) -> Table:
    """Return a table of each agent's training time relative to DQN's."""
    where = f"{TASKS[times['task']].title}, preset {times['preset']}, {times['lanes']} lanes, {times['device']}"
    rows = [[returns, number, *times_as_long(times, agent, DQN)] for agent, (returns, number) in AGENTS.items()]
    header = ["returns", "networks", "ratio", "95 % CI low", "95 % CI high"]
    return Table(name, f"Training time relative to DQN's ({where})", header, rows)


@judges(
    "fig3-equal-time",
    "Greedy-Step DQN needs almost the same training time as DQN.",
    "almost 1 times",
    "Section 4.1, computation complexity",
)
def claim(times: Times | None) -> Outcome:
    """Confirmed if the 95 % CIs of the ratio of times lie below 1.25: with 1 network against DQN; with 6 against DQN
    and against one-step returns with 6.

    Partly if not against DQN, or for one number of networks only; otherwise refuted.
    """
    if times is None:
        return Outcome("untested", "not timed")
    one = times_as_long(times, "greedy-step, 1", DQN)
    six_to_six = times_as_long(times, "greedy-step, 6", "one-step, 6")
    six_to_one = times_as_long(times, "greedy-step, 6", DQN)
    verdict, why = over_tasks(ci.below(ALMOST_EQUAL) for ci in (one, six_to_six)), ""
    if verdict == "confirmed" and not six_to_one.is_below(ALMOST_EQUAL):
        verdict, why = "partly", "six networks cost more than one, as they do in Maxmin DQN (fig3)"
    measured = (
        f"{TASKS[times['task']].title}, {times['device']}: {one} times with 1 network, {six_to_one} "
        f"with 6; {six_to_six} times Maxmin DQN with 6"
    )
    envs = make_config(TASKS[times["task"]].env, times["preset"]).num_envs
    brief = (
        f"{float(one.estimate):.2f} times with one network, {float(six_to_one.estimate):.2f} with six "
        f"({TASKS[times['task']].title}, {envs} environment{'s' * (envs > 1)})"
    )
    return Outcome(verdict, measured, why, brief)

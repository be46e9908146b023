"""How runs are planned and collected: settings are chosen on seeds of their own, then trained on other seeds.

Each method chooses among its settings (four, if nothing else is said) by the mean final return over two seeds that are
not used later; then it is trained from scratch with the seeds 0, 1, 2, ... Greedy-Step DQN and the best of the paper's
baselines may get more seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep.judging import AllRuns, best_method
from greedystep.experiments.deep.method_runs import MethodRuns, from_records, summary
from greedystep.experiments.deep.runner import Job, Runner, RunStore
from greedystep.experiments.deep.suite import GREEDY, METHODS, PAPER, TASKS, Setting
from greedystep.experiments.deep.training import Budget, RunSpec
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress

SELECTION_SEEDS = (1_000_000, 1_000_001)
"""Seeds on which settings are chosen."""


@dataclass(frozen=True)
class TaskProtocol:
    """What is trained on one task: methods, seeds, length, and how settings are chosen."""

    task: str
    preset: str
    budget: Budget
    seeds: int = 5
    first_seed: int = 0
    """The seeds are this one and those after it."""
    more_seeds: int = 0
    """Additional seeds for Greedy-Step DQN and the best of the paper's baselines."""
    selection: int = 0
    """Steps after which settings are chosen; 0: each method uses its first setting."""
    settings_from: TaskProtocol | None = None
    """The protocol whose chosen settings are used here; if its preset differs, without the learning rate."""
    methods: tuple[str, ...] = tuple(METHODS)
    grids: Mapping[str, list[Setting]] = field(default_factory=dict)
    """If given, the settings that each method chooses from, in place of its four."""
    variants: Mapping[str, Setting] = field(default_factory=dict)
    """If given, settings of Greedy-Step DQN to train in place of the methods, with the learning rate that it chose."""
    changes: Setting = field(default_factory=dict)
    """Options added to the settings of all methods."""
    suffix: str = ""
    """Added to the names of the methods in the result, where several protocols share a task."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is trained: the variants, or else the methods."""
        return tuple(self.variants) or self.methods

    def label(self, name: str) -> str:
        """Return a method's or variant's name in figures."""
        return (name if name in self.variants else METHODS[name].label) + self.suffix

    def runs(self, setting: Setting, seeds: Iterable[int]) -> list[RunSpec]:
        """Return the training runs of one setting, one per seed."""
        return [RunSpec(self.task, self.preset, self.changes | setting, seed) for seed in seeds]

    def seed_range(self, begin: int, end: int) -> range:
        """Return the seeds from number `begin` to before number `end`."""
        return range(self.first_seed + begin, self.first_seed + end)

    @property
    def first_seeds(self) -> range:
        """The seeds that every method is trained with."""
        return self.seed_range(0, self.seeds)

    def candidates(self, method: str) -> list[Setting]:
        """Return the settings that a method chooses from."""
        offered = self.grids.get(method) or METHODS[method].settings(TASKS[self.task].rates)
        return offered if self.selection else offered[:1]

    @property
    def total_steps(self) -> int:
        """Environment steps of all runs, including those that choose settings; for progress."""
        runs = len(self.names) * self.seeds + (2 * self.more_seeds if GREEDY in self.methods else 0)
        choosing = (GREEDY,) if self.variants else self.methods
        tried = sum(len(self.candidates(method)) for method in choosing)
        return runs * self.budget.steps + tried * len(SELECTION_SEEDS) * self.selection


# -- the choice of settings -------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """The setting chosen for a method, and the candidates that were tried."""

    setting: Setting
    tried: list[dict[str, Any]]
    """One dict per candidate: its "setting" and its "returns" by seed."""


def chosen_setting(store: RunStore, protocol: TaskProtocol, name: str) -> Choice | None:
    """Return the setting of a method or variant; None while the runs that decide it are missing."""
    if name in protocol.variants:
        made = chosen_setting(store, protocol, GREEDY)
        return made and Choice(protocol.variants[name] | {"learning_rate": made.setting["learning_rate"]}, [])
    if (other := protocol.settings_from) is not None:
        made = chosen_setting(store, other, name)
        if made is None or other.preset == protocol.preset:
            return made
        return made._replace(setting={key: value for key, value in made.setting.items() if key != "learning_rate"})
    candidates = protocol.candidates(name)
    if len(candidates) == 1:
        return Choice(candidates[0], [])
    tried = []
    for setting in candidates:
        records = store.get_all(protocol.runs(setting, SELECTION_SEEDS), protocol.selection)
        if len(records) < len(SELECTION_SEEDS):
            return None
        returns = from_records(records, protocol.selection).final_return
        tried.append({"setting": setting, "returns": returns.tolist()})
    score = [np.nan_to_num(np.mean(one["returns"]), nan=-np.inf) for one in tried]
    return Choice(candidates[int(np.argmax(score))], tried)


def choosing_jobs(runner: Runner, protocol: TaskProtocol, names: Iterable[str]) -> list[Job]:
    """Return the jobs that train the candidates of methods or variants; runs of several methods may share a program."""
    chooser = protocol.settings_from or protocol
    methods = dict.fromkeys(GREEDY if name in protocol.variants else name for name in names)
    tried = {method: found for method in methods if len(found := chooser.candidates(method)) > 1}
    runs = [run for found in tried.values() for one in found for run in chooser.runs(one, SELECTION_SEEDS)]
    budget = Budget(chooser.selection, chooser.budget.points, episodes=0, only_end=True)
    labels = ", ".join(METHODS[method].label for method in tried)
    return runner.jobs(runs, budget, f"{TASKS[protocol.task].title}, choosing for {labels}")


# -- training ---------------------------------------------------------------------------------------------------------


def train(store: RunStore, progress: ReportProgress, protocols: Sequence[TaskProtocol], only: Sequence[str]) -> None:
    """Train the paper's methods on all tasks (or those in `only`), then more seeds of the best two, then all others."""
    asked = [one for one in protocols if not only or one.task in only]
    with Runner(store, progress, sum(one.total_steps for one in asked)) as runner:

        def train_names(protocols: Sequence[TaskProtocol], in_paper: bool) -> None:
            names = [[name for name in one.names if (name in PAPER) == in_paper] for one in protocols]
            what = [(one, own) for one, own in zip(protocols, names, strict=True) if own]
            # A cluster has room for all tasks at a time. Otherwise one is finished before the next, so that a run that
            # is stopped has something to show.
            for some in [what] if store.parts.workers is not None else [[one] for one in what]:
                runner.all(job for one, own in some for job in choosing_jobs(runner, one, own))
                runner.all(job for one, own in some for job in training_jobs(runner, one, own, one.first_seeds))

        for borrowed in (False, True):  # those that use the settings of others come after them
            stage = [one for one in asked if (one.settings_from is not None) == borrowed]
            train_names(stage, in_paper=True)
            runner.all(partial(_train_more_seeds, runner, one) for one in stage if one.more_seeds)
            train_names(stage, in_paper=False)


def training_jobs(runner: Runner, protocol: TaskProtocol, names: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Return the jobs that train seeds of methods or variants with their settings, which have been chosen."""
    runs = []
    for name in names:
        made = chosen_setting(runner.store, protocol, name)
        assert made is not None
        runs += protocol.runs(made.setting, seeds)
    labels = ", ".join(map(protocol.label, names))
    return runner.jobs(runs, protocol.budget, f"{TASKS[protocol.task].title}, {labels}")


def _train_more_seeds(runner: Runner, protocol: TaskProtocol) -> None:
    """Train more seeds of the two foremost methods; if another baseline then has the best mean, of that one too."""
    got: set[str] = set()
    while (methods := _foremost(runner.store, protocol)) - got:
        more = protocol.seed_range(protocol.seeds, protocol.seeds + protocol.more_seeds)
        for job in training_jobs(runner, protocol, sorted(methods - got), more):
            job()
        got |= methods


def _foremost(store: RunStore, protocol: TaskProtocol) -> set[str]:
    """Return Greedy-Step DQN and the best of the paper's baselines so far; empty while a method is missing."""
    runs = {(protocol.task, method): runs_of(store, protocol, method) for method in PAPER if method in protocol.methods}
    known = {key: one for key, one in runs.items() if one is not None}
    return {GREEDY, best_method(known, protocol.task)} if len(known) == len(PAPER) else set()


# -- results ----------------------------------------------------------------------------------------------------------


def runs_of(store: RunStore, protocol: TaskProtocol, name: str) -> MethodRuns | None:
    """Return all trained seeds of a method or variant, up to the protocol's length; None if there are none."""
    made = chosen_setting(store, protocol, name)
    if made is None:
        return None
    runs = protocol.runs(made.setting, protocol.seed_range(0, protocol.seeds + protocol.more_seeds))
    records = store.get_all(runs, protocol.budget.steps)
    return from_records(records, protocol.budget.steps) if records else None


def collect(store: RunStore, protocols: Sequence[TaskProtocol]) -> tuple[AllRuns, dict[str, Any]]:
    """Return all trained runs by task and name, and a result's "numbers" with their curves and what is missing."""
    found: dict[tuple[str, str], MethodRuns] = {}
    tasks: dict[str, Any] = {}
    missing = []
    for protocol in protocols:
        task = TASKS[protocol.task]
        about = {"title": task.title, "full_steps": task.steps, "preset": protocol.preset, "methods": {}}
        shown = tasks.setdefault(protocol.task, about)["methods"]
        trained = {name: runs for name in protocol.names if (runs := runs_of(store, protocol, name)) is not None}
        if absent := [protocol.label(name) for name in protocol.names if name not in trained]:
            missing.append(f"{task.title}, {', '.join(absent)}: not trained")
        for name, runs in trained.items():
            label = protocol.label(name)
            if (seeds := len(runs.returns)) < protocol.seeds:
                missing.append(f"{task.title}, {label}: {seeds} of {protocol.seeds} seeds")
            made = chosen_setting(store, protocol, name)
            found[protocol.task, name + protocol.suffix] = runs
            shown[name + protocol.suffix] = {"label": label, "tried": made.tried if made else [], **summary(runs)}
    return found, {"tasks": tasks, "missing": missing, "problems": store.problems}


def result(
    title: str, scale: str, protocols: Sequence[TaskProtocol], numbers: dict[str, Any], claims: Iterable[Claim]
) -> dict[str, Any]:
    """Return an experiment's result, with the protocols as its settings."""
    by_task: dict[str, list[TaskProtocol]] = {}
    for protocol in protocols:
        by_task.setdefault(protocol.task, []).append(protocol)
    tasks = {
        task: {
            "env": TASKS[task].env,
            **TASKS[task].env_options,
            "preset": own[0].preset,
            "steps": [one.budget.steps for one in own],
            "seeds": [one.seeds for one in own],
            "settings chosen after": own[0].selection or None,
            "changes": own[0].changes,
        }
        for task, own in by_task.items()
    }
    return {
        "title": title,
        "settings": {"scale": scale, "tasks": tasks, "seeds of the choice": list(SELECTION_SEEDS)},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in claims],
    }


def make_run(
    title: str,
    scales: Mapping[str, Sequence[TaskProtocol]],
    claims: Callable[[AllRuns], Iterable[Claim]],
    left_out: Sequence[str] = (),
) -> Callable[..., dict[str, Any]]:
    """Return the `run` function of an experiment that trains the protocols of its scale and judges them by `claims`.

    Args:
        left_out: sentences on what even the scale "paper" leaves out, for the page's list of what is missing.
    """

    def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
        store, protocols = RunStore(parts), scales[scale]
        train(store, progress, protocols, only)
        runs, numbers = collect(store, protocols)
        numbers["missing"] += left_out if scale == "paper" else ()
        return result(title, scale, protocols, numbers, claims(runs))

    return run

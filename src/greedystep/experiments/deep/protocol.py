"""How trainings are planned and collected: settings are chosen on seeds of their own, then trained on other seeds.

Each method chooses among its four settings by the mean final return over two seeds that are not used later; then it is
trained from scratch with the seeds 0, 1, 2, ... Greedy-Step DQN and the best of the paper's baselines get more seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from greedystep.experiments.claims import Claim
from greedystep.experiments.deep.compared_methods import GREEDY, METHODS, PAPER, Setting
from greedystep.experiments.deep.judging import AllRuns, best_method
from greedystep.experiments.deep.method_runs import MethodRuns, from_records, summary
from greedystep.experiments.deep.tasks import TASKS
from greedystep.experiments.deep.training import Lane, Length
from greedystep.experiments.deep.training_session import Session
from greedystep.experiments.deep.training_store import Store
from greedystep.runs.progress import ReportProgress

SELECTION_SEEDS = (1_000_000, 1_000_001)
"""Seeds on which settings are chosen."""


@dataclass(frozen=True)
class TaskProtocol:
    """What is trained on one task: methods, seeds, length, and how settings are chosen."""

    task: str
    preset: str
    length: Length
    seeds: int = 5
    more_seeds: int = 0
    """Seeds added for Greedy-Step DQN and the best of the paper's baselines."""
    selection: int = 0
    """Steps after which settings are chosen; 0: each method uses its first setting."""
    settings_from: TaskProtocol | None = None
    """The protocol whose chosen settings are used here; with another preset, without its learning rate."""
    methods: tuple[str, ...] = tuple(METHODS)
    changes: Setting = field(default_factory=dict)
    """Options for all methods."""

    def lanes(self, setting: Setting, seeds: Iterable[int]) -> list[Lane]:
        """The trainings of one setting."""
        return [Lane(self.task, self.preset, self.changes | setting, seed) for seed in seeds]

    def candidates(self, method: str) -> list[Setting]:
        """The settings that a method chooses from."""
        offered = METHODS[method].settings(TASKS[self.task].rates)
        return offered if self.selection else offered[:1]

    def total_steps(self, trainings: int, choices: int) -> int:
        """Environment steps of so many trainings and choices of a setting, for progress."""
        return trainings * self.length.steps + choices * 4 * len(SELECTION_SEEDS) * self.selection


# -- the choice of settings -------------------------------------------------------------------------------------------


def chosen_setting(store: Store, protocol: TaskProtocol, method: str) -> dict[str, Any] | None:
    """The chosen "setting", and those "tried" with their returns; None while some are not trained."""
    if protocol.settings_from is not None:
        made = chosen_setting(store, protocol.settings_from, method)
        if made is None or protocol.settings_from.preset == protocol.preset:
            return made
        return made | {"setting": {name: value for name, value in made["setting"].items() if name != "learning_rate"}}
    candidates = protocol.candidates(method)
    if len(candidates) == 1:
        return {"setting": candidates[0], "tried": []}
    tried = []
    for setting in candidates:
        records = [store.get(lane, protocol.selection) for lane in protocol.lanes(setting, SELECTION_SEEDS)]
        if any(record is None for record in records):
            return None
        runs = from_records([record for record in records if record is not None], protocol.selection)
        tried.append({"setting": setting, "returns": runs.final_return.tolist()})
    score = [np.nan_to_num(np.mean(one["returns"]), nan=-np.inf) for one in tried]
    return {"setting": tried[int(np.argmax(score))]["setting"], "tried": tried}


def choose(session: Session, protocol: TaskProtocol, method: str) -> Setting:
    """Train what the choice of a setting needs, and return the setting."""
    chooser = protocol.settings_from or protocol
    candidates = chooser.candidates(method)
    if len(candidates) > 1:
        lanes = [lane for setting in candidates for lane in chooser.lanes(setting, SELECTION_SEEDS)]
        length = Length(chooser.selection, chooser.length.points, episodes=0, only_end=True)
        session.ensure(lanes, length, f"{_describe(protocol, METHODS[method].label)}, choosing")
    made = chosen_setting(session.store, protocol, method)
    assert made is not None
    return made["setting"]


# -- training ---------------------------------------------------------------------------------------------------------


def asked_for(protocols: Sequence[TaskProtocol], only: Sequence[str]) -> list[TaskProtocol]:
    """The protocols of the named tasks; all if no task is named."""
    return [one for one in protocols if not only or one.task in only]


def train_methods(
    store: Store, progress: ReportProgress, protocols: Sequence[TaskProtocol], only: Sequence[str]
) -> None:
    """Train the paper's methods on all tasks, then more seeds of the foremost two, then all other methods."""
    asked = asked_for(protocols, only)
    total = sum(
        one.total_steps(
            len(one.methods) * one.seeds + (2 * one.more_seeds if GREEDY in one.methods else 0), len(one.methods)
        )
        for one in asked
    )
    with Session(store, progress, total) as session:
        for borrowed in (False, True):  # those that use the settings of others come after them
            stage = [one for one in asked if (one.settings_from is not None) == borrowed]
            _train_stage(session, stage, [method for method in METHODS if method in PAPER])
            session.all(partial(_train_more_seeds, session, one) for one in stage if one.more_seeds)
            _train_stage(session, stage, [method for method in METHODS if method not in PAPER])


def _train_stage(session: Session, protocols: Sequence[TaskProtocol], methods: Sequence[str]) -> None:
    session.all(
        partial(_train_method, session, one, method) for one in protocols for method in one.methods if method in methods
    )


def _train_method(session: Session, protocol: TaskProtocol, method: str) -> None:
    train_setting(session, protocol, METHODS[method].label, choose(session, protocol, method), protocol.seeds)


def _train_more_seeds(session: Session, protocol: TaskProtocol) -> None:
    """Train more seeds of the foremost methods; if these show that another baseline is the best, of that one too."""
    got: set[str] = set()
    while (methods := _foremost(session.store, protocol)) - got:
        for method in sorted(methods - got):
            setting = choose(session, protocol, method)
            label = METHODS[method].label
            train_setting(session, protocol, label, setting, protocol.more_seeds, first=protocol.seeds)
        got |= methods


def _foremost(store: Store, protocol: TaskProtocol) -> set[str]:
    """Greedy-Step DQN and the best of the paper's baselines so far; empty while a method is missing."""
    entries = method_entries(store, protocol)
    runs = {(protocol.task, method): entries[method].runs for method in PAPER if method in entries}
    known = {key: one for key, one in runs.items() if one is not None}
    return {GREEDY, best_method(known, protocol.task)} if len(known) == len(PAPER) else set()


def train_variants(
    store: Store,
    progress: ReportProgress,
    protocols: Sequence[TaskProtocol],
    variants: Mapping[str, Setting],
    only: Sequence[str],
) -> None:
    """Train variants of Greedy-Step DQN, each with the learning rate that the method itself chose."""
    asked = asked_for(protocols, only)
    total = sum(one.total_steps(len(variants) * one.seeds, choices=1) for one in asked)
    with Session(store, progress, total) as session:
        session.all(partial(choose, session, one, GREEDY) for one in asked)
        for one in asked:
            rate = {"learning_rate": choose(session, one, GREEDY)["learning_rate"]}
            session.all(
                partial(train_setting, session, one, name, variant | rate, one.seeds)
                for name, variant in variants.items()
            )


def train_setting(
    session: Session, protocol: TaskProtocol, label: str, setting: Setting, seeds: int, first: int = 0
) -> None:
    """Train the seeds `first`, `first` + 1, ... of one setting."""
    lanes = protocol.lanes(setting, range(first, first + seeds))
    session.ensure(lanes, protocol.length, _describe(protocol, label))


def _describe(protocol: TaskProtocol, label: str) -> str:
    return f"{TASKS[protocol.task].title}, {label}"


# -- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One line of a figure."""

    label: str
    runs: MethodRuns | None
    """None if it was not trained."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What the result's JSON says of it besides the summary of its runs."""


def runs_of(store: Store, protocol: TaskProtocol, setting: Setting) -> MethodRuns | None:
    """All trained seeds of a setting, up to the protocol's length."""
    lanes = protocol.lanes(setting, range(protocol.seeds + protocol.more_seeds))
    records = [one for lane in lanes if (one := store.get(lane, protocol.length.steps)) is not None]
    return from_records(records, protocol.length.steps) if records else None


def method_entries(store: Store, protocol: TaskProtocol) -> dict[str, Entry]:
    """The methods of a protocol, each with its chosen setting."""
    entries = {}
    for method in protocol.methods:
        made = chosen_setting(store, protocol, method)
        runs = None if made is None else runs_of(store, protocol, made["setting"])
        entries[method] = Entry(METHODS[method].label, runs, {"tried": made["tried"] if made else []})
    return entries


def variant_entries(store: Store, protocol: TaskProtocol, variants: Mapping[str, Setting]) -> dict[str, Entry]:
    """Variants of Greedy-Step DQN, each with the learning rate that the method itself chose."""
    made = chosen_setting(store, protocol, GREEDY)
    if made is None:
        return {name: Entry(name, None) for name in variants}
    rate = {"learning_rate": made["setting"]["learning_rate"]}
    return {name: Entry(name, runs_of(store, protocol, variant | rate)) for name, variant in variants.items()}


def collect(
    store: Store, protocols: Sequence[TaskProtocol], entries_of: Callable[[Store, TaskProtocol], Mapping[str, Entry]]
) -> tuple[AllRuns, dict[str, Any]]:
    """All trained runs by task and name, and the same as a result's "numbers", with sentences on what is missing."""
    found: dict[tuple[str, str], MethodRuns] = {}
    tasks: dict[str, Any] = {}
    missing = []
    for protocol in protocols:
        task = TASKS[protocol.task]
        about = {"title": task.title, "full_steps": task.steps, "preset": protocol.preset, "methods": {}}
        shown = tasks.setdefault(protocol.task, about)["methods"]
        for name, entry in entries_of(store, protocol).items():
            if entry.runs is None:
                missing.append(f"{task.title}, {entry.label}: not trained")
                continue
            if (seeds := len(entry.runs.returns)) < protocol.seeds:
                missing.append(f"{task.title}, {entry.label}: {seeds} of {protocol.seeds} seeds")
            found[protocol.task, name] = entry.runs
            shown[name] = {"label": entry.label, **entry.extra, **summary(entry.runs)}
    return found, {"tasks": tasks, "missing": missing, "problems": store.problems}


def result(
    title: str, scale: str, protocols: Sequence[TaskProtocol], numbers: dict[str, Any], claims: Iterable[Claim]
) -> dict[str, Any]:
    """An experiment's result, with the protocols as its settings."""
    by_task: dict[str, list[TaskProtocol]] = {}
    for protocol in protocols:
        by_task.setdefault(protocol.task, []).append(protocol)
    tasks = {
        task: {
            "env": TASKS[task].env,
            **TASKS[task].env_options,
            "preset": own[0].preset,
            "steps": [one.length.steps for one in own],
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

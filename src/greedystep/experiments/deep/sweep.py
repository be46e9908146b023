"""The choice of settings on seeds of their own, then the trainings that count.

Every method chooses among its four settings by the mean final return over two seeds that are not used later; then it is
trained afresh with the seeds 0, 1, 2, ... Greedy-Step and the best of the paper's baselines get more seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from greedystep.experiments.deep import evidence as arrays
from greedystep.experiments.deep.evidence import Evidence, gather
from greedystep.experiments.deep.methods import GREEDY, METHODS, PAPER, Setting
from greedystep.experiments.deep.performance import best_baseline
from greedystep.experiments.deep.rules import Found
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.tasks import TASKS
from greedystep.experiments.deep.training import Lane, Length
from greedystep.runs.progress import ReportProgress

Entry = tuple[str, Evidence | None, dict[str, Any]]
"""Of a figure: its label, what there is of it, and what else the JSON says of it."""

SELECTION_SEEDS = (1_000_000, 1_000_001)


@dataclass(frozen=True)
class Leg:
    """A task at one scale."""

    task: str
    preset: str
    length: Length
    seeds: int = 5
    more_seeds: int = 0
    """Added for Greedy-Step and the best of the paper's baselines."""
    selection: int = 0
    """Steps after which settings are chosen; 0: each method takes its first setting."""
    chosen_on: str = ""
    """The task on which they are chosen, if it is not this one."""
    methods: tuple[str, ...] = tuple(METHODS)
    changes: Setting = field(default_factory=dict)
    """Of the preset, for all methods."""

    def lanes(self, setting: Setting, seeds: Iterable[int]) -> list[Lane]:
        return [Lane(self.task, self.preset, self.changes | setting, seed) for seed in seeds]

    def settings(self, method: str) -> list[Setting]:
        """What a method may choose from."""
        offered = METHODS[method].settings(TASKS[self.task].rates)
        return offered if self.selection else offered[:1]

    def tried(self, setting: Setting) -> list[Lane]:
        """The trainings by which a setting is chosen."""
        return replace(self, task=self.chosen_on or self.task).lanes(setting, SELECTION_SEEDS)

    @property
    def of_selection(self) -> Length:
        return Length(self.selection, self.length.points, episodes=0, only_end=True)

    def work(self, trainings: int, choices: int) -> int:
        """Steps of all lanes, for progress."""
        tried = choices * 4 * len(SELECTION_SEEDS) * self.selection
        return trainings * self.length.steps + tried


# -- the choice -------------------------------------------------------------------------------------------------------


def choice(store: Store, leg: Leg, method: str) -> dict[str, Any] | None:
    """The setting chosen, those tried and their returns; None while some are missing."""
    offered = leg.settings(method)
    if len(offered) == 1:
        return {"setting": offered[0], "tried": []}
    tried = []
    for setting in offered:
        lanes = [store.get(lane, leg.selection) for lane in leg.tried(setting)]
        if any(lane is None for lane in lanes):
            return None
        returns = gather([lane for lane in lanes if lane is not None], leg.selection).final
        tried.append({"setting": setting, "returns": returns.tolist()})
    score = [np.nan_to_num(np.mean(one["returns"]), nan=-np.inf) for one in tried]
    return {"setting": tried[int(np.argmax(score))]["setting"], "tried": tried}


def choose(session: Session, leg: Leg, method: str) -> Setting:
    """The same, after training what it needs."""
    offered = leg.settings(method)
    if len(offered) > 1:
        lanes = [lane for setting in offered for lane in leg.tried(setting)]
        session.ensure(lanes, leg.of_selection, f"{_what(leg, METHODS[method].label)}, choosing")
    made = choice(session.store, leg, method)
    assert made is not None
    return made["setting"]


# -- the trainings that count -----------------------------------------------------------------------------------------


def train_methods(session: Session, legs: Sequence[Leg]) -> None:
    """The paper's methods on all tasks, then Greedy-Step and the best baselines with more seeds, then all others."""
    for paper in (True, False):
        session.all(
            partial(_train_method, session, leg, method)
            for leg in legs
            for method in leg.methods
            if (method in PAPER) == paper
        )
        if paper:
            session.all(partial(_train_more, session, leg) for leg in legs if leg.more_seeds)


def _train_method(session: Session, leg: Leg, method: str) -> None:
    setting = choose(session, leg, method)
    train_setting(session, leg, METHODS[method].label, setting, leg.seeds)


def _train_more(session: Session, leg: Leg) -> None:
    """More seeds may show that another baseline is the best, which then gets them as well."""
    got: set[str] = set()
    while (methods := _foremost(session.store, leg)) - got:
        for method in sorted(methods - got):
            setting = choose(session, leg, method)
            train_setting(session, leg, METHODS[method].label, setting, leg.more_seeds, first=leg.seeds)
        got |= methods


def _foremost(store: Store, leg: Leg) -> set[str]:
    """Greedy-Step and the best of the paper's baselines so far; nobody while a method is missing."""
    found = {(leg.task, method): one for method in PAPER if (one := evidence(store, leg, method)) is not None}
    return {GREEDY, best_baseline(found, leg.task)} if len(found) == len(PAPER) else set()


def train_variants(session: Session, legs: Sequence[Leg], variants: Mapping[str, Setting]) -> None:
    """Greedy-Step DQN with changes, each with the learning rate that the method itself chose."""
    session.all(partial(choose, session, leg, GREEDY) for leg in legs)
    for leg in legs:
        rate = {"learning_rate": choose(session, leg, GREEDY)["learning_rate"]}
        session.all(
            partial(train_setting, session, leg, name, change | rate, leg.seeds) for name, change in variants.items()
        )


def train_setting(session: Session, leg: Leg, label: str, setting: Setting, seeds: int, first: int = 0) -> None:
    """Seeds `first`, `first` + 1, ... of one setting."""
    session.ensure(leg.lanes(setting, range(first, first + seeds)), leg.length, _what(leg, label))


def _what(leg: Leg, label: str) -> str:
    return f"{TASKS[leg.task].title}, {label}"


# -- what there is ----------------------------------------------------------------------------------------------------


def evidence(store: Store, leg: Leg, method: str) -> Evidence | None:
    """All seeds of a method's chosen setting that are there."""
    made = choice(store, leg, method)
    return None if made is None else of_setting(store, leg, made["setting"])


def of_setting(store: Store, leg: Leg, setting: Setting) -> Evidence | None:
    """All seeds of a setting that are there, as far as the leg goes."""
    lanes = leg.lanes(setting, range(leg.seeds + leg.more_seeds))
    records = [one for lane in lanes if (one := store.get(lane, leg.length.steps)) is not None]
    return gather(records, leg.length.steps) if records else None


def collect(
    store: Store, legs: Sequence[Leg], entries: Callable[[Leg], Mapping[str, Entry]]
) -> tuple[Found, dict[str, Any]]:
    """What was found, and the same as a result's numbers, with what is missing in sentences."""
    found: dict[tuple[str, str], Evidence] = {}
    shown: dict[str, Any] = {}
    missing = []
    for leg in legs:
        task = TASKS[leg.task]
        about = {"title": task.title, "full_steps": task.steps, "preset": leg.preset, "methods": {}}
        rows = shown.setdefault(leg.task, about)["methods"]
        for name, (label, one, more) in entries(leg).items():
            if one is None:
                missing.append(f"{task.title}, {label}: not trained")
                continue
            if len(one.returns) < leg.seeds:
                missing.append(f"{task.title}, {label}: {len(one.returns)} of {leg.seeds} seeds")
            found[leg.task, name] = one
            rows[name] = {"label": label, **more, **arrays.numbers(one)}
    return found, {"tasks": shown, "missing": missing, "problems": store.problems}


def variants_of(store: Store, leg: Leg, variants: Mapping[str, Setting]) -> dict[str, Entry]:
    """The entries of Figure 4 and of `horizon`: Greedy-Step DQN with changes, and the learning rate it chose."""
    made = choice(store, leg, GREEDY)
    rate = {} if made is None else {"learning_rate": made["setting"]["learning_rate"]}
    return {
        name: (name, of_setting(store, leg, change | rate) if made else None, {}) for name, change in variants.items()
    }


def methods_of(store: Store, leg: Leg) -> dict[str, Entry]:
    """The entries of Figure 3."""
    rows = {}
    for method in leg.methods:
        made = choice(store, leg, method)
        one = None if made is None else of_setting(store, leg, made["setting"])
        rows[method] = (METHODS[method].label, one, {"tried": made["tried"] if made else []})
    return rows


# -- a scale ----------------------------------------------------------------------------------------------------------


def run_variants(
    scale: str,
    legs: Sequence[Leg],
    variants: Mapping[str, Setting],
    progress: ReportProgress,
    parts: Path | None,
    only: Sequence[str],
) -> tuple[Found, dict[str, Any]]:
    """Train changes of Greedy-Step DQN: what was found, and settings and numbers of the result."""
    store, asked = Store(parts), wanted(legs, only)
    work = sum(leg.work(len(variants) * leg.seeds, 1 if leg.selection else 0) for leg in asked)
    with Session(store, progress, work) as session:
        train_variants(session, asked, variants)
    found, numbers = collect(store, legs, lambda leg: variants_of(store, leg, variants))
    return found, {"settings": {"scale": scale, **about(legs)}, "numbers": numbers}


def wanted(legs: Sequence[Leg], only: Sequence[str]) -> list[Leg]:
    """The legs to train: all, or those of the named tasks."""
    return [leg for leg in legs if not only or leg.task in only]


def about(legs: Sequence[Leg]) -> dict[str, Any]:
    """The protocol of a scale, as its result tells it."""
    options = {leg.task: {"env": TASKS[leg.task].env, **TASKS[leg.task].env_options} for leg in legs}
    return {
        "tasks": {
            task: {
                **options[task],
                "preset": own[0].preset,
                "steps": [leg.length.steps for leg in own],
                "seeds": [leg.seeds for leg in own],
                "settings chosen after": own[0].selection or None,
                "changes": own[0].changes,
            }
            for task, own in _by_task(legs).items()
        },
        "seeds of the choice": list(SELECTION_SEEDS),
    }


def _by_task(legs: Sequence[Leg]) -> dict[str, list[Leg]]:
    found: dict[str, list[Leg]] = {}
    for leg in legs:
        found.setdefault(leg.task, []).append(leg)
    return found

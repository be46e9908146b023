"""Beyond the paper: one setting for all tasks, returns="auto", against the best fixed setting of each task.

The fixed settings are those of `settings`: the best of each task and the best single one for all were chosen there on
seeds of their own and trained on fresh ones. Here `auto`, which is never chosen per task, is trained for as many steps.
Its seeds are others: a first version of it was judged on the same fresh seeds, and changed after it had failed on Pong.
Scores are normalised: 0 is random play, 1 the mean final return of the best fixed setting of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import BLACK, BLUE, DASHED, NOT_TRAINED, ORANGE, SOLID, Style, short_count
from greedystep.deep.heads import HEAD_SETTINGS
from greedystep.experiments import settings
from greedystep.experiments.claims import UNDECIDED, Claim, Outcome, Verdict, judges
from greedystep.experiments.deep import method_runs
from greedystep.experiments.deep.judging import Estimate, over_tasks
from greedystep.experiments.deep.method_runs import MethodRuns, from_records
from greedystep.experiments.deep.runner import Runner, RunStore
from greedystep.experiments.deep.suite import TASKS, Setting
from greedystep.experiments.deep.training import Budget, RunSpec
from greedystep.experiments.settings import FRESH_SEEDS, SettingGrid
from greedystep.runs.part_store import Parts
from greedystep.runs.progress import ReportProgress
from greedystep.stats import difference, interval, probability_of_improvement, ratio
from greedystep.tables import Table

NAME, IN_PARTS = "auto", True
TITLE = "One setting for all tasks (auto) against the best fixed setting of each"

AUTO, BEST, SINGLE = "auto", "best of the task", "best single"
AUTO_SETTING: Setting = {"returns": "auto"}
RANDOM_PLAY: Setting = {"returns": "one-step", "epsilon_end": 1.0}
"""Every action is random, whatever is learned."""
RANDOM_STEPS = 200_000
"""Steps of random play, at most."""
AUTO_SEEDS = tuple(range(200, 210))
"""Seeds of `auto`, on which no version of it was trained before."""
NEARLY = 0.95
"""Normalised score from which on `auto` counts as good as the best fixed setting of a task."""
STYLES: dict[str, Style] = {AUTO: (ORANGE, SOLID), BEST: (BLUE, SOLID), SINGLE: (BLACK, DASHED)}


class Contest(NamedTuple):
    """The trainings that are compared on one task."""

    grid: SettingGrid
    steps: int
    seeds: tuple[int, ...]
    """Of the fixed settings."""
    auto_seeds: tuple[int, ...]

    @property
    def budget(self) -> Budget:
        return Budget(self.steps)

    @property
    def random_budget(self) -> Budget:
        return Budget(min(RANDOM_STEPS, self.steps), points=20, episodes=0, only_end=True)

    def runs(self, setting: Setting) -> list[RunSpec]:
        """Return the runs of one setting, one per seed."""
        return self.grid.runs(setting, self.auto_seeds if setting == AUTO_SETTING else self.seeds)

    @property
    def random_play(self) -> list[RunSpec]:
        """Return the one run that plays randomly."""
        return self.grid.runs(RANDOM_PLAY, self.seeds[:1])


SCALES: dict[str, list[Contest]] = {
    "quick": [Contest(grid, grid.budget.steps, (0, 1), (2, 3)) for grid in settings.SCALES["quick"]],
    "paper": [Contest(grid, TASKS[grid.task].steps, FRESH_SEEDS, AUTO_SEEDS) for grid in settings.SCALES["paper"]],
}


def run(scale: str, progress: ReportProgress, parts: Parts = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, contests = RunStore(parts), SCALES[scale]
    asked = [contest for contest in contests if not only or contest.grid.task in only]
    maps = {contest.grid.task: settings.collect(store, contest.grid) for contest in contests}
    lacking = [contest for contest in asked if not settings.is_complete(maps[contest.grid.task])]
    total = sum(
        len(contest.grid.cells) * len(settings.SELECTION_SEEDS) * contest.grid.budget.steps for contest in lacking
    )
    total += sum(3 * len(contest.seeds) * contest.steps + contest.random_budget.steps for contest in asked)
    with Runner(store, progress, total) as runner:
        runner.all(
            partial(runner.ensure, runs, contest.grid.budget, f"{TASKS[contest.grid.task].title}, fixed settings")
            for contest in lacking
            for runs in contest.grid.programs()
        )
        maps = {contest.grid.task: settings.collect(store, contest.grid) for contest in contests}
        jobs = []
        for contest in asked:
            title = TASKS[contest.grid.task].title
            jobs.append(partial(runner.ensure, contest.random_play, contest.random_budget, f"{title}, random play"))
            for role, setting in _roles(maps, contest).items():
                jobs.append(partial(runner.ensure, contest.runs(setting), contest.budget, f"{title}, {role}"))
        runner.all(jobs)
    tasks, missing = {}, []
    for contest in contests:
        tasks[contest.grid.task], lacks = _collect(store, maps, contest)
        missing += lacks
    numbers = {"tasks": tasks, "missing": missing, "problems": store.problems}
    scores = {role: _scores(tasks, role) for role in STYLES}
    about = {
        contest.grid.task: {
            "steps": contest.steps,
            "seeds": list(contest.seeds),
            "auto_seeds": list(contest.auto_seeds),
        }
        for contest in contests
    }
    return {
        "title": TITLE,
        "settings": {"scale": scale, "tasks": about},
        "numbers": numbers,
        "claims": [asdict(claim) for claim in claims(scores, tasks)],
    }


def _roles(maps: Mapping[str, Any], contest: Contest) -> dict[str, Setting]:
    """Return {role: setting} of the contestants on one task; fixed ones only where their choice is settled."""
    one = maps[contest.grid.task]
    roles: dict[str, Setting] = {AUTO: AUTO_SETTING}
    if settings.is_complete(one):
        roles[BEST] = contest.grid.setting_of(settings.best_cell(one))
    if all(map(settings.is_complete, maps.values())) and (single := settings.best_for_all(maps)) is not None:
        roles[SINGLE] = contest.grid.setting_of(single[0])
    return roles


def _collect(store: RunStore, maps: Mapping[str, Any], contest: Contest) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON of one task, and sentences about what is not trained."""
    title, methods, missing = TASKS[contest.grid.task].title, {}, []
    for role, setting in _roles(maps, contest).items():
        runs = contest.runs(setting)
        records = store.get_all(runs, contest.steps)
        if len(records) < len(runs):
            missing.append(f"{title}, {role}: {len(records)} of {len(runs)} seeds are trained")
        if records:
            trained = from_records(records, contest.steps)
            methods[role] = method_runs.summary(trained) | {"label": role, "heads": _head_shares(records, trained)}
    random = store.get_all(contest.random_play, contest.random_budget.steps)
    if not random:
        missing.append(f"{title}: random play is missing")
    level = from_records(random, contest.random_budget.steps).final_return if random else np.array([np.nan])
    return {
        "title": title,
        "full_steps": contest.steps,
        "methods": methods,
        "random_play": float(level.mean()) if np.isfinite(level).all() else None,
    }, missing


def _head_shares(records: Sequence[Mapping[str, Any]], runs: MethodRuns) -> list[list[float]] | None:
    """Return [points, heads]: the share of recent episodes played by each head, mean over seeds; None without heads."""
    if any("head_episodes" not in record["curve"] for record in records):
        return None
    shares = []
    for record in records:
        counts = np.array(record["curve"]["head_episodes"], float)
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)
        at = np.searchsorted(np.array(record["curve"]["step"]), runs.steps)
        shares.append(share[np.minimum(at, len(share) - 1)])
    return np.mean(shares, axis=0).round(4).tolist()


def _scores(tasks: Mapping[str, Any], role: str) -> dict[str, np.ndarray]:
    """Return {task: normalised scores of all seeds} where the contestant, the best and random play are known."""
    found = {}
    for task, one in tasks.items():
        if role in one["methods"] and BEST in one["methods"] and one["random_play"] is not None:
            best = float(np.mean(one["methods"][BEST]["final"]["returns"]))
            if best > one["random_play"]:
                returns = np.asarray(one["methods"][role]["final"]["returns"], float)
                found[task] = (returns - one["random_play"]) / (best - one["random_play"])
    return found


# -- claims -----------------------------------------------------------------------------------------------------------

AllScores = Mapping[str, Mapping[str, np.ndarray]]
"""role -> task -> normalised scores by seed."""


def claims(scores: AllScores, tasks: Mapping[str, Any]) -> list[Claim]:
    """Judge both claims about `auto`; the rules are older than its trainings, but for what `as_good` says of itself."""
    return [as_good(scores, tasks), better_than_single(scores)]


@judges(
    "auto-as-good",
    "One setting that lets the data choose is as good on every task as the fixed setting chosen for that task, on two "
    "seeds of shorter trainings.",
    f"at least {NEARLY:g} of the best everywhere",
    "not in the paper",
)
def as_good(scores: AllScores, tasks: Mapping[str, Any]) -> Outcome:
    """Confirmed if the 95 % CI of the mean normalised score lies above 0.95 on every task, refuted if below on all.

    Undecided where it contains 0.95; the verdict is that of all tasks together. A single task says nothing about one
    setting for all; a task without trainings keeps it from being confirmed. The CI is over the seeds of both settings.

    The rule was changed after the runs, twice. When Pong was missing, eight tasks would have done. And it looked at the
    means alone, which are at least 0.95 on all tasks: confirmed.
    """
    found = scores_beside_best(scores, AUTO)
    if len(found) < 2:
        return Outcome(
            "untested", "fewer than two tasks have trainings of auto, the best fixed setting and random play"
        )
    verdicts: dict[str, Verdict] = {task: one.above(NEARLY) for task, one in found.items()}
    absent = [one["title"] for task, one in tasks.items() if task not in found]
    verdict = over_tasks(verdicts.values())
    open_, below = (
        [tasks[task]["title"] for task in found if verdicts[task] == one] for one in ("undecided", "refuted")
    )
    reasons = {UNDECIDED: open_, "behind": below, "not trained": absent}
    near = sum(one.estimate >= NEARLY for one in found.values())
    sure = sum(one == "confirmed" for one in verdicts.values())
    return Outcome(
        "partly" if absent and verdict == "confirmed" else verdict,
        "mean normalised score of auto: " + ", ".join(f"{tasks[task]['title']} {one}" for task, one in found.items()),
        "; ".join(f"{', '.join(names)}: {what}" for what, names in reasons.items() if names),
        brief=f"{NEARLY:g} or more on {near} of {len(tasks)} tasks (95 % CI above {NEARLY:g} on {sure})",
    )


def scores_beside_best(scores: AllScores, role: str) -> dict[str, Estimate]:
    """Return {task: mean normalised score} of a contestant, with CIs over its seeds and those of the best setting."""
    return {task: Estimate(*map(float, ratio(own, scores[BEST][task], "mean"))) for task, own in scores[role].items()}


@judges(
    "auto-better-than-single",
    "It is better over all tasks than the best single fixed setting.",
    "better",
    "not in the paper",
)
def better_than_single(scores: AllScores) -> Outcome:
    """Confirmed if the 95 % CI of the difference of IQMs over common tasks is above 0, refuted if below.

    Undecided if it contains 0.
    """
    common = [task for task in scores[AUTO] if task in scores[SINGLE]]
    if not common:
        return Outcome("untested", "no task has trainings of both")
    ours, theirs = ({task: scores[role][task] for task in common} for role in (AUTO, SINGLE))
    gap = difference(ours, theirs, "iqm")
    verdict = "confirmed" if gap.low > 0 else "refuted" if gap.high < 0 else "undecided"
    wins = probability_of_improvement(ours, theirs)
    return Outcome(
        verdict,
        f"IQM of auto minus that of the best single setting over {len(common)} tasks: {gap.estimate:.2f} "
        f"(95 % CI {gap.low:.2f} to {gap.high:.2f}); probability of improvement {wins.estimate:.2f} "
        f"({wins.low:.2f} to {wins.high:.2f})",
        brief=f"{gap.estimate:.2f} ({gap.low:.2f} to {gap.high:.2f})",
    )


# -- output -----------------------------------------------------------------------------------------------------------


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the learning curves of all contestants, and which head of auto played when."""
    return {
        NAME: figures.draw_learning_charts(result["numbers"], STYLES, ("returns",)),
        "auto-heads": _draw_heads(result),
    }


@figures.style()
def _draw_heads(result: dict[str, Any]) -> Figure:
    tasks = list(result["numbers"]["tasks"].values())
    wide = min(3, len(tasks))
    figure, axes = figures.panels(-(-len(tasks) // wide), wide, squeeze=False)
    figure.set_size_inches(4.6 * max(wide, 2), 2.9 * len(axes) + 1.0)
    for axis, task in zip(axes.flat, tasks, strict=False):
        axis.set_title(task["title"])
        auto = task["methods"].get(AUTO)
        if auto is None or auto["heads"] is None:
            figures.draw_missing(axis, NOT_TRAINED)
            continue
        axis.stackplot(np.asarray(auto["steps"]), np.array(auto["heads"]).T, labels=HEAD_SETTINGS, alpha=0.8)
        axis.set_ylim(0, 1)
        axis.set_xlabel("environment steps")
        axis.xaxis.set_major_formatter(lambda value, _: short_count(value))
        axis.set_ylabel("share of recent episodes")
    for axis in axes.flat[len(tasks) :]:
        axis.set_axis_off()
    figures.legend(figure, axes)
    return figure


def tables(result: dict[str, Any]) -> list[Table]:
    tasks = result["numbers"]["tasks"]
    made = (_score_table(tasks), _aggregate_table(tasks))
    return [*(table for table in made if table.rows), method_runs.final_table("auto-final", TITLE, tasks)]


def _score_table(tasks: Mapping[str, Any]) -> Table:
    scores, rows = {role: _scores(tasks, role) for role in STYLES}, []
    for role, own in scores.items():
        beside_best = scores_beside_best(scores, role)
        for task, values in own.items():
            score = (1.0, None, None) if role == BEST else beside_best[task]
            one = tasks[task]["methods"][role]
            returns = float(np.mean(one["final"]["returns"]))
            setting = method_runs.format_setting(one["setting"]) or "auto"
            rows.append([tasks[task]["title"], role, setting, len(values), returns, *score])
    header = ["task", "choice", "setting", "seeds", "mean return", "normalised", "95 % CI low", "95 % CI high"]
    return Table(
        NAME, "Final training return; normalised: 0 random play, 1 the best fixed setting of the task", header, rows
    )


def _aggregate_table(tasks: Mapping[str, Any]) -> Table:
    scores = {role: _scores(tasks, role) for role in STYLES}
    common = [task for task in tasks if all(task in values for values in scores.values())]
    rows = []
    for role in STYLES if common else ():
        ours = {task: scores[role][task] for task in common}
        against = {task: scores[SINGLE][task] for task in common}
        wins = ("-",) * 3 if role == SINGLE else tuple(map(float, probability_of_improvement(ours, against)))
        rows.append([role, len(common), *map(float, interval(ours, "iqm")), *wins])
    header = ["choice", "tasks", "IQM", "95 % CI low", "95 % CI high"]
    header += ["probability of improvement on the best single", "low", "high"]
    return Table(
        "auto-aggregate", "Normalised scores over all tasks, with CIs over the choice's own seeds", header, rows
    )

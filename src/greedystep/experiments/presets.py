"""Beyond the paper: do one environment with batches of 32, as the paper trains, and 64 with batches of 512 agree?

Figure 3 is made with the second, which a GPU runs many times as fast. Here the paper's methods are trained with the
first too, with the options that they chose there and the preset's own learning rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from greedystep.experiments import fig3
from greedystep.experiments.claims import Claim
from greedystep.experiments.deep import output, sweep
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.methods import GREEDY, METHODS, PAPER
from greedystep.experiments.deep.rules import Judged, above, lead
from greedystep.experiments.deep.session import Session
from greedystep.experiments.deep.store import Store
from greedystep.experiments.deep.training import Length
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME, IN_PARTS = "presets", True
TITLE = "The presets paper and fast side by side"

SCALES: dict[str, list[sweep.Leg]] = {
    "quick": [
        # On MountainCar hardly an episode would have ended by then.
        sweep.Leg("catcher", preset, Length(100_000, points=100, episodes=20), seeds=5, methods=("dqn", GREEDY))
        for preset in ("paper", "fast")
    ],
    "paper": [
        sweep.Leg("breakout", "paper", Length(1_000_000), seeds=5, methods=PAPER),
        replace(fig3.SCALES["paper"][0], length=Length(1_000_000), more_seeds=0),
    ],
}


def run(scale: str, progress: ReportProgress, parts: Path | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    store, legs = Store(parts), SCALES[scale]
    wanted = sweep.wanted(legs, only)
    work = (leg.work(leg.seeds * len(leg.methods), len(leg.methods) if leg.selection else 0) for leg in wanted)
    fast = legs[1]
    with Session(store, progress, sum(work)) as session:
        session.all(partial(sweep.choose, session, fast, method) for method in fast.methods if wanted)
        session.all(
            partial(sweep.train_setting, session, leg, METHODS[method].label, setting, leg.seeds)
            for leg in wanted
            for method in leg.methods
            if (setting := _setting(store, fast, leg, method)) is not None
        )
    found, numbers = sweep.collect(store, legs, lambda leg: _entries(store, fast, leg))
    return {
        "title": TITLE,
        "settings": {"scale": scale, **sweep.about(legs)},
        "numbers": numbers,
        "claims": [asdict(agree({name: one for (_, name), one in found.items()}))],
    }


def _setting(store: Store, fast: sweep.Leg, leg: sweep.Leg, method: str) -> dict[str, Any] | None:
    """What the method chose with the preset fast; with the other, the learning rate is the preset's own."""
    made = sweep.choice(store, fast, method)
    if made is None:
        return None
    return {k: v for k, v in made["setting"].items() if leg.preset == fast.preset or k != "learning_rate"}


def _entries(store: Store, fast: sweep.Leg, leg: sweep.Leg) -> dict[str, sweep.Entry]:
    found = {}
    for method in leg.methods:
        setting = _setting(store, fast, leg, method)
        one = None if setting is None else sweep.of_setting(store, leg, setting)
        found[name(method, leg.preset)] = (f"{METHODS[method].label}, {leg.preset}", one, {})
    return found


def name(method: str, preset: str) -> str:
    return f"{method}, {preset}"


def agree(found: dict[str, Evidence]) -> Claim:
    """Of the pairs of methods that differ for certain with both presets: whether the same one is ahead.

    Confirmed: in all of them; refuted: in none; untested without such a pair.
    """
    methods = [method for method in METHODS if all(name(method, preset) in found for preset in ("paper", "fast"))]
    alike, unlike = [], []
    for pair in combinations(methods, 2):
        ahead = {
            above(lead(*(found[name(method, preset)].final for method in pair)), 0) for preset in ("paper", "fast")
        }
        if not ahead & {"partly", "untested"}:
            (alike if len(ahead) == 1 else unlike).append(" and ".join(METHODS[method].label for method in pair))
    certain = len(alike) + len(unlike)
    said = f"of {certain} pairs of methods that differ for certain with both, {len(alike)} do so in the same way"
    if not alike and not unlike:
        judged = Judged("untested", said)
    else:
        why = f"not the same: {', '.join(unlike)}"
        judged = Judged("confirmed" if not unlike else "partly" if alike else "refuted", said, why)
    return judged.claim(
        "presets-agree",
        "Many environments and large batches put the methods in the same order as one environment and batches of 32.",
        "not in the paper",
        "the same order",
    )


# -- output -----------------------------------------------------------------------------------------------------------

STYLES: output.Styles = {
    name(method, preset): (fig3.STYLES[method][0], dash)
    for method in PAPER
    for preset, dash in (("fast", output.SOLID), ("paper", output.DOTTED))
}


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    quantities = ("returns", "q", "overestimation")
    return {"presets": output.draw_tasks(result["numbers"]["tasks"], STYLES, quantities, shaded=False)}


def tables(result: dict[str, Any]) -> list[Table]:
    return [output.final_table(NAME, "Methods by preset after equal steps", result["numbers"]["tasks"])]

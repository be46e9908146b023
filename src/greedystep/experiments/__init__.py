"""The paper's tables and figures, one module each, imported when asked for.

An experiment is a module with

    NAME      what one types after `greedystep reproduce`
    TITLE     one line
    run       (scale, progress) -> result; `progress(share, what)` is called with the share done, 0 to 1
    draw      result -> figures by name, from the result's JSON alone
    tables    result -> tables, likewise

One whose curves are no trainings may have

    charts    result -> `Chart`s, which stand on the page in the place of the picture that bears its name
    CHARTS    a sentence on what their lines and bands are

One that takes long also has

    IN_PARTS  true; then `run` takes two arguments more: `parts`, the `PartStore` (or its folder) in which finished
              trainings or trials are kept and found again (None: nowhere), and `only`, names of tasks to run (none:
              all; NOTHING: none, what is there is judged)
    TASKS     these names, if they are not those of `deep.tasks`

A result is a dictionary in JSON's types: "title", "settings", "numbers" and "claims", a list of `asdict(Claim)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

from greedystep.runs.progress import ReportProgress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from greedystep.charts import Chart
    from greedystep.tables import Table

Name = Literal["table1", "fig1", "fig2", "fig3", "fig4", "fig5", "horizon", "luck", "presets", "settings"]
NAMES: tuple[Name, ...] = get_args(Name)
"""In the order of the paper; `horizon` is about what it says of its N, `luck` about why, `presets` about us,
`settings` about which fixed rule wins where."""

Scale = Literal["quick", "paper"]
"""quick: minutes on two cores. paper: the paper's sizes."""

NOTHING = ("nothing",)
"""For `only`: the name of no task."""


class Experiment(Protocol):
    """The shape of an experiment's module."""

    NAME: str
    TITLE: str

    def run(self, scale: str, progress: ReportProgress, **more: Any) -> dict[str, Any]: ...

    def draw(self, result: dict[str, Any]) -> dict[str, Figure]: ...

    def tables(self, result: dict[str, Any]) -> list[Table]: ...


def is_in_parts(experiment: Experiment) -> bool:
    """Whether its `run` takes `parts` and `only`."""
    return getattr(experiment, "IN_PARTS", False)


def charts_of(experiment: Experiment, result: dict[str, Any]) -> tuple[str, list[Chart]]:
    """What its lines are, and the charts; none if it has none."""
    draw = getattr(experiment, "charts", None)
    return getattr(experiment, "CHARTS", ""), draw(result) if draw else []


def tasks_of(experiment: Experiment) -> tuple[str, ...]:
    """What `only` may name."""
    from greedystep.experiments.deep.tasks import FIGURE_3

    return tuple(getattr(experiment, "TASKS", FIGURE_3))


def load(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise ValueError(f"experiment: {name!r} is not known; there are {', '.join(NAMES)}")
    return cast(Experiment, import_module(f"greedystep.experiments.{name}"))

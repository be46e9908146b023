"""`greedystep envs` lists the environments, or the options of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from greedystep.cli.args import answering_bad_input, print_note
from greedystep.extras import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

    from greedystep.envs.description import Description


@dataclass(frozen=True)
class Envs:
    """List the environments, or show one with its options."""

    # Name of an environment (default: list them all).
    name: Annotated[Positional[str], arg(help_behavior_hint="")] = ""

    def run(self) -> int:
        from rich.console import Console

        from greedystep import envs
        from greedystep.envs.description import describe

        if self.name:
            with answering_bad_input():
                _print_one(Console(), describe(self.name))
            return 0
        found, missing = {}, None
        for name in envs.names():
            try:
                found[name] = describe(name)
            except MissingExtraError as problem:
                found[name], missing = None, problem
        _print_all(Console(), found)
        if missing is not None:
            print_note(f"Note: {missing}")
        return 0


def _print_all(console: Console, found: dict[str, Description | None]) -> None:
    from rich.table import Table

    from greedystep import pretrained
    from greedystep.runs.progress import say

    table = Table(header_style="bold")
    table.add_column("name", no_wrap=True)
    for heading in ("observation", "actions"):
        table.add_column(heading, overflow="fold")
    table.add_column("stochastic")
    table.add_column("limit", justify="right")
    for name, env in found.items():
        if env is None:
            table.add_row(name, "?", "?", "?", "?")
            continue
        limit = "none" if env.limit is None else f"{env.limit:,}"
        table.add_row(name, env.observation, env.actions, "yes" if env.stochastic else "no", limit)
    console.print(table, markup=False, highlight=False)
    scores = [f"{name} {pretrained.card(name)['score']['mean']:.4g}" for name in pretrained.names()]
    say(console, f"Pretrained (`greedystep watch NAME --pretrained`), with their mean returns: {', '.join(scores)}")


def _print_one(console: Console, env: Description) -> None:
    from rich.table import Table

    from greedystep import pretrained
    from greedystep.envs.gymnasium_ids import gymnasium_id
    from greedystep.runs.progress import say

    say(console, f"{env.name}\n\n{env.about}\n")
    say(console, f"observation: {env.observation}")
    say(console, f"actions: {env.actions}")
    say(console, f"stochastic: {'yes' if env.stochastic else 'no'}")
    say(console, f"limit: {'none' if env.limit is None else env.limit}")
    say(console, f"in Gymnasium: {gymnasium_id(env.name)}")
    if env.name in pretrained.names():
        say(console, pretrained.describe(pretrained.card(env.name)))
    say(console, "")
    table = Table("option", "default", "meaning", header_style="bold")
    for option in env.options:
        table.add_row(option.name, repr(option.default), option.about)
    console.print(table, markup=False, highlight=False)

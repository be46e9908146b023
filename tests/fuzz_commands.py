"""Random command lines, drawn from the options that the commands have.

The options come from the dataclasses of `greedystep.cli`: a new one is covered without a word here. Each gets good,
borderline and absurd values of its type. A command begins as a valid one that is done in a moment, and is then changed.
"""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.constructors import PrimitiveConstructorSpec

from benchmarks.command import Bench
from greedystep.cli.commands import Command
from greedystep.cli.deep_settings import Unset
from greedystep.cli.train import METHODS

# -- values -----------------------------------------------------------------------------------------------------------

SMALL = ("1", "2", "3", "7", "20")
NUMBERS = (
    *(
        "0",
        "-0",
        "-1",
        "-20",
        "1.5",
        "0.5",
        "1e-3",
        "1e2",
        "1e3",
        "1_0",
        "007",
        "+3",
        "1e0",
        ".5",
        "5.",
        "1e-400",
        "-.0",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "NaN",
        "infinity",
        "1e308",
        "-1e308",
        "1e400",
        "1e-320",
        "0x10",
        "1,5",
        "1/2",
        "٣",
        "1e",
        "e1",
    ),
    *("2147483647", "2147483648", "-2147483649", "4294967296", "9007199254740993", "9223372036854775807"),
    *("9223372036854775808", "18446744073709551616", "1e9", "1e10", "1e12", "1e18", "1e19", "1e30", "9" * 400),
    *("none", "None", "true", "", " ", "one"),
)
"""Borderline and absurd ones."""
TEXTS = (
    "",
    " ",
    "x",
    "-",
    "--",
    "-x",
    "=",
    "none",
    "toy",
    "*",
    "{}",
    "[bold]",
    "a b",
    "a\nb",
    "../..",
    "ü€𝔘",
    "\udcff",
    "%s",
    "x" * 5000,
)
PLACES = (
    *("new", "new/deep/folder", "file.txt", "empty", "table", "deep", "results", ".", "..", "loop", "loop/x", "pipe"),
    *("", " ", "/dev/null", "/dev/full", "/dev/null/x", "/proc/none/x", "/dev/stdin", "missing/../new", "new.npz"),
    *("new.json", "new.gif", "new.mp4", "new.png", "NEW.JSON", ".json", "new/", "model.npz", "x" * 300, "x/" * 2100),
    *("ü€𝔘", "a\nb", "\udcff", "-x", "~", "file.txt/x", "file.txt/new.json", "deep/config.json", "table/metrics.jsonl"),
)
"""Folders and files that are there (see `fuzz_files`), missing ones, and what is neither."""
FILES = (
    *("model.npz", "log.npz", "network.agent", "table.npz", "deep", "table", "results", "results/fig3.json"),
    *("deep/checkpoints", "deep/metrics.jsonl", "deep/config.json", "table/agent.npz", "file.txt", "empty", "runs"),
)
ENVS = (
    *("toy/choice", "toy/trace-back", "toy/grid-world", "toy/bomb", "toy/n-horizon", "toy/watch-repair"),
    "greedystep/toy-choice-v1",
    *("FrozenLake-v1", "Taxi-v3", "CliffWalking-v1", "Blackjack-v1", "classic/cartpole", "CartPole-v1"),
)
WRONG_ENVS = (
    *("", "toy", "toy/", "toy/chioce", "Toy/Choice", "minatar/breakot", "CartPole-v99", "FrozenLake"),
    *(
        "no_such_module:Env-v0",
        "os:system",
        "a:b:c",
        ":",
        "/",
        "FrozenLake-v1/",
        "Pendulum-v1",
        "toy/choice/",
        "\udcff",
    ),
)
ENV_OPTIONS = (
    *("delay=3", "delay=0", "delay=-1", "delay=200", "delay=1e18", "delay=nan", "delay=2.5", "delay=true", "noise=1"),
    *("size=3", "size=0", "size=100000", "size=-2", "sticky=0", "sticky=2", "sticky=nan", "limit=5", "limit=0"),
    *("limit=none", "limit=-1", "limit=1e400", "limit=9223372036854775808", "discount=1", "discount=nan", "discount=2"),
    *("map_name=8x8", "map_name=none", "is_slippery=false", "is_slippery=7", "render_mode=human", "desc=x", "P=1"),
    *("delay", "=", "=3", "delay=", "delay=3=4", "1a=2", "delay=ü", "ramping=2", "actions=minimal", "version=0"),
    *("horizon=0", "horizon=7", "max_episode_steps=0", "max_episode_steps=x", "disable_env_checker=true", "id=x"),
)
METHOD_OPTIONS = (
    *("alpha=0.5", "alpha=0", "alpha=-1", "alpha=nan", "alpha=2", "alpha=1e400", "form=expected", "form=x", "n=3"),
    *("n=0", "n=-1", "n=2147483648", "n=9223372036854775808", "n=1e18", "n=1.5", "lambda_=0.5", "lambda_=nan"),
    *(
        "sigma=0.5",
        "sigma=2",
        "horizon=0",
        "horizon=1e30",
        "horizon=none",
        "beta=1",
        "sweeps=1e9",
        "seed=3",
        "q=5",
        "env=x",
    ),
    *("method=x", "discount=0.5", "alpha", "="),
)
MODELS = (
    *(
        "frozenlake-4x4",
        "cliffwalking",
        "chain-5",
        "grid-3x4",
        "maze-5x5",
        "garnet-9x2x3",
        "FrozenLake-v1",
        "model.npz",
    ),
    *("chain-0", "chain--1", "chain-x", "chain-", "chain-1e3", "chain-99999999999999999999", "grid-3", "grid-0x0"),
    *("grid-1x1", "grid-3x4x5", "grid-1000000x1000000", "maze-1x1", "maze-2x2", "maze-1000000x1000000", "garnet-3x2x9"),
    *(
        "garnet-1000000000x2x2",
        "garnet-0x0x0",
        "garnet-٣x٣x٣",
        "chain-²",
        "frozenlake-5x5",
        "frozenlake",
        "CartPole-v1",
    ),
    *("log.npz", "table.npz", "missing.npz", "deep", "pipe", "loop", "/dev/null", "", "\udcff", "evil:Env-v0"),
)
POLICIES = (
    *("greedy", "each-action", "uniform", "random-8", "random-0", "random--1", "random-x", "random-1e9", "random-²"),
    *("random-999999999999", "random", "x", ""),
)
NAMES_OF_EXPERIMENTS = (
    "fig3",
    "fig4",
    "fig5",
    "luck",
    "presets",
    "offline",
    "horizon",
    "fig2",
    "fig9",
    "",
    "all",
    "table1",
    "Fig3",
)
TEXT_OF: dict[str, tuple[str, ...]] = {
    "model": MODELS,
    "policies": POLICIES,
    "env": (*ENVS, *WRONG_ENVS, *FILES),
    "game": (*ENVS, *WRONG_ENVS, *FILES),
    "name": (*ENVS, *WRONG_ENVS, "minatar/breakout", "ple/pong"),
    "options": ENV_OPTIONS,
    "method_options": METHOD_OPTIONS,
    "data": (*FILES, "missing.npz", "minari:none/such-v0", "minari:", "minari:../..", "loop", "pipe", "/dev/null"),
    "method": METHODS,
    "only": ("breakout", "mountaincar", "choice", "x", "", "breakot"),
    "problems": ("goal", "x", "", "zzz"),
    "games": ("breakout", "x", "", "zzz"),
}
"""Field -> what is tried; other fields of text get `TEXTS`."""


@dataclass(frozen=True)
class Option:
    """One field of a command's dataclass."""

    field: str
    flag: str
    """--such-and-such; empty for a positional one."""
    kind: str
    """number, place, text, choice or switch."""
    many: bool = False
    choices: tuple[str, ...] = ()

    def value(self, random: Random) -> str:
        pool = random.random()
        if self.kind == "choice" and pool < 0.7:
            return random.choice(self.choices)
        if self.kind == "number":
            return random.choice(SMALL if pool < 0.3 else NUMBERS if pool < 0.97 else TEXTS)
        if self.kind == "place":
            return random.choice(PLACES if pool < 0.75 else FILES if pool < 0.95 else TEXTS)
        texts = TEXT_OF.get(self.field, ())
        if texts and pool < 0.92:
            return random.choice(texts)
        return random.choice((*TEXTS, *SMALL, *NUMBERS, *PLACES))

    def words(self, random: Random) -> list[str]:
        """As it is typed, with one value or more."""
        if self.kind == "switch":
            return [self.flag] if random.random() < 0.9 else [self.flag, self.value(random)]
        count = random.choice((1, 1, 1, 2, 0, 3)) if self.many else 1
        values = [self.value(random) for _ in range(count)]
        if not self.flag:
            return values
        if len(values) == 1 and random.random() < 0.2:
            return [f"{self.flag}={values[0]}"]
        return [self.flag, *values]


def options_of(command: type) -> list[Option]:
    """Of a command's dataclass and those within it."""
    found, hints = [], get_type_hints(command, include_extras=True)
    for field in dataclasses.fields(command):
        kind, notes = _bare(hints[field.name])
        if dataclasses.is_dataclass(kind):
            found += options_of(kind)
        else:
            found.append(_option(field.name, kind, notes))
    return found


def _option(name: str, kind: Any, notes: list[Any]) -> Option:
    is_positional = any(getattr(note, "__name__", str(note)).lower().find("positional") >= 0 for note in notes)
    names = [note.name for note in notes if getattr(note, "name", None) and not isinstance(note, type)]
    flag = "" if is_positional else f"--{(names[0] if names else name.strip('_')).replace('_', '-')}"
    many = get_origin(kind) is tuple
    if many:
        kind, more = _bare(get_args(kind)[0])
        notes = notes + more
    specs = [note for note in notes if isinstance(note, PrimitiveConstructorSpec)]
    choices = tuple(str(one) for spec in specs for one in spec.choices or ())
    if get_origin(kind) is Literal:
        choices = tuple(map(str, get_args(kind)))
    shape = specs[0].metavar if specs else ""
    if choices:
        return Option(name, flag, "choice", many, choices)
    if kind is bool:
        return Option(name, flag, "switch")
    if kind in (int, float) or "NUMBER" in shape:
        return Option(name, flag, "number", many or "..." in shape)
    return Option(name, flag, "place" if kind is Path else "text", many)


def _bare(kind: Any) -> tuple[Any, list[Any]]:
    """A type without `Annotated` and without None, and the notes that stood there."""
    notes: list[Any] = []
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            notes += more
        elif get_origin(kind) in (Union, types.UnionType) and {type(None), Unset} & set(get_args(kind)):
            (kind,) = (one for one in get_args(kind) if one not in (type(None), Unset))
        else:
            return kind, notes


COMMANDS: dict[str, list[Option]] = {}
for _annotated in get_args(Command):
    _class, *_notes = get_args(_annotated)
    COMMANDS[next(note.name for note in _notes if getattr(note, "name", None))] = options_of(_class)
COMMANDS["bench"] = options_of(Bench)

# -- command lines ----------------------------------------------------------------------------------------------------

TINY_NETWORK = {"steps": "20", "warmup": "5", "hidden": "4", "replay_size": "64", "target_period": "10"}
TINY_NETWORK |= {"log_every": "10", "batch_size": "4"}
TINY_TABLE = {"episodes": "20"}
TINY_FIT = {"hidden": "4", "target_period": "10", "batch_size": "4", "batches": "5"}
LONG = ("reproduce", "bench")
"""Commands whose valid forms take minutes."""
LENGTHS = {"train": ("--steps", "--episodes"), "fit": ("--batches", "--sweeps"), "eval": ("--limit",)}
"""Options without which a command takes minutes."""
WEIGHTS = {"plan": 5, "train": 8, "fit": 4, "eval": 3, "reproduce": 2, "report": 2, "bench": 1, "envs": 1, "watch": 4}
UNKNOWN = (
    *([], [""], ["x"], ["--version"], ["--version", "x"], ["--help"], ["-h"], ["plan", "--help"], ["Plan"], ["pla"]),
    *(["train", "-h"], ["\udcff"], ["--"], ["--", "plan"], ["plan", "--"], ["--out", "x", "plan"], ["plan plan"]),
    *(["envs", "x" * 5000], ["eval", "--help", "x"], ["plan", "chain-3", "--version"]),
)


def command(random: Random, *, networks: bool = True) -> list[str]:
    """A command line.

    Args:
        networks: also those that train or load a network, which takes a second each, and more the first time.
    """
    if random.random() < 0.03:
        return list(random.choice(UNKNOWN))
    name = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    words = _valid(name, random, networks)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        words = _changed(words, COMMANDS[name], random)
    return [name, *(word for option in words for word in option)]


def is_long(argv: list[str]) -> bool:
    """Whether the work that is asked for may take long."""
    if not argv or argv[0] in LONG:
        return True
    if argv[0] in LENGTHS and not any(word.startswith(LENGTHS[argv[0]]) for word in argv):
        return True
    return any(_size(part) >= 1000 for word in argv for part in word.replace("=", "-").replace("x", "-").split("-"))


def _size(text: str) -> float:
    try:
        return abs(float(text))
    except ValueError:
        return 0.0


def _valid(name: str, random: Random, networks: bool) -> list[list[str]]:
    """A command that is done in a moment, option by option."""
    network = networks and random.random() < 0.4
    new = f"new{random.randrange(10)}"
    match name:
        case "plan":
            return [[random.choice(MODELS[:8])]]
        case "train" if random.random() < 0.15:
            resumed = ["--resume", "deep" if network else "table"]
            return [resumed, random.choice(([], ["--steps", "30"] if network else ["--episodes", "30"]))]
        case "train":
            env = ["classic/cartpole"] if network else [random.choice(ENVS[:8])]
            return [env, *_typed(TINY_NETWORK if network else TINY_TABLE), ["--out", new]]
        case "fit":
            tiny = _typed(TINY_FIT) if network else []
            data, env = ("log.npz", "classic/cartpole") if network else ("steps.npz", "toy/choice")
            return [[data], ["--env", env], *tiny, ["--out", new]]
        case "eval":
            return [
                [random.choice(("deep", "network.agent")) if network else "table"],
                ["--episodes", "2"],
                ["--limit", "5"],
            ]
        case "watch":
            env = ["deep" if network else random.choice(ENVS[:6])]
            return [env, ["--steps", "2"], random.choice(([], ["--out", f"{new}.gif"]))]
        case "report":
            return [[random.choice(("deep", "table", "results"))], ["--out", new]]
        case "reproduce":
            return [[random.choice(NAMES_OF_EXPERIMENTS[:6])], ["--gather"], ["--out", "results"]]
        case "bench":
            return [["planning"], ["--problems", "zzz"], ["--out", new]]
    return [[random.choice(ENVS)]]


def _typed(options: dict[str, str]) -> list[list[str]]:
    return [[f"--{name.replace('_', '-')}", value] for name, value in options.items()]


def _changed(words: list[list[str]], options: list[Option], random: Random) -> list[list[str]]:
    """One thing added, taken away, repeated, misspelt or given another value."""
    words = list(words)
    where = random.randrange(len(words)) if words else 0
    what = random.random()
    if what < 0.7 or not words:
        option = random.choice(options)
        typed = option.words(random)
        is_new = not option.flag or random.random() < 0.1  # else it takes the place of the same one
        kept = [one for one in words if is_new or not one or one[0] != option.flag]
        if not option.flag and not option.many and random.random() < 0.8:
            kept = kept[1:]
        return [typed, *kept] if not option.flag else [*kept, typed]
    if what < 0.78:
        del words[where]
    elif what < 0.84:
        words.insert(random.randrange(len(words) + 1), words[where])
    elif what < 0.9:
        words[where] = words[where][:-1]
    elif what < 0.95 and words[where] and words[where][0].startswith("--"):
        flag = words[where][0]
        misspelt = random.choice((flag[:-1], flag + "s", flag.upper(), flag[1:], flag.replace("-", "_"), flag + "="))
        words[where] = [misspelt, *words[where][1:]]
    else:
        words.insert(random.randrange(len(words) + 1), [random.choice(TEXTS)])
    return words

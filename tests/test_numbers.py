"""Numbers have ends: every numeric option of every command, setting and environment, with numbers that make no sense.

None of these cases may train, compile or allocate anything: a valid number is stopped by something that is refused
after all numbers have been looked at.
"""

import dataclasses
import math
from functools import partial
from inspect import signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from tyro.constructors import PrimitiveConstructorSpec

from benchmarks.command import Bench
from greedystep import checks, envs
from greedystep.cli import main
from greedystep.cli.commands import Command
from greedystep.deep.config import DQNConfig
from greedystep.tabular.methods import METHODS, parameters_of

NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "", "text")
TEXTS = (*NO_NUMBERS, "-1", "0", "2.5", str(2**31), str(2**63), "1e18")


# -- the command line -------------------------------------------------------------------------------------------------

STOPPED = {
    "plan": (["plan", "grid-3x3", "--method", "greedy-step"], ["--time-limit", "-1"]),
    "train": (["train", "classic/cartpole"], ["--out", "taken"]),
    "tune": (["tune", "classic/cartpole"], ["--search", "nothing"]),
    "fit": (["fit", "missing.npz", "--env", "classic/cartpole"], []),
    "eval": (["eval", "missing"], []),
    "export": (["export", "missing"], ["--out", "log.npz"]),
    "check": (["check", "NoSuchEnvironment-v0"], []),
    "bench": (["bench", "envs"], ["--games", "chess"]),
    "watch": (["watch", "classic/cartpole"], ["--policy", "agent"]),
}
"""Command -> (how it begins, what is refused once its numbers are checked)."""

OF_TABLES = {"episodes", "epsilon", "initial", "sweeps"}
OF_FITTING = {"batches", "sweeps", "seed"}
"""What `fit` has besides the settings that it shares with `train`."""


def numeric_options(command: Any) -> dict[str, bool]:
    """Option -> whether it is a whole number, of a command's dataclass and those within."""
    found = {}
    for name, kind in get_type_hints(command, include_extras=True).items():
        marks = kind.__metadata__ if get_origin(kind) is Annotated else ()
        bare = get_args(kind)[0] if marks else kind
        if dataclasses.is_dataclass(bare):
            found |= numeric_options(bare)
        for spec in marks:
            if isinstance(spec, PrimitiveConstructorSpec) and spec.metavar.startswith("NUMBER"):
                found[name.strip("_").replace("_", "-")] = _is_count(spec)
    return found


def _is_count(spec: Any) -> bool:
    try:
        spec.instance_from_str(["0.5"])
    except ValueError:
        return True
    return False


COMMANDS = {kind.__metadata__[0].name: get_args(kind)[0] for kind in get_args(Command)} | {"bench": Bench}
OPTIONS = [(name, option) for name, command in COMMANDS.items() for option in numeric_options(command)]


def test_every_command_with_numbers_is_tried():
    assert {name for name, _ in OPTIONS} == set(STOPPED)
    settings = {field.name.strip("_").replace("_", "-") for field in dataclasses.fields(DQNConfig)}
    others = {
        "returns",
        "double",
        "ensemble-update",
        "observations",
        "time-limits",
        "conservatism",
        "optimiser",
        "loss",
    }
    assert settings - others <= set(numeric_options(COMMANDS["train"]))


def refused(command: str, option: str, text: str, capsys: Any) -> None:
    """One line, exit status 2; of what can never be right, about the option itself."""
    begin, stop = STOPPED[command]
    if command in ("train", "fit") and option in OF_TABLES:
        begin = [word.replace("classic/cartpole", "toy/choice") for word in begin]
    if stop[:1] == [f"--{option}"]:
        stop = ["--max-iterations", "0"]
    assert main([*begin, f"--{option}", text, *stop]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("greedystep: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    never_right = text in NO_NUMBERS or (numeric_options(COMMANDS[command])[option] and text in ("2.5", str(2**63)))
    if never_right:
        assert option.replace("-", "") in said.err.replace("-", "").replace("_", "")
        assert "got" in said.err


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with a run in it; nothing in it may change."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    yield tmp_path
    assert sorted(tmp_path.rglob("*")) == before


IN_SHORT = [(command, option) for command, option in OPTIONS if command != "fit" or option in OF_FITTING]


@pytest.mark.parametrize(("command", "option"), IN_SHORT)
def test_numbers_that_make_no_sense_are_answered_by_one_sentence(command, option, place, capsys):
    """A part of them, another for each option; the long test has all."""
    part = OPTIONS.index((command, option)) % 4
    for text in TEXTS[part::4]:
        refused(command, option, text, capsys)


@pytest.mark.long
@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_all_numbers_that_make_no_sense_are_answered_by_one_sentence(command, option, place, capsys):
    for text in TEXTS:
        refused(command, option, text, capsys)


@pytest.mark.parametrize(
    ("line", "sentence"),
    {
        "reproduce fig2 --only": "--only: expected at least one TASK, got none",
        "train toy/choice --options": "--options: expected at least one NAME=VALUE, got none",
        "plan grid-3x3 --out=": "--out: expected a path, got ''",
        "reproduce fig1 --out=": "--out: expected a path, got ''",
        "train --resume=": "--resume: expected a path, got ''",
        "bench returns --out=": "--out: expected a path, got ''",
        "train classic/cartpole --save-every nan": "--save-every: expected a finite number, got 'nan'",
        "train classic/cartpole --optimiser-epsilon inf": "--optimiser-epsilon: expected a finite number, got 'inf'",
        "train classic/cartpole --seed 4294967295 --seeds 2": "seeds: expected an integer from 0 to 4294967295",
        "train classic/cartpole --seeds 1e18": "seeds: expected an integer from 1 to 1000000",
        "train classic/cartpole --steps 3e9": "steps: expected an integer from 1 to 2147483647, got 3000000000",
        "plan chain-99999999999999999999": "model: expected an integer between -2^63 and 2^63, got",
    }.items(),
)
def test_what_else_is_refused(line, sentence, place, capsys):
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


# -- texts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["9007199254740993", "9_007_199_254_740_993", "9007199254740993e0"])
def test_whole_numbers_never_pass_through_float(text):
    assert checks.parse_int(text) == 2**53 + 1
    assert checks.parse_value(text) == 2**53 + 1


def test_a_huge_exponent_is_not_written_out():
    for text in ("1e400", "1e999999999", "-1e999999999", "9" * 10_000):
        with pytest.raises(ValueError, match=r"^expected an integer between -2\^63 and 2\^63, got .{,80}$"):
            checks.parse_int(text)
        assert checks.parse_value(text) == text  # for the check of the option to name


VALUES = {"5e6": 5_000_000, "1.5e3": 1500, "1.0": 1.0, "2e-1": 0.2, "none": None, "True": True, "1.0.15": "1.0.15"}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_values_of_options(text, value):
    found = checks.parse_value(text)
    assert found == value
    assert type(found) is type(value)


# -- checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, 5.0, 2.5, "5", None, math.nan, np.float64(5), np.array([5])])
def test_what_is_no_whole_number(value):
    with pytest.raises(ValueError, match=r"^steps: expected an integer from 1 to 10, got .{,80}$"):
        checks.check_int("steps", value, 1, 10)


def test_a_number_that_python_does_not_write_out_is_refused():
    with pytest.raises(ValueError, match="steps: expected an integer from 1 to 10, got a number of thousands of "):
        checks.check_int("steps", 10**5000, 1, 10)


@pytest.mark.parametrize("value", [5, np.int32(5), np.uint8(5), np.int64(5)])
def test_numpy_integers_are_whole_numbers(value):
    assert type(checks.check_int("steps", value)) is int


@pytest.mark.parametrize("value", [True, "0.5", None, math.nan, math.inf, 0.5j, [0.5], 10**400, -0.1, 1.1])
def test_what_is_no_share(value):
    with pytest.raises(ValueError, match=r"^epsilon: expected a number in \[0, 1\], got .{,80}$"):
        checks.check_float("epsilon", value, 0, 1)


# -- settings and options of the library ------------------------------------------------------------------------------

NUMBERS = [-1, 0, 2.5, math.nan, math.inf, -math.inf, 2**31, 2**63, 10**18, 10**400, True, "3", "", [], 1j]
NEVER = [math.nan, math.inf, -math.inf, 10**400, True, "3", "", 1j]


KINDS = {name: {kind, *get_args(kind)} for name, kind in get_type_hints(DQNConfig).items()}
SETTINGS = [name for name, kinds in KINDS.items() if {int, float} & kinds]
COUNTS = [name for name in SETTINGS if int in KINDS[name]]


def complaint(make: Any, **options: Any) -> str | None:
    """What is said about the options; None if they are taken."""
    try:
        make(**options)
    except (ValueError, MemoryError) as problem:
        return str(problem)
    return None


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_of_a_network_has_ends(name):
    for value in NUMBERS:
        said = complaint(DQNConfig, **{name: (value,) if name == "hidden" else value})
        if said is None:
            assert value not in NEVER
            assert name not in COUNTS or value not in (2.5, 2**31, 2**63, 10**18)
        else:
            assert said.startswith(f"{name}: ")
            assert len(said) < 200


def numeric(name: str) -> list[str]:
    defaults = {option: found.default for option, found in signature(envs.factory(name)).parameters.items()}
    numbers = [option for option, default in defaults.items() if type(default) in (int, float)]
    return [*numbers, "horizon" if "horizon" in defaults else "limit"]


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in envs.names() for option in numeric(name)])
def test_every_option_of_an_environment_has_ends(name, option):
    for value in NUMBERS:
        said = complaint(partial(envs.make, name), **{option: value})
        if said is None:
            assert value not in NEVER
        else:
            assert option in said
            assert len(said) < 200


@pytest.mark.parametrize("method", METHODS)
def test_every_option_of_a_tabular_method_has_ends(method):
    for option in set(METHODS[method][1]) - {"form"}:
        for value in NEVER:
            with pytest.raises(ValueError, match=rf"^{option}: expected .{{,90}}, got .{{,80}}$"):
                parameters_of(method, {option: value})

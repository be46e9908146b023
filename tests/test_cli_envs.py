"""`greedystep envs` and `greedystep watch`."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from greedystep import envs
from greedystep.cli import main
from greedystep.cli.args import parse_options
from greedystep.envs.description import describe


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    return tmp_path


# -- envs -------------------------------------------------------------------------------------------------------------


def test_the_table_has_every_environment(capsys):
    assert main(["envs"]) == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    table = {row[0]: row[1:] for row in rows if row}
    assert sorted(table) == envs.names()
    assert table["minatar/breakout"] == ["10 x 10 x 4 bool", "6: none, left, up, right, down, fire", "yes", "none"]
    assert table["toy/n-horizon"][2:] == ["no", "1,000"]
    assert table["toy/bomb"][2] == "yes"


def test_one_environment_is_shown_with_its_options(capsys):
    assert main(["envs", "minatar/breakout"]) == 0
    shown = capsys.readouterr().out
    assert "greedystep/minatar-breakout-v1" in shown
    for option in ("sticky", "ramping", "actions", "version", "limit"):
        assert re.search(rf"│ {option} +│ \S+ +│ \S", shown), option
    assert main(["envs", "minatar/brekout"]) == 2
    assert "did you mean 'minatar/breakout'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", envs.names())
def test_descriptions_are_those_of_what_is_made(name):
    described = describe(name)
    assert described.about
    for option in described.options:
        envs.make(name, **{option.name: option.default})


# -- watch ------------------------------------------------------------------------------------------------------------


def test_a_film(capsys, tmp_path):
    words = ["--out", "new/a.gif", "--steps", "5", "--scale", "0.25", "--fps", "20", "--options", "sticky=0"]
    assert main(["watch", "minatar/breakout", *words]) == 0
    assert "Written: new/a.gif" in capsys.readouterr().out
    with Image.open("new/a.gif") as image:
        assert image.size == (60, 60)
        assert image.n_frames == 6  # pyright: ignore[reportAttributeAccessIssue]
        assert image.info["duration"] == 50
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.gif"]


def test_a_pipe_gets_a_line_a_step(capsys):
    assert main(["watch", "minatar/breakout", "--episodes", "2", "--seed", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "episode 1  step 0  start  reward 0  return 0"
    assert sum(line.endswith("terminated") for line in lines) == 2
    assert lines[-1].startswith("episode 2 ")
    assert main(["watch", "minatar/breakout", "--policy", "random", "--episodes", "2", "--seed", "4"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["minatar/pacman"], "name: 'minatar/pacman' is not one of"),
        (["minatar/breakout", "--options", "sticky"], "options: expected NAME=VALUE, got 'sticky'"),
        (["minatar/breakout", "--options", "sticky=0", "sticky=1"], "options: sticky is given twice"),
        (["minatar/breakout", "--options", "speed=3"], "speed: minatar/breakout has no such option"),
        (["minatar/breakout", "--options", "sticky=much"], "sticky: expected a number in [0, 1]"),
        (["minatar/breakout", "--policy", "agent"], "policy: only a run has an agent; minatar/breakout is played at"),
        (["minatar/breakout", "--steps", "0"], "steps: expected an integer >= 1, got 0"),
        (
            ["minatar/breakout", "--episodes", "-1"],
            "episodes: expected an integer >= 1, got -1",
        ),
        (["minatar/breakout", "--fps", "0"], "fps: expected a number in (0, 1000], got 0"),
        (["minatar/breakout", "--scale", "100"], "scale: expected a number in [0.05, 20], got 100"),
        (["minatar/breakout", "--seed", "-1"], "seed: expected an integer from 0 to 4294967295, got -1"),
        (["minatar/breakout", "--out", "a.avi"], "out: expected a file that ends in .gif or .mp4, got 'a.avi'"),
        (["minatar/breakout", "--out", "a.gif", "--fps", "60"], "fps: a GIF shows at most 50 frames per second"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(words, answer, capsys, tmp_path):
    assert main(["watch", *words]) == 2
    assert answer in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_options_are_read_as_people_type_them():
    assert parse_options(["a=1", "b=0.5", "c=true", "d=None", "e=1.0.10", "f="]) == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": None,
        "e": "1.0.10",
        "f": "",
    }


def test_ctrl_c_stops_a_film_without_a_trace(tmp_path):
    command = [sys.executable, "-m", "greedystep.cli", "watch", "minatar/breakout", "--steps", "1e6", "--out", "a.gif"]
    film = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if list(tmp_path.iterdir()):
                break
            time.sleep(0.1)
        film.send_signal(signal.SIGINT)
        _, said = film.communicate(timeout=60)
    finally:
        film.kill()
    assert film.returncode == 130
    assert said.endswith("greedystep: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_the_live_view_and_restores_the_terminal():
    ours, theirs = pty.openpty()
    surroundings = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80", "LINES": "30"}
    command = [sys.executable, "-m", "greedystep.cli", "watch", "minatar/breakout", "--steps", "1e6"]
    view = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=surroundings)
    os.close(theirs)
    text, asked, until = "", False, time.monotonic() + 120
    try:
        while select.select([ours], [], [], 60)[0] and time.monotonic() < until:
            try:
                text += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            if "▀" in text and "step 2" in text and not asked:
                view.send_signal(signal.SIGINT)
                asked = True
        assert view.wait(60) == 130
    finally:
        view.kill()
        os.close(ours)
    assert text.rindex("\x1b[?1049l") > text.rindex("▀")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    text = text.removesuffix("\x1b[0m")  # of colorama, which Numba starts where it is installed
    assert text.endswith("greedystep: interrupted\r\n")

"""Pictures of states, films of them, and the live view."""

import io
import shutil
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from greedystep import envs
from greedystep.envs.core import Environment, ObservationSpec, TimeLimit
from greedystep.envs.rendering import fitting_height, frames_per_second, grids, render, scenes
from greedystep.envs.rendering.canvas import PANEL, WHITE, Canvas, blend
from greedystep.envs.rollout import PolicyOutput, describe_step, play, random_policy
from greedystep.report import video

NAMES = envs.names()


def colours(frame):
    return {"#" + bytes(colour.tolist()).hex() for colour in np.unique(frame.reshape(-1, 3), axis=0)}


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_has_a_picture_that_shows_what_changes(name):
    env = envs.make(name)
    moments = list(play(env, random_policy(env), 1, steps=12))
    frames = [render(env, moment.state) for moment in moments]
    assert {(frame.dtype, frame.shape) for frame in frames} == {(np.dtype(np.uint8), frames[0].shape)}
    assert frames[0].shape[0] == 240
    assert any((frame != frames[0]).any() for frame in frames)
    assert 1 <= frames_per_second(env) <= 60


def test_every_channel_of_minatar_has_its_own_look():
    for name in NAMES:
        if name.startswith("minatar/"):
            looks = grids.LOOKS[name.split("/")[1]]
            assert len(looks) == envs.make(name).observation.shape[-1]
            assert len(set(looks)) == len(looks)


def test_a_lit_cell_of_minatar_is_seen_where_it_is():
    env = envs.make("minatar/breakout")
    state = env.reset(jax.random.key(0))
    frame = render(env, state, 100)
    paddle, _, _, brick = grids.LOOKS["breakout"]
    seen = np.asarray(env.observe(state))
    for channel, look in ((0, paddle), (3, brick)):
        for row, column in np.argwhere(seen[:, :, channel] & ~seen[:, :, 1] & ~seen[:, :, 2]):
            assert "#" + bytes(frame[10 * row + 5, 10 * column + 5].tolist()).hex() == look.colour
    (ball,) = np.argwhere(seen[:, :, 1])
    assert WHITE in colours(frame[10 * ball[0] : 10 * ball[0] + 10, 10 * ball[1] : 10 * ball[1] + 10])
    assert render(TimeLimit(env, 5), TimeLimit(env, 5).reset(jax.random.key(0)), 100).tolist() == frame.tolist()


def test_heights_are_what_was_asked_for_and_fit():
    env = envs.make("minatar/breakout")
    state = env.reset(jax.random.key(0))
    assert render(env, state, 37).shape == (37, 37, 3)
    with pytest.raises(ValueError, match="height: expected at least 1 pixel, got 0"):
        render(env, state, 0)
    assert fitting_height(env, 48, 100) == 40
    assert fitting_height(env, 48, 25) == 20
    assert fitting_height(env, 8, 100) == 8
    assert fitting_height(TimeLimit(env, 3), 1, 1) == 2


@dataclass(frozen=True)
class Shown(Environment):
    """Any observation at all, from 0 to 1."""

    shape: tuple[int, ...]
    name = "shown"  # pyright: ignore[reportAssignmentType]

    @property
    def observation(self):
        return ObservationSpec(self.shape, np.dtype(np.float32), 0.0, 1.0)

    def observe(self, state):
        return state

    def _no_game(self, *_):
        raise AssertionError("only its observation is looked at")

    start = advance = draw = draw_start = _no_game  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (3, 4, 9), (0,)])
def test_what_is_unknown_is_drawn_by_its_observation(shape):
    env = Shown(shape)
    empty, full = (render(env, np.full(shape, value), 60) for value in (0, 1))
    assert empty.shape == full.shape
    assert (empty != full).any() == (0 not in shape)


def test_endless_ranges_have_a_place_too():
    spec = ObservationSpec((3,), np.dtype(np.float32), [-np.inf, -1, -3.4e38], [np.inf, 1, 3.4e38])
    assert grids.shares(np.array([0.0, -1.0, 0.0]), spec).tolist() == [0.5, 0, 0.5]
    assert grids.shares(np.array([1e30, 5.0, -1e30]), spec) == pytest.approx([1, 1, 0])


def test_shapes_land_on_their_pixels():
    canvas = Canvas(10, 5, 4, ground="#000000")
    canvas.box(1, 1, 3, 2, "#ffffff")
    frame = canvas.array()
    assert frame.shape == (20, 40, 3)
    assert (frame[4:8, 4:12] == 255).all()
    assert frame.sum() == 4 * 8 * 3 * 255
    canvas.box(5, 5, 4, 4, "#ffffff")  # inside out: nothing
    assert canvas.array().sum() == frame.sum()
    assert blend("#000000", "#ffffff", 0.5) == "#808080"
    assert PANEL in colours(render(Shown((3, 4)), np.zeros((3, 4)), 60))


# -- playing ----------------------------------------------------------------------------------------------------------


def test_play_counts_steps_episodes_and_rewards():
    env = envs.make("minatar/breakout", limit=4)
    moments = list(play(env, random_policy(env), 0, steps=10))
    assert [moment.step for moment in moments] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2]
    assert [moment.end for moment in moments].count("truncated") == 2
    moments = list(play(env, random_policy(env), 0, episodes=2))
    assert [(moment.episode, moment.end) for moment in moments if moment.end] == [(1, "truncated"), (2, "truncated")]
    assert all(moment.episode_return >= moment.reward for moment in moments)
    again = list(play(env, random_policy(env), 0, episodes=2))
    assert [moment.decision for moment in again] == [moment.decision for moment in moments]


def test_a_policy_sees_the_state_it_acts_in_and_wrong_actions_are_named():
    env = envs.make("minatar/breakout", sticky=0.0)
    asked = []

    def left(key, state, observation):
        asked.append(np.asarray(observation))
        assert np.array_equal(observation, env.observe(state))
        return PolicyOutput(1, ("going left",))

    moments = list(play(env, left, 0, steps=3))
    assert [int(np.argwhere(seen[9, :, 0])[0, 0]) for seen in asked] == [4, 3, 2]
    assert describe_step(env, moments[0]) == "episode 1  step 0  start  reward 0  return 0"
    assert describe_step(env, moments[1]) == "episode 1  step 1  left  reward 0  return 0"
    with pytest.raises(ValueError, match="action: "):
        list(play(env, lambda *_: PolicyOutput(6), 0, steps=1))


# -- films ------------------------------------------------------------------------------------------------------------

FRAMES = [np.full((11, 21, 3), (20 * i, 0, 255), np.uint8) for i in range(5)]


def test_a_gif_has_every_frame_and_the_right_speed(tmp_path):
    video.write_video(tmp_path / "a.gif", iter(FRAMES), 20)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 5  # pyright: ignore[reportAttributeAccessIssue]
        assert image.size == (21, 11)
        assert image.info["loop"] == 0
        for number, frame in enumerate(FRAMES):
            image.seek(number)
            assert image.info["duration"] == 50
            assert (np.asarray(image.convert("RGB")) == frame).all()


def test_a_film_that_breaks_off_leaves_nothing(tmp_path):
    def broken():
        yield FRAMES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        video.write_video(tmp_path / "a.gif", broken(), 20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_an_mp4_is_written_or_nothing(tmp_path):
    video.write_video(tmp_path / "a.mp4", iter(FRAMES), 20)
    assert b"ftyp" in (tmp_path / "a.mp4").read_bytes()[:32]

    def broken():
        yield FRAMES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        video.write_video(tmp_path / "b.mp4", broken(), 20)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_ffmpeg_gets_every_frame_and_its_complaint_is_passed_on(tmp_path, monkeypatch):
    """A stand-in for ffmpeg that keeps what it is sent: its last argument is the file to write."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat >"$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    video.write_video(tmp_path / "a.mp4", iter(FRAMES), 20)
    assert (tmp_path / "a.mp4").read_bytes() == np.stack(FRAMES).tobytes()
    program.write_text("#!/bin/sh\necho no such coder >&2\nexit 1\n")
    with pytest.raises(OSError, match="ffmpeg failed: no such coder"):
        video.write_video(tmp_path / "b.mp4", iter(FRAMES), 20)
    assert not (tmp_path / "b.mp4").exists()


def test_films_that_cannot_be_made_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"out: expected a file that ends in \.gif or \.mp4, got 'a\.png'"):
        video.check_video(tmp_path.joinpath("a.png").relative_to(tmp_path), 10)
    with pytest.raises(ValueError, match="fps: a GIF shows at most 50 frames per second, got 60"):
        video.check_video(tmp_path / "a.gif", 60)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="needs the program ffmpeg, which is not installed"):
        video.check_video(tmp_path / "a.mp4", 60)


# -- the terminal -----------------------------------------------------------------------------------------------------


def test_half_blocks_show_two_rows_a_line():
    frame = np.zeros((4, 3, 3), np.uint8)
    frame[0, 0] = (255, 0, 0)
    frame[1, 0] = (0, 255, 0)
    out = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=20)
    out.print(video.half_blocks(frame))
    lines = out.file.getvalue().splitlines()
    assert len(lines) == 2
    assert [line.count("▀") for line in lines] == [3, 3]
    assert lines[0].startswith("\x1b[38;2;255;0;0;48;2;0;255;0m▀")


def test_the_live_view_leaves_the_terminal_as_it_was():
    out = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=40, height=10)

    def interrupted():
        with video.live(out, 1000) as show:
            show(FRAMES[0][:10], ["first", "panel"])
            show(FRAMES[1][:10], ["second"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = out.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert text.index("\x1b[?1049h") < text.index("first") < text.index("second") < text.index("\x1b[?1049l")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_pipe_is_no_place_for_a_live_view():
    assert not video.can_show(Console(file=io.StringIO()))
    assert not video.can_show(Console(file=io.StringIO(), force_terminal=True, no_color=True, color_system=None))


# -- toy tasks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 3, 7])
def test_watches_are_read_back_as_the_task_counts_them(length):
    """Every state, in the order in which the task numbers them."""
    expected = [(0, False, brand, 0, 0) for brand in range(4)]
    for passed in range(1, length):
        counts = range(passed + 1)
        expected += [
            (passed, repaired, brand, jams, tyres)
            for repaired in (False, True)
            for brand in range(4)
            for jams in counts
            for tyres in counts
        ]
    assert [scenes.watch_state(number) for number in range(len(expected))] == expected
    assert len(expected) == envs.make_task("toy/watch-repair", length=length).num_states


@pytest.mark.parametrize(("name", "side"), [("grid-world", 10), ("trace-back", 15), ("bomb", 31), ("choice", 0)])
def test_grids_are_as_large_as_the_task_says(name, side):
    assert grids.toy_side(envs.make(f"toy/{name}")) == side


@pytest.mark.parametrize("name", ["grid-world", "trace-back", "bomb", "choice", "n-horizon"])
def test_every_state_of_a_small_task_can_be_drawn_on_the_board(name):
    options = {"grid-world": {"size": 3}, "trace-back": {"delay": 4}, "bomb": {"delay": 1, "side": 3}}.get(name, {})
    env = envs.make(f"toy/{name}", **options)
    state = env.reset(jax.random.key(0))
    pictures = set()
    for number in range(env.task.num_states):
        at = state._replace(number=number)
        if grids.toy_side(env):
            assert all(0 <= cell < grids.toy_side(env) ** 2 for cell, _ in grids.toy_marks(env, number))
        pictures.add(render(env, at, 120).tobytes())
    assert len(pictures) >= 9

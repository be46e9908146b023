"""Write frames as a GIF or MP4 video, or show them live on a terminal with two pixels per character."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.color import Color
from rich.console import Console, Group
from rich.live import Live
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

from greedystep.io import atomic_write

SUFFIXES = (".gif", ".mp4")
GIF_FASTEST = 50
"""Largest number of frames per second of a GIF: delays are hundredths of a second, and viewers ignore less than two."""


def check_video(path: Path, fps: float) -> None:
    """Raise ValueError if a video with this suffix and speed cannot be written here."""
    if path.suffix not in SUFFIXES or path.is_dir():
        raise ValueError(f"out: expected a file that ends in {' or '.join(SUFFIXES)}, got {str(path)!r}")
    if path.suffix == ".gif" and fps > GIF_FASTEST:
        raise ValueError(f"fps: a GIF shows at most {GIF_FASTEST} frames per second, got {fps:g}")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("out: an MP4 file needs the program ffmpeg, which is not installed; a GIF file does not")


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    """Write frames, uint8 [H, W, 3] of one size, to a video file, completely or not at all."""
    check_video(path, fps)
    with atomic_write(path) as file:
        if path.suffix == ".gif":
            images = (Image.fromarray(frame).quantize(dither=Image.Dither.NONE) for frame in frames)
            each = 10 * round(100 / fps)  # milliseconds
            next(images).save(file, "GIF", save_all=True, append_images=images, duration=each, loop=0)
        else:
            _encode(iter(frames), fps, file.name)


def _encode(frames: Iterator[np.ndarray], fps: float, name: str) -> None:
    first = next(frames)
    height, width = first.shape[:2]
    taken = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-")
    even = ("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p")  # supported by every player
    command = ("ffmpeg", "-loglevel", "error", "-y", *taken, *even, "-f", "mp4", name)
    # A session of its own: Ctrl-C is for us, and we end it.
    coder = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert coder.stdin is not None
    try:
        for frame in chain([first], frames):
            coder.stdin.write(np.ascontiguousarray(frame).tobytes())
    except BrokenPipeError:
        pass  # its error message is read below
    except BaseException:
        coder.kill()
        coder.wait()
        raise
    _, said = coder.communicate()
    if coder.returncode:
        raise OSError(f"ffmpeg failed: {said.decode(errors='replace').strip()}")


# -- on the terminal --------------------------------------------------------------------------------------------------


def can_show(console: Console) -> bool:
    """Return whether the console can show a live view: a terminal with colours that can print half blocks (▀)."""
    return console.is_terminal and console.color_system is not None and console.encoding.startswith("utf")


@contextmanager
def live(console: Console, fps: float) -> Iterator[Any]:
    """Yield `show(frame, words)`, which replaces the frame on the terminal, at `fps` frames per second.

    The terminal is restored at the end, also after an exception.
    """
    due = time.perf_counter()

    def show(frame: np.ndarray, words: Iterable[str]) -> None:
        nonlocal due
        time.sleep(max(0.0, due - time.perf_counter()))
        due = max(due, time.perf_counter()) + 1 / fps
        view.update(Group(half_blocks(frame), Text("\n".join(words))), refresh=True)

    with Live(console=console, screen=True, auto_refresh=False) as view:
        yield show
        time.sleep(max(0.0, due - time.perf_counter()))


def half_blocks(frame: np.ndarray) -> Segments:
    """Return a frame as lines of text, two pixel rows each: ▀ in the upper pixel's colour on the lower one's."""
    upper, lower = frame[0::2], frame[1::2]
    segments = []
    for above, below in zip(upper, lower, strict=True):
        pairs = zip(map(tuple, above.tolist()), map(tuple, below.tolist()), strict=True)
        for (front, back), run in groupby(pairs):
            style = Style(color=Color.from_rgb(*front), bgcolor=Color.from_rgb(*back))
            segments.append(Segment("▀" * len(list(run)), style))
        segments.append(Segment.line())
    return Segments(segments)

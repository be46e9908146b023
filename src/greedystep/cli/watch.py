"""`greedystep watch` shows an environment or a trained agent, live on the terminal or as a video."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from greedystep import signals
from greedystep.checks import check_float, check_int, check_seed
from greedystep.cli.args import (
    NO_HINT,
    Count,
    EnvOptions,
    MaybeCount,
    MaybePath,
    MaybeReal,
    Real,
    answering_bad_input,
    check_writable,
    parse_options,
    print_note,
)

if TYPE_CHECKING:
    from greedystep.envs.rollout import RolloutStep

DEFAULT_STEPS = 200
COMPILING = 2
"""Steps within which all is compiled: the first moment of an episode and its first step."""
FILES = (".agent", ".npz", ".onnx")
"""Endings of files that play, which are no environments where they are missing."""
LIVE_ROWS = 48
"""Height of the live view in pixels, two per line of text."""


@dataclass(frozen=True)
class Watch:
    """Watch random play or an agent in an environment: live on the terminal, or as a video."""

    # Name of an environment (`greedystep envs` lists them), played at random; or the folder of a run of `greedystep
    # train`, a file of `greedystep fit` or an .npz file of `greedystep export --policy`, played by its agent, with its
    # action values and, but for an exported policy, how far its return looks ahead.
    game: Annotated[Positional[str], arg(metavar="ENV|RUN")]

    # Who plays: random, or a run's agent (default: the agent of a run, else random).
    policy: Annotated[Literal["random", "agent"] | None, arg(metavar="{random,agent}", help_behavior_hint="")] = None

    # Let the pretrained agent of the environment play; `greedystep envs` shows which have one.
    pretrained: bool = False

    # For an agent: share of random actions (default: 0, always the best one).
    epsilon: MaybeReal = None

    # For a run with several seeds: which one of them, counted from 0 (default: 0).
    lane: MaybeCount = None

    # For an agent: play in this environment instead of its own, a name or a Gymnasium id (default: its own). Where its
    # own is "module:id", name it: a module that only a file names is never imported.
    env: Annotated[str | None, NO_HINT] = None

    # Write a video to this .gif or .mp4 file (MP4 needs ffmpeg; default: show it on the terminal).
    out: MaybePath = None

    # Stop after this many steps (default: 200 where --episodes is not given).
    steps: MaybeCount = None

    # Stop after this many episodes (default: no limit).
    episodes: MaybeCount = None

    # Seed of all random numbers.
    seed: Count = 0

    # Steps per second (default: depends on the game).
    fps: MaybeReal = None

    # Size of the picture: 1 is 240 pixels high in a video, 24 lines on the terminal.
    scale: Real = 1.0

    # Options of the environment, such as sticky=0 or limit=none: `greedystep envs NAME` shows what it has. A run
    # keeps its own where --env is not given.
    options: EnvOptions = ()

    def run(self) -> int:
        from rich.console import Console

        from greedystep.runs.progress import say, working

        with answering_bad_input(), working(f"preparing {self.game}"):
            from greedystep.envs.rendering import frames_per_second
            from greedystep.report import video

            for name, value in (("steps", self.steps), ("episodes", self.episodes)):
                if value is not None:
                    check_int(name, value)
            check_seed(self.seed)
            if self.fps is not None:
                check_float("fps", self.fps, 0, 1000, above=True)
            check_float("scale", self.scale, 0.05, 20)
            env, moments = self._game()
            fps = frames_per_second(env) if self.fps is None else self.fps
            if self.out is not None:
                check_writable(self.out.parent)
                video.check_video(self.out, fps)
            first = list(islice(moments, COMPILING))
        moments = signals.interruptible(chain(first, moments))
        console = Console()
        if self.out is not None:
            with working("playing") as tell:
                video.write_video(self.out, self._frames(env, _counted(moments, tell)), fps)
            say(console, f"Written: {self.out}")
        elif video.can_show(console):
            self._show(console, env, moments, fps)
        else:
            for moment in moments:
                say(console, "  ".join(self._words(env, moment)))
        return 0

    def _game(self) -> tuple[Any, Iterator[RolloutStep]]:
        """Return the environment, and an iterator over the steps played in it."""
        from greedystep import envs
        from greedystep.agents import is_policy, is_table
        from greedystep.envs.rollout import play, random_policy

        steps = DEFAULT_STEPS if self.steps is None and self.episodes is None else self.steps
        length: Any = {"steps": steps, "episodes": self.episodes}
        if self.pretrained:
            return self._pretrained(length)
        if self.game not in envs.names() and (path := Path(self.game)).exists():
            if is_policy(path):
                return self._exported(path, length)
            if self.options and self.env is None:
                raise ValueError("options: a run keeps its own")
            return self._table(path, length) if is_table(path) else self._networks(path, length)
        if not envs.is_own_name(self.game) and Path(self.game).suffix in FILES:
            raise FileNotFoundError(f"no such file: {self.game}")
        for name, value in (("epsilon", self.epsilon), ("lane", self.lane), ("env", self.env)):
            if value is not None:
                raise ValueError(f"{name}: only a run has that; {self.game} is played at random")
        if self.policy == "agent":
            raise ValueError(f"policy: only a run has an agent; {self.game} is played at random")
        if not envs.is_own_name(self.game):
            from greedystep.envs.host import HostEnvironment

            env, play_in = self._playground(HostEnvironment(self.game, **parse_options(self.options)))
            return env, play_in(env, random_policy(env), self.seed, **length)
        env = envs.make(self.game, **parse_options(self.options))
        return env, play(env, random_policy(env), self.seed, **length)

    def _networks(self, path: Path, length: dict[str, Any]) -> tuple[Any, Iterator[RolloutStep]]:
        """Return the environment of an agent with networks, and an iterator over the steps that it plays."""
        from greedystep.deep.dqn_run import trained
        from greedystep.deep.env_spec import as_environment, named_environment, same_spaces
        from greedystep.deep.q_annotations import QAnnotator
        from greedystep.envs.host import LoggedEnvironment
        from greedystep.envs.rollout import random_policy

        trainer = trained(path, self.env)
        if self.options and self.env is not None:
            own = same_spaces(trainer.env, as_environment(self.env, **parse_options(self.options)))
        elif self.env is not None:
            own = named_environment(trainer.env, self.env)
        elif isinstance(trainer.env, LoggedEnvironment):
            raise ValueError(f"env: {path} learned from {trainer.env.name} alone; say where it plays with --env ID")
        else:
            own = trainer.env
        env, play_in = self._playground(own)
        player = QAnnotator(trainer, self.lane or 0, self.epsilon or 0.0, env)
        if self.policy == "random":
            return env, play_in(env, random_policy(env), self.seed, **length)
        if (heads := trainer.head_scores(self.lane or 0)) is not None:
            print_note(heads.explain())
        return env, player.annotate(play_in(env, player.policy, self.seed, **length))

    def _exported(self, path: Path, length: dict[str, Any]) -> tuple[Any, Iterator[RolloutStep]]:
        """Return the environment of an exported policy, and an iterator over the steps that it plays."""
        from greedystep.cli.exported_policy import read_policy
        from greedystep.cli.q_player import QPlayer

        for name, value in (("policy", self.policy), ("lane", self.lane)):
            if value is not None:
                raise ValueError(f"{name}: {path} is an exported policy, which plays; leave it out")
        policy, found = read_policy(path, self.env, **parse_options(self.options))
        env, play_in = self._playground(found)
        player, epsilon = QPlayer.of_policy(policy, env), check_float("epsilon", self.epsilon or 0.0, 0, 1)
        return env, player.annotate(play_in(env, player.policy(epsilon), self.seed, **length))

    def _pretrained(self, length: dict[str, Any]) -> tuple[Any, Iterator[RolloutStep]]:
        """Return the environment of a pretrained agent, and an iterator over the steps that it plays."""
        from greedystep import envs, pretrained
        from greedystep.cli.q_player import QPlayer
        from greedystep.envs.rollout import play

        for name, value in (("policy", self.policy), ("lane", self.lane)):
            if value is not None:
                raise ValueError(f"{name}: a pretrained agent plays, leave it out")
        if self.env is not None:
            raise ValueError("env: a pretrained agent plays in its own environment")
        policy, card = pretrained.load_pretrained(self.game), pretrained.card(self.game)
        env = envs.make(self.game, **(card["options"] | parse_options(self.options)))
        if (env.observation.shape, env.num_actions) != (policy.shape, policy.num_actions):
            raise ValueError("options: the pretrained agent needs the same observations and actions as in training")
        has_score = self._has_score(env)
        print_note(
            pretrained.describe(card) if has_score else f"{self.game}, pretrained; its score is of other options"
        )
        player = QPlayer.of_policy(policy, env)
        epsilon = check_float("epsilon", self.epsilon or 0.0, 0, 1)
        return env, player.annotate(play(env, player.policy(epsilon), self.seed, **length))

    def _has_score(self, env: Any) -> bool:
        """Whether the pretrained agent's score is of this environment, whose options may be others."""
        from greedystep import envs, pretrained

        return repr(env) == repr(envs.make(self.game, **pretrained.card(self.game)["options"]))

    def _playground(self, env: Any) -> tuple[Any, Any]:
        """Return the environment to show, and the function that plays episodes in it."""
        from greedystep.envs.host import HostEnvironment
        from greedystep.envs.host_rollout import play_on_host, with_images
        from greedystep.envs.rollout import play

        return (with_images(env), play_on_host) if isinstance(env, HostEnvironment) else (env, play)

    def _table(self, path: Path, length: dict[str, Any]) -> tuple[Any, Iterator[RolloutStep]]:
        """Return the environment of a tabular agent, and an iterator over the steps that it plays."""
        from greedystep.agents import load
        from greedystep.cli.q_player import QPlayer
        from greedystep.envs.host import HostEnvironment
        from greedystep.envs.rollout import random_policy

        if self.lane:
            raise ValueError("lane: a table has one")
        if self.options:
            raise ValueError("options: a run keeps its own")
        agent: Any = load(path, self.env)
        task = agent.task
        env, play_in = self._playground(task.as_env() if hasattr(task, "as_env") else HostEnvironment(task.name))
        if self.policy == "random":
            return env, play_in(env, random_policy(env), self.seed, **length)
        player = QPlayer.of_table(agent)
        return env, player.annotate(play_in(env, player.policy(self.epsilon or 0.0), self.seed, **length))

    def _frames(self, env: Any, moments: Iterator[RolloutStep]) -> Iterator[Any]:
        from greedystep.envs.rendering import HEIGHT, add_q_panel

        for moment in moments:
            frame = self._image(env, moment, round(HEIGHT * self.scale))
            yield frame if moment.annotation is None else add_q_panel(frame, env, moment.annotation)

    def _words(self, env: Any, moment: RolloutStep) -> list[str]:
        from greedystep.envs.rollout import describe_annotation, describe_step

        text = moment.decision.text if moment.decision else ()
        values = [] if moment.annotation is None else describe_annotation(env, moment.annotation)
        return [describe_step(env, moment), *text, *values]

    def _show(self, console: Any, env: Any, moments: Iterator[RolloutStep], fps: float) -> None:
        from greedystep.report.video import live

        caption = []
        if self.pretrained and self._has_score(env):
            from greedystep import pretrained

            caption = [f"pretrained, mean return {pretrained.card(self.game)['score']['mean']:.4g}"]
        with live(console, fps) as show:
            for moment in moments:
                words = [*self._words(env, moment), *caption]
                rows = min(round(LIVE_ROWS * self.scale), 2 * (console.height - len(words)))
                show(self._image(env, moment, rows, console.width), words)

    def _image(self, env: Any, moment: RolloutStep, rows: int, columns: int | None = None) -> Any:
        from greedystep.envs.host import HostEnvironment
        from greedystep.envs.host_rollout import scaled
        from greedystep.envs.rendering import fitting_height, render

        if isinstance(env, HostEnvironment):
            height, width, _ = moment.state.image.shape
            most = rows if columns is None else min(rows, columns * height // width)
            return scaled(moment.state.image, max(2, most // 2 * 2))
        return render(env, moment.state, rows if columns is None else fitting_height(env, rows, columns))


def _counted(moments: Iterator[RolloutStep], tell: Callable[[str], None]) -> Iterator[RolloutStep]:
    """Yield the moments, and tell how many there were."""
    for number, moment in enumerate(moments):
        tell(f"playing, step {number}")
        yield moment

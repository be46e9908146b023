"""Episodes step by step, for the eye: a policy plays, and every moment of it can be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from greedystep.envs.core import Environment, State


class Choice(NamedTuple):
    """What a policy does, and what it has to say about it."""

    action: int
    panel: tuple[str, ...] = ()
    """Lines of text under the live picture."""


Policy = Callable[[jax.Array, State, Any], Choice]
"""Key, state, observation -> choice."""


class Thought(NamedTuple):
    """What an agent makes of a state."""

    values: tuple[float, ...]
    """Of each action."""
    action: int | None
    """What it does next; None where the episode ends."""
    target: float | None = None
    """The return that it would learn from for this action, known in hindsight."""
    lookahead: int | None = None
    """The number of rewards in that return; None where it mixes all lengths."""


class Moment(NamedTuple):
    """A state, and how it came about."""

    episode: int
    """From 1."""
    step: int
    """Steps taken in this episode."""
    state: State
    choice: Choice | None
    """What led here; None at the start of an episode."""
    reward: float
    total: float
    """All rewards of this episode so far."""
    end: str
    """"terminated", "truncated", or nothing while the episode goes on."""
    thought: Thought | None = None
    """About this state, from a player who tells."""


def random_policy(env: Environment) -> Policy:
    """Every action with the same probability."""
    return lambda key, state, observation: Choice(int(jax.random.randint(key, (), 0, env.num_actions)))


def play(
    env: Environment, policy: Policy, seed: int, *, steps: int | None = None, episodes: int | None = None
) -> Iterator[Moment]:
    """Play episode after episode, until so many steps or so many whole episodes are done."""
    restart, step_once, observe = jax.jit(env.restart), jax.jit(env.step), jax.jit(env.observe)
    key, use = jax.random.split(jax.random.key(seed))
    moment = Moment(1, 0, env.reset(use), None, 0.0, 0.0, "")
    yield moment
    done = 0
    while steps is None or done < steps:
        if moment.end:
            if moment.episode == episodes:
                return
            key, use = jax.random.split(key)
            moment = Moment(moment.episode + 1, 0, restart(use, moment.state), None, 0.0, 0.0, "")
            yield moment
        key, to_choose, to_step = jax.random.split(key, 3)
        choice = policy(to_choose, moment.state, observe(moment.state))
        env.check_action(choice.action)
        state, step = step_once(to_step, moment.state, choice.action)
        end = "terminated" if step.terminated else "truncated" if step.truncated else ""
        reward = float(step.reward)
        moment = Moment(moment.episode, moment.step + 1, state, choice, reward, moment.total + reward, end)
        done += 1
        yield moment


def in_words(env: Environment, moment: Moment) -> str:
    """One line about a moment."""
    action = "start" if moment.choice is None else env.action_names[moment.choice.action]
    told = f"episode {moment.episode}  step {moment.step}  {action}  reward {moment.reward:g}  return {moment.total:g}"
    return f"{told}  {moment.end}".rstrip()


def thought_in_words(env: Environment, thought: Thought) -> list[str]:
    """The action values, that of the next action marked, and how far its return looks."""
    marks = ["▸" if action == thought.action else " " for action in range(len(thought.values))]
    named = zip(marks, env.action_names, thought.values, strict=True)
    lines = ["Q " + " ".join(f"{mark}{name} {value:.3g}" for mark, name, value in named)]
    if thought.target is not None:
        chosen = "" if thought.lookahead is None else f"n {thought.lookahead}  "
        lines.append(f"{chosen}target {thought.target:.3g}")
    return lines

"""Play episodes step by step on the host, to be shown or printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from greedystep.envs.core import Environment, State


class PolicyOutput(NamedTuple):
    """The action that a policy chose, and text to show with it."""

    action: int
    text: tuple[str, ...] = ()  # lines under the live image


Policy = Callable[[jax.Array, State, Any], PolicyOutput]  # function of key, state and observation


class QAnnotation(NamedTuple):
    """Q-values of an agent in a state, and the learning target of the action it takes there."""

    values: tuple[float, ...]  # Q(s, a) per action
    action: int | None  # the action taken next; None where the episode ends
    target: float | None = None  # the training target of that action, known after the episode
    lookahead: int | None = None  # the number of rewards in that target; None where it mixes all lengths


class RolloutStep(NamedTuple):
    """A state of an episode, with the action and reward that led to it."""

    episode: int  # number of the episode, from 1
    step: int  # steps taken in this episode
    state: State
    decision: PolicyOutput | None  # the policy's output that led here; None in the first state of an episode
    reward: float
    episode_return: float  # sum of the rewards of this episode so far
    end: str  # "terminated", "truncated", or empty while the episode goes on
    annotation: QAnnotation | None = None  # action values in this state, if the player provides them


def random_policy(env: Environment) -> Policy:
    """Return the policy that draws actions uniformly at random."""
    return lambda key, state, observation: PolicyOutput(int(jax.random.randint(key, (), 0, env.num_actions)))


def play(
    env: Environment, policy: Policy, seed: int, *, steps: int | None = None, episodes: int | None = None
) -> Iterator[RolloutStep]:
    """Play episodes and yield every state, until `steps` steps or `episodes` whole episodes are done."""
    restart, step_once, observe = jax.jit(env.restart), jax.jit(env.step), jax.jit(env.observe)
    key, use = jax.random.split(jax.random.key(seed))
    now = RolloutStep(1, 0, env.reset(use), None, 0.0, 0.0, "")
    yield now
    done = 0
    while steps is None or done < steps:
        if now.end:
            if now.episode == episodes:
                return
            key, use = jax.random.split(key)
            now = RolloutStep(now.episode + 1, 0, restart(use, now.state), None, 0.0, 0.0, "")
            yield now
        key, policy_key, step_key = jax.random.split(key, 3)
        decision = policy(policy_key, now.state, observe(now.state))
        env.check_action(decision.action)
        state, step = step_once(step_key, now.state, decision.action)
        end = "terminated" if step.terminated else "truncated" if step.truncated else ""
        reward = float(step.reward)
        now = RolloutStep(now.episode, now.step + 1, state, decision, reward, now.episode_return + reward, end)
        done += 1
        yield now


def describe_step(env: Environment, now: RolloutStep) -> str:
    """Return one line of text: episode, step, action, reward and return so far."""
    action = "start" if now.decision is None else env.action_names[now.decision.action]
    line = f"episode {now.episode}  step {now.step}  {action}  reward {now.reward:g}  return {now.episode_return:g}"
    return f"{line}  {now.end}".rstrip()


def describe_annotation(env: Environment, annotation: QAnnotation) -> list[str]:
    """Return lines of text: Q(s, ·) with the chosen action marked; its learning target, and the target's n."""
    marks = ["▸" if action == annotation.action else " " for action in range(len(annotation.values))]
    named = zip(marks, env.action_names, annotation.values, strict=True)
    lines = ["Q " + " ".join(f"{mark}{name} {value:.3g}" for mark, name, value in named)]
    if annotation.target is not None:
        lookahead = "" if annotation.lookahead is None else f"n {annotation.lookahead}  "
        lines.append(f"{lookahead}target {annotation.target:.3g}")
    return lines

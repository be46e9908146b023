"""Sentences about environments that fail, or that return something else than Gymnasium's rules say.

Processes that step environments import this module; it does not import JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium import spaces

from greedystep.checks import short_repr

FAILURES = (Exception, SystemExit)
"""What an environment may raise; an interrupt by the user is none of its failures."""


class EnvironmentFailedError(ValueError):
    """An environment raised an error in `reset` or `step`, or gave what cannot be learned from."""


def failure(name: str, doing: str, problem: BaseException) -> EnvironmentFailedError:
    """Return the error for an exception that the environment `name` raised, `doing` "reset" or "step"."""
    died = "; one of its processes has ended" if isinstance(problem, EOFError | ConnectionError) else ""
    return EnvironmentFailedError(f"env: {doing} of {name} raised {sentence(problem)}{died}")


def sentence(problem: BaseException) -> str:
    """Return the class of an exception and the first line of its text."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}{': ' + lines[0] if lines else ''}".rstrip(".")


def call(make: Callable[..., Any], *arguments: Any, argument: str = "env") -> Any:
    """Return what a user's function makes; ValueError, naming the argument that it was, if it raises."""
    try:
        return make(*arguments)
    except FAILURES as problem:
        raised = f"raised {sentence(problem)}"
        raise ValueError(
            f"env: the function that makes it {raised}" if argument == "env" else f"{argument} {raised}"
        ) from problem


def space_of(env: Any, name: str) -> spaces.Space:
    """Return the space that is the attribute `name` of an environment; ValueError if it is none."""
    space = getattr(env, name, None)
    if not isinstance(space, spaces.Space):
        raise ValueError(f"env: {name} must be a gymnasium.spaces.Space, got {short_repr(space)}")
    return space


def wrong_reset(result: Any) -> str:
    """Return the sentence about a result of `reset` that is not (observation, info)."""
    return f"reset must return (observation, info), info a dict, got {kind_of(result)}"


def wrong_step(result: Any) -> str:
    """Return the sentence about a result of `step` that does not have five parts."""
    old = ", as in the gym of old" if isinstance(result, tuple) and len(result) == 4 else ""
    return f"step must return (observation, reward, terminated, truncated, info), got {kind_of(result)}{old}"


def kind_of(value: Any) -> str:
    """Return the type of a value; of a tuple, how many values it has and their types."""
    if isinstance(value, tuple):
        return f"{len(value)} values ({', '.join(type(part).__name__ for part in value)})"
    return f"a {type(value).__name__}"

"""One interface to the same games in greedystep, pgx and gymnax, with auto-reset.

Both peers are asked for all six actions and for sticky actions with probability 0.1, as the originals have them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax

from greedystep import envs
from greedystep.envs.core import AutoReset

STICKY = 0.1
"""Probability of a sticky action."""
OURS = "greedystep"
PACKAGES = (OURS, "pgx", "gymnax")

DIFFERENCES = {
    "pgx": "Its sticky action is forgotten at the start of an episode. Seaquest follows MinAtar before 1.0.11 and "
    "becomes faster a surfacing too early. Its states hold the observation.",
    "gymnax": "Sticky actions come from its wrapper. Episodes are cut after 1000 steps (Freeway: 2500), observations "
    "are float32. Asterix drops an object when all rows are full.",
}
"""How the games of the peers differ from the originals, which ours equal step for step."""

GYMNAX_NAMES = {
    "minatar/asterix": "Asterix-MinAtar",
    "minatar/breakout": "Breakout-MinAtar",
    "minatar/freeway": "Freeway-MinAtar",
    "minatar/seaquest": "Seaquest-MinAtar",
    "minatar/space_invaders": "SpaceInvaders-MinAtar",
    "classic/acrobot": "Acrobot-v1",
    "classic/cartpole": "CartPole-v1",
    "classic/mountaincar": "MountainCar-v0",
}


class Game(NamedTuple):
    """An environment whose functions return everything that a step computes, so that nothing is optimised away."""

    num_actions: int
    reset: Callable[[jax.Array], Any]
    """Key -> (state, (observation, reward, done)); the second part may be empty where the state holds it."""
    step: Callable[[jax.Array, Any, jax.Array], Any]
    """Key, state, action -> the same, with auto-reset."""


def installed(package: str) -> bool:
    """Return whether the package can be imported."""
    return package == OURS or find_spec(package) is not None


def make_game(package: str, name: str) -> Game | None:
    """Return the package's version of our environment `name`; None if it has none."""
    return {OURS: _ours, "pgx": _pgx, "gymnax": _gymnax}[package](name)


def _ours(name: str) -> Game:
    env = AutoReset(envs.make(name))

    def reset(key: jax.Array) -> Any:
        state = env.reset(key)
        return state, (env.observe(state), jax.numpy.float32(0), jax.numpy.bool_(False))

    def step(key: jax.Array, state: Any, action: jax.Array) -> Any:
        state, result = env.step(key, state, action)
        return state, (env.observe(state), result.reward, result.terminated | result.truncated)

    return Game(env.num_actions, reset, step)


def _pgx(name: str) -> Game | None:
    if not name.startswith("minatar/"):
        return None
    import pgx  # pyright: ignore[reportMissingImports]
    from pgx.experimental import auto_reset  # pyright: ignore[reportMissingImports]

    env_class: Any = type(pgx.make(name.replace("/", "-")))  # `make` itself takes no options
    env = env_class(use_minimal_action_set=False, sticky_action_prob=STICKY)
    step = auto_reset(env.step, env.init)
    return Game(env.num_actions, lambda key: (env.init(key), ()), lambda key, state, act: (step(state, act, key), ()))


def _gymnax(name: str) -> Game | None:
    if name not in GYMNAX_NAMES:
        return None
    import gymnax  # pyright: ignore[reportMissingImports]
    from gymnax.wrappers import StickyActionWrapper  # pyright: ignore[reportMissingImports]

    minatar = name.startswith("minatar/")
    bare, params = gymnax.make(GYMNAX_NAMES[name], **({"use_minimal_action_set": False} if minatar else {}))
    env: Any = StickyActionWrapper(bare, STICKY) if minatar else bare

    def reset(key: jax.Array) -> Any:
        observation, state = env.reset(key, params)
        return state, (observation, jax.numpy.float32(0), jax.numpy.bool_(False))

    def step(key: jax.Array, state: Any, action: jax.Array) -> Any:
        observation, state, reward, terminated, truncated, _ = env.step(key, state, action, params)
        return state, (observation, jax.numpy.float32(reward), terminated | truncated)

    return Game(bare.num_actions, reset, step)

"""Random calls of the library, with arguments of the wrong type, shape or size.

A call returns, or raises one of `COMPLAINTS` with one sentence. Each target is made with good arguments first; then
one or two of them are replaced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import greedystep as gs

COMPLAINTS = (ValueError, TypeError, FileNotFoundError, MemoryError, FloatingPointError)
RAGGED = [[1.0], [1.0, 2.0]]
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2.5, 0.5, float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, 1 + 2j),
    *(2**31, 2**63, 10**30, -(2**63), 1e18, np.int8(3), np.float32(0.5), np.uint64(2**64 - 1), np.bool_(True)),
    *("", "x", "none", "1", b"x", [], {}, (), [1], [None], RAGGED, {"a": 1}, "a\0b", "\udcff", object(), len, ...),
    *(np.zeros(0), np.zeros((3, 0)), np.zeros((0, 3)), np.array(2.0), np.array(["x"]), np.array([object()])),
    *(np.full((3, 2), np.nan), np.ones((2, 2, 2, 2)), np.array([1 + 1j] * 3), np.zeros(3, "M8[s]"), np.ma.ones(3)),
)
"""Anything that somebody may pass by mistake."""


def _arrays(good: np.ndarray) -> list[Any]:
    """A good array, spoilt."""
    first = good.copy()
    if good.dtype.kind == "f":
        first.flat[0] = np.nan
    last = good.copy()
    if good.size:
        last.flat[-1] = 10**6 if good.dtype.kind in "iu" else 1 if good.dtype.kind == "b" else 1e300
    return [
        *(first, last, -good.astype(float), good[:-1], good[None], good.ravel(), good.T, good.astype(complex)),
        *(good.astype(object), good.astype(str), good.astype(np.float16), good.astype(np.int64), good.tolist()),
        *(good[..., :0], np.asfortranarray(good), good[::-1], good.astype(">f8"), good > 0, good * 1e308),
    ]


def _model() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "transitions": random.dirichlet(np.ones(3), (3, 2)),
        "rewards": random.normal(size=(3, 2)),
        "discount": 0.9,
        "terminal": np.array([False, False, True]),
        "available": np.ones((3, 2), bool),
        "termination": None,
    }


def _steps() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {name: random.random(5) for name in ("rewards", "discounts", "values")} | {"cuts": np.zeros(5, bool)}


def _estimator(name: str, **more: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    steps = _steps()
    if name == "sarsa":
        del steps["values"]
    return getattr(gs.returns, name), steps | more


def _solve(**arguments: Any) -> Any:
    return gs.solve(gs.MDP(**_model()), **arguments)


def _operator(name: str, **more: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    return getattr(gs.operators, name), {"mdp": gs.MDP(**_model()), "q": np.zeros((3, 2)), **more}


def _toy(**settings: Any) -> Any:
    return gs.TabularAgent("toy/choice", **settings).learn(2)


def targets() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Name -> a function and good arguments of it."""
    half, policy = np.full(5, 0.5), np.zeros(3, int)
    T = 4
    ends = np.arange(T) == T - 1
    return {
        "MDP": (gs.MDP, _model()),
        "solve": (
            _solve,
            {"method": "auto", "policies": [policy], "horizon": 3, "tolerance": 1e-6, "initial": np.zeros(3)}
            | {"max_iterations": 5, "time_limit": 1.0, "callback": None},
        ),
        "greedy_step": _estimator("greedy_step", horizon=3),
        "soft_greedy_step": _estimator("soft_greedy_step", gate=1.0),
        "n_step": _estimator("n_step", n=2),
        "sarsa": _estimator("sarsa", taken=half, n=2),
        "lambda_return": _estimator("lambda_return", lambda_=0.5),
        "monte_carlo": _estimator("monte_carlo"),
        "off_policy": _estimator("off_policy", taken=half, traces=half),
        "watkins": _estimator("watkins", greedy=half > 0, lambda_=0.5),
        "q_lambda": _estimator("q_lambda", taken=half, lambda_=0.5),
        "tree_backup": _estimator("tree_backup", taken=half, target_prob=half, lambda_=0.5),
        "retrace": _estimator("retrace", taken=half, target_prob=half, behaviour_prob=half, lambda_=0.5),
        "weighted": _estimator("weighted", weights=np.array([0.5, 0.5])),
        "bellman": _operator("bellman"),
        "expectation": _operator("expectation", policy=policy),
        "operators.greedy_step": _operator("greedy_step", policies=[policy], horizon=3, form="inside"),
        "multi_step_optimality": _operator("multi_step_optimality", policies=[policy], horizon=3),
        "lambda_operator": _operator("lambda_operator", policy=policy, lambda_=0.5),
        "Trajectory": (
            gs.Trajectory,
            {"observations": np.zeros((T + 1, 2)), "actions": np.zeros(T, int), "rewards": np.ones(T)}
            | {"terminated": ends, "truncated": ends & False, "behaviour_prob": np.full(T, 0.5)},
        ),
        "TabularAgent": (_toy, {"method": "greedy-step", "seed": 0, "epsilon": 0.2, "q": None}),
        "toy/trace-back": (lambda **options: gs.envs.make("toy/trace-back", **options), {"delay": 3}),
        "toy/grid-world": (lambda **options: gs.envs.make("toy/grid-world", **options), {"size": 3}),
        "make": (gs.envs.make, {"name": "toy/choice"}),
        "chain": (gs.models.chain, {"length": 4, "discount": 0.9}),
        "grid": (gs.models.grid, {"height": 2, "width": 3, "slip": 0.1, "walls": None, "discount": 0.9}),
        "load": (gs.load, {"path": "file.txt"}),
    }


def network_targets() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Those that make or ask a network."""
    import dataclasses

    from greedystep.deep.config import DQNConfig

    tiny = {"hidden": (4,), "replay_size": 64, "warmup": 5, "target_period": 10, "batch_size": 4, "log_every": 10}
    settings = {field.name: field.default for field in dataclasses.fields(DQNConfig)}
    agent = gs.DQN("classic/cartpole", **tiny)
    log = gs.Trajectory(np.zeros((3, 4), np.float32), np.zeros(2, int), np.ones(2), [False, True], [False, False])
    return {
        "DQN": (gs.DQN, {"env": "classic/cartpole", "seed": 0, "preset": "paper", **settings, **tiny}),
        "make": (lambda **options: gs.envs.make("minatar/breakout", **options), {"sticky": 0.1, "limit": 10}),
        "learn": (agent.learn, {"steps": 3}),
        "predict": (agent.predict, {"observations": np.zeros((2, 4), np.float32)}),
        "evaluate": (agent.evaluate, {"episodes": 2, "epsilon": 0.1, "seed": 0, "limit": 3}),
        "fit": (agent.fit, {"dataset": [log], "updates": 3, "seed": 0}),
    }


def check_sentence(problem: Exception) -> None:
    """One line with something in it; the shown array of an argument may have more."""
    said = str(problem).strip()
    assert said, f"{type(problem).__name__} without a word"
    assert "\n" not in said or "array(" in said, f"{type(problem).__name__} of several lines: {said[:200]}"


def call(seed: str, networks: bool = False) -> str:
    """Make one call; returns what it was. AssertionError, or the wrong exception, is a finding."""
    random = Random(seed)
    found = network_targets() if networks else targets()
    name = random.choice(list(found))
    function, arguments = found[name]
    names = [one for one in arguments if one != "mdp"]
    changed = random.sample(names, min(len(names), random.choice((1, 1, 2))))
    for one in changed:
        good = arguments[one]
        pool = _arrays(good) if isinstance(good, np.ndarray) and random.random() < 0.6 else VALUES
        arguments[one] = random.choice(pool)
    what = f"{name}({', '.join(f'{one}={arguments[one]!r}' for one in changed)})".replace("\n", " ")
    print(ascii(what))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "(overflow|invalid value|underflow) encountered", RuntimeWarning)
            function(**arguments)
    except COMPLAINTS as problem:
        check_sentence(problem)
    return ascii(what)

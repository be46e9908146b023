"""The methods by name: the options of each, and what each keeps besides its table."""

from __future__ import annotations

from typing import Any

from greedystep.checks import check_float, check_int
from greedystep.tabular import updates
from greedystep.tabular.empirical_model import EmpiricalModel
from greedystep.tabular.episodes import StoredEpisodes
from greedystep.tabular.updates import Parameters

_STEP: dict[str, Any] = {"alpha": 0.1}
_TRACE = _STEP | {"lambda_": 0.9}
_TARGET = {"target_epsilon": 0.0}

METHODS: dict[str, tuple[int, dict[str, Any]]] = {
    "greedy-step": (updates.GREEDY_STEP, {"horizon": None, "form": "running"}),
    "q-learning": (updates.Q_LEARNING, _STEP),
    "backward-q-learning": (updates.BACKWARD_Q_LEARNING, {"alpha": 1.0}),
    "n-step-q": (updates.N_STEP_Q, _STEP | {"n": 5}),
    "n-step-sarsa": (updates.N_STEP_SARSA, _STEP | {"n": 5} | _TARGET),
    "sarsa-lambda": (updates.SARSA_LAMBDA, _TRACE | _TARGET),
    "watkins": (updates.WATKINS, _TRACE),
    "peng": (updates.PENG, _TRACE),
    "harutyunyan": (updates.HARUTYUNYAN, _TRACE | _TARGET),
    "tree-backup": (updates.TREE_BACKUP, _TRACE | _TARGET),
    "retrace": (updates.RETRACE, _TRACE | _TARGET),
    "q-sigma": (updates.Q_SIGMA, _STEP | {"sigma": 0.5} | _TARGET),
    "monte-carlo": (updates.MONTE_CARLO, _STEP),
    "episodic-backward": (updates.EPISODIC_BACKWARD, _STEP | {"beta": 0.5}),
    "model": (updates.MODEL, {}),
}
"""Name -> (code of its update, its options with their defaults).

alpha: step size in (0, 1]. lambda_, sigma, beta: in [0, 1]. n: steps of n-step returns. horizon: greedy-step's N, None
for the whole episode. form: one of FORMS. target_epsilon: ε of the target policy π, 0 for the greedy one (with which
tree backup, Retrace and Watkins' Q(λ) are the same wherever the greedy action is unique).
"""

FORMS = {
    "running": updates.GREEDY_STEP,
    "stored": updates.GREEDY_STEP_STORED,
    "expected": updates.GREEDY_STEP_EXPECTED,
}
"""The forms of greedy-step.

running: the larger of the old value and the newest episode's greedy-step return. For deterministic environments.
stored: the paper's literal rule; after each episode the returns of all stored ones are computed again with the newest
table, and the largest of a pair is assigned. A value may fall again; the cost grows with what is stored. For
deterministic environments.
expected: the expectation over the next state from the counts of all episodes, with the maximum inside it. Right in
stochastic environments too.
"""

SAMPLED = (updates.GREEDY_STEP, updates.GREEDY_STEP_STORED)
"""Codes whose values are maxima over sampled returns: right only in deterministic environments."""

NEEDS_BEHAVIOUR_PROB = ("retrace", "q-sigma")
"""Methods that divide by the behaviour probabilities μ(a | s)."""

WHOLE_EPISODE = 2**62
"""The horizon N that stands for the whole episode."""

Memory = EmpiricalModel | StoredEpisodes | None
"""What a method keeps besides its table."""

MEMORY_CLASSES = {
    updates.MODEL: EmpiricalModel,
    updates.GREEDY_STEP_EXPECTED: EmpiricalModel,
    updates.GREEDY_STEP_STORED: StoredEpisodes,
}
"""Code of the method -> the class of its memory; all other methods keep nothing."""


def parameters_of(method: str, options: dict[str, Any]) -> tuple[int, Parameters]:
    """Return (code, parameters) of a method; ValueError names an option that is wrong."""
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of {', '.join(METHODS)}")
    code, defaults = METHODS[method]
    for name in options:
        if name not in defaults:
            known = f"only {', '.join(defaults)}" if defaults else "it has none"
            raise ValueError(f"{name}: {method} has no such option, {known}")
    chosen = defaults | options
    if "form" in chosen:
        form = chosen.pop("form")
        if not isinstance(form, str) or form not in FORMS:
            raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
        code = FORMS[form]
    for name in ("alpha", "lambda_", "sigma", "beta", "target_epsilon"):
        if name in chosen:
            chosen[name] = check_float(name, chosen[name], 0, 1, above=name == "alpha")
    for name in ("n", "horizon"):
        if name in chosen:
            value = chosen.pop(name)
            if name == "horizon" and value is None:
                value = WHOLE_EPISODE
            chosen["n"] = min(check_int(name, value), WHOLE_EPISODE)
    return code, Parameters(**chosen)


def check_method_memory(code: int, shape: tuple[int, ...], memory: Any = None) -> Any:
    """Return the given memory, checked, or a new one; None for methods that keep nothing but their table."""
    kind = MEMORY_CLASSES.get(code)
    if kind is None:
        if memory is not None:
            raise ValueError("memory: this method keeps nothing but its table")
        return None
    if memory is None:
        return kind(*shape)
    if not isinstance(memory, kind) or memory.shape != shape:
        raise ValueError(f"memory: expected {kind.__name__} of {shape[0]} states and {shape[1]} actions")
    return memory

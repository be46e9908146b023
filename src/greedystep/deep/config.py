"""Every setting of the agent in one frozen dataclass. The text under a field is also its help on the command line."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

from greedystep.checks import FLOAT32_MAX, FLOAT32_TINY, INT32, check_real, check_whole, shown

Returns = Literal[
    "one-step",
    "n-step",
    "sarsa",
    "lambda",
    "watkins",
    "tree-backup",
    "retrace",
    "monte-carlo",
    "greedy-step",
    "soft-greedy-step",
    "greedy-step-twin",
]

MAX_ROWS, MAX_ROUNDS = 2**28, 800_000_000
"""Rows of the replay for each environment, and steps of each environment between two rows of metrics, at the most:
within them the replay's int32 numbers cannot overflow (see `Trainer._renumber`)."""

ONE_BOOTSTRAP = ("one-step", "n-step", "sarsa")
"""Returns that bootstrap from one state only, so that each sample is valued when it is drawn. All others look at every
state on their way: they are computed for a whole pool of episodes at once (see `pool.py`)."""

RETURN_OPTIONS: dict[str, dict[str, Any]] = {
    "n-step": {"n": 3},  # Rainbow's, and the n of the multi-step results on MinAtar (Obando-Ceron & Castro 2021)
    "sarsa": {"n": 3, "target_epsilon": 0.0},
    "lambda": {"lambda_": 0.7},  # the best fixed one in our first runs on Breakout and Space Invaders
    "watkins": {"lambda_": 1.0},
    "tree-backup": {"lambda_": 1.0, "target_epsilon": 0.0},
    "retrace": {"lambda_": 1.0, "target_epsilon": 0.0},
    "greedy-step": {"horizon": None},  # to the end of the trajectory, as in the paper
    "soft-greedy-step": {"gate": 2.0},
}
"""The options that a choice of `returns` has, with their defaults; set for another choice they are an error."""


@dataclass(frozen=True)
class DQNConfig:
    """A deep Q-network and how it learns. The defaults are those of MinAtar (see `presets.py` for their sources)."""

    returns: Returns = "greedy-step"
    """How targets are made from stored steps."""
    n: int | None = None
    """Steps before bootstrapping (n-step, sarsa)."""
    horizon: int | None = None
    """The most steps that greedy-step may look ahead; none: to the end of the trajectory."""
    lambda_: float | None = None
    """Decay of the traces (lambda, watkins, tree-backup, retrace)."""
    gate: float | None = None
    """Sharpness of the soft maximum (soft-greedy-step), in units of one over reward; infinity would be greedy-step."""
    target_epsilon: float | None = None
    """The policy that is evaluated (sarsa at a cut, tree-backup, retrace): greedy but for this share at random."""
    double: bool = False
    """Let the online networks choose the action whose value the target networks tell."""
    ensemble: int = 1
    """Number of networks M. Values are the minimum over networks, then the maximum over actions (Maxmin DQN)."""
    ensemble_update: Literal["one", "all"] = "one"
    """Update one random network at a time, as Maxmin DQN does, or all of them on the same batch."""
    hidden: tuple[int, ...] = (128,)
    """Sizes of the hidden layers; pictures pass 16 filters of 3 x 3 before."""
    discount: float = 0.99
    """Discount factor."""
    time_limits: Literal["bootstrap", "terminal"] = "bootstrap"
    """Whether the state in which a time limit cut an episode off has a value, or is worth nothing."""

    num_envs: int = 1
    """Environments that act side by side; a step of all of them counts as that many steps."""
    replay_size: int = 100_000
    """Rows of the replay: stored steps, and one more for each episode."""
    batch_size: int = 32
    """Samples of one update."""
    updates: int = 1
    """Updates after each step of all environments."""
    warmup: int = 5_000
    """Steps at random before the first update."""
    target_period: int = 1_000
    """Steps between two copies to the target networks, and between two pools of full-length returns."""
    target_rate: float = 1.0
    """1: hard copies, one a period. Below: targets move by this share towards the networks after each update."""

    epsilon_start: float = 1.0
    """Share of random actions at step 0 (within the warm-up all are)."""
    epsilon_end: float = 0.1
    """Share of random actions at the end of the schedule and ever after."""
    epsilon_steps: int = 100_000
    """Steps from the first to the last value, in a straight line."""

    optimiser: Literal["adam", "rmsprop", "centred-rmsprop"] = "centred-rmsprop"
    """Formula of the gradient steps, as PyTorch computes it."""
    learning_rate: float = 3e-4
    """Size of the gradient steps."""
    optimiser_decay: float = 0.95
    """Decay of the averages of RMSprop (PyTorch's alpha); Adam's are 0.9 and 0.999."""
    optimiser_epsilon: float = 0.01
    """Added to the root in the denominator."""
    loss: Literal["huber", "squared"] = "huber"
    """Of the difference between value and target, averaged over the batch."""
    max_gradient_norm: float | None = None
    """Scale larger gradients down to this norm."""

    log_every: int = 10_000
    """Steps between two rows of metrics."""

    def __post_init__(self) -> None:
        self._check_values()
        own = RETURN_OPTIONS.get(self.returns, {})
        for name in ("n", "horizon", "lambda_", "gate", "target_epsilon"):
            if name in own:
                if getattr(self, name) is None:
                    object.__setattr__(self, name, own[name])
            elif getattr(self, name) is not None:
                having = " or ".join(choice for choice, options in RETURN_OPTIONS.items() if name in options)
                raise ValueError(f"{name}: returns={self.returns!r} has no such option, only {having}")
        self._check_contradictions()

    # -- what follows from the settings --------------------------------------------------------------------------------

    @property
    def is_pooled(self) -> bool:
        return self.returns not in ONE_BOOTSTRAP

    @property
    def groups(self) -> int:
        """Networks m and m' have the same targets if they are equal modulo this number."""
        return 2 if self.returns == "greedy-step-twin" else 1

    @property
    def samples_per_period(self) -> int:
        """Samples that are trained on between two copies of the targets."""
        return self.target_period // self.num_envs * self.updates * self.batch_size

    @property
    def pool_rows(self) -> int:
        """Rows of the pool: as many as will be drawn from it, at most the whole replay."""
        return min(self.samples_per_period, self.replay_size)

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_values(self) -> None:
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), _CHOICES.get(field.name)
            if choices and value not in choices:
                near = get_close_matches(str(value), map(str, choices), n=1)
                guess = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"{field.name}: expected one of {', '.join(map(str, choices))}, got {value!r}{guess}")
        for name, least in _COUNTS.items():
            if not (name in _OPTIONAL and getattr(self, name) is None):
                self._set(name, check_whole(name, getattr(self, name), least, INT32))
        for name, (low, high, above) in _RANGES.items():
            if not (name in _OPTIONAL and getattr(self, name) is None):
                self._set(name, check_real(name, getattr(self, name), low, high, above=above))
        if not isinstance(self.hidden, tuple):
            raise ValueError(f"hidden: expected a tuple of whole numbers, got {shown(self.hidden)}")
        self._set("hidden", tuple(check_whole("hidden", size, 1, INT32) for size in self.hidden))

    def _set(self, name: str, value: Any) -> None:
        """The value as a plain number, whichever kind of number was given."""
        object.__setattr__(self, name, value)

    def _check_contradictions(self) -> None:
        if self.returns == "greedy-step-twin" and self.ensemble < 2:
            raise ValueError(f"ensemble: greedy-step-twin needs at least 2 networks, got {self.ensemble}")
        if self.double and self.returns in ("sarsa", "monte-carlo", "greedy-step-twin"):
            raise ValueError(f"double: returns={self.returns!r} has no maximum over actions to be split")
        for name in ("target_period", "replay_size", "log_every"):
            if getattr(self, name) % self.num_envs:
                raise ValueError(f"{name}: expected a multiple of num_envs={self.num_envs}, got {getattr(self, name)}")
        if self.warmup < self.num_envs or self.warmup % self.num_envs:
            raise ValueError(f"warmup: expected a multiple of num_envs={self.num_envs} above 0, got {self.warmup}")
        if self.replay_size < 3 * self.num_envs:
            raise ValueError(f"replay_size: expected at least 3 rows for each environment, got {self.replay_size}")
        for name, most in (("replay_size", MAX_ROWS), ("log_every", MAX_ROUNDS)):
            if getattr(self, name) > most * self.num_envs:
                raise ValueError(
                    f"{name}: expected at most {most * self.num_envs} with num_envs={self.num_envs}, "
                    f"got {getattr(self, name)}"
                )
        if self.is_pooled and self.pool_rows < 2:
            raise ValueError(f"target_period: too short for a pool of returns, got {self.target_period}")


_CHOICES = {
    "returns": get_args(Returns),
    "ensemble_update": ("one", "all"),
    "time_limits": ("bootstrap", "terminal"),
    "optimiser": ("adam", "rmsprop", "centred-rmsprop"),
    "loss": ("huber", "squared"),
    "double": (True, False),
}
_COUNTS = dict.fromkeys(
    ("n", "horizon", "ensemble", "num_envs", "replay_size", "batch_size", "updates", "target_period", "log_every"), 1
) | {"warmup": 1, "epsilon_steps": 0}
"""Name -> its smallest value. All of them are counted in 32 bits in compiled code."""
_RANGES = {
    "lambda_": (0, 1, False),
    "gate": (FLOAT32_TINY, FLOAT32_MAX, False),
    "target_epsilon": (0, 1, False),
    "discount": (0, 1, False),
    "target_rate": (0, 1, True),
    "epsilon_start": (0, 1, False),
    "epsilon_end": (0, 1, False),
    "learning_rate": (FLOAT32_TINY, FLOAT32_MAX, False),
    "optimiser_decay": (0, 1, False),
    "optimiser_epsilon": (0, FLOAT32_MAX, False),
    "max_gradient_norm": (FLOAT32_TINY, FLOAT32_MAX, False),
}
"""Name -> (smallest value, largest value, whether the smallest is left out)."""
_OPTIONAL = ("n", "horizon", "lambda_", "gate", "target_epsilon", "max_gradient_norm")
"""These may be None."""

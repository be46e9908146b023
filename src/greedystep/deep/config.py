"""All settings of the DQN agent in one frozen dataclass; `cli.deep_settings` has them as options."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from greedystep.checks import FLOAT32_MAX, FLOAT32_TINY, INT32_MAX, check_float, check_int, did_you_mean, short_repr

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
    "auto",
]

Conservatism = Literal["auto", "none", "cql", "bcq"]

MAX_ROWS, MAX_ROUNDS = 2**28, 800_000_000
"""Largest number of replay rows per environment, and of steps per environment between two metrics rows: within them
the int32 row numbers of the replay buffer cannot overflow (see `Trainer._renumber`)."""

MULTIPLES_OF_ENVS = ("warmup", "target_period", "replay_size", "log_every")
"""Settings that have to be multiples of `num_envs`."""

ONE_BOOTSTRAP = ("one-step", "n-step", "sarsa")
"""Returns that bootstrap from one state, so that each sample is valued when it is drawn. All others need the values of
all states on the way: they are computed for a whole pool of episodes at once (see `target_pool.py`)."""


class AutoOutput(NamedTuple):
    """One output of the networks of returns="auto": how it bootstraps."""

    lambda_: float
    """Trace decay λ of its returns."""
    pessimism: float
    """0: values are the mean over networks, 1: their minimum."""


AUTO_RATES = (1.0, 10 / 3)
"""Learning rates of returns="auto", as multiples of `learning_rate`."""
AUTO_OUTPUTS = (AutoOutput(0.5, 0.0), AutoOutput(0.7, 1.0), AutoOutput(0.3, 1.0))
"""Outputs of each network of returns="auto"."""

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
"""Return estimator -> its options and their defaults; setting an option of another estimator is an error."""


def is_used(name: str, returns: str) -> bool:
    """Return whether a return estimator uses a setting: its own options, and all that are not options of another."""
    return name in RETURN_OPTIONS.get(returns, {}) or not any(name in options for options in RETURN_OPTIONS.values())


CONSERVATISM_OPTIONS: dict[str, dict[str, Any]] = {
    "cql": {"cql_alpha": 1.0},  # d3rlpy's DiscreteCQL
    # Fujimoto et al. 2019 and d3rlpy's DiscreteBCQ (action_flexibility) have 0.3. On logs of good and bad play, more
    # keeps to the good actions (docs/logs.md); on random ones, the cloned behaviour must be more even than this.
    "bcq": {"bcq_threshold": 0.6},
}
"""Kind of conservatism -> its options and their defaults, likewise."""


@dataclass(frozen=True)
class DQNConfig:
    """Settings of a DQN agent and its training. Defaults are those of MinAtar (see `presets.py` for their sources)."""

    returns: Returns = "lambda"
    """Return estimator of the learning targets."""
    n: int | None = None
    """Steps before bootstrapping (n-step, sarsa)."""
    horizon: int | None = None
    """Largest n of greedy-step; none: to the end of the trajectory."""
    lambda_: float | None = None
    """Trace decay λ (lambda, watkins, tree-backup, retrace)."""
    gate: float | None = None
    """Sharpness of the soft maximum (soft-greedy-step), in units of one over reward; infinity would be greedy-step."""
    target_epsilon: float | None = None
    """ε of the ε-greedy target policy (sarsa at a cut, tree-backup, retrace)."""
    double: bool = False
    """Double Q-learning: the online networks choose the action that the target networks value."""
    ensemble: int = 1
    """Number of networks M. Values are the minimum over networks, then the maximum over actions (Maxmin DQN)."""
    ensemble_update: Literal["one", "all"] = "one"
    """Update one random network per batch, as Maxmin DQN does, or all of them on the same batch."""
    hidden: tuple[int, ...] = (128,)
    """Sizes of the hidden layers; images first pass a convolution with 16 filters of 3 x 3."""
    init_scale: float = 1.0
    """Standard deviation of the initial weights, as a multiple of sqrt(2 / inputs) (He et al. 2015), which the paper's
    code has in all layers. 0.4 is that of PyTorch's linear layers: first values near 0, forgotten sooner."""
    observations: Literal["raw", "standardised"] = "raw"
    """Observations as they are, or features standardised by their means and standard deviations in the first log that
    the agent learns from; images and state numbers stay as they are."""
    discount: float = 0.99
    """Discount factor."""
    time_limits: Literal["bootstrap", "terminal"] = "bootstrap"
    """Bootstrap from the state where a time limit truncated the episode, or treat it as terminal (value 0)."""
    conservatism: Conservatism = "auto"
    """How values of actions that the data lack are kept from misleading: by a penalty (cql), by maxima and a greedy
    policy over those actions alone that a behaviour-cloning network finds in the data (bcq), or not at all (none).
    auto: bcq in an agent that learns from a log before it has ever acted, otherwise none."""
    cql_alpha: float | None = None
    """Weight α of the penalty log Σ_a exp Q(s, a) - Q(s, a_data) in the loss (cql)."""
    bcq_threshold: float | None = None
    """An action is in the data if its probability under the cloned behaviour is at least this share of the most
    probable one's (bcq). 0 allows all actions, 1 is behaviour cloning."""

    num_envs: int = 1
    """Number of parallel environments; a step of all of them counts as that many steps."""
    replay_size: int = 100_000
    """Capacity of the replay buffer in rows: one per step, and one more per episode."""
    batch_size: int = 32
    """Samples per update."""
    updates: int = 1
    """Updates after each step of all environments."""
    warmup: int = 5_000
    """Steps with random actions before the first update."""
    target_period: int = 1_000
    """Steps between two target network updates, and between two target pools."""
    target_rate: float = 1.0
    """1: copy the networks once per period. Below 1: Polyak averaging with this rate after each update."""

    epsilon_start: float = 1.0
    """ε of exploration at step 0 (within the warm-up all actions are random)."""
    epsilon_end: float = 0.1
    """ε of exploration at the end of the schedule and after it."""
    epsilon_steps: int = 100_000
    """Length of the linear ε schedule in steps."""

    optimiser: Literal["adam", "rmsprop", "centred-rmsprop"] = "centred-rmsprop"
    """Optimiser of the networks, with PyTorch's formulas."""
    learning_rate: float = 3e-4
    """Learning rate of the optimiser."""
    optimiser_decay: float = 0.95
    """Decay of RMSprop's moving averages (PyTorch's alpha); Adam's are 0.9 and 0.999."""
    optimiser_epsilon: float = 0.01
    """Added to the denominator of the optimiser's update, outside the square root."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of Q(s, a) - target, averaged over the batch."""
    max_gradient_norm: float | None = None
    """Clip gradients to this global norm; none: no clipping."""

    log_every: int = 10_000
    """Steps between two metrics rows."""

    def __post_init__(self) -> None:
        self._check_values()
        self._set_options("returns", RETURN_OPTIONS)
        self._set_options("conservatism", CONSERVATISM_OPTIONS)
        self._check_contradictions()

    # -- derived from the settings --------------------------------------------------------------------------------

    @property
    def is_pooled(self) -> bool:
        """Whether targets are computed for a pool of whole episodes at once (see `target_pool`)."""
        return self.returns not in ONE_BOOTSTRAP

    @property
    def num_networks(self) -> int:
        """Number of networks in all: M that estimate Q, and behind them the one of bcq that clones the behaviour."""
        return self.num_q_networks + (self.conservatism == "bcq")

    @property
    def num_q_networks(self) -> int:
        """Number of networks that estimate Q; with returns="auto" there are `ensemble` at each learning rate."""
        return self.ensemble * self.rates

    @property
    def outputs(self) -> int:
        """Number of outputs of each network per action."""
        return len(AUTO_OUTPUTS) if self.returns == "auto" else 1

    @property
    def groups(self) -> int:
        """Number of groups of networks, each with its own targets; network m belongs to group m modulo this number.

        With returns="auto" the groups are its heads (`heads.py`).
        """
        if self.returns == "auto":
            return self.rates * self.outputs
        return 2 if self.returns == "greedy-step-twin" else 1

    @property
    def rates(self) -> int:
        """Number of learning rates, which share each batch."""
        return len(AUTO_RATES) if self.returns == "auto" else 1

    @property
    def samples_per_period(self) -> int:
        """Number of samples trained on between two target network updates."""
        return self.target_period // self.num_envs * self.updates * self.batch_size

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_values(self) -> None:
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), _CHOICES.get(field.name)
            if choices and value not in choices:
                guess = did_you_mean(str(value), map(str, choices))
                raise ValueError(f"{field.name}: expected one of {', '.join(map(str, choices))}, got {value!r}{guess}")
        for name, least in _COUNTS.items():
            if not (name in _OPTIONAL and getattr(self, name) is None):
                self._set(name, check_int(name, getattr(self, name), least, INT32_MAX))
        for name, (low, high, above) in _RANGES.items():
            if not (name in _OPTIONAL and getattr(self, name) is None):
                self._set(name, check_float(name, getattr(self, name), low, high, above=above))
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise ValueError(f"hidden: expected a sequence of integers, got {short_repr(self.hidden)}")
        self._set("hidden", tuple(check_int("hidden", size, 1, INT32_MAX) for size in self.hidden))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _set_options(self, setting: str, options: dict[str, dict[str, Any]]) -> None:
        """Give the options of the setting's choice their defaults; ValueError if one of another choice is given."""
        chosen = getattr(self, setting)
        own = options.get(chosen, {})
        for name in dict.fromkeys(name for each in options.values() for name in each):
            if name in own:
                if getattr(self, name) is None:
                    self._set(name, own[name])
            elif getattr(self, name) is not None:
                having = " or ".join(choice for choice, names in options.items() if name in names)
                raise ValueError(f"{name}: {setting}={chosen!r} has no such option, only {having}")

    def _check_contradictions(self) -> None:
        if self.returns == "greedy-step-twin" and self.ensemble < 2:
            raise ValueError(f"ensemble: greedy-step-twin needs at least 2 networks, got {self.ensemble}")
        if self.returns == "auto":
            if self.double:
                raise ValueError("double: returns='auto' has no such option")
            if self.batch_size < len(AUTO_RATES):
                raise ValueError(f"batch_size: expected at least one sample per learning rate, got {self.batch_size}")
        if self.double and self.returns in ("sarsa", "monte-carlo", "greedy-step-twin"):
            raise ValueError(f"double: returns={self.returns!r} has no maximum over actions to be split")
        for name in MULTIPLES_OF_ENVS:
            value = getattr(self, name)
            if value < self.num_envs or value % self.num_envs:
                raise ValueError(f"{name}: expected a multiple of num_envs={self.num_envs} above 0, got {value}")
        if self.replay_size < 3 * self.num_envs:
            raise ValueError(f"replay_size: expected at least 3 rows for each environment, got {self.replay_size}")
        for name, most in (("replay_size", MAX_ROWS), ("log_every", MAX_ROUNDS)):
            if getattr(self, name) > most * self.num_envs:
                raise ValueError(
                    f"{name}: expected at most {most * self.num_envs} with num_envs={self.num_envs}, "
                    f"got {getattr(self, name)}"
                )
        if self.is_pooled and self.samples_per_period // self.rates < 2:
            raise ValueError(f"target_period: too short for a pool of returns, got {self.target_period}")


LATER_SETTINGS = ("conservatism", "cql_alpha", "bcq_threshold", "init_scale", "observations")
"""Settings that earlier versions did not have."""


def described(config: DQNConfig) -> dict[str, Any]:
    """Return the settings by name. Those that earlier versions did not have are left out at their defaults, so that a
    training is described, and found again, as it was then."""
    default = {field.name: field.default for field in dataclasses.fields(config) if field.name in LATER_SETTINGS}
    settings = dataclasses.asdict(config)
    return {name: value for name, value in settings.items() if name not in default or value != default[name]}


_CHOICES = {
    name: (True, False) if kind is bool else get_args(kind)
    for name, kind in get_type_hints(DQNConfig).items()
    if kind is bool or get_origin(kind) is Literal
}
"""Setting -> its possible values."""
_COUNTS = dict.fromkeys(
    ("n", "horizon", "ensemble", "num_envs", "replay_size", "batch_size", "updates", "target_period", "log_every"), 1
) | {"warmup": 1, "epsilon_steps": 0}
"""Integer setting -> its smallest value; the largest is that of int32, which compiled code uses."""
_RANGES = {
    "lambda_": (0, 1, False),
    "gate": (FLOAT32_TINY, FLOAT32_MAX, False),
    "target_epsilon": (0, 1, False),
    "cql_alpha": (0, FLOAT32_MAX, False),
    "bcq_threshold": (0, 1, False),
    "init_scale": (0, FLOAT32_MAX, False),
    "discount": (0, 1, False),
    "target_rate": (0, 1, True),
    "epsilon_start": (0, 1, False),
    "epsilon_end": (0, 1, False),
    "learning_rate": (FLOAT32_TINY, FLOAT32_MAX, False),
    "optimiser_decay": (0, 1, False),
    "optimiser_epsilon": (0, FLOAT32_MAX, False),
    "max_gradient_norm": (FLOAT32_TINY, FLOAT32_MAX, False),
}
"""Setting -> (smallest value, largest value, whether the smallest is excluded)."""
_OPTIONAL = (
    *("n", "horizon", "lambda_", "gate", "target_epsilon", "cql_alpha", "bcq_threshold"),
    "max_gradient_norm",
)
"""Settings that may be None."""

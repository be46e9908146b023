"""The settings of deep agents as options of the command line: the fields of `DQNConfig`, all of them optional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from greedystep.checks import parse_int
from greedystep.cli.args import COUNT, COUNT_OR_NONE, NO_HINT, REAL, REAL_OR_NONE, one_of
from greedystep.deep.config import Conservatism, Returns


class Unset:
    """Value of an option that was not typed, so that the preset decides; None is a value of its own."""


UNSET = Unset()

SIZES = PrimitiveConstructorSpec(
    "*", "NUMBER [NUMBER ...]", lambda words: tuple(map(parse_int, words)), lambda value: True, lambda value: []
)
CountSetting = Annotated[int | Unset, COUNT, NO_HINT]
RealSetting = Annotated[float | Unset, REAL, NO_HINT]
CountOrNone = Annotated[int | Unset | None, COUNT_OR_NONE, NO_HINT]
RealOrNone = Annotated[float | Unset | None, REAL_OR_NONE, NO_HINT]


@dataclass(frozen=True)
class DeepSettings:
    """Settings of networks; the defaults are those of the preset"""

    # Return estimator of the learning targets: one-step, n-step, sarsa, lambda, watkins, tree-backup, retrace,
    # monte-carlo, greedy-step, soft-greedy-step, greedy-step-twin, auto.
    returns: Annotated[Returns | Unset, one_of(*get_args(Returns), metavar="NAME"), NO_HINT] = UNSET

    # Steps before bootstrapping (n-step, sarsa).
    n: CountOrNone = UNSET

    # Largest n of greedy-step; none: to the end of the trajectory.
    horizon: CountOrNone = UNSET

    # Trace decay λ (lambda, watkins, tree-backup, retrace).
    lambda_: Annotated[float | Unset | None, REAL_OR_NONE, arg(name="lambda", help_behavior_hint="")] = UNSET

    # Sharpness of the soft maximum (soft-greedy-step), in units of one over reward; infinity would be greedy-step.
    gate: RealOrNone = UNSET

    # Share of random actions of the target policy (sarsa at a cut, tree-backup, retrace).
    target_epsilon: RealOrNone = UNSET

    # Double Q-learning: the online networks choose the action that the target networks value.
    double: Annotated[bool, NO_HINT] = False

    # Number of networks M. Values are the minimum over networks, then the maximum over actions (Maxmin DQN).
    ensemble: CountSetting = UNSET

    # Update one random network per batch, as Maxmin DQN does, or all of them on the same batch.
    ensemble_update: Annotated[Literal["one", "all"] | Unset, one_of("one", "all"), NO_HINT] = UNSET

    # Sizes of the hidden layers; images first pass a convolution with 16 filters of 3 x 3.
    hidden: Annotated[tuple[int, ...] | Unset, SIZES, NO_HINT] = UNSET

    # Standard deviation of the initial weights, as a multiple of sqrt(2 / inputs).
    init_scale: RealSetting = UNSET

    # Observations as they are (raw), or features standardised by their means and standard deviations in the first log
    # that the agent learns from; images and state numbers stay as they are.
    observations: Annotated[Literal["raw", "standardised"] | Unset, one_of("raw", "standardised"), NO_HINT] = UNSET

    # Discount factor.
    discount: RealSetting = UNSET

    # Bootstrap from the state where a time limit truncated the episode, or treat it as terminal (value 0).
    time_limits: Annotated[Literal["bootstrap", "terminal"] | Unset, one_of("bootstrap", "terminal"), NO_HINT] = UNSET

    # How values of actions that the data lack are kept from misleading: cql (a penalty in the loss), bcq (maxima and a
    # greedy policy over the actions that the data have), none, or auto: bcq in `fit`, none in `train`.
    conservatism: Annotated[Conservatism | Unset, one_of(*get_args(Conservatism)), NO_HINT] = UNSET

    # Weight of the penalty (cql).
    cql_alpha: RealOrNone = UNSET

    # Smallest probability of an action in the data, as a share of the most probable one's (bcq); 0: all actions, 1:
    # behaviour cloning.
    bcq_threshold: RealOrNone = UNSET

    # Number of parallel environments; a step of all of them counts as that many steps.
    num_envs: CountSetting = UNSET

    # Capacity of the replay buffer in rows: one per step, and one more per episode.
    replay_size: CountSetting = UNSET

    # Samples per update.
    batch_size: CountSetting = UNSET

    # Updates after each step of all environments; in `fit` the number of updates (default there: 10 000).
    updates: CountSetting = UNSET

    # Steps with random actions before the first update.
    warmup: CountSetting = UNSET

    # Steps between two target network updates, and between two target pools.
    target_period: CountSetting = UNSET

    # 1: copy the networks once per period. Below 1: Polyak averaging with this rate after each update.
    target_rate: RealSetting = UNSET

    # Share of random actions at step 0 (during the warm-up all actions are random).
    epsilon_start: RealSetting = UNSET

    # Share of random actions at the end of the schedule and after it.
    epsilon_end: RealSetting = UNSET

    # Length of the linear epsilon schedule in steps.
    epsilon_steps: CountSetting = UNSET

    # Optimiser of the networks, with PyTorch's formulas.
    optimiser: Annotated[
        Literal["adam", "rmsprop", "centred-rmsprop"] | Unset, one_of("adam", "rmsprop", "centred-rmsprop"), NO_HINT
    ] = UNSET

    # Learning rate.
    learning_rate: RealSetting = UNSET

    # Decay of RMSprop's moving averages (PyTorch's alpha); Adam's are 0.9 and 0.999.
    optimiser_decay: RealSetting = UNSET

    # Added to the denominator of the optimiser's update, outside the square root.
    optimiser_epsilon: RealSetting = UNSET

    # Loss of Q(s, a) - target, averaged over the batch.
    loss: Annotated[Literal["huber", "squared"] | Unset, one_of("huber", "squared"), NO_HINT] = UNSET

    # Clip gradients to this global norm; none: no clipping.
    max_gradient_norm: RealOrNone = UNSET

    # Steps between two metrics rows.
    log_every: CountSetting = UNSET


def given(settings: DeepSettings) -> dict[str, Any]:
    """Return {name in `DQNConfig`: value} of the options that were typed."""
    return {name: value for name, value in vars(settings).items() if value is not UNSET and value is not False}

"""Presets: settings per family of environments, each with its source.

"paper": the Greedy-Step paper re-uses the settings of Maxmin DQN (Lan et al. 2020); they are taken from its authors'
code (qlan3/Explorer, tag maxmin1.0, configs/*.json), with the learning rate from the grid that the paper names. One
environment, one update of 32 samples per step.

"fast": the same amount of training per step (32 samples), but many environments side by side and larger batches.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from greedystep.checks import did_you_mean
from greedystep.deep.config import MULTIPLES_OF_ENVS, DQNConfig

MINATAR: dict[str, Any] = {
    # Explorer configs/minatar.json; the same as MinAtar's own DQN (examples/dqn.py) but for the learning rate there.
    "hidden": (128,),
    "discount": 0.99,
    "replay_size": 100_000,
    "batch_size": 32,
    "updates": 1,
    "warmup": 5_000,
    "target_period": 1_000,
    "epsilon_start": 1.0,
    "epsilon_end": 0.1,
    "epsilon_steps": 100_000,
    "optimiser": "centred-rmsprop",
    "optimiser_decay": 0.95,
    "optimiser_epsilon": 0.01,
    "loss": "huber",
    "max_gradient_norm": None,
    # Grid of both papers: 3e-3, 1e-3, 3e-4, 1e-4, 3e-5; the best one differs by game. MinAtar's default is 2.5e-4.
    "learning_rate": 3e-4,
    "log_every": 10_000,
}
FEATURES: dict[str, Any] = {
    # Explorer configs/{catcher,copter,lunar}.json.
    "hidden": (64, 64),
    "discount": 0.99,
    "replay_size": 10_000,
    "batch_size": 32,
    "updates": 1,
    "warmup": 1_000,
    "target_period": 200,
    "epsilon_start": 1.0,
    "epsilon_end": 0.01,
    "epsilon_steps": 1_000,
    "optimiser": "rmsprop",
    "optimiser_decay": 0.99,  # PyTorch's default
    "optimiser_epsilon": 1e-8,  # PyTorch's default
    "loss": "squared",
    "max_gradient_norm": 5.0,
    # Grid 1e-3 ... 1e-5; the authors' best for Maxmin with 6 networks on Catcher and Pixelcopter (analysis.py).
    "learning_rate": 3e-4,
    "log_every": 10_000,
}
CLASSIC: dict[str, Any] = FEATURES | {
    # Explorer configs/MERL_mc_dqn.json (MountainCar; the paper's own settings for it are not public).
    # Network, replay, period and schedule are the same in Jaxplorer configs/classic_{dqn,maxmin}.json (same author).
    # Our own settings for greedy-step on MountainCar, in docs/settings.md, do better; this is the published one.
    "hidden": (32, 32),
    "target_period": 100,
    "optimiser": "adam",
    "learning_rate": 1e-3,  # its grid: 1e-2 ... 1e-4
    "log_every": 5_000,
}

OTHERS: dict[str, Any] = FEATURES | {
    # Our own, for features of environments that the paper does not have: one setting that learns CartPole and Acrobot
    # in 100,000 steps and LunarLander in 300,000 (`python -m benchmarks settings`). FEATURES has so small a replay
    # buffer, explores so shortly and learns so slowly that LunarLander takes longer.
    "hidden": (128, 128),
    "replay_size": 100_000,
    "batch_size": 64,  # 32 for each learning rate of auto
    "ensemble_update": "all",
    "target_period": 240,  # divisible by most numbers of environments
    "epsilon_end": 0.05,
    "epsilon_steps": 10_000,
    "optimiser": "adam",
    "learning_rate": 5e-4,
}

FAMILIES = {"minatar/": MINATAR, "ple/": FEATURES, "classic/": CLASSIC}
"""Prefix of an environment's name -> settings; others take OTHERS, or MINATAR if their observations are images."""

FAST_IMAGES: dict[str, Any] = {
    # Our own: 64 x 32 = 4 x 512 samples per step of all environments. A period is as many samples as 500 updates of
    # 512: with it, valuing the whole replay at each copy costs less than valuing every sample.
    "num_envs": 64,
    "batch_size": 512,
    "updates": 4,
    "target_period": 8_192,
    "replay_size": 102_400,
    "warmup": 8_192,
    "log_every": 131_072,
    # Larger batches need an optimiser that depends less on the size of the gradients; first runs used these.
    "optimiser": "adam",
    "optimiser_epsilon": 1e-8,
    "learning_rate": 3e-4,
}
FAST_FEATURES: dict[str, Any] = {
    # Our own: 16 x 32 = 2 x 256 samples per step of all environments, the targets copied every 100 updates. Here
    # trainings are short and episodes long: with 64 environments, a good episode of Catcher (2000 steps) would end only
    # 128 000 steps later. The replay buffer holds one such episode per environment.
    "num_envs": 16,
    "batch_size": 256,
    "updates": 2,
    "target_period": 800,
    "replay_size": 32_768,
    "warmup": 1_600,
    "log_every": 16_000,
}

LIMITS = {
    "classic/mountaincar": 1_000,  # Explorer configs/MERL_mc_dqn.json; within Gymnasium's 200 hardly anyone gets there
    "minatar/seaquest": 10_000,  # Explorer configs/minatar.json
}
"""Time limits of the experiments, in steps, where they differ from the environment's own."""

DEFAULT_RULE: dict[str, Any] = {
    # As good on each task as the best fixed rule, number of networks and learning rate chosen for that task, and better
    # than the best single one (`greedystep reproduce auto`, results/paper/auto.md).
    "returns": "auto",
    "ensemble": 3,
}
"""Settings of an agent whose `returns` are not given. The paper's rule is returns="greedy-step"."""

OFFLINE_RULE: dict[str, Any] = {
    # Its threshold depends neither on the scale of rewards nor on how good the log is (`python -m benchmarks offline`).
    "conservatism": "bcq",
    # No simulator is waited for, so that every network may learn from every batch; and Adam gets further than RMSprop
    # in few updates.
    "ensemble_update": "all",
    "optimiser": "adam",
    "optimiser_epsilon": 1e-8,
    "learning_rate": 1e-3,
    # A rare large reward, seen in few batches, must not move the networks far.
    "loss": "huber",
    "max_gradient_norm": None,
    # All scales are known before the first update; MountainCar's velocities are a tenth of its positions.
    "observations": "standardised",
    # Few updates do not forget large random first values.
    "init_scale": 0.4,
}
"""Settings of `DQN.from_dataset` and `greedystep fit` that are not given, whatever the returns."""
OFFLINE_RETURNS: dict[str, Any] = {
    # Nobody acts, so that auto cannot hear which of its heads is good (`python -m benchmarks offline`).
    "returns": "lambda",
    # bcq keeps maxima from over-estimating what the data lack; a second network would double the time of an update.
    "ensemble": 1,
}
"""Returns of theirs where none are given: Peng's Q(λ)."""

Preset = Literal["paper", "fast"]
PRESETS = get_args(Preset)


def preset(name: str, env_name: str, *, images: bool = False) -> dict[str, Any]:
    """Return a preset's settings for an environment, whose observations may be images, as arguments of `DQNConfig`."""
    if name not in PRESETS:
        raise ValueError(f"preset: expected one of {', '.join(PRESETS)}, got {name!r}")
    family = next((found for start, found in FAMILIES.items() if env_name.startswith(start)), None)
    settings = family or (MINATAR if images else OTHERS)
    faster = FAST_IMAGES if settings is MINATAR else FAST_FEATURES
    return settings | faster if name == "fast" else settings


def offline_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for learning from a log: those given, and the defaults of the others."""
    return OFFLINE_RULE | ({} if "returns" in given else OFFLINE_RETURNS) | given


def env_options(env_name: str) -> dict[str, Any]:
    """Return the options of `envs.make` with which the presets are meant to be used (time limits)."""
    return {"limit": LIMITS[env_name]} if env_name in LIMITS else {}


def make_config(env_name: str, preset_name: str = "paper", *, images: bool = False, **changes: Any) -> DQNConfig:
    """Return the `DQNConfig` of a preset for an environment, with `changes`; ValueError names an unknown setting.

    What has to be a multiple of `num_envs` and is not among the changes is rounded up to one.
    """
    known = [field.name for field in dataclasses.fields(DQNConfig)]
    for setting in changes:
        if setting not in known:
            raise ValueError(f"{setting}: DQN has no such setting{did_you_mean(setting, known)}")
    rule = DEFAULT_RULE if changes.get("returns", DEFAULT_RULE["returns"]) == DEFAULT_RULE["returns"] else {}
    settings = rule | preset(preset_name, env_name, images=images) | changes
    envs = settings.get("num_envs", DQNConfig.num_envs)
    if isinstance(envs, int) and envs > 0:  # otherwise `DQNConfig` says what is wrong with it
        for name in MULTIPLES_OF_ENVS:
            if name not in changes:
                settings[name] = -(-settings.get(name, getattr(DQNConfig, name)) // envs) * envs
    return DQNConfig(**settings)

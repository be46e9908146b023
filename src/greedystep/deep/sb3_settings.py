"""Names of stable-baselines3's DQN settings, as `gs.DQN` takes them: one table, of which docs/deep.md shows a copy.

A name is taken where its meaning is exactly that of one of our settings; otherwise a sentence says what to write.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from greedystep.checks import check_float, short_repr

POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


class Counterpart(NamedTuple):
    """How a setting of stable-baselines3 is written here."""

    words: str
    """The counterpart in words: Markdown for the docs; without its back quotes for error messages."""
    setting: str | None = None
    """Our setting with exactly the same meaning; None if there is none, or if it depends on the value."""


SETTINGS = {
    "learning_rate": Counterpart("the same", "learning_rate"),
    "batch_size": Counterpart("the same", "batch_size"),
    "seed": Counterpart("the same", "seed"),
    "buffer_size": Counterpart("`replay_size` (rows: one per step, and one more per episode)", "replay_size"),
    "learning_starts": Counterpart("`warmup`", "warmup"),
    "gamma": Counterpart("`discount`", "discount"),
    "n_steps": Counterpart('`n`, with `returns="n-step"`', "n"),
    "exploration_initial_eps": Counterpart("`epsilon_start`", "epsilon_start"),
    "exploration_final_eps": Counterpart("`epsilon_end`", "epsilon_end"),
    "max_grad_norm": Counterpart("`max_gradient_norm`", "max_gradient_norm"),
    "target_update_interval": Counterpart("`target_period`"),
    "tau": Counterpart("`target_rate`; below 1 it averages after every update, which is `target_update_interval=1`"),
    "train_freq": Counterpart("always 1: `updates` counts updates after each step of all environments"),
    "gradient_steps": Counterpart("`updates`; -1 is `num_envs` of them"),
    "policy_kwargs": Counterpart("`hidden=(64, 64)` for `dict(net_arch=[64, 64])`, or `network=` for your own"),
    "exploration_fraction": Counterpart("`epsilon_steps`, in steps: the fraction times `total_timesteps`"),
    "policy": Counterpart("leave it out: the network follows from the observations (`hidden`, `network`)"),
    "verbose": Counterpart("`learn(log_interval=1)` or `learn(progress_bar=True)`"),
    "tensorboard_log": Counterpart("`learn(callback=gs.callbacks.TensorBoard(folder))`"),
    "device": Counterpart("JAX's choice (`JAX_PLATFORMS=cpu`)"),
    "stats_window_size": Counterpart("`log_every`: rows are means over that many steps"),
    "replay_buffer_class": Counterpart("none: the replay buffer holds whole episodes"),
    "replay_buffer_kwargs": Counterpart("none: the replay buffer holds whole episodes"),
    "optimize_memory_usage": Counterpart("always: each observation is stored once"),
}
"""Setting of stable-baselines3 -> its counterpart, in the order of the docs."""


def from_sb3(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with stable-baselines3's names replaced by ours; ValueError if one has no exact counterpart."""
    theirs = {name: value for name, value in settings.items() if name in SETTINGS and name != SETTINGS[name].setting}
    ours = {name: value for name, value in settings.items() if name not in theirs}
    found = _renamed(theirs) | _target_updates(theirs) | _updates(theirs, ours)
    for name, (setting, value) in found.items():
        if setting in ours:
            raise ValueError(f"{name}: the same as {setting}, which is given, too; give one of them")
        ours[setting] = value
    return ours


def _renamed(theirs: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return {their name: (our setting, its value)} of the settings that do not depend on others."""
    found = {}
    for name, value in theirs.items():
        words, setting = SETTINGS[name]
        if setting is not None:
            found[name] = (setting, value)
        elif name == "policy_kwargs":
            found[name] = ("hidden", _net_arch(value))
        elif name not in ("target_update_interval", "tau", "train_freq", "gradient_steps"):
            raise ValueError(f"{name}: stable-baselines3's setting has no exact counterpart here; {_plain(words)}")
    return found


def _net_arch(policy_kwargs: Any) -> tuple[int, ...]:
    if not isinstance(policy_kwargs, dict) or set(policy_kwargs) != {"net_arch"}:
        raise ValueError(
            f"policy_kwargs: only dict(net_arch=[...]) has an exact counterpart, got {short_repr(policy_kwargs)}; "
            "network= takes a function that makes any other network"
        )
    sizes = policy_kwargs["net_arch"]
    if not isinstance(sizes, list | tuple):
        raise ValueError(f"policy_kwargs: net_arch must be a list of sizes, got {short_repr(sizes)}")
    return tuple(sizes)


def _target_updates(theirs: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Translate tau and target_update_interval: here a rate below 1 means averaging after every update."""
    rate, period = theirs.get("tau", 1.0), theirs.get("target_update_interval")
    found = {"tau": ("target_rate", rate)} if "tau" in theirs else {}
    if check_float("tau", rate, 0, 1, above=True) < 1:
        if period != 1:
            raise ValueError(
                f"tau: {rate} averages after every update here; say so with target_update_interval=1, got "
                f"{'nothing' if period is None else short_repr(period)}"
            )
        return found
    return found | ({"target_update_interval": ("target_period", period)} if period is not None else {})


def _updates(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Translate train_freq and gradient_steps: here all updates follow a step of all environments."""
    if "train_freq" not in theirs and "gradient_steps" not in theirs:
        return {}
    every, updates = theirs.get("train_freq"), theirs.get("gradient_steps", 1)
    if every not in (1, (1, "step")):
        given = "4, its default" if every is None else short_repr(every)
        raise ValueError(
            f"train_freq: only 1 has an exact counterpart, got {given}; updates= counts updates after each step of all "
            "environments"
        )
    if updates == -1:
        if "num_envs" not in ours:
            raise ValueError("gradient_steps: -1 is as many updates as there are environments; give num_envs, too")
        updates = ours["num_envs"]
    return {"gradient_steps" if "gradient_steps" in theirs else "train_freq": ("updates", updates)}


def _plain(words: str) -> str:
    return words.replace("`", "")


def table() -> str:
    """Return the table of counterparts in docs/deep.md, as Markdown."""
    rows = [f"| `{name}` | {counterpart.words} |" for name, counterpart in SETTINGS.items()]
    return "\n".join(["| stable-baselines3 | here |", "| --- | --- |", *rows])

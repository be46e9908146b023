"""What is timed by the benchmark of training: our agent, and stable-baselines3's DQN with the same workload.

Both act in one environment, store each step and train on 32 samples after it, with the networks, the optimiser and the
replay of the preset "paper". stable-baselines3 plays classic control in Gymnasium's own environment, and MinAtar in
ours through Gymnasium, which takes far less time than its update does.
"""

from __future__ import annotations

import math
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax

from greedystep.deep.config import DQNConfig
from greedystep.deep.device_memory import tree_bytes
from greedystep.deep.run_folder import RunConfig
from greedystep.deep.trainer import Trainer
from greedystep.replay import ReplayBuffer

PEER = "stable-baselines3"
FOREVER = 64 * 10**7
"""Steps between two rows of metrics: only our own counting ends a chunk."""


class Ours:
    """Some lanes of our agent, warmed up and compiled."""

    def __init__(self, game: str, preset: str, lanes: int, **settings: Any) -> None:
        config = RunConfig.from_preset(game, preset, seeds=tuple(range(lanes)), log_every=FOREVER, **settings)
        self.trainer: Trainer = config.trainer()
        self.period = config.agent.target_period
        begin = time.perf_counter()
        self.trainer.run(config.agent.warmup + self.period)
        first = time.perf_counter() - begin
        self.compile_seconds = max(0.0, first - self.time(self.period))

    def time(self, steps: int) -> float:
        """Seconds for so many steps of every lane."""
        begin = time.perf_counter()
        self.trainer.run(steps)
        return time.perf_counter() - begin


class Theirs:
    """stable-baselines3's DQN, warmed up, with as many threads as suit it best."""

    compile_seconds = None

    def __init__(self, game: str) -> None:
        torch = import_module("torch")
        config = RunConfig.from_preset(game, "paper", returns="one-step")
        self.period = 100  # any number: its copies of the targets cost next to nothing
        self._model = _model(game, config)
        self._learn(config.agent.warmup + 200)
        spent = {}
        for threads in sorted({1, torch.get_num_threads()}):
            torch.set_num_threads(threads)
            spent[threads] = self.time(200)
        self.threads = min(spent, key=lambda threads: spent[threads])
        torch.set_num_threads(self.threads)

    def time(self, steps: int) -> float:
        begin = time.perf_counter()
        self._learn(steps)
        return time.perf_counter() - begin

    def _learn(self, steps: int) -> None:
        self._model.learn(steps, log_interval=None, reset_num_timesteps=False)


def peer_is_installed() -> bool:
    return find_spec("stable_baselines3") is not None


def _model(game: str, config: RunConfig) -> Any:
    import gymnasium

    torch, peer, agent = import_module("torch"), import_module("stable_baselines3"), config.agent
    if game.startswith("classic/"):
        names = {"classic/mountaincar": "MountainCar-v0"}
        env = gymnasium.make(names[game], max_episode_steps=config.options["limit"])
        shape: dict[str, Any] = {"net_arch": list(agent.hidden)}
    else:
        env = gymnasium.make(f"greedystep/{game.replace('/', '-')}-v1", **config.options)
        extractor = {
            "features_extractor_class": _conv(),
            "features_extractor_kwargs": {"features_dim": agent.hidden[0]},
        }
        shape = {**extractor, "net_arch": list(agent.hidden[1:])}
    return peer.DQN(
        "MlpPolicy",
        env,
        learning_rate=agent.learning_rate,
        buffer_size=agent.replay_size,
        learning_starts=agent.warmup,
        batch_size=agent.batch_size,
        gamma=agent.discount,
        train_freq=1,
        gradient_steps=agent.updates,
        target_update_interval=agent.target_period,
        exploration_initial_eps=agent.epsilon_end,
        exploration_final_eps=agent.epsilon_end,
        policy_kwargs=shape | _optimiser(agent, torch),
        seed=0,
        device="cpu",
    )


def _optimiser(agent: DQNConfig, torch: Any) -> dict[str, Any]:
    if agent.optimiser == "adam":
        return {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"eps": agent.optimiser_epsilon}}
    options = {"alpha": agent.optimiser_decay, "eps": agent.optimiser_epsilon}
    centred = agent.optimiser == "centred-rmsprop"
    return {"optimizer_class": torch.optim.RMSprop, "optimizer_kwargs": options | {"centered": centred}}


def _conv() -> type:
    """MinAtar's network up to its last layer: 16 filters of 3 x 3, then a hidden layer."""
    torch: Any = import_module("torch")
    base: Any = import_module("stable_baselines3.common.torch_layers").BaseFeaturesExtractor

    class Conv(base):
        def __init__(self, space: Any, features_dim: int) -> None:
            super().__init__(space, features_dim)
            height, width, channels = space.shape
            self.conv = torch.nn.Conv2d(channels, 16, 3)
            self.hidden = torch.nn.Linear(16 * (height - 2) * (width - 2), features_dim)

        def forward(self, seen: Any) -> Any:
            filtered = torch.relu(self.conv(seen.permute(0, 3, 1, 2)))
            return torch.relu(self.hidden(filtered.flatten(1)))

    return Conv


def fitting_steps(learner: Ours | Theirs, seconds: float) -> int:
    """How many steps take about so long; whole periods, since once a period targets are copied and pools are made."""
    spent = learner.time(learner.period)
    return learner.period * max(1, math.ceil(seconds / spent))


def replay_bytes(game: str) -> int:
    """Of one lane's replay at the preset "paper"."""
    config = RunConfig.from_preset(game)
    seen = config.make_env().observation
    made = jax.eval_shape(ReplayBuffer(config.agent.replay_size, config.agent.num_envs, seen.shape, seen.dtype).init)
    return tree_bytes(made)

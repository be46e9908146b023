"""stable-baselines3's DQN with the workload of our agent.

It acts in one environment, stores each step and trains on 32 samples after it, with the network, the optimiser and the
replay buffer of the preset "paper". It plays classic control in Gymnasium's own environment, and MinAtar in ours
through Gymnasium, which takes far less time than its update does.
"""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax

from greedystep.deep.config import DQNConfig
from greedystep.deep.device_memory import tree_bytes
from greedystep.deep.dqn_run import DQNRunConfig
from greedystep.envs.gymnasium_ids import gymnasium_id, make_gymnasium
from greedystep.replay import ReplayBuffer

PEER = "stable-baselines3"


class TimedPeer:
    """stable-baselines3's DQN, warmed up, with the number of threads that is fastest."""

    compile_seconds = None

    def __init__(self, game: str) -> None:
        torch = import_module("torch")
        config = DQNRunConfig.from_preset(game, "paper", returns="one-step")
        self.period = 100  # any number would do: its target network updates cost next to nothing
        self._model = _model(game, config)
        self._learn(config.agent.warmup + 200)
        spent = {}
        for threads in sorted({1, torch.get_num_threads()}):
            torch.set_num_threads(threads)
            spent[threads] = self.time(200)
        self.threads = min(spent, key=lambda threads: spent[threads])
        torch.set_num_threads(self.threads)

    def time(self, steps: int) -> float:
        """Train for `steps` steps and return the seconds it took."""
        begin = time.perf_counter()
        self._learn(steps)
        return time.perf_counter() - begin

    def _learn(self, steps: int) -> None:
        self._model.learn(steps, log_interval=None, reset_num_timesteps=False)


def peer_is_installed() -> bool:
    """Return whether stable-baselines3 can be imported."""
    return find_spec("stable_baselines3") is not None


def _model(game: str, config: DQNRunConfig) -> Any:
    import gymnasium

    torch, peer, agent = import_module("torch"), import_module("stable_baselines3"), config.agent
    if game.startswith("classic/"):
        names = {"classic/mountaincar": "MountainCar-v0"}
        env = gymnasium.make(names[game], max_episode_steps=config.options["limit"])
        shape: dict[str, Any] = {"net_arch": list(agent.hidden)}
    else:
        env = make_gymnasium(gymnasium_id(game), **config.options)
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
    """Return MinAtar's network up to its last layer: 16 filters of 3 x 3, then a hidden layer."""
    torch: Any = import_module("torch")
    base: Any = import_module("stable_baselines3.common.torch_layers").BaseFeaturesExtractor

    class Conv(base):
        def __init__(self, space: Any, features_dim: int) -> None:
            super().__init__(space, features_dim)
            height, width, channels = space.shape
            self.conv = torch.nn.Conv2d(channels, 16, 3)
            self.hidden = torch.nn.Linear(16 * (height - 2) * (width - 2), features_dim)

        def forward(self, observation: Any) -> Any:
            filtered = torch.relu(self.conv(observation.permute(0, 3, 1, 2)))
            return torch.relu(self.hidden(filtered.flatten(1)))

    return Conv


def replay_bytes(game: str) -> int:
    """Return the bytes of one lane's replay buffer with the preset "paper"."""
    config = DQNRunConfig.from_preset(game)
    space = config.make_env().observation
    buffer = ReplayBuffer(config.agent.replay_size, config.agent.num_envs, space.shape, space.dtype)
    return tree_bytes(jax.eval_shape(buffer.init))

"""DQN in PyTorch, in one file, whose targets are multi-step returns of greedystep.

The replay buffer keeps steps in the order they were taken. A batch is B stretches of T consecutive steps; the target
network values all their next states at once, and `gs.returns` turns rewards and values [T, B] into targets [T, B]
without a copy. `--returns greedy-step` is the paper's rule; `--returns one-step` is plain DQN.

    python examples/torch_dqn.py --returns lambda --total-timesteps 30000
"""

import argparse
import random

import gymnasium
import numpy as np
import torch
from torch import nn

import greedystep as gs

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--env-id", default="CartPole-v1")
parser.add_argument("--returns", default="lambda", choices=["one-step", "lambda", "greedy-step"])
parser.add_argument("--lambda", dest="lambda_", type=float, default=0.7)
parser.add_argument("--total-timesteps", type=int, default=30_000)
parser.add_argument("--learning-starts", type=int, default=1_000)
parser.add_argument("--train-frequency", type=int, default=4)
parser.add_argument("--target-network-frequency", type=int, default=200)
parser.add_argument("--buffer-size", type=int, default=20_000)
parser.add_argument("--batch-size", type=int, default=16, help="stretches per batch")
parser.add_argument("--num-steps", type=int, default=16, help="steps per stretch")
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--start-e", type=float, default=1.0)
parser.add_argument("--end-e", type=float, default=0.05)
parser.add_argument("--exploration-fraction", type=float, default=0.3)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--seed", type=int, default=1)


class ReplayBuffer:
    """The newest steps, in a ring. Each keeps its own next observation: there is no other after an episode's end."""

    def __init__(self, size: int, observation_shape: tuple[int, ...]):
        self.observations = torch.zeros(size, *observation_shape)
        self.next_observations = torch.zeros(size, *observation_shape)
        self.actions = torch.zeros(size, dtype=torch.int64)
        self.rewards = torch.zeros(size)
        self.terminated = torch.zeros(size, dtype=torch.bool)
        self.truncated = torch.zeros(size, dtype=torch.bool)
        self.size, self.added = size, 0

    def add(self, observation, next_observation, action, reward, terminated, truncated) -> None:
        i = self.added % self.size
        self.observations[i] = torch.as_tensor(observation)
        self.next_observations[i] = torch.as_tensor(next_observation)
        self.actions[i], self.rewards[i] = int(action), float(reward)
        self.terminated[i], self.truncated[i] = bool(terminated), bool(truncated)
        self.added += 1

    def sample(self, steps: int, batch: int) -> torch.Tensor:
        """Return indices [steps, batch] of stretches that do not run into the newest step."""
        oldest = max(0, self.added - self.size)
        begins = torch.randint(oldest, self.added - steps + 1, (batch,))
        return (begins + torch.arange(steps)[:, None]) % self.size


def targets_of(arguments: argparse.Namespace, rewards, discounts, values, cuts) -> torch.Tensor:
    """Return the targets [T, B]. `values` came out of `torch.no_grad()`, and so do they."""
    if arguments.returns == "greedy-step":
        return gs.returns.greedy_step(rewards, discounts, values, cuts=cuts).returns
    if arguments.returns == "lambda":
        return gs.returns.lambda_return(rewards, discounts, values, arguments.lambda_, cuts=cuts)
    return gs.returns.n_step(rewards, discounts, values, 1, cuts=cuts)


def main(argv: list[str] | None = None) -> list[float]:
    """Train; return the returns of all episodes."""
    args = parser.parse_args(argv)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is too small for more
    env = gymnasium.make(args.env_id)
    inputs, num_actions = int(np.prod(env.observation_space.shape)), int(env.action_space.n)

    def make_network() -> nn.Module:
        return nn.Sequential(
            nn.Flatten(start_dim=-len(env.observation_space.shape)),
            nn.Linear(inputs, args.hidden),
            nn.ReLU(),
            nn.Linear(args.hidden, args.hidden),
            nn.ReLU(),
            nn.Linear(args.hidden, num_actions),
        )

    q_network, target_network = make_network(), make_network()
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    buffer = ReplayBuffer(args.buffer_size, env.observation_space.shape)

    returns, episode_return = [], 0.0
    observation, _ = env.reset(seed=args.seed)
    for step in range(args.total_timesteps):
        progress = step / (args.exploration_fraction * args.total_timesteps)
        epsilon = max(args.end_e, args.start_e + (args.end_e - args.start_e) * progress)
        if random.random() < epsilon:
            action = random.randrange(num_actions)
        else:
            with torch.no_grad():
                action = int(q_network(torch.as_tensor(observation)).argmax())
        next_observation, reward, terminated, truncated, _ = env.step(action)
        buffer.add(observation, next_observation, action, reward, terminated, truncated)
        observation, episode_return = next_observation, episode_return + float(reward)
        if terminated or truncated:
            observation, _ = env.reset()
            returns.append(episode_return)
            episode_return = 0.0
            if len(returns) % 20 == 0:
                print(f"step {step + 1}, mean return of the last 20 episodes {np.mean(returns[-20:]):.1f}", flush=True)

        if step >= args.learning_starts and step % args.train_frequency == 0:
            i = buffer.sample(args.num_steps, args.batch_size)
            with torch.no_grad():
                values = target_network(buffer.next_observations[i]).max(dim=-1).values
                discounts = args.gamma * (~buffer.terminated[i]).float()
                targets = targets_of(args, buffer.rewards[i], discounts, values, buffer.truncated[i])
            taken = q_network(buffer.observations[i]).gather(-1, buffer.actions[i][..., None]).squeeze(-1)
            loss = nn.functional.mse_loss(taken, targets)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(q_network.parameters(), 10.0)
            optimizer.step()
        if step % args.target_network_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())
    env.close()
    return returns


if __name__ == "__main__":
    main()

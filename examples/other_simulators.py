"""Agents in other people's simulators: MinAtar's own games, Atari and LunarLander.

pip install minatar ale-py box2d pygame
python examples/other_simulators.py minatar --steps 1e6
python examples/other_simulators.py atari --steps 1e6        # with a GPU
python examples/other_simulators.py lunar-lander --steps 2e5
"""

import argparse
from functools import partial

import greedystep as gs


def minatar(**settings) -> gs.DQN:
    """MinAtar's package steps on the host; gs.envs has the same games compiled."""
    from minatar.gym import register_envs

    register_envs()
    return gs.DQN("MinAtar/Breakout-v1", **settings)


def atari(**settings) -> gs.DQN:
    """ale-py's vector environments have DQN's wrappers built in: frame skip, 84 x 84 grey pixels, clipped rewards.

    Images as large as these get the network of Mnih et al. (2015). A stored observation takes 28 kB. These environments
    reset themselves: a resumed training begins new episodes.
    """
    from ale_py.vector_env import AtariVectorEnv

    settings = {"num_envs": 8, "replay_size": 40_000, "hidden": (512,), "learning_rate": 1e-4} | settings
    return gs.DQN(make_vec=partial(AtariVectorEnv, "pong"), **settings)


def lunar_lander(**settings) -> gs.DQN:
    """LunarLander needs Box2D."""
    return gs.DQN("LunarLander-v3", **settings)


SIMULATORS = {"minatar": minatar, "atari": atari, "lunar-lander": lunar_lander}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("simulator", choices=SIMULATORS)
    parser.add_argument("--steps", type=float, default=1e5)
    arguments = parser.parse_args()
    agent = SIMULATORS[arguments.simulator]()
    agent.learn(int(arguments.steps), progress_bar=True, log_interval=1)
    print(agent, "mean return", agent.evaluate(episodes=8).mean)

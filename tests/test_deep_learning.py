"""Does it learn? Minutes each (`pytest -m long`), with floors that a broken agent misses by far."""

import numpy as np
import pytest

from greedystep import envs
from greedystep.deep.presets import env_options, make_config
from greedystep.deep.train import Trainer

pytestmark = pytest.mark.long


def later_returns(name, steps, **settings):
    """For each of three seeds, the median over the last half of the rows of metrics of their mean training returns."""
    trainer = Trainer(make_config(name, **settings), envs.make_env(name, **env_options(name)), [0, 1, 2])
    rows = [row for row in trainer.run(steps) if row["step"] > steps // 2]
    return [float(np.median([row["episode_return"] for row in rows if row["seed"] == seed])) for seed in range(3)]


def test_greedy_step_climbs_the_mountain():
    """Random play never arrives (-1000). 100 000 steps, of which -1000 an episode would leave no more than 100."""
    assert min(later_returns("classic/mountaincar", 100_000, returns="greedy-step", ensemble=2)) > -200


def test_greedy_step_catches_the_fruit():
    """Random play: -6.7; the most that can be had in 2000 steps: 56."""
    found = later_returns("ple/catcher", 250_000, returns="greedy-step", ensemble=2)
    assert np.median(found) > 50
    assert min(found) > 30

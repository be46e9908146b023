"""Made-up trainings in the place of real ones, so that whole experiments run in seconds."""

import numpy as np

from greedystep.experiments.deep import training

BASE = {"one-step": 10.0, "n-step": 9.0, "sarsa": 8.0, "lambda": 12.0, "watkins": 7.0, "greedy-step": 18.0}
POINTS = 20


class MadeUp:
    """Stands for `training.train`: the best setting is known, and every lane that is trained is counted."""

    def __init__(self):
        self.trained = []
        self.fail_at = None
        self.fading = None
        """Returns and number of networks whose later seeds come to nothing."""

    def __call__(self, lanes, length, on_chunk=lambda steps, speed: None, half_way=None):
        assert len({lane.program for lane in lanes}) == 1
        self.trained += [(lane.task, dict(lane.setting), lane.seed, length.steps) for lane in lanes]
        if self.fail_at is not None and len(self.trained) > self.fail_at:
            raise KeyboardInterrupt
        on_chunk(length.steps * len(lanes), 1000.0)
        return [self._record(lane, length) for lane in lanes]

    def _record(self, lane, length):
        steps = np.linspace(length.steps / POINTS, length.steps, POINTS).astype(int)
        config = lane.config
        final = BASE.get(config.returns, 5.0) + config.ensemble - 1e3 * abs(config.learning_rate - 1e-4)
        final += {5: 0.5}.get(config.n, 0.0) + (lane.seed % 7) / 10
        if 5 <= lane.seed < 100 and (config.returns, config.ensemble) == self.fading:
            final = 0.0
        rows = [
            {
                "step": int(step),
                "episode_return": final * (i + 1) / POINTS,
                "episodes": 100,
                "mean_q": 20.0 / config.ensemble,
                "mean_n": 9.0 - i / 4 if config.returns == "greedy-step" else None,
                "overestimation": 5.0 / config.ensemble + (config.horizon is None),
                "n_histogram": [10, *[1] * 15],
                "steps_per_second": 1000.0,
            }
            for i, step in enumerate(steps)
        ]
        for row in rows if length.greedy_points else ():
            row |= {"greedy_return": 2 * row["episode_return"], "greedy_overestimation": row["overestimation"] - 1}
        more = {"evaluation": final + 1, "diverged": None, "seconds": 2.0, "device": "cpu"}
        return training._record(lane, rows, length) | more


def silent(share, what):
    assert 0 <= share <= 1
    assert what

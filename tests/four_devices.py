"""Trains lanes where this process has four devices, for `test_lane_devices`: python four_devices.py FOLDER."""

import io
import json
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
from deep_runs import TIMES, tiny, words

from greedystep import cli
from greedystep.deep import trainer as trainer_module
from greedystep.deep.device_memory import largest_intermediate
from greedystep.deep.evaluator import Evaluator
from greedystep.deep.heads import HeadScores
from greedystep.deep.lane_devices import lane_devices, one_lane, spread
from greedystep.deep.trainer import Trainer

HALF, END = 100, 200
RATES = (1e-3, 3e-3, 1e-2, 1e-3, 3e-3, 1e-2)
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective", "send", "recv")


def make_trainer(lanes):
    config = tiny(seeds=tuple(range(lanes)), log_every=HALF)
    rates = {"learning_rate": RATES[:lanes]}
    return Trainer(config.agent, config.make_env(), config.seeds, lane_hyperparams=rates)


def train(trainer, folder):
    """Train from where the trainer is to END, with a checkpoint per chunk; return the rows and greedy episodes."""
    rows = []
    for chunk in trainer.chunks(END - int(trainer.state.step)):
        rows += [{name: value for name, value in row.items() if name not in TIMES} for row in chunk]
        trainer.save(folder)
    played = Evaluator(trainer.learner, trainer.env)(trainer.params, 7, episodes=5, limit=100)
    return {"rows": rows, "played": [x.tolist() for x in played]}


def checkpoint_at(folder, step):
    return folder / f"step-{step:012}.ckpt"


def largest_share(trainer):
    """Bytes of the largest intermediate array of a chunk on each device."""
    arguments = (jnp.int32(0), trainer.state.lanes, trainer.hyperparams, jnp.int32(1))
    return largest_intermediate(trainer._chunk.trace(*arguments))


def heads_of_lanes(devices):
    """What rows and evaluations read of the heads of returns="auto", for four lanes with returns of their own."""
    lanes = jax.vmap(lambda key: HeadScores.init(key, 2))(jax.random.split(jax.random.key(0), 4))
    totals = jax.random.normal(jax.random.key(1), lanes.total.shape)
    lanes = lanes._replace(count=lanes.count + 3, total=totals, squares=totals**2)
    lanes = jax.jit(partial(spread, lambda x: x, devices))(lanes)
    columns = [one_lane(lanes, i).summary().columns() for i in range(4)]
    return columns, spread(jax.vmap(HeadScores.best), devices, lanes).tolist()


def main(folder):
    trainer_module.RENUMBER_FROM = HALF  # rows of the replay buffer are renumbered after each chunk
    found = {"devices": len(jax.local_devices())}
    for lanes in (4, 6):
        trainer = make_trainer(lanes)
        intermediate = largest_share(trainer)
        trainer.compile()
        text = trainer._programs[1].as_text() or ""
        result = train(trainer, folder / f"four-{lanes}")
        found[str(lanes)] = result | {
            "devices": len(trainer.devices),
            "intermediate": intermediate,
            "collectives": [name for name in COLLECTIVES if name in text],
        }
    alone = trainer.alone(3)
    found["alone"] = [array.device == alone.devices[0] for array in jax.tree.leaves(alone.state.lanes)]
    alone.save(folder / "alone")
    trainer.restore(checkpoint_at(folder / "one", HALF))
    found["resumed"] = train(trainer, folder / "resumed")
    found["heads"] = heads_of_lanes(lane_devices(4))
    with jax.default_device(jax.devices()[1]):
        found["chosen"] = [device.id for device in lane_devices(4)]
    with redirect_stdout(io.StringIO()) as said:
        assert cli.main(words(END, folder / "command", "--seeds", 4)) == 0
    found["said"] = said.getvalue()
    (folder / "four.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A training that was stopped half-way, and goes on where it was.

Its state is a checkpoint in a folder of its own, written once a minute and whenever it is asked to stop. `Session`
removes the folder when the finished training is safely in the store.
"""

from __future__ import annotations

import shutil
import time
import warnings
from pathlib import Path
from typing import Any

from greedystep import checkpoint, schema
from greedystep.deep.trainer import Row, Trainer

EVERY = 60.0
"""Seconds between two checkpoints."""


_ROW = {"step": schema.Int(), "lane": schema.Int(), "n_histogram": [schema.Int()]}
SO_FAR = {"so_far": {"rows": [_ROW], "diverged": dict}}
"""What a checkpoint says of itself besides what its trainer does."""


class Underway:
    """The half-way state of one training.

    Args:
        folder: this training's own, and nobody else's; None to keep nothing.
    """

    def __init__(self, folder: Path | None, trainer: Trainer):
        self._folder, self._trainer, self._saved = folder, trainer, time.monotonic()

    def restore(self) -> dict[str, Any]:
        """Bring the trainer to where it was; what was given to `save`, nothing if it is at its beginning.

        A state that is damaged is named in a warning and removed: the training begins again.
        """
        if self._folder is None:
            return {}
        try:
            found = checkpoint.latest(self._folder)
            if found is None:
                return {}
            so_far = schema.check(checkpoint.read_about(found), SO_FAR, str(found))["so_far"]
            self._trainer.restore(found)
        except ValueError as problem:
            warnings.warn(f"{problem}; this training begins again", RuntimeWarning, stacklevel=2)
            shutil.rmtree(self._folder)
            return {}
        return so_far

    def save_now_and_then(self, rows: list[Row], **more: Any) -> None:
        """Call it after each chunk."""
        if time.monotonic() - self._saved > EVERY:
            self.save(rows, **more)

    def save(self, rows: list[Row], **more: Any) -> None:
        """Keep the state and what has been told so far."""
        if self._folder is not None:
            self._trainer.save(self._folder, so_far={"rows": rows, **more})
            checkpoint.prune(self._folder, keep=1)
        self._saved = time.monotonic()

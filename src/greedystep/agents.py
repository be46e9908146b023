"""Load saved agents of either kind: networks or tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greedystep import io
from greedystep.extras import deep_extra
from greedystep.numpy_policy import FILE_FORMAT as POLICY
from greedystep.tabular import TabularAgent
from greedystep.tabular.tabular_run import KIND as TABLE
from greedystep.tabular.tabular_run import load_agent as load_table

if TYPE_CHECKING:
    from greedystep.deep.agent import DQN
    from greedystep.deep.networks import MakeNetwork


def load(
    path: str | os.PathLike, env: Any = None, *, lane: int = 0, network: MakeNetwork | None = None
) -> DQN | TabularAgent:
    """Load any saved agent, a `DQN` or a `TabularAgent`, from its file or from its run folder.

    Args:
        env: the agent's environment or its name; needed if the file cannot make it again, or if Gymnasium would have
            to import a module for it ("module:name").
        lane: for networks: which training of a run, by the position of its seed.
        network: for networks: the function that made them, if it was your own.
    """
    path = Path(path)
    try:
        of_table = is_table(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"no such agent file: {path}") from None
    refuse_policy(path)
    if not of_table:
        with deep_extra():
            from greedystep.deep.agent import DQN
        return DQN.load(_newest_checkpoint(path) if path.is_dir() else path, env, lane=lane, network=network)
    if lane or network is not None:
        raise ValueError(f"{'lane' if lane else 'network'}: {path} is a table, which has none")
    return load_table(path, env) if path.is_dir() else TabularAgent.load(path, env)


def is_table(path: Path) -> bool:
    """Whether a run folder is that of a table, by its config.json; all files but checkpoints are taken for tables."""
    if path.is_dir():
        config = path / "config.json"
        content = io.read_json(config) if config.exists() else None
        return isinstance(content, dict) and content.get("kind") == TABLE
    with io.open_regular_file(path) as file:
        return file.read(len(io.CHECKPOINT_MAGIC)) != io.CHECKPOINT_MAGIC


def refuse_policy(path: Path) -> None:
    """Raise ValueError if the file is an exported policy, which acts but is no agent that could go on."""
    if path.suffix == ".onnx":
        raise ValueError(f"{path} is an ONNX model, for ONNX Runtime; greedystep plays policies that end in .npz")
    if is_policy(path):
        raise ValueError(
            f"{path} is an exported policy, not an agent: gs.NumpyPolicy.load reads it, eval and watch play it"
        )


def is_policy(path: Path) -> bool:
    """Whether a file is a policy that `NumpyPolicy.save` wrote as .npz."""
    return path.is_file() and io.npz_format(path) == POLICY


def _newest_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint of a run folder; ValueError if there is none."""
    from greedystep import checkpoint

    newest = checkpoint.latest(folder / "checkpoints")
    if newest is None:
        raise ValueError(f"{folder} is not the folder of a run: there is no checkpoint in its checkpoints/")
    return newest

"""Observation spaces as JSON, for files of agents that know an environment by its dataset alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from greedystep import io

PLAIN = {
    "Box": (spaces.Box, ("low", "high", "dtype")),
    "Discrete": (spaces.Discrete, ("n", "start")),
    "MultiBinary": (spaces.MultiBinary, ("n",)),
    "MultiDiscrete": (spaces.MultiDiscrete, ("nvec", "start")),
}
"""Kind of a space -> its class, and the arguments that make it again; their attributes have the same names."""


def space_to_json(space: spaces.Space) -> dict[str, Any]:
    """Return a space that `ObservationCodec` takes as JSON."""
    if isinstance(space, spaces.Dict):  # a list, since their order is that of a flattened observation
        return {"kind": "Dict", "spaces": [[name, space_to_json(one)] for name, one in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_to_json(one) for one in space.spaces]}
    kind, names = next((kind, names) for kind, (cls, names) in PLAIN.items() if isinstance(space, cls))
    values = {name: getattr(space, name) for name in names}
    if kind == "Box":
        values["dtype"] = str(values["dtype"])
    return {"kind": kind} | io.jsonable(values)


def space_from_json(content: Any, where: str) -> spaces.Space:
    """Make the space that `space_to_json` described; ValueError, which calls it `where`, if it describes none."""
    try:
        if content["kind"] == "Dict":
            return spaces.Dict([(str(name), space_from_json(one, where)) for name, one in content["spaces"]])
        if content["kind"] == "Tuple":
            return spaces.Tuple([space_from_json(one, where) for one in content["spaces"]])
        cls, names = PLAIN[content["kind"]]
        values = {name: content[name] for name in names}
        if cls is spaces.Box:
            values |= {name: np.array(values[name], np.dtype(values["dtype"])) for name in ("low", "high")}
        return cls(**values)
    except (TypeError, ValueError, LookupError, AssertionError, OverflowError):
        raise ValueError(f"{where} describes no space of Gymnasium") from None

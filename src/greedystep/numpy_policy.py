"""The greedy policy of trained networks, for deployment: a small file that loads and acts with NumPy alone.

agent.export_policy("policy.npz")                       # or `greedystep export RUN --policy policy.npz`
policy = gs.NumpyPolicy.load("policy.npz")              # imports neither JAX nor Gymnasium
action = policy.predict(observation)
policy.save("policy.onnx")                              # for ONNX Runtime and the like
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from greedystep import io

FILE_FORMAT = "greedystep-policy-1"
KINDS = ("mlp", "one-hot", "conv")
ENDINGS = (".npz", ".onnx")
"""Endings of the files that `save` writes."""
SIDE = 3
"""Width and height of the filters of a convolution."""
DTYPES = ("float32", "bool", "uint8", "uint16", "int8", "int16", "int32")
"""Dtypes that observations can have."""
LEVELS = (127, 63)
"""Numbers of levels above zero to which weights are rounded, one after another, until a file is small enough."""


def apply_layers(x: Any, layers: Sequence[tuple[Any, Any]], xp: Any = np) -> Any:
    """Apply linear layers with ReLUs between them: [..., B, inputs] -> [..., B, outputs].

    Args:
        layers: weights [..., inputs, outputs] and biases [..., outputs].
        xp: the module of the arrays, NumPy or jax.numpy.
    """
    for number, (weight, bias) in enumerate(layers):
        x = x @ weight + bias[..., None, :]
        if number < len(layers) - 1:
            x = xp.maximum(x, 0)
    return x


class NumpyPolicy:
    """A greedy policy of M networks that needs NumPy only: argmax_a (1 - c) mean_m Q_m(s, a) + c min_m Q_m(s, a).

    Args:
        kind: "mlp" on the flat observation, "one-hot" on a state number, or "conv", one convolution with 3 x 3 filters
            before the MLP.
        shape: shape of one observation.
        scale: observations are divided by it (255 for bytes).
        layers: weights [M, inputs, outputs] and biases [M, outputs] of each layer; of a convolution the first ones are
            [M, 9 C, filters], ordered by row, column and channel of a patch.
        bcq_threshold: if given, the last of the networks is not among the M: it has the logits of the behaviour, and
            actions are only those whose probability is at least this share of the most probable one's.
        pessimism: c; 1 for the minimum over the networks, 0 for their mean.
        dtype: dtype of observations in the environment, for ONNX; `predict` takes any.
        env: name of the environment, for whoever finds the file.
        first_action: number of the environment's first action; it is not 0 where its space is Discrete(n, start=...).
        first_state: for "one-hot": number of the environment's first state, likewise.
    """

    def __init__(
        self,
        kind: str,
        shape: Sequence[int],
        layers: Sequence[tuple[np.ndarray, np.ndarray]],
        scale: float = 1.0,
        bcq_threshold: float | None = None,
        pessimism: float = 1.0,
        dtype: str = "float32",
        env: str = "",
        first_action: int = 0,
        first_state: int = 0,
    ):
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        self.kind, self.shape, self.scale = kind, tuple(int(size) for size in shape), float(scale)
        self.layers = [(np.asarray(w, np.float32), np.asarray(b, np.float32)) for w, b in layers]
        self.bcq_threshold, self.pessimism = bcq_threshold, float(pessimism)
        self.dtype, self.env = str(dtype), str(env)
        self.first_action, self.first_state = int(first_action), int(first_state)
        self._check()

    def _check(self) -> None:
        """Raise ValueError unless each layer fits the one before, and the first fits the observation."""
        inputs, layers = int(np.prod(self.shape, dtype=int)), list(self.layers)
        if self.kind == "one-hot":
            if self.shape:
                raise ValueError(f"shape: a one-hot policy sees state numbers, of shape (), got {self.shape}")
            inputs = layers[0][0].shape[1] if layers and layers[0][0].ndim == 3 else -1
        if self.kind == "conv" and layers:
            if len(self.shape) != 3 or min(self.shape[:2]) < SIDE:
                raise ValueError(f"shape: a convolution needs an image [H, W, C] of at least 3 x 3, got {self.shape}")
            height, width, channels = self.shape
            weight, bias = layers.pop(0)
            if weight.ndim != 3 or weight.shape[1] != SIDE * SIDE * channels or bias.shape != weight.shape[::2]:
                raise ValueError(f"layers: the filters have shape {weight.shape} and {bias.shape}")
            inputs = (height - SIDE + 1) * (width - SIDE + 1) * weight.shape[2]
        if not layers:
            raise ValueError("layers: expected at least one")
        for number, (weight, bias) in enumerate(layers):
            networks = self.layers[0][0].shape[0]
            if weight.ndim != 3 or weight.shape[:2] != (networks, inputs) or bias.shape != weight.shape[::2]:
                raise ValueError(
                    f"layers: layer {number} of shapes {weight.shape}, {bias.shape} does not fit the others"
                )
            inputs = weight.shape[2]
        if self.bcq_threshold is not None and not (0 <= self.bcq_threshold <= 1 < len(self.layers[0][0])):
            raise ValueError(f"bcq_threshold: expected 0 to 1 and two networks or more, got {self.bcq_threshold}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.first_state and self.kind != "one-hot":
            raise ValueError(f"first_state: only a one-hot policy has states, got {self.first_state}")
        if not 0 <= self.pessimism <= 1:
            raise ValueError(f"pessimism: expected 0 to 1, got {self.pessimism}")
        if not all(np.isfinite(array).all() for layer in self.layers for array in layer):
            raise ValueError("layers: expected finite numbers")

    def __repr__(self) -> str:
        networks = len(self.layers[0][0]) - (self.bcq_threshold is not None)
        seen = f"{self.layers[0][0].shape[1]} states" if self.kind == "one-hot" else list(self.shape)
        parts = [repr(self.kind), *([repr(self.env)] if self.env else []), f"{seen} -> {self.num_actions} actions"]
        return f"NumpyPolicy({', '.join(parts + ([f'{networks} networks'] if networks > 1 else []))})"

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return self.layers[-1][1].shape[1]

    def values(self, observations: Any) -> np.ndarray:
        """Return the Q-values that the policy acts on: [..., A].

        States are counted as the environment counts them, from `first_state`.
        With a `bcq_threshold` they are -inf for the actions that were not in the data.
        """
        seen = np.asarray(observations)
        batch = seen.shape[: seen.ndim - len(self.shape)]
        if seen.shape[len(batch) :] != self.shape or seen.dtype.kind not in "biuf":
            raise ValueError(f"observations: expected numbers of shape {self.shape}, or many, got shape {seen.shape}")
        # The sum of squares is not finite if an entry is not; it is several times faster to test than every entry.
        if seen.dtype.kind == "f" and not isfinite(np.vdot(seen, seen)) and not np.isfinite(seen).all():
            raise ValueError(f"observations: expected finite numbers, got {seen[~np.isfinite(seen)][0]}")
        if self.kind == "one-hot" and seen.size:
            first, last = self.first_state, self.first_state + self.layers[0][0].shape[1] - 1
            if not first <= seen.min() <= seen.max() <= last:
                raise ValueError(f"observations: expected states in {first}..{last}, got {seen}")
            seen = seen - first
        if not seen.size:  # NumPy cannot tell how many observations of no entries there are
            return np.zeros((*batch, self.num_actions), np.float32)
        return self.batch_values(seen.reshape(-1, *self.shape)).reshape(*batch, self.num_actions)

    def batch_values(self, observations: Any, xp: Any = np, layers: Sequence[tuple[Any, Any]] | None = None) -> Any:
        """Return the Q-values of a batch of observations, [B, ...] -> [B, A], without checks; states count from 0.

        Args:
            xp: the module that computes: NumPy, or jax.numpy in a compiled program.
            layers: weights and biases that are arguments of such a program (by default the policy's own).
        """
        layers = self.layers if layers is None else layers
        if self.kind == "one-hot":
            (weight, bias), *layers = layers
            x = xp.asarray(weight)[:, observations.astype(np.int32)] + bias[:, None]  # a row per state: [M, B, outputs]
            return self._rest(xp.maximum(x, 0) if layers else x, layers, xp)
        x = observations.astype(np.float32) / np.float32(self.scale)
        if self.kind == "conv":
            (weight, bias), *layers = layers
            _, height, width, _ = x.shape
            rows, columns = height - SIDE + 1, width - SIDE + 1
            patches = [x[:, i : i + rows, j : j + columns] for i in range(SIDE) for j in range(SIDE)]
            patches = xp.concatenate(patches, axis=-1).reshape(len(x), rows * columns, -1)
            found = xp.einsum("bpi,mio->mbpo", patches, weight, optimize=True) + bias[:, None, None]
            x = xp.maximum(found, 0).reshape(len(weight), len(x), -1)
        else:
            x = xp.broadcast_to(x.reshape(len(x), -1), (len(layers[0][0]), len(x), layers[0][0].shape[1]))
        return self._rest(x, layers, xp)

    def _rest(self, x: Any, layers: Sequence[tuple[Any, Any]], xp: Any) -> Any:
        """Apply linear layers with ReLUs between them, [M, B, inputs], and combine the networks."""
        x = apply_layers(x, layers, xp)
        if self.bcq_threshold is None:
            return self._combine(x)
        logits = x[-1]
        probability = xp.exp(logits - logits.max(axis=-1, keepdims=True))
        return xp.where(probability >= self.bcq_threshold, self._combine(x[:-1]), -np.inf)

    def _combine(self, q: Any) -> Any:
        """Return the Q-values of all networks together, [M, B, A] -> [B, A]."""
        least = q.min(axis=0)
        return least if self.pessimism == 1 else q.mean(axis=0) + np.float32(self.pessimism) * (least - q.mean(axis=0))

    def predict(self, observations: Any) -> Any:
        """Return the greedy action of one observation, an int, or int [...] for many; ties go to the lowest action."""
        actions = self.values(observations).argmax(axis=-1) + self.first_action
        return int(actions) if np.ndim(actions) == 0 else actions

    def save(self, path: str | os.PathLike, *, max_bytes: int | None = None) -> None:
        """Write the policy to an .npz or .onnx file, as its name ends, atomically and without pickle.

        Args:
            max_bytes: for .npz: store the weights with fewer bits where the file would be larger than that. What is
                loaded from such a file differs a little from this policy.
        """
        ending = Path(path).suffix.lower()
        if ending not in ENDINGS:
            raise ValueError(f"path: expected a file that ends in {' or '.join(ENDINGS)}, got {os.fspath(path)!r}")
        if ending == ".onnx":
            if max_bytes is not None:
                raise ValueError("max_bytes: only an .npz file is made smaller")
            from greedystep.onnx_policy import onnx_bytes

            content = onnx_bytes(self)
        else:
            content = self._npz(max_bytes)
        with io.atomic_write(path) as file:
            file.write(content)

    def _npz(self, max_bytes: int | None) -> bytes:
        """Return the content of an .npz file of at most that many bytes; ValueError if it cannot be so small."""
        about: dict[str, Any] = {"format": FILE_FORMAT, "kind": self.kind, "scale": self.scale}
        about |= {"dtype": self.dtype, "env": self.env, "shape": np.array(self.shape, np.int64)}
        if self.bcq_threshold is not None:
            about["bcq_threshold"] = self.bcq_threshold
        if self.first_action:
            about["first_action"] = self.first_action
        if self.first_state:
            about["first_state"] = self.first_state
        if self.pessimism != 1:
            about["pessimism"] = self.pessimism
        about |= {f"bias{i}": b for i, (_, b) in enumerate(self.layers)}
        size = 0
        for weights in self._stored_weights():
            file = BytesIO()
            np.savez_compressed(file, **about, **weights)
            size = file.tell()
            if max_bytes is None or size <= max_bytes:
                return file.getvalue()
        raise ValueError(f"max_bytes: this policy needs at least {size} bytes, got {max_bytes}")

    def _stored_weights(self) -> Iterator[dict[str, Any]]:
        """Yield the weights as they are stored, with fewer and fewer bits.

        First float32, then float16, then integers from -127 to 127 times a unit per output, then from -63 to 63, which
        can be compressed better.
        """
        for dtype in (np.float32, np.float16):
            yield {f"weight{i}": w.astype(dtype) for i, (w, _) in enumerate(self.layers)}
        for levels in LEVELS:
            stored = {}
            for i, (w, _) in enumerate(self.layers):
                unit = np.maximum(np.abs(w).max(axis=1, keepdims=True), np.float32(1e-20)) / np.float32(levels)
                stored |= {f"weight{i}": np.rint(w / unit).astype(np.int8), f"unit{i}": unit}
            yield stored

    @classmethod
    def load(cls, path: str | os.PathLike) -> NumpyPolicy:
        """Read a policy written by `save`; ValueError says in one sentence what is wrong with another file."""
        arrays = io.load_npz(path, FILE_FORMAT, "policy")

        def layer(i: int) -> tuple[np.ndarray, np.ndarray]:
            bias = io.get_array(arrays, f"bias{i}", "f", 2)
            if f"unit{i}" not in arrays:
                return io.get_array(arrays, f"weight{i}", "f", 3), bias
            weight, unit = io.get_array(arrays, f"weight{i}", "i", 3), io.get_array(arrays, f"unit{i}", "f", 3)
            if unit.shape != (weight.shape[0], 1, weight.shape[2]):
                raise ValueError(f"unit{i} has shape {unit.shape} for weights of {weight.shape}")
            return weight * unit, bias

        try:
            layers = [layer(i) for i in range(sum(name.startswith("weight") for name in arrays))]
            texts = {name: str(io.get_array(arrays, name, "U", 0)) for name in ("dtype", "env") if name in arrays}
            kind, scale = str(io.get_array(arrays, "kind", "U", 0)), float(io.get_array(arrays, "scale", "f", 0))
            threshold = float(io.get_array(arrays, "bcq_threshold", "f", 0)) if "bcq_threshold" in arrays else None
            name = "caution" if "caution" in arrays else "pessimism"  # as version 1.0 called it
            pessimism = float(io.get_array(arrays, name, "f", 0)) if name in arrays else 1.0
            names = [name for name in ("first_action", "first_state") if name in arrays]
            firsts: dict[str, Any] = {name: int(io.get_array(arrays, name, "iu", 0)) for name in names}
            shape = io.get_array(arrays, "shape", "iu", 1).tolist()
            return cls(kind, shape, layers, scale, threshold, pessimism, **texts, **firsts)
        except ValueError as problem:
            raise ValueError(f"{path} is damaged: {problem}") from None

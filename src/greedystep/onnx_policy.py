"""The greedy policy of trained networks as an ONNX model, for runtimes other than Python.

    input   observation   [batch, ...], shape and dtype of the environment's observations: states as it counts them;
                          of Dict, Tuple and MultiDiscrete spaces what `gymnasium.spaces.flatten` makes of them
    output  q_values      float32 [batch, A]
            action        int64 [batch], argmax_a q_values, ties to the lowest action

The model has the environment's name and the version of greedystep as metadata. All M networks are one batched product,
as in `numpy_policy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.extras import MissingExtraError
from greedystep.provenance import version_of

OPSET, IR_VERSION = 18, 8
"""Versions of the operators and of the file format: not newer than needed, so that older runtimes load the model."""
SIDE = 3


def onnx_bytes(policy: Any) -> bytes:
    """Return the content of an .onnx file with this `NumpyPolicy`; MissingExtraError without the package `onnx`."""
    try:
        import onnx
    except ModuleNotFoundError as problem:
        sentence = 'ONNX files need onnx, which is not installed: pip install "greedystep[onnx]"'
        raise MissingExtraError(sentence, name=problem.name) from None
    graph = _Graph(onnx)
    q = graph.q_values(policy)
    graph.add("Identity", q, output="q_values")
    best = graph.add("ArgMax", q, axis=-1, keepdims=0)
    graph.add("Add", best, graph.constant(policy.first_action, np.int64), output="action")
    version = version_of("greedystep") or "unknown"
    dtypes, value = onnx.helper.np_dtype_to_tensor_dtype, onnx.helper.make_tensor_value_info
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "greedy_policy",
            [value("observation", dtypes(np.dtype(policy.dtype)), ["batch", *policy.shape])],
            [
                value("q_values", dtypes(np.dtype(np.float32)), ["batch", policy.num_actions]),
                value("action", dtypes(np.dtype(np.int64)), ["batch"]),
            ],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="greedystep",
        producer_version=version,
    )
    onnx.helper.set_model_props(model, {"env": policy.env, "greedystep": version})
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


class _Graph:
    """Nodes and constants of a model; every node is added with the names of its inputs and has one output."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        output = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        """Add a constant, and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("Reshape", x, self.constant(shape, np.int64))

    def cast(self, x: str, dtype: Any) -> str:
        return self.add("Cast", x, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def q_values(self, policy: Any) -> str:
        """Add what computes Q(s, ·) of the observations, and return its name."""
        layers = list(policy.layers)
        if policy.kind == "one-hot":
            weight, bias = layers.pop(0)
            state = self.cast("observation", np.int64)
            if policy.first_state:
                state = self.add("Sub", state, self.constant(policy.first_state, np.int64))
            x = self.add("Gather", self.constant(weight), state, axis=1)
            x = self.add("Add", x, self.constant(bias[:, None]))
            x = self.add("Relu", x) if layers else x
        else:
            x = self.cast("observation", np.float32)
            x = x if policy.scale == 1 else self.add("Div", x, self.constant(policy.scale))
            if policy.kind == "conv":
                x = self._convolve(x, policy.shape, *layers.pop(0))
            else:
                x = self.reshape(x, 1, -1, layers[0][0].shape[1])  # MatMul repeats it for all networks
        for number, (weight, bias) in enumerate(layers):
            x = self.add("Add", self.add("MatMul", x, self.constant(weight)), self.constant(bias[:, None]))
            x = self.add("Relu", x) if number < len(layers) - 1 else x
        if policy.bcq_threshold is None:
            return self._combine(x, policy.pessimism)
        networks = len(policy.layers[0][0])
        logits = self.add("Gather", x, self.constant(networks - 1, np.int64), axis=0)
        others = self.add("Gather", x, self.constant(range(networks - 1), np.int64), axis=0)
        most = self.add("ReduceMax", logits, self.constant([-1], np.int64), keepdims=1)
        share = self.add("Exp", self.add("Sub", logits, most))
        allowed = self.add("GreaterOrEqual", share, self.constant(policy.bcq_threshold))
        return self.add("Where", allowed, self._combine(others, policy.pessimism), self.constant(-np.inf))

    def _convolve(self, image: str, shape: tuple[int, ...], weight: np.ndarray, bias: np.ndarray) -> str:
        """Convolve [B, H, W, C] with the filters of all M networks and apply a ReLU: [M, B, (H - 2) (W - 2) F]."""
        height, width, channels = shape
        networks, _, filters = weight.shape
        # [M, 9 C, F] -> [M F, C, 3, 3], since ONNX has the channels first
        kernel = weight.reshape(networks, SIDE, SIDE, channels, filters).transpose(0, 4, 3, 1, 2)
        kernel = self.constant(kernel.reshape(-1, channels, SIDE, SIDE))
        x = self.add("Transpose", image, perm=[0, 3, 1, 2])
        x = self.add("Relu", self.add("Conv", x, kernel, self.constant(bias.reshape(-1))))
        positions = (height - SIDE + 1) * (width - SIDE + 1)
        x = self.add("Transpose", self.reshape(x, -1, networks, filters, positions), perm=[1, 0, 3, 2])
        return self.reshape(x, networks, -1, positions * filters)

    def _combine(self, q: str, pessimism: float) -> str:
        """Combine the Q-values of all networks, [M, B, A] -> [B, A]."""
        axis = self.constant([0], np.int64)
        least = self.add("ReduceMin", q, axis, keepdims=0)
        if pessimism == 1:
            return least
        mean = self.add("ReduceMean", q, axis, keepdims=0)
        return self.add("Add", mean, self.add("Mul", self.constant(pessimism), self.add("Sub", least, mean)))

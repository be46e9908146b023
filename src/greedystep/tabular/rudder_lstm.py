"""RUDDER's reduced LSTM, its gradient and Adam, as compiled loops over one short sequence at a time.

With F inputs x_t and H units, t = 0 .. T-1, c_{-1} = 0:

    z_t = tanh(x_t W + b_z)              the cell input sees only the input,
    i_t = sigmoid(c_{t-1} U + b_i)       the input gate only the memory;
    c_t = c_{t-1} + i_t z_t              no forget gate, no output gate;
    g_t = c_t · w + b                    the return predicted after every step.

The loss of a sequence with return y is (g_{T-1} - y)² + 1/2 mean_t (g_t - y)²: the second term asks for the return as
soon as it can be known, which is what makes differences of predictions tell which step has changed it.

Cell, loss and starting values are those of the RUDDER demonstration (ml-jku/rudder-demonstration-code), as we read
them; its tutorial squares the mean error where the mean squared error is meant, which is not repeated here.

All parameters lie in one vector θ: W [F, H], U [H, H], b_z [H], b_i [H], w [H], b [1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

FAST = {"reassoc", "contract"}
"""LLVM flags that let sums be reordered, always in the same way, so that loops over units are vectorised."""


class Workspace(NamedTuple):
    """Arrays that the forward pass over T steps fills and the backward pass needs."""

    cell_input: np.ndarray  # z [T, H]
    gate: np.ndarray  # i [T, H]
    memory: np.ndarray  # c [T + 1, H]; row 0 is c_{-1} = 0
    predictions: np.ndarray  # g [T]


@njit(cache=True, nogil=True)
def make_workspace(steps, units):
    """Return a workspace for sequences of up to `steps` steps."""
    return Workspace(np.empty((steps, units)), np.empty((steps, units)), np.zeros((steps + 1, units)), np.empty(steps))


@njit(cache=True, nogil=True)
def num_parameters(inputs, units):
    """Return the number of the LSTM's parameters, the length of θ."""
    return units * (inputs + units + 3) + 1


@njit(cache=True, nogil=True)
def split(theta, inputs, units):
    """Return (W, U, b_z, b_i, w, b) as views of θ."""
    end_w = inputs * units
    end_u = end_w + units * units
    return (
        theta[:end_w].reshape(inputs, units),
        theta[end_w:end_u].reshape(units, units),
        theta[end_u : end_u + units],
        theta[end_u + units : end_u + 2 * units],
        theta[end_u + 2 * units : end_u + 3 * units],
        theta[end_u + 3 * units :],
    )


@njit(cache=True, nogil=True)
def initial_parameters(inputs, units, mean, random):
    """Return initial parameters: W, U, w ~ N(0, 0.1²), b_z ~ N(0, 1), b_i ~ N(-3, 1), so that gates are nearly closed.

    b is the mean return, so that the first predictions have the right scale.
    """
    theta = 0.1 * random.standard_normal(num_parameters(inputs, units))
    _, _, b_z, b_i, _, b = split(theta, inputs, units)
    b_z *= 10.0
    b_i *= 10.0
    b_i -= 3.0
    b[0] = mean
    return theta


@njit(cache=True, nogil=True, fastmath=FAST)
def predict(theta, x, steps, work):
    """Run the forward pass on inputs x [>= steps, F]; sets `work.predictions` to the predicted returns g_t."""
    inputs, units = x.shape[1], work.gate.shape[1]
    W, U, b_z, b_i, w, b = split(theta, inputs, units)
    z, gate, c = work.cell_input, work.gate, work.memory
    for t in range(steps):
        z[t] = b_z
        for f in range(inputs):
            if x[t, f] != 0.0:  # most inputs are one-hot
                for k in range(units):
                    z[t, k] += x[t, f] * W[f, k]
        gate[t] = b_i
        for j in range(units):
            for k in range(units):
                gate[t, k] += c[t, j] * U[j, k]
        total = b[0]
        for k in range(units):
            z[t, k] = np.tanh(z[t, k])
            gate[t, k] = 1.0 / (1.0 + np.exp(-gate[t, k]))
            c[t + 1, k] = c[t, k] + gate[t, k] * z[t, k]
            total += c[t + 1, k] * w[k]
        work.predictions[t] = total


@njit(cache=True, nogil=True, fastmath=FAST)
def add_gradient(theta, x, steps, target, work, gradient):
    """Add the gradient of one sequence's loss to `gradient`; return the loss's first term, (g_{T-1} - y)²."""
    predict(theta, x, steps, work)
    inputs, units = x.shape[1], work.gate.shape[1]
    _, U, _, _, w, _ = split(theta, inputs, units)
    d_W, d_U, d_bz, d_bi, d_w, d_b = split(gradient, inputs, units)
    z, gate, c, g = work.cell_input, work.gate, work.memory, work.predictions
    d_c, d_z, d_i = np.zeros(units), np.empty(units), np.empty(units)
    for t in range(steps - 1, -1, -1):
        d_g = (g[t] - target) / steps + (2.0 * (g[t] - target) if t == steps - 1 else 0.0)
        d_b[0] += d_g
        for k in range(units):
            d_w[k] += d_g * c[t + 1, k]
            d_c[k] += d_g * w[k]
            d_z[k] = d_c[k] * gate[t, k] * (1.0 - z[t, k] * z[t, k])
            d_i[k] = d_c[k] * z[t, k] * gate[t, k] * (1.0 - gate[t, k])
            d_bz[k] += d_z[k]
            d_bi[k] += d_i[k]
        for f in range(inputs):
            if x[t, f] != 0.0:
                for k in range(units):
                    d_W[f, k] += x[t, f] * d_z[k]
        for j in range(units):
            total = 0.0
            for k in range(units):
                d_U[j, k] += c[t, j] * d_i[k]
                total += U[j, k] * d_i[k]
            d_c[j] += total
    return (g[steps - 1] - target) ** 2


@njit(cache=True, nogil=True)
def adam_step(theta, gradient, first, second, count, rate, decay):
    """Take step number `count` = 1, 2, ... of Adam (β 0.9 and 0.999); `decay` adds decay · θ to the gradient."""
    fade_first, fade_second = 1.0 - 0.9**count, 1.0 - 0.999**count
    for p in range(len(theta)):
        slope = gradient[p] + decay * theta[p]
        first[p] += 0.1 * (slope - first[p])
        second[p] += 0.001 * (slope * slope - second[p])
        theta[p] -= rate * (first[p] / fade_first) / (np.sqrt(second[p] / fade_second) + 1e-8)

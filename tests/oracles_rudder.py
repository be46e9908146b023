"""RUDDER's network and loss in JAX, written from the formulas, without regard for speed."""

import jax
import jax.numpy as jnp


def unpack(theta, inputs, units):
    """(W, U, b_z, b_i, w, b) in the order in which they lie in θ."""
    shapes = [(inputs, units), (units, units), (units,), (units,), (units,), ()]
    parts, start = [], 0
    for shape in shapes:
        size = int(jnp.prod(jnp.array(shape, int)))
        parts.append(theta[start : start + size].reshape(shape))
        start += size
    assert start == len(theta)
    return parts


def predictions(theta, x, units):
    W, U, b_z, b_i, w, b = unpack(theta, x.shape[1], units)
    memory, found = jnp.zeros(units), []
    for row in x:
        memory = memory + jax.nn.sigmoid(memory @ U + b_i) * jnp.tanh(row @ W + b_z)
        found.append(memory @ w + b)
    return jnp.stack(found)


def loss(theta, x, target, units):
    g = predictions(theta, x, units)
    return (g[-1] - target) ** 2 + 0.5 * jnp.mean((g - target) ** 2)

"""Classic control: mountain car, cart-pole and acrobot as in Gymnasium, with its time limits by default.

Gymnasium computes in float64, we in float32. One step from the same state agrees to 1e-5; over many steps cart-pole and
acrobot, which are unstable, drift apart as any two roundings of them do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from greedystep.envs.core import Environment, ObservationSpec, State, Step


class Control(Environment):
    """Base class of deterministic control tasks whose first state is drawn uniformly from a box."""

    title: ClassVar[str]  # the part of the name after the slash
    start_low: ClassVar[tuple[float, ...]]
    start_high: ClassVar[tuple[float, ...]]
    seen_high: ClassVar[tuple[float, ...]]  # the largest values of the observation
    stochastic: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"classic/{self.title}"

    @property
    def observation(self) -> ObservationSpec:
        high = np.array(self.seen_high, np.float32)
        return ObservationSpec(high.shape, np.dtype(np.float32), -high, high)

    def draw_start(self, key: jax.Array) -> jax.Array:
        """float32: the random part of the first state."""
        low, high = np.array(self.start_low, np.float32), np.array(self.start_high, np.float32)
        return jax.random.uniform(key, low.shape, minval=low, maxval=high)

    def draw(self, key: jax.Array) -> tuple[()]:
        return ()

    def observe(self, state: State) -> jax.Array:
        return jnp.stack(state)


class Car(NamedTuple):
    """The state of the mountain car; float32."""

    position: jax.Array
    velocity: jax.Array


@dataclass(frozen=True)
class MountainCar(Control):
    """Mountain car: an engine too weak for the hill swings in the valley sin(3 x) to reach x = 0.5; -1 per step."""

    title = "mountaincar"
    action_names = ("left", "none", "right")
    default_limit: ClassVar[int | None] = 200
    start_low, start_high = (-0.6,), (-0.4,)
    seen_high = (0.6, 0.07)

    @property
    def observation(self) -> ObservationSpec:
        return super().observation._replace(low=np.array([-1.2, -0.07], np.float32))

    def start(self, draws: jax.Array) -> Car:
        return Car(draws[0], jnp.float32(0))

    def advance(self, draws: tuple[()], state: Car, action: jax.Array) -> tuple[Car, Step]:
        pull = np.float32(0.0025) * jnp.cos(3 * state.position)
        velocity = state.velocity + (np.float32(0.001) * (action.astype(jnp.float32) - 1) - pull)
        velocity = jnp.clip(velocity, np.float32(-0.07), np.float32(0.07))
        position = jnp.clip(state.position + velocity, np.float32(-1.2), np.float32(0.6))
        # The wall on the left stops the car.
        velocity = jnp.where((position <= np.float32(-1.2)) & (velocity < 0), 0, velocity)
        arrived = (position >= np.float32(0.5)) & (velocity >= 0)
        return Car(position, velocity), Step(jnp.float32(-1), arrived, jnp.bool_(False))


class Cart(NamedTuple):
    """The state of the cart and its pole; float32."""

    x: jax.Array
    velocity: jax.Array
    angle: jax.Array  # radians from upright, to the right
    turning: jax.Array  # radians per second


@dataclass(frozen=True)
class CartPole(Control):
    """Cart-pole: push a cart left or right so that the pole on it stays upright; every step pays 1, the last one too.

    A cart of 1 kg and a pole of 0.1 kg whose middle is 0.5 m from the joint, pushed by 10 N, in Euler steps of 0.02 s;
    over when the pole leans by more than 12 degrees or the cart is more than 2.4 m away.
    """

    title = "cartpole"
    action_names = ("left", "right")
    default_limit: ClassVar[int | None] = 500
    start_low, start_high = (-0.05,) * 4, (0.05,) * 4
    seen_high = (4.8, np.inf, 24 * np.pi / 180, np.inf)

    def start(self, draws: jax.Array) -> Cart:
        return Cart(*draws)

    def advance(self, draws: tuple[()], state: Cart, action: jax.Array) -> tuple[Cart, Step]:
        x, velocity, angle, turning = state
        mass, pole, length = np.float32(1.1), np.float32(0.1), np.float32(0.5)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = jnp.where(action == 1, np.float32(10), np.float32(-10))
        pushed = (push + pole * length * turning * turning * sine) / mass
        inertia = length * (np.float32(4 / 3) - pole * cosine * cosine / mass)
        tips = (np.float32(9.8) * sine - cosine * pushed) / inertia
        speeds_up = pushed - pole * length * tips * cosine / mass
        tau = np.float32(0.02)
        state = Cart(x + tau * velocity, velocity + tau * speeds_up, angle + tau * turning, turning + tau * tips)
        falls = (jnp.abs(state.x) > np.float32(2.4)) | (jnp.abs(state.angle) > np.float32(12 * np.pi / 180))
        return state, Step(jnp.float32(1), falls, jnp.bool_(False))


class Links(NamedTuple):
    """The state of the acrobot; float32, radians and radians per second."""

    first: jax.Array  # angle of the first link from hanging straight down, in [-pi, pi]
    second: jax.Array  # angle of the second link relative to the first one
    first_turning: jax.Array
    second_turning: jax.Array


@dataclass(frozen=True)
class Acrobot(Control):
    """Acrobot: two links and a motor at the joint between them; swing the tip one link's length above the fixed end.

    Every step pays -1, the one that reaches this height 0. Links of 1 m and 1 kg with their masses in the middle and
    moments of inertia of 1 kg m², turned by 1 N m, in Runge-Kutta steps of 0.2 s, after Sutton and Barto's book.

    Observation: [cos and sin of the first angle, cos and sin of the second, first and second angular velocity].
    """

    title = "acrobot"
    action_names = ("negative", "none", "positive")
    default_limit: ClassVar[int | None] = 500
    start_low, start_high = (-0.1,) * 4, (0.1,) * 4
    seen_high = (1.0, 1.0, 1.0, 1.0, 4 * np.pi, 9 * np.pi)

    def start(self, draws: jax.Array) -> Links:
        return Links(*draws)

    def advance(self, draws: tuple[()], state: Links, action: jax.Array) -> tuple[Links, Step]:
        torque = action.astype(jnp.float32) - 1
        dt = np.float32(0.2)

        def after(slope: Links, time: np.float32) -> Links:
            return jax.tree.map(lambda value, change: value + time * change, state, slope)

        k1 = _motion(state, torque)
        k2 = _motion(after(k1, dt / 2), torque)
        k3 = _motion(after(k2, dt / 2), torque)
        k4 = _motion(after(k3, dt), torque)
        slope = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, k1, k2, k3, k4)
        first, second, w1, w2 = after(slope, dt / 6)
        w1 = jnp.clip(w1, np.float32(-4 * np.pi), np.float32(4 * np.pi))
        w2 = jnp.clip(w2, np.float32(-9 * np.pi), np.float32(9 * np.pi))
        state = Links(_wrapped(first), _wrapped(second), w1, w2)
        high = -jnp.cos(state.first) - jnp.cos(state.first + state.second) > 1
        return state, Step(jnp.where(high, np.float32(0), np.float32(-1)), high, jnp.bool_(False))

    def observe(self, state: Links) -> jax.Array:
        first, second, *turning = state
        return jnp.stack([jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), *turning])


def _wrapped(angle: jax.Array) -> jax.Array:
    return angle - np.float32(2 * np.pi) * jnp.round(angle / np.float32(2 * np.pi))


def _motion(state: Links, torque: jax.Array) -> Links:
    """Return d state / dt: M(second angle) · accelerations + forces = (0, torque), solved for the accelerations."""
    first, second, w1, w2 = state
    g = np.float32(9.8)
    sine, cosine = jnp.sin(second), jnp.cos(second)
    inertia = np.float32(3.5) + cosine  # of both links about the fixed end
    shared = np.float32(1.25) + cosine / 2  # between the joints
    own = np.float32(1.25)  # of the second link about its joint
    weight = g / 2 * jnp.sin(first + second)
    force = weight + np.float32(1.5) * g * jnp.sin(first) - sine * w2 * (w2 / 2 + w1)
    a2 = (torque + shared / inertia * force - w1 * w1 * sine / 2 - weight) / (own - shared * shared / inertia)
    a1 = -(shared * a2 + force) / inertia
    return Links(w1, w2, a1, a2)

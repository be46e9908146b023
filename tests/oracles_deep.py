"""Deep Q-learning written out in NumPy and plain Python, float64: the reference for `greedystep.deep`.

A network is a list of layers (weight [inputs, outputs], bias); a picture's first layer is a convolution whose weight is
[3, 3, channels, filters]. Rows are those of `oracles_replay`.
"""

import math

import numpy as np
import oracles

# -- networks ---------------------------------------------------------------------------------------------------------


def convolve(picture, weight, bias):
    """3 x 3, no padding, written as a loop over places and filters."""
    height, width, _ = picture.shape
    out = np.zeros((height - 2, width - 2, weight.shape[-1]))
    for y in range(height - 2):
        for x in range(width - 2):
            for f in range(weight.shape[-1]):
                out[y, x, f] = (picture[y : y + 3, x : x + 3] * weight[..., f]).sum() + bias[f]
    return out


def layers_of(network, observation):
    """The input and the output before the ReLU of every layer."""
    x, found = np.asarray(observation, float), []
    for i, (weight, bias) in enumerate(network):
        if weight.ndim == 4:
            before, out = x, convolve(x, weight, bias)
        else:
            before = x.reshape(-1)
            out = before @ weight + bias
        found.append((before, out))
        x = np.maximum(out, 0) if i < len(network) - 1 else out
    return found


def q_of(network, observation):
    return layers_of(network, observation)[-1][1]


def gradient_of(network, observation, by_output):
    """d(by_output · q) / d parameters, by the chain rule from the last layer to the first."""
    layers = layers_of(network, observation)
    delta, found = np.asarray(by_output, float), []
    for i in reversed(range(len(network))):
        weight, _ = network[i]
        before, out = layers[i]
        if i < len(network) - 1:
            delta = delta.reshape(out.shape) * (out > 0)
        if weight.ndim == 4:
            by_weight = np.zeros_like(weight)
            for y in range(out.shape[0]):
                for x in range(out.shape[1]):
                    by_weight += before[y : y + 3, x : x + 3, :, None] * delta[y, x]
            found.append((by_weight, delta.sum(axis=(0, 1))))
        else:
            found.append((np.outer(before, delta), delta))
            delta = weight @ delta
    return found[::-1]


# -- updates ----------------------------------------------------------------------------------------------------------


def loss_and_slope(kind, error):
    if kind == "squared":
        return error**2, 2 * error
    if abs(error) < 1:
        return error**2 / 2, error
    return abs(error) - 0.5, math.copysign(1, error)


def cross_entropy(outputs, action):
    """-log softmax(outputs)[action], which is also log Σ exp outputs - outputs[action], and its gradient."""
    chances = [math.exp(x) / sum(math.exp(y) for y in outputs) for x in outputs]
    return -math.log(chances[action]), np.array([p - (a == action) for a, p in enumerate(chances)])


def batch_gradient(network, observations, actions, targets, loss, alpha=0.0):
    """Mean loss with CQL's penalty, and the gradient of every parameter; the cross-entropy alone for loss "cloning"."""
    total, sums = 0.0, [[np.zeros_like(weight), np.zeros_like(bias)] for weight, bias in network]
    for observation, action, target in zip(observations, actions, targets, strict=True):
        q = q_of(network, observation)
        penalty, by_output = cross_entropy(q, action)
        if loss != "cloning":
            value, slope = loss_and_slope(loss, q[action] - target)
            penalty, by_output = alpha * penalty + value, alpha * by_output
            by_output[action] += slope
        total += penalty / len(actions)
        by_output = by_output / len(actions)
        for layer, parts in zip(sums, gradient_of(network, observation, by_output), strict=True):
            for i in range(2):
                layer[i] += parts[i]
    return total, sums


def clip(gradient, limit):
    norm = math.sqrt(sum((part**2).sum() for layer in gradient for part in layer))
    scale = 1.0 if limit is None else min(1.0, limit / (norm + 1e-6))
    return [[part * scale for part in layer] for layer in gradient]


class Optimiser:
    """PyTorch's formulas for one array, as its documentation writes them."""

    def __init__(self, kind, rate, decay, epsilon):
        self.kind, self.rate, self.decay, self.epsilon = kind, rate, decay, epsilon
        self.mean = self.square = 0.0
        self.count = 0

    def step(self, parameter, gradient):
        self.count += 1
        if self.kind == "adam":
            self.mean = 0.9 * self.mean + 0.1 * gradient
            self.square = 0.999 * self.square + 0.001 * gradient**2
            mean, square = self.mean / (1 - 0.9**self.count), self.square / (1 - 0.999**self.count)
            return parameter - self.rate * mean / (np.sqrt(square) + self.epsilon)
        self.square = self.decay * self.square + (1 - self.decay) * gradient**2
        variance = self.square
        if self.kind == "centred-rmsprop":
            self.mean = self.decay * self.mean + (1 - self.decay) * gradient
            variance = self.square - self.mean**2
        return parameter - self.rate * gradient / (np.sqrt(variance) + self.epsilon)


# -- targets ----------------------------------------------------------------------------------------------------------


def target(config, following, group, target_networks, online_networks):
    """The target of the step in following[0]; the other rows are those that follow it in its episode."""
    own = [m for m in range(config.ensemble) if m % config.groups == group]
    other = [m for m in range(config.ensemble) if m % config.groups != group]
    gamma, epsilon = config.discount, config.target_epsilon or 0.0

    def smallest(networks, which, observation):
        return np.min([q_of(networks[m], observation) for m in which], axis=0)

    def judged(row, which):
        """E_π Q(s, ·); Q(s, a), π(a|s), μ(a|s) and whether a is greedy, for the action that was taken there."""
        q = smallest(target_networks, which, row.observation)
        chooser = smallest(online_networks, which, row.observation) if config.double else q
        allowed = list(range(len(q)))
        if config.conservatism == "bcq":  # the last network has the logits of the behaviour
            chances = np.exp(q_of(target_networks[config.ensemble], row.observation))
            allowed = [a for a in allowed if chances[a] >= config.bcq_threshold * max(chances)]
        best = max(allowed, key=lambda a: chooser[a])
        value = (1 - epsilon) * q[best] + epsilon * np.mean([q[a] for a in allowed])
        if row.step is None:
            return value, 0.0, 0.0, 1.0, False
        action, *_, probability = row.step
        pi = epsilon / len(allowed) * (action in allowed) + (1 - epsilon) * (action == best)
        return value, q[action], pi, probability, action in allowed and chooser[action] == chooser[best]

    steps = [row.step for row in following[:-1]]
    rewards = [step[1] for step in steps]
    ends = [step[2] or (config.time_limits == "terminal" and step[3]) for step in steps]
    discounts = [0.0 if end else gamma for end in ends]
    cuts = [False] * (len(steps) - 1) + [True]
    judgements = [judged(row, own) for row in following[1:]]
    values, taken, pi, mu, greedy = (list(x) for x in zip(*judgements, strict=True))
    stretch = rewards, discounts, values

    match config.returns:
        case "one-step":
            return oracles.n_step(*stretch, cuts, 0, 1)
        case "n-step":
            return oracles.n_step(*stretch, cuts, 0, config.n)
        case "sarsa":
            chosen = [v if row.step is None else q for v, q, row in zip(values, taken, following[1:], strict=True)]
            return oracles.n_step(rewards, discounts, chosen, cuts, 0, config.n)
        case "monte-carlo":
            return oracles.n_step(*stretch, cuts, 0, len(rewards))
        case "lambda":
            return oracles.lambda_return(*stretch, config.lambda_, cuts, 0)
        case "watkins":
            traces = [config.lambda_ * is_greedy for is_greedy in greedy]
            return oracles.off_policy(*stretch, values, traces, cuts, 0)
        case "tree-backup":
            return oracles.off_policy(*stretch, taken, [config.lambda_ * p for p in pi], cuts, 0)
        case "retrace":
            traces = [config.lambda_ * min(1, p / m) for p, m in zip(pi, mu, strict=True)]
            return oracles.off_policy(*stretch, taken, traces, cuts, 0)
        case "greedy-step":
            return oracles.greedy_step(*stretch, cuts, 0, config.horizon or math.inf)[0]
        case "soft-greedy-step":
            return oracles.soft_greedy_step(*stretch, config.gate, cuts, 0)
        case "greedy-step-twin":
            others = [judged(row, other)[0] for row in following[1:]]
            return oracles.greedy_step_twin(*stretch, others, cuts, 0)
    raise ValueError(config.returns)

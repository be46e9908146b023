"""The return estimators on PyTorch's tensors: the same numbers, the same memory, gradients, and the example."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from test_returns import ESTIMATORS, make

from greedystep import returns
from greedystep.extras import MissingExtraError
from greedystep.returns._segment import accepts_tensors

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[1] / "examples" / "torch_dqn.py"
DIFFERENTIABLE = ("greedy_step", "greedy_step, horizon 3", "soft_greedy_step", "lambda_return", "retrace", "weighted")


def to_torch(x):
    convert = torch.from_numpy
    return {name: tuple(map(convert, row)) if name == "rdv" else convert(row) for name, row in x.items()}


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float64) for name in ESTIMATORS), ("lambda_return", np.float32)]
)
def test_the_same_numbers_as_with_numpy(name, dtype):
    x = make(3, (12, 4), dtype=dtype)
    got, expected = ESTIMATORS[name](to_torch(x)), ESTIMATORS[name](x)
    assert isinstance(got, torch.Tensor)
    assert not got.requires_grad
    assert got.numpy().dtype == dtype
    assert np.array_equal(got.numpy(), expected)


def test_the_chosen_steps_are_a_tensor_too():
    x = make(4, (12, 4))
    got, expected = (returns.greedy_step(*y["rdv"], cuts=y["cuts"]) for y in (to_torch(x), x))
    assert got.steps.dtype == torch.int32
    assert np.array_equal(got.steps.numpy(), expected.steps)


def test_a_batch_first_tensor_needs_no_copy_by_the_user():
    x = make(5, (12, 4))
    views = to_torch({name: x[name] for name in ("rdv", "cuts")})
    rewards, discounts, values = (part.T.contiguous().T for part in views["rdv"])
    got = returns.n_step(rewards, discounts, values, 3, cuts=views["cuts"])
    assert np.array_equal(got.numpy(), returns.n_step(*x["rdv"], 3, cuts=x["cuts"]))


@pytest.mark.parametrize("gradient", [False, True])
def test_memory_is_shared(gradient):
    """NumPy's view, JAX's buffer and the returned tensor all begin at the address of the tensor."""
    seen = []

    @accepts_tensors
    def spy(rewards, values):
        seen.append(rewards.unsafe_buffer_pointer() if gradient else rewards.__array_interface__["data"][0])
        return rewards + 0 * values if gradient else rewards

    rewards = torch.arange(64, dtype=torch.float32)
    result = spy(rewards, torch.ones(64, requires_grad=gradient))
    assert seen == [rewards.data_ptr()]
    assert gradient or result.data_ptr() == rewards.data_ptr()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_are_those_of_finite_differences(name):
    x = to_torch(make(6, 6))
    inputs = [part.clone().requires_grad_() for part in (*x["rdv"], x["taken"])]

    def estimate(rewards, discounts, values, taken):
        return ESTIMATORS[name](x | {"rdv": (rewards, discounts, values), "taken": taken})

    if "retrace" not in name:
        inputs[3].requires_grad_(False)
    inputs[1].requires_grad_(False)  # 0 is a termination there, where nothing is continuous
    assert torch.autograd.gradcheck(estimate, inputs, fast_mode=True)


def test_the_gradient_of_a_lambda_return():
    """∂y₀/∂vₜ is the weight of bootstrapping there: d⋯d λᵗ (1 - λ), and λᵗ at the end."""
    values = torch.zeros(3, requires_grad=True)
    got = returns.lambda_return(torch.ones(3), torch.full((3,), 0.5), values, 0.8)
    got[0].backward()
    assert values.grad.numpy() == pytest.approx([0.5 * 0.2, 0.25 * 0.8 * 0.2, 0.125 * 0.64])
    assert values.grad.dtype == torch.float32


def test_steps_have_no_gradient_and_no_grad_is_respected():
    x = to_torch(make(7, 8, dtype=np.float32))
    values = x["rdv"][2].clone().requires_grad_()
    got = returns.greedy_step(*x["rdv"][:2], values)
    assert got.returns.requires_grad
    assert not got.steps.requires_grad
    with torch.no_grad():
        assert not returns.greedy_step(*x["rdv"][:2], values).returns.requires_grad


def test_a_value_that_is_not_read_does_not_spoil_the_gradient():
    values = torch.tensor([5.0, float("nan")], requires_grad=True)
    rewards = torch.ones(2, requires_grad=True)
    returns.greedy_step(rewards, torch.tensor([0.9, 0.0]), values).returns.sum().backward()
    assert values.grad.tolist() == pytest.approx([0.9, 0.0])
    assert rewards.grad.tolist() == [1.0, 1.0]


def test_half_precision_goes_to_jax():
    x = [torch.ones(3, dtype=torch.bfloat16)] * 3
    got = returns.monte_carlo(*x)
    assert got.dtype == torch.bfloat16
    assert got.tolist() == [4.0, 3.0, 2.0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_tensors_on_a_gpu_stay_there():
    x = make(8, (24, 4), dtype=np.float32)
    on_gpu = [part.cuda() for part in to_torch(x)["rdv"]]
    on_gpu[2].requires_grad_()
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            got = returns.lambda_return(*on_gpu, 0.7)
        assert got.device == on_gpu[0].device
        assert got.detach().cpu().numpy() == pytest.approx(returns.lambda_return(*x["rdv"], 0.7), abs=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: torch.ones(3).to_sparse(), "values must be a dense tensor, got torch.sparse_coo"),
        (lambda: torch.ones(3, dtype=torch.complex64), "values must hold real numbers, got torch.complex64"),
        (lambda: torch.ones(3, device="meta"), "values must be on the device of rewards, cpu, got meta"),
        (lambda: torch.ones(2), r"values must have the shape of rewards, \(3,\), got \(2,\)"),
    ],
)
def test_what_cannot_be_used_is_named(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        returns.n_step(torch.ones(3), torch.ones(3), wrong(), 1)


def test_other_devices_and_kinds_of_arrays_are_named():
    import jax.numpy as jnp

    with pytest.raises(ValueError, match="rewards must be on a CPU or a CUDA device, got meta"):
        returns.n_step(*[torch.ones(3, device="meta")] * 3, 1)
    with pytest.raises(TypeError, match="values must be a tensor as rewards is, got ArrayImpl"):
        returns.n_step(torch.ones(3), torch.ones(3), jnp.ones(3), 1)


def test_what_needs_jax_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert returns.monte_carlo(*[torch.ones(3)] * 3).tolist() == [4.0, 3.0, 2.0]
    for wants in ({"requires_grad": True}, {"dtype": torch.float16}):
        with pytest.raises(MissingExtraError, match=r"^gradients, half precision .* need jax, which is not installed"):
            returns.monte_carlo(*[torch.ones(3, **wants)] * 3)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("torch_dqn", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rule", ["one-step", "lambda", "greedy-step"])
def test_the_example_runs(example, rule, capsys):
    options = "--total-timesteps 400 --learning-starts 100 --hidden 8 --buffer-size 200 --num-steps 5 --batch-size 4"
    found = example.main(["--returns", rule, *options.split()])
    assert len(found) > 5
    assert 300 < sum(found) <= 400  # one per step, but for the last episode
    assert "mean return of the last 20 episodes" in capsys.readouterr().out or len(found) < 20


def test_the_examples_stretches_are_consecutive(example):
    """In a ring of 10 steps after 13, stretches are of the steps 3 to 12, wherever the ring begins."""
    buffer = example.ReplayBuffer(10, (1,))
    for number in range(13):
        buffer.add([number], [number + 1], 0, number, False, False)
    rewards = buffer.rewards[buffer.sample(4, 200)].numpy()
    assert (np.diff(rewards, axis=0) == 1).all()
    assert set(rewards[0]) == set(range(3, 10))

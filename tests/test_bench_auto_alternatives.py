"""The benchmark of the alternatives to auto: what each variant computes, and a short training of all of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import auto_alternatives, auto_variants
from benchmarks.auto_variants import HEADS, VARIANTS, VariantHeads
from greedystep.deep.heads import HeadScores
from greedystep.io import read_json, write_json

RESULTS = Path(auto_alternatives.__file__).parent / "results" / auto_alternatives.NAME
NO_CUTS = np.zeros((4, 1), bool)


def heads(variant, count, total, squares, **more):
    """The returns of episodes by head; nothing else is known."""
    zero = jnp.float32(0)
    known = {"extra_pessimism": zero, "error": zero, "size": zero, **more}
    sums = [jnp.array(x, float) for x in (count, total, squares)]
    scores = HeadScores(jnp.zeros(2, int), jnp.int32(9), *sums, jnp.zeros(HEADS))
    return VariantHeads(VARIANTS[variant], scores, **known)


def test_lambda_weighs_two_estimates_by_their_variances():
    v, g, noise = np.array([[0.5], [2.0], [1.0], [3.0]]), 1e9, 0.25
    expected = []
    for value in v[::-1, 0]:  # both estimates are unbiased and independent: λ gives the smallest variance of their mix
        grid = np.linspace(0, 1, 100_001)
        mixed = (1 - grid) ** 2 * value + grid**2 * g
        expected.append(grid[mixed.argmin()])
        g = noise + 0.9**2 * mixed.min()
    found = auto_variants.lambda_from_variance(
        jnp.array(v), jnp.float32(noise), jnp.full((4, 1), 0.9), jnp.array(NO_CUTS)
    )
    np.testing.assert_allclose(np.asarray(found)[::-1, 0], expected, atol=1e-4)


def test_nothing_is_mixed_in_beyond_a_cut():
    cuts = NO_CUTS.copy()
    cuts[1] = True
    found = auto_variants.lambda_from_variance(
        jnp.ones((4, 1)), jnp.float32(0.1), jnp.full((4, 1), 0.9), jnp.array(cuts)
    )
    assert found[1, 0] == 0
    assert found[0, 0] > 0


def test_only_heads_that_are_clearly_behind_become_copies():
    # Twenty episodes each; returns differ by about 1 within a head.
    means = np.array([5.0, 4.9, 1.0, 5.1])
    known = [np.full(HEADS, 20.0), 20 * means, 20 * (means**2 + 1)]
    source = heads("copies", *known).sources()
    assert source.tolist() == [0, 1, 3, 3]
    assert heads("bandit", *known).sources().tolist() == [0, 1, 2, 3]
    after = heads("copies", *known).after_copies(source).scores
    np.testing.assert_allclose(after.count, [20, 20, 10, 20])
    np.testing.assert_allclose(after.total[2] / after.count[2], 5.1)


def test_heads_that_are_not_used_never_play():
    drawn = heads("fixed", [3, 0, 0, 0], [-30, 0, 0, 0], [300, 0, 0, 0]).sample(jax.random.key(0), (100,))
    assert not np.any(drawn)


@pytest.mark.parametrize(("error", "moves"), [(10.0, 1), (-10.0, -1)])
def test_pessimism_follows_the_error_of_greedy_play(error, moves):
    known = {"error": jnp.float32(error), "size": jnp.float32(20)}
    zeros = np.zeros(HEADS)
    after = heads("calibration", zeros, zeros, zeros, **known).calibrated()
    assert np.sign(after.extra_pessimism) == moves
    assert (after.error, after.size) == (0, 0)
    assert heads("fixed", zeros, zeros, zeros, **known).calibrated().extra_pessimism == 0


def test_finished_tasks_are_kept(monkeypatch, tmp_path):
    finals = {variant: [1.0, 1.0] for variant in VARIANTS}
    monkeypatch.setattr(auto_alternatives, "train_variants", lambda name, steps, seeds: finals)
    monkeypatch.setattr(auto_alternatives, "train_auto", lambda name, steps, seeds: [2.0, 2.5])
    result = auto_alternatives.run(tmp_path, 2, ["mountaincar"])
    monkeypatch.setattr(auto_alternatives, "train_variants", None)  # would fail if it were called
    assert auto_alternatives.run(tmp_path, 2, ["mountaincar"]) == result
    text = (tmp_path / "auto-alternatives.md").read_text(encoding="utf-8")
    assert all(f"| {variant} | 1.0 (1.0, 1.0) |" in text for variant in VARIANTS)
    assert "| auto | 2.2 (2.0, 2.5) |" in text


def test_results_under_the_former_name_are_read(monkeypatch, tmp_path):
    kept = read_json(RESULTS / "auto-alternatives.json")
    write_json(tmp_path / "choosing.json", kept)
    monkeypatch.setattr(auto_alternatives, "train_variants", None)  # would fail if it were called
    assert auto_alternatives.run(tmp_path, 2, ["breakout"]) == kept
    text = (RESULTS / "auto-alternatives.md").read_text(encoding="utf-8")
    assert (tmp_path / "auto-alternatives.md").read_text(encoding="utf-8") == text


@pytest.mark.long
def test_all_variants_are_trained():  # the last tenth is longer than an episode
    finals = auto_alternatives.train_variants("mountaincar", 12_000, [0])
    finals["auto"] = auto_alternatives.train_auto("mountaincar", 12_000, [0])
    assert set(finals) == {*VARIANTS, "auto"}
    assert all(-1000 <= x < 0 for (x,) in finals.values())


@pytest.mark.long
def test_steps_whose_tenth_is_no_multiple_of_the_environments_can_be_trained():
    (final,) = auto_alternatives.train_auto("pixelcopter", 771 * 16, [0])
    assert np.isfinite(final)

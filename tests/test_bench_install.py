"""The benchmark of installing: what it counts and writes, and what the guides say of it. Nothing is installed here."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

from benchmarks import install
from benchmarks.install import PROGRAMS, ROOT

KEPT = ROOT / "benchmarks" / "results" / "install"


def test_every_extra_for_users_has_a_program():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(PROGRAMS) - {""} == set(extras) - {"dev", "docs", "peers"}
    for program in PROGRAMS.values():
        ast.parse(program)


def test_a_pin_that_an_extra_cannot_have_is_left_out(tmp_path):
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert install._constraints(str(tmp_path), "deep").read_text().splitlines() == pins
    left = install._constraints(str(tmp_path), "gymnax").read_text().splitlines()
    assert [pin for pin in pins if pin not in left] == [pin for pin in pins if pin.startswith("gymnasium==")] != []


def test_sizes_are_those_of_all_files(tmp_path):
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "a.py").write_bytes(b"12345")
    (tmp_path / "package" / "inner" / "b.so").write_bytes(b"123")
    (tmp_path / "package" / "link").symlink_to(tmp_path / "package" / "a.py")
    assert install.size_of(tmp_path / "package") == 8
    assert install.size_of(tmp_path / "package" / "a.py") == 5


def test_a_command_that_fails_shows_what_it_said():
    with pytest.raises(RuntimeError, match="no such package"):
        install._run(["sh", "-c", "echo no such package >&2; exit 1"])


def build(command):
    """Stands for `python -m build --outdir FOLDER ROOT`."""
    for name in ("greedystep-1.whl", "greedystep-1.tar.gz"):
        (Path(command[-2]) / name).write_bytes(bytes(100_000))


def test_a_run_writes_a_row_for_each_extra(tmp_path, monkeypatch):
    seconds = {"import greedystep": 0.031, "gs.solve": 1.5, "greedystep --help": 0.4}
    row = {"packages": {"numpy": "2.4.6"}, "bytes": 2_600_000, "largest": {"numpy": 2_000_000}, "seconds": seconds}

    monkeypatch.setattr(install, "_run", build)
    monkeypatch.setattr(install, "measure", lambda wheel, extra, repeats: {"extra": extra, **row})
    result = install.run(tmp_path, 2, extras=["", "onnx"])
    assert json.loads((tmp_path / "install.json").read_text())["rows"] == result["rows"]
    text = (tmp_path / "install.md").read_text()
    assert "The wheel has 0.1 MB, the sdist 0.1 MB." in text
    assert "| none | 1 | 3 | 0.03 | 1.50 |  | 0.40 | numpy 2 |\n| onnx | 1 |" in text


def test_a_failing_extra_does_not_lose_the_others(tmp_path, monkeypatch):
    def measure(wheel, extra, repeats):
        if extra == "onnx":
            raise RuntimeError("onnx does not work")
        return {"extra": extra, "packages": {}, "bytes": 1, "largest": {}, "seconds": {}}

    monkeypatch.setattr(install, "_run", build)
    monkeypatch.setattr(install, "measure", measure)
    with pytest.raises(RuntimeError, match="onnx does not work"):
        install.run(tmp_path, 1, extras=["", "onnx", "torch"])
    assert [row["extra"] for row in json.loads((tmp_path / "install.json").read_text())["rows"]] == ["", "torch"]


def test_the_guides_say_what_was_measured():
    """Sizes to 10 MB, times to 0.1 s or, below that, to 0.01 s."""
    result = json.loads((KEPT / "install.json").read_text())
    assert [row["extra"] for row in result["rows"]] == list(PROGRAMS)
    assert (KEPT / "install.md").read_text() == install.markdown(result)
    rows = {row["extra"]: row for row in result["rows"]}
    base, deep = (f"{round(rows[extra]['bytes'] / 1e6, -1):.0f} MB" for extra in ("", "deep"))
    seconds = rows["deep"]["seconds"] | rows[""]["seconds"]
    start, readme = ((ROOT / name).read_text() for name in ("docs/index.md", "README.md"))
    assert f"{base} and {len(rows['']['packages'])} packages" in start
    assert f"{deep} and {len(rows['deep']['packages'])}" in start
    assert f"`import greedystep` takes {seconds['import greedystep']:.2f} s" in start
    used = [f"`{name}` {seconds[name]:.1f} s" for name in ("gs.solve", "gs.DQN", "greedystep --help")]
    assert all(text in re.sub(r"\s+", " ", start) for text in used)
    assert f'`pip install ".[deep]"` ({deep}' in readme
    assert f"`pip install .` ({base})" in readme


def test_nothing_is_installed_that_is_not_asked_for():
    rows = {row["extra"]: set(row["packages"]) for row in json.loads((KEPT / "install.json").read_text())["rows"]}
    assert not rows[""] & {"jax", "jaxlib", "torch", "ray", "optuna", "onnx", "pandas", "setuptools"}
    assert {extra for extra, packages in rows.items() if "jax" in packages} == {
        *("deep", "gymnax", "ray", "tensorboard", "tune")
    }
    assert {extra for extra, packages in rows.items() if "torch" in packages} == {"torch"}
    assert not [name for packages in rows.values() for name in packages if name.startswith(("nvidia", "cuda"))]

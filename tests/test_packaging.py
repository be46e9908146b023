"""What a user meets first: the wheel, the lazy import, the README and the examples."""

import ast
import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import venv
import warnings
import zipfile
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path

import pytest
from kept_results import needs_kept_results

import greedystep
from benchmarks import run_notebook
from greedystep.cli.commands import Command
from greedystep.cli.parser import parse

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ELSEWHERE = {"other_simulators.py", "torch_dqn.py"}
"""Examples that are long as they stand, and are run at a small size by tests of their own."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in ELSEWHERE]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def run(*command, cwd=None):
    """Its standard output; a failure shows what the command said."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command} said:\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_works_in_an_empty_environment(tmp_path):
    run(sys.executable, "-m", "build", "--outdir", tmp_path, ROOT)  # the wheel from the sdist
    (wheel,), (sdist,) = tmp_path.glob("greedystep-*.whl"), tmp_path.glob("greedystep-*.tar.gz")
    check_sdist(sdist)
    check_wheel(zipfile.ZipFile(wheel))

    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    run(programs / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(programs / "greedystep", "--version", cwd=elsewhere) == f"greedystep {greedystep.__version__}\n"
    assert "v is within" in run(programs / "greedystep", "plan", "frozenlake-4x4", cwd=elsewhere)
    assert not list((tmp_path / "empty").rglob("jax"))  # that is what the extra `deep` is for
    table = "import greedystep as gs; gs.TabularAgent('toy/choice'); print(gs.__file__)"
    acting = "import greedystep as gs; print(gs.load_pretrained('classic/cartpole').predict([0, 0, 0.1, 0.1]))"
    assert run(programs / "python", "-c", acting, cwd=elsewhere) == "1\n"
    assert str(tmp_path / "empty") in run(programs / "python", "-c", table, cwd=elsewhere)


def check_sdist(path):
    """It has what the tests read, but not the kept results and nothing that was made on the way."""
    with tarfile.open(path) as archive:
        parts = [Path(name).parts[1:] for name in archive.getnames()]
    folders = {"benchmarks", "docs", "examples", "src", "tests"}
    pages = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "PKG-INFO"}
    settings = {".gitignore", "Makefile", "constraints.txt", "mkdocs.yml", "pyproject.toml"}
    assert {part[0] for part in parts} == folders | pages | settings
    assert not [part for part in parts if {"__pycache__", "parts", "half-way"} & set(part)]
    assert path.stat().st_size < 4e6


def check_wheel(wheel):
    """It has the package and nothing else, and a page for a package index without links that lead nowhere."""
    names = set(wheel.namelist())
    about = f"greedystep-{greedystep.__version__}.dist-info/"
    members = {name for name in names if not name.startswith(about)}
    source = ROOT / "src"
    files = {path.relative_to(source) for path in (source / "greedystep").rglob("*") if path.is_file()}
    assert members == {path.as_posix() for path in files if "__pycache__" not in path.parts}
    assert {Path(name).suffix for name in members} == {".py", ".typed", ".json", ".npz", ".html", ".css", ".js"}
    page = {f"greedystep/report/{name}" for name in ("page.html", "page.css", "page.js", "charts.js")}
    agents = {name for name in names if re.fullmatch(r"greedystep/pretrained/[\w-]+\.(json|npz)", name)}
    assert len(agents) == 2 * len(greedystep.pretrained.names()) > 0
    assert {"greedystep/py.typed", f"{about}licenses/LICENSE", *page} <= names

    metadata = message_from_bytes(wheel.read(f"{about}METADATA"))
    assert (metadata["Version"], metadata["License-Expression"]) == (greedystep.__version__, "Apache-2.0")
    text = metadata.get_payload(decode=True).decode()
    assert metadata["Description-Content-Type"] == "text/markdown"
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    assert headings == ["greedystep", "Install", "Examples", "Findings"]
    links = re.findall(r"\]\(([^)]*)", text)
    assert links
    assert [link for link in links if not link.startswith("https://")] == []
    assert not re.search(r"<img|\.venv|\bmake ", text)


def test_importing_the_package_imports_nothing_heavy():
    heavy = {"jax", "numba", "scipy", "matplotlib", "gymnasium", "numpy"}
    script = f"import sys, greedystep; print(sorted({heavy} & set(sys.modules)))"
    assert run(sys.executable, "-c", script).strip() == "[]"


def test_every_guide_is_in_the_navigation_of_the_site():
    named = re.findall(r"^ +- (?:.*: )?([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(["CONTRIBUTING.md", *(path.name for path in (ROOT / "docs").glob("*.md"))])


def test_public_names_are_all_there():
    assert [name for name in greedystep.__all__ if not hasattr(greedystep, name)] == []
    assert set(greedystep.__all__) <= set(dir(greedystep))
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        _ = greedystep.sovle


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src" / "greedystep")))
def test_no_pickle(path):
    """A file somebody sends you cannot run code: nothing is read with pickle or what is built on it."""
    assert pickles(path.read_text(encoding="utf-8")) == []


def pickles(source):
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                found.append(module)
            case ast.Call(func=ast.Attribute(attr="load", value=ast.Name(id="np")), keywords=keywords):
                allowed = [word.value for word in keywords if word.arg == "allow_pickle"]
                if not (len(allowed) == 1 and isinstance(allowed[0], ast.Constant) and allowed[0].value is False):
                    found.append("pickle through np.load")
    unsafe = ("pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal")
    return [name for name in found if name.split(".")[0].split()[0] in unsafe]


def test_the_search_for_pickle_finds_it():
    for source in ("import pickle", "from dill import loads", "np.load(path)", "np.load(path, allow_pickle=True)"):
        assert pickles(source)
    assert not pickles("np.load(path, allow_pickle=False)\nimport json")


def test_one_version_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == greedystep.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_dependencies_are_those_that_are_imported():
    """Every core dependency is used, and whatever is imported comes with a dependency or an extra for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    users = [
        lines for extra, lines in project["optional-dependencies"].items() if extra not in ("dev", "docs", "peers")
    ]
    indirect = {"greedystep", "six"}  # gymnax imports six
    extras = {re.match(r"[\w-]+", line)[0] for lines in users for line in lines} - indirect
    comes_with = {"PIL": "pillow", "cycler": "matplotlib", "docstring_parser": "docstring-parser", "h5py": "minari"}
    modules = {module for path in SOURCES for module in imports(ast.parse(path.read_text(encoding="utf-8")))}
    optional = {"benchmarks", "wandb"}  # in a checkout; for the callback WandB
    found = {comes_with.get(module, module) for module in modules - sys.stdlib_module_names - optional}
    assert found - {"greedystep"} == core | extras


def imports(tree):
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


def test_the_metadata_name_the_versions_that_are_tested():
    path = ROOT / ".github" / "workflows" / "test.yml"
    if not path.exists():
        pytest.skip("only a checkout has workflows")
    found = dict(re.findall(r"^ +(python|jax): (\[.*\])$", path.read_text(), re.MULTILINE))
    pythons, jaxes = json.loads(found["python"]), json.loads(found["jax"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"]]
    assert [name[1] for name in names if name] == pythons
    assert project["requires-python"] == f">={pythons[0]}"
    last = jaxes[-1].split(".")
    bounds = f"jax>={jaxes[0]},<{last[0]}.{int(last[1]) + 1}"
    assert bounds in project["optional-dependencies"]["deep"]


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    assert not [line for line in pins if line.startswith("tfp-nightly")]


BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PYTHON_BLOCKS = [
    pytest.param(*found.groups(), id=f"{guide.name}-{number}")
    for guide in GUIDES
    for number, found in enumerate(BLOCK.finditer(guide.read_text()))
]


@pytest.mark.parametrize(("code", "shown"), PYTHON_BLOCKS)
def test_python_in_the_guides_runs(code, shown, tmp_path):
    """And prints what the block of text right after it says, if there is one."""
    if "import torch" in code and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    printed = run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path)
    if shown is not None:
        assert_same_text(printed, shown)


def assert_same_text(printed, shown):
    """The same words and whole numbers; others up to the last digit shown, bounds (1e-14) up to a factor of 10."""
    number = r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
    assert re.sub(number, "#", printed).split() == re.sub(number, "#", shown).split()
    for one, other in zip(re.findall(number, printed), re.findall(number, shown), strict=True):
        close = {"rel": 9.0} if "e" in other else {"rel": 1e-3, "abs": 1.5 * 10.0 ** -len(other.partition(".")[2])}
        assert one == other if other.isdigit() else float(one) == pytest.approx(float(other), **close)


def test_the_tour_runs_and_prints_what_it_shows():
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run_notebook.run(notebook)
    for cell, outputs in zip(run_notebook.code_cells(notebook), found, strict=True):
        assert [one["output_type"] for one in outputs] == [one["output_type"] for one in cell["outputs"]]
        for one, other in zip(outputs, cell["outputs"], strict=True):
            assert_same_text("".join(one.get("text", "")), "".join(other.get("text", "")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path, tmp_path):
    assert run(sys.executable, "-W", "error", path, cwd=tmp_path).strip()


def test_commands_in_the_guides_exist():
    """Every `make` target and `greedystep` command line that a guide shows is known to the program."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for guide in GUIDES:
        text = guide.read_text()
        assert set(re.findall(r"^make ([a-z]+)", text, re.MULTILINE)) <= targets
        known = {"plan", "reproduce", "report", "bench", "envs", "check", "watch", "train", "tune", "fit", "eval"}
        known |= {"export"}
        assert set(re.findall(r"^(?:\.venv/bin/)?greedystep ([a-z]+)", text, re.MULTILINE)) <= known


SHELL_BLOCKS = [
    pytest.param(block, id=f"{guide.name}-{number}")
    for guide in (*GUIDES, ROOT / "CONTRIBUTING.md")
    for number, block in enumerate(re.findall(r"```bash\n(.*?)```", guide.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", SHELL_BLOCKS)
def test_command_lines_in_the_guides_are_understood(block):
    """They would take hours to run: here options are parsed, programs compiled, and modules and extras looked up."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for program in re.findall(r"<<'END'\n(.*?)END\n", block, re.DOTALL):
        compile(program, "<block>", "exec")
    lines = re.sub(r"<<'END'\n.*?END\n", "\n", block, flags=re.DOTALL).replace("\\\n", " ").splitlines()
    for line in lines:
        words = shlex.split(line.removeprefix("JAX_NUM_CPU_DEVICES=2 "), comments=True)
        match words:
            case []:
                pass
            case [program, *rest] if program.endswith("greedystep") and rest[0] != "bench":
                assert dataclasses.is_dataclass(parse(Command, rest, prog="greedystep"))
            case ["python", "-m", module, *_]:
                assert find_spec(module) is not None
            case ["pip", "install", package]:
                assert re.match(r"greedystep(?:\[(\w+)\])?$", package)[1] in (None, *extras)
            case ["python", "-"] | ["make", _] | ["cd" | "chromium" | "git" | "grep", *_]:
                pass
            case [*_]:
                assert re.match(r"GREEDYSTEP_FUZZ_|\.venv(-peers)?/bin/(pytest|pip|python)$", words[0]), words


@needs_kept_results  # to which some lead
def test_links_in_the_guides_lead_somewhere():
    for guide in GUIDES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", guide.read_text()):
            assert (guide.parent / target).exists(), f"{guide.name} links to {target}"

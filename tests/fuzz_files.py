"""A tiny valid file of every kind that greedystep reads, and ways to damage one.

`make_examples` writes the files once; `damage` changes one of them: bytes, values of JSON, members of an archive, or
the header of a checkpoint, whose checksums are then made right again. What reads the file is a command line, or
`greedystep.load`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

# -- valid files ------------------------------------------------------------------------------------------------------


def make_examples(place: str, networks: bool = True) -> None:
    """Fill a folder; runs in a worker."""
    import greedystep as gs
    from greedystep.cli import main
    from greedystep.trajectory import Trajectory, save

    folder = Path(place)
    folder.mkdir(parents=True)
    os.chdir(folder)
    for name, env in (("table", "toy/choice"), ("lake", "FrozenLake-v1")):
        assert main(["train", env, "--episodes", "20", "--out", name]) == 0
    shutil.copy("table/agent.npz", "table.npz")
    random = np.random.default_rng(0)
    gs.MDP.from_gymnasium("FrozenLake-v1", 0.9).save("model.npz")
    gs.MDP(np.full((3, 2, 3), 1 / 3), random.normal(size=(3, 2)), 0.9).save("dense.npz")

    def log(observations: np.ndarray, actions: int) -> Trajectory:
        T = len(observations) - 1
        ends = np.arange(T) == T - 1
        return Trajectory(observations, random.integers(actions, size=T), random.normal(size=T), ends, ends & False)

    save("log.npz", [log(random.normal(size=(T, 4)).astype(np.float32), 2) for T in (5, 9)])
    task = gs.envs.make_task("toy/choice")
    save("steps.npz", [log(random.integers(task.mdp.num_states, size=6), task.mdp.num_actions)])
    Path("file.txt").write_text("not a result\n")
    Path("empty").mkdir()
    if networks:
        _make_network_examples()


def _make_network_examples() -> None:
    """A run with two checkpoints, an agent, and results of experiments with made-up trainings."""
    from deep_experiments import MadeUp
    from fuzz_commands import TINY_NETWORK

    import greedystep as gs
    from greedystep.cli import main
    from greedystep.experiments.deep import runner
    from greedystep.experiments.fig3 import training_time

    tiny = [word for name, value in TINY_NETWORK.items() for word in (f"--{name.replace('_', '-')}", value)]
    assert main(["train", "classic/cartpole", *tiny, "--seeds", "2", "--out", "deep"]) == 0
    assert main(["train", "--resume", "deep", "--steps", "30"]) == 0
    gs.load("deep").save("network.agent")
    trained, measured = runner.train, training_time.measure
    seconds = {name: [1.0, 1.1] for name in training_time.AGENTS}
    runner.train = MadeUp()
    about = {"steps": 100, "device": "cpu", "seconds": seconds}
    training_time.measure = lambda task, preset, lanes: {"task": task, "preset": preset, "lanes": lanes, **about}
    try:
        for name in ("fig3", "fig5"):
            assert main(["reproduce", name, "--only", "mountaincar", "--out", "results"]) == 0
    finally:
        runner.train, training_time.measure = trained, measured
    for drawn in Path("results").glob("*.*"):
        if drawn.suffix != ".json":
            drawn.unlink()


KINDS: dict[str, list[list[str]]] = {
    "network.agent": [["eval", "network.agent", "--episodes", "2", "--limit", "3"], ["load", "network.agent"]],
    "table.npz": [["load", "table.npz"], ["watch", "table.npz", "--steps", "2"]],
    "model.npz": [["plan", "model.npz"]],
    "dense.npz": [["plan", "dense.npz"]],
    "log.npz": [["fit", "log.npz", "--env", "classic/cartpole", "--hidden", "4", "--batches", "3", "--out", "new"]],
    "steps.npz": [["fit", "steps.npz", "--env", "toy/choice", "--out", "new.npz"]],
    "deep": [
        ["train", "--resume", "deep", "--steps", "40"],
        ["train", "--resume", "deep"],
        ["eval", "deep", "--episodes", "2", "--limit", "3"],
        ["report", "deep", "--out", "new"],
        ["watch", "deep", "--steps", "2"],
        ["load", "deep"],
    ],
    "table": [
        ["train", "--resume", "table", "--episodes", "30"],
        ["train", "--resume", "table"],
        ["report", "table", "--out", "new"],
        ["load", "table/agent.npz"],
        ["eval", "table"],
    ],
    "lake": [["train", "--resume", "lake", "--episodes", "30"], ["report", "lake", "table", "--out", "new"]],
    "results": [
        ["report", "results", "--out", "new"],
        ["report", "results/fig3.json", "--out", "new"],
        ["reproduce", "fig3", "--gather", "--out", "results"],
        ["reproduce", "fig5", "--gather", "--out", "results"],
        ["reproduce", "fig3", "--gather", "--kept", "results", "--out", "new"],
    ],
}
"""Example -> what reads it; "load" stands for `greedystep.load`."""
WEIGHTS = {"network.agent": 3, "table.npz": 3, "model.npz": 3, "dense.npz": 2, "log.npz": 2, "steps.npz": 2}
WEIGHTS |= {"deep": 5, "table": 5, "lake": 2, "results": 2}
NEEDS_NETWORK = ("network.agent", "log.npz", "deep", "results")


def load(path: str) -> None:
    """`greedystep.load`, which complains in one sentence."""
    from fuzz_calls import check_sentence

    import greedystep as gs

    try:
        gs.load(path)
    except (ValueError, OSError) as problem:
        check_sentence(problem)


# -- damage -----------------------------------------------------------------------------------------------------------


def damage(folder: Path, example: str, random: Random) -> str:
    """Damage one file of an example; returns what was done."""
    place = folder / example
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    path = random.choice(files)
    if place.is_dir() and random.random() < 0.3:  # the small files at the top are the ones that people edit
        path = random.choice([one for one in files if one.parent == place])
    name = path.relative_to(folder)
    if random.random() < 0.06:
        return f"{name}: {_replace(path, folder, random)}"
    before = path.read_bytes()
    makers: list[Callable[[bytes, Random], tuple[bytes, str]]] = [_bytes]
    if path.suffix == ".json":
        makers += [_json] * 4
    if path.suffix == ".jsonl":
        makers += [_lines] * 4
    if path.suffix == ".npz":
        makers += [_archive] * 4
    if path.suffix in (".agent", ".ckpt"):
        makers += [_checkpoint] * 4
    after, what = random.choice(makers)(before, random)
    path.write_bytes(after)
    return f"{name}: {what}"


def _replace(path: Path, folder: Path, random: Random) -> str:
    others = sorted(one for one in folder.rglob("*") if one.is_file() and one != path)
    what = random.choice(("removed", "a folder", "a link to itself", "another file", "a pipe"))
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "a link to itself":
        path.symlink_to(path.name)
    elif what == "a pipe":
        os.mkfifo(path)
    elif what == "another file":
        other = random.choice(others)
        path.write_bytes(other.read_bytes())
        what = f"replaced by {other.relative_to(folder)}"
    return what


def _bytes(data: bytes, random: Random) -> tuple[bytes, str]:
    """Bytes that are cut off, changed, inserted, moved or repeated."""
    size = len(data)
    at = random.randrange(size + 1) if random.random() < 0.7 else random.randrange(min(size, 64) + 1)
    length = random.choice((1, 2, 8, 100, 1000))
    match random.randrange(8):
        case 0:
            return data[:at], f"cut off after byte {at} of {size}"
        case 1 | 2:
            changed = bytearray(data)
            bits = [random.randrange(8 * max(size, 1)) for _ in range(random.choice((1, 1, 3, 20)))]
            for bit in bits if size else ():
                changed[bit // 8] ^= 1 << bit % 8
            return bytes(changed), f"bits {bits} flipped"
        case 3:
            noise = random.choice((random.randbytes(length), b"\0" * length, b"\xff" * length, b"9" * length))
            return data[:at] + noise + data[at + length :], f"{length} bytes at {at} replaced by {noise[:8]!r}..."
        case 4:
            noise = random.randbytes(length)
            return data[:at] + noise + data[at:], f"{length} random bytes inserted at {at}"
        case 5:
            return data[:at] + data[at + length :], f"{length} bytes at {at} removed"
        case 6:
            return data[at:] + data[:at], f"what begins at byte {at} moved to the front"
    return data[:at] + data, f"its first {at} bytes repeated"


# -- JSON -------------------------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.5, 1e308, -1e308, 2**31, 2**63, 10**30, "NaN", "Infinity", "-Infinity"),
    *("", "x", "a\nb", "a\0b", "\udcff", "../../x", "no_such_module:Env-v0", "<b>", [], {}, [1], [[1]], [None], ["x"]),
    *({"x": 1}, [1, [2]], {"": {}}, [0] * 3, "0", "1e9", "toy/choice", "minatar/breakout", "CartPole-v1", "dqn"),
    *("tabular", "n-step"),
)


def _json(data: bytes, random: Random) -> tuple[bytes, str]:
    """One or two values of other types, removed or added."""
    content = json.loads(data)
    done = []
    for _ in range(random.choice((1, 1, 2))):
        content, what = _change(content, random)
        done.append(what)
    text = json.dumps(content, ensure_ascii=random.random() < 0.9)
    return text.encode(errors="surrogatepass"), ", ".join(done)


def _change(content: Any, random: Random) -> tuple[Any, str]:
    """Walk down to a random place and change what stands there."""
    if random.random() < 0.03 or not isinstance(content, dict | list) or not content:
        value = random.choice((*VALUES, _nested(random.choice((10, 100_000)))))
        return value, f"became {_shown(value)}"
    key: Any = random.choice(list(content)) if isinstance(content, dict) else random.randrange(len(content))
    inner = content[key]
    if isinstance(inner, dict | list) and inner and random.random() < 0.75:
        content[key], what = _change(inner, random)
        return content, f"[{key!r}]{what}"
    match random.randrange(10):
        case 0:
            del content[key]
            return content, f"[{key!r}] removed"
        case 1:
            value = random.choice(VALUES)
            if isinstance(content, dict):
                content[random.choice(("x", "", f"{key}s", "env", "__class__"))] = value
            else:
                content.append(value)
            return content, f" got one more entry, {_shown(value)}"
        case 2:
            content[key] = [inner]
        case 3 if isinstance(inner, int | float):
            content[key] = random.choice((-inner, inner * 1000, inner + 1, inner + 0.5, str(inner), float(inner)))
        case 4 if isinstance(inner, str):
            content[key] = random.choice((inner + "x", inner[:-1], inner.upper(), inner.encode().hex()))
        case 5 if isinstance(content, dict):
            content[random.choice(list(content))] = inner
            return content, f" has [{key!r}] at another key too"
        case _:
            content[key] = random.choice(VALUES)
    return content, f"[{key!r}] became {_shown(content[key])}"


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(min(depth, 900)):  # json.dumps has its own limit
        value = [value]
    return value


def _shown(value: Any) -> str:
    return ascii(value)[:80]


def _lines(data: bytes, random: Random) -> tuple[bytes, str]:
    """One line changed, repeated, removed, blank or moved."""
    lines = data.split(b"\n")[:-1]
    at = random.randrange(len(lines))
    match random.randrange(8):
        case 0:
            lines.insert(at, b"")
            what = "a blank line"
        case 1:
            lines.insert(at, lines[at])
            what = "the line twice"
        case 2:
            del lines[at]
            what = "the line removed"
        case 3:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
            what = f"the line in the place of line {other + 1}"
        case 4:
            lines[at] = lines[at][: random.randrange(len(lines[at]) + 1)]
            what = "the line cut short"
        case 5:
            lines[at] = random.choice((b"null", b"[]", b"{}", b"1", b'"x"', b"\xff", b"nan", b"{", b"\r", b"[" * 5000))
            what = f"{lines[at][:20]!r} instead"
        case _:
            lines[at], what = _json(lines[at], random)
    return b"".join(line + b"\n" for line in lines), f"line {at + 1}: {what}"


# -- archives of arrays -----------------------------------------------------------------------------------------------


def _archive(data: bytes, random: Random) -> tuple[bytes, str]:
    """One member of a .npz file of another type, shape or content; missing, or with a broken header."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(members))
    match random.randrange(10):
        case 0:
            del members[name]
            what = "removed"
        case 1:
            members[f"x{name}"] = members.pop(name)
            what = "renamed"
        case 2:
            other = random.choice(list(members))
            members[name] = members[other]
            what = f"replaced by {other}"
        case 3:
            members[name], what = _bytes(members[name], random)
        case 4:
            members[name], what = _with_header(members[name], random)
        case _:
            array = np.load(io.BytesIO(members[name]), allow_pickle=False)
            changed, what = _array(array, random)
            buffer = io.BytesIO()
            np.save(buffer, changed, allow_pickle=True)  # an archive with pickled objects is one to refuse
            members[name] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return buffer.getvalue(), f"{name}: {what}"


def _with_header(member: bytes, random: Random) -> tuple[bytes, str]:
    header = random.choice(
        (
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': '<U99999999', 'fortran_order': False, 'shape': (), }",
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
            "{'descr': 'x', 'fortran_order': 3, 'shape': 'y', }",
            "(((((",
            "'''",
            "__import__('os')",
            "[" * 3000,
        )
    )
    text = header.encode() + b"\n"
    length = struct.unpack("<H", member[8:10])[0]
    return member[:8] + struct.pack("<H", len(text)) + text + member[10 + length :], f"with the header {header[:70]}"


def _array(array: np.ndarray, random: Random) -> tuple[np.ndarray, str]:
    """The array with another dtype, shape or value."""
    if array.dtype.kind in "US":
        text = str(array)
        try:
            changed = random.choice((np.array(_json(text.encode(), random)[0].decode(errors="replace")),))
            return changed, f"text became {str(changed)[:200]!r}"
        except ValueError:
            pass
        value = random.choice((f"{text}x", "", text[:-1], 3, [text, text], text.encode()))
        return np.array(value), f"became {value!r}"[:200]
    match random.randrange(12):
        case 0:
            kind = random.choice(
                ("f2", "f4", "i1", "i8", "u8", "?", "c16", "U20", "S9", ">f8", "longdouble", "M8[s]", "O")
            )
            with np.errstate(all="ignore"):
                return array.astype(kind), f"as {kind}"
        case 1:
            return array.ravel(), "flat"
        case 2:
            return array[None], "with one more axis"
        case 3:
            return (array[:-1] if array.ndim and len(array) else array[None]), "one row shorter"
        case 4:
            return array.T.copy(), "transposed"
        case 5:
            return array[:0] if array.ndim else np.zeros((0, 3)), "empty"
        case 6:
            return np.repeat(np.atleast_1d(array), 2, axis=0), "twice as long"
        case 7:
            return np.array(0, array.dtype), "one number"
    kinds = {"f": (np.nan, np.inf, -np.inf, -1.0, 1e308, 2.0, 5e-324, 0.5), "b": (True, False)}
    value = random.choice(kinds.get(array.dtype.kind, (0, -1, 1, 127, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))))
    changed = np.array(array)
    if not changed.size:
        return changed, "the same"
    where = random.randrange(changed.size) if random.random() < 0.8 else slice(None)
    with np.errstate(all="ignore"):
        changed.reshape(-1)[where] = np.array(value).astype(array.dtype)
    return changed, f"entry {where} became {value}"


# -- checkpoints ------------------------------------------------------------------------------------------------------


def _checkpoint(data: bytes, random: Random) -> tuple[bytes, str]:
    """Another header, or other bytes of a leaf, with checksums that fit."""
    from greedystep.checkpoint import CHECKSUM, PREAMBLE

    magic, version, length, _ = PREAMBLE.unpack(data[: PREAMBLE.size])
    start = PREAMBLE.size + CHECKSUM.size
    text, leaves = data[start : start + length], data[start + length :]
    match random.randrange(8):
        case 0:
            header = json.loads(text)
            begin, leaf = 0, {}
            chosen = random.randrange(len(header["leaves"]))
            for leaf in header["leaves"][: chosen + 1]:
                begin += leaf["bytes"]
            begin -= leaf["bytes"]
            noise = random.choice((b"\xff", b"\0", b"\x7f", random.randbytes(1))) * leaf["bytes"]
            leaves = leaves[:begin] + noise + leaves[begin + leaf["bytes"] :]
            leaf["crc32"] = zlib.crc32(noise)
            text, what = json.dumps(header).encode(), f"the bytes of {leaf['name']} became {noise[:1]!r}"
        case 1:
            version = random.choice((0, 2, 2**32 - 1))
            what = f"version {version}"
        case 2:
            text = random.choice((b"{}", b"[]", b"null", b"", b"\xff", b"{", b"[" * 50_000, b"1"))
            what = f"header {text[:20]!r}"
        case 3 | 4:
            header = json.loads(text)
            chosen = random.choice(header["leaves"])
            _, what = _change(chosen, random)
            text, what = json.dumps(header).encode(), f"header: leaf {what}"
        case 5 | 6:
            header = json.loads(text)
            header["about"], what = _change(header["about"], random)
            text, what = json.dumps(header).encode(), f"header: about{what}"
        case _:
            text, what = _json(text, random)
            what = f"header: {what}"
    preamble = PREAMBLE.pack(magic, version, len(text), zlib.crc32(text))
    return preamble + CHECKSUM.pack(zlib.crc32(preamble)) + text + leaves, what

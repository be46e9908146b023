"""Finished parts in a folder: single files, packed files, what is damaged, and what `reproduce` packs."""

import gzip
import hashlib
import json

import pytest

from greedystep import experiments
from greedystep.cli import main
from greedystep.runs.part_store import PACKED, PartStore

CONTENTS = {f"part-{i}.json": {"number": i, "curve": [0.1 * i, None, "NaN"]} for i in range(5)}


def filled(folder):
    store = PartStore(folder)
    for name, content in CONTENTS.items():
        store.write(name, content)
    return store


def pack(store, experiment, names):
    for name in names:
        store.use(name)
    return store.pack(experiment)


def read_all(folder):
    store = PartStore(folder)
    return {name: json.loads(json.dumps(store.read(name)).replace("NaN", '"NaN"')) for name in store.names()}


def packed_lines(path):
    return gzip.decompress(path.read_bytes()).splitlines()


def repack(path, lines):
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))


def test_parts_are_packed_and_found_again(tmp_path):
    store = filled(tmp_path)
    names = list(CONTENTS)
    assert pack(store, "fig3", names[:3]) == 3
    assert pack(store, "fig4", names[2:4]) == 1  # the third is in the file of fig3 already
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"fig3{PACKED}", f"fig4{PACKED}", names[4]]
    assert read_all(tmp_path) == CONTENTS
    assert pack(store, "fig4", names) == 1
    assert not list(tmp_path.glob("*.json"))
    assert read_all(tmp_path) == CONTENTS
    assert PartStore(tmp_path).problems == []


def test_the_file_is_as_documented_and_equal_parts_make_equal_files(tmp_path):
    for folder in ("one", "other"):
        pack(filled(tmp_path / folder), "fig3", reversed(CONTENTS) if folder == "one" else CONTENTS)
    one, other = (tmp_path / folder / f"fig3{PACKED}" for folder in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    header, *lines = packed_lines(one)
    about = json.loads(header)
    assert about["format"] == "greedystep parts 1"
    assert [part["name"] for part in about["parts"]] == sorted(CONTENTS)
    assert [part["sha256"] for part in about["parts"]] == [hashlib.sha256(line).hexdigest() for line in lines]
    assert [json.loads(line) for line in lines] == [CONTENTS[name] for name in sorted(CONTENTS)]


def test_what_is_packed_later_is_added(tmp_path):
    pack(filled(tmp_path), "fig3", ["part-1.json"])
    pack(PartStore(tmp_path), "fig3", CONTENTS)
    assert [path.name for path in tmp_path.iterdir()] == [f"fig3{PACKED}"]
    assert read_all(tmp_path) == CONTENTS


def test_parts_of_a_subfolder(tmp_path):
    store = PartStore(tmp_path)
    store.write("fig2/one.json", {"x": 1})
    store.write("two.json", {"x": 2})
    assert pack(store, "fig2", ["fig2/one.json"]) == 1
    assert not (tmp_path / "fig2").exists()
    again = PartStore(tmp_path)
    assert (again.names("fig2"), again.names()) == (["fig2/one.json"], ["two.json"])
    assert again.read("fig2/one.json") == {"x": 1}


def test_a_damaged_line_is_named_and_counts_as_missing(tmp_path):
    pack(filled(tmp_path), "fig3", CONTENTS)
    path = tmp_path / f"fig3{PACKED}"
    lines = packed_lines(path)
    lines[3] = lines[3].replace(b"2", b"7")
    repack(path, lines)
    store = PartStore(tmp_path)
    assert store.problems == [f"{path} is damaged (a checksum is wrong); counted as missing: part-2.json"]
    assert store.read("part-2.json") is None
    assert "part-2.json" not in store.names()
    assert store.read("part-3.json")["number"] == 3
    store.write("part-2.json", CONTENTS["part-2.json"])
    assert PartStore(tmp_path).problems == []
    assert pack(store, "fig3", ["part-2.json"]) == 1
    assert PartStore(tmp_path).problems == []
    assert read_all(tmp_path) == CONTENTS
    assert packed_lines(tmp_path / f"fig3{PACKED}.damaged") == lines  # for who wants to look


def test_a_file_that_is_cut_short_keeps_what_can_be_read(tmp_path):
    store = PartStore(tmp_path)
    draws = {f"part-{i}.json": {"text": hashlib.sha256(str(i).encode()).hexdigest() * 9000} for i in range(6)}
    for name, content in draws.items():
        store.write(name, {"text": [hashlib.sha256(f"{name} {k}".encode()).hexdigest() for k in range(4000)]} | content)
    pack(store, "fig3", draws)
    path = tmp_path / f"fig3{PACKED}"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cut = PartStore(tmp_path)
    (problem,) = cut.problems
    assert "is damaged" in problem
    assert "counted as missing: part-" in problem
    assert 0 < len(cut.names()) < 6


def packed(content: bytes) -> bytes:
    """Compress without the time, so that the ids of the tests are always the same."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        packed(b"{"),
        packed(b'{"format": "something else", "parts": []}\n'),
        packed(b'{"format": "greedystep parts 1", "parts": [{"name": "../x.json", "sha256": ""}]}\n{}\n'),
        packed(b'{"format": "greedystep parts 1", "parts": [{"name": ".x.json", "sha256": ""}]}\n{}\n'),
    ],
)
def test_a_file_that_is_no_packed_file_is_one_sentence(content, tmp_path):
    (tmp_path / f"fig3{PACKED}").write_bytes(content)
    store = PartStore(tmp_path)
    (problem,) = store.problems
    assert problem.startswith(f"{tmp_path / f'fig3{PACKED}'} is damaged (")
    assert store.names() == []


def test_files_stay_when_the_packed_file_cannot_be_written(tmp_path, monkeypatch):
    store = filled(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="the files of its parts stay"):
            pack(store, "fig3", CONTENTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(CONTENTS)


def test_nothing_is_kept_without_a_folder():
    store = PartStore()
    store.write("x.json", {})
    store.use("x.json")
    assert (store.names(), store.read("x.json"), store.pack("fig3")) == ([], None, 0)


@pytest.mark.parametrize(("missing", "gather", "packed"), [([], [], 2), (["x"], [], 0), (["x"], ["--gather"], 2)])
def test_reproduce_packs_what_is_complete_or_gathered(tmp_path, monkeypatch, missing, gather, packed):
    class Stand:
        NAME, TITLE, IN_PARTS = "fig5", "stands for it", True

        def run(self, scale, progress, parts, only):
            for name in ("a.json", "b.json", "unused.json"):
                parts.write(name, {"x": name})
            parts.use("a.json")
            parts.use("b.json")
            return {"title": self.TITLE, "settings": {}, "numbers": {"missing": missing}, "claims": []}

        def draw(self, result):
            return {}

        def tables(self, result):
            return []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(experiments, "load", lambda name: Stand())
    assert main(["reproduce", "fig5", "--out", "out", *gather]) == 0
    assert len(list(tmp_path.glob("out/parts/*.json"))) == 3 - packed
    assert PartStore(tmp_path / "out" / "parts").read("a.json") == {"x": "a.json"}
    assert (tmp_path / "out" / "parts" / f"fig5{PACKED}").exists() == bool(packed)

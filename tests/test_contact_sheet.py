"""The sheet of all environments."""

from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import contact_sheet
from greedystep import envs

ROOT = Path(__file__).parents[1]


def test_rows_are_filled_in_order_and_scaled_to_the_width():
    breakout = contact_sheet.make_tile("minatar/breakout")
    tiles = [breakout._replace(aspect=1.0)] * 7
    assert [len(row) for row in contact_sheet.split_into_rows(tiles)] == [5, 2]
    image = contact_sheet.draw_sheet(tiles[:5])
    height = round((contact_sheet.WIDTH - 4 * contact_sheet.GAP) / 5)
    assert image.size == (contact_sheet.WIDTH, height + contact_sheet.LABEL)
    seen = np.asarray(image)
    assert (seen[:height, :height, 3] == 255).all()
    assert (seen[:height, height : height + contact_sheet.GAP, 3] == 0).all()
    assert seen[height:, :height, 3].any()


def test_the_command_writes_one_png_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(contact_sheet.envs, "names", lambda: ["minatar/breakout"])
    assert contact_sheet.main([str(tmp_path / "a.png")]) == 0
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] == contact_sheet.WIDTH
    for words in ([], ["a.gif"], ["a.png", "b.png"]):
        assert contact_sheet.main(words) == 2
        assert "give one file" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_command_writes_one_image_per_environment_to_a_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(contact_sheet.envs, "names", lambda: ["minatar/breakout"])
    assert contact_sheet.main([str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    with Image.open(path) as image:
        assert (path.name, image.size[1]) == ("minatar-breakout.png", contact_sheet.SMALL)


def test_every_environment_has_its_picture_in_the_guide():
    names = {f"{name.replace('/', '-')}.png" for name in envs.names()}
    assert {path.name for path in (ROOT / "docs" / "images" / "envs").iterdir()} == names
    guide = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    assert {name for name in names if f"images/envs/{name}" not in guide} == set()

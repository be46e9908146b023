"""The site that `make docs` builds: no warning, no link that leads nowhere; read in Chromium, from files."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from browser import Browser
from kept_results import needs_kept_results

pytestmark = needs_kept_results  # pages of the site link to them

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site; `strict` in mkdocs.yml makes any warning a failure."""
    if find_spec("material") is None:
        complaint = "MkDocs is not installed; the extra `docs` has it"
        pytest.fail(complaint) if os.environ.get("CI") else pytest.skip(complaint)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # Material's notice of its own end of life, in 2027
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


class Page(HTMLParser):
    """Names of the places in a page, its links, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links, self.loaded, self.formulas = {""}, set(), set(), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        self.places |= {has["id"]} if has.get("id") else set()
        self.formulas += tag == "math"
        if tag == "a" and has.get("href"):
            self.links.add(has["href"])
        elif tag in ("img", "script", "iframe") and has.get("src"):
            self.loaded.add(has["src"])
        elif tag == "link" and has.get("rel") != "canonical":
            self.loaded.add(has["href"])


@pytest.fixture(scope="module")
def pages(site):
    """Path -> page, of all pages of the site but the one that servers show for an address that is not there."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_leads_to_a_place_that_is_there(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            address, place = urldefrag(link)
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            there = (path.parent / unquote(address)).resolve() if address else path
            if not there.is_file() or (there in pages and unquote(place) not in pages[there].places):
                broken.append((str(path.relative_to(site)), link))
    assert broken == []


def test_nothing_is_loaded_from_a_server(pages):
    assert [link for page in pages.values() for link in page.loaded if re.match("(https?:)?//", link)] == []


def test_what_guides_link_to_in_the_repository_is_part_of_the_site(site):
    assert 'class="highlight"' in (site / "examples" / "own_game.py.html").read_text(encoding="utf-8")
    assert "<table>" in (site / "results" / "paper" / "settings.html").read_text(encoding="utf-8")
    assert (site / "results" / "paper" / "fig3-greedy-play.png").read_bytes()[:4] == b"\x89PNG"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def start(browser, site):
    """The first page, in an ordinary window in daylight."""
    browser.events.clear()
    browser.resize(1200, 900)
    browser.media()
    browser.open((site / "index.html").as_uri())
    yield browser
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith(("file:", "data:"))] == []


def test_the_search_finds_a_function_without_a_server(start):
    start.evaluate("document.querySelector('input[name=query]').focus()")
    start.call("Input.insertText", text="soft_greedy_ste")
    start.press("p", "p")
    start.wait_for("document.querySelector('.md-search-result__item a') !== null")
    found = start.evaluate("[...document.querySelectorAll('.md-search-result__item a')].map(a => a.href)")
    assert any(re.search(r"reference\.html\?.*#greedystep\.returns\.soft_greedy_step$", address) for address in found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_those_that_the_system_asks_for(start, site, scheme):
    start.media(scheme)
    start.open((site / "index.html").as_uri())
    ground = start.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(ground[:3]) < 80) == (scheme == "dark")


def test_no_guide_is_wider_than_a_phone(start, site, pages):
    start.resize(390, 800, mobile=True)
    wide = []
    for path in sorted(set(site.glob("*.html")) & set(pages)):
        start.open(path.as_uri())
        if start.evaluate("document.documentElement.scrollWidth") > 390:
            wide.append(path.name)
    assert wide == []


def test_formulas_are_drawn(start, site, pages):
    assert pages[site / "theory.html"].formulas > 20
    assert pages[site / "estimators.html"].formulas > 40
    left = [path.name for path in site.glob("*.html") if 'class="arithmatex"' in path.read_text(encoding="utf-8")]
    assert left == []
    start.open((site / "estimators.html").as_uri())
    tallest = start.evaluate("Math.max(...[...document.querySelectorAll('math munder')].map(m => m.clientHeight))")
    assert tallest > 25  # what a maximum is over stands below it
    assert start.evaluate("document.querySelectorAll('merror').length") == 0


def test_the_notebook_is_a_page_with_its_output_and_figure(site):
    page = (site / "examples" / "tour.ipynb.html").read_text(encoding="utf-8")
    assert "reaches the goal in" in page
    assert "data:image/png;base64," in page
    assert 'href="tour.ipynb" download' in page
    assert (site / "examples" / "tour.ipynb").is_file()


def test_the_grid_world_leads_back_to_the_site(start, site):
    start.open((site / "grid-world.html").as_uri())
    start.follow("a[href='index.html']")
    assert start.evaluate("location.pathname").endswith("/index.html")

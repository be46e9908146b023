"""Reports: tables, figures, and the page as a browser shows it."""

import base64
import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from greedystep import experiments, figures
from greedystep.experiments.claims import VERDICTS, Claim, Table
from greedystep.record import provenance, write_json
from greedystep.report import page, results, tables

NASTY = 'a <b>"bold"</b> & $summary | γ ≤ 1_000 % \\ {x}'

CLAIMS = [
    Claim("two-iterations", "Greedy-Step needs two iterations", "Figure 1", 2, 2.0, "confirmed"),
    Claim("rate", "It contracts with γ²", "Theorem 3", "γ²", 0.9801, "partly"),
    Claim("nasty", NASTY, NASTY, NASTY, float("inf"), "refuted"),
    Claim("later", "It learns to play", "Section 6", None, None, "untested"),
]
TABLE = Table("fig1", NASTY, ["method", "work", "met"], [["VI", 12345.678, True], [NASTY, None, False]])


def draw(result):
    figure, axes = figures.panels(columns=2)
    for axis in axes:
        axis.plot(result["numbers"]["n"], result["numbers"]["iterations"], label="γ")
        axis.legend()
    return {"fig1": figure, "work": figures.panels()[0]}


EXPERIMENT = SimpleNamespace(
    NAME="fig1",
    TITLE="A stand-in",
    draw=draw,
    tables=lambda result: [TABLE],
    run=lambda scale, progress: pytest.fail("a report must not run anything"),
)


@pytest.fixture
def result(monkeypatch):
    monkeypatch.setitem(sys.modules, "greedystep.experiments.fig1", EXPERIMENT)
    return {
        "name": "fig1",
        "title": "A stand-in",
        "settings": {"scale": "quick", "sizes": [1, 2]},
        "numbers": {"n": [1, 2, 3], "iterations": [2, 2, 2]},
        "claims": [asdict(claim) for claim in CLAIMS],
        "provenance": provenance({"scale": "quick"}, command="greedystep reproduce fig1 --scale quick"),
    }


# -- claims and tables ------------------------------------------------------------------------------------------------


def test_a_claim_is_checked():
    with pytest.raises(ValueError, match="verdict: expected one of confirmed, partly, refuted, untested, got 'true'"):
        Claim("a", "b", "c", 1, 1, "true")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="where: expected some text"):
        Claim("a", "b", " ", 1, 1, "confirmed")


def test_a_table_is_rectangular():
    with pytest.raises(ValueError, match="row 1 has 1 cells, the header has 2"):
        Table("a", "b", ["x", "y"], [[1, 2], [3]])


def test_cells_read_well():
    given = (None, True, 3, 0.123456, 12345.6, 1e-9, float("inf"), float("-inf"), "γ", [1, 0.5], {"n": 2})
    assert [tables.cell(value) for value in given] == [
        *("–", "yes", "3", "0.1235", "12346", "1e-09", "∞", "-∞", "γ", "1, 0.5", "n: 2"),
    ]


def test_markdown_keeps_its_columns():
    lines = tables.markdown(Table("t", "Title", ["a", "b"], [["x|y", 1.5], ["two\nlines", 2]])).splitlines()
    assert lines == ["**Title**", "", "| a | b |", "| --- | ---: |", r"| x\|y | 1.5 |", "| two lines | 2 |"]


def test_latex_is_escaped_and_balanced():
    source = tables.latex(TABLE)
    assert r"\begin{tabular}{lrl}" in source
    assert r"\& \$summary | $\gamma$ $\leq$ 1\_000 \% \textbackslash{} \{x\}" in source
    assert source.isascii()
    assert r"$\|$q$\|$ $\leq$ $\infty$" in tables.latex(Table("t", "‖q‖ ≤ ∞", ["a"], []))
    rows = [line for line in source.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [2, 2, 2]


def test_an_empty_table_is_still_a_table():
    empty = Table("t", "Nothing", ["a", "b"], [])
    assert "| a | b |" in tables.markdown(empty)
    assert r"{ll}" in tables.latex(empty)


# -- figures ----------------------------------------------------------------------------------------------------------


def test_the_same_figure_gives_the_same_bytes(tmp_path, result):
    for folder in ("one", "two"):
        with figures.style():
            figures.save(draw(result)["fig1"], tmp_path / folder / "fig1")
    for name in ("fig1.png", "fig1.svg"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_style_does_not_leak():
    import matplotlib

    before = matplotlib.rcParams["axes.grid"]
    with figures.style():
        assert matplotlib.rcParams["axes.grid"] is True
    assert matplotlib.rcParams["axes.grid"] == before


# -- folders ----------------------------------------------------------------------------------------------------------


def test_everything_is_drawn_from_json_alone(tmp_path, result):
    write_json(tmp_path / "in" / "fig1.json", result)
    written = results.write(results.collect([tmp_path / "in"]), tmp_path / "out")
    assert written == tmp_path / "out" / "report.html"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("fig1.png", "fig1.svg", "fig1-work.png", "fig1-work.svg", "fig1.md", "fig1.tex", "report.html"),
    }


def test_what_is_no_result_is_refused(tmp_path, result):
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        results.collect([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="holds no results"):
        results.collect([tmp_path])
    for number, wrong in enumerate([[], {"name": "fig1"}, {**result, "name": "fig9"}, {**result, "claims": [{}]}]):
        path = tmp_path / f"{number}.json"
        write_json(path, wrong)
        with pytest.raises(ValueError, match=r"is not a result|is not known|cannot be read"):
            results.collect([path])


def test_a_name_may_not_occur_twice(tmp_path, result):
    for folder in ("a", "b"):
        write_json(tmp_path / folder / "fig1.json", result)
    with pytest.raises(ValueError, match="fig1 was given twice"):
        results.collect([tmp_path / "a", tmp_path / "b"])
    assert len(results.collect([tmp_path / "a", tmp_path / "a" / "fig1.json"])) == 1


def test_every_registered_experiment_is_complete():
    for name in experiments.NAMES:
        module = experiments.load(name)
        assert name == module.NAME
        assert module.TITLE.strip()
        assert all(callable(getattr(module, part)) for part in ("run", "draw", "tables"))
    with pytest.raises(ValueError, match="'fig9' is not known"):
        experiments.load("fig9")


# -- the page ---------------------------------------------------------------------------------------------------------


class Rows(HTMLParser):
    """The attributes of the rows of the claims table, and every address the page mentions."""

    def __init__(self, html):
        super().__init__()
        self.claims, self.addresses, self.inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.inside |= tag == "table" and attributes.get("id") == "claims"
        if self.inside and "data-claim" in attributes:
            self.claims.append((attributes["data-claim"], attributes["data-verdict"]))
        self.addresses += [attributes[key] for key in ("src", "href") if key in attributes]

    def handle_endtag(self, tag):
        self.inside &= tag != "table"


def render(result):
    with figures.style():
        pictures = {}
        for name, drawing in draw(result).items():
            file = io.BytesIO()
            drawing.savefig(file, format="svg")
            pictures[name] = file.getvalue()
    return page.render([page.Section(result, pictures, [TABLE])])


def test_claims_come_first_one_row_each(result):
    html = render(result)
    assert Rows(html).claims == [(claim.id, claim.verdict) for claim in CLAIMS]
    assert html.index('id="claims"') < html.index("<section")
    assert "4 claims: 1 confirmed, 1 partly, 1 refuted, 1 untested." in html
    assert set(page.VERDICT_MARKS) == set(VERDICTS)


def test_the_page_needs_nothing_outside_itself_and_is_escaped(result):
    html = render(result)
    assert all(address.startswith(("data:", "#")) for address in Rows(html).addresses)
    assert "<script" not in html
    assert "http" not in re.sub(r"base64,[\w+/=]+", "", html).replace("http-equiv", "")
    assert "<b>" not in html
    assert "&lt;b&gt;&quot;bold&quot;&lt;/b&gt; &amp; $summary" in html


# -- in a browser -----------------------------------------------------------------------------------------------------

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
]


class Browser:
    """Chromium over its debugging pipe: JSON messages, each ended by a zero byte."""

    def __init__(self, profile):
        binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if binary is None:
            complaint = "Chromium is not installed; .ci/run installs it"
            pytest.fail(complaint) if os.environ.get("CI") else pytest.skip(complaint)
        (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
        # Chromium reads descriptor 3 and writes 4; high numbers cannot clash with these while the shell moves them.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (their_in, their_out)]
        launch = ["bash", "-c", f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}', "bash", binary, *FLAGS]
        self.process = subprocess.Popen(
            [*launch, f"--user-data-dir={profile}", "about:blank"], pass_fds=theirs, stderr=subprocess.DEVNULL
        )
        for end in (their_in, their_out, *theirs):
            os.close(end)
        self.output, self.input = os.fdopen(our_out, "wb"), os.fdopen(our_in, "rb")
        self.pending, self.number, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        self.call("Browser.close")
        self.output.close()
        self.input.close()
        self.process.wait(30)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.output.write(json.dumps(message).encode() + b"\0")
        self.output.flush()
        answer = self.until(lambda message: message.get("id") == self.number)
        assert "error" not in answer, answer
        return answer["result"]

    def until(self, found):
        while True:
            while b"\0" not in self.pending:
                chunk = os.read(self.input.fileno(), 1 << 16)
                assert chunk, "Chromium ended early"
                self.pending += chunk
            line, self.pending = self.pending.split(b"\0", 1)
            message = json.loads(line)
            self.events.append(message)
            if found(message):
                return message

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return answer["result"]["value"]

    def complaints(self):
        """Console messages, exceptions, and requests that left the page."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self):
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]


@pytest.fixture
def browser(tmp_path):
    with Browser(tmp_path / "profile") as opened:
        yield opened


def test_chromium_shows_the_page(tmp_path, result, browser):
    html = tmp_path / "report.html"
    html.write_text(render(result))
    browser.open(html.as_uri())
    images = "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    assert [width > 100 for width in browser.evaluate(images)] == [True, True]
    assert browser.evaluate("document.querySelectorAll('#claims tr[data-claim]').length") == len(CLAIMS)
    unique = "(ids => ids.length === new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"
    assert browser.evaluate(unique)
    outside = [url for url in browser.requests() if not url.startswith(("data:", "file:", "about:"))]
    assert outside == []
    assert browser.complaints() == []

    for width in (320, 390, 1200):
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width

    def background(scheme):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return browser.evaluate("getComputedStyle(document.body).backgroundColor")

    assert background("light") == "rgb(255, 255, 255)"
    assert background("dark") == "rgb(13, 17, 23)"

    printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 10_000


def test_the_browser_test_can_fail(tmp_path, browser):
    """A page with an error, a broken picture and a missing file is seen as such."""
    html = tmp_path / "broken.html"
    html.write_text('<img src="data:image/svg+xml;base64,AAAA"><img src="missing.png"><script>oops()</script>')
    browser.open(html.as_uri())
    decoded = "Promise.all([...document.images].map(i => i.decode())).then(() => 'all', () => 'not all')"
    assert browser.evaluate(decoded) == "not all"
    assert {event["method"] for event in browser.complaints()} >= {"Runtime.exceptionThrown", "Network.loadingFailed"}

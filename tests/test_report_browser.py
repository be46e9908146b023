"""The report in Chromium: drawn, read with pointer and keys, chosen from; light and dark, on a phone and on paper."""

import re
from itertools import pairwise

import pytest
from browser import Browser
from deep_experiments import MadeUp, silent
from test_report_runs import make_run

from greedystep.experiments import fig1, fig3, fig4, fig5, horizon
from greedystep.experiments.deep import runner
from greedystep.io import write_json
from greedystep.provenance import provenance
from greedystep.report import results, run_report

NASTY = '</script><script>pwned = 1</script><img src=x onerror="pwned = 1">'


UNFOLD = "document.querySelectorAll('details').forEach(d => { d.open = true; })"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page of an exact result and four made-up ones at quick scale; two experiments are missing, and one task."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "train", MadeUp())
        for module in (fig1, fig3, fig4, fig5, horizon):
            more = {} if module is fig1 else {"parts": folder / "parts"}
            result = {"name": module.NAME, **module.run("quick", silent, **more), "provenance": provenance({})}
            if module is fig3:
                methods = result["numbers"]["tasks"]["catcher"]["methods"]
                methods["dqn"]["label"] = NASTY
                result["numbers"]["tasks"]["breakout"]["methods"].clear()
                result["claims"][0] |= {"measured": "a" * 300, "claimed": "b" * 300, "claim": "c" * 300}
            write_json(folder / f"{module.NAME}.json", result)
    return results.write(results.collect([folder]), folder)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(opened, report):
    """The page, freshly loaded, as an ordinary window in daylight shows it."""
    opened.events.clear()
    opened.resize(1200, 900)
    opened.media()
    opened.open(report.as_uri())
    yield opened
    assert opened.complaints() == []


@pytest.fixture
def unfolded(browser):
    """The page with everything unfolded."""
    browser.evaluate(UNFOLD)
    return browser


def every(browser, selector, expression):
    """The expression for each element `e` that the selector finds."""
    return browser.evaluate(f"[...document.querySelectorAll({selector!r})].map(e => {expression})")


def computed(browser, selector, name):
    return browser.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{name}")


def step_of(browser):
    """What the first panel of Figure 4 says at its top."""
    said = re.match(
        r"environment steps ([\d,]+)", browser.evaluate("document.querySelector('#fig4-charts .readout').innerText")
    )
    assert said is not None
    return int(said[1].replace(",", ""))


def test_everything_is_drawn_from_the_page_alone(unfolded):
    browser = unfolded
    titles = every(browser, "#fig3-charts .panel", "e.querySelector('figcaption').textContent")
    quantities = len(every(browser, "#fig3-charts h3", "1"))
    assert len(titles) == 2 * quantities  # Breakout has no trainings
    empty = every(browser, "#fig3-charts .panel", "e.querySelectorAll('path[d]:not([d=\"\"])').length === 0")
    assert not any(empty)
    for name in ("fig4", "fig5", "horizon"):
        paths = every(browser, f"#{name}-charts .panel", "e.querySelectorAll('path[d]:not([d=\"\"])').length")
        assert len(paths) >= 3
        assert all(paths)
    assert (
        every(browser, "#fig4-charts .panel:first-child path", "e.getAttribute('d').includes('NaN')").count(True) == 0
    )
    assert [url for url in browser.requests() if not url.startswith(("data:", "file:", "about:"))] == []
    images = "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    assert min(browser.evaluate(images)) > 100
    ids = every(browser, "[id]", "e.id")
    assert len(ids) == len(set(ids))


def test_text_in_a_result_is_only_text(unfolded):
    browser = unfolded
    assert browser.evaluate("typeof pwned") == "undefined"
    assert NASTY in every(browser, "#fig3-charts .legend button", "e.textContent")
    browser.evaluate(
        "document.body.append(document.createRange().createContextualFragment('<script>pwned = 1</script>'))"
    )
    assert browser.evaluate("typeof pwned") == "undefined"  # the page runs no scripts but its own
    assert any("Content Security Policy" in str(event) for event in browser.complaints())
    browser.events.clear()


def test_hovering_shows_the_numbers_of_all_shown_methods(unfolded):
    browser = unfolded
    panel = "#fig4-charts .panel"
    assert browser.evaluate(f"document.querySelector('{panel} .readout').hidden")
    browser.hover(f"{panel} svg")
    assert not browser.evaluate(f"document.querySelector('{panel} .readout').hidden")
    shown = every(browser, f"{panel}:first-child .readout tr", "[...e.cells].map(c => c.textContent)")[:4]
    step = step_of(browser)
    spec = browser.evaluate("JSON.parse(document.querySelector('#fig4-charts script').textContent)")
    panel_of = spec["quantities"][0]["panels"][0]
    expected = {}
    for curve in panel_of["curves"]:
        at = spec["grids"][curve["grid"]].index(step)
        label = spec["methods"][curve["method"]]["label"]
        numbers = (f"{curve[part][at]:.{panel_of['digits']}f}" for part in ("y", "low", "high"))
        mean, low, high = (number.replace("-", "−") for number in numbers)
        expected[label] = [mean, f"{low} to {high}"]
    assert {label: rest for label, *rest in shown} == expected
    values = [float(row[1]) for row in shown]
    assert values == sorted(values, reverse=True)
    assert len(every(browser, f"{panel}:first-child .dot", "1")) == 4
    browser.hover("h1")
    assert browser.evaluate(f"document.querySelector('{panel} .readout').hidden")


def test_quantities_of_one_task_stand_side_by_side(unfolded):
    browser = unfolded
    tops = every(browser, "#horizon-charts .panel", "e.checkVisibility() ? e.getBoundingClientRect().top : null")
    assert len({top for top in tops if top is not None}) == 1
    assert sum(top is not None for top in tops) == 3


def test_bars_are_read_too(unfolded):
    browser = unfolded
    last = "#fig5-charts > div:last-child > div:last-child"
    browser.hover(f"{last} .panel svg")
    said = browser.evaluate(f"document.querySelector('{last} .readout').textContent")
    assert re.match(r"chosen n [\d+-]+first [\d,]+ steps0\.\d+last [\d,]+ steps0\.\d+", said)


def test_the_arrow_keys_go_from_point_to_point(unfolded):
    browser = unfolded
    browser.evaluate("document.querySelector('#fig4-charts .panel svg').focus()")
    steps = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight"):
        browser.press(key)
        steps.append(step_of(browser))
    assert steps[0] < steps[1] < steps[2]
    assert steps[3] == steps[1]
    assert steps[4] == steps[5] == 50_000
    browser.press("Escape")
    assert browser.evaluate("document.querySelector('#fig4-charts .readout').hidden")


def test_curves_that_are_no_trainings_have_their_own_axes(unfolded):
    browser = unfolded
    spec = browser.evaluate("JSON.parse(document.querySelector('#fig1-charts script').textContent)")
    (horizons,) = spec["grids"]
    panel = "#fig1-charts .panel"
    drawn = every(browser, f"{panel}:first-child path", "e.getAttribute('d')")
    assert not any("NaN" in d for d in drawn)
    points = [tuple(map(float, point.split(","))) for point in drawn[0].removeprefix("M").split("L")]
    distances = {round(right[0] - left[0], 0) for left, right in pairwise(points)}
    assert len(points) == len(horizons)
    assert len(distances) == 1  # powers of two on a logarithmic axis
    browser.hover(f"{panel} svg")
    said = browser.evaluate(f"document.querySelector('{panel} .readout').innerText")
    horizon_read = int(re.match(r"horizon N ([\d,]+)", said)[1].replace(",", ""))
    assert horizon_read in horizons
    rows = every(browser, f"{panel} .readout tr", "[...e.cells].map(c => c.textContent)")
    assert {row[0]: row[1] for row in rows} == {
        "value iteration": str(horizon_read),
        "Greedy-Step, N/2 steps": "2",
        "Greedy-Step, N steps": "2",
    }
    assert every(browser, "#fig1 .static img", "e.checkVisibility()") == [False]


def test_one_legend_picks_methods_in_all_panels(unfolded):
    browser = unfolded

    def shown(figure="fig4"):
        return set(every(browser, f"#{figure}-charts path[data-method]", "e.dataset.method"))

    first = "#fig4-charts .legend button:nth-child(1)"
    assert shown() == {"0", "1", "2", "3"}
    browser.click(first)
    assert browser.evaluate(f"document.querySelector('{first}').getAttribute('aria-pressed')") == "false"
    assert shown() == {"1", "2", "3"}
    assert shown("horizon") >= {"0", "1"}  # another figure has its own
    browser.evaluate(f"document.querySelector('{first}').focus()")
    browser.press("Enter", "\r")
    assert shown() == {"0", "1", "2", "3"}
    browser.click("#fig4-charts .legend button:last-child")
    assert shown() == set()
    assert "nothing selected" in every(browser, "#fig4-charts .panel text", "e.textContent")
    browser.click("#fig4-charts .legend button:nth-last-child(2)")
    assert shown() == {"0", "1", "2", "3"}


def test_quantities_are_chosen_too(unfolded):
    browser = unfolded

    def visible():
        return every(browser, "#fig3-charts h3", "e.checkVisibility() ? e.textContent : ''")

    assert [words for words in visible() if words] == ["return of the last 100 episodes"]
    browser.click("#fig3-charts .choices:nth-of-type(2) button:nth-child(2)")
    assert [words for words in visible() if words] == ["return of the last 100 episodes", "mean Q"]


def test_a_button_selects_the_claims_with_its_verdict(browser):
    rows = every(browser, "#claims tr[data-claim]", "e.dataset.verdict")
    assert {*rows} >= {"confirmed", "partly"}

    def shown():
        return [one for one in every(browser, "#claims tr", "e.checkVisibility() && e.dataset.verdict") if one]

    def pressed():
        return every(browser, "button[data-show][aria-pressed=true]", "e.dataset.show")

    assert shown() == []  # folded
    assert pressed() == [""]
    browser.click("button[data-show=confirmed]")
    assert shown() == ["confirmed"] * rows.count("confirmed")
    assert pressed() == ["confirmed"]
    browser.click("button[data-show=partly]")
    assert shown() == ["partly"] * rows.count("partly")
    browser.media(media="print")
    assert all(every(browser, "#claims tr[data-claim]", "e.checkVisibility()"))
    browser.media()
    claim = browser.evaluate("document.querySelector('#claims tr[hidden]').id")
    browser.evaluate(f"location.hash = {claim!r}")
    browser.wait_for(f"document.getElementById({claim!r}).checkVisibility()")
    assert pressed() == [""]
    browser.click("button[data-show=partly]")
    browser.click("button[data-show=partly]")
    assert shown() == rows  # pressed again: all


def test_the_first_screen_is_short_and_a_link_unfolds_what_it_leads_to(browser, report):
    for width, height in ((1280, 2_000), (400, 4_000)):
        browser.resize(width, 900, mobile=width < 500)
        assert browser.evaluate("document.documentElement.scrollHeight") < height
        figure = browser.evaluate("document.querySelector('#outcome img').getBoundingClientRect().width")
        assert 300 < figure <= 500
    browser.resize(1200, 900)
    assert 1 <= len(every(browser, "#headlines tbody tr", "1")) <= 10
    assert every(browser, "details", "e.open").count(True) == 0
    browser.click("#headlines tbody a")
    target = browser.evaluate("location.hash.slice(1)")
    browser.wait_for(f"document.getElementById({target!r}).checkVisibility()")
    browser.open("about:blank")
    browser.open(f"{report.as_uri()}#fig4")
    browser.wait_for("document.querySelector('#fig4-charts .panel svg').checkVisibility()")
    assert browser.evaluate("document.querySelector('#fig4').getBoundingClientRect().top") < 300


WORDS = """(() => {
  const broken = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest("script, svg, code, pre")) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}_:./]+/gu)) {
      if (word[0].length > 20) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()"""


@pytest.mark.parametrize("width", [360, 400, 820, 1280])
def test_no_word_is_broken_into_syllables(unfolded, width):
    unfolded.resize(width, mobile=width < 500)
    assert unfolded.evaluate(WORDS) == []


def test_broken_words_are_seen(unfolded):
    unfolded.resize(400, mobile=True)
    unfolded.evaluate("document.querySelector('#headlines td').style.cssText = 'width: 2rem; overflow-wrap: anywhere'")
    assert unfolded.evaluate(WORDS) != []


def test_every_panel_says_which_run_it_shows(unfolded):
    said = every(unfolded, "#fig3-charts .panel .run", "e.textContent")
    assert "20k steps, 5 seeds, preset paper" in said
    for name in ("fig1", "fig3", "fig4"):
        run = unfolded.evaluate(f"document.querySelector('#{name} p.run').textContent")
        assert re.match(r"Scale quick, \d{4}-\d\d-\d\d, greedystep [\d.]+", run)


def test_tables_are_sorted_by_a_click_on_a_heading(unfolded):
    browser = unfolded
    table = "#fig4 .wide table"
    headings = every(browser, f"{table} th", "e.textContent")
    column = headings.index("mean return") + 1
    texts = f"{table} tbody td:nth-child({column})"
    before = every(browser, texts, "e.textContent")
    assert len(set(before)) > 2
    browser.click(f"{table} th:nth-child({column})")
    assert every(browser, texts, "e.textContent") == sorted(before, key=float)
    browser.evaluate(f"document.querySelector('{table} th:nth-child({column})').focus()")
    browser.press("Enter", "\r")
    assert every(browser, texts, "e.textContent") == sorted(before, key=float, reverse=True)
    browser.evaluate(f"document.querySelectorAll('{texts}')[0].textContent = '–'")
    for _ in range(2):
        browser.click(f"{table} th:nth-child({column})")
        assert every(browser, texts, "e.textContent")[-1] == "–"  # a gap is last in both directions


def test_the_button_turns_light_into_dark_and_back(browser):
    def colours():
        stroke = computed(browser, "#fig3-charts path[data-method='4']:not(.band)", "stroke")
        return computed(browser, "body", "backgroundColor"), computed(browser, "body", "color"), stroke

    light = colours()
    assert light[0] == "rgb(255, 255, 255)"
    browser.click("#theme")
    dark = colours()
    assert dark[0] == "rgb(13, 17, 23)"
    assert dark[1] != light[1]
    assert "invert" in computed(browser, "img", "filter")
    browser.click("#theme")
    assert colours() == light
    browser.media("dark")  # the button outlasts the system's wish
    assert colours() == light
    browser.click("#theme")
    assert colours() == dark


def test_the_system_s_wish_is_followed(browser):
    browser.media("dark")
    assert computed(browser, "body", "backgroundColor") == "rgb(13, 17, 23)"
    browser.wait_for("document.querySelector('#theme').textContent === 'Light page'")
    swatches = set(every(browser, "#horizon-charts .legend line", "getComputedStyle(e).stroke"))
    assert "rgb(255, 255, 255)" in swatches  # the black one
    assert "rgb(0, 0, 0)" not in swatches


@pytest.mark.parametrize("width", [320, 375, 390, 768, 1200])
def test_the_page_never_scrolls_sideways(browser, width):
    browser.resize(width, mobile=True)
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    boxes = every(browser, ".wide", "e.scrollWidth > e.clientWidth")
    assert any(boxes) or width > 768  # what is wide scrolls in its own box
    assert max(every(browser, ".panel", "e.getBoundingClientRect().right")) <= width
    browser.hover("#fig4-charts .panel svg")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_is_white_and_whole(browser, tmp_path):
    browser.media("dark", "print")
    browser.evaluate(UNFOLD)
    assert computed(browser, "body", "backgroundColor") in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)")
    assert computed(browser, "body", "color") == "rgb(0, 0, 0)"
    for control in ("nav", "#theme", ".choices", ".charts"):
        assert not any(every(browser, control, "e.checkVisibility()"))
    assert all(every(browser, "img, tr[data-claim]", "e.checkVisibility()"))
    assert set(every(browser, "figure:has(img), #claims tr, .wide tr", "getComputedStyle(e).breakInside")) == {"avoid"}
    address = "getComputedStyle(document.querySelector('a[href^=http]'), '::after').content"
    assert "arxiv.org" in browser.evaluate(address) or "attr(href)" in browser.evaluate(address)
    browser.evaluate(
        "addEventListener('beforeprint', () => { opened = document.querySelectorAll('details:not([open])').length; })"
    )
    browser.evaluate(UNFOLD.replace("true", "false"))
    browser.media()
    printed = browser.pdf()
    assert printed.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) >= 5
    assert browser.evaluate("closed") == 0  # all that is folded was unfolded,
    assert browser.evaluate("document.querySelectorAll('details[open]').length") == 0  # and folded again


def test_without_scripts_everything_can_be_read(browser, report):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report.as_uri())
        assert all(every(browser, "img, dd, tr[data-claim], .wide td", "e.checkVisibility()"))
        assert not any(every(browser, ".control, .charts", "e.checkVisibility()"))
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_what_is_missing_is_said(browser):
    missing = browser.evaluate("document.querySelector('#missing').textContent")
    assert "Table 1: greedystep reproduce table1" in missing
    assert "Catcher: 20,000 of 3,500,000 steps" in missing


def test_training_runs_have_such_curves_too(tmp_path, opened):
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b", returns="lambda", lambda_=0.7, ensemble=1)]
    page = run_report.write(run_report.group(map(run_report.read, folders)), tmp_path / "out")
    opened.events.clear()
    opened.open(page.as_uri())
    lines = every(opened, "#runs-charts .panel", "e.querySelectorAll('path[data-method]:not(.band)').length")
    assert lines == [2, 2, 2, 1]
    opened.hover("#runs-charts .panel svg")
    said = opened.evaluate("document.querySelector('#runs-charts .readout').innerText")
    assert re.match(r"environment steps 3,000\s+greedy-step, ensemble 6\s+3\.500\s+2\.500 to 4\.500\s+lambda, ", said)
    assert opened.complaints() == []


def test_the_browser_tests_can_fail(tmp_path, opened):
    """A page with an error, a broken picture and a missing file is seen as such."""
    html = tmp_path / "broken.html"
    html.write_text('<img src="data:image/svg+xml;base64,AAAA"><img src="missing.png"><script>oops()</script>')
    opened.open(html.as_uri())
    decoded = "Promise.all([...document.images].map(i => i.decode())).then(() => 'all', () => 'not all')"
    assert opened.evaluate(decoded) == "not all"
    assert {event["method"] for event in opened.complaints()} >= {"Runtime.exceptionThrown", "Network.loadingFailed"}

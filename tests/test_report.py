"""Reports: claims, tables, figures, folders with and without gaps, the page. In a browser: test_report_browser.py."""

import ast
import io
import re
import sys
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from kept_results import KEPT, needs_kept_results

from greedystep import experiments, figures, tables
from greedystep.cli import main
from greedystep.experiments import errata, outcome
from greedystep.experiments.claims import VERDICTS, WITH_REASON, Claim, check
from greedystep.experiments.sentences import BEYOND_THE_PAPER, SENTENCES
from greedystep.experiments.table1 import theorems
from greedystep.io import write_json
from greedystep.provenance import provenance
from greedystep.report import elements, page, results, verdicts
from greedystep.report.front import PAPER
from greedystep.report.terminal import VERDICT_STYLES
from greedystep.tables import Table

NASTY = 'a <b>"bold"</b> & $summary | γ ≤ 1_000 % \\ {x}'

CLAIMS = [
    Claim("two-iterations", "Greedy-Step needs two iterations", "Figure 1", 2, 2.0, "confirmed"),
    Claim("rate", "It contracts with γ²", "Theorem 3", "γ²", 0.9801, "partly"),
    Claim("nasty", NASTY, NASTY, NASTY, float("inf"), "refuted"),
    Claim("later", "It learns to play", "Section 6", None, None, "untested"),
    Claim("level", "It is level with DQN", "Section 6", 1, "0.9 to 1.1", "undecided", "too few seeds (rate; fig1)"),
]
CLAIM_IDS = {one for sentence in SENTENCES for one in sentence.evidence if isinstance(one, str)} | {*BEYOND_THE_PAPER}
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
    with pytest.raises(
        ValueError, match="verdict: expected one of confirmed, partly, undecided, refuted, untested, got 'true'"
    ):
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
    assert r"\& \$summary $|$ $\gamma$ $\leq$ 1\_000 \% \textbackslash{} \{x\}" in source
    assert source.isascii()
    assert "$<$b$>$" in source  # a bare < is an upside-down exclamation mark
    assert tables.latex(Table("t", "α ≤ σ", ["a"], [])).isascii()
    assert r"$\|$q$\|$ $\leq$ $\infty$" in tables.latex(Table("t", "‖q‖ ≤ ∞", ["a"], []))
    rows = [line for line in source.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [2, 2, 2]


def test_long_text_is_broken_and_a_long_table_goes_over_pages():
    texts = Table("t", "Texts", ["a", "b", "c"], [["x" * 51, 1, "y" * 60], ["short", 2, "short"]])
    assert r"\begin{tabular}{p{0.40\linewidth}rp{0.40\linewidth}}" in tables.latex(texts)
    rows = Table("t", "Rows", ["n"], [[number] for number in range(tables.PAGE + 1)])
    source = tables.latex(rows)
    assert source.startswith("\\begin{longtable}{r}\n  \\caption{Rows}\\label{tab:t} \\\\\n")
    assert source.count(r"    n \\") == 2  # on the first page and on those that follow
    assert source.index(r"\endfirsthead") < source.index(r"\endhead") < source.index(r"    0 \\")


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
        *("fig1.png", "fig1.svg", "fig1-work.png", "fig1-work.svg", "fig1.md", "fig1.tex"),
        *("claims.md", "claims.tex", "report.html"),
    }
    claims = (tmp_path / "out" / "claims.md").read_text()
    assert "| Greedy-Step needs two iterations | Figure 1 | 2 | 2 | confirmed | Figure 1 | – |" in claims


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
    assert len(results.collect([tmp_path / "a", tmp_path / "a" / "fig1.json"]).results) == 1


# -- what is missing --------------------------------------------------------------------------------------------------


def written_page(folder):
    return results.write(results.collect([folder]), folder.parent / "out").read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, result: path.write_text("{"),
        lambda path, result: path.write_bytes(b"\xff\xfe\x00"),
        lambda path, result: write_json(path, ["foreign"]),
        lambda path, result: write_json(path, {**result, "name": "fig9"}),
        lambda path, result: write_json(path, {**result, "claims": [{"id": "x"}]}),
        lambda path, result: write_json(path, {**result, "provenance": {}}),
        lambda path, result: write_json(path, {**result, "numbers": None}),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_drawn(tmp_path, result, damage):
    write_json(tmp_path / "in" / "fig1.json", result)
    damage(tmp_path / "in" / "table1.json", result)
    found = results.collect([tmp_path / "in"])
    assert [one["name"] for one in found.results] == ["fig1"]
    assert len(found.problems) == 1
    html = written_page(tmp_path / "in")
    assert elements.text(found.problems[0]) in html
    assert "table1.json" in found.problems[0]
    assert Rows(html).claims == [(claim.id, claim.verdict) for claim in CLAIMS]
    assert html.count("<img") == 2
    (tmp_path / "in" / "fig1.json").unlink()
    with pytest.raises(ValueError, match=r"table1\.json"):  # nothing is left to draw
        results.collect([tmp_path / "in"])


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("table1", {}),
        ("table1", {"theorems": [{"operator": 1}], "properties": {"sampled Greedy-Step": {"cases": [{}]}}}),
        ("fig2", {"choice": []}),
        ("fig3", {"tasks": {"breakout": {"methods": {"dqn": {}}}}}),
        ("fig4", {"tasks": {"breakout": 3}, "missing": None}),
        ("fig5", {"tasks": []}),
        ("horizon", {"tasks": {"breakout": {"title": "Breakout", "methods": {"new": {"curves": {}}}}}}),
    ],
)
def test_numbers_of_another_make_spoil_only_their_own_section(tmp_path, result, name, numbers):
    write_json(tmp_path / "in" / "fig1.json", result)
    claim = asdict(Claim("other", "Something else", "Section 1", 1, 1, "confirmed"))
    write_json(tmp_path / "in" / f"{name}.json", {**result, "name": name, "numbers": numbers, "claims": [claim]})
    html = written_page(tmp_path / "in")
    assert "no figures: its numbers do not have the structure of this version" in html
    assert "no tables: its numbers do not have the structure of this version" in html
    assert html.count("<img") == 2
    assert len(Rows(html).claims) == len(CLAIMS) + 1


def test_the_command_names_a_damaged_file_and_draws_the_rest(tmp_path, result, capsys):
    write_json(tmp_path / "in" / "fig1.json", result)
    (tmp_path / "in" / "fig2.json").write_text("{")
    assert main(["report", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert "fig2.json is not a readable JSON file" in capsys.readouterr().err
    assert "fig2.json is not a readable JSON file" in (tmp_path / "out" / "report.html").read_text()
    assert main(["report", str(tmp_path / "in" / "fig2.json"), "--out", str(tmp_path / "nowhere")]) == 2
    assert not (tmp_path / "nowhere").exists()


def test_experiments_that_were_not_run_are_listed_with_their_command(result):
    html = render(result)
    for name in experiments.NAMES:
        assert (f"<li>{experiments.heading(name)}: greedystep reproduce {name}</li>" in html) == (name != "fig1")
    assert f"1 of {len(experiments.NAMES)} experiments" in html


def test_missing_and_short_trainings_are_listed(result):
    one = {"label": "DQN", "steps": [50_000, 100_000]}
    short = {"full_steps": 5_000_000, "methods": {"dqn": one}}
    whole = {"title": "Pong", "full_steps": 100_000, "methods": {"dqn": one, "sarsa": one}}
    partly = {**short, "methods": {"dqn": one, "sarsa": {"label": "SARSA", "steps": [4_990_000]}}, "title": "Asterix"}
    tasks = {"a": {**short, "title": "Breakout"}, "b": {**short, "title": "Seaquest"}, "c": whole, "d": partly}
    made = {**result, "settings": {"scale": "paper"}}
    made["numbers"] = {"tasks": tasks, "missing": ["Freeway, DQN: not trained"], "problems": ["parts/x is damaged"]}
    found = page.gaps([made])
    assert found["Figure 1"] == [
        "parts/x is damaged",
        "Freeway, DQN: not trained",
        "Breakout, Seaquest: 100,000 of 5,000,000 steps",
        "Asterix: 100,000 of 5,000,000 steps of DQN",
    ]
    assert set(found) == {"Not run", "Figure 1"}
    assert page.gaps([result])["Smaller than in the paper"] == ["Figure 1: scale quick; in full: --scale paper"]


# -- the outcome in words ---------------------------------------------------------------------------------------------


def claims_of(verdict, measured="x"):
    ids = {id for one in (*outcome.HEADLINES, *outcome.PARAGRAPH) for id in one.claims}
    reason = "because" if verdict in WITH_REASON else ""
    return {id: asdict(Claim(id, "c", "w", 1, measured, verdict, reason, f"<{id}>")) for id in ids}


def test_the_first_screen_has_one_paragraph_and_at_most_ten_rows():
    assert len(outcome.HEADLINES) <= 10
    assert len({one.id for one in outcome.HEADLINES}) == len(outcome.HEADLINES)
    typed = [one.says for one in outcome.HEADLINES] + [one.measured for one in outcome.HEADLINES]
    typed += [sentence for one in outcome.PARAGRAPH for sentence in one.says.values()]
    # What the paper says, and notation.
    allowed = r"Q\*|\{[\w:-]+\}|95 %|N = 1|ε = 0(\.1)?|where 1 is|about 20 episodes|64 environments"
    assert [text for text in typed if re.search(r"\d", re.sub(allowed, "", text))] == []  # numbers are measured
    for text in typed:
        for id in re.findall(r"\{([\w-]+)(?::means)?\}", text):
            assert id in CLAIM_IDS, id
    assert {id for one in (*outcome.HEADLINES, *outcome.PARAGRAPH) for id in one.claims} <= CLAIM_IDS


def test_the_words_follow_the_verdicts():
    said = {verdict: outcome.paragraph([{"claims": claims_of(verdict).values()}]) for verdict in VERDICTS}
    games = "with the paper's own protocol Greedy-Step DQN gets <protocol-twice> times as much on Breakout, Seaquest"
    assert f"is not reproduced: {games}" in said["refuted"]
    assert f"is reproduced: {games}" in said["confirmed"]
    assert f"is undecided: {games}" in said["undecided"]
    assert said["untested"] == ""
    claims = claims_of("confirmed")
    claims["fig3-twice-seaquest"] |= {"verdict": "refuted", "reason": "no"}
    row = outcome.rows([{"claims": claims.values()}])[0]
    assert (row.verdict, row.explained) == ("partly", ("fig3-twice-seaquest",))
    del claims["fig3-twice-breakout"]
    row = outcome.rows([{"claims": claims.values()}])[0]
    assert row.verdict == "untested"
    assert "Breakout (not run: fig3), Seaquest <fig3-twice-seaquest>" in row.measured
    assert row.measured.startswith("<protocol-twice> times with the paper's own protocol")
    assert outcome.rows([{"claims": []}]) == []
    claims["fig3-equal-time"]["brief"] = ""
    assert any(one.measured.startswith("x; ") for one in outcome.rows([{"claims": claims.values()}]))


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("", "Breakout 0.60 (0.56 to 0.63), Space Invaders -1.2 (-2 to 0)"),
        (":means", "0.60 and -1.2"),
    ],
)
def test_numbers_are_shown_with_and_without_intervals_and_names(form, said):
    claims = {"fig3-twice": {"brief": "Breakout 0.60 (0.56 to 0.63), Space Invaders -1.2 (-2 to 0)"}}
    assert outcome.fill(f"gets {{fig3-twice{form}}} times", claims) == f"gets {said} times"


@needs_kept_results
def test_the_kept_outcome_is_what_the_kept_results_say():
    found = results.collect([KEPT])
    written = (KEPT / "outcome.md").read_text()
    assert written.startswith(outcome.paragraph(found.results) + "\n")
    rows = outcome.rows(found.results)
    assert len(rows) == len(outcome.HEADLINES)
    assert all(f"| {row.says} | {row.measured} | {row.verdict} |\n" in written for row in rows)
    assert not any("not run" in row.measured for row in rows)
    html = (KEPT / "report.html").read_text()
    assert dict(re.findall(r'data-claim="([^"]+)" data-verdict="(\w+)"', html)) == {
        claim["id"]: claim["verdict"] for result in found.results for claim in result["claims"]
    }


@pytest.mark.parametrize(
    ("full", "quick", "expected"),
    [
        ("confirmed", "confirmed", "consistent"),
        ("confirmed", "refuted", "not consistent"),
        ("refuted", "confirmed", "not consistent"),
        ("refuted", "partly", "consistent"),
        ("undecided", "refuted", "consistent"),
        ("confirmed", "untested", "not checked"),
        ("untested", "confirmed", "not checked"),
    ],
)
def test_a_quick_verdict_checks_the_full_one(full, quick, expected):
    assert check(full, quick) == expected


def test_quick_results_check_full_ones_and_never_replace_them(result):
    full = {**result, "settings": {"scale": "paper"}}
    other = {**full, "name": "fig2"}
    quick = results.Found([result], ["a file is damaged"])
    both = results.beside(quick, results.Found([full, other], []), ())
    assert both == ([full], ["a file is damaged"], {"fig1"}, {"fig1": result})
    assert results.beside(quick, results.Found([full, other], []), ["fig2"]).results == [full, other]
    assert results.beside(quick, results.Found([other], []), ()) == (*quick[:2], set(), {})
    again = results.Found([full], [])
    assert results.beside(again, results.Found([full, other], []), ()).kept == set()


# -- the paper sentence by sentence -----------------------------------------------------------------------------------


def test_every_sentence_has_a_row_that_leads_to_its_evidence(result):
    one = next(check for sentence in SENTENCES for check in sentence.evidence if isinstance(check, str))
    claim = Claim(one, "Something", "Abstract", 1, 1, "confirmed")
    html = verdicts.sentences([{**result, "claims": [asdict(claim)]}])
    found = re.findall(r'<tr id="sentence-([^"]+)" data-verdict="(\w+)">', html)
    assert [id for id, _ in found] == [sentence.id for sentence in SENTENCES]
    assert set(re.findall(r'href="#claim-([^"]+)"', html)) == {one}  # the other claims are not on the page
    assert "not run: greedystep reproduce fig3" in html
    assert html.count("data-claim") == 0


# -- errata -----------------------------------------------------------------------------------------------------------


def test_every_erratum_is_shown_by_a_test_and_counted_by_a_statement_that_exist():
    source = (Path(__file__).parents[1] / errata.TESTS).read_text()
    tests = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    for erratum in errata.ERRATA:
        assert erratum.test in tests
        for operator, statement in erratum.counted:
            assert statement in theorems.STATEMENTS[operator]


def test_errata_show_how_often_random_models_violate_a_statement(result):
    counted = next(one for one in errata.ERRATA if len(one.counted) == 1)
    (operator, statement), kinds = counted.counted[0], {"deterministic": 0, "stochastic": 7}
    row = {"operator": operator, "statement": statement, "trials": 100, "violations": kinds}
    table1 = {**result, "name": "table1", "numbers": {"theorems": [row]}}
    assert "0 of 100 random deterministic models and 7 of 100 stochastic ones" in errata.violations(counted, [table1])
    assert errata.violations(counted, [result]) == ""


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
    """The attributes of the rows of the claims table, and every address that the page loads or links to."""

    def __init__(self, html):
        super().__init__()
        self.claims, self.loaded, self.links, self.inside = [], [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.inside |= tag == "table" and attributes.get("id") == "claims"
        if self.inside and "data-claim" in attributes:
            self.claims.append((attributes["data-claim"], attributes["data-verdict"]))
        if tag == "a":
            self.links.append(attributes["href"])
        else:
            self.loaded += [attributes[key] for key in ("src", "href") if key in attributes]

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
    assert html.index('id="outcome"') < html.index('id="claims"') < html.index('id="fig1"')
    assert "5 claims of the paper: 1 confirmed, 1 partly, 1 undecided, 1 refuted, 1 untested." in html
    assert set(verdicts.MARKS) == set(VERDICTS) == set(VERDICT_STYLES)


def test_a_claim_tells_where_it_stands_why_it_failed_and_where_the_evidence_is(result):
    result["claims"][1]["reason"] = "the <proof> has a gap"
    html = render(result)
    row = re.search(r'<tr id="claim-rate".*?</tr>', html)
    assert row is not None
    assert 'data-label="Where">Theorem 3<' in row[0]
    assert "Why: the &lt;proof&gt; has a gap" in row[0]
    assert '<a href="#fig1">Figure 1</a>' in row[0]
    assert 'Why: too few seeds (<a href="#claim-rate">rate</a>; <a href="#fig1">Figure 1</a>)' in html


def test_names_of_tests_break_between_their_words_alone(result):
    result["claims"][1]["reason"] = "no such thing as q_max (tests/test_a.py::test_b_c)"
    html = render(result)
    assert "such thing as q_max (tests/test_<wbr>a.py::<wbr>test_<wbr>b_<wbr>c)" in html


def test_the_page_says_where_settings_were_trained(result):
    result["numbers"] |= {"maps": {"pong": {"devices": ["a GPU"]}}}
    result["provenance"]["device"] = "a CPU"
    making = render(result).partition('id="making"')[2]
    assert "<td>a GPU</td>" in making
    assert "<td>a CPU</td>" not in making


def test_the_page_needs_nothing_outside_itself_and_is_escaped(result):
    html = render(result)
    found = Rows(html)
    assert all(address.startswith("data:") for address in found.loaded)
    inner = {link[1:] for link in found.links if link.startswith("#")}
    assert inner <= set(re.findall(r' id="([^"]+)"', html))
    assert {link for link in found.links if not link.startswith("#")} == {PAPER}
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html).replace("http-equiv", "").replace(PAPER, "")
    assert "<b>" not in html
    assert "&lt;b&gt;&quot;bold&quot;&lt;/b&gt; &amp; $summary" in html


def test_no_two_parts_have_one_id_or_one_name():
    assert not set(experiments.NAMES) & set(page.OWN_SECTIONS)
    names = [*map(experiments.heading, experiments.NAMES), *page.OWN_SECTIONS.values()]
    assert len(set(names)) == len(names)


def test_every_part_but_the_first_screen_is_folded(result):
    html = render(result)
    parts = set(re.findall(r'<details open class="part" id="([^"]+)">', html))
    assert parts == {*page.OWN_SECTIONS, "fig1"}
    assert html.count("<section") == 1


def test_a_long_table_or_list_is_folded_and_a_short_one_is_not():
    rows = [[number] for number in range(elements.LONG + 1)]
    assert "<details open><summary>Many (25 rows)</summary>" in elements.table(Table("t", "Many", ["n"], rows))
    assert "<details" not in elements.table(Table("t", "Few", ["n"], rows[1:]))
    assert "<summary>25 entries</summary>" in elements.bullets(["a"] * 25)
    assert elements.bullets(["a", "<b>"]) == "<ul><li>a</li><li>&lt;b&gt;</li></ul>"


def test_settings_within_settings_are_lists_within_lists():
    assert elements.pairs({"a": {"b": 1}}) == "<dl><dt>a</dt><dd>b: 1</dd></dl>"
    nested = elements.pairs({"tasks": {"pong": {"steps": 5}}})
    assert nested == "<dl><dt>tasks</dt><dd><dl><dt>pong</dt><dd>steps: 5</dd></dl></dd></dl>"


def test_pictures_lose_decimals_and_nothing_else():
    line = b'<path d="M 10.123456 20.987654 \nL 1.5 -2.25 \nL 3.14159 4 \nz" style="stroke-width: 1.80005"/>'
    assert elements.shorten_svg(line) == b'<path d="M 10.1 20.9 1.5 -2.2 3.1 4 z" style="stroke-width: 1.80005"/>'
    letter = b'<path d="M 10.123456 20.987654 \nQ 1.5 2.25 3.14159 4 \nL 1 2"/>'
    assert elements.shorten_svg(letter) == letter

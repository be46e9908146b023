"""The first screen of the page: the outcome in one paragraph, one figure and at most ten rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from greedystep import experiments
from greedystep.experiments import outcome
from greedystep.experiments.claims import check
from greedystep.experiments.sentences import BEYOND_THE_PAPER
from greedystep.report import elements, verdicts
from greedystep.report.elements import text

PAPER = "https://arxiv.org/abs/2102.11717"


def front(results: verdicts.Results, picture: bytes | None, checks: verdicts.Checks, note: str) -> str:
    """Return the first screen; `picture` is the SVG file of its figure, `note` a sentence on what is on the page."""
    message = outcome.paragraph(results)
    rows = outcome.rows(results)
    known = {claim["id"] for _, claim in verdicts.all_claims(results)}
    said = [
        f'<p class="message">{text(message)}</p>' if message else "",
        _about(results, note),
        _checked(results, checks),
    ]
    parts = ['<section id="outcome">', '<div class="first">', f"<div>{''.join(said)}</div>"]
    if picture is not None:
        parts.append(elements.picture(outcome.FIGURE, picture, outcome.CAPTION, outcome.CAPTION))
    parts.append("</div>")
    if rows:
        cards = [(f'data-headline="{escape(row.id)}" data-verdict="{row.verdict}"', _cells(row, known)) for row in rows]
        parts.append(verdicts.table("headlines", ("says", "measured", "verdict"), cards))
    return "\n".join([*parts, "</section>"])


def _cells(row: outcome.Row, known: set[str]) -> dict[str, str]:
    first = next(id for id in row.explained or row.claims if id in known)
    link = f'<small><a href="#claim-{escape(first)}">{"why" if row.explained else "more"}</a></small>'
    return {
        "says": text(row.says),
        "measured": text(row.measured),
        "verdict": f"{verdicts.badge(row.verdict)}{link}",
    }


def _about(results: verdicts.Results, note: str) -> str:
    own = [claim for _, claim in verdicts.all_claims(results) if claim["id"] in BEYOND_THE_PAPER]
    papers = [claim for _, claim in verdicts.all_claims(results) if claim["id"] not in BEYOND_THE_PAPER]
    total = verdicts.count_verdicts((claim["verdict"] for claim in papers), "claims of the paper")
    ours = f" {verdicts.count_verdicts((claim['verdict'] for claim in own), 'of our own')}" if own else ""
    return (
        f'<p class="about">Wang, Wu, He and Tan, <cite>Greedy-Step Off-Policy Reinforcement Learning</cite>, <a href='
        f'"{PAPER}">arXiv 2102.11717</a> (2021). <strong>{text(total)}</strong>{text(ours)} Each verdict follows '
        f'from a rule, shown below each <a href="#all-claims">claim</a>. {text(note)}; <a href="#missing">what is '
        "missing or shorter than requested</a>.</p>"
    )


def _checked(results: verdicts.Results, checks: verdicts.Checks) -> str:
    """Return a sentence on what a quick run says of the verdicts of the full run; empty without one."""
    found = {
        claim["id"]: check(claim["verdict"], checks[claim["id"]]["verdict"])
        for _, claim in verdicts.all_claims(results)
        if claim["id"] in checks
    }
    if not found:
        return ""
    tally = Counter(found.values())
    odd = [f'<a href="#claim-{escape(id)}">{text(id)}</a>' for id, one in found.items() if one == "not consistent"]
    which = f" ({', '.join(odd)})" if odd else ""
    return (
        '<p class="about" id="checked">Verdicts are those of the full run. The quick run on this machine is consistent '
        f"with {tally['consistent']} of them, not consistent with {len(odd)}{which}, and too small to check "
        f"{tally['not checked']}.</p>"
    )


def which_run(result: Mapping[str, Any]) -> str:
    """Return which run a result is of: scale, date, version, commit."""
    made = result["provenance"]
    versions = made.get("versions")
    version = versions.get("greedystep") if isinstance(versions, dict) else None
    commit, *local_changes = str(made.get("commit") or "").partition("-")
    about = [
        f"Scale {result['settings'].get('scale')}",
        str(made.get("date") or "")[:10],
        f"greedystep {version}" if version else "",
        f"commit {''.join([commit[:10], *local_changes])}" if commit else "",
    ]
    return ", ".join(part for part in about if part)


def note(results: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> str:
    """Return how many experiments are on the page, at which scale."""
    scales = ", ".join(sorted({str(result["settings"].get("scale")) for result in results}))
    unread = f", {len(problems)} could not be read" if problems else ""
    return f"{len(results)} of {len(experiments.NAMES)} experiments are on this page (scale: {scales}){unread}"

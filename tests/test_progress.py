"""Progress of long work: the time left is told once it is known, and the share is that of what costs time."""

from io import StringIO

import pytest
from rich.console import Console

from greedystep.runs import progress


def lines(monkeypatch, *told):
    """What a log says of (second, share) pairs."""
    now = iter([0.0, *(second for second, _ in told), told[-1][0]])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    log = StringIO()
    with progress.progress_line(Console(file=log), "fig3") as report:
        for _, share in told:
            report(share, "work")
    return log.getvalue().splitlines()[1:-1]


def test_the_time_left_is_not_guessed_from_the_first_moments(monkeypatch):
    assert lines(monkeypatch, (29, 0.0001), (31, 0.0002), (62, 0.011)) == [
        "fig3: 0%; work",
        "fig3: 1%, about 50 min left; work",
    ]


def test_two_percent_are_enough_to_know(monkeypatch):
    assert lines(monkeypatch, (28, 0.02), (31, 0.05)) == ["fig3: 5%, about 2 min left; work"]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_no_time_is_told_while_nothing_goes_on(monkeypatch, share):
    assert lines(monkeypatch, (1, share), (40, share)) == [f"fig3: {share:.0%}; work"]


def test_work_is_named_on_a_terminal_and_nowhere_else(monkeypatch, capfd):
    with progress.working("evaluating") as tell:
        tell("on")
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with progress.working("evaluating"):
        pass
    out, err = capfd.readouterr()
    assert out == ""
    assert "evaluating ..." in err


def test_the_share_is_that_of_the_work_that_is_left():
    told = []
    work = progress.WorkProgress(lambda share, what: told.append((share, what)), 100)
    work.leave_out(60)
    work.advance(0, "begin")
    work.advance(10, "first")
    work.advance(50, "more than was thought")
    assert told == [(0.0, "begin"), (0.25, "first"), (1.0, "more than was thought")]
    progress.WorkProgress(lambda share, what: told.append((share, what)), 0).advance(0, "nothing to do")
    assert told[-1] == (1.0, "nothing to do")

"""Ctrl-C and SIGTERM: never lost, never noisy, from the first moment of a command."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.machinery import ExtensionFileLoader

import pytest
from deep_runs import words

from greedystep import signals

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORD = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def test_an_interruption_waits_for_the_end_of_the_block():
    done = []

    def work():
        with signals.deferred():
            interrupt()
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    thread = threading.Thread(target=lambda: signals.deferred().__enter__())
    thread.start()
    thread.join()


def test_a_signal_is_answered_while_its_work_goes_on(monkeypatch):
    monkeypatch.setattr(signals, "ANSWER_AFTER", 0.2)
    answers = []

    def work(seconds):
        with signals.answered(lambda: answers.append("stopping")), signals.deferred():
            interrupt()
            time.sleep(seconds)

    for seconds, expected in ((0.6, ["stopping"]), (0.0, ["stopping"])):
        with pytest.raises(KeyboardInterrupt):
            work(seconds)
        assert answers == expected
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, signals.TerminatedError)]
)
def test_a_signal_is_an_exception_and_waits_where_it_has_to(number, error):
    done = []

    def work():
        with signals.handling(), signals.deferred(), signals.deferred():
            interrupt(number)
            done.append(True)

    with pytest.raises(error):
        work()
    assert done


def test_an_interrupt_that_was_lost_is_raised_before_the_next_item():
    def losing():
        yield 1
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()
        yield 2

    seen = []

    def watch():
        with signals.handling():
            seen.extend(signals.interruptible(losing()))

    with pytest.raises(KeyboardInterrupt):
        watch()
    with signals.handling():
        assert list(signals.interruptible([1, 2])) == [1, 2]


@pytest.mark.parametrize("where", ["finalizer", "callback of the garbage collector"])
def test_an_interrupt_that_python_drops_is_raised_again_and_not_printed(where, capfd):
    class Thing:
        def __del__(self):
            interrupt()

    def callback(phase, info):
        if phase == "start":
            interrupt()

    def work():
        if where == "finalizer":
            Thing()
        else:
            gc.callbacks.append(callback)
            try:
                gc.collect()
            finally:
                gc.callbacks.remove(callback)
        time.sleep(20)
        pytest.fail("the interrupt was lost")

    with pytest.raises(KeyboardInterrupt), signals.handling():
        work()
    assert capfd.readouterr().err == ""


def test_the_import_of_an_extension_is_not_interrupted():
    done = []

    class Loader(ExtensionFileLoader):
        def create_module(self, spec):
            interrupt()
            time.sleep(0.1)
            done.append(True)

    def work():
        Loader("name", "name.so").create_module(None)
        time.sleep(20)
        pytest.fail("the interrupt was lost")

    with pytest.raises(KeyboardInterrupt), signals.handling():
        work()
    assert done


def test_what_an_interrupt_was_turned_into_is_the_interrupt():
    def extension():
        try:
            interrupt()
        except KeyboardInterrupt as problem:
            raise SystemError("returned a result with an exception set") from problem

    with pytest.raises(KeyboardInterrupt), signals.handling():
        extension()
    with pytest.raises(SystemError), signals.handling():
        raise SystemError("of its own")


# -- whole commands ---------------------------------------------------------------------------------------------------

START = "import os, greedystep.cli; os.write(1, b'begun\\n'); greedystep.cli.program()"


def stop_after(seconds, number, arguments, folder):
    """Start a command in a folder of its own, send it a signal so long after its first line; status and stderr."""
    folder.mkdir()
    command = [sys.executable, "-c", START, *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "begun\n"
        time.sleep(seconds)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, said


def check_stopped_train(seconds, number, folder):
    status, said = stop_after(seconds, number, words(10**9, "run"), folder)
    assert status == STATUS[number], said
    assert said.endswith(f"greedystep: {WORD[number]}\n")
    assert "Traceback" not in said
    assert "ignored" not in said
    left = {path.name for path in folder.glob("run/*")}
    assert left in (set(), {"config.json", "checkpoints", "metrics.jsonl"})
    assert left or not (folder / "run").exists()
    assert ("go on with" in said) == bool(left)


@pytest.mark.parametrize(("seconds", "number"), [(0.05, signal.SIGINT), (0.4, signal.SIGTERM), (1.5, signal.SIGINT)])
def test_train_can_be_stopped_while_it_starts(seconds, number, tmp_path):
    check_stopped_train(seconds, number, tmp_path / "here")


@pytest.mark.long
@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("tenths", range(60))
def test_train_can_be_stopped_at_every_moment_of_its_start(tenths, number, tmp_path):
    check_stopped_train(0.02 + tenths / 10, number, tmp_path / "here")


LASTING = {
    "plan": ["plan", "garnet-100000x8x20", "--method", "value-iteration", "--discount", "0.999999"],
    "train": ["train", "toy/grid-world", "--episodes", "1e9", "--out", "run"],
    "watch": ["watch", "minatar/breakout", "--steps", "1e9", "--out", "a.gif"],
    "reproduce": ["reproduce", "fig2", "--out", "results", "--scale", "paper"],
}


def check_stopped(name, seconds, number, folder):
    status, said = stop_after(seconds, number, LASTING[name], folder)
    assert status == STATUS[number], said
    assert f"greedystep: {WORD[number]}\n" in said
    assert "Traceback" not in said
    assert "ignored" not in said
    assert not [path for path in folder.rglob("*") if path.suffix in (".part", ".lock") or path.name == ".lock"]


@pytest.mark.parametrize("name", ["plan", "watch"])
def test_commands_can_be_stopped_while_they_start(name, tmp_path):
    check_stopped(name, 0.3, signal.SIGTERM, tmp_path / "here")


@pytest.mark.long
@pytest.mark.parametrize("name", LASTING)
@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("fifths", range(12))
def test_commands_can_be_stopped_at_every_moment(name, number, fifths, tmp_path):
    check_stopped(name, 0.05 + fifths / 5, number, tmp_path / "here")

"""Chromium without a window, told what to do over its debugging pipe."""

import base64
import fcntl
import json
import os
import shutil
import subprocess

import pytest

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
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Until it is true; what the page is told by an event arrives when it arrives."""
        look = f"const look = () => ({expression} ? done(true) : --left ? setTimeout(look, 20) : done(false));"
        assert self.evaluate(f"new Promise(done => {{ let left = 250; {look} look(); }})"), f"never true: {expression}"

    def resize(self, width, height=800, mobile=False):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def media(self, scheme="light", media=""):
        """The colours that the reader's system asks for; `media` is "print" for paper."""
        wish = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=wish)

    def place(self, selector):
        """The middle of an element, which is scrolled into view."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        return self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({found}.getBoundingClientRect())")

    def hover(self, selector):
        x, y = self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, selector):
        """Click a link, and wait until the page behind it is there: what is evaluated on the way would be lost."""
        before = len(self.events)
        self.click(selector)
        if not any(message.get("method") == "Page.loadEventFired" for message in self.events[before:]):
            self.until(lambda message: message.get("method") == "Page.loadEventFired")

    def press(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "")

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def complaints(self):
        """Console messages, exceptions, and requests that left the page."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [event for event in self.events if event.get("method") in kinds]

    def requests(self):
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [params["request"]["url"] for params in sent]

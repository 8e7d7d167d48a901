"""A real browser for tests of pages: Chromium over a pipe, by the DevTools protocol."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--no-first-run", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
ON_3_AND_4 = """import os, sys
read, write = (os.dup(os.dup(os.dup(int(n)))) for n in sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])"""  # a browser reads 3 and writes 4; ours have other numbers
PATIENCE = 60  # s that one answer may take, or the test fails


class Browser:
    """One page in Chromium: told by messages that end in a zero byte, on file numbers 3 and 4."""

    def __init__(self, profile, width=1300, height=900):
        self.numbers = itertools.count(1)
        self.complaints = []
        self.buffer = b""
        read, self.out = os.pipe()
        self.into, write = os.pipe()
        command = [
            sys.executable, "-c", ON_3_AND_4, str(read), str(write), CHROMIUM, *SWITCHES,
            f"--window-size={width},{height}", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, pass_fds=(read, write), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        os.close(read)
        os.close(write)
        self.session = None
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.ask("Page.enable")
        self.ask("Runtime.enable")
        self.ask("Log.enable")

    def ask(self, method, **parameters):
        """The answer to one command."""
        number = next(self.numbers)
        told = {"id": number, "method": method, "params": parameters}
        if self.session:
            told["sessionId"] = self.session
        os.write(self.out, json.dumps(told).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(answer["params"]))

    def _message(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], PATIENCE)
            assert ready, f"the browser said nothing for {PATIENCE} s"
            got = os.read(self.into, 1 << 20)
            assert got, "the browser is gone"
            self.buffer += got
        first, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(first)

    def run(self, script):
        """Value of an expression in the page, awaited."""
        told = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def open(self, path, alive=True):
        """Open a file or an address, and wait until its components are there."""
        self.ask("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        until = "document.documentElement.dataset.alive" if alive else "true"
        wanted = f"document.readyState === 'complete' && location.href !== 'about:blank' && {until}"
        while not self.run(wanted):  # without script nothing in the page can wait for it
            pass

    def press(self, key, shift=False):
        """One key pressed and let go."""
        of = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **of, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **of)
        self.frame()

    def type(self, text):
        """Text typed into what has the focus."""
        self.ask("Input.insertText", text=text)
        self.frame()

    def frame(self):
        """Wait for the next picture."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, path, selector=None):
        """Write a picture of the screen, or of one element."""
        clip = {}
        if selector:
            box = self.run(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(); return [b.x + scrollX, b.y + scrollY, b.width, b.height]"
                "})()"
            )
            clip = {"clip": dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1)}
        told = self.ask("Page.captureScreenshot", captureBeyondViewport=bool(selector), **clip)
        path.write_bytes(base64.b64decode(told["data"]))

    def close(self):
        """End the browser."""
        with contextlib.suppress(OSError, AssertionError):
            self.session = None
            self.ask("Browser.close")
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)

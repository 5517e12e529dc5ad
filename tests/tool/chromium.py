"""A page in headless Chromium, driven through its pipe for debugging: what it asks for, complains of and looks like."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE = 120  # seconds for an answer


class Browser:
    """One page, shown anew by open(). Events since then are in `events`, as (method, parameters)."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.out = os.pipe()
        self.into, answers = os.pipe()

        def ends():  # the browser reads from 3 and writes to 4
            reading, writing = os.dup(commands), os.dup(answers)
            os.dup2(reading, 3), os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(commands), os.close(answers)
        self.number, self.session, self.rest, self.events = 0, None, b"", []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out), os.close(self.into)
        self.profile.cleanup()

    def message(self):
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], PATIENCE)[0]:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE} s")
            piece = os.read(self.into, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.rest += piece
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        text = json.dumps(request).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            if "method" in message:
                self.events.append((message["method"], message["params"]))

    def open(self, file, width, dark=False, media="", query=""):
        """Shows a file in a window of that width and waits until it is there; query: ?… or #… behind its address."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=file.resolve().as_uri() + query)
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            message = self.message()
            if "method" in message:
                self.events.append((message["method"], message["params"]))

    def ask(self, expression):
        """What an expression of JavaScript gives."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def requests(self):
        """Addresses that were asked for, except the page's and data that it holds."""
        asked = [event["request"]["url"] for method, event in self.events if method == "Network.requestWillBeSent"]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def complaints(self):
        said = [str(event["entry"]) for method, event in self.events if method == "Log.entryAdded"]
        said += [str(event) for method, event in self.events if method == "Runtime.exceptionThrown"]
        return said + [str(event) for method, event in self.events if method == "Runtime.consoleAPICalled"]

    def picture(self):
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def printed(self):
        """The page on paper, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])

"""Chromium for the tests of the page, and the servers that they start. Exits with status 77 and a message if Chromium
or the Python package playwright is not installed. Downloads nothing."""
import contextlib
import shutil
import subprocess
import sys
import threading

BROWSER = shutil.which("chromium")
try:
    from playwright.sync_api import sync_playwright
except ImportError:
    BROWSER = None
if not BROWSER:
    print("skipped: Chromium or playwright is not installed")
    sys.exit(77)


@contextlib.contextmanager
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def serving(command, address_of):
    """Runs a server and yields its URL. `address_of` reads its address from its output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = "http://" + address_of(process.stdout)
        threading.Thread(target=process.stdout.read, daemon=True).start()  # its log must not fill the pipe
        yield url
    finally:
        process.terminate()
        process.wait()


class Watch:
    """Requests, errors and console messages of a page, which must not leave its server."""

    def __init__(self, page, url):
        self.page, self.url = page, url
        self.asked, self.problems, self.bodies = [], [], []
        page.on("request", self.take)
        page.on("pageerror", lambda problem: self.problems.append(str(problem)))

    def take(self, request):
        self.asked.append(request.url)
        if request.method == "POST":
            self.bodies.append(request.post_data_json)

    def check(self):
        elsewhere = [url for url in self.asked if not url.startswith((self.url, "blob:" + self.url))]
        assert not elsewhere, elsewhere
        assert not self.problems, self.problems


def open_page(context, url):
    """Opens the page and waits for its models."""
    page = context.new_page()
    watch = Watch(page, url)
    page.goto(url)
    page.wait_for_selector("#model option", state="attached")
    return page, watch


def send(page, text):
    page.fill("#text", text)
    page.press("#text", "Enter")


def wait_for_end(page, timeout=60000):
    page.locator("#send:visible").wait_for(timeout=timeout)


def answer(page):
    return page.locator(".turn.assistant").last

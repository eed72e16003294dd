#!/usr/bin/env python3
"""Tests the page at / in Chromium: a streamed answer, stop, an error, and no requests to other hosts.

usage: page.py SERVER MODEL_DIR [FOLDER]. Screenshots are written to FOLDER. Exits with status 77 and a message if
Chromium or the Python package playwright is not installed. Downloads nothing.
"""
import json
import pathlib
import shutil
import subprocess
import sys

browser = shutil.which("chromium")
try:
    from playwright.sync_api import Error as PlaywrightError
    from playwright.sync_api import sync_playwright
except ImportError:
    browser = None
if not browser:
    print("skipped: Chromium or playwright is not installed")
    sys.exit(77)

server, model = sys.argv[1:3]
pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None


def start():
    process = subprocess.Popen([server, "--model", f"story={model}", "--listen", "127.0.0.1:0"],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if json.loads(line)["message"] == "listening":
            return process, "http://" + json.loads(line)["address"]
    raise AssertionError("the server did not start")


def stop_an_answer(page, answer):
    """Stops the first answer that is long enough; some answers of the embedded model are short."""
    for _ in range(20):
        page.fill("#text", "Tell me of a king.")
        page.click("#send")
        try:
            answer().locator("span.text").wait_for(timeout=5000)
            page.click("#stop", timeout=500)
            answer().locator("span.error", has_text="(stopped)").wait_for(timeout=5000)
            return
        except PlaywrightError:
            page.locator("#send:enabled").wait_for(timeout=120000)
            page.click("#clear")
    raise AssertionError("no answer could be stopped")


def drive(page, url):
    asked, problems = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda problem: problems.append(problem))

    def picture(name):
        if pictures:
            page.screenshot(path=str(pictures / f"page-{name}.png"))

    def answer():
        return page.locator(".turn.assistant").last

    page.goto(url)
    page.wait_for_selector("#model option", state="attached")
    page.fill("#text", "Tell me of a king.")
    page.press("#text", "Enter")
    answer().locator("span.text").wait_for()  # the first token
    picture("first-token")
    page.locator('#send:enabled').wait_for(timeout=120000)
    assert "tokens" in page.inner_text("#figures"), page.inner_text("#figures")
    stop_an_answer(page, answer)
    picture("stop")
    page.fill("#text", "word " * 5000)
    page.click("#send")
    answer().locator("span.error", has_text="tokens").wait_for()  # the prompt is too long
    picture("error")
    page.click("#clear")
    assert page.locator(".turn").count() == 0
    assert all(address.startswith(url) for address in asked), asked
    assert not problems, problems


process, url = start()
try:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        drive(chromium.new_page(viewport={"width": 760, "height": 460}), url)
        chromium.close()
    print("page passed")
finally:
    process.terminate()
    process.communicate()

#!/usr/bin/env python3
"""Tests the page at / in Chromium with a real model: a streamed answer, stop, an error, and no requests to other hosts.
page_scripted.py tests the rest of the page.

usage: page.py SERVER MODEL_DIR [FOLDER]. Screenshots are written to FOLDER. Exits with status 77 and a message if
Chromium or the Python package playwright is not installed. Downloads nothing.
"""
import json
import pathlib
import sys

from page_browser import answer, chromium, open_page, send, serving, wait_for_end
from playwright.sync_api import Error as PlaywrightError

server, model = sys.argv[1:3]
pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None


def address_in(log):
    for line in log:
        if json.loads(line)["message"] == "listening":
            return json.loads(line)["address"]
    raise AssertionError("the server did not start")


def stop_an_answer(page):
    """Stops the first answer that is long enough; some answers of the embedded model are short."""
    for _ in range(20):
        send(page, "Tell me of a king.")
        try:
            answer(page).locator(".text > *").first.wait_for(timeout=5000)
            page.click("#stop", timeout=500)
            answer(page).locator(".error", has_text="(stopped)").wait_for(timeout=5000)
            return
        except PlaywrightError:
            wait_for_end(page, 120000)
            page.click("#new")
    raise AssertionError("no answer could be stopped")


def drive(context, url):
    def picture(name):
        if pictures:
            page.screenshot(path=str(pictures / f"page-{name}.png"))

    page, watch = open_page(context, url)
    send(page, "Tell me of a king.")
    answer(page).locator(".text > *").first.wait_for()  # the first token
    wait_for_end(page, 120000)
    assert "tokens" in answer(page).locator(".figures").inner_text()
    page.click("#new")
    stop_an_answer(page)
    picture("stop")
    send(page, "word " * 5000)
    answer(page).locator(".error", has_text="tokens").wait_for()  # the prompt is too long
    assert page.locator(".turn.user .text").last.inner_text().startswith("word word")
    page.click("#new")
    assert page.locator(".turn").count() == 0
    watch.check()


command = [server, "--model", f"story={model}", "--listen", "127.0.0.1:0"]
with chromium() as browser, serving(command, address_in) as address:
    drive(browser.new_context(viewport={"width": 900, "height": 460}), address)
print("page passed")

#!/usr/bin/env python3
"""Tests the page at / in Chromium against scripted answers (tests/bindings/go/server/fake): Markdown, hostile text,
conversations, settings, the key, stop, edit, errors, scrolling, keyboard, and a narrow screen.

usage: page_scripted.py GO [FOLDER [TEST]]. GO builds the scripted server, which needs no library. Screenshots are
written to FOLDER. Runs all tests, or those whose name contains TEST. Exits with status 77 and a message if Chromium or
the Python package playwright is not installed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from page_browser import answer, chromium, open_page, send, serving, wait_for_end

go = sys.argv[1]
pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
wanted = sys.argv[3] if len(sys.argv) > 3 else ""
MODULE = pathlib.Path(__file__).resolve().parents[2]

MARKDOWN = """say

# Reigns of kings

Both **ruled** *long*, as [the chronicle](https://example.org/kings) has it:

1. Ann
   - crowned at 12
2. Bob

| name | years |
| :--- | ---: |
| Ann | 12 |
| Bob | 3 |

```python
def years(reigns):
    return sum(reigns)
```
"""
HOSTILE = """say <img src=x onerror="window.broken=1"><script>window.broken=1</script><iframe src="https://x.org"></iframe>

<svg onload=window.broken=1> [a](javascript:window.broken=1) ![b](https://x.org/i.png) [c](data:text/html,<script>)

| <b onmouseover=window.broken=1>x</b> | y |
|---|---|
| <style>*{display:none}</style> | [d]( javascript:window.broken=1 ) |

```"><script>window.broken=1</script>
</code></pre><script>window.broken=1</script>
"""


def picture(page, name):
    if pictures:
        page.screenshot(path=str(pictures / f"page-{name}.png"))


def text_of(locator):
    return locator.evaluate("(element) => element.textContent")


def titles(page):
    return page.locator("#conversations .open").all_inner_texts()


def act(page, name, title):
    """Chooses an action of a conversation in the list."""
    page.click(f"[aria-label='Actions of {title}']")
    page.click(f"[aria-label='{name} {title}']")


def an_answer_is_shown_as_markdown(context, url):
    page, watch = open_page(context, url)
    send(page, MARKDOWN)
    wait_for_end(page)
    turn = answer(page)
    assert turn.locator("h3").inner_text() == "Reigns of kings"
    assert turn.locator("ol > li ul > li").inner_text() == "crowned at 12"
    assert turn.locator("td.right").all_inner_texts() == ["12", "3"]
    assert text_of(turn.locator("pre code")) == "def years(reigns):\n    return sum(reigns)"
    link = turn.locator("a")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://example.org/kings", "noopener noreferrer nofollow")
    assert "tokens/s" in turn.locator(".figures").inner_text()
    picture(page, "markdown")
    watch.check()


def hostile_text_stays_text(context, url):
    page, watch = open_page(context, url)
    send(page, HOSTILE)
    wait_for_end(page)
    made = page.evaluate("[...new Set([...document.querySelectorAll('.turn *')].map((e) => e.localName))]")
    assert not set(made) & {"img", "script", "iframe", "svg", "style", "object", "form"}, made
    attributes = page.evaluate("[...document.querySelectorAll('.turn *')].flatMap((e) => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "style")], attributes
    addresses = page.evaluate("[...document.querySelectorAll('.turn a')].map((a) => a.href)")
    assert set(addresses) == {"https://x.org/", "https://x.org/i.png"}, addresses
    assert '<img src=x onerror="window.broken=1">' in text_of(answer(page).locator(".text"))
    send(page, "think " + HOSTILE.replace("|", "/") + "|" + "y")
    wait_for_end(page)
    answer(page).locator("summary").click()
    page.reload()
    page.click("#conversations .open")
    answer(page).wait_for()
    assert page.evaluate("window.broken") is None
    watch.check()


def the_policy_of_the_page_is_strict(context, url):
    page, _ = open_page(context, url)
    refused = page.evaluate("""async (other) => {
      const fails = (action) => { try { action(); return false; } catch { return true; } };
      const style = document.createElement("p");
      style.setAttribute("style", "color: rgb(1, 2, 3)");
      document.body.append(style);
      const script = document.createElement("script");
      const image = new Image();
      const loaded = new Promise((done) => { image.onload = () => done(true); image.onerror = () => done(false); });
      image.src = other + "/page/icon.svg";
      return {
        html: fails(() => { document.body.innerHTML = "<b>x</b>"; }),
        evaluation: await new Promise((done) => setTimeout(() => done(fails(() => (0, eval)("1"))))),
        script: fails(() => { script.textContent = "window.broken = 1"; document.body.append(script); }),
        style: getComputedStyle(style).color !== "rgb(1, 2, 3)",
        image: !(await loaded),
        fetch: await fetch(other + "/v1/models", { mode: "no-cors" }).then(() => false, () => true),
      };
    }""", url.replace("127.0.0.1", "localhost"))
    assert all(refused.values()), refused
    headers = context.request.get(url).headers
    assert headers["x-frame-options"] == "DENY" and "frame-ancestors 'none'" in headers["content-security-policy"]


def code_and_messages_are_copied(context, url):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page, _ = open_page(context, url)
    send(page, MARKDOWN)
    wait_for_end(page)
    page.click("[aria-label='Copy the code']")
    page.locator("[aria-label='Copy the code']", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "def years(reigns):\n    return sum(reigns)"
    answer(page).locator("[aria-label='Copy the message']").click()
    page.locator("[aria-label='Copy the message']", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == MARKDOWN.strip()


def conversations_are_kept_renamed_and_deleted(context, url):
    page, watch = open_page(context, url)
    for text in ("first question", "second question"):
        page.click("#new")
        send(page, text)
        wait_for_end(page)
    page.reload()
    assert titles(page) == ["second question", "first question"]
    page.click("text=first question")
    assert text_of(answer(page).locator(".text")) == "first question"
    act(page, "Rename", "first question")
    page.fill("[aria-label=Title]", "A <b>king</b>")
    page.press("[aria-label=Title]", "Enter")
    assert titles(page) == ["second question", "A <b>king</b>"]
    act(page, "Delete", "second question")
    assert titles(page) == ["A <b>king</b>"]
    page.click("text=Undo")
    assert titles(page) == ["second question", "A <b>king</b>"]
    act(page, "Delete", "A <b>king</b>")
    page.reload()
    assert titles(page) == ["second question"]
    watch.check()


def conversations_are_exported_and_imported(context, url):
    page, watch = open_page(context, url)
    send(page, "a question")
    wait_for_end(page)
    with page.expect_download() as download:
        act(page, "Export", "a question")
    assert download.value.suggested_filename == "quire-a-question.json"
    exported = pathlib.Path(download.value.path()).read_text(encoding="utf-8")
    assert [node["role"] for node in json.loads(exported)["conversations"][0]["nodes"]] == ["user", "assistant"]
    act(page, "Delete", "a question")
    page.set_input_files("#file", {"name": "a.json", "mimeType": "application/json", "buffer": exported.encode()})
    page.click("#conversations .open")
    assert text_of(answer(page).locator(".text")) == "a question"
    page.set_input_files("#file", {"name": "b.json", "mimeType": "application/json", "buffer": b"{}"})
    page.locator("#notice", has_text="has no conversations").wait_for()
    watch.check()


def settings_are_sent_and_kept_for_each_model(context, url):
    page, watch = open_page(context, url)
    tools = [{"type": "function", "function": {"name": "weather"}}]
    page.click("#open-settings")
    for name, text in {"system": "Be brief.", "temperature": "0", "topP": "2", "maxTokens": "3",
                       "tools": json.dumps(tools)}.items():
        page.fill(f"[name={name}]", text)
    page.click("text=Save")
    assert page.inner_text("#settings-problem") == "Top P must be a number from 0 to 1, or empty"
    page.fill("[name=topP]", "0.5")
    page.click("text=Save")
    send(page, "one two three four five")
    wait_for_end(page)
    body = watch.bodies[-1]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}, body
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["tools"]) == (0, 0.5, 3, tools), body
    assert answer(page).locator(".error").inner_text() == "(cut off by the limit of tokens)"
    page.select_option("#model", "other")
    send(page, "x")
    wait_for_end(page)
    assert set(watch.bodies[-1]) == {"model", "messages", "stream", "stream_options"}, watch.bodies[-1]
    page.reload()
    page.wait_for_selector("#model option", state="attached")
    page.select_option("#model", "m")
    page.click("#open-settings")
    assert page.input_value("[name=system]") == "Be brief."
    picture(page, "settings")
    page.check("[name=toolsOff]")
    page.click("text=Save")
    send(page, "y")
    wait_for_end(page)
    assert "tools" not in watch.bodies[-1] and watch.bodies[-1]["temperature"] == 0
    page.click("#open-settings")
    page.click("#defaults")
    page.click("text=Save")
    send(page, "z")
    wait_for_end(page)
    assert set(watch.bodies[-1]) == {"model", "messages", "stream", "stream_options"}, watch.bodies[-1]
    watch.check()


def the_key_is_kept_only_if_the_reader_wants_it(context, url):
    page = context.new_page()
    page.goto(url)
    for key, isKept in (("wrong", False), ("secret", False), ("secret", True)):
        page.locator("#settings-problem", has_text="API key").wait_for()
        assert page.evaluate("document.activeElement.name") == "key"
        page.fill("[name=key]", key)
        page.set_checked("[name=keepKey]", isKept)
        page.press("[name=key]", "Enter")
        if key == "wrong":
            continue
        page.wait_for_selector("#model option", state="attached")
        send(page, "hello")
        wait_for_end(page)
        assert text_of(answer(page).locator(".text")) == "hello"
        kept = page.evaluate("JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie")
        assert ("secret" in kept) == isKept, kept
        page.reload()
    page.wait_for_selector("#model option", state="attached")
    assert not page.locator("#settings[open]").count()


def an_answer_is_stopped_edited_and_repeated(context, url):
    page, watch = open_page(context, url)
    send(page, "wait here")
    answer(page).locator(".text", has_text="waiting").wait_for()
    page.click("#stop")
    assert answer(page).locator(".error").inner_text() == "(stopped)"
    answer(page).locator("text=Regenerate").click()
    page.locator("text=2/2").wait_for()
    answer(page).locator(".text", has_text="waiting").wait_for()
    page.keyboard.press("Escape")
    wait_for_end(page)
    page.click("[aria-label='Edit the message']")
    page.fill("[aria-label='Edited message']", "go on")
    page.press("[aria-label='Edited message']", "Enter")
    wait_for_end(page)
    assert text_of(answer(page).locator(".text")) == "go on"
    assert watch.bodies[-1]["messages"] == [{"role": "user", "content": "go on"}]
    page.click(".turn.user [aria-label='Earlier version']")
    assert text_of(answer(page).locator(".text")) == "waiting"
    page.click("[aria-label='Edit the message']")
    page.press("[aria-label='Edited message']", "Escape")
    assert text_of(page.locator(".turn.user .text")) == "wait here"
    watch.check()


def texts_are_kept_on_errors(context, url):
    page, _ = open_page(context, url)
    send(page, "fail now")
    answer(page).locator(".error", has_text="the request failed").wait_for()
    assert text_of(answer(page).locator(".text")) == "so far"
    assert "secret detail" not in page.inner_text("#turns")
    send(page, "refuse this long text")
    answer(page).locator(".error", has_text="the prompt is too long").wait_for()
    assert text_of(page.locator(".turn.user").last.locator(".text")) == "refuse this long text"
    context.set_offline(True)
    send(page, "no server hears this")
    answer(page).locator(".error", has_text="cannot be reached").wait_for()
    picture(page, "error")
    page.fill("#text", "a draft")
    context.set_offline(False)
    answer(page).locator("text=Try again").click()
    answer(page).locator(".text", has_text="no server hears this").wait_for()
    assert page.locator(".turn").count() == 6
    assert page.input_value("#text") == "a draft"
    page.reload()
    page.click("#conversations .open")
    assert text_of(page.locator(".turn.user").nth(1).locator(".text")) == "refuse this long text"


def reasoning_is_folded(context, url):
    page, _ = open_page(context, url)
    send(page, "think A king *rules*.|He rules.")
    wait_for_end(page)
    assert text_of(answer(page).locator(":scope > .text")) == "He rules."
    assert not answer(page).locator("em").is_visible()
    answer(page).locator("summary").click()
    assert answer(page).locator("em").inner_text() == "rules"


def calls_are_shown_and_answered(context, url):
    page, watch = open_page(context, url)
    send(page, 'call weather {"town": "York"}')
    wait_for_end(page)
    assert text_of(answer(page).locator(".calls pre")) == '{"town": "York"}'
    page.fill("[aria-label='Result of weather']", "rain there")
    page.click("text=Send results")
    wait_for_end(page)
    assert text_of(answer(page).locator(".text")) == "rain there"
    assert [message["role"] for message in watch.bodies[-1]["messages"]] == ["user", "assistant", "tool"]
    assert watch.bodies[-1]["messages"][2]["tool_call_id"] == "call_1"
    watch.check()


def scrolling_is_left_to_the_reader(context, url):
    page, _ = open_page(context, url)
    send(page, "line \n\n" * 300)
    paragraphs = page.locator(".turn.assistant p")
    paragraphs.nth(30).wait_for()
    at_end = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 60"
    turns = page.locator("#turns")
    assert turns.evaluate(at_end)
    turns.hover()
    page.mouse.wheel(0, -600)
    page.locator("#jump").wait_for()
    page.wait_for_timeout(100)
    before = turns.evaluate("(box) => box.scrollTop")
    paragraphs.nth(paragraphs.count() + 10).wait_for()
    assert turns.evaluate("(box) => box.scrollTop") == before
    page.click("#jump")
    page.locator("#jump").wait_for(state="hidden")
    wait_for_end(page)
    assert turns.evaluate(at_end)


def a_narrow_screen_has_all_of_it(context, url):
    page, watch = open_page(context, url)
    page.set_viewport_size({"width": 375, "height": 667})
    assert not page.locator("#list").is_visible()
    wide = "| " + " | ".join(f"column{i}" for i in range(20)) + " |\n|" + "---|" * 20 + "\n\n```\n" + "x" * 400 + "\n```\n"
    send(page, "say " + "w" * 400 + "\n\n" + wide)
    wait_for_end(page)
    send(page, MARKDOWN)
    wait_for_end(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.locator("#turns").evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
    for name in ("#toggle-list", "#model", "#open-settings", "#text", "#send"):
        box = page.locator(name).bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 375 and box["height"] >= 40, (name, box)
    picture(page, "narrow")
    page.click("#toggle-list")
    assert page.locator("#list").is_visible()
    assert page.get_attribute("#toggle-list", "aria-expanded") == "true"
    picture(page, "narrow-list")
    page.keyboard.press("Escape")
    assert not page.locator("#list").is_visible()
    page.click("#toggle-list")
    page.click("#conversations .open")
    assert not page.locator("#list").is_visible()
    page.click("#open-settings")
    assert page.locator("#settings").bounding_box()["width"] <= 375
    assert page.locator("#settings").evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
    watch.check()


def the_keyboard_reaches_everything(context, url):
    page, _ = open_page(context, url)
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    wait_for_end(page)
    assert text_of(page.locator(".turn.user .text")) == "one\ntwo"
    page.keyboard.press("ArrowUp")
    assert page.input_value("[aria-label='Edited message']") == "one\ntwo"
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+O")
    assert page.locator(".turn").count() == 0
    page.click("#conversations .open")
    nameless = page.evaluate("""[...document.querySelectorAll("button, input, select, textarea, summary, [tabindex='0']")]
      .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)""")
    assert not nameless, nameless
    seen = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("(({id, ariaLabel, textContent}) => id || ariaLabel || textContent)(document.activeElement)"))
    assert {"new", "toggle-list", "model", "open-settings", "text", "send", "Regenerate", "Edit the message"} <= seen, seen


CONTRAST = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
  const light = (color) => parts(color).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return ["body", ".turn > b", ".error", ".figures", ".markdown a"].map((name) => {
    const ink = light(getComputedStyle(document.querySelector(name)).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  });
}"""


def colours_are_light_or_dark_and_have_contrast(context, url):
    page, _ = open_page(context, url)
    send(page, "see https://x.org")
    wait_for_end(page)
    papers = set()
    for scheme, choice in (("light", ""), ("dark", ""), ("dark", "light"), ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.click("#open-settings")
        page.select_option("[name=theme]", choice)
        page.click("text=Save")
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        papers.add(((choice or scheme), paper))
        contrasts = page.evaluate(CONTRAST)
        assert min(contrasts) >= 4.5, (scheme, choice, contrasts)
    assert len(papers) == 2, papers
    picture(page, "dark")


def an_answer_goes_on_in_its_conversation(context, url):
    page, _ = open_page(context, url)
    send(page, "word " * 60)
    answer(page).locator(".text", has_text="word").wait_for()
    page.click("#new")
    send(page, "short")
    wait_for_end(page)
    page.locator("#conversations .open", has_text="word").click()
    wait_for_end(page)
    assert text_of(answer(page).locator(".text")).split() == ["word"] * 60
    assert answer(page).locator(".error:visible").count() == 0


def an_answer_that_the_reader_left_is_kept_so_far(context, url):
    page, _ = open_page(context, url)
    send(page, "word " * 400)
    answer(page).locator(".text", has_text="word").wait_for()
    page.reload()
    page.click("#conversations .open")
    assert "word" in text_of(answer(page).locator(".text"))
    assert answer(page).locator(".error").inner_text() == "(interrupted)"


def a_second_tab_sees_the_conversations_of_the_first(context, url):
    first, _ = open_page(context, url)
    second, _ = open_page(context, url)
    send(first, "from the first")
    wait_for_end(first)
    second.click("text=from the first")
    assert text_of(answer(second).locator(".text")) == "from the first"


TESTS = [an_answer_is_shown_as_markdown, hostile_text_stays_text, the_policy_of_the_page_is_strict,
         code_and_messages_are_copied, conversations_are_kept_renamed_and_deleted,
         conversations_are_exported_and_imported, settings_are_sent_and_kept_for_each_model,
         an_answer_is_stopped_edited_and_repeated, texts_are_kept_on_errors, reasoning_is_folded,
         calls_are_shown_and_answered, scrolling_is_left_to_the_reader, a_narrow_screen_has_all_of_it,
         the_keyboard_reaches_everything, colours_are_light_or_dark_and_have_contrast,
         an_answer_goes_on_in_its_conversation, an_answer_that_the_reader_left_is_kept_so_far,
         a_second_tab_sees_the_conversations_of_the_first]


def first_line(output):
    for line in output:
        if line.startswith("127."):
            return line.strip()
    raise AssertionError("the server did not start")


def run(browser, command, tests):
    """Runs each test in a browser of its own, as far as its storage goes. Returns the names of those that failed."""
    failed = []
    with serving(command, first_line) as url:
        for test in (test for test in tests if wanted in test.__name__):
            context = browser.new_context(viewport={"width": 900, "height": 640}, accept_downloads=True)
            context.set_default_timeout(60000)
            try:
                test(context, url)
                print("passed", test.__name__)
            except Exception as problem:  # the next tests run all the same
                print("FAILED", test.__name__, repr(problem))
                failed.append(test.__name__)
            context.close()
    return failed


with tempfile.TemporaryDirectory() as folder:
    fake = str(pathlib.Path(folder, "fake_server"))
    subprocess.run([go, "build", "-o", fake, "./server/cmd/fake_server"], cwd=MODULE, check=True)
    with chromium() as chosen:
        failures = run(chosen, [fake, "-delay", "10ms"], TESTS)
        failures += run(chosen, [fake, "-key", "secret"], [the_key_is_kept_only_if_the_reader_wants_it])
sys.exit(1 if failures else 0)

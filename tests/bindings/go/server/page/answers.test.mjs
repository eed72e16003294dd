// Tests how the page reads streams, collects answers, and sends settings.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { chunks, Collector, events, figuresText, models } from "../../../../../bindings/go/server/page/answers.mjs";
import { DEFAULTS, problemOf, problemOfKey, requestBody, SettingsStore } from "../../../../../bindings/go/server/page/settings.mjs";
import { MemoryStorage } from "../../../../../bindings/go/server/page/store.mjs";

const realFetch = globalThis.fetch;
afterEach(() => { globalThis.fetch = realFetch; });

/** Returns a stream of the bytes of a text, cut into pieces of a size. */
function cut(text, size) {
  const bytes = new TextEncoder().encode(text);
  return new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
      controller.close();
    },
  });
}

async function all(generator) {
  const found = [];
  for await (const item of generator) found.push(item);
  return found;
}

test("EventsAreReadWhereverTheStreamIsCut", async () => {
  const text = 'data: {"a": "é😀"}\n\n: still working\n\nevent: x\ndata:two\r\ndata: lines\r\n\r\ndata: [DONE]\n\ndata: unfinished';
  for (let size = 1; size < 40; size++) {
    assert.deepEqual(await all(events(cut(text, size))), ['{"a": "é😀"}', "two\nlines", "[DONE]"], `pieces of ${size}`);
  }
});

function answerWith(text, init) {
  globalThis.fetch = async (path, options) => {
    answerWith.sent = { path, options };
    return new Response(cut(text, 7), init);
  };
}

test("AStreamThatEndsEarlyIsAFailure", async () => {
  answerWith('data: {"choices": []}\n\n');
  await assert.rejects(all(chunks({}, "", undefined)), /the connection ended before the answer did/);
});

test("AnErrorInTheStreamIsAFailureWithItsMessage", async () => {
  answerWith('data: {"error": {"message": "the device is lost"}}\n\n');
  await assert.rejects(all(chunks({}, "", undefined)), /the device is lost/);
});

test("ARefusalHasItsMessageStatusAndTimeToRetry", async () => {
  answerWith('{"error": {"message": "too many"}}', { status: 429, headers: { "Retry-After": "7" } });
  await assert.rejects(all(chunks({}, "", undefined)), { message: "too many", status: 429, retrySeconds: 7 });
  answerWith("<html>", { status: 502 });
  await assert.rejects(models(""), /status 502/);
});

test("TheKeyIsSentOnlyIfThereIsOne", async () => {
  answerWith('{"data": [{"id": "m"}]}');
  assert.deepEqual(await models("secret"), ["m"]);
  assert.equal(answerWith.sent.options.headers.Authorization, "Bearer secret");
  assert.equal(answerWith.sent.path, "v1/models");
  await models("");
  assert.deepEqual(answerWith.sent.options.headers, {});
});

test("AServerThatCannotBeReachedIsAFailureInWords", async () => {
  globalThis.fetch = async () => { throw new TypeError("Failed to fetch"); };
  await assert.rejects(models(""), /cannot be reached/);
});

const delta = (fields) => ({ choices: [{ delta: fields }] });

test("ACollectorJoinsTextReasoningAndCalls", () => {
  const node = { content: "" };
  const collector = new Collector(node, 1000);
  const taken = [delta({ role: "assistant", content: "" }), delta({ reasoning_content: "hm", reasoning: "hm" }), delta({ content: "a" }),
    delta({ content: "b" }), delta({ tool_calls: [{ index: 0, id: "c1", function: { name: "f" } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: '{"x":' } }] }), delta({ tool_calls: [{ index: 0, function: { arguments: "1}" } }] }),
    { choices: [{ delta: {}, finish_reason: "tool_calls" }] }];
  taken.forEach((chunk, i) => collector.take(chunk, 1000 + 100 * i));
  assert.equal(node.content, "ab");
  assert.equal(node.reasoning, "hm");
  assert.deepEqual(node.calls, [{ id: "c1", name: "f", text: '{"x":1}' }]);
  assert.equal(collector.finish, "tool_calls");
});

test("TheSpeedIsThatOfTheTokensAfterTheFirst", () => {
  const node = { content: "" };
  const collector = new Collector(node, 1000);
  collector.take(delta({ content: "a" }), 1500);
  collector.take(delta({ content: "b" }), 2500);
  collector.take({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 21 } }, 2500);
  assert.deepEqual(node.figures, { tokens: 21, firstMs: 500, perSecond: 20, prompt: 9 });
  assert.equal(figuresText(node.figures), "21 tokens · 20.0 tokens/s · first after 500 ms · prompt 9");
});

test("AnAnswerOfOneTokenHasNoSpeed", () => {
  const node = { content: "" };
  new Collector(node, 0).take({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }, 5);
  assert.equal(node.figures.perSecond, undefined);
});

const set = (fields) => ({ ...DEFAULTS, ...fields });

test("EmptySettingsAreNotSent", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(requestBody("m", [], DEFAULTS))),
    { model: "m", messages: [], stream: true, stream_options: { include_usage: true } });
});

test("SettingsAreSentAndZeroIsAValue", () => {
  const tools = '[{"type": "function", "function": {"name": "f"}}]';
  const body = requestBody("m", [], set({ temperature: "0", topP: "0.9", maxTokens: "7", tools }));
  assert.equal(body.temperature, 0);
  assert.equal(body.top_p, 0.9);
  assert.equal(body.max_tokens, 7);
  assert.equal(body.tools[0].function.name, "f");
  assert.equal(requestBody("m", [], set({ tools, toolsOff: true })).tools, undefined);
});

test("ASettingThatCannotBeSentIsNamed", () => {
  for (const fields of [{ temperature: "x" }, { temperature: "-1" }, { temperature: "Infinity" }, { topP: "1.5" }, { maxTokens: "0" },
    { maxTokens: "1.5" }, { tools: "{" }, { tools: "[1]" }, { tools: '[{"type": "function"}]' }]) {
    assert.equal(problemOf(set(fields)).field, Object.keys(fields)[0], JSON.stringify(fields));
  }
  assert.equal(problemOf(set({ temperature: "0.7", topP: "1", maxTokens: "100", tools: "[]" })), null);
});

test("AKeyThatNoHeaderCanHoldIsRefused", () => {
  for (const key of ["a b", "schlüssel", "a\nb", "\u{1f511}"]) assert.equal(problemOfKey(key).field, "key", key);
  assert.equal(problemOfKey("sk-1_.~"), null);
  assert.equal(problemOfKey(""), null);
});

test("EachModelHasItsSettings", () => {
  const storage = new MemoryStorage();
  const settings = new SettingsStore(storage);
  assert.deepEqual(settings.of("m"), DEFAULTS);
  settings.save("m", set({ system: "Be brief." }));
  settings.save("__proto__", set({ system: "hostile" }));
  settings.save("constructor", set({ topP: "0.5" }));
  const again = new SettingsStore(storage);
  assert.equal(again.of("m").system, "Be brief.");
  assert.equal(again.of("__proto__").system, "hostile");
  assert.deepEqual(again.of("toString"), DEFAULTS);
});

test("DamagedSettingsAreTheDefaults", () => {
  const storage = new MemoryStorage();
  for (const text of ["{", "1", "null", '{"m": 1}', '{"m": {"topP": 9, "system": {}}}', '{"m": {"topP": "9"}}']) {
    storage.setItem("quire.settings", text);
    assert.deepEqual(new SettingsStore(storage).of("m"), DEFAULTS, text);
    assert.ok(new SettingsStore(storage).save("n", DEFAULTS));
  }
});

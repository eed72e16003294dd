// Drives a server with the official Node client of OpenAI. usage: NODE_PATH=MODULES node openai_node.cjs BASE_URL
"use strict";
const assert = require("node:assert");
const { OpenAI } = require("openai");

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "k", maxRetries: 0 });
const asked = (model, content) => ({ model, messages: [{ role: "user", content }], temperature: 0, max_tokens: 400 });
const city = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false };
const endless = { max_tokens: 1500, logit_bias: { 1: -100, 2: -100 } };  // no end token is chosen

async function gathered(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

function isCall(call) {
  assert.equal(call.function.name, "weather");
  assert.ok(["Oslo", "Rome"].includes(JSON.parse(call.function.arguments).city));
}

async function texts() {
  const whole = (await client.chat.completions.create(asked("m", "Tell me of a king."))).choices[0].message.content;
  let joined = "";
  for await (const chunk of await client.chat.completions.create({ ...asked("m", "Tell me of a king."), stream: true })) {
    joined += chunk.choices[0].delta.content ?? "";
  }
  assert.equal(joined, whole);
  const helper = client.chat.completions.stream({ ...asked("m", "Tell me of a king."), stream_options: { include_usage: true } });
  assert.equal(await helper.finalContent(), whole);
  assert.ok((await helper.totalUsage()).completion_tokens > 0);
  const two = await client.chat.completions.create({ ...asked("m", "Hello"), n: 2, temperature: 1, seed: 3, max_tokens: 8,
                                                     logprobs: true, top_logprobs: 2 });
  assert.deepEqual(two.choices.map((choice) => choice.index), [0, 1]);
  assert.equal(two.choices[0].logprobs.content[0].top_logprobs.length, 2);
}

async function completions() {
  const request = { model: "m", prompt: ["Once upon a time", "The king"], max_tokens: 8, temperature: 0, logprobs: 1 };
  const whole = await client.completions.create(request);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1]);
  assert.equal(whole.choices[0].logprobs.tokens.join(""), whole.choices[0].text);
  const joined = ["", ""];
  let usage;
  for await (const chunk of await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
    for (const choice of chunk.choices) joined[choice.index] += choice.text;
    usage = chunk.usage ?? usage;
  }
  assert.deepEqual(joined, whole.choices.map((choice) => choice.text));
  assert.deepEqual(usage.completion_tokens, whole.usage.completion_tokens);
  const echoed = await client.completions.create({ ...request, prompt: "Once upon", echo: true, max_tokens: 0 });
  assert.equal(echoed.choices[0].text, "Once upon");
  assert.equal(echoed.choices[0].logprobs.token_logprobs[0], null);
}

async function lists() {
  assert.deepEqual((await gathered(client.models.list())).map((model) => model.id).sort(), ["calls", "m"]);
  assert.equal((await client.models.retrieve("m")).object, "model");
  const request = { model: "m", input: ["a king", "a queen"] };
  const vectors = (await client.embeddings.create(request)).data;  // the client requests base64
  const floats = (await client.embeddings.create({ ...request, encoding_format: "float" })).data;
  assert.deepEqual(vectors[1].embedding.map(Math.fround), floats[1].embedding.map(Math.fround));
  assert.equal((await client.embeddings.create({ ...request, dimensions: 16 })).data[0].embedding.length, 16);
}

async function calls() {
  const tools = [{ type: "function", function: { name: "weather", parameters: city, strict: true } }];
  const request = { ...asked("calls", "How warm is it?"), tool_choice: "required", parallel_tool_calls: false, tools };
  const choice = (await client.chat.completions.create(request)).choices[0];
  assert.equal(choice.finish_reason, "tool_calls");
  isCall(choice.message.tool_calls[0]);
  isCall((await client.chat.completions.stream(request).finalChatCompletion()).choices[0].message.tool_calls[0]);
  const history = [...request.messages, choice.message, { role: "tool", tool_call_id: choice.message.tool_calls[0].id, content: "warm" }];
  const next = await client.chat.completions.create({ ...request, messages: history, tool_choice: "none", max_tokens: 8 });
  assert.equal(typeof next.choices[0].message.content, "string");
  let ran = 0;  // the client calls the function, and sends its result
  const weather = { name: "weather", parameters: city, strict: true, parse: JSON.parse, description: "Weather of a city",
                    function: ({ city: name }) => { ran += ["Oslo", "Rome"].includes(name) ? 1 : 0; return "warm"; } };
  const named = { type: "function", function: { name: "weather" } };
  const runner = client.chat.completions.runTools({ ...request, tool_choice: named, tools: [{ type: "function", function: weather }] });
  await runner.done();
  assert.equal(ran, 1);
  const format = { type: "json_schema", json_schema: { name: "place", schema: city, strict: true } };
  const formatted = await client.chat.completions.parse({ ...asked("m", "Where?"), response_format: format });
  assert.deepEqual(Object.keys(JSON.parse(formatted.choices[0].message.content)), ["city"]);
}

async function responses() {
  const request = { model: "m", input: "Tell me of a king.", temperature: 0, max_output_tokens: 16 };
  const whole = await client.responses.create(request);
  assert.equal((await client.responses.retrieve(whole.id)).output_text, whole.output_text);
  const stream = client.responses.stream(request);
  const kinds = new Set();
  for await (const event of stream) kinds.add(event.type);
  assert.equal((await stream.finalResponse()).output_text, whole.output_text);
  for (const kind of ["created", "output_item.added", "output_text.delta", "output_text.done"]) assert.ok(kinds.has(`response.${kind}`), kind);
  const more = await client.responses.create({ ...request, input: "And then?", previous_response_id: whole.id });
  assert.ok(more.usage.input_tokens > whole.usage.input_tokens);
  assert.equal((await gathered(client.responses.inputItems.list(more.id))).length, 3);
  const { max_output_tokens: _, temperature: __, ...counted } = request;
  assert.equal((await client.responses.inputTokens.count(counted)).input_tokens, whole.usage.input_tokens);
  await client.responses.delete(whole.id);
  await assert.rejects(client.responses.retrieve(whole.id), OpenAI.NotFoundError);
  const place = await client.responses.parse({ ...request, max_output_tokens: 100,
    text: { format: { type: "json_schema", name: "place", schema: city, strict: true } } });
  assert.ok(JSON.parse(place.output_text).city);
  const tool = { type: "function", name: "weather", parameters: city, strict: true };
  const called = await client.responses.create({ ...request, model: "calls", max_output_tokens: 400, tools: [tool],
    tool_choice: { type: "function", name: "weather" }, parallel_tool_calls: false });
  isCall({ function: called.output.find((item) => item.type === "function_call") });
}

async function stored() {
  const request = { model: "m", input: "Tell me of a king.", temperature: 0, max_output_tokens: 16 };
  let late = await client.responses.create({ ...request, background: true });
  while (["queued", "in_progress"].includes(late.status)) {
    await new Promise((resume) => setTimeout(resume, 20));
    late = await client.responses.retrieve(late.id);
  }
  assert.ok(["completed", "incomplete"].includes(late.status), late.status);
  const running = await client.responses.create({ ...request, ...{ max_output_tokens: 1500, logit_bias: endless.logit_bias }, background: true });
  assert.equal((await client.responses.cancel(running.id)).status, "cancelled");
  const conversation = await client.conversations.create({ metadata: { a: "b" }, items: [{ role: "user", content: "hello" }] });
  await client.responses.create({ ...request, conversation: conversation.id });
  const items = await gathered(client.conversations.items.list(conversation.id, { order: "asc", limit: 2 }));  // two pages
  assert.deepEqual(items.map((item) => item.role), ["user", "user", "assistant"]);
  const added = await client.conversations.items.create(conversation.id, { items: [{ role: "user", content: "x" }] });
  const place = { conversation_id: conversation.id };
  assert.equal((await client.conversations.items.retrieve(added.data[0].id, place)).content[0].text, "x");
  await client.conversations.items.delete(added.data[0].id, place);
  assert.deepEqual((await client.conversations.update(conversation.id, { metadata: { c: "d" } })).metadata, { c: "d" });
  assert.equal((await client.conversations.retrieve(conversation.id)).id, conversation.id);
  assert.ok((await client.conversations.delete(conversation.id)).deleted);
}

async function failures() {
  await assert.rejects(client.chat.completions.create(asked("nobody", "a")), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...asked("m", "a"), top_p: 2 }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create(asked("m", "word ".repeat(20000))), { code: "context_length_exceeded" });
  const stream = await client.chat.completions.create({ ...asked("m", "a"), ...endless, stream: true });
  for await (const _ of stream) break;  // which ends the request
  assert.ok(stream.controller.signal.aborted);
}

async function main() {
  for (const part of [texts, completions, lists, calls, responses, stored, failures]) {
    await part();
    console.log(part.name, "passed");
  }
}

main();

// Drives a server with the official Node client of Anthropic. usage: NODE_PATH=MODULES node anthropic_node.cjs BASE_URL
"use strict";
const assert = require("node:assert");
const Anthropic = require("@anthropic-ai/sdk");

const client = new Anthropic({ baseURL: process.argv[2], apiKey: "k", maxRetries: 0 });
const city = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false };
const asked = (model, content) => ({ model, max_tokens: 24, top_k: 1, messages: [{ role: "user", content }] });
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");
const inputOf = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;

async function texts() {
  const request = { ...asked("m", "Tell me of a king."), system: [{ type: "text", text: "Be brief." }] };
  const whole = await client.messages.create(request);
  assert.ok(textOf(whole).length > 0 && whole.usage.output_tokens <= 24);
  const stream = client.messages.stream(request);
  let joined = "";
  stream.on("text", (piece) => { joined += piece; });
  const final = await stream.finalMessage();
  assert.equal(joined, textOf(whole));
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  const kinds = [];
  for await (const event of await client.messages.create({ ...request, stream: true })) kinds.push(event.type);
  assert.equal(kinds[0], "message_start");
  assert.equal(kinds.at(-1), "message_stop");
  const { max_tokens: _, top_k: __, ...counted } = request;
  assert.equal((await client.messages.countTokens(counted)).input_tokens, inputOf(whole));
  const begun = { ...request, messages: [...request.messages, { role: "assistant", content: "The king" }] };
  assert.equal((await client.messages.create(begun)).role, "assistant");
  const word = textOf(whole).trim().split(/\s+/)[2];
  const stopped = await client.messages.create({ ...request, stop_sequences: [word] });
  assert.equal(stopped.stop_reason, "stop_sequence");
  assert.equal(stopped.stop_sequence, word);
  const { data, response, request_id } = await client.messages.create(request).withResponse();
  assert.ok(request_id.startsWith("req_") && response.ok && data.type === "message", request_id);
}

async function calls() {
  const tools = [{ name: "weather", description: "The weather of a city.", input_schema: city }];
  const request = { ...asked("calls", "How warm is it?"), max_tokens: 400, tools, tool_choice: { type: "any", disable_parallel_tool_use: true } };
  const whole = await client.messages.create(request);
  assert.equal(whole.stop_reason, "tool_use");
  const call = whole.content.find((block) => block.type === "tool_use");
  assert.ok(["Oslo", "Rome"].includes(call.input.city));
  const streamed = (await client.messages.stream(request).finalMessage()).content.find((block) => block.type === "tool_use");
  assert.deepEqual(streamed.input, call.input);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "warm" }] };
  const next = { ...request, max_tokens: 8, tool_choice: { type: "auto" },
                 messages: [...request.messages, { role: "assistant", content: whole.content }, result] };
  assert.ok(inputOf(await client.messages.create(next)) > inputOf(whole));
  const format = { type: "json_schema", schema: city };
  const formatted = await client.messages.create({ ...asked("m", "Where?"), max_tokens: 100, output_config: { format } });
  assert.ok(["Oslo", "Rome"].includes(JSON.parse(textOf(formatted)).city));
  assert.ok((await client.messages.parse({ ...asked("m", "Where?"), max_tokens: 100, output_config: { format } })).content.length > 0);
}

/** Lets the client call the function and send its result. The model must call, so the loop has a limit. */
async function runner() {
  let ran = 0;
  const weather = { name: "weather", input_schema: city, parse: (input) => input,
                    run: ({ city: name }) => { ran += ["Oslo", "Rome"].includes(name) ? 1 : 0; return "warm"; } };
  await client.beta.messages.toolRunner({ ...asked("calls", "How warm is it?"), max_tokens: 400, max_iterations: 2, tools: [weather],
                                          tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: true } });
  assert.ok(ran >= 1, `the tool ran ${ran} times`);
}

async function models() {
  const ids = [];
  for await (const model of client.models.list({ limit: 1 })) ids.push(model.id);  // two pages
  assert.deepEqual(ids.sort(), ["calls", "m"]);
  assert.equal((await client.models.retrieve("m")).type, "model");
}

async function failures() {
  await assert.rejects(client.messages.create(asked("nobody", "a")), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...asked("m", "a"), max_tokens: 0 }), Anthropic.BadRequestError);
  const image = [{ type: "image", source: { type: "url", url: "https://example.com/a.png" } }];
  await assert.rejects(client.messages.create(asked("m", image)), /messages\[0\]\.content\[0\]/);
  await assert.rejects(client.messages.batches.create({ requests: [] }), Anthropic.NotFoundError);
  const stream = client.messages.stream({ ...asked("m", "a"), max_tokens: 1000 });
  stream.on("text", () => stream.abort());
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
}

async function main() {
  for (const part of [texts, calls, runner, models, failures]) {
    await part();
    console.log(part.name, "passed");
  }
}

main();

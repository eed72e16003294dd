// Drives a server with the official Node client of OpenAI. usage: NODE_PATH=MODULES node openai_node.cjs BASE_URL
"use strict";
const assert = require("node:assert");
const { OpenAI } = require("openai");

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "k", maxRetries: 0 });
const asked = (model, content) => ({ model, messages: [{ role: "user", content }], temperature: 0, max_tokens: 400 });
const city = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false };

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
  const response = await client.responses.create({ model: "m", input: "hello", max_output_tokens: 8 });
  assert.equal((await client.responses.retrieve(response.id)).output_text, response.output_text);
  const vectors = await client.embeddings.create({ model: "m", input: ["a king", "a queen"] });
  assert.ok(vectors.data[1].embedding.length > 0 && vectors.data[1].embedding.every(Number.isFinite));
}

async function calls() {
  const request = { ...asked("calls", "How warm is it?"), tool_choice: "required", parallel_tool_calls: false,
                    tools: [{ type: "function", function: { name: "weather", parameters: city, strict: true } }] };
  const choice = (await client.chat.completions.create(request)).choices[0];
  assert.equal(choice.finish_reason, "tool_calls");
  isCall(choice.message.tool_calls[0]);
  isCall((await client.chat.completions.stream(request).finalChatCompletion()).choices[0].message.tool_calls[0]);
  const format = { type: "json_schema", json_schema: { name: "place", schema: city, strict: true } };
  const formatted = await client.chat.completions.create({ ...asked("m", "Where?"), response_format: format });
  assert.deepEqual(Object.keys(JSON.parse(formatted.choices[0].message.content)), ["city"]);
}

async function failures() {
  await assert.rejects(client.chat.completions.create(asked("nobody", "a")), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...asked("m", "a"), top_p: 2 }), OpenAI.BadRequestError);
  const stream = await client.chat.completions.create({ ...asked("m", "a"), max_tokens: 1500, stream: true,
                                                       logit_bias: { 1: -100, 2: -100 } });
  for await (const _ of stream) break; // which ends the request
  assert.ok(stream.controller.signal.aborted);
}

async function main() {
  for (const part of [texts, calls, failures]) {
    await part();
    console.log(part.name, "passed");
  }
}

main();

// Drives a server with Vercel's AI SDK and its providers. usage: NODE_PATH=MODULES node ai_sdk_node.cjs BASE_URL
"use strict";
const assert = require("node:assert");
const ai = require("ai");
const { createAnthropic } = require("@ai-sdk/anthropic");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");

const baseURL = process.argv[2] + "/v1";
const openai = createOpenAI({ baseURL, apiKey: "k" });
const compatible = createOpenAICompatible({ baseURL, apiKey: "k", name: "quire", includeUsage: true, supportsStructuredOutputs: true });
const anthropic = createAnthropic({ baseURL, apiKey: "k" });

/** Models of each provider by name: responses, chats and messages of the same server. */
const providers = {
  "openai responses": (name) => openai(name),
  "openai chat": (name) => openai.chat(name),
  "openai-compatible": (name) => compatible(name),
  "anthropic": (name) => anthropic(name),
};
const city = ai.jsonSchema({ type: "object", properties: { city: { type: "string", enum: ["Oslo", "Rome"] } }, required: ["city"],
                             additionalProperties: false });
const settings = { temperature: 0, maxOutputTokens: 24, maxRetries: 0, prompt: "Tell me of a king." };

async function texts(model) {
  const whole = await ai.generateText({ ...settings, model: model("m"), system: "Be brief." });
  assert.ok(whole.text.length > 0 && whole.usage.outputTokens <= 24 && whole.usage.inputTokens > 0, whole.usage);
  const stream = ai.streamText({ ...settings, model: model("m"), system: "Be brief.", onError: () => {} });
  let joined = "";
  for await (const piece of stream.textStream) joined += piece;
  assert.equal(joined, whole.text);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.equal(await stream.finishReason, whole.finishReason);
}

/** Requires a call in the first step. The SDK runs the tool and sends its result in the second. */
async function calls(model) {
  const inputs = [];
  const weather = ai.tool({ description: "The weather of a city.", inputSchema: city,
                            execute: async (input) => { inputs.push(input.city); return "warm"; } });
  const request = { ...settings, model: model("calls"), maxOutputTokens: 200, tools: { weather }, stopWhen: ai.stepCountIs(2),
                    toolChoice: { type: "tool", toolName: "weather" },
                    prepareStep: ({ stepNumber }) => (stepNumber > 0 ? { toolChoice: "none" } : {}) };
  const whole = await ai.generateText(request);
  assert.equal(whole.steps.length, 2);
  assert.equal(whole.steps[0].finishReason, "tool-calls");
  const stream = ai.streamText({ ...request, onError: () => {} });
  await stream.consumeStream();
  assert.equal((await stream.steps).length, 2);
  assert.ok(inputs.length >= 2 && inputs.every((name) => ["Oslo", "Rome"].includes(name)), inputs);
}

async function objects(model) {
  const request = { ...settings, model: model("m"), prompt: "Where?", maxOutputTokens: 100 };
  const { output } = await ai.generateText({ ...request, output: ai.Output.object({ schema: city }) });
  assert.ok(["Oslo", "Rome"].includes(output.city), output);
  const stream = ai.streamText({ ...request, output: ai.Output.object({ schema: city }), onError: () => {} });
  let last;
  for await (const partial of stream.partialOutputStream) last = partial;
  assert.deepEqual(last, output);
  const { object } = await ai.generateObject({ ...request, schema: city });
  assert.ok(["Oslo", "Rome"].includes(object.city), object);
}

async function failures(model) {
  await assert.rejects(ai.generateText({ ...settings, model: model("nobody") }), (failure) => failure.statusCode === 404);
  const controller = new AbortController();
  const stream = ai.streamText({ ...settings, model: model("m"), maxOutputTokens: 1000, abortSignal: controller.signal, onError: () => {} });
  const kinds = [];
  for await (const part of stream.fullStream) {
    kinds.push(part.type);
    if (part.type === "text-delta") controller.abort();
  }
  assert.ok(kinds.includes("abort"), kinds.join());
}

async function others() {
  const completion = await ai.generateText({ ...settings, model: openai.completion("m") });
  assert.ok(completion.text.length > 0);
  assert.ok((await ai.generateText({ ...settings, model: compatible.completionModel("m") })).text.length > 0);
  for (const model of [openai.textEmbeddingModel("m"), compatible.textEmbeddingModel("m")]) {
    const { embeddings, usage } = await ai.embedMany({ model, values: ["a king", "a queen"], maxRetries: 0 });
    assert.ok(embeddings.length === 2 && embeddings[1].every(Number.isFinite) && usage.tokens > 0, usage);
  }
}

async function main() {
  for (const [name, model] of Object.entries(providers)) {
    for (const part of [texts, calls, objects, failures]) {
      await part(model);
      console.log(`${name}: ${part.name} passed`);
    }
  }
  await others();
  console.log("others passed");
}

main();

// Requests answers of the server and reads their streams.

/** Failure of a request: the message of the server, its HTTP status, and the seconds until a retry, if it gave them. */
export class Failure extends Error {
  constructor(message, status = 0, retrySeconds = 0) {
    super(message);
    this.status = status;
    this.retrySeconds = retrySeconds;
  }
}

/** Sends a request. `path` is relative to the page, so that a server under a prefix works. */
export async function send(path, key, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = "Bearer " + key;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Failure("the server cannot be reached");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const message = body?.error?.message ?? `the server answered with status ${response.status}`;
  throw new Failure(String(message), response.status, Number(response.headers.get("Retry-After")) || 0);
}

export async function models(key) {
  const list = await (await send("v1/models", key)).json();
  return list.data.map((model) => String(model.id));
}

/** Yields the chunks of an answer. Throws a Failure if the server sends one, or the connection ends before the answer. */
export async function* chunks(body, key, signal) {
  const response = await send("v1/chat/completions", key, {
    method: "POST", headers: { "Content-Type": "application/json" }, signal, body: JSON.stringify(body),
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Failure(String(chunk.error.message));
    yield chunk;
  }
  throw new Failure("the connection ended before the answer did");
}

/** Yields the data of the events of a stream of server-sent events. */
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        } else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Collects the chunks of one answer in a node of a conversation, with times in milliseconds of one clock. */
export class Collector {
  constructor(node, began) {
    this.node = node;
    this.began = began;
    this.first = 0; // time of the first piece
    this.numPieces = 0;
    this.finish = null;
  }

  take(chunk, now) {
    if (chunk.usage) this.countUsage(chunk.usage, now);
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const delta = choice.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
    const calls = delta.tool_calls ?? [];
    if (reasoning) this.node.reasoning = (this.node.reasoning ?? "") + reasoning;
    if (delta.content) this.node.content += delta.content;
    calls.forEach((call) => this.takeCall(call));
    if (choice.finish_reason) this.finish = choice.finish_reason;
    if (reasoning || delta.content || calls.length) this.countPiece(now);
  }

  takeCall(call) {
    this.node.calls ??= [];
    if (call.id) this.node.calls.push({ id: call.id, name: call.function?.name ?? "", text: "" });
    const last = this.node.calls.at(-1);
    if (last) last.text += call.function?.arguments ?? "";
  }

  /** Counts pieces until the server reports tokens: a piece is one token for most texts. */
  countPiece(now) {
    this.first ||= now;
    this.numPieces++;
    this.setFigures(this.numPieces, now);
  }

  countUsage(usage, now) {
    this.first ||= now;
    this.setFigures(usage.completion_tokens, now);
    this.node.figures.prompt = usage.prompt_tokens;
  }

  /** The first token ends the reading of the prompt, so its time is not one of writing. */
  setFigures(tokens, now) {
    const seconds = (now - this.first) / 1000;
    this.node.figures = { tokens, firstMs: this.first - this.began };
    if (tokens > 1 && seconds > 0) this.node.figures.perSecond = (tokens - 1) / seconds;
  }
}

/** Returns figures as a line of text. */
export function figuresText({ tokens, perSecond, firstMs, prompt }) {
  const parts = [];
  if (tokens !== undefined) parts.push(`${tokens} tokens`);
  if (perSecond !== undefined) parts.push(`${perSecond.toFixed(1)} tokens/s`);
  if (firstMs !== undefined) parts.push(`first after ${timeText(firstMs)}`);
  if (prompt !== undefined) parts.push(`prompt ${prompt}`);
  return parts.join(" · ");
}

const timeText = (ms) => (ms < 10000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`);

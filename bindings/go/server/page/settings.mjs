// Settings of each model. An empty one leaves the choice to the server, which takes what the authors of the model
// recommend.

import { parsed, read, write } from "./store.mjs";

const KEY = "quire.settings";
export const DEFAULTS = { system: "", temperature: "", topP: "", maxTokens: "", tools: "", toolsOff: false };

export class SettingsStore {
  constructor(storage) {
    this.storage = storage;
  }

  /** Returns the settings of a model; defaults if none or damaged ones are stored. */
  of(model) {
    const all = parsed(read(this.storage, KEY));
    const stored = all && Object.hasOwn(all, model) ? all[model] : {};
    const settings = { ...DEFAULTS };
    for (const field of Object.keys(DEFAULTS)) {
      if (typeof stored?.[field] === typeof DEFAULTS[field]) settings[field] = stored[field];
    }
    return problemOf(settings) ? { ...DEFAULTS } : settings;
  }

  /** Keeps the settings of a model. Returns false if the browser refuses. */
  save(model, settings) {
    const all = parsed(read(this.storage, KEY));
    const entries = typeof all === "object" && all !== null ? Object.entries(all) : [];
    const others = entries.filter(([name]) => name !== model);
    return write(this.storage, KEY, JSON.stringify(Object.fromEntries([...others, [model, settings]])));
  }
}

/** Returns {field, message} of the first setting that cannot be sent, or null. */
export function problemOf(settings) {
  return problemOfNumber(settings, "temperature", "Temperature", 0, 100)
    ?? problemOfNumber(settings, "topP", "Top P", 0, 1)
    ?? problemOfMaximum(settings)
    ?? problemOfTools(settings);
}

function problemOfNumber(settings, field, name, min, max) {
  const text = settings[field].trim();
  const value = Number(text);
  if (text === "" || (value >= min && value <= max)) return null;
  return { field, message: `${name} must be a number from ${min} to ${max}, or empty` };
}

function problemOfMaximum(settings) {
  const text = settings.maxTokens.trim();
  if (text === "" || /^[1-9]\d{0,8}$/.test(text)) return null;
  return { field: "maxTokens", message: "Max tokens must be a whole number from 1 on, or empty" };
}

function problemOfTools(settings) {
  if (settings.tools.trim() === "") return null;
  const tools = parsed(settings.tools);
  const isTool = (tool) => tool?.type === "function" && typeof tool.function?.name === "string";
  if (Array.isArray(tools) && tools.every(isTool)) return null;
  return { field: "tools",
    message: 'Tools must be a JSON list of {"type": "function", "function": {"name": …}}, or empty' };
}

/** Returns {field, message} if a key cannot be sent in a header, or null. */
export function problemOfKey(key) {
  if (/^[!-~]*$/.test(key)) return null;
  return { field: "key", message: "The API key must have no spaces and only letters of ASCII" };
}

/** Returns the body of a request for an answer. */
export function requestBody(model, messages, settings) {
  const body = { model, messages, stream: true, stream_options: { include_usage: true } };
  const number = (text) => (text.trim() === "" ? undefined : Number(text));
  body.temperature = number(settings.temperature);
  body.top_p = number(settings.topP);
  body.max_tokens = number(settings.maxTokens);
  const tools = settings.toolsOff ? null : parsed(settings.tools);
  if (tools?.length) body.tools = tools;
  return body; // JSON leaves out what is undefined
}

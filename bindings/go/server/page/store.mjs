// Keeps conversations in the browser, each under a key of its own, so that a long one does not make the others slow.
// `storage` is localStorage or anything like it. If the browser refuses to store, conversations last as long as the page.

import { newId, restored } from "./conversation.mjs";

const PREFIX = "quire.conversation.";
const FORMAT = "quire-conversations";

export class ConversationStore {
  constructor(storage) {
    this.storage = storage;
    this.conversations = new Map(); // by id
    for (const key of keysOf(storage)) this.load(key);
  }

  /** Returns all conversations, the latest first. */
  list() {
    return [...this.conversations.values()].sort((a, b) => b.updated - a.updated);
  }

  get(id) {
    return this.conversations.get(id);
  }

  /** Keeps a conversation. Returns false if the browser has no room for it; it then lasts as long as the page. */
  save(conversation) {
    this.conversations.set(conversation.id, conversation);
    return write(this.storage, PREFIX + conversation.id, JSON.stringify(conversation));
  }

  remove(id) {
    this.conversations.delete(id);
    write(this.storage, PREFIX + id, null);
  }

  /** Takes over what another tab has stored. Returns the id of the conversation, or null if the key is another's. */
  load(key) {
    if (!key?.startsWith(PREFIX)) return null;
    const id = key.slice(PREFIX.length);
    const conversation = restored(parsed(read(this.storage, key)));
    if (conversation?.id === id) this.conversations.set(id, conversation);
    else this.conversations.delete(id);
    return id;
  }

  /** Returns the text of a file with some conversations. */
  exported(conversations) {
    return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1) + "\n";
  }

  /** Adds the conversations of an exported file to those that are here. Returns their number, or throws if it has none. */
  import(text) {
    const file = parsed(text);
    if (file?.format !== FORMAT || !Array.isArray(file.conversations)) {
      throw new Error("the file has no conversations: choose one that this page has exported");
    }
    const all = file.conversations.map(restored);
    const bad = all.indexOf(null);
    if (bad >= 0) throw new Error(`conversations[${bad}] of the file is damaged; nothing was imported`);
    for (const conversation of all) if (this.get(conversation.id)) conversation.id = newId();
    if (!all.every((conversation) => this.save(conversation))) throw new Error(FULL);
    return all.length;
  }
}

export const FULL = "the browser has no room left: export or delete conversations";

/** Returns a stored text, or null if there is none or the browser refuses. */
export function read(storage, key) {
  try {
    return storage.getItem(key);
  } catch {
    return null;
  }
}

/** Stores a text, or removes it if it is null. Returns false if the browser refuses. */
export function write(storage, key, text) {
  try {
    if (text === null) storage.removeItem(key);
    else storage.setItem(key, text);
    return true;
  } catch {
    return false;
  }
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Returns the browser's storage, or one in memory if the browser refuses it. */
export function browserStorage() {
  try {
    localStorage.getItem(PREFIX);
    return localStorage;
  } catch {
    return new MemoryStorage();
  }
}

export class MemoryStorage {
  constructor() {
    this.values = new Map();
  }

  get length() { return this.values.size; }

  key(i) { return [...this.values.keys()][i] ?? null; }

  getItem(key) { return this.values.get(key) ?? null; }

  setItem(key, text) { this.values.set(key, String(text)); }

  removeItem(key) { this.values.delete(key); }
}

function keysOf(storage) {
  try {
    return Array.from({ length: storage.length }, (_, i) => storage.key(i));
  } catch {
    return [];
  }
}

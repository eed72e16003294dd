// A conversation is a tree: an edited message or a repeated answer is a sibling of the first one, so nothing that was
// written is lost. Each node is {parent, role, content, ...} in a list, and `parent` is the index of an earlier node, or
// -1. `leaf` is the last node of the branch that is shown.

const ROLES = ["user", "assistant", "tool"];
const MAX_TITLE = 60;

export function newConversation(model, now = Date.now()) {
  return { id: newId(), title: "", model, created: now, updated: now, leaf: -1, nodes: [] };
}

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Adds a node after `parent`, shows its branch, and returns its index. */
export function addNode(conversation, parent, fields, now = Date.now()) {
  conversation.nodes.push({ parent, created: now, ...fields });
  conversation.leaf = conversation.nodes.length - 1;
  conversation.updated = now;
  if (!conversation.title && fields.role === "user") conversation.title = titleOf(fields.content);
  return conversation.leaf;
}

export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ");
  const letters = [...line.slice(0, 4 * MAX_TITLE)];
  return letters.length > MAX_TITLE ? letters.slice(0, MAX_TITLE - 1).join("").trimEnd() + "…" : line;
}

/** Returns the indices of the shown branch, from its first message on. */
export function branch(conversation) {
  const indices = [];
  for (let i = conversation.leaf; i >= 0; i = conversation.nodes[i].parent) indices.push(i);
  return indices.reverse();
}

/** Returns the children of each node, by its index; those of -1 are the first messages. */
export function childrenOf(conversation) {
  const children = new Map();
  conversation.nodes.forEach((node, i) => {
    if (!children.has(node.parent)) children.set(node.parent, []);
    children.get(node.parent).push(i);
  });
  return children;
}

/** Shows the branch of a node, to the latest message after it. */
export function selectNode(conversation, index) {
  const children = childrenOf(conversation);
  let leaf = index;
  while (children.has(leaf)) leaf = children.get(leaf).at(-1);
  conversation.leaf = leaf;
}

/**
 * Returns the messages of a request that continues after a node. An answer without text or calls, such as a failed one,
 * is left out. Reasoning is not sent back, except beside calls, which continue it.
 */
export function requestMessages(conversation, last, system) {
  const messages = system ? [{ role: "system", content: system }] : [];
  for (const index of branch({ ...conversation, leaf: last })) {
    const node = conversation.nodes[index];
    if (node.role === "tool") {
      messages.push({ role: "tool", tool_call_id: node.callId, content: node.content });
    } else if (node.role === "user") {
      messages.push({ role: "user", content: node.content });
    } else if (node.content || node.calls?.length) {
      messages.push(answerMessage(node));
    }
  }
  return messages;
}

function answerMessage(node) {
  const message = { role: "assistant", content: node.content };
  if (!node.calls?.length) return message;
  if (node.reasoning) message.reasoning_content = node.reasoning;
  message.tool_calls = node.calls.map(({ id, name, text }) =>
    ({ id, type: "function", function: { name, arguments: text } }));
  return message;
}

/**
 * Returns a conversation from stored or imported data, or null if it is not one. Unknown fields are dropped. Since every
 * parent comes before its children, no data can make a cycle.
 */
export function restored(value) {
  if (!isObject(value) || !isText(value.id) || !/^[0-9a-f]{16}$/.test(value.id) || !Array.isArray(value.nodes)) return null;
  const nodes = value.nodes.map((node, i) => restoredNode(node, i));
  if (nodes.includes(null)) return null;
  const leaf = Number.isInteger(value.leaf) && value.leaf >= 0 && value.leaf < nodes.length ? value.leaf : nodes.length - 1;
  const [title, model] = [value.title, value.model].map((text) => (isText(text) ? text : ""));
  return { id: value.id, title: titleOf(title), model, created: timeOf(value.created), updated: timeOf(value.updated), leaf,
    nodes };
}

function restoredNode(node, index) {
  if (!isObject(node) || !ROLES.includes(node.role) || !isText(node.content)) return null;
  if (!Number.isInteger(node.parent) || node.parent < -1 || node.parent >= index) return null;
  const made = { parent: node.parent, created: timeOf(node.created), role: node.role, content: node.content };
  for (const field of ["reasoning", "model", "error", "note", "callId"]) if (isText(node[field])) made[field] = node[field];
  if (isObject(node.figures)) made.figures = restoredFigures(node.figures);
  if (Array.isArray(node.calls)) {
    made.calls = node.calls.filter((call) => isObject(call) && [call.id, call.name, call.text].every(isText))
      .map(({ id, name, text }) => ({ id, name, text }));
  }
  return made;
}

function restoredFigures(figures) {
  const made = {};
  for (const field of ["prompt", "tokens", "perSecond", "firstMs"]) {
    if (Number.isFinite(figures[field])) made[field] = figures[field];
  }
  return made;
}

const isObject = (value) => typeof value === "object" && value !== null;
const isText = (value) => typeof value === "string";
const timeOf = (value) => (Number.isFinite(value) && Math.abs(value) < 8e15 ? value : 0);

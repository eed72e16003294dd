// Tests the tree of a conversation, and its store over a storage that fails or has been tampered with.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as conversations from "../../../../../bindings/go/server/page/conversation.mjs";
import { ConversationStore, MemoryStorage, parsed } from "../../../../../bindings/go/server/page/store.mjs";

const { addNode, branch, childrenOf, newConversation, requestMessages, restored, selectNode, titleOf } = conversations;

function talk() {
  const conversation = newConversation("m", 1);
  const question = addNode(conversation, -1, { role: "user", content: "What is a king?" }, 2);
  const answer = addNode(conversation, question, { role: "assistant", content: "A ruler.", reasoning: "hm" }, 3);
  const next = addNode(conversation, answer, { role: "user", content: "And a queen?" }, 4);
  addNode(conversation, next, { role: "assistant", content: "One too." }, 5);
  return conversation;
}

test("AnEditedMessageIsASiblingAndBothBranchesStay", () => {
  const conversation = talk();
  const edited = addNode(conversation, 1, { role: "user", content: "And a duke?" }, 6);
  assert.deepEqual(branch(conversation), [0, 1, edited]);
  assert.deepEqual(childrenOf(conversation).get(1), [2, edited]);
  selectNode(conversation, 2);
  assert.deepEqual(branch(conversation), [0, 1, 2, 3]);
});

test("ASelectedNodeShowsItsLatestMessages", () => {
  const conversation = talk();
  addNode(conversation, 0, { role: "assistant", content: "Again." }, 6);
  selectNode(conversation, 1);
  assert.equal(conversation.leaf, 3);
});

test("ARequestHasTheBranchWithoutReasoningAndFailedAnswers", () => {
  const conversation = talk();
  const failed = addNode(conversation, 2, { role: "assistant", content: "", error: "full" });
  assert.deepEqual(requestMessages(conversation, failed, "Be brief."), [
    { role: "system", content: "Be brief." }, { role: "user", content: "What is a king?" },
    { role: "assistant", content: "A ruler." }, { role: "user", content: "And a queen?" }]);
});

test("ARequestHasCallsAndTheirResults", () => {
  const conversation = newConversation("m");
  addNode(conversation, -1, { role: "user", content: "q" });
  addNode(conversation, 0, { role: "assistant", content: "", reasoning: "r", calls: [{ id: "c1", name: "f", text: "{}" }] });
  addNode(conversation, 1, { role: "tool", callId: "c1", content: "42" });
  assert.deepEqual(requestMessages(conversation, 2, "").slice(1), [
    { role: "assistant", content: "", reasoning_content: "r",
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c1", content: "42" }]);
});

test("ATitleIsTheBeginningOfTheFirstMessage", () => {
  assert.equal(talk().title, "What is a king?");
  assert.equal(titleOf("  a\n\n b "), "a b");
  assert.equal([...titleOf("😀".repeat(100))].length, 60);
});

test("ConversationsOutliveThePage", () => {
  const storage = new MemoryStorage();
  const conversation = talk();
  assert.ok(new ConversationStore(storage).save(conversation));
  const again = new ConversationStore(storage);
  assert.deepEqual(again.list(), [conversation]);
  again.remove(conversation.id);
  assert.equal(new ConversationStore(storage).list().length, 0);
});

test("TheLatestConversationIsFirst", () => {
  const store = new ConversationStore(new MemoryStorage());
  const [old, late] = [newConversation("m", 1), newConversation("m", 2)];
  store.save(late);
  store.save(old);
  assert.deepEqual(store.list(), [late, old]);
});

test("AnExportedConversationIsImportedBesideTheFirst", () => {
  const store = new ConversationStore(new MemoryStorage());
  const conversation = talk();
  store.save(conversation);
  const text = store.exported(store.list());
  assert.equal(store.import(text), 1);
  assert.equal(store.list().length, 2);
  const other = new ConversationStore(new MemoryStorage());
  other.import(text);
  assert.deepEqual(other.get(conversation.id), conversation);
});

test("AFileThatWasNotExportedIsRefusedAndChangesNothing", () => {
  const store = new ConversationStore(new MemoryStorage());
  const good = JSON.parse(store.exported([talk()])).conversations[0];
  for (const text of ["", "{", "[]", "null", '{"format":"quire-conversations"}']) {
    assert.throws(() => store.import(text), /has no conversations/, text);
  }
  const damaged = JSON.stringify({ format: "quire-conversations", conversations: [good, { ...good, nodes: [{}] }] });
  assert.throws(() => store.import(damaged), /conversations\[1\]/);
  assert.equal(store.list().length, 0);
});

test("AStorageThatIsFullKeepsTheConversationInThePage", () => {
  const storage = new MemoryStorage();
  storage.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
  const store = new ConversationStore(storage);
  const conversation = talk();
  assert.equal(store.save(conversation), false);
  assert.equal(store.get(conversation.id), conversation);
});

test("AStorageThatRefusesEverythingIsNoFailure", () => {
  const refuse = () => { throw new DOMException("no", "SecurityError"); };
  const store = new ConversationStore({ get length() { return refuse(); }, getItem: refuse, setItem: refuse, removeItem: refuse });
  store.save(talk());
  store.remove(store.list()[0].id);
  assert.deepEqual(store.list(), []);
});

const ID = "0123456789abcdef";
const node = { parent: -1, role: "user", content: "x" };
const DAMAGED = [null, 1, "x", [], {}, { id: ID }, { id: "../x", nodes: [] }, { id: ID, nodes: {} }, { id: ID, nodes: [null] },
  { id: ID, nodes: [{ ...node, parent: 0 }] }, { id: ID, nodes: [{ ...node, parent: 5 }] }, { id: ID, nodes: [{ ...node, parent: -2 }] },
  { id: ID, nodes: [{ ...node, parent: 0.5 }] }, { id: ID, nodes: [{ ...node, parent: "__proto__" }] },
  { id: ID, nodes: [{ ...node, role: "system" }] }, { id: ID, nodes: [{ ...node, content: { toString: "x" } }] }];

test("DamagedConversationsAreLeftOut", () => {
  for (const value of DAMAGED) assert.equal(restored(value), null, JSON.stringify(value));
  const storage = new MemoryStorage();
  DAMAGED.forEach((value, i) => storage.setItem("quire.conversation." + i, JSON.stringify(value)));
  storage.setItem("quire.conversation." + ID, "{");
  storage.setItem("quire.conversation.ffffffffffffffff", JSON.stringify({ id: ID, nodes: [] })); // an id of another key
  storage.setItem("other", "{}");
  assert.deepEqual(new ConversationStore(storage).list(), []);
});

test("AWrongLeafAndWrongFieldsAreRepaired", () => {
  const text = JSON.stringify({ id: ID, leaf: 99, title: 5, updated: 1e300, hostile: 1,
    nodes: [{ ...node, calls: [1, { id: 1 }], figures: { tokens: "9", perSecond: 2 }, error: {}, extra: 1 }] });
  assert.deepEqual(restored(parsed(text)), { id: ID, title: "", model: "", created: 0, updated: 0, leaf: 0,
    nodes: [{ ...node, created: 0, figures: { perSecond: 2 }, calls: [] }] });
});

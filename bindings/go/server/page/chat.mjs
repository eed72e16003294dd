// Runs answers and keeps them in their conversations. An answer goes on if the reader opens another conversation.

import { chunks, Collector } from "./answers.mjs";
import { addNode, newConversation, requestMessages, selectNode } from "./conversation.mjs";
import { requestBody } from "./settings.mjs";
import { FULL } from "./store.mjs";

const SAVE_MS = 2000;

export class Chat {
  /**
   * `view` has changed(conversation), grown(conversation, index), problem(message), keyNeeded() and report(text);
   * `choices` has model(), settings(model) and key().
   */
  constructor(store, choices, view) {
    this.store = store;
    this.choices = choices;
    this.view = view;
    this.runs = new Map(); // by id of the conversation: {controller, index}
    this.isLeft = false;
    this.current = newConversation("");
  }

  /** Returns the run of the shown conversation, or undefined. */
  get running() {
    return this.runs.get(this.current.id);
  }

  open(conversation) {
    this.current = conversation;
    this.view.changed(conversation);
  }

  /** Begins a new conversation. It is stored with its first message. */
  begin() {
    this.open(newConversation(this.choices.model()));
  }

  /** Adds a message of the user after a node and answers it. */
  send(text, parent = this.current.leaf) {
    const conversation = this.current;
    const index = addNode(conversation, parent, { role: "user", content: text });
    return this.answer(conversation, index);
  }

  /** Answers anew the message before an answer. An answer that failed without any text gives its place. */
  regenerate(index) {
    const conversation = this.current;
    const node = conversation.nodes[index];
    const isEmpty = !node.content && !node.reasoning && !node.calls?.length;
    if (isEmpty && index === conversation.nodes.length - 1) conversation.nodes.pop();
    return this.answer(conversation, node.parent);
  }

  /** Adds the results of the calls of an answer and continues after them. */
  sendResults(index, results) {
    const conversation = this.current;
    let last = index;
    conversation.nodes[index].calls.forEach((call, i) => {
      last = addNode(conversation, last, { role: "tool", callId: call.id, content: results[i] });
    });
    return this.answer(conversation, last);
  }

  select(index) {
    selectNode(this.current, index);
    this.save(this.current);
    this.view.changed(this.current);
  }

  stop(id = this.current.id) {
    this.runs.get(id)?.controller.abort();
  }

  remove(conversation) {
    this.stop(conversation.id);
    this.store.remove(conversation.id);
    if (conversation === this.current) this.begin();
    else this.view.changed(this.current);
  }

  /** Saves what was written so far. The browser then cuts off the answers, which is not a failure to keep. */
  leave() {
    for (const id of this.runs.keys()) if (this.store.get(id)) this.save(this.store.get(id));
    this.isLeft = true;
  }

  save(conversation) {
    if (this.isLeft) return;
    if (!this.store.save(conversation)) this.view.problem(FULL);
  }

  async answer(conversation, parent) {
    const model = this.choices.model();
    const settings = this.choices.settings(model);
    const messages = requestMessages(conversation, parent, settings.system);
    const index = addNode(conversation, parent, { role: "assistant", content: "", model, note: "interrupted" });
    const run = { controller: new AbortController(), index };
    conversation.model = model;
    this.runs.set(conversation.id, run);
    this.save(conversation);
    this.view.changed(conversation);
    this.view.report("Answering");
    await this.collect(conversation, run, requestBody(model, messages, settings));
    this.runs.delete(conversation.id);
    if (this.store.get(conversation.id) === conversation) this.save(conversation);
    this.view.changed(conversation);
  }

  /** Collects an answer in its node. Until it ends, the note of the node is what a reader finds after a crash. */
  async collect(conversation, { controller, index }, body) {
    const node = conversation.nodes[index];
    const collector = new Collector(node, performance.now());
    let saved = performance.now();
    try {
      for await (const chunk of chunks(body, this.choices.key(), controller.signal)) {
        collector.take(chunk, performance.now());
        this.view.grown(conversation, index);
        if (performance.now() - saved > SAVE_MS) {
          saved = performance.now();
          this.save(conversation);
        }
      }
      node.note = collector.finish === "length" ? "cut off by the limit of tokens" : "";
      this.view.report("The answer is complete");
    } catch (problem) {
      this.fail(node, problem);
    }
  }

  fail(node, problem) {
    node.note = problem.name === "AbortError" ? "stopped" : "";
    if (!node.note) node.error = problem.message;
    this.view.report(node.note || node.error);
    if (problem.status === 401) this.view.keyNeeded();
  }
}

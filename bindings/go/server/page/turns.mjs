// Shows the branch of a conversation: a turn for each message, with its buttons.

import { figuresText } from "./answers.mjs";
import { branch, childrenOf } from "./conversation.mjs";
import { button, copyButton, element } from "./dom.mjs";
import { callForm, editor } from "./editors.mjs";
import { MarkdownView } from "./render.mjs";

const NAMES = { user: "You", tool: "Result of the tool" };
const MIN_RENDER_MS = 40;
const RENDER_SHARE = 4; // a view that renders for t ms then waits for 4 t, so the page stays responsive

export class TurnsView {
  /** `actions` has edit(index, text), regenerate(index), select(index) and sendResults(index, texts). */
  constructor(root, actions) {
    this.root = root;
    this.actions = actions;
    this.turns = new Map(); // by node
  }

  /** Shows a branch. Turns that are shown already keep their elements, and so selection, focus and folds. */
  show(conversation, running) {
    const children = childrenOf(conversation);
    const turns = new Map();
    branch(conversation).forEach((index, place) => {
      const node = conversation.nodes[index];
      const turn = this.turns.get(node) ?? new Turn(node, index, this.actions);
      turns.set(node, turn);
      const isRunning = running?.index === index;
      turn.update({ isRunning, isBusy: running !== undefined, versions: children.get(node.parent),
        hasResults: children.has(index) });
      const there = this.root.children[place] ?? null;
      if (there !== turn.element) this.root.insertBefore(turn.element, there);
    });
    while (this.root.children.length > turns.size) this.root.lastElementChild.remove();
    this.turns = turns;
  }

  grown(node) {
    this.turns.get(node)?.renderSoon();
  }

  editLast() {
    [...this.turns.values()].findLast((turn) => turn.node.role === "user")?.edit();
  }
}

class Turn {
  constructor(node, index, actions) {
    this.node = node;
    this.index = index;
    this.actions = actions;
    this.state = { isRunning: false, isBusy: false, versions: [index], hasResults: false };
    this.isDue = false;
    this.rendered = 0; // time of the last rendering, and how long it took
    this.cost = 0;
    const name = NAMES[node.role] ?? (node.model || "Assistant");
    this.text = element("div", { class: node.role === "assistant" ? "text markdown" : "text", dir: "auto" });
    this.markdown = node.role === "assistant" ? new MarkdownView(this.text) : null;
    this.reasoning = null;
    this.calls = element("div", { class: "calls" });
    this.problem = element("p", { class: "error" });
    this.footer = element("footer", {});
    this.element = element("article", { class: "turn " + node.role, "aria-label": name }, element("b", {}, name),
      this.text, this.calls, this.problem, this.footer);
  }

  update(state) {
    this.state = state;
    this.element.classList.toggle("running", state.isRunning);
    this.element.setAttribute("aria-busy", String(state.isRunning));
    this.render();
    this.showCalls();
    if (!this.editing) this.footer.replaceChildren(...this.footerParts());
  }

  /** Renders once a frame, or less often if the text is long. */
  renderSoon() {
    if (this.isDue) return;
    this.isDue = true;
    const wait = Math.max(MIN_RENDER_MS, RENDER_SHARE * this.cost) - (performance.now() - this.rendered);
    setTimeout(() => requestAnimationFrame(() => {
      this.isDue = false;
      if (!this.state.isRunning) return; // its end has rendered it
      this.render();
      this.figures?.replaceChildren(figuresText(this.node.figures ?? {}));
      this.element.dispatchEvent(new Event("grown", { bubbles: true }));
    }), Math.max(0, wait));
  }

  render() {
    const begin = performance.now();
    const { node } = this;
    this.showReasoning();
    if (this.markdown) this.markdown.update(node.content);
    else if (!this.editing) this.text.replaceChildren(node.content);
    const isSilent = this.state.isRunning && !node.content;
    this.element.classList.toggle("waiting", isSilent);
    const note = this.state.isRunning ? "" : node.note;
    this.problem.textContent = node.error || (note ? `(${note})` : "");
    this.problem.hidden = !this.problem.textContent;
    this.rendered = performance.now();
    this.cost = this.rendered - begin;
  }

  /** Reasoning is folded until the reader opens it. */
  showReasoning() {
    if (!this.node.reasoning) return;
    if (!this.reasoning) {
      const text = element("div", { class: "markdown" });
      const summary = element("summary", {});
      this.reasoning = { summary, text, view: new MarkdownView(text) };
      this.reasoning.element = element("details", { class: "reasoning", toggle: () => this.showReasoning() }, summary, text);
      this.text.before(this.reasoning.element);
    }
    const isReasoning = this.state.isRunning && !this.node.content;
    this.reasoning.summary.textContent = isReasoning ? "Reasoning …" : "Reasoning";
    if (this.reasoning.element.open) this.reasoning.view.update(this.node.reasoning);
  }

  showCalls() {
    const { node, state } = this;
    if (!node.calls?.length || state.isRunning || this.calls.hasChildNodes()) {
      if (state.hasResults) this.calls.querySelector("form")?.remove();
      return;
    }
    for (const call of node.calls) {
      this.calls.append(element("p", { class: "call" }, "Call of ", element("code", {}, call.name)),
        element("pre", { tabindex: "0", "aria-label": "Arguments" }, element("code", {}, call.text)));
    }
    if (!state.hasResults) {
      this.calls.append(callForm(node.calls, (texts) => this.actions.sendResults(this.index, texts)));
    }
  }

  footerParts() {
    const { node, state } = this;
    this.figures = element("span", { class: "figures" }, figuresText(node.figures ?? {}));
    const parts = node.role === "assistant" ? [this.figures] : [];
    if (state.versions.length > 1) parts.push(this.versionButtons());
    if (state.isRunning) return parts;
    parts.push(copyButton(() => node.content, "Copy the message"));
    if (node.role === "user") parts.push(this.footerButton("Edit", "Edit the message", () => this.edit()));
    if (node.role === "assistant") {
      const word = node.error ? "Try again" : "Regenerate";
      parts.push(this.footerButton(word, word, () => this.actions.regenerate(this.index)));
    }
    return parts;
  }

  footerButton(text, label, click) {
    return button(text, { class: "quiet", "aria-label": label, disabled: this.state.isBusy, click });
  }

  versionButtons() {
    const { versions, isBusy } = this.state;
    const place = versions.indexOf(this.index);
    const step = (text, label, to) => button(text, { class: "quiet", "aria-label": label,
      disabled: isBusy || versions[to] === undefined, click: () => this.actions.select(versions[to]) });
    return element("span", { class: "versions" }, step("‹", "Earlier version", place - 1),
      `${place + 1}/${versions.length}`, step("›", "Later version", place + 1));
  }

  edit() {
    if (this.editing || this.state.isBusy) return;
    this.editing = editor(this.node.content, (text) => {
      this.editing = null;
      this.render();
      this.footer.replaceChildren(...this.footerParts());
      if (text !== null) this.actions.edit(this.index, text);
    });
    this.text.replaceChildren(this.editing.element);
    this.footer.replaceChildren();
    this.editing.focus();
  }
}

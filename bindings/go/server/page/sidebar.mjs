// Lists the conversations of this browser.

import { button, element } from "./dom.mjs";

export class Sidebar {
  /** `actions` has open(conversation), rename(conversation, title), exportOne(conversation) and remove(conversation). */
  constructor(list, actions) {
    this.list = list;
    this.actions = actions;
    this.renaming = null; // id
  }

  show(conversations, current, runs) {
    if (this.renaming) return; // a field with what the reader types
    this.list.replaceChildren(...conversations.map((conversation) =>
      this.item(conversation, conversation.id === current.id, runs.has(conversation.id))));
  }

  item(conversation, isCurrent, isRunning) {
    const title = conversation.title || "Untitled";
    const open = button((isRunning ? "… " : "") + title, { class: "open", dir: "auto", title,
      "aria-current": isCurrent && "true", click: () => this.actions.open(conversation) });
    const item = element("li", {}, open);
    const action = (text, act) => button(text, { class: "quiet", "aria-label": `${text} ${title}`, click: () => {
      menu.open = false;
      act();
    } });
    const menu = element("details", { name: "more" }, element("summary", { "aria-label": `Actions of ${title}` }, "⋯"),
      element("div", { class: "row" }, action("Rename", () => this.rename(item, conversation)),
        action("Export", () => this.actions.exportOne(conversation)),
        action("Delete", () => this.actions.remove(conversation))));
    item.append(menu);
    return item;
  }

  rename(item, conversation) {
    const field = element("input", { "aria-label": "Title", maxlength: "60" });
    field.value = conversation.title;
    const end = (title) => {
      if (this.renaming === null) return; // Enter also takes the focus away
      this.renaming = null;
      this.actions.rename(conversation, title);
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) end(field.value);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      end(conversation.title);
    });
    field.addEventListener("blur", () => end(field.value));
    this.renaming = conversation.id;
    item.replaceChildren(field);
    field.select();
  }
}

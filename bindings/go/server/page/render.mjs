// Turns parsed Markdown into nodes of the document. Only elements of this file are made, and texts and addresses of
// a model become text nodes and checked `href`s; nothing is parsed as HTML.

import { parseBlocks } from "./blocks.mjs";
import { copyButton, element } from "./dom.mjs";
import { parseInline } from "./inline.mjs";

/** View of a Markdown text that grows. Blocks that have not changed keep their nodes, and so a selection in them. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.shown = []; // {raw, block, node}
  }

  update(text) {
    const blocks = parseBlocks(text);
    let same = 0;
    while (same < blocks.length && same < this.shown.length && this.shown[same].raw === blocks[same].raw) same++;
    if (same < blocks.length && same < this.shown.length && extendCode(this.shown[same], blocks[same])) same++;
    for (const old of this.shown.splice(same)) old.node.remove();
    for (const block of blocks.slice(same)) {
      const node = blockNode(block);
      this.shown.push({ raw: block.raw, block, node });
      this.root.append(node);
    }
  }
}

/** Appends what is new to a code block that is being written. Returns false if it is another block. */
function extendCode(shown, block) {
  const old = shown.block;
  if (old.type !== "code" || block.type !== "code" || old.language !== block.language || !block.text.startsWith(old.text)) {
    return false;
  }
  shown.node.querySelector("code").append(block.text.slice(old.text.length));
  shown.raw = block.raw;
  old.text = block.text; // the copy button reads it
  return true;
}

const BLOCKS = {
  heading: (block) => element("h" + Math.min(6, block.level + 2), { dir: "auto" }, ...inlineNodes(block.text)),
  paragraph: (block) => element("p", { dir: "auto" }, ...inlineNodes(block.text)),
  quote: (block) => element("blockquote", {}, ...block.children.map(blockNode)),
  rule: () => element("hr"),
  code: codeNode,
  list: listNode,
  table: tableNode,
};

const blockNode = (block) => BLOCKS[block.type](block);

function codeNode(block) {
  const bar = element("div", { class: "bar" }, element("span", {}, block.language || "text"),
    copyButton(() => block.text, "Copy the code"));
  return element("div", { class: "code" }, bar,
    element("pre", { tabindex: "0", "aria-label": "Code" }, element("code", {}, block.text)));
}

function listNode(block) {
  const items = block.items.map((item) => {
    const children = item.children.map(blockNode);
    if (item.isChecked === null) return element("li", { dir: "auto" }, ...children);
    const box = element("input", { type: "checkbox", disabled: true, checked: item.isChecked, "aria-label": "Task" });
    return element("li", { class: "task", dir: "auto" }, box, ...children);
  });
  return element(block.isOrdered ? "ol" : "ul", { start: block.isOrdered && block.start !== 1 && block.start }, ...items);
}

function tableNode(block) {
  const row = (tag, cells) => element("tr", {}, ...cells.map((cell, i) =>
    element(tag, { class: block.aligns[i], dir: "auto", scope: tag === "th" && "col" }, ...inlineNodes(cell))));
  const table = element("table", {}, element("thead", {}, row("th", block.header)),
    element("tbody", {}, ...block.rows.map((cells) => row("td", cells))));
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

const linkAttributes = (href) => ({ href, target: "_blank", rel: "noopener noreferrer nofollow", title: href });

const TAGS = { strong: "strong", emphasis: "em", strike: "s" };

function inlineNodes(text) {
  return parseInline(text).map(inlineNode);
}

/** The depth of the tree is limited by parseInline. */
function inlineNode(node) {
  switch (node.type) {
    case "text": return document.createTextNode(node.text);
    case "code": return element("code", {}, node.text);
    case "break": return element("br");
    case "link": return element("a", linkAttributes(node.href), ...node.children.map(inlineNode));
    default: return element(TAGS[node.type], {}, ...node.children.map(inlineNode));
  }
}

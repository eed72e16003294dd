// Parses the Markdown inside a paragraph, heading or cell into a tree. The time is linear in the text, and the
// depth of the tree is limited, whatever a model writes.
//
// Nodes: {type: "text" | "code", text}, {type: "strong" | "emphasis" | "strike", children},
// {type: "link", href, children}, {type: "break"}.

const MAX_DEPTH = 16;
const MAX_ADDRESS = 2048;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const SPECIAL = /[\\`*_~[\]!<&\n]|h(?=ttps?:\/\/)|m(?=ailto:)/gi;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** Returns the address if a link may open it, otherwise null: only the web and mail, and no address of scripts. */
export function safeAddress(address) {
  if (address.length > MAX_ADDRESS || !/^(https?:\/\/|mailto:)[^\s<>"]+$/i.test(address)) return null;
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function parseInline(text) {
  const scanner = new Scanner(text);
  scanner.run();
  return treeOf(scanner.items);
}

// The scanner writes a flat list of items: {node}, {text}, and runs of delimiters and brackets, which are text
// until a later one matches them. A matched item gets `closes` and `opens`: how many nodes end and begin there.
class Scanner {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.items = [];
    this.plain = "";
    this.delimiters = []; // runs of * _ ~ that may still match
    this.brackets = []; // [ and ![ that may still begin a link
    this.activeLinks = 0; // brackets before this index cannot begin one: links do not nest
    this.activeImages = 0;
    this.ticks = positionsOfTicks(text);
  }

  run() {
    const { text } = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const match = SPECIAL.exec(text);
      const next = match ? match.index : text.length;
      this.plain += text.slice(this.at, next);
      this.at = next;
      if (match && !this.special(match[0])) this.plain += text[this.at++];
    }
    this.flush();
    matchDelimiters(this.delimiters, 0);
  }

  flush() {
    if (this.plain) this.items.push({ text: this.plain });
    this.plain = "";
  }

  push(item) {
    this.flush();
    this.items.push(item);
    return item;
  }

  /** Reads the construct that begins here. Returns false if the character is only text. */
  special(letter) {
    switch (letter) {
      case "\n": return this.lineBreak(1);
      case "\\": return this.escape();
      case "`": return this.code();
      case "*": case "_": case "~": return this.delimiter(letter);
      case "!": return this.text[this.at + 1] === "[" && this.openBracket(true);
      case "[": return this.openBracket(false);
      case "]": return this.closeBracket();
      case "<": return this.angle();
      case "&": return this.entity();
      default: return this.bareAddress();
    }
  }

  lineBreak(length) {
    this.plain = this.plain.trimEnd();
    this.push({ node: { type: "break" } });
    this.at += length;
    return true;
  }

  /** Brackets keep their backslash, since models write formulas as \( and \[. */
  escape() {
    const next = this.text[this.at + 1];
    if (next === "\n") return this.lineBreak(2);
    if (next === undefined || !PUNCTUATION.test(next)) return false;
    this.plain += "()[]".includes(next) ? "\\" + next : next;
    this.at += 2;
    return true;
  }

  code() {
    const begin = this.at;
    const end = this.endOfRun("`");
    const length = end - begin;
    const places = this.ticks.get(length) ?? [];
    while (places.length && places[places.length - 1] < end) places.pop();
    if (!places.length) {
      this.plain += this.text.slice(begin, end);
      this.at = end;
      return true;
    }
    const close = places.pop();
    let text = this.text.slice(end, close).replace(/\n/g, " ");
    if (text.startsWith(" ") && text.endsWith(" ") && text.trim()) text = text.slice(1, -1);
    this.push({ node: { type: "code", text } });
    this.at = close + length;
    return true;
  }

  endOfRun(letter) {
    let end = this.at;
    while (this.text[end] === letter) end++;
    return end;
  }

  delimiter(letter) {
    const begin = this.at;
    const end = this.endOfRun(letter);
    const before = begin ? this.text[begin - 1] : " ";
    const after = end < this.text.length ? this.text[end] : " ";
    let opens = !/\s/.test(after);
    let closes = !/\s/.test(before);
    if (letter === "_") { // not inside a word
      if (opens && closes) [opens, closes] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
    }
    const count = end - begin;
    const item = this.push({ text: this.text.slice(begin, end), letter, count, canOpen: opens, canClose: closes, opens: [],
      closes: [] });
    if ((opens || closes) && (letter !== "~" || count === 2)) this.delimiters.push(item);
    this.at = end;
    return true;
  }

  openBracket(isImage) {
    const text = isImage ? "![" : "[";
    const item = this.push({ text, opens: [], isImage, numDelimiters: this.delimiters.length, place: this.items.length });
    this.brackets.push(item);
    this.at += text.length;
    return true;
  }

  /** Ends a link if an address follows. An image becomes a link to it, since the page loads nothing. */
  closeBracket() {
    const open = this.brackets.pop();
    const place = this.brackets.length;
    const isActive = open && place >= (open.isImage ? this.activeImages : this.activeLinks);
    this.activeLinks = Math.min(this.activeLinks, place);
    this.activeImages = Math.min(this.activeImages, place);
    const target = isActive && this.address(this.at + 1);
    if (!target) return false;
    matchDelimiters(this.delimiters, open.numDelimiters);
    const href = safeAddress(target.address);
    if (href === null) { // an address that is not opened stays visible
      this.plain += this.text.slice(this.at, target.end);
      this.at = target.end;
      return true;
    }
    this.flush();
    unlink(this.items, open.place);
    open.text = "";
    open.opens = [{ type: "link", href }];
    this.items.push({ text: "", closes: [1], opens: [], isLinkEnd: true });
    this.at = target.end;
    this.activeImages = place;
    if (!open.isImage) this.activeLinks = place;
    return true;
  }

  /** Reads "(ADDRESS)" or "(ADDRESS "TITLE")" at a place. */
  address(at) {
    if (this.text[at] !== "(") return null;
    const found = /^\(\s*<?((?:[^\s()<>\\]|\\.|\([^\s()<>]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/
      .exec(this.text.slice(at, at + MAX_ADDRESS + 256));
    return found && { address: found[1].replace(/\\(.)/g, "$1"), end: at + found[0].length };
  }

  /** Reads <https://ADDRESS> and <br>. Other tags are text. */
  angle() {
    const rest = this.text.slice(this.at, this.at + MAX_ADDRESS + 2);
    const br = /^<br ?\/?>/i.exec(rest);
    if (br) return this.lineBreak(br[0].length);
    const auto = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest);
    return auto !== null && this.link(auto[1], auto[0].length);
  }

  entity() {
    const found = /^&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,4}));/i.exec(this.text.slice(this.at, this.at + 12));
    if (!found) return false;
    const code = found[1] ? Number(found[1]) : parseInt(found[2], 16);
    const isCode = !found[3] && code > 31 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    const letter = isCode ? String.fromCodePoint(code) : Object.hasOwn(ENTITIES, found[3] || "") && ENTITIES[found[3]];
    if (!letter) return false;
    this.plain += letter;
    this.at += found[0].length;
    return true;
  }

  bareAddress() {
    if (this.at && /\w/.test(this.text[this.at - 1])) return false;
    const found = /^(?:https?:\/\/|mailto:)[^\s<>"`]+/i.exec(this.text.slice(this.at, this.at + MAX_ADDRESS));
    if (!found) return false;
    return this.link(trimmedAddress(found[0]), null);
  }

  link(address, length) {
    const href = safeAddress(address);
    if (href === null) return false;
    this.push({ node: { type: "link", href, children: [{ type: "text", text: address }] } });
    this.at += length ?? address.length;
    return true;
  }
}

/** Turns the links from a place on into their texts, since a link around them begins there. */
function unlink(items, place) {
  for (const item of items.slice(place)) {
    if (item.node?.type === "link") item.node = item.node.children[0];
    if (item.opens?.[0]?.type === "link") item.opens = [];
    if (item.isLinkEnd) item.closes = [];
  }
}

/** Returns the places of runs of backticks by their length, the last first. */
function positionsOfTicks(text) {
  const places = new Map();
  for (const match of text.matchAll(/`+/g)) {
    const list = places.get(match[0].length) ?? [];
    list.push(match.index);
    places.set(match[0].length, list);
  }
  for (const list of places.values()) list.reverse();
  return places;
}

/** Removes the punctuation of the sentence from the end of an address. */
function trimmedAddress(address) {
  let surplus = (address.match(/\)/g) ?? []).length - (address.match(/\(/g) ?? []).length;
  let end = address.length;
  for (; end > 0; end--) {
    const last = address[end - 1];
    if (last === ")" && surplus > 0) surplus--;
    else if (!".,:;!?*_~'|]".includes(last)) break;
  }
  return address.slice(0, end);
}

const KINDS = { "*": ["emphasis", "strong"], _: ["emphasis", "strong"], "~": ["strike", "strike"] };

/**
 * Matches runs of delimiters from `bottom` on and removes them from the list, as CommonMark does: the nearest
 * opening run of the same letter wins. `bottoms` remembers where a search was in vain, which keeps it linear.
 */
function matchDelimiters(delimiters, bottom) {
  const open = [];
  const bottoms = new Map();
  for (const run of delimiters.splice(bottom)) {
    while (run.canClose && run.count) {
      const key = run.letter + run.canOpen + (run.text.length % 3);
      const lowest = bottoms.get(key) ?? 0;
      let i = open.length - 1;
      while (i >= lowest && !matches(open[i], run)) i--;
      if (i < lowest) {
        bottoms.set(key, open.length);
        break;
      }
      open.length = i + 1;
      const opener = open[i];
      const used = Math.min(2, opener.count, run.count);
      opener.opens.unshift({ type: KINDS[run.letter][used - 1] });
      run.closes.push(1);
      opener.count -= used;
      run.count -= used;
      if (!opener.count) open.pop();
    }
    if (run.canOpen && run.count) open.push(run);
  }
}

function matches(opener, closer) {
  if (opener.letter !== closer.letter) return false;
  const isOddMatch = (opener.canClose || closer.canOpen) && (opener.text.length + closer.text.length) % 3 === 0
    && opener.text.length % 3 !== 0;
  return !isOddMatch;
}

/** Builds the tree. Nodes deeper than the limit are left out, and their children move up. */
function treeOf(items) {
  const root = [];
  const stack = [root];
  for (const item of items) {
    if (item.node) {
      top(stack).push(item.node);
      continue;
    }
    (item.closes ?? []).forEach(() => stack.pop());
    const text = item.letter ? item.letter.repeat(item.count) : item.text;
    if (text) top(stack).push({ type: "text", text });
    for (const node of item.opens ?? []) {
      if (stack.length <= MAX_DEPTH) {
        node.children = [];
        top(stack).push(node);
        stack.push(node.children);
      } else {
        stack.push(top(stack));
      }
    }
  }
  return root;
}

const top = (stack) => stack[stack.length - 1];

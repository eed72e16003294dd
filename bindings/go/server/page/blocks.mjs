// Parses Markdown into blocks: what models write of CommonMark and of GitHub's tables. A line of text costs the
// same at every length of the document, and blocks nest at most MAX_DEPTH deep; deeper ones are text.
//
// Blocks: {type: "heading", level, text}, {type: "paragraph", text}, {type: "code", language, text},
// {type: "quote", children}, {type: "list", isOrdered, start, items: [{isChecked, children}]},
// {type: "table", aligns, header, rows}, {type: "rule"}. Texts of headings, paragraphs and cells are for
// parseInline. Each block of the document has `raw`, the lines that it was read from.

const MAX_DEPTH = 10;
const MAX_COLUMNS = 64;
const FENCE = /^ *(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const MARKER = /^([ \t]*)([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;

export function parseBlocks(text) {
  return parseLines(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function parseLines(lines, depth) {
  if (depth > MAX_DEPTH) return [{ type: "paragraph", text: lines.join("\n") }];
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at++;
      continue;
    }
    const [block, end] = readBlock(lines, at, depth);
    if (depth === 0) block.raw = lines.slice(at, end).join("\n");
    blocks.push(block);
    at = end;
  }
  return blocks;
}

/** Returns the block at a line, and the line after it. */
function readBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return readCode(lines, at);
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  const heading = HEADING.exec(line);
  if (heading) {
    const text = (heading[2] ?? "").trimEnd();
    return [{ type: "heading", level: heading[1].length, text: withoutClosingSigns(text) }, at + 1];
  }
  if (/^ *>/.test(line)) return readQuote(lines, at, depth);
  if (markerOf(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at);
}

function withoutClosingSigns(text) {
  let end = text.length;
  while (end && text[end - 1] === "#") end--;
  return end === 0 || text[end - 1] === " " ? text.slice(0, end).trimEnd() : text;
}

/** Reads a fenced block. One that does not end yet goes to the end of the text, as an answer being written has it. */
function readCode(lines, at) {
  const [, fence, info] = FENCE.exec(lines[at]);
  const indent = indentOf(lines[at]);
  const text = [];
  let end = at + 1;
  for (; end < lines.length; end++) {
    const closing = lines[end].trim();
    if (closing.length >= fence.length && closing[0] === fence[0] && isOnly(closing, fence[0])) break;
    text.push(withoutIndent(lines[end], indent));
  }
  const language = info.trim().split(/[\s{]/)[0];
  return [{ type: "code", language, text: text.join("\n") }, Math.min(end + 1, lines.length)];
}

const isOnly = (text, letter) => text === letter.repeat(text.length);

function readQuote(lines, at, depth) {
  const inner = [];
  let end = at;
  for (; end < lines.length; end++) {
    const quoted = /^ *> ?/.exec(lines[end]);
    if (!quoted && (isBlank(lines[end]) || endsParagraph(lines, end))) break;
    inner.push(quoted ? lines[end].slice(quoted[0].length) : lines[end]);
  }
  return [{ type: "quote", children: parseLines(inner, depth + 1) }, end];
}

function markerOf(line) {
  const found = MARKER.exec(line);
  if (!found || RULE.test(line)) return null;
  const indent = columnsOf(found[1]);
  const isOrdered = found[2].length > 1;
  return { indent, isOrdered, start: parseInt(found[2], 10), sign: found[2][found[2].length - 1], text: found[4] ?? "",
    content: indent + found[2].length + 1 };
}

function readList(lines, at, depth) {
  const first = markerOf(lines[at]);
  const list = { type: "list", isOrdered: first.isOrdered, start: first.isOrdered ? first.start : 1, items: [] };
  while (at < lines.length) {
    const begin = skipBlank(lines, at);
    const marker = begin < lines.length && markerOf(lines[begin]);
    if (!marker || marker.isOrdered !== first.isOrdered || marker.sign !== first.sign) break;
    const [body, end] = readItem(lines, begin, marker);
    list.items.push(itemOf(body, depth));
    at = end;
  }
  return [list, at];
}

/** Returns the lines of an item without their indentation, and the line after it. Two columns are enough to belong. */
function readItem(lines, at, marker) {
  const body = [marker.text];
  let columns = marker.content; // models often indent by less
  let end = at + 1;
  while (end < lines.length) {
    const next = skipBlank(lines, end);
    if (next === lines.length) break;
    const belongs = indentOf(lines[next]) >= marker.indent + 2;
    const continues = next === end && !isBlank(body.at(-1)) && !endsParagraph(lines, next) && !markerOf(lines[next]);
    if (!belongs && !continues) break;
    for (; end < next; end++) body.push("");
    if (belongs) columns = Math.min(columns, indentOf(lines[end]));
    body.push(withoutIndent(lines[end++], columns));
  }
  return [body, end];
}

function itemOf(body, depth) {
  const task = /^\[([ xX])\] /.exec(body[0]);
  if (task) body[0] = body[0].slice(4);
  return { isChecked: task ? task[1] !== " " : null, children: parseLines(body, depth + 1) };
}

function isTable(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|")) return false;
  const aligns = alignsOf(lines[at + 1]);
  return aligns !== null && aligns.length <= MAX_COLUMNS && cellsOf(lines[at]).length === aligns.length;
}

/** Returns the alignment of each column, or null if the line does not separate a header from rows. */
function alignsOf(line) {
  if (!line.includes("-") || /[^-:|\s]/.test(line)) return null;
  const cells = cellsOf(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "right";
    return cell.startsWith(":") ? "left" : "";
  });
}

function cellsOf(line) {
  const row = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return row.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function readTable(lines, at) {
  const aligns = alignsOf(lines[at + 1]);
  const table = { type: "table", aligns, header: cellsOf(lines[at]), rows: [] };
  let end = at + 2;
  for (; end < lines.length && !isBlank(lines[end]) && lines[end].includes("|"); end++) {
    const cells = cellsOf(lines[end]).slice(0, aligns.length);
    while (cells.length < aligns.length) cells.push("");
    table.rows.push(cells);
  }
  return [table, end];
}

function readParagraph(lines, at) {
  const text = [lines[at].trim()];
  let end = at + 1;
  for (; end < lines.length && !isBlank(lines[end]); end++) {
    if (/^ {0,3}=+\s*$/.test(lines[end])) return [{ type: "heading", level: 1, text: text.join("\n") }, end + 1];
    if (endsParagraph(lines, end)) break;
    text.push(lines[end].trim());
  }
  return [{ type: "paragraph", text: text.join("\n") }, end];
}

/** Reports whether a line begins a block of another kind. A number other than 1 may be the end of a sentence. */
function endsParagraph(lines, at) {
  const line = lines[at];
  const marker = markerOf(line);
  return FENCE.test(line) || RULE.test(line) || HEADING.test(line) || /^ *>/.test(line)
    || (marker !== null && marker.text !== "" && (!marker.isOrdered || marker.start === 1)) || isTable(lines, at);
}

const isBlank = (line) => line.trim() === "";

function skipBlank(lines, at) {
  while (at < lines.length && isBlank(lines[at])) at++;
  return at;
}

const columnsOf = (space) => [...space].reduce((sum, letter) => sum + (letter === "\t" ? 4 : 1), 0);

const indentOf = (line) => columnsOf(/^[ \t]*/.exec(line)[0]);

/** Removes indentation up to a number of columns. */
function withoutIndent(line, columns) {
  let at = 0;
  while (columns > 0 && (line[at] === " " || line[at] === "\t")) {
    columns -= line[at] === "\t" ? 4 : 1;
    at++;
  }
  return " ".repeat(Math.max(0, -columns)) + line.slice(at);
}

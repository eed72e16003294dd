// Tests the Markdown of the page, and that hostile text costs little time and no depth.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseBlocks } from "../../../../../bindings/go/server/page/blocks.mjs";
import { parseInline, safeAddress } from "../../../../../bindings/go/server/page/inline.mjs";

// Short form of a tree: *emphasis*, **strong**, ~strike~, `code`, <address|text>, / for a line break.
const MARKS = { emphasis: ["(", ")"], strong: ["((", "))"], strike: ["~", "~"] };

function short(nodes) {
  return nodes.map((node) => {
    switch (node.type) {
      case "text": return node.text;
      case "code": return "`" + node.text + "`";
      case "break": return "/";
      case "link": return `<${node.href}|${short(node.children)}>`;
      default: return MARKS[node.type][0] + short(node.children) + MARKS[node.type][1];
    }
  }).join("");
}

const inline = (text) => short(parseInline(text));

const INLINE = [
  ["plain", "plain"],
  ["*a* _b_ **c** __d__ ~~e~~", "(a) (b) ((c)) ((d)) ~e~"],
  ["***both*** and **a *b* c**", "(((both))) and ((a (b) c))"],
  ["snake_case_name, 2 * 3 * 4, **open", "snake_case_name, 2 * 3 * 4, **open"],
  ["**强调：**文字", "((强调：))文字"],
  ["~one~ ~~~three~~~", "~one~ ~~~three~~~"],
  ["`a *b*` and ``c ` d`` and `open", "`a *b*` and `c ` d` and `open"],
  ["\\*not\\* \\`code\\` \\(x_1\\)", "*not* `code` \\(x_1\\)"],
  ["one\ntwo<br>three\\\nfour", "one/two/three/four"],
  ["&lt;b&gt; &amp;amp; &#65;&#x42; &nothing; &#0;", "<b> &amp; AB &nothing; &#0;"],
  ["[a *b*](https://x.org/p_(q) \"title\")", "<https://x.org/p_(q)|a (b)>"],
  ["[a [b](https://x.org/) c](https://y.org/)", "[a <https://x.org/|b> c](<https://y.org/|https://y.org/>)"],
  ["![alt](https://x.org/i.png)", "<https://x.org/i.png|alt>"],
  ["[![alt](https://x.org/i.png)](https://y.org/)", "<https://y.org/|alt>"],
  ["[https://x.org](https://y.org)", "<https://y.org/|https://x.org>"],
  ["see https://x.org/a_b, (https://y.org/z).", "see <https://x.org/a_b|https://x.org/a_b>, (<https://y.org/z|https://y.org/z>)."],
  ["<https://x.org> xhttps://y.org", "<https://x.org/|https://x.org> xhttps://y.org"],
  ["[1], [text] and [x](y", "[1], [text] and [x](y"],
  ["<b onclick=x>bold</b><script>f()</script>", "<b onclick=x>bold</b><script>f()</script>"],
];

test("InlineMarkdownBecomesATree", () => {
  for (const [text, expected] of INLINE) assert.equal(inline(text), expected, text);
});

test("OnlyAddressesOfTheWebAndOfMailAreLinks", () => {
  for (const address of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd",
    "blob:https://x.org/1", "//x.org", "/admin", "https:x", " https://x.org", "java\nscript:alert(1)", "https://", "mailto:"]) {
    assert.equal(safeAddress(address), null, address);
    const types = JSON.stringify(parseInline(`[a](${address}) ![b](${address}) <${address}>`));
    assert.ok(!/"href":"(?!https?:\/\/|mailto:)/.test(types), types);
  }
  assert.equal(inline("[a](javascript:alert%281%29)"), "[a](javascript:alert%281%29)");
  assert.equal(safeAddress("mailto:a@x.org"), "mailto:a@x.org");
});

function shape(blocks) {
  return blocks.map((block) => {
    switch (block.type) {
      case "heading": return `h${block.level}:${block.text}`;
      case "paragraph": return `p:${block.text}`;
      case "code": return `code(${block.language}):${block.text}`;
      case "quote": return ["quote", ...shape(block.children)];
      case "list": return [(block.isOrdered ? `ol${block.start}` : "ul"), ...block.items.map((item) =>
        [...(item.isChecked === null ? [] : [item.isChecked]), ...shape(item.children)])];
      case "table": return ["table", block.aligns, block.header, ...block.rows];
      default: return block.type;
    }
  });
}

const BLOCKS = [
  ["# A #\n## B\ntext\nmore\n\nend", ["h1:A", "h2:B", "p:text\nmore", "p:end"]],
  ["#tag\n####### seven", ["p:#tag\n####### seven"]],
  ["Title\n===\nx", ["h1:Title", "p:x"]],
  ["a\n---\n***\n- - -", ["p:a", "rule", "rule", "rule"]],
  ["```py x=1\n# *a*\n\n  b\n```\nc", ["code(py):# *a*\n\n  b", "p:c"]],
  ["````\n```\nx\n```\n````", ["code():```\nx\n```"]],
  ["~~~\na\n```\n~~~", ["code():a\n```"]],
  ["```c\nint x", ["code(c):int x"]],
  ["> a\nlazy\n> > b\n\nc", [["quote", "p:a\nlazy", ["quote", "p:b"]], "p:c"]],
  ["- a\n- b\n\n- c", [["ul", ["p:a"], ["p:b"], ["p:c"]]]],
  ["3. a\n4. b\n\ntext", [["ol3", ["p:a"], ["p:b"]], "p:text"]],
  ["1. a\n  - b\n    - c\n2. d", [["ol1", ["p:a", ["ul", ["p:b", ["ul", ["p:c"]]]]], ["p:d"]]]],
  ["1. a\n\n   ```\n   x\n     y\n   ```\n\n2. b", [["ol1", ["p:a", "code():x\n  y"], ["p:b"]]]],
  ["- [x] a\n- [ ] b\n* c", [["ul", [true, "p:a"], [false, "p:b"]], ["ul", ["p:c"]]]],
  ["text:\n- a\nlazy\n\nend", ["p:text:", ["ul", ["p:a\nlazy"]], "p:end"]],
  ["The year was\n1914. It rained.", ["p:The year was\n1914. It rained."]],
  ["-\ttab\n\tmore", [["ul", ["p:tab\nmore"]]]],
  ["| a | b |\n|:-:|--:|\n| 1 | `x \\| y` |\n| 2 |\n\nend",
    [["table", ["center", "right"], ["a", "b"], ["1", "`x | y`"], ["2", ""]], "p:end"]],
  ["text\na | b\n--- | ---\n1 | 2 | 3", ["p:text", ["table", ["", ""], ["a", "b"], ["1", "2"]]]],
  ["a | b\nc", ["p:a | b\nc"]],
  ["a\r\nb\rc", ["p:a\nb\nc"]],
  ["", []],
];

test("BlocksOfMarkdownAreFound", () => {
  for (const [text, expected] of BLOCKS) assert.deepEqual(shape(parseBlocks(text)), expected, text);
});

test("EveryLineOfATextIsInOneBlock", () => {
  for (const [text] of BLOCKS) {
    const lines = text.split(/\r\n?|\n/).filter((line) => line.trim());
    const raw = parseBlocks(text).flatMap((block) => block.raw.split("\n")).filter((line) => line.trim());
    assert.deepEqual(raw, lines);
  }
});

function depthOf(nodes) {
  return 1 + Math.max(0, ...nodes.map((node) => depthOf(node.children ?? node.items?.flatMap((item) => item.children) ?? [])));
}

const N = 40000;
const HOSTILE = {
  stars: "*".repeat(N), openers: "*a ".repeat(N), closers: "a* ".repeat(N), mixed: "*a _b ~~c ".repeat(N / 4),
  pairs: "**a *".repeat(N / 4), odd: "***a** b*".repeat(N / 8), ticks: Array.from({ length: 280 }, (_, i) => "`".repeat(i)).join("a"),
  brackets: "[".repeat(N), images: "![".repeat(N), closing: "[a](".repeat(N / 4), links: "[a](https://x.org)".repeat(N / 20),
  nestedImages: "![".repeat(N / 8) + "](https://x.org)".repeat(N / 8), nestedLinks: "[".repeat(N / 8) + "](https://x.org)".repeat(N / 8),
  manyLinks: "[".repeat(N / 8) + "[a](https://x.org)".repeat(N / 16), angles: "<https://".repeat(N / 8),
  addresses: "https://x.org/(((".repeat(N / 16), parentheses: "[a](" + "(".repeat(N), dots: "https://x.org/" + ".".repeat(N),
  escapes: "\\".repeat(N), entities: "&#".repeat(N), quotes: "> ".repeat(N), lists: "- ".repeat(N) + "a", numbers: "1. ".repeat(N),
  steps: Array.from({ length: 300 }, (_, i) => " ".repeat(2 * i) + "- a").join("\n"), rules: "- ".repeat(N) + "\n".repeat(N),
  fences: "```\n".repeat(N / 4), pipes: "|".repeat(N) + "\n" + "|-".repeat(N), table: "a|b\n-|-\n" + "|".repeat(N),
  tables: "a|b\n".repeat(N / 4), blanks: "- a\n" + "\n".repeat(N) + "b", tabs: "\t".repeat(N) + "- a", signs: "# " + "#".repeat(N) + " x",
  spaces: "a" + " ".repeat(N) + "b", deepStrong: "**a ".repeat(200) + "b**".repeat(200), hashes: "#\n".repeat(N / 4),
  surrogates: "\ud800*".repeat(N / 4), zeros: "\0".repeat(N), rightToLeft: "\u202e*a*".repeat(N / 8),
};

/** Returns the time of the processor, which other processes of the machine hardly change. */
function processorMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

test("HostileTextIsParsedInLittleTimeAndDepth", () => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    const began = processorMs();
    const blocks = parseBlocks(text);
    const tree = parseInline(text);
    const took = processorMs() - began;
    assert.ok(took < 4000, `${name} took ${took} ms`);
    assert.ok(depthOf(blocks) < 30 && depthOf(tree) < 30, `${name} is ${depthOf(blocks)} and ${depthOf(tree)} deep`);
  }
});

test("TimeGrowsWithTheTextAndNotWithItsSquare", () => {
  const timeOf = (text) => {
    const began = processorMs();
    parseBlocks(text);
    parseInline(text);
    return processorMs() - began;
  };
  for (const [name, text] of Object.entries(HOSTILE)) {
    const [once, four] = [text, text.repeat(4)].map((sized) => Math.min(...[1, 2, 3].map(() => timeOf(sized))));
    assert.ok(four < 10 * once + 150, `${name}: ${once} ms, four times as long ${four} ms`);
  }
});

test("AnyTextIsParsed", () => {
  let seed = 1;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  const pieces = ["*", "**", "_", "`", "``", "[", "](", ")", "![", "https://x.org", "<", ">", "\\", "&", "~~", "|", "-", "\n", "\n\n",
    "1. ", "- ", "# ", "    ", "\t", "```", "a", "é", "\ud83d", "<br>", "&lt;", "javascript:x"];
  for (let i = 0; i < 3000; i++) {
    const text = Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join("");
    const tree = JSON.stringify([parseBlocks(text), parseInline(text)]);
    assert.ok(!/"href":"(?!https?:\/\/|mailto:)/.test(tree), text);
  }
});

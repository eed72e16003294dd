// Builds elements. Text from outside only ever becomes a text node.

/**
 * Creates an element. An attribute that is a function becomes a listener of that event; `true` sets an empty
 * attribute; `false`, `null` and `undefined` set none. Children are nodes or text.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Creates a button with a text, or with a sign and a label for screen readers. */
export function button(text, attributes = {}) {
  return element("button", { type: "button", title: attributes["aria-label"], ...attributes }, text);
}

export const byId = (id) => document.getElementById(id);

/** Copies text, also on pages that are not served over HTTPS. Returns whether that worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", { class: "offscreen", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

/** Creates a button that copies what `text()` returns, and reports on itself whether that worked. */
export function copyButton(text, label) {
  const made = button("Copy", {
    class: "quiet",
    "aria-label": label,
    click: async () => {
      made.textContent = (await copyText(text())) ? "Copied" : "Not copied";
      setTimeout(() => { made.textContent = "Copy"; }, 1500);
    },
  });
  return made;
}

/** Offers a text to the browser as a download. */
export function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

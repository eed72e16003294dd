// Fields that grow with their text: the message, an edited message, and results of tools.

import { button, element } from "./dom.mjs";

/** Lets a text area grow with its text; the style sheet limits it. */
export function growing(area) {
  const fit = () => {
    area.style.height = "auto";
    area.style.height = area.scrollHeight + area.offsetHeight - area.clientHeight + "px";
  };
  area.addEventListener("input", fit);
  return fit;
}

/** Calls `send` on Enter, but not on Shift+Enter, and not while an input method composes a word. */
export function sendOnEnter(area, send) {
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  });
}

/** Creates a field with the text of a message. `done` gets the new text, or null if the reader cancels. */
export function editor(text, done) {
  const area = element("textarea", { "aria-label": "Edited message" });
  area.value = text;
  const fit = growing(area);
  const send = () => area.value.trim() && done(area.value.trim());
  sendOnEnter(area, send);
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    done(null);
  });
  const row = element("div", { class: "row end" }, button("Cancel", { click: () => done(null) }),
    button("Send", { click: send }));
  return {
    element: element("div", { class: "editor" }, area, row),
    focus: () => {
      fit();
      area.focus();
    },
  };
}

/** Creates a form with a field for the result of each call. */
export function callForm(calls, send) {
  const areas = calls.map((call) => element("textarea", { rows: "1", "aria-label": `Result of ${call.name}`,
    placeholder: `Result of ${call.name}` }));
  areas.forEach(growing);
  const submit = (event) => {
    event.preventDefault();
    send(areas.map((area) => area.value));
  };
  return element("form", { submit }, ...areas, element("div", { class: "row end" }, element("button", {}, "Send results")));
}

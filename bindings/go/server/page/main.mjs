// Connects the parts of the page.

import { models } from "./answers.mjs";
import { Chat } from "./chat.mjs";
import { titleOf } from "./conversation.mjs";
import { button, byId, download, element } from "./dom.mjs";
import { growing, sendOnEnter } from "./editors.mjs";
import { Preferences } from "./preferences.mjs";
import { Follower } from "./scroll.mjs";
import { SettingsStore } from "./settings.mjs";
import { Sidebar } from "./sidebar.mjs";
import { browserStorage, ConversationStore, read, write } from "./store.mjs";
import { TurnsView } from "./turns.mjs";

const MODEL = "quire.model";
const NOTICE_MS = 8000;

const storage = browserStorage();
const store = new ConversationStore(storage);
const settings = new SettingsStore(storage);
const follower = new Follower(byId("turns"), byId("jump"));
const preferences = new Preferences(storage, settings, (problem) => {
  if (problem) notice(problem);
  listModels();
});
const choices = {
  model: () => byId("model").value,
  settings: (model) => settings.of(model),
  key: () => preferences.key,
};
const view = {
  changed: (conversation) => conversation.id === chat.current.id ? showCurrent() : showList(),
  grown: (conversation, index) => conversation.id === chat.current.id && turns.grown(conversation.nodes[index]),
  problem: (message) => notice(message),
  keyNeeded: () => preferences.openKey(choices.model(), "The server needs an API key, or has refused this one."),
  report: (text) => { byId("status").textContent = text; },
};
const chat = new Chat(store, choices, view);
const turns = new TurnsView(byId("turns"), {
  edit: (index, text) => follow(() => chat.send(text, chat.current.nodes[index].parent)),
  regenerate: (index) => follow(() => chat.regenerate(index)),
  select: (index) => chat.select(index),
  sendResults: (index, texts) => follow(() => chat.sendResults(index, texts)),
});
const sidebar = new Sidebar(byId("conversations"), {
  open: (conversation) => open(conversation),
  rename: (conversation, title) => rename(conversation, title),
  exportOne: (conversation) => download(fileName(conversation.title), store.exported([conversation])),
  remove: (conversation) => remove(conversation),
});

function showCurrent() {
  const { current, running } = chat;
  turns.show(current, running);
  byId("send").hidden = running !== undefined;
  byId("stop").hidden = running === undefined;
  document.title = current.title ? `${current.title} · Quire` : "Quire";
  showList();
  follower.grown();
}

function showList() {
  sidebar.show(store.list(), chat.current, chat.runs);
}

/** Goes to the end and follows what is written there. */
function follow(action) {
  action();
  follower.toEnd();
}

function open(conversation) {
  const select = byId("model");
  if ([...select.options].some((option) => option.value === conversation.model)) select.value = conversation.model;
  chat.open(conversation);
  follower.toEnd();
  closeDrawer();
  byId("text").focus();
}

function begin() {
  chat.begin();
  closeDrawer();
  byId("text").focus();
}

function rename(conversation, title) {
  conversation.title = titleOf(title) || conversation.title;
  chat.save(conversation);
  view.changed(conversation);
}

/** Deletes a conversation; the notice can bring it back. */
function remove(conversation) {
  chat.remove(conversation);
  notice("The conversation is deleted.", button("Undo", {
    click: () => {
      chat.save(conversation);
      byId("notice").hidden = true;
      open(conversation);
    },
  }));
}

let noticeTimer = 0;

function notice(message, ...parts) {
  byId("notice").replaceChildren(element("span", {}, message), ...parts);
  byId("notice").hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { byId("notice").hidden = true; }, NOTICE_MS);
}

function fileName(title) {
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40).replace(/^-|-$/g, "");
  return `quire-${name || "conversation"}.json`;
}

async function importFile() {
  const file = byId("file").files[0];
  byId("file").value = "";
  if (!file) return;
  try {
    const number = store.import(await file.text());
    notice(`${number} conversations are imported.`);
  } catch (problem) {
    notice(problem.message);
  }
  showList();
}

async function listModels() {
  const select = byId("model");
  const wanted = select.value || read(storage, MODEL);
  try {
    const names = await models(preferences.key);
    select.replaceChildren(...names.map((name) => new Option(name)));
    if (names.includes(wanted)) select.value = wanted;
  } catch (problem) {
    if (problem.status === 401) view.keyNeeded();
    else notice(problem.message, button("Try again", { click: listModels }));
  }
}

// The list of conversations is beside the chat on a wide screen, and over it on a narrow one.
const isNarrow = matchMedia("(max-width: 760px)");

function toggleList() {
  const isOpen = getComputedStyle(byId("list")).display !== "none";
  document.body.dataset.list = isOpen ? "closed" : "open";
  byId("toggle-list").setAttribute("aria-expanded", String(!isOpen));
}

function closeDrawer() {
  if (isNarrow.matches && document.body.dataset.list === "open") toggleList();
}

function sendText() {
  const area = byId("text");
  const text = area.value.trim();
  if (!text || chat.running) return;
  if (!choices.model()) {
    notice("There is no model to answer.", button("Try again", { click: listModels }));
    return;
  }
  area.value = "";
  fitText();
  follow(() => chat.send(text));
}

const fitText = growing(byId("text"));
sendOnEnter(byId("text"), sendText);
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  sendText();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" && byId("text").value === "") turns.editLast();
});
byId("turns").addEventListener("grown", () => follower.grown());
byId("stop").addEventListener("click", () => chat.stop());
byId("new").addEventListener("click", begin);
byId("toggle-list").addEventListener("click", toggleList);
byId("backdrop").addEventListener("click", closeDrawer);
byId("open-settings").addEventListener("click", () => preferences.open(choices.model()));
byId("export-all").addEventListener("click", () => download(fileName("conversations"), store.exported(store.list())));
byId("import").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", importFile);
byId("model").addEventListener("change", () => write(storage, MODEL, choices.model()));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !preferences.dialog.open) {
    if (isNarrow.matches && document.body.dataset.list === "open") closeDrawer();
    else chat.stop();
  }
  if (event.key.toLowerCase() === "o" && event.ctrlKey && event.shiftKey) {
    event.preventDefault();
    begin();
  }
});
addEventListener("storage", (event) => {
  const id = store.load(event.key);
  if (id === null || chat.runs.has(id)) return;
  if (id === chat.current.id && store.get(id)) chat.open(store.get(id));
  else showList();
});
addEventListener("pagehide", () => chat.leave());
addEventListener("pageshow", () => { chat.isLeft = false; });

showCurrent();
listModels();

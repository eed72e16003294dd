// The dialog of settings: those of a model, the key, and the colours.

import { byId } from "./dom.mjs";
import { DEFAULTS, problemOf, problemOfKey } from "./settings.mjs";
import { FULL, read, write } from "./store.mjs";

const KEY = "quire.key";
const THEME = "quire.theme";

export class Preferences {
  /** `saved` is called after the reader has saved. */
  constructor(storage, settings, saved) {
    this.storage = storage;
    this.settings = settings;
    this.saved = saved;
    this.key = read(storage, KEY) ?? "";
    this.model = "";
    this.dialog = byId("settings");
    this.form = byId("settings-form");
    this.setTheme(read(storage, THEME) ?? "");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
    byId("cancel").addEventListener("click", () => this.dialog.close());
    byId("defaults").addEventListener("click", () => this.fill(DEFAULTS));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  open(model, message = "") {
    this.model = model;
    byId("settings-model").textContent = model || "all models";
    this.fill(this.settings.of(model));
    const fields = this.form.elements;
    fields.key.value = this.key;
    fields.keepKey.checked = read(this.storage, KEY) !== null;
    fields.theme.value = document.documentElement.dataset.theme ?? "";
    byId("settings-problem").textContent = message;
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** Opens the dialog at the key. */
  openKey(model, message) {
    this.open(model, message);
    this.form.elements.key.focus();
  }

  fill(settings) {
    for (const [field, value] of Object.entries(settings)) {
      if (typeof value === "boolean") this.form.elements[field].checked = value;
      else this.form.elements[field].value = value;
    }
  }

  save() {
    const fields = this.form.elements;
    const settings = {};
    for (const [field, value] of Object.entries(DEFAULTS)) {
      settings[field] = typeof value === "boolean" ? fields[field].checked : fields[field].value.trim();
    }
    const problem = problemOf(settings) ?? problemOfKey(fields.key.value.trim());
    if (problem) {
      byId("settings-problem").textContent = problem.message;
      fields[problem.field].focus();
      return;
    }
    this.key = fields.key.value.trim();
    this.setTheme(fields.theme.value);
    const isKept = [this.settings.save(this.model, settings), write(this.storage, THEME, fields.theme.value || null),
      write(this.storage, KEY, fields.keepKey.checked && this.key ? this.key : null)];
    this.dialog.close();
    this.saved(isKept.includes(false) ? FULL : "");
  }

  setTheme(theme) {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }
}

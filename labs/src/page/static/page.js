// The page: what can be folded away, the two tabs, and the start of both.
import { byId, memory } from "/static/wire.js";
import { startJourney } from "/static/panel.js";
import { startLabs } from "/static/labs.js";

const narrow = window.matchMedia("(max-width: 60rem)");

/** A button that shows and hides a part of the page. */
function folds(button, part, shown) {
  const show = (on) => {
    button.setAttribute("aria-expanded", String(on));
    part.hidden = !on;
    memory.set(`shown-${part.id}`, on ? "1" : "0");
  };
  button.addEventListener("click", () => {
    show(part.hidden);
    if (!part.hidden) part.querySelector("a, button, select")?.focus();
  });
  const before = memory.get(`shown-${part.id}`);
  show(before === null ? shown : before === "1");
}

/** Tabs as the ARIA practices describe them: one stop for Tab, arrows between them. */
function tabs(list) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  const choose = (chosen, focus) => {
    for (const tab of all) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !on;
    }
    memory.set("tab", chosen.id);
    if (focus) chosen.focus();
    chosen.dispatchEvent(new Event("chosen"));
  };
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = all.indexOf(document.activeElement);
    choose(all[(at + step + all.length) % all.length], true);
  });
  for (const tab of all) tab.addEventListener("click", () => choose(tab, false));
  choose(all.find((tab) => tab.id === memory.get("tab")) ?? all[0], false);
}

folds(byId("show-contents"), byId("contents"), !narrow.matches);
folds(byId("show-panel"), byId("panel"), true);
startLabs(byId("labs"), byId("tab-labs"));
tabs(document.querySelector('[role="tablist"]'));
startJourney();

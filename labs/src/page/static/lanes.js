// Six lanes, and the step that is open. Redrawing keeps the reader's place: the focus and the open step stay.
import { ask, duration, make, t } from "/static/wire.js";

/** The step that is open, by its name. */
let open = null;
/** The steps that were drawn before: only new ones draw the eye. */
let drawn = { object: null, names: new Set() };

const nameOf = (lane, step) => `${lane.stage}|${step.at_micros}|${step.object}|${step.decided}`;

export function drawLanes(list, detail, journey) {
  const focused = document.activeElement?.dataset?.step;
  if (drawn.object !== journey.object) drawn = { object: journey.object, names: null };
  const lanes = journey.lanes.map((lane) => drawLane(lane, journey, detail));
  list.replaceChildren(...lanes);
  drawn.names = new Set(journey.lanes.flatMap((lane) => lane.steps.map((step) => nameOf(lane, step))));
  list.onkeydown = (event) => walk(event, list);
  const steps = [...list.querySelectorAll("button")];
  const same = steps.find((step) => step.dataset.step === focused);
  // One stop for Tab, arrows within.
  const stop = same ?? steps.find((step) => step.dataset.step === open) ?? steps[0];
  for (const step of steps) step.tabIndex = step === stop ? 0 : -1;
  same?.focus({ preventScroll: true });
  if (open && !steps.some((step) => step.dataset.step === open)) close(detail, list);
}

function drawLane(lane, journey, detail) {
  const stage = t(`stage.${lane.stage}`);
  const state = t(`state.${lane.state}`);
  const steps = lane.steps.map((step) => drawStep(lane, step, journey, detail));
  const says = lane.says ? make("p", { class: "says" }, t(`says.${lane.says}`)) : null;
  const label = t("lane.steps", { stage, state, count: lane.steps.length });
  const next = journey.next === lane.stage;
  const classes = `lane ${lane.state}${next ? " next" : ""}`;
  return make(
    "li",
    { class: classes, "data-stage": lane.stage, "aria-label": label },
    make("h3", {}, make("span", {}, stage), make("span", { class: "state" }, state)),
    steps.length ? make("ol", { class: "steps" }, ...steps) : null,
    says,
  );
}

function drawStep(lane, step, journey, detail) {
  const name = nameOf(lane, step);
  const since = `+${duration(step.since_micros)}`;
  const times = step.times > 1 ? t("step.times", { times: step.times, last: `+${duration(step.last_since_micros)}` }) : "";
  const decided = step.decided.startsWith(`${step.object} `) ? step.decided.slice(step.object.length + 1) : step.decided;
  const about = step.object === journey.object ? null : make("small", {}, step.object);
  const button = make(
    "button",
    { type: "button", class: drawn.names && !drawn.names.has(name) ? "fresh" : null, "data-step": name, "aria-expanded": String(open === name), "aria-controls": detail.id, onclick: (event) => show(event.currentTarget, step, detail) },
    make("time", {}, since),
    make("span", {}, decided),
    about,
    times ? make("small", {}, times) : null,
  );
  return make("li", {}, button);
}

/** Left and right within a lane, up and down between lanes. */
function walk(event, list) {
  const here = document.activeElement;
  if (!here?.dataset?.step) return;
  const lanes = [...list.querySelectorAll(".lane")].map((lane) => [...lane.querySelectorAll("button")]).filter((lane) => lane.length);
  const row = lanes.findIndex((lane) => lane.includes(here));
  const at = lanes[row].indexOf(here);
  const near = (lane) => lane?.[Math.min(at, lane.length - 1)];
  const moves = {
    ArrowRight: lanes[row][at + 1],
    ArrowLeft: lanes[row][at - 1],
    ArrowDown: near(lanes[row + 1]),
    ArrowUp: near(lanes[row - 1]),
    Home: lanes[0][0],
    End: lanes.at(-1).at(-1),
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const target = moves[event.key];
  if (!target) return;
  here.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

function close(detail, list) {
  const had = detail.contains(document.activeElement);
  const button = [...list.querySelectorAll("button")].find((step) => step.dataset.step === open);
  open = null;
  detail.hidden = true;
  detail.replaceChildren();
  button?.setAttribute("aria-expanded", "false");
  if (had) button?.focus();
}

async function show(button, step, detail) {
  const list = button.closest("#lanes");
  const name = button.dataset.step;
  if (open === name) return close(detail, list);
  for (const other of list.querySelectorAll("button")) other.setAttribute("aria-expanded", String(other === button));
  open = name;
  const when = { time: new Date(step.at_micros / 1000).toLocaleTimeString(document.documentElement.lang), since: duration(step.since_micros) };
  const source = make("div", {});
  detail.replaceChildren(
    make("button", { type: "button", class: "close", onclick: () => close(detail, list) }, t("detail.close")),
    make("h3", {}, step.decided),
    make("p", {}, t("step.about", { object: step.object }), ". ", t("detail.when", when), "."),
    make("p", {}, make("strong", {}, `${t("detail.why")}: `), step.why || t("detail.noreason")),
    source,
  );
  detail.hidden = false;
  detail.onkeydown = (event) => event.key === "Escape" && close(detail, list);
  detail.focus();
  source.replaceChildren(...(await sourceOf(step)));
}

/** The line that decided, with those around it, and the chapter. */
async function sourceOf(step) {
  if (!step.source) return [];
  try {
    const { excerpt, chapter } = await ask(`/api/source?at=${encodeURIComponent(step.source)}`);
    const parts = [make("p", {}, t("detail.source", { at: step.source }))];
    if (excerpt) {
      const lines = excerpt.lines.map((line, at) => {
        const number = excerpt.first + at;
        const decided = number === excerpt.line;
        return make(decided ? "mark" : "span", { class: "line" }, make("span", { class: "number", "aria-hidden": "true" }, String(number).padStart(4)), ` ${line}\n`);
      });
      parts.push(make("pre", { tabindex: "0" }, make("code", { class: "language-rust" }, ...lines)));
    } else parts.push(make("p", {}, t("detail.nosource")));
    if (chapter) parts.push(make("p", {}, make("a", { href: chapter }, t("detail.chapter"))));
    return parts;
  } catch {
    return [make("p", {}, t("detail.nosource"))];
  }
}

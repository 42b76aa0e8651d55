// The live panel: which object, its lanes, and the steps as they happen.
import { ask, byId, make, memory, t } from "/static/wire.js";
import { drawLanes } from "/static/lanes.js";
import { Replay } from "/static/replay.js";

/** Steps come in bursts; the lanes are asked for once a burst. */
const BURST_MILLIS = 80;
const NEWEST = "";

const panel = {
  /** What the reader chose; NEWEST follows the newest pod. */
  chosen: memory.get("object") ?? NEWEST,
  choice: null,
  objects: [],
  /** Which list of objects this is; the server sends it again only when it is another. */
  version: null,
  relatives: new Set(),
  replay: null,
  replayOnly: false,
  stream: null,
  timer: 0,
  asked: 0,
};

const shownObject = () => (panel.chosen === NEWEST ? panel.choice : panel.chosen);

export async function startJourney() {
  byId("object").addEventListener("change", (event) => choose(event.target.value));
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  panel.replay = new Replay({ show: () => refresh(), end: () => leaveReplay() });
  byId("replay-start").addEventListener("click", () => enterReplay(true));
  await refresh();
  if (panel.replayOnly) await enterReplay(false);
  else connect();
}

/** Streams only while somebody looks: a browser opens six connections to a server at most. */
function connect() {
  if (panel.stream || panel.replay?.on || panel.replayOnly) return;
  const stream = new EventSource("/api/events");
  panel.stream = stream;
  stream.addEventListener("hello", () => soon());
  stream.addEventListener("again", () => soon());
  stream.addEventListener("step", (event) => concerns(JSON.parse(event.data)) && soon());
  stream.addEventListener("error", () => (byId("source").textContent = t("source.lost")));
}

function disconnect() {
  panel.stream?.close();
  panel.stream = null;
}

/** Whether a step changes anything here: it is about an object that is shown or new, or may tell of new relatives. */
function concerns(step) {
  if (step.object.startsWith("Event ") || step.object.startsWith("Lease ")) return false;
  const known = panel.objects.find((one) => one.object === step.object);
  return !known || known.ended || step.decided === "deleted" || step.stage === 3 || step.object === shownObject() || panel.relatives.has(step.object);
}

function soon() {
  if (panel.timer) return;
  panel.timer = setTimeout(async () => {
    panel.timer = 0;
    await refresh();
  }, BURST_MILLIS);
}

async function enterReplay(playing) {
  disconnect();
  panel.chosen = NEWEST;
  await panel.replay.start(playing);
}

function leaveReplay() {
  if (panel.replayOnly) return;
  panel.chosen = NEWEST;
  connect();
  refresh();
}

function choose(object) {
  panel.chosen = object;
  if (!panel.replay.on) memory.set("object", object);
  refresh();
}

/** Asks for what is shown, and draws it; an answer that was overtaken is dropped. */
async function refresh() {
  const turn = ++panel.asked;
  try {
    const since = panel.version === null ? "" : `?since=${panel.version}`;
    const listed = panel.replay.on ? panel.replay.listed() : await ask(`/api/objects${since}`);
    if (turn !== panel.asked) return;
    if (listed.objects) Object.assign(panel, { objects: listed.objects, choice: listed.choice });
    panel.version = panel.replay.on ? null : listed.version;
    panel.replayOnly ||= listed.replay === true;
    drawChoice();
    const object = shownObject();
    if (!object) return drawNothing();
    const until = panel.replay.on ? `&until=${panel.replay.done}` : "";
    const journey = await ask(`/api/journey?object=${encodeURIComponent(object)}${until}`);
    if (turn !== panel.asked) return;
    const { done, all } = panel.replay;
    byId("source").textContent = panel.replay.on ? t("source.replay", { done, all }) : t("source.live");
    draw(journey);
  } catch (error) {
    byId("source").textContent = error.message;
  }
}

function drawNothing() {
  byId("source").textContent = t("source.waiting");
  byId("next").textContent = "";
  byId("relatives").replaceChildren();
  byId("lanes").replaceChildren();
}

function drawChoice() {
  const select = byId("object");
  const names = panel.objects.map((one) => one.object);
  if (panel.chosen !== NEWEST && !names.includes(panel.chosen)) names.unshift(panel.chosen);
  const ended = new Set(panel.objects.filter((one) => one.ended).map((one) => one.object));
  const newest = panel.choice ? `${panel.choice} – ${t("journey.newest")}` : t("journey.newest");
  const wanted = [[NEWEST, newest]];
  for (const object of names) wanted.push([object, ended.has(object) ? t("journey.ended", { object }) : object]);
  // An open list isn't torn down for a step that changed nothing in it.
  const same = select.options.length === wanted.length && wanted.every(([value, text], at) => select.options[at].value === value && select.options[at].text === text);
  if (!same) select.replaceChildren(...wanted.map(([value, text]) => make("option", { value }, text)));
  select.value = panel.chosen;
}

function draw(journey) {
  const waits = journey.lanes.find((lane) => lane.stage === journey.next);
  const says = waits?.says ? t("journey.next", { says: t(`says.${waits.says}`) }) : "";
  const complete = journey.lanes.every((lane) => lane.state === "done") ? t("journey.complete") : "";
  const next = byId("next");
  // A status that says the same again would be read out again.
  if (next.textContent !== (says || complete)) next.textContent = says || complete;
  next.className = says ? "waits" : "";
  panel.relatives = new Set([...journey.owners, ...journey.children, ...journey.services]);
  drawRelatives(journey);
  drawLanes(byId("lanes"), byId("detail"), journey);
}

function drawRelatives(journey) {
  const reaches = journey.object.startsWith("Service ");
  const groups = [
    [t("journey.owners"), journey.owners],
    [reaches ? t("journey.reaches") : t("journey.children"), journey.children],
    [t("journey.services"), journey.services],
  ];
  const parts = [];
  for (const [title, objects] of groups) {
    if (objects.length === 0) continue;
    const links = objects.map((object) => make("button", { type: "button", class: "link", onclick: () => choose(object) }, object));
    parts.push(make("span", { class: "group" }, `${title}: `, ...links));
  }
  const place = byId("relatives");
  const key = JSON.stringify(groups);
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...parts);
}

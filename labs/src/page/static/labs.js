// Labs from the page: start, hint, diagnosis, check, reset. What goes wrong is shown in the server's words.
import { act, ask, make, t } from "/static/wire.js";

let place;
let seen = null;

export function startLabs(section, tab) {
  place = { status: make("p", { role: "status", "aria-live": "polite", id: "lab-status" }), result: make("div", { id: "lab-result", tabindex: "-1" }), body: make("div", {}) };
  section.append(place.status, place.body, place.result);
  tab.addEventListener("chosen", () => !section.hidden && look());
}

async function look() {
  try {
    seen = await ask("/api/labs");
    draw();
  } catch (error) {
    place.status.textContent = error.message;
  }
}

function draw() {
  const parts = [];
  if (!seen.cluster) parts.push(make("p", { class: "waits" }, t("labs.none", { command: seen.start })));
  parts.push(...(seen.underway ? drawUnderWay(seen.underway) : drawList()));
  place.body.replaceChildren(...parts);
}

function drawList() {
  const rows = seen.labs.map((lab) => {
    const done = lab.repaired ? make("strong", {}, ` ✓ ${t("labs.repaired")}`) : null;
    const label = t("labs.startone", { symptom: lab.symptom });
    const start = make("button", { type: "button", "aria-label": label, disabled: !seen.cluster, onclick: () => run("start", { symptom: lab.symptom }) }, t("labs.start"));
    const about = make("small", {}, t("labs.row", lab));
    return make("li", {}, make("div", {}, make("strong", {}, lab.symptom), done, make("br"), lab.title, make("br"), about), start);
  });
  return [make("h2", {}, t("labs.choose")), make("ul", { class: "labs" }, ...rows)];
}

function drawUnderWay(lab) {
  const button = (name, text) => make("button", { type: "button", id: `lab-${name}`, onclick: () => run(name) }, text);
  const hints = lab.hints.map((hint) => make("li", {}, hint));
  return [
    make("h2", {}, t("labs.underway", { symptom: lab.symptom })),
    make("blockquote", { id: "lab-brief" }, lab.brief),
    make("p", {}, t("labs.namespace", { namespace: lab.namespace, command: seen.export })),
    make("div", { class: "row" }, button("hint", t("labs.hint")), button("verify", t("labs.verify")), button("reset", t("labs.reset"))),
    hints.length ? make("div", {}, make("h3", {}, t("labs.hints")), make("ol", { id: "lab-hints" }, ...hints)) : null,
    diagnosis(),
  ].filter(Boolean);
}

/** The form of a diagnosis: stage, object, mechanism, evidence. */
function diagnosis() {
  const stages = [1, 2, 3, 4, 5, 6].map((stage) => make("option", { value: stage }, t(`stage.${stage}`)));
  stages.push(make("option", { value: 0 }, t("labs.healthy")));
  // Nobody shall hand in what happened to stand there.
  const pick = () => make("option", { value: "" }, t("labs.pick"));
  const words = seen.mechanisms.map(({ word, meaning }) => make("option", { value: word }, `${word} – ${meaning}`));
  const field = (id, text, input) => make("div", { class: "field" }, make("label", { for: id }, text), input);
  const evidence = [1, 2, 3].map((number) =>
    field(`lab-evidence-${number}`, t("labs.evidence", { number }), make("input", { id: `lab-evidence-${number}`, name: "evidence", autocomplete: "off" })),
  );
  const form = make(
    "form",
    { id: "lab-form" },
    make("h3", {}, t("labs.diagnosis")),
    field("lab-stage", t("labs.stage"), make("select", { id: "lab-stage", name: "stage", required: true }, pick(), ...stages)),
    field("lab-object", t("labs.object"), make("input", { id: "lab-object", name: "object", required: true, autocomplete: "off" })),
    field("lab-mechanism", t("labs.mechanism"), make("select", { id: "lab-mechanism", name: "mechanism", required: true }, pick(), ...words)),
    ...evidence,
    make("button", { type: "submit", id: "lab-answer" }, t("labs.answer")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    const answer = { stage: Number(data.get("stage")), object: data.get("object"), mechanism: data.get("mechanism"), evidence: data.getAll("evidence").filter((text) => text.trim()) };
    run("answer", answer);
  });
  return form;
}

/** Has a step done, and shows what it said. The diagnosis that is being written stays. */
async function run(name, body = {}) {
  const buttons = [...place.body.querySelectorAll("button")];
  for (const button of buttons) button.disabled = true;
  place.status.textContent = t("labs.working");
  place.result.replaceChildren();
  try {
    const result = await act(`/api/labs/${name}`, body);
    place.status.textContent = "";
    place.result.className = "said";
    place.result.replaceChildren(...said(name, result));
    if (name === "answer" || name === "verify") for (const button of buttons) button.disabled = false;
    else await look();
  } catch (error) {
    place.status.textContent = "";
    place.result.className = "said wrong";
    const word = error.verdict ? make("strong", { id: "lab-verdict" }, `${t(`verdict.${error.verdict}`)}. `) : null;
    place.result.replaceChildren(make("p", { role: "alert" }, word ?? "", error.message));
    for (const button of buttons) button.disabled = false;
  }
  place.result.focus();
}

function said(name, result) {
  if (name === "answer") {
    const lines = result.evidence.map((line) => make("li", {}, line));
    return [verdict(result.ruling), make("p", {}, t("labs.points", { points: result.points })), make("ul", {}, ...lines)];
  }
  if (name === "verify") {
    const parts = [verdict(result.ruling)];
    if (result.diagnosis_missing) parts.push(make("p", {}, t("labs.still")));
    if (result.debrief) parts.push(make("h3", {}, t("labs.debrief")), make("pre", { tabindex: "0" }, result.debrief));
    return parts;
  }
  return name === "start" ? [] : [make("p", {}, result.text)];
}

function verdict(ruling) {
  return make("p", {}, make("strong", { id: "lab-verdict" }, `${t(`verdict.${ruling.verdict}`)}. `), ruling.text);
}

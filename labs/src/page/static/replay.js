// A recorded journey, shown again without a cluster: play, pause, step by step.
import { ask, byId, t } from "/static/wire.js";

/** Waits between two steps are those of the recording, but none is longer than this. */
const LONGEST_MILLIS = 700;
const SHORTEST_MILLIS = 60;
/** For readers who want no movement, a step at a time in an even, slow beat. */
const CALM_MILLIS = 1200;

export class Replay {
  constructor({ show, end }) {
    this.show = show;
    this.end = end;
    this.on = false;
    this.done = 0;
    this.all = 0;
    this.timer = 0;
    byId("replay-play").addEventListener("click", () => this.toggle());
    byId("replay-step").addEventListener("click", () => this.step());
    byId("replay-again").addEventListener("click", () => this.again());
    byId("replay-end").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** The newest objects first, of those that have steps already; the pod of the whole recording is what is followed. */
  listed() {
    const begun = new Set(this.steps.slice(0, this.done).map((step) => step.object));
    return { objects: this.objects.filter((one) => begun.has(one.object)).map((one) => ({ ...one, ended: false })), choice: this.choice };
  }

  async start(playing) {
    const recording = await ask("/api/recording");
    Object.assign(this, { steps: recording.steps, objects: recording.objects, choice: recording.choice });
    this.all = this.steps.length;
    this.first = this.beginning();
    this.done = this.first;
    this.on = true;
    this.buttons();
    byId("replay-play").focus();
    await this.show();
    if (playing && !this.timer) this.play();
  }

  /** What came long before the followed object isn't waited for. */
  beginning() {
    const name = this.choice?.split("/").at(-1) ?? "";
    const own = this.steps.findIndex((step) => {
      const maker = step.object.split("/").at(-1);
      return step.object === this.choice || (step.object.startsWith("Deployment ") && name.startsWith(`${maker}-`));
    });
    return Math.max(own, 0);
  }

  buttons() {
    for (const id of ["play", "step", "again", "end", "progress", "keys"]) byId(`replay-${id}`).hidden = !this.on;
    byId("replay-start").hidden = this.on;
    byId("replay-play").textContent = this.timer ? t("replay.pause") : t("replay.play");
    const over = this.done >= this.all;
    byId("replay-step").disabled = over;
    byId("replay-play").disabled = over;
    byId("replay-progress").max = Math.max(this.all - this.first, 1);
    byId("replay-progress").value = this.done - this.first;
  }

  toggle() {
    if (this.timer) this.pause();
    else this.play();
  }

  play() {
    if (this.done >= this.all) return this.pause();
    const now = this.steps[this.done - 1]?.at_micros ?? this.steps[this.done].at_micros;
    const wait = (this.steps[this.done].at_micros - now) / 1000;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const millis = calm ? CALM_MILLIS : Math.min(Math.max(wait, SHORTEST_MILLIS), LONGEST_MILLIS);
    this.timer = setTimeout(async () => {
      await this.advance();
      if (this.timer) this.play();
    }, millis);
    this.buttons();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.buttons();
  }

  async step() {
    this.pause();
    await this.advance();
    this.buttons();
  }

  async advance() {
    if (this.done < this.all) this.done += 1;
    this.buttons();
    await this.show();
  }

  async again() {
    this.pause();
    this.done = this.first;
    this.buttons();
    await this.show();
  }

  stop() {
    this.pause();
    this.on = false;
    this.buttons();
    byId("replay-start").focus();
    this.end();
  }

  key(event) {
    const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (!this.on || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "p") this.toggle();
    else if (event.key === "n") this.step();
    else return;
    event.preventDefault();
  }
}

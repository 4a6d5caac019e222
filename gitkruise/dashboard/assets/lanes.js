// Pods per revision over time, as far as the server remembers; one moment of it can be chosen.
import { el, keep, say, showCommit } from "./dom.js";
import { clock, plural } from "./words.js";

const SHOWN = 8; // revisions
const HIGH = 28; // of a lane, in pixels
const COMMITS = 6; // that are named, the newest ones
const TICK_MS = 5000;
const READ_MS = 300; // after a change, for those that come with it
const COLOURS = { update: "--new", current: "--old" };

export class RevisionLanes {
  /** `choose(at)` is called with a moment as the server writes it, "" for now. */
  constructor(path, choose) {
    this.path = path;
    this.choose = choose;
    this.moments = [];
    this.roles = new Map(); // revision → role
    this.offset = 0; // of the server's clock
    this.at = "";
    this.facts = el("p", { class: "summary" }, "Nothing is remembered yet");
    this.lanes = el("div", { class: "lanes" });
    this.marks = el("ol", { class: "marks", "aria-label": "Commits" });
    this.range = el("input", { type: "range", min: "0", step: "1", "aria-label": "Moment", input: () => this.move() });
    this.said = el("p", { class: "card" });
    this.back = el("button", { type: "button", hidden: "", click: () => this.go("") }, "Back to now");
    this.root = el(
      "section",
      { hidden: "" },
      el("h2", {}, "Revisions over time"),
      this.facts,
      this.lanes,
      this.marks,
      el("div", { class: "tools" }, this.range, this.back),
      this.said,
    );
    for (const name of ["themechange", "resize"]) window.addEventListener(name, () => this.show());
    this.timer = setInterval(() => this.show(), TICK_MS);
  }

  /** Ask what the server remembers from a moment on, "" for all. */
  async read(since) {
    const reply = await fetch(`/api/v1/past/${this.path}?since=${since}`).catch(() => null);
    if (!reply?.ok) return;
    const found = await reply.json();
    const known = this.moments.filter((moment) => moment.at >= found.since && moment.at < since);
    this.moments = [...known, ...found.moments];
    this.offset = Date.parse(found.now) - Date.now();
    this.show();
  }

  /** Take in the rows of now: the server knows when pods went from one revision to another. */
  observe(rows) {
    const head = rows.get("");
    for (const one of head?.rollout?.revisions ?? []) this.roles.set(one.hash, one.role);
    const pods = {};
    for (const [name, pod] of rows) if (name !== "") pods[pod.revision] = (pods[pod.revision] ?? 0) + 1;
    const last = this.moments.at(-1);
    if (!last || (same(last.pods, pods) && last.commit === (head?.commit ?? last.commit))) return;
    this.reading ??= setTimeout(() => {
      this.reading = null;
      this.read(last.at);
    }, READ_MS);
  }

  now() {
    return Date.now() + this.offset;
  }

  move() {
    const n = Number(this.range.value);
    this.go(n >= this.moments.length ? "" : this.moments[n].at);
  }

  go(at) {
    this.at = at;
    this.show();
    this.choose(at);
  }

  show() {
    if (!this.root.isConnected && this.shown) clearInterval(this.timer);
    this.root.hidden = this.moments.length === 0;
    if (this.root.hidden || !this.root.isConnected) return;
    this.shown = true;
    const gaps = this.moments.filter((moment) => moment.unseen !== "").length;
    const holes = gaps === 0 ? "" : `, with ${plural(gaps, "gap")} in which no browser watched`;
    say(this.facts, `The server remembers ${clock(this.moments[0].at)} to ${clock(this.now())}${holes}`);
    const all = this.revisions();
    keep(this.lanes, all.slice(0, SHOWN).map((one) => [one, one]), (one) => this.makeLane(one), (lane, one) => this.showLane(lane, one));
    const marks = this.commits().slice(-COMMITS);
    keep(this.marks, marks.map((mark) => [`${mark.at} ${mark.id}`, mark]), makeMark, (item, mark) => {
      showCommit(item.firstChild, mark.id);
      say(item.lastChild, this.since(mark));
    });
    this.range.max = String(this.moments.length);
    const place = this.place();
    this.range.value = String(place);
    const text = this.words(place);
    this.range.setAttribute("aria-valuetext", text);
    const more = all.length > SHOWN ? ` · ${plural(all.length - SHOWN, "more revision")}` : "";
    say(this.said, text + more);
    this.back.hidden = this.at === "";
  }

  /** The number of the moment that is shown; that of moments for now. */
  place() {
    if (this.at === "") return this.moments.length;
    const later = this.moments.findIndex((moment) => moment.at > this.at);
    return Math.max(0, (later < 0 ? this.moments.length : later) - 1);
  }

  words(place) {
    const moment = this.moments[Math.min(place, this.moments.length - 1)];
    const there = this.revisions().filter((revision) => revision in moment.pods);
    const pods = there.map((revision) => `${plural(moment.pods[revision], "pod")} of ${revision || "no revision"}`);
    return `${place === this.moments.length ? "Now" : clock(moment.at)}: ${pods.join(", ") || "no pods"}`;
  }

  /** Moments at which the workload had another commit from git than before, the oldest first. */
  commits() {
    const marks = [];
    for (const { at, commit, unseen } of this.moments) {
      if (commit !== "" && commit !== marks.at(-1)?.id) marks.push({ at, id: commit, unseen });
    }
    return marks;
  }

  /** When a commit came, as exactly as it is known. */
  since(mark) {
    if (mark.at === this.moments[0].at) return `before ${clock(mark.at)}`;
    return mark.unseen === "" ? `at ${clock(mark.at)}` : `between ${clock(mark.unseen)} and ${clock(mark.at)}`;
  }

  /** Revisions of any moment, those of now first. */
  revisions() {
    const found = new Set();
    for (const moment of [...this.moments].reverse()) for (const one of Object.keys(moment.pods)) found.add(one);
    const order = ["update", "current", "other", undefined];
    return [...found].sort((a, b) => order.indexOf(this.roles.get(a)) - order.indexOf(this.roles.get(b)));
  }

  makeLane(revision) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    canvas.addEventListener("click", (event) => this.point(canvas, event));
    return el("div", { class: "revision-lane" }, el("span", { class: "commit" }, revision || "no revision"), el("span", { class: "count" }), canvas);
  }

  showLane(lane, revision) {
    const [, count, canvas] = lane.children;
    say(count, plural(this.moments[Math.min(this.place(), this.moments.length - 1)].pods[revision] ?? 0, "pod"));
    const wide = Math.max(1, canvas.clientWidth);
    const scale = window.devicePixelRatio || 1;
    canvas.width = wide * scale;
    canvas.height = HIGH * scale;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const most = Math.max(1, ...this.moments.map((moment) => Object.values(moment.pods).reduce((sum, count) => sum + count, 0)));
    const x = (time) => ((time - this.begin()) / this.span()) * wide;
    pen.fillStyle = colour(COLOURS[this.roles.get(revision)] ?? "--older");
    this.moments.forEach((moment, n) => {
      const next = this.moments[n + 1];
      const end = next ? Date.parse(next.unseen || next.at) : this.now();
      const high = ((moment.pods[revision] ?? 0) / most) * HIGH;
      const from = x(Date.parse(moment.at));
      pen.fillRect(from, HIGH - high, Math.max(1, x(end) - from), high);
    });
    pen.fillStyle = colour("--dim");
    for (const mark of this.commits()) {
      if (mark.at !== this.moments[0].at) pen.fillRect(Math.min(wide - 1, x(Date.parse(mark.at))), 0, 1, HIGH);
    }
    if (this.at === "") return;
    pen.fillStyle = colour("--ink");
    pen.fillRect(Math.min(wide - 2, x(Date.parse(this.moments[this.place()].at))), 0, 2, HIGH);
  }

  begin() {
    return Date.parse(this.moments[0].at);
  }

  span() {
    return Math.max(1000, this.now() - this.begin());
  }

  /** Choose the moment under the pointer. */
  point(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const time = this.begin() + ((event.clientX - box.left) / box.width) * this.span();
    const later = this.moments.findIndex((moment) => Date.parse(moment.at) > time);
    this.go(this.moments[Math.max(0, (later < 0 ? this.moments.length : later) - 1)].at);
  }
}

function makeMark() {
  return el("li", {}, el("span", { class: "commit" }), " ", el("span", { class: "count" }));
}

function same(a, b) {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

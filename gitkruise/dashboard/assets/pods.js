// Every pod as a cell: the colour is its revision, the shape its condition. A pod keeps its cell.
import { el, say } from "./dom.js";
import { plural } from "./words.js";

const SIZES = [[60, 26], [300, 18], [2500, 10], [Infinity, 6]]; // pods up to, cell in pixels
const COLOURS = { update: "--new", current: "--old", other: "--older" };
const ROLES = { update: "newest revision", current: "previous revision", other: "older revision" };

export class PodGrid {
  constructor() {
    this.rows = new Map();
    this.cells = new Map(); // pod → place
    this.pods = []; // place → pod, or null after it went
    this.dirty = new Set(); // places to draw; null: all
    this.chosen = ""; // pod
    this.canvas = el("canvas");
    this.summary = el("p", { class: "summary", id: "pods-summary" });
    this.card = el("p", { class: "card", role: "status" });
    this.box = el("div", {
      class: "grid",
      tabindex: "0",
      role: "img",
      "aria-labelledby": "pods-summary",
      keydown: (event) => this.press(event),
    }, this.canvas);
    this.root = el("div", {}, this.summary, this.box, this.card, legend());
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    new ResizeObserver(() => this.redraw()).observe(this.box);
    for (const name of ["themechange", "resize"]) window.addEventListener(name, () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  /** Take rows in; `told` names what changed, so that only those cells are drawn. */
  take(rows, told) {
    this.rows = rows;
    const before = this.pods.length;
    if (told.reset) this.lay();
    else {
      for (const pod of told.gone) this.vacate(pod);
      for (const pod of Object.keys(told.set)) if (pod !== "") this.place(pod);
    }
    if (told.reset || this.pods.length !== before) this.redraw();
    else this.schedule();
    this.count();
    this.tell();
  }

  /** Give every pod a cell: the newest revision first, then by name. */
  lay() {
    const order = ["update", "current", "other"];
    const known = [...this.rows].filter(([name]) => name !== "");
    const kept = known.every(([name]) => this.cells.has(name)) && this.cells.size === known.length;
    if (kept && known.length > 0) return;
    known.sort(([a, x], [b, y]) => order.indexOf(x.role) - order.indexOf(y.role) || (a < b ? -1 : 1));
    this.pods = known.map(([name]) => name);
    this.cells = new Map(this.pods.map((name, place) => [name, place]));
  }

  place(pod) {
    if (!this.cells.has(pod)) {
      const free = this.pods.indexOf(null);
      const place = free < 0 ? this.pods.length : free;
      this.pods[place] = pod;
      this.cells.set(pod, place);
    }
    this.dirty.add(this.cells.get(pod));
  }

  vacate(pod) {
    const place = this.cells.get(pod);
    if (place === undefined) return;
    this.cells.delete(pod);
    this.pods[place] = null;
    while (this.pods.length > 0 && this.pods.at(-1) === null) this.pods.pop();
    this.dirty.add(place);
  }

  redraw() {
    const count = this.pods.length;
    this.size = SIZES.find(([most]) => count <= most)[1];
    const width = Math.max(this.box.clientWidth, this.size);
    this.columns = Math.max(1, Math.floor(width / this.size));
    const lines = Math.ceil(count / this.columns);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = this.columns * this.size * scale;
    this.canvas.height = Math.max(1, lines * this.size * scale);
    this.canvas.style.width = `${this.columns * this.size}px`;
    this.canvas.style.height = `${lines * this.size}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(
      ["--new", "--old", "--older", "--bad", "--page", "--ink"].map((name) => [name, style.getPropertyValue(name).trim()]),
    );
    this.pods.forEach((_, place) => this.dirty.add(place));
    this.schedule();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (!this.pen) return;
      for (const place of this.dirty) this.draw(place);
      this.dirty.clear();
    });
  }

  draw(place) {
    const x = (place % this.columns) * this.size;
    const y = Math.floor(place / this.columns) * this.size;
    const pen = this.pen;
    pen.clearRect(x, y, this.size, this.size);
    const pod = this.rows.get(this.pods[place]);
    if (!pod) return;
    const side = this.size - Math.max(1, Math.round(this.size / 8));
    cell(pen, x, y, side, pod.state, this.colours[COLOURS[pod.role] ?? "--older"], this.colours);
    if (this.pods[place] === this.chosen) {
      pen.strokeStyle = this.colours["--ink"];
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, side - 2, side - 2);
    }
  }

  count() {
    const states = new Map();
    for (const [name, pod] of this.rows) if (name !== "") states.set(pod.state, (states.get(pod.state) ?? 0) + 1);
    const parts = [...states].sort(([a], [b]) => (a < b ? -1 : 1)).map(([state, n]) => `${n} ${state}`);
    const fresh = [...this.rows].filter(([name, pod]) => name !== "" && pod.role === "update").length;
    const total = this.cells.size;
    say(this.summary, total === 0 ? "No pods" : `${plural(total, "pod")}, ${fresh} of the newest revision: ${parts.join(", ")}`);
  }

  press(event) {
    const here = this.cells.get(this.chosen);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    const step = steps[event.key];
    const ends = { Home: 0, End: this.pods.length - 1 };
    if (step !== undefined) this.choose(here === undefined ? 0 : here + step);
    else if (ends[event.key] !== undefined) this.choose(ends[event.key]);
    else return;
    event.preventDefault();
  }

  nextFailing() {
    const count = this.pods.length;
    const here = this.cells.get(this.chosen) ?? -1;
    for (let n = 1; n <= count; n += 1) {
      const place = (here + n) % count;
      if (this.rows.get(this.pods[place])?.state === "Failing") {
        this.choose(place);
        return;
      }
    }
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    const line = Math.floor((event.clientY - box.top) / this.size);
    this.choose(line * this.columns + column);
  }

  choose(place) {
    const pod = this.pods[place];
    if (!pod || pod === this.chosen) return;
    this.dirty.add(this.cells.get(this.chosen)).add(place);
    this.chosen = pod;
    this.schedule();
    this.tell();
  }

  /** Say how the chosen pod is, as long as it is chosen. */
  tell() {
    if (this.chosen === "") return;
    const pod = this.rows.get(this.chosen);
    const parts = pod
      ? [pod.state, `${ROLES[pod.role]} ${pod.revision}`, pod.node && `node ${pod.node}`, plural(pod.restarts, "restart"), pod.why]
      : ["not there"];
    say(this.card, `${this.chosen}: ${parts.filter(Boolean).join(" · ")}`);
  }
}

/** Draw one cell of `side` pixels. */
function cell(pen, x, y, side, state, colour, colours) {
  pen.fillStyle = colour;
  pen.strokeStyle = colour;
  pen.lineWidth = Math.max(1, side / 8);
  const inset = pen.lineWidth / 2;
  const outline = () => pen.strokeRect(x + inset, y + inset, side - 2 * inset, side - 2 * inset);
  switch (state) {
    case "Starting":
      outline();
      break;
    case "Updating in place":
      outline();
      pen.fillRect(x, y + side / 2, side, side / 2);
      break;
    case "Terminating":
      outline();
      line(pen, x, y + side, x + side, y);
      break;
    case "Failing":
      pen.fillRect(x, y, side, side);
      pen.strokeStyle = colours["--bad"];
      outline();
      pen.strokeStyle = colours["--page"];
      line(pen, x + side / 4, y + side / 4, x + (3 * side) / 4, y + (3 * side) / 4);
      line(pen, x + (3 * side) / 4, y + side / 4, x + side / 4, y + (3 * side) / 4);
      break;
    case "Ended":
      pen.globalAlpha = 0.4;
      outline();
      pen.globalAlpha = 1;
      break;
    default:
      pen.fillRect(x, y, side, side);
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function legend() {
  const shapes = [["ready", "Ready"], ["updating", "Updating in place"], ["starting", "Starting"], ["failing", "Failing"], ["ending", "Terminating"]];
  const roles = [["update", "newest revision"], ["current", "previous revision"], ["other", "older"]];
  const entry = ([name, word]) => el("li", {}, el("span", { class: `sample ${name}`, "aria-hidden": "true" }), word);
  return el("ul", { class: "legend", "aria-label": "Legend" }, ...shapes.map(entry), ...roles.map(entry));
}

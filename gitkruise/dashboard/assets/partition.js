// A slider over the partition of a rollout: what another value would do, as the command previews it.
import { command, el, fill, say } from "./dom.js";
import { forecastView } from "./plan.js";
import { unanswered } from "./words.js";

const ASK_AFTER_MS = 500;
const READABLE = /^[0-9]+%?$/;

export class PartitionSlider {
  constructor(path) {
    this.path = path;
    this.now = ""; // the partition of the live object
    this.asked = 0; // previews so far: only the newest is shown
    this.range = el("input", { type: "range", min: "0", id: "partition", input: () => this.turn() });
    this.said = el("output", { for: "partition" });
    this.shown = el("div", { class: "plan", "aria-live": "polite" });
    const button = (text, label, step) => el("button", { type: "button", "aria-label": label, click: () => this.step(step) }, text);
    this.root = el(
      "section",
      { hidden: "" },
      el("h2", {}, "Partition"),
      el("p", { class: "facts" }, "Nothing here touches the cluster or git: choose a value to see what the commit would do."),
      el(
        "div",
        { class: "tools" },
        el("label", { for: "partition" }, "Pods that stay on the old revision"),
        button("−", "Lower partition", -1),
        this.range,
        button("+", "Higher partition", 1),
        this.said,
      ),
      this.shown,
    );
  }

  /**
   * Take in the rollout of now; a value that was chosen stays chosen. A canary is written as the pods
   * that it keeps back, because `--partition` means the same for every kind.
   */
  take(rollout) {
    const now = rollout.canary === "" ? rollout.partition : String(rollout.kept);
    if (!READABLE.test(now)) {
      this.root.hidden = true;
      return;
    }
    const percent = now.endsWith("%");
    const kept = !this.root.hidden && this.changed && percent === this.percent;
    this.now = now;
    this.percent = percent;
    this.range.max = this.percent ? "100" : String(Math.max(rollout.replicas, Number(amount(this.now))));
    this.range.step = this.percent && Number(amount(this.now)) % 5 === 0 ? "5" : "1";
    if (!kept) this.range.value = amount(this.now);
    if (!this.changed) fill(this.shown, []);
    this.root.hidden = false;
    this.tell();
  }

  get value() {
    return `${this.range.value}${this.percent ? "%" : ""}`;
  }

  get changed() {
    return this.range.value !== amount(this.now);
  }

  step(sign) {
    if (sign < 0) this.range.stepDown();
    else this.range.stepUp();
    this.turn();
  }

  tell() {
    const text = this.changed ? `${this.value}, now ${this.now}` : `${this.now}, as it is now`;
    say(this.said, text);
    this.range.setAttribute("aria-valuetext", text);
  }

  turn() {
    this.tell();
    clearTimeout(this.timer);
    this.asked += 1;
    if (!this.changed) {
      fill(this.shown, []);
      return;
    }
    this.timer = setTimeout(() => this.preview(this.asked), ASK_AFTER_MS);
  }

  async preview(asked) {
    fill(this.shown, [el("p", {}, "Planning …")]);
    const verb = Number(this.range.value) < Number(amount(this.now)) ? "promote" : "hold";
    const about = `/api/v1/forecast/${verb}/${this.path}?partition=${encodeURIComponent(this.value)}`;
    const reply = await fetch(about).catch(() => null);
    const found = reply?.ok ? await reply.json() : null;
    const why = found ? "" : await unanswered(reply, "the dashboard reads no repository");
    if (asked !== this.asked) return;
    fill(this.shown, found ? [...forecastView(found), command(found.command)] : [el("p", { class: "note" }, `No preview: ${why}`)]);
  }
}

/** The number of a partition: `60` of "60%". */
function amount(partition) {
  return partition.replace("%", "");
}

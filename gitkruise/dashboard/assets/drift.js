// Drift: fields of live objects that differ from git, compared on request and as recorded.
import { showIntervention } from "./commit.js";
import { command, el, keep, makeLine, once, say, showNotes, table } from "./dom.js";
import { findingView } from "./plan.js";
import { moment, plural, unanswered, written } from "./words.js";

const HEADS = ["Object", "Field", "Git", "Live", "By", "When"];

export class DriftPage {
  constructor() {
    this.title = "Drift";
    this.topics = ["drift"];
    this.rows = new Map();
    this.button = el("button", { type: "button", click: () => once(this.button, () => this.compare()) }, "Compare now");
    this.result = el("p", { class: "summary", role: "status" }, "Not compared yet: this reads every object of the units from the cluster.");
    this.live = table("Fields that differ from git now", HEADS, "drift");
    this.live.root.hidden = true;
    this.unread = el("div", { class: "notes" });
    this.command = el("div", {});
    this.notes = el("div", { class: "notes" });
    this.summary = el("p", { class: "summary" }, "Reading the status branches …");
    this.recorded = table("Recorded drift that is not corrected", ["Object", "Cluster", ...HEADS.slice(1)], "drift");
    this.told = el("p", { class: "summary" });
    this.interventions = table("Interventions", ["Time", "Object", "Reason", "Message"], "interventions");
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, "Drift"),
      this.notes,
      section("Live objects", el("div", { class: "tools" }, this.button), this.result, this.unread, this.live.root, this.command),
      section("Recorded", this.summary, this.recorded.root),
      section("Interventions", this.told, this.interventions.root),
    );
  }

  take(topic, rows) {
    if (topic !== "drift") return;
    this.rows = rows;
    this.show();
  }

  async compare() {
    say(this.result, "Comparing …");
    const reply = await fetch("/api/v1/drift").catch(() => null);
    if (reply?.ok) this.compared(await reply.json());
    else say(this.result, `Not compared: ${await unanswered(reply, "the dashboard reads no repository")}.`);
  }

  compared(found) {
    const rows = found.items.map((one) => [`${text(one)} ${one.field}`, one]);
    keep(this.live.body, rows, () => makeLine(5), (row, one) => fill(row, [text(one), ...values(one)]));
    this.live.root.hidden = rows.length === 0;
    const hidden = found.hidden === "" ? [] : [el("p", { class: "note" }, found.hidden)];
    this.unread.replaceChildren(...found.findings.map(findingView), ...hidden);
    const what = rows.length === 0 ? "nothing differs from git" : `${plural(rows.length, "field")} ${rows.length === 1 ? "differs" : "differ"} from git`;
    this.command.replaceChildren(command(found.command));
    say(this.result, `${what}: ${plural(found.compared, "object")} compared ${moment(found.at)}`);
  }

  show() {
    const head = this.rows.get("");
    if (!head) return;
    showNotes(this.notes, head);
    const of = (kind) => [...this.rows].filter(([key]) => key.startsWith(`${kind}/`));
    const drift = of("drift");
    keep(this.recorded.body, drift, () => makeLine(6), (row, one) => fill(row, [text(one), one.cluster, ...values(one)]));
    this.recorded.root.hidden = drift.length === 0;
    const mine = head.hidden ? " of what you may list" : "";
    const what = drift.length === 0 ? `No drift${mine} is recorded` : plural(drift.length, "recorded field");
    say(this.summary, [what, written(head.written)].filter(Boolean).join(" · "));
    const told = of("intervention").sort(([, a], [, b]) => (a.time < b.time ? 1 : -1));
    keep(this.interventions.body, told, () => makeLine(3), showIntervention);
    this.interventions.root.hidden = told.length === 0;
    say(this.told, told.length === 0 ? `No drift was corrected, no object${mine} was taken over or pruned` : plural(told.length, "intervention"));
  }
}

function section(title, ...content) {
  return el("section", {}, el("h2", {}, title), ...content);
}

function text(one) {
  const { kind, namespace, name } = one.object;
  return `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
}

function values(one) {
  return [one.field, one.git, one.live, one.manager || "-", moment(one.written)];
}

function fill(row, texts) {
  texts.forEach((said, n) => say(row.children[n], said));
}

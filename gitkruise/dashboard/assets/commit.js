// One commit: what the status branches record of it, and its plan.
import { commitLink, el, fill, keep, makeLine, say, showNotes, table } from "./dom.js";
import { showState } from "./fleet.js";
import { ask, PlanSection } from "./plan.js";
import { moment, written } from "./words.js";

export class CommitPage {
  constructor(id) {
    this.id = id;
    this.title = `Commit ${id.slice(0, 7)}`;
    this.topic = `commit/${id}`;
    this.topics = [this.topic];
    this.rows = new Map();
    this.cluster = "";
    this.subject = el("span", { class: "space" });
    this.facts = el("p", { class: "facts" });
    this.message = el("pre", { class: "text", tabindex: "0", "aria-label": "Message of the commit", hidden: "" });
    this.approvals = el("p", { hidden: "" });
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the status branches …");
    this.notes = el("div", { class: "notes" });
    this.units = table("Units that name this commit", ["Unit", "Named as", "State", "Since", "Message"], "units");
    this.steps = table("Rollouts of this commit", ["Object", "Unit", "State", "Change", "Asked", "Result", "Began"], "steps");
    this.interventions = table("Interventions while it was the newest commit", ["Time", "Object", "Reason", "Message"], "interventions");
    this.plan = new PlanSection(id, `gitkruise plan ${id.slice(0, 7)}`);
    this.parts = [
      part("Units", this.units.root),
      part("Rollouts", this.steps.root),
      part("Interventions", this.interventions.root),
    ];
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, this.title, this.subject),
      this.facts,
      this.approvals,
      this.message,
      this.notes,
      el("section", { class: "record" }, el("h2", {}, "Record"), this.summary, ...this.parts),
      this.plan.root,
    );
    ask("commit", id, (found) => this.showCommit(found), (why) => say(this.facts, `Not read: ${why}`));
  }

  press(key) {
    if (key !== "d") return false;
    this.plan.tabs.next();
    return true;
  }

  showCommit(found) {
    say(this.subject, found.subject);
    const parents = found.parents.flatMap((id, n) => [n > 0 ? ", " : found.parents.length > 1 ? " · parents " : " · parent ", commitLink(id)]);
    fill(this.facts, [el("span", { class: "commit" }, found.id), ["", found.author, moment(found.time)].filter((text, n) => n === 0 || text !== "").join(" · "), ...parents]);
    const body = found.message.trim();
    this.message.hidden = body === "" || body === found.subject;
    say(this.message, body);
    const withheld = "hidden" in found && body === "";
    if (withheld) this.facts.append(" · its message is shown to those who may list every object that it changes");
    this.approvals.hidden = found.approvals.length === 0;
    say(this.approvals, `Approves ${found.approvals.join(", ")}`);
  }

  take(topic, rows) {
    if (topic === "cluster") this.cluster = rows.get("")?.cluster ?? "";
    if (topic === this.topic) this.rows = rows;
    this.show();
  }

  show() {
    const head = this.rows.get("");
    if (!head) return;
    if (head.subject && this.subject.textContent === "") say(this.subject, head.subject);
    showNotes(this.notes, head);
    say(this.summary, head.recorded ? written(head.written) : ["No status branch names this commit", written(head.written)].filter(Boolean).join(" · "));
    const of = (kind) => [...this.rows].filter(([key]) => key.startsWith(`${kind}/`));
    this.showUnits(of("unit"));
    this.showSteps(of("step"));
    const told = of("intervention").sort(([, a], [, b]) => (a.time < b.time ? 1 : -1));
    keep(this.interventions.body, told, () => makeLine(3), showIntervention);
    this.parts[2].hidden = told.length === 0;
  }

  showUnits(found) {
    keep(this.units.body, found, () => makeLine(4), (row, unit) => {
      const [name, named, state, since, message] = row.children;
      say(name, `${unit.cluster} ${unit.unit}`);
      say(named, unit.named.join(", "));
      if (unit.state !== "") showState(state, unit.state);
      else {
        delete state.dataset.state;
        fill(state, []);
      }
      state.className = "state";
      say(since, moment(unit.since));
      const waits = unit.waits === "" ? "" : `waits for ${unit.waits}`;
      const promotion = unit.promotion === "" ? "" : `promotion: ${unit.promotion}`;
      const lines = [unit.message, waits, promotion, ...unit.problems].filter((line, n, all) => line !== "" && all.indexOf(line) === n);
      say(message, lines.join("\n"));
      message.className = "message";
    });
    this.parts[0].hidden = found.length === 0;
  }

  showSteps(found) {
    keep(this.steps.body, found, () => makeLine(6), (row, step) => {
      const [object, unit, state, change, asked, result, began] = row.children;
      const text = `${step.noun}/${step.name}${step.namespace ? ` -n ${step.namespace}` : ""}`;
      const path = [step.noun, step.namespace, step.name].filter(Boolean).map(encodeURIComponent).join("/");
      const here = step.cluster === this.cluster;
      const known = `${here} ${text}`;
      if (object.dataset.known !== known) fill(object, [here ? el("a", { href: `/${path}` }, text) : text]);
      object.dataset.known = known;
      row.dataset.row = "";
      say(unit, `${step.cluster} ${step.unit}`);
      state.className = "state";
      showState(state, step.state);
      const texts = [step.change ?? "", step.asked === step.replicas ? "all" : `${step.asked} of ${step.replicas}`, step.result, moment(step.started)];
      [change, asked, result, began].forEach((cell, n) => say(cell, texts[n]));
      result.className = "message";
    });
    this.parts[1].hidden = found.length === 0;
  }
}

/** A corrected drift, takeover or deletion, in the words of `gitkruise history`. */
export function showIntervention(row, one) {
  const texts = [moment(one.time), one.object, one.reason, one.message];
  texts.forEach((text, n) => say(row.children[n], text));
  row.lastChild.className = "message";
}

function part(title, content) {
  return el("section", {}, el("h3", {}, title), content);
}

// A plan: what a commit changes, which pods it moves in which steps, and what holds it.
import { command, el, fill, table, tabs } from "./dom.js";
import { moment, plural, unanswered } from "./words.js";

const NO_ANSWER = "the dashboard reads no repository, or there is nothing of that name";

/** Ask about a commit, or what a pull request or a branch proposes: `show` takes the answer, `fail` why there is none. */
export async function ask(question, id, show, fail) {
  const path = id.split("/").map(encodeURIComponent).join("/");
  const reply = await fetch(`/api/v1/${question}/${path}`).catch(() => null);
  if (reply?.ok) show(await reply.json());
  else fail(await unanswered(reply, NO_ANSWER));
}

/** The section of a page with the plan of `id`, and its diff once it is asked for. */
export class PlanSection {
  constructor(id, otherwise) {
    this.id = id;
    this.otherwise = otherwise; // the command that plans it
    this.plan = el("div");
    this.diff = el("div");
    this.tabs = tabs("Plan", [["Effects", this.plan], ["Diff", this.diff]], (n) => n === 1 && this.compare());
    this.root = el("section", { class: "plan" }, el("h2", {}, "Plan"), this.tabs.list, this.plan, this.diff);
    this.start();
  }

  /** Plan it, also once more. */
  start() {
    this.compared = false;
    fill(this.plan, [el("p", { role: "status" }, "Planning …")]);
    fill(this.diff, [el("p", { role: "status" }, "Comparing …")]);
    ask("plan", this.id, (found) => fill(this.plan, planView(found)), (why) => this.unplanned(why));
    if (!this.diff.hidden) this.compare();
  }

  unplanned(why) {
    fill(this.plan, [el("p", { class: "note" }, `No plan: ${why}`), this.otherwise ? command(this.otherwise) : null]);
  }

  /** Ask for the diff when its tab is opened first. */
  compare() {
    if (this.compared) return;
    this.compared = true;
    ask("diff", this.id, (found) => fill(this.diff, diffView(found)), (why) => fill(this.diff, [el("p", { class: "note" }, `No diff: ${why}`)]));
  }
}

/** Return the nodes of a plan, in the sentences of `gitkruise plan`. */
export function planView(plan) {
  return [
    el("p", { class: "facts" }, `${plan.compared} · ${plan.source} · planned ${moment(plan.planned)} by this dashboard${plan.live ? "" : " from git alone, whatever the cluster has now"}`),
    plan.hidden ? el("p", { class: "note" }, plan.hidden) : null,
    ...changes(plan),
    command(plan.command),
    el("p", { class: "tools" }, el("button", { type: "button", click: () => window.print() }, "Print")),
  ].filter(Boolean);
}

/** Return the nodes of the edit and the plan that a command would make. */
export function forecastView(found) {
  if (found.message) return [el("p", { class: "facts" }, `${found.message} · ${moment(found.at)}`)];
  return [
    el("p", { class: "facts" }, `${found.plan.source} · planned ${moment(found.at)}; nothing is done`),
    found.plan.hidden ? el("p", { class: "note" }, found.plan.hidden) : null,
    found.diff.length === 0 ? null : el("pre", { class: "text", tabindex: "0", "aria-label": "Edit in git" }, found.diff.join("\n")),
    ...changes(found.plan),
  ].filter(Boolean);
}

function changes(plan) {
  return [
    plan.blast.length === 0 ? null : el("p", { class: "blast" }, ...plan.blast.flatMap((span, n) => [n > 0 ? " · " : null, words(span)])),
    plan.nothing === "" ? null : el("p", {}, plan.nothing),
    ...plan.entries.map(entryView),
    plan.moreEntries > 0 ? el("p", {}, `… and ${plural(plan.moreEntries, "more entry", "more entries")}`) : null,
    plan.summary === "" ? null : el("p", { class: "total" }, el("strong", {}, "Summary "), plan.summary),
    ...plan.findings.map(findingView),
  ].filter(Boolean);
}

/** A finding with its places, and what it says of the cause, of what is unchanged, and of what to do. */
export function findingView(found) {
  const places = found.places.map((place) => `at ${[place.file, place.line, place.column].filter(Boolean).join(":")}`);
  const notes = found.notes.map((note) => `${note.label}: ${note.text}`);
  return el("p", { class: "note" }, [`${found.severity} ${found.code}: ${found.message}`, ...places, ...notes].join("\n"));
}

/** Return the nodes of the manifests of a commit as unified diffs. */
export function diffView(found) {
  if (found.entries.length === 0) return [el("p", {}, "No manifest differs")];
  const more = found.moreEntries > 0 ? el("p", {}, `… and ${plural(found.moreEntries, "more object")}`) : null;
  return [...found.entries.map(diffEntry), more].filter(Boolean);
}

const SIDES = { "+": "added", "-": "removed", "@": "hunk" };

function diffEntry(entry) {
  const lines = entry.lines.map((line) => el("span", { class: SIDES[line[0]] ?? null }, `${line}\n`));
  const more = entry.moreLines > 0 ? el("p", {}, `… and ${plural(entry.moreLines, "more line")}`) : null;
  return el(
    "article",
    { class: "entry" },
    el("h3", { class: entry.change }, entry.name),
    el("p", { class: "facts" }, `${entry.source} · ${plural(entry.added, "line")} added, ${entry.removed} removed`),
    el("pre", { class: "text diff", tabindex: "0", "aria-label": `Diff of ${entry.name}` }, ...lines),
    more,
  );
}

function words(span) {
  return el("span", { class: `tone-${span.tone}` }, span.text);
}

function sentence(spans) {
  return spans.map(words);
}

function entryView(entry) {
  return el(
    "article",
    { class: "entry" },
    el("h3", { class: entry.change }, entry.name),
    el("p", { class: "facts" }, entry.source),
    fields(entry),
    entry.effect.length === 0 ? null : el("p", {}, el("strong", {}, "Effect "), ...sentence(entry.effect)),
    ...entry.rollouts.map(rolloutView),
    ...entry.notes.map((note) => el("p", {}, el("strong", {}, "Note "), note)),
  );
}

function fields(entry) {
  if (entry.fields.length === 0) return null;
  const found = table(`Fields of ${entry.name}`, ["Field", "Change", "Line", "Meaning"], "fields");
  for (const field of entry.fields)
    found.body.append(
      el(
        "tr",
        {},
        el("th", { scope: "row" }, field.path),
        el("td", {}, field.words),
        el("td", {}, field.line > 0 ? String(field.line) : ""),
        el("td", { class: field.loud ? "tone-alarm" : null }, field.remark),
      ),
    );
  const more = entry.moreFields > 0 ? el("p", {}, `… and ${plural(entry.moreFields, "more field")}`) : null;
  return el("div", {}, found.root, more);
}

function rolloutView(rollout) {
  const name = rollout.name === "" ? null : el("h4", {}, rollout.name);
  return el(
    "div",
    { class: "rollout" },
    name,
    ...rollout.effect.map((spans) => el("p", {}, el("strong", {}, "Effect "), ...sentence(spans))),
    rollout.budget === "" ? null : el("p", {}, el("strong", {}, "Waves "), rollout.budget),
    steps(rollout),
    rollout.hold.length === 0 ? null : el("p", { class: "hold" }, ...sentence(rollout.hold)),
    ...rollout.notes.map((note) => el("p", {}, el("strong", {}, "Note "), note)),
  );
}

function steps(rollout) {
  if (rollout.steps.length === 0) return null;
  const lines = rollout.steps.map((step) => {
    const share = step.total > 0 ? (100 * step.done) / step.total : 0;
    const fill = el("span");
    fill.style.width = `${share}%`;
    const bar = el("span", { class: "bar", "aria-hidden": "true" }, fill);
    return el("li", {}, bar, [`${step.done}/${step.total}`, step.moves, step.lasts].filter(Boolean).join(" · "));
  });
  const more = rollout.moreSteps > 0 ? el("p", {}, `… and ${plural(rollout.moreSteps, "more step")}`) : null;
  return el("div", {}, el("ol", { class: "steps" }, ...lines), more);
}

// The fleet: what needs somebody first, then what moves, then everything at rest.
import { el, fill, glyph, keep, say, showCommit } from "./dom.js";
import { FilteredPage } from "./filtered.js";
import { GLYPHS, NEEDS_YOU, plural, rank, STATES } from "./words.js";

export class FleetPage extends FilteredPage {
  constructor() {
    super("Fleet", "fleet", "Filter objects", "name, namespace, unit or commit");
    this.states = new Set((new URLSearchParams(location.search).get("state") ?? "").split(",").filter(Boolean));
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "States" });
    this.notes = el("div", { class: "notes" });
    this.body = el("tbody");
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the cluster …");
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, "Fleet"),
      this.notes,
      el("div", { class: "tools" }, this.chips, this.filter),
      this.summary,
      el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Objects" }, this.table()),
    );
  }

  table() {
    const heads = ["Object", "State", "New", "Ready", "Commit", "Message"];
    return el(
      "table",
      { class: "objects" },
      el("caption", { class: "hidden" }, "Objects that gitkruise manages, those that need you first"),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      this.body,
    );
  }

  show() {
    const head = this.rows.get("");
    if (!head) return;
    const all = [...this.rows].filter(([key]) => key !== "");
    this.showNotes(head, all);
    this.showChips(all);
    const text = this.filter.value.toLowerCase();
    const found = all.filter(([, row]) => this.wanted(row, text));
    keep(this.body, this.ordered(found), makeRow, showRow);
    const empty = head.limited
      ? "You may list no object that gitkruise manages in this cluster"
      : head.unread.length > 0
      ? "gitkruise manages no workload of the kinds that the dashboard may list"
      : "gitkruise manages no workload in this cluster yet: gitkruise sync, or gitkruise run";
    const said = `${plural(found.length, "object")}${found.length < all.length ? ` of ${all.length}` : ""}`;
    say(this.summary, all.length ? said : empty);
  }

  wanted(row, text) {
    if (this.states.size > 0 && !this.states.has(row.state)) return false;
    const { namespace, name } = row.object;
    return `${row.noun}/${name} ${namespace} ${row.unit} ${row.commit}`.toLowerCase().includes(text);
  }

  /** Worst first; rows do not move while the pointer or the focus is among them. */
  ordered(found) {
    if (this.body.matches(":hover, :focus-within")) {
      const places = new Map([...this.body.children].map((row, place) => [row.dataset.key, place]));
      const place = ([key]) => places.get(key) ?? places.size;
      return found.sort((a, b) => place(a) - place(b));
    }
    return found.sort(([a, x], [b, y]) => rank(x.state) - rank(y.state) || (a < b ? -1 : 1));
  }

  showChips(all) {
    const counts = new Map(STATES.map((state) => [state, 0]));
    for (const [, row] of all) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
    const shown = [...counts].filter(([state, count]) => count > 0 || this.states.has(state));
    const make = (state) => el("button", { type: "button", class: "chip", click: () => this.toggle(state) });
    keep(this.chips, shown, make, (chip, count) => {
      const state = chip.dataset.key;
      chip.setAttribute("aria-pressed", String(this.states.has(state)));
      chip.dataset.needs = String(NEEDS_YOU.has(state));
      if (!chip.firstChild) chip.append(glyph(GLYPHS[state], state), el("span"));
      say(chip.lastChild, `${state} ${count}`);
    });
  }

  toggle(state) {
    if (!this.states.delete(state)) this.states.add(state);
    this.narrow();
  }

  query() {
    return new URLSearchParams(this.states.size > 0 ? { state: [...this.states].join(",") } : {});
  }

  /** The units that need you, apart from those whose objects say so in their rows. */
  showNotes(head, all) {
    const notes = [];
    if (head.unread.length > 0)
      notes.push(["The account of the dashboard may not list all kinds of objects", `Not shown: ${head.unread.join(", ")}`]);
    for (const line of head.stale.slice(0, 1)) notes.push([line, head.stale.slice(1).join(" ")]);
    const shown = new Set(all.filter(([, row]) => NEEDS_YOU.has(row.state)).map(([, row]) => row.unit));
    for (const unit of [...head.units].sort((a, b) => rank(a.state) - rank(b.state))) {
      const needs = NEEDS_YOU.has(unit.state);
      const name = unit.holder ? `${unit.unit} (${unit.holder})` : unit.unit;
      if (unit.waits !== "") notes.push([`Unit ${name} waits for ${unit.waits}`, "", needs]);
      else if (unit.problems.length > 0 || (needs && !shown.has(unit.unit)))
        notes.push([`Unit ${name} is ${unit.state}`, reasons(unit, needs).join("\n"), needs]);
      else if (unit.suspended) notes.push([`Unit ${name} is ${unit.message}`, "", needs]);
    }
    keep(this.notes, notes.map((note) => [note[0], note]), () => el("div", { class: "note" }), (box, [first, more, needs = true]) => {
      box.dataset.needs = String(needs);
      fill(box, [el("strong", {}, first), more === "" ? null : el("p", {}, more)]);
    });
  }
}

/** The reason of a state that needs you, and the first problem: a warning explains no state. */
function reasons(unit, needs) {
  const coded = /^GK\d{4}/.test(unit.message) && unit.problems.length > 0;
  return [...(needs && !coded ? [unit.message] : []), ...unit.problems.slice(0, 1)];
}

function makeRow(key) {
  return el(
    "tr",
    { "data-row": "" },
    el("th", { scope: "row" }, el("a", { href: `/${key}` }), el("span", { class: "space" })),
    el("td", { class: "state" }),
    el("td"),
    el("td"),
    el("td", { class: "commit" }),
    el("td", { class: "message" }),
  );
}

function showRow(row, item) {
  const [head, state, fresh, ready, commit, message] = row.children;
  const { namespace, name } = item.object;
  say(head.firstChild, `${item.noun}/${name}`);
  say(head.lastChild, namespace);
  showState(state, item.state);
  const rollout = item.rollout;
  if (rollout) {
    showBar(fresh, rollout);
    say(ready, `${rollout.ready}/${rollout.replicas}`);
  }
  showCommit(commit, item.commit);
  say(message, item.state === "Done" ? "" : item.message);
}

/** The state as a drawing and a word. */
export function showState(box, state) {
  if (box.dataset.state === state) return;
  box.dataset.state = state;
  fill(box, [glyph(GLYPHS[state] ?? GLYPHS.Unknown, state), el("span", {}, state)]);
}

/** New pods of all that are asked for: a bar, and the same in numbers. */
export function showBar(box, rollout) {
  const { updated, updatedReady, replicas, asked } = rollout;
  if (!box.firstChild) {
    const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("span"), el("span"), el("i"));
    box.append(bar, el("span", { class: "count" }));
  }
  const [ready, rest, gate] = box.firstChild.children;
  const share = (count) => `${replicas > 0 ? Math.min(100, (100 * count) / replicas) : 0}%`;
  ready.style.width = share(updatedReady);
  rest.style.width = share(updated - updatedReady);
  gate.style.left = share(asked);
  gate.hidden = asked >= replicas;
  say(box.lastChild, `${updated}/${replicas}`);
}

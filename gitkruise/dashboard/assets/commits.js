// History: every recorded commit, and a lane per unit with its outcome there.
import { el, fill, keep, say, showCommit, showNotes, table } from "./dom.js";
import { FilteredPage } from "./filtered.js";
import { showState } from "./fleet.js";
import { ProposedList } from "./proposed.js";
import { moment, plural, written } from "./words.js";

const SHOWN = 100;

export class CommitsPage extends FilteredPage {
  constructor() {
    super("Commits", "commits", "Filter commits", "commit, subject, author or unit");
    this.shown = SHOWN;
    this.topics.push("proposed");
    this.proposed = new ProposedList();
    this.notes = el("div", { class: "notes" });
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the status branches …");
    this.table = table("Commits and their outcome in each unit", ["Commit", "When", "Author"], "commits");
    this.more = el("button", { type: "button", hidden: "", click: () => this.showMore() }, "Show more");
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, "Commits"),
      this.proposed.root,
      this.notes,
      el("div", { class: "tools" }, this.filter),
      this.summary,
      this.table.root,
      this.more,
    );
  }

  take(topic, rows) {
    if (topic === "proposed") this.proposed.show(rows);
    else super.take(topic, rows);
  }

  showMore() {
    this.shown += SHOWN;
    this.show();
  }

  show() {
    const head = this.rows.get("");
    if (!head) return;
    const text = this.filter.value.toLowerCase();
    const about = (row) => `${row.id} ${row.subject} ${row.author} ${Object.keys(row.lanes).join(" ")}`;
    const found = [...this.rows].filter(([key, row]) => key !== "" && about(row).toLowerCase().includes(text));
    found.sort(([a, x], [b, y]) => (x.started < y.started ? 1 : x.started > y.started ? -1 : a < b ? -1 : 1));
    const lanes = head.lanes.filter((lane) => found.some(([, row]) => lane in row.lanes));
    this.showLanes(lanes);
    keep(this.table.body, found.slice(0, this.shown), () => makeRow(), (row, commit) => showRow(row, commit, lanes));
    this.more.hidden = found.length <= this.shown;
    showNotes(this.notes, head);
    say(this.summary, this.said(head, found.length));
  }

  said(head, found) {
    if (head.commits === 0) return head.hidden ? "No recorded commit concerns a unit that you may list" : "No commit is recorded in a status branch of this repository";
    const all = this.rows.size - 1;
    const older = head.commits > all ? `, the newest ${all} of ${head.commits}` : "";
    return `${plural(found, "commit")}${found < all ? ` of ${all}` : ""}${older} · ${written(head.written)}`;
  }

  /** One column per lane, after the three of the commit. */
  showLanes(lanes) {
    const shown = [...this.table.head.children].slice(3).map((cell) => cell.textContent);
    if (shown.length === lanes.length && shown.every((lane, n) => lane === lanes[n])) return;
    const fixed = [...this.table.head.children].slice(0, 3);
    fill(this.table.head, [...fixed, ...lanes.map((lane) => el("th", { scope: "col" }, lane))]);
  }
}

function makeRow() {
  const head = el("th", { scope: "row" }, el("span", { class: "commit" }), el("span", { class: "subject" }));
  return el("tr", { "data-row": "" }, head, el("td"), el("td"));
}

function showRow(row, commit, lanes) {
  const [head, when, author] = row.children;
  showCommit(head.firstChild, commit.id);
  say(head.lastChild, commit.subject);
  say(when, moment(commit.started));
  say(author, commit.author);
  while (row.children.length > 3 + lanes.length) row.lastChild.remove();
  while (row.children.length < 3 + lanes.length) row.append(el("td", { class: "lane" }));
  lanes.forEach((lane, n) => showLane(row.children[3 + n], commit.lanes[lane]));
}

/** State, updated pods of those asked for, and whether the unit is at this commit. */
function showLane(cell, lane) {
  const known = JSON.stringify(lane ?? null);
  if (cell.dataset.known === known) return;
  cell.dataset.known = known;
  if (!lane) {
    fill(cell, []);
    return;
  }
  const state = el("span", { class: "state" });
  if (lane.state !== "") showState(state, lane.state);
  const counts = lane.objects > 0 ? `${lane.updated}/${lane.asked}` : "";
  const at = ["applied", "attempted"].find((word) => lane.named.includes(word)) ?? "";
  fill(cell, [state, el("span", { class: "count" }, counts), el("span", { class: "space" }, at)]);
}

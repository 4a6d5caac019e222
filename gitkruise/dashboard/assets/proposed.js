// What may be merged: open pull requests, and the page of one or of a branch with the plan of its merge.
import { commitLink, el, fill, keep, makeLine, say, table } from "./dom.js";
import { ask, PlanSection } from "./plan.js";

const GONE = "not among the open pull requests: it was closed, they are not read yet, or you may not list all its units";

/** The page of a pull request or branch by its place, such as `pr` and `shop`, `forge`, `42`. */
export class ProposedPage {
  constructor(kind, place) {
    this.id = [kind, ...place].join("/");
    this.title = `${kind === "pr" ? "Pull request" : "Branch"} ${place.at(-1)}`;
    this.topics = ["proposed"];
    this.listed = kind === "pr" && place.length > 1;
    this.head = "";
    this.subject = el("span", { class: "space" });
    this.facts = el("p", { class: "facts" });
    this.news = el("p", { class: "note", role: "status", hidden: "" });
    this.plan = new PlanSection(this.id, "");
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, this.title, this.subject),
      this.facts,
      this.news,
      el("p", { class: "tools" }, el("button", { type: "button", click: () => this.again() }, "Plan again")),
      this.plan.root,
    );
    this.look();
  }

  look() {
    ask("commit", this.id, (found) => this.showHead(found), (why) => say(this.facts, `Not read: ${why}`));
  }

  again() {
    this.head = "";
    this.news.hidden = true;
    this.look();
    this.plan.start();
  }

  press(key) {
    if (key !== "d") return false;
    this.plan.tabs.next();
    return true;
  }

  showHead(found) {
    this.head = found.id;
    say(this.subject, found.subject);
    const into = found.into === "" ? ["its last commit: the followed branches have it"] : [`to be merged into ${found.into} at `, commitLink(found.base)];
    const forge = /^https?:\/\//.test(found.url) ? [" · ", el("a", { href: found.url, rel: "noreferrer" }, "on its forge")] : [];
    const apart = found.live || !this.listed ? "" : " · from another repository: planned without live objects, as in its comment";
    fill(this.facts, [el("span", { class: "commit" }, found.id.slice(0, 7)), " ", ...into, apart, ...forge]);
    this.tell();
  }

  take(topic, rows) {
    if (topic === "proposed") this.rows = rows;
    this.tell();
  }

  /** Say that the plan is of an older head, or that it is not listed: the rows do not tell why. */
  tell() {
    if (!this.listed || !this.rows || this.head === "") return;
    const row = this.rows.get(this.id);
    const newer = row && row.head !== this.head ? `${row.head.slice(0, 7)} was pushed meanwhile: plan again` : "";
    const text = row ? newer : GONE;
    say(this.news, text);
    this.news.hidden = text === "";
  }
}

/** Open pull requests with links to their pages, and a field that opens one or a branch by its name. */
export class ProposedList {
  constructor() {
    this.table = table("Open pull requests into followed branches", ["Pull request", "Into", "Branch", "Units"], "proposed");
    this.rows = el("div", {}, this.table.root);
    this.news = el("p", { class: "note", role: "status" });
    this.owner = el("select", { id: "owner", "aria-label": "Source of the branch" });
    this.label = el("label", { for: "proposed" });
    this.name = el("input", { id: "proposed", type: "text", autocomplete: "off", spellcheck: "false", required: "" });
    this.form = el("form", { class: "tools", submit: (event) => this.go(event) }, this.label, this.owner, this.name, el("button", { type: "submit" }, "Show plan"));
    this.root = el("section", { hidden: "" }, el("h2", {}, "To be merged"), this.news, this.rows, this.form);
  }

  show(rows) {
    const pulls = [...rows].filter(([, row]) => row.number);
    pulls.sort(([, a], [, b]) => b.number - a.number);
    keep(this.table.body, pulls, (id) => makePull(id), showPull);
    this.rows.hidden = pulls.length === 0;
    const forges = [...rows].filter(([id]) => id.split("/")[0] === "forge").map(([, row]) => row);
    say(this.news, lookedAt(forges, pulls.length));
    this.news.hidden = this.news.textContent === "";
    this.numbers = rows.has("pr");
    say(this.label, this.numbers ? "Branch, or number of a pull request" : "Branch");
    const owners = [...rows].filter(([id]) => id.split("/")[0] === "branch").map(([, row]) => row.owner);
    keep(this.owner, owners.map((owner) => [owner, owner]), (owner) => el("option", { value: owner }), say);
    this.owner.hidden = owners.length < 2;
    this.form.hidden = owners.length === 0;
    this.root.hidden = pulls.length === 0 && owners.length === 0 && forges.length === 0;
  }

  go(event) {
    event.preventDefault();
    const name = this.name.value.trim();
    if (name === "") return;
    const number = this.numbers && /^#?([1-9][0-9]*)$/.exec(name);
    const place = this.owner.value === "" ? "" : `${this.owner.value}/`;
    location.assign(number ? `/pr/${number[1]}` : `/branch/${place}${encodeURIComponent(name)}`);
  }
}

/** What the list is of: a forge that was not read may have more pull requests than these. */
function lookedAt(forges, listed) {
  const unread = forges.filter((forge) => forge.problem !== "");
  if (unread.length > 0) return unread.map((forge) => `The open pull requests of ${forge.owner} are ${forge.problem}`).join(" · ");
  return forges.length > 0 && listed === 0 ? "No pull request into a followed branch is open" : "";
}

function makePull(id) {
  const line = makeLine(3);
  line.dataset.row = "";
  line.firstChild.append(el("a", { href: `/${id}` }), el("span", { class: "subject" }));
  return line;
}

function showPull(line, pull) {
  const [head, into, branch, units] = line.children;
  say(head.firstChild, `#${pull.number}`);
  say(head.lastChild, pull.title);
  [pull.into, pull.branch, pull.units.join(", ")].forEach((text, n) => say([into, branch, units][n], text));
}

// One workload: its state and reasons, every pod by revision and condition, revisions, events.
import { command, commitLink, el, fill, keep, once, say, showCommit } from "./dom.js";
import { EventList } from "./events.js";
import { RevisionLanes } from "./lanes.js";
import { showBar, showState } from "./fleet.js";
import { PartitionSlider } from "./partition.js";
import { PodGrid } from "./pods.js";
import { SidecarTable } from "./sidecars.js";
import { forecastView } from "./plan.js";
import { clock, plural, unanswered } from "./words.js";

const ASK_AFTER_MS = 400; // explanations of a state that lasts
const AGAIN_MS = 10_000; // reasons may change without the state, such as the record of a commit
const PAGE = 200;
// A command that makes a commit, with no arguments but those that find the object and the cluster.
const PLAIN = /^gitkruise (promote|hold|pause|resume|rollback) \S+(?: -n \S+| --(?:kubeconfig|context|cluster|repo) \S+| --sandbox)*$/;
const COMMAND = /^(gitkruise|kubectl) [^:;]*$/; // others are sentences, which may have one in them
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/; // as the server writes it
const ROLES = { update: "newest", current: "previous", other: "older" };

export class WorkloadPage {
  constructor(noun, namespace, name) {
    this.title = `${noun}/${name}`;
    this.place = [noun, namespace, name].filter(Boolean);
    this.pods = `pods/${this.place.join("/")}`;
    this.topics = [this.pods, "events"];
    this.rows = new Map(); // that are shown
    this.live = new Map(); // of now
    this.at = ""; // the moment that is shown; "" for now
    this.told = new Map(); // events of the cluster
    this.known = 0; // rows of pods that events were compared with
    this.asked = "";
    this.first = 0;
    this.state = el("span", { class: "state" });
    this.facts = el("p", { class: "facts" });
    this.bar = el("p", { class: "progress" });
    this.reasons = el("div");
    this.next = el("div");
    this.why = el("section", { "aria-labelledby": "why", hidden: "" }, el("h2", { id: "why" }, "Why"), this.reasons, this.next);
    this.grid = new PodGrid();
    this.lanes = new RevisionLanes(this.place.map(encodeURIComponent).join("/"), (at) => this.turnTo(at));
    this.slider = new PartitionSlider(this.place.map(encodeURIComponent).join("/"));
    this.past = el("p", { class: "note", role: "status", hidden: "" });
    this.table = this.podTable();
    this.revisions = el("tbody");
    this.sidecars = noun === "sidecarset" ? new SidecarTable(this.title) : null;
    this.events = new EventList(`Events of ${this.title} and its pods`);
    this.switch = el("button", { type: "button", "aria-pressed": "false", click: () => this.turn() }, "Table");
    this.count = el("h2", {}, "Pods");
    this.root = el(
      "div",
      { class: "page" },
      el("h1", {}, this.title, el("span", { class: "space" }, namespace), this.state),
      this.bar,
      this.facts,
      this.why,
      this.lanes.root,
      this.past,
      el("section", {}, el("div", { class: "tools" }, this.count, this.switch), this.grid.root, this.table),
      this.slider.root,
      this.sidecars?.root,
      el("section", {}, el("h2", {}, "Revisions"), this.revisionTable()),
      el("section", {}, el("h2", {}, "Events"), this.events.root),
    );
  }

  podTable() {
    this.podBody = el("tbody");
    this.pages = el("p", { class: "tools" });
    const heads = ["Pod", "State", "Revision", "Node", "Restarts", "Reason"];
    return el(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Pods", hidden: "" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, `Pods of ${this.title}`),
        el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
        this.podBody,
      ),
      this.pages,
    );
  }

  revisionTable() {
    const heads = ["Revision", "Role", "Pods", "Available", "Commit", "Images"];
    return el(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": "Revisions" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, `Revisions of ${this.title}`),
        el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
        this.revisions,
      ),
    );
  }

  press(key) {
    if (key === "p") this.turn();
    else if (key === "n") this.grid.nextFailing();
    else return false;
    return true;
  }

  /** Switch between the grid and the table, which says the same. */
  turn() {
    const table = this.table.hidden;
    this.table.hidden = !table;
    this.grid.root.hidden = table;
    this.switch.setAttribute("aria-pressed", String(table));
    this.showTable();
  }

  take(topic, rows, told) {
    if (topic === "events") {
      this.told = rows;
      this.showEvents(rows);
    }
    if (topic !== this.pods) return;
    this.live = rows;
    if (told.reset) this.begin();
    else this.lanes.observe(rows);
    if (this.at === "") this.showRows(rows, told);
  }

  /** Read what the server remembers, and show the moment of the address. */
  async begin() {
    this.lanes.observe(this.live);
    await this.lanes.read("");
    const at = new URLSearchParams(location.search).get("at") ?? "";
    if (MOMENT.test(at) && this.at === "") this.lanes.go(at);
  }

  /** Show the pods of now, or as they were at a moment; the address keeps it. */
  async turnTo(at) {
    this.at = at;
    history.replaceState(history.state, "", location.pathname + (at === "" ? "" : `?at=${at}`));
    this.past.hidden = at === "";
    if (at === "") {
      this.asked = "";
      this.showRows(this.live, { reset: true });
      return;
    }
    const path = this.place.map(encodeURIComponent).join("/");
    const reply = await fetch(`/api/v1/past/${path}?at=${encodeURIComponent(at)}`).catch(() => null);
    if (this.at !== at) return;
    if (!reply?.ok) {
      const why = await unanswered(reply, "the server remembers nothing of this object");
      say(this.past, `Not known at ${clock(at)}: ${why}. What is shown is of now.`);
      this.at = this.lanes.at = "";
      this.lanes.show();
      this.showRows(this.live, { reset: true });
      return;
    }
    const found = await reply.json();
    say(this.past, `State, pods, revisions and events are shown as they were at ${clock(at)}.`);
    this.why.hidden = true; // the reasons are those of now
    this.showRows(new Map(Object.entries(found.rows)), { reset: true });
  }

  showRows(rows, told) {
    const others = told.reset || rows.size !== this.known;
    this.rows = rows;
    this.known = rows.size;
    if (others) this.showEvents(this.told); // those of pods that came after the events
    const head = rows.get("");
    if (!head) {
      this.absent();
      return;
    }
    this.showHead(head, rows.size - 1);
    this.grid.take(rows, told);
    this.sidecars?.take(rows);
    this.showTable();
    if (this.at !== "") return;
    this.ask(head);
    if (head.rollout) this.slider.take(head.rollout);
  }

  absent() {
    delete this.state.dataset.state;
    fill(this.state, ["not there"]);
    say(this.facts, "The cluster has no such object, gitkruise does not manage it, or the dashboard may not list it.");
    this.grid.take(new Map(), { reset: true });
    this.sidecars?.take(new Map());
    this.showTable();
    this.why.hidden = true;
    this.asked = "";
    this.clear();
  }

  /** Drop what is known of a rollout. */
  clear() {
    fill(this.bar, []);
    fill(this.revisions, []);
    say(this.count, "Pods");
    this.slider.root.hidden = true;
  }

  showHead(head, pods) {
    showState(this.state, head.state);
    const { rollout } = head;
    const from = head.commit === "" ? "not applied by a unit" : `commit ${head.commit.slice(0, 7)}${head.unit ? ` of unit ${head.unit}` : ""}`;
    if (!rollout) {
      say(this.facts, [head.message, from].filter(Boolean).join(" · "));
      this.clear();
      return;
    }
    showBar(this.bar, rollout);
    const gate = rollout.canary !== "" ? `canary ${rollout.canary}` : `partition ${rollout.partition}`;
    const parts = [
      `${rollout.ready} of ${plural(rollout.replicas, "pod")} ready`,
      `${rollout.updated} new, ${rollout.asked} asked for (${gate})`,
      `maxUnavailable ${rollout.maxUnavailable}`,
      from,
    ];
    say(this.facts, parts.join(" · "));
    say(this.count, plural(pods, "pod"));
    keep(this.revisions, rollout.revisions.map((r) => [r.hash, r]), makeRevision, showRevision);
  }

  showTable() {
    if (this.table.hidden) return;
    const all = [...this.rows].filter(([key]) => key !== "").sort(([a], [b]) => (a < b ? -1 : 1));
    this.first = Math.min(this.first, Math.max(0, all.length - 1));
    const make = () => el("tr", {}, el("th", { scope: "row" }), ...Array.from({ length: 5 }, () => el("td")));
    keep(this.podBody, all.slice(this.first, this.first + PAGE), make, (row, pod) => {
      const texts = [row.dataset.key, pod.state, pod.revision, pod.node, String(pod.restarts), pod.why];
      texts.forEach((text, n) => say(row.children[n], text));
    });
    this.showPages(all.length);
  }

  showPages(count) {
    if (count <= PAGE) {
      fill(this.pages, []);
      return;
    }
    const last = Math.min(this.first + PAGE, count);
    const turn = (step) => () => {
      this.first = Math.max(0, this.first + step);
      this.showTable();
    };
    if (!this.pages.firstChild)
      fill(this.pages, [
        el("button", { type: "button", click: turn(-PAGE) }, "Previous"),
        el("span"),
        el("button", { type: "button", click: turn(PAGE) }, "Next"),
      ]);
    const [before, where, after] = this.pages.children;
    before.disabled = this.first === 0;
    after.disabled = last >= count;
    say(where, `pods ${this.first + 1} to ${last} of ${count}`);
  }

  showEvents(rows) {
    const [noun, ...rest] = this.place;
    const name = rest.at(-1);
    const namespace = rest.length > 1 ? rest[0] : "";
    const pods = new Set([...this.rows].map(([key, pod]) => `${pod.namespace} pod/${key.split("/").at(-1)}`));
    const kind = this.rows.get("")?.kind.toLowerCase() ?? noun;
    const mine = [...rows.values()].filter(
      (event) =>
        (namespace === "" || event.namespace === namespace) &&
        (this.at === "" || event.last <= this.at) &&
        (event.object === `${kind}/${name}` || pods.has(`${event.namespace} ${event.object}`)),
    );
    this.events.show(mine);
  }

  /** Ask for the reasons once the state has lasted for a moment. */
  ask(head) {
    const about = JSON.stringify([head.state, head.message, head.commit, head.rollout?.updatedReady, head.rollout?.ready]);
    if (about === this.asked) return;
    this.asked = about;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.explain(about), ASK_AFTER_MS);
  }

  /** Show the reasons, and go on asking for them; without a connection the known ones stay. */
  async explain(about) {
    const path = this.place.map(encodeURIComponent).join("/");
    const reply = document.hidden ? null : await fetch(`/api/v1/why/${path}`).catch(() => null);
    const answer = reply?.ok ? await reply.json().catch(() => null) : null;
    const failure = reply && !reply.ok ? await unanswered(reply, "the object is gone") : "";
    if (about !== this.asked || this.at !== "" || !this.root.isConnected) return;
    this.timer = setTimeout(() => this.explain(about), AGAIN_MS);
    if (answer) this.tell(answer.reasons, answer.next, answer);
    else if (failure) this.tell([`No explanation: ${failure}`], []);
  }

  tell(reasons, next, answer = {}) {
    this.why.hidden = reasons.length + next.length === 0 && !answer.subject;
    const told = JSON.stringify([reasons, next, answer]);
    if (told === this.explained) return;
    this.explained = told;
    const agents = (answer.agents ?? []).map((one) => [`${one.kind.toLowerCase()}/${one.name} ${one.state}: ${one.message}`, ...one.nodes].join("\n"));
    const about = answer.subject ? el("p", { class: "commit" }, "commit ", commitLink(answer.commit), ` "${answer.subject}"`) : null;
    fill(this.reasons, [
      about,
      reasons.length === 0 ? null : el("ol", {}, ...reasons.map((reason) => el("li", {}, reason))),
      ...found("Node agents", [...agents, ...(answer.agentsUnread ?? [])]),
      next.length === 0 ? null : el("h3", {}, "What would move it"),
    ]);
    // A command keeps its buttons and its preview while the reasons change.
    keep(this.next, next.map((line) => [line, line]), (line) => this.offer(line), () => {});
  }

  /** A step: a command with its buttons, or a sentence. */
  offer(line) {
    return COMMAND.test(line) ? el("div", {}, command(line), this.forecast(line)) : el("p", {}, line);
  }

  /** A button that shows what a command would do, where it names only this object. */
  forecast(line) {
    const verb = PLAIN.exec(line)?.[1];
    if (!verb) return null;
    const shown = el("div", { class: "plan", "aria-live": "polite" });
    const button = el("button", { type: "button", "aria-label": `Preview ${verb}` }, "Preview");
    const plan = async () => {
      fill(shown, [el("p", {}, "Planning …")]);
      const path = [verb, ...this.place].map(encodeURIComponent).join("/");
      const reply = await fetch(`/api/v1/forecast/${path}`).catch(() => null);
      fill(shown, reply?.ok ? forecastView(await reply.json()) : [el("p", { class: "note" }, `No preview: ${await unanswered(reply, "the dashboard reads no repository")}`)]);
    };
    button.addEventListener("click", () => once(button, plan));
    return el("div", { class: "forecast" }, button, shown);
  }
}

/** A heading and a list, or nothing. */
function found(title, lines) {
  if (lines.length === 0) return [];
  return [el("h3", {}, title), el("ul", { class: "message" }, ...lines.map((line) => el("li", {}, line)))];
}

function makeRevision() {
  return el("tr", {}, el("th", { scope: "row" }), ...Array.from({ length: 5 }, () => el("td")));
}

function showRevision(row, revision) {
  const images = Object.entries(revision.images).map(([name, image]) => `${name}: ${image}`);
  row.dataset.role = revision.role;
  const texts = [
    revision.hash,
    ROLES[revision.role] ?? revision.role,
    String(revision.pods),
    String(revision.available),
    images.join(", "),
  ];
  const [hash, role, pods, available, commit, shown] = row.children;
  [hash, role, pods, available, shown].forEach((cell, n) => say(cell, texts[n]));
  showCommit(commit, revision.commit);
}

// Nodes: the pods of the managed workloads on each, by revision and condition.
import { el, fill, keep, makeLine, say, table } from "./dom.js";
import { FilteredPage } from "./filtered.js";
import { plural } from "./words.js";

const ROLES = [["update", "newest"], ["current", "previous"], ["other", "older"]];
const SHOWN = 500;

export class NodesPage extends FilteredPage {
  constructor() {
    super("Nodes", "nodes", "Filter nodes", "node, workload or condition");
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the cluster …");
    this.table = table("Nodes with pods of managed workloads", ["Node", "Pods", "Revision", "Condition", "Workloads", "Failing"], "nodes objects");
    this.root = el("div", { class: "page" }, el("h1", {}, "Nodes"), el("div", { class: "tools" }, this.filter), this.summary, this.table.root);
  }

  show() {
    const text = this.filter.value.toLowerCase();
    const about = (key, node) => `${key} ${Object.keys(node.workloads).join(" ")} ${Object.keys(node.states).join(" ")}`;
    const all = [...this.rows].filter(([key]) => key !== "");
    const found = all.filter(([key, node]) => about(key, node).toLowerCase().includes(text));
    found.sort(([a, x], [b, y]) => y.failingPods - x.failingPods || (a < b ? -1 : 1));
    keep(this.table.body, found.slice(0, SHOWN), () => makeLine(5), showNode);
    const shown = found.length > SHOWN ? `, ${SHOWN} are shown` : "";
    const part = found.length < all.length ? ` of ${all.length}` : "";
    say(this.summary, all.length === 0 ? "No pod of a managed workload" : `${plural(found.length, "node")}${part}${shown}`);
  }
}

function showNode(row, node) {
  const known = JSON.stringify(node);
  if (row.dataset.known === known) return;
  row.dataset.known = known;
  const [name, pods, revisions, states, workloads, failing] = row.children;
  say(name, node.name === "" ? "not scheduled" : node.name);
  say(pods, String(node.pods));
  const roles = ROLES.filter(([role]) => node.roles[role] > 0);
  const shown = roles.map(([role, word]) => el("span", { class: "tally" }, el("span", { class: `sample ${role}`, "aria-hidden": "true" }), `${node.roles[role]} ${word}`));
  fill(revisions, shown);
  say(states, counts(node.states));
  fill(workloads, Object.entries(node.workloads).sort().map(([path, count]) => el("div", {}, el("a", { href: `/${path}` }, path), ` ${count}`)));
  const more = node.failingPods - node.failing.length;
  const told = node.failing.map(({ pod, why }) => el("div", {}, `${pod}: ${why}`));
  fill(failing, [...told, more > 0 ? el("div", {}, `… and ${plural(more, "more pod")}`) : null]);
  failing.className = "message";
}

function counts(states) {
  return Object.entries(states).sort().map(([state, count]) => `${count} ${state}`).join(", ");
}

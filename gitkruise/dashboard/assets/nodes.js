// Nodes: the pods of the managed workloads on each, by revision and condition, and the Node itself.
import { el, fill, keep, makeLine, say, table } from "./dom.js";
import { FilteredPage } from "./filtered.js";
import { plural } from "./words.js";

const ROLES = [["update", "newest"], ["current", "previous"], ["other", "older"]];
const SHOWN = 500;
const WORKLOADS = 8; // of a node: with more, few nodes fit on a screen
const READ_MS = 30_000;

export class NodesPage extends FilteredPage {
  constructor() {
    super("Nodes", "nodes", "Filter nodes", "node, workload or condition");
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the cluster …");
    this.table = table("Nodes with pods of managed workloads", ["Node", "Pods", "Revision", "Condition", "Workloads", "Failing", "Kubelet", "State", "Images"], "nodes objects");
    this.machines = {};
    this.notes = el("div", { class: "notes" });
    this.root = el("div", { class: "page" }, el("h1", {}, "Nodes"), this.notes, el("div", { class: "tools" }, this.filter), this.summary, this.table.root);
    this.read();
    const timer = setInterval(() => (this.root.isConnected ? document.hidden || this.read() : clearInterval(timer)), READ_MS);
  }

  /** Read the Nodes themselves, which nothing watches. */
  async read() {
    const reply = await fetch("/api/v1/machines").catch(() => null);
    if (!reply?.ok) return;
    const found = await reply.json();
    this.machines = found.nodes;
    fill(this.notes, found.unread.map((line) => el("div", { class: "note" }, `Not shown: ${line}`)));
    this.show();
  }

  show() {
    const text = this.filter.value.toLowerCase();
    const about = (key, node) => `${key} ${Object.keys(node.workloads).join(" ")} ${Object.keys(node.states).join(" ")}`;
    const all = [...this.rows].filter(([key]) => key !== "");
    const found = all.filter(([key, node]) => about(key, node).toLowerCase().includes(text));
    found.sort(([a, x], [b, y]) => y.failingPods - x.failingPods || (a < b ? -1 : 1));
    keep(this.table.body, found.slice(0, SHOWN), () => makeLine(8), (row, node) => showNode(row, node, this.machines[node.name]));
    const shown = found.length > SHOWN ? `, ${SHOWN} are shown` : "";
    const part = found.length < all.length ? ` of ${all.length}` : "";
    say(this.summary, all.length === 0 ? "No pod of a managed workload" : `${plural(found.length, "node")}${part}${shown}`);
  }
}

function showNode(row, node, machine) {
  const known = JSON.stringify([node, machine]);
  if (row.dataset.known === known) return;
  row.dataset.known = known;
  const [name, pods, revisions, states, workloads, failing, kubelet, state, images] = row.children;
  say(name, node.name === "" ? "not scheduled" : node.name);
  say(pods, String(node.pods));
  const roles = ROLES.filter(([role]) => node.roles[role] > 0);
  const shown = roles.map(([role, word]) => el("span", { class: "tally" }, el("span", { class: `sample ${role}`, "aria-hidden": "true" }), `${node.roles[role]} ${word}`));
  fill(revisions, shown);
  say(states, counts(node.states));
  const paths = Object.entries(node.workloads).sort();
  const others = paths.length - WORKLOADS;
  const few = others > 0 ? [...paths.slice(0, WORKLOADS), ["", plural(others, "more workload")]] : paths;
  const link = (path) => el("div", {}, path === "" ? "… and" : el("a", { href: `/${path}` }, path), el("span"));
  keep(workloads, few, link, (line, count) => say(line.lastChild, ` ${count}`));
  const more = node.failingPods - node.failing.length;
  const told = node.failing.map(({ pod, why }) => el("div", {}, `${pod}: ${why}`));
  fill(failing, [...told, more > 0 ? el("div", {}, `… and ${plural(more, "more pod")}`) : null]);
  failing.className = "message";
  say(kubelet, machine?.kubelet ?? "");
  say(state, machine ? [machine.cordoned ? "cordoned" : "", ...machine.conditions].filter(Boolean).join("\n") || "ready" : "");
  state.className = "lines";
  say(images, machine?.images ?? "");
}

function counts(states) {
  return Object.entries(states).sort().map(([state, count]) => `${count} ${state}`).join(", ");
}

// The sidecars of every pod of a SidecarSet: which image runs in which slot, and which one works.
import { el, filterField, keep, makeLine, say, table } from "./dom.js";
import { plural } from "./words.js";

const SHOWN = 200;

export class SidecarTable {
  constructor(title) {
    this.pods = [];
    this.filter = filterField("Filter sidecars", "pod, sidecar, image or reason", () => this.show());
    this.summary = el("p", { class: "summary" });
    this.table = table(`Sidecars of ${title} in each pod`, ["Pod", "Revision", "Sidecar", "Slot A", "Slot B", "Phase", "Reason"], "sidecars");
    this.legend = el("p", { class: "facts", hidden: "" },
      "A hot upgrade takes three steps: the new image starts in the slot with the placeholder, both run while the work moves to it, then the old slot gets the placeholder.");
    this.root = el(
      "section",
      {},
      el("div", { class: "tools" }, el("h2", {}, "Sidecars"), this.filter),
      this.summary,
      this.legend,
      this.table.root,
    );
  }

  take(rows) {
    this.pods = [...rows].filter(([key]) => key !== "");
    this.show();
  }

  show() {
    const lines = this.pods.flatMap(([pod, row]) => row.sidecars.map((one) => lineOf(pod, row, one)));
    const text = this.filter.value.toLowerCase();
    const found = lines.filter((line) => line.cells.join(" ").toLowerCase().includes(text));
    found.sort((x, y) => x.rank - y.rank || (x.key < y.key ? -1 : 1));
    keep(this.table.body, found.slice(0, SHOWN).map((line) => [line.key, line]), () => makeLine(6), (row, line) => {
      line.cells.forEach((cell, n) => say(row.children[n], cell));
      row.lastChild.className = "message";
    });
    this.legend.hidden = !this.pods.some(([, row]) => row.sidecars.some((one) => one.hot));
    const old = this.pods.filter(([, row]) => row.role !== "update").length;
    const held = this.pods.filter(([, row]) => row.role !== "update" && row.why !== "").length;
    const parts = [plural(this.pods.length, "pod"), `${old} on an older revision`];
    if (held > 0) parts.push(`${held} that cannot follow or are left out`);
    if (found.length > SHOWN) parts.push(`${SHOWN} of ${found.length} lines are shown`);
    say(this.summary, this.pods.length === 0 ? "No pod has its sidecars" : parts.join(" · "));
  }
}

/** One sidecar of one pod; those that move come first, then those that are old, then the rest. */
function lineOf(pod, row, one) {
  const [first, second] = one.slots;
  const both = one.hot && !first.placeholder && !second.placeholder;
  const phase = one.hot ? (both ? "both slots run" : "one slot works, one waits") : "no hot upgrade";
  const rank = both ? 0 : row.role === "update" ? 2 : 1;
  const cells = [pod, row.revision, one.name, slotText(first), second ? slotText(second) : "", phase, row.why];
  return { key: `${pod} ${one.name}`, rank, cells };
}

function slotText(slot) {
  if (slot.placeholder && !slot.working) return `${slot.image} placeholder`;
  const part = slot.slot === "" ? "" : slot.working ? " working" : " not working";
  return `${slot.image}${part}${slot.up ? "" : ", not ready"}`;
}

// Events of the cluster, the newest first.
import { el, keep, say, table } from "./dom.js";
import { FilteredPage } from "./filtered.js";
import { clock, plural } from "./words.js";

const SHOWN = 200;

export class EventsPage extends FilteredPage {
  constructor() {
    super("Events", "events", "Filter events", "object, reason or message");
    this.summary = el("p", { class: "summary", role: "status" }, "Reading the cluster …");
    this.list = new EventList("Events of the cluster");
    this.root = el("div", { class: "page" }, el("h1", {}, "Events"), el("div", { class: "tools" }, this.filter), this.summary, this.list.root);
  }

  show() {
    const text = this.filter.value.toLowerCase();
    const all = this.rows.size;
    const found = [...this.rows.values()].filter((e) => `${e.namespace} ${e.object} ${e.reason} ${e.message}`.toLowerCase().includes(text));
    const shown = this.list.show(found);
    const more = found.length > shown ? `, the newest ${shown} are shown` : "";
    const part = found.length < all ? ` of ${all}` : "";
    say(this.summary, all ? `${plural(found.length, "event")}${part}${more}` : "No events that the dashboard may list");
  }
}

/** A table of events. */
export class EventList {
  constructor(caption) {
    const heads = ["Time", "Type", "Reason", "Object", "Message", "Count"];
    const { root, body } = table(caption, heads, "events");
    this.root = root;
    this.body = body;
  }

  /** Show the newest of some events; returns how many that are. */
  show(events) {
    const order = (a, b) => (a.last < b.last ? 1 : a.last > b.last ? -1 : a.name < b.name ? -1 : 1);
    const found = [...events].sort(order).slice(0, SHOWN);
    const make = () => el("tr", {}, ...Array.from({ length: 6 }, () => el("td")));
    keep(this.body, found.map((e) => [`${e.namespace}/${e.name}`, e]), make, (row, event) => {
      const place = event.namespace === "" ? event.object : `${event.object} -n ${event.namespace}`;
      const texts = [clock(event.last), event.type, event.reason, place, event.message, String(event.count)];
      texts.forEach((text, n) => say(row.children[n], text));
      row.children[4].className = "message";
      row.dataset.type = event.type;
    });
    return found.length;
  }
}

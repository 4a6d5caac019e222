// A page of one topic whose rows a filter narrows; "/" goes to the filter.
import { filterField } from "./dom.js";

export class FilteredPage {
  constructor(title, topic, label, placeholder) {
    this.title = title;
    this.topics = [topic];
    this.rows = new Map();
    this.filter = filterField(label, placeholder, () => this.narrow(), new URLSearchParams(location.search).get("q"));
  }

  /** Show what is asked for, and keep it in the address, so that it can be passed on. */
  narrow() {
    const query = this.query();
    if (this.filter.value !== "") query.set("q", this.filter.value);
    history.replaceState(history.state, "", location.pathname + (query.size > 0 ? `?${query}` : ""));
    this.show();
  }

  /** What else than the filter narrows the rows. */
  query() {
    return new URLSearchParams();
  }

  press(key) {
    if (key !== "/") return false;
    this.filter.focus();
    return true;
  }

  take(topic, rows) {
    if (!this.topics.includes(topic)) return;
    this.rows = rows;
    this.show();
  }
}

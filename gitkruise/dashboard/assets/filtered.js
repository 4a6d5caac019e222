// A page of one topic whose rows a filter narrows; "/" goes to the filter.
import { filterField } from "./dom.js";

export class FilteredPage {
  constructor(title, topic, label, placeholder, value = null) {
    this.title = title;
    this.topics = [topic];
    this.rows = new Map();
    this.filter = filterField(label, placeholder, () => this.show(), value);
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

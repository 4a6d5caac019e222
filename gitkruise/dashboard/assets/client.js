// This tab's side of the feed: what it shows, and what comes of it. A hidden tab asks for nothing.
import { Feed } from "./feed.js";

const BEAT_MS = 30_000;

export class Client {
  /** `onRows(topic, rows, told)` after each change of a topic, `onLink(link)` of the connection. */
  constructor(onRows, onLink) {
    this.onRows = onRows;
    this.onLink = onLink;
    this.topics = [];
    this.rows = new Map();
    this.port = connect((message) => this.hear(message));
    document.addEventListener("visibilitychange", () => this.send());
    window.addEventListener("pagehide", () => this.port.postMessage({ bye: true }));
    window.addEventListener("pageshow", () => this.send());
    setInterval(() => this.send(), BEAT_MS);
  }

  /** Show these topics from now on. */
  show(topics) {
    this.topics = topics;
    for (const topic of [...this.rows.keys()]) if (!topics.includes(topic)) this.rows.delete(topic);
    this.send();
  }

  send() {
    this.port.postMessage({ topics: document.hidden ? [] : this.topics });
  }

  /** Take in what the feed says: {link}, or the text of a frame. */
  hear(said) {
    if (typeof said !== "string") {
      this.onLink(said.link);
      return;
    }
    const message = JSON.parse(said);
    if (!this.topics.includes(message.topic)) return;
    const rows = message.reset ? new Map() : (this.rows.get(message.topic) ?? new Map());
    for (const [key, row] of Object.entries(message.set)) rows.set(key, row);
    for (const key of message.gone) rows.delete(key);
    this.rows.set(message.topic, rows);
    this.onRows(message.topic, rows, message);
  }
}

function connect(hear) {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.port.onmessage = (event) => hear(event.data);
    return worker.port;
  }
  const feed = new Feed();
  const page = { postMessage: hear };
  return { postMessage: (said) => feed.hear(page, said) };
}

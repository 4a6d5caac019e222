// This tab's side of the feed: what it shows, and what comes of it. A hidden tab asks for nothing.
import { Feed } from "./feed.js";

const BEAT_MS = 30_000;

export class Client {
  /**
   * `on.rows(topic, rows, told)` after each change of a topic, `on.link(link)` of the connection,
   * `on.denied(topic, message)` where the viewer may not see a topic.
   */
  constructor(on) {
    this.on = on;
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
    // The feed sends only what is new to this tab; a new page has nothing yet.
    for (const [topic, rows] of this.rows)
      this.on.rows(topic, rows, { topic, reset: true, set: Object.fromEntries(rows), gone: [] });
  }

  send() {
    this.port.postMessage({ topics: document.hidden ? [] : this.topics });
  }

  /** Connect again now, after a sign-in. */
  wake() {
    this.port.postMessage({ wake: true });
  }

  /** Drop everything known, after a sign-out. */
  forget() {
    this.rows.clear();
    this.port.postMessage({ forget: true });
  }

  deny({ topic, denied }) {
    this.rows.delete(topic);
    this.on.denied(topic, denied);
  }

  /** Take in what the feed says: {link}, {topic, denied}, or the text of a frame. */
  hear(said) {
    if (typeof said !== "string") {
      if (said.link) this.on.link(said.link);
      else if (this.topics.includes(said.topic)) this.deny(said);
      return;
    }
    const message = JSON.parse(said);
    if (!this.topics.includes(message.topic)) return;
    const rows = message.reset ? new Map() : (this.rows.get(message.topic) ?? new Map());
    for (const [key, row] of Object.entries(message.set)) rows.set(key, row);
    for (const key of message.gone) rows.delete(key);
    this.rows.set(message.topic, rows);
    this.on.rows(message.topic, rows, message);
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

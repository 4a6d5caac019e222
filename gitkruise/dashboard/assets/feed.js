// The one stream of a browser: topics of all its tabs in, rows of each topic out.
// Runs in a SharedWorker where there is one, otherwise in the page.

const SILENCE_MS = 25_000; // pings come every 10 s
const GONE_MS = 90_000; // a tab that said nothing for so long was closed
const ANSWER_MS = 10_000;
const PAUSES_MS = [500, 1000, 2000, 5000];

export class Feed {
  constructor() {
    this.members = new Map(); // port → {topics, heard}
    this.rows = new Map(); // topic → Map of rows by key
    this.denied = new Map(); // topic → why the viewer may not see it
    this.link = { state: "connecting", since: Date.now() };
    this.source = null;
    this.stream = "";
    this.failures = 0;
    this.asking = false; // whether the session is good, after a stream ended
    this.heard = Date.now();
    this.opened = Date.now();
    setInterval(() => this.check(), 5000);
  }

  /** Take in what a tab says: its topics, or that it leaves. */
  hear(port, said) {
    if (said.forget) this.lost();
    else if (said.wake) this.retryNow();
    else if (said.bye) this.members.delete(port);
    else {
      const before = this.members.get(port)?.topics ?? new Set();
      this.members.set(port, { topics: new Set(said.topics), heard: Date.now() });
      port.postMessage({ link: this.link });
      for (const topic of said.topics)
        if (this.denied.has(topic)) port.postMessage({ topic, denied: this.denied.get(topic) });
        else if (!before.has(topic) && this.rows.has(topic))
          port.postMessage(JSON.stringify({ topic, reset: true, set: Object.fromEntries(this.rows.get(topic)), gone: [] }));
    }
    this.tune();
  }

  /** Ask for the topics that some tab shows; without any, ask for nothing. */
  tune() {
    const wanted = this.wanted();
    for (const known of [this.rows, this.denied])
      for (const topic of [...known.keys()]) if (!wanted.includes(topic)) known.delete(topic);
    if (wanted.length === 0) this.close();
    else if (this.source === null) this.asking || this.retry || this.open();
    else if (this.stream !== "" && wanted.join() !== this.asked) this.choose(wanted);
  }

  wanted() {
    const found = new Set();
    for (const member of this.members.values()) for (const topic of member.topics) found.add(topic);
    return [...found].sort();
  }

  open() {
    const wanted = this.wanted();
    if (wanted.length === 0) return;
    this.asked = wanted.join();
    const query = wanted.map((topic) => `topic=${encodeURIComponent(topic)}`).join("&");
    const source = new EventSource(`/api/v1/stream?${query}`);
    this.source = source;
    this.opened = Date.now();
    source.addEventListener("hello", (event) => {
      this.stream = JSON.parse(event.data).stream;
      this.failures = 0;
      this.alive();
      this.tune();
    });
    source.addEventListener("rows", (event) => this.take(event.data));
    source.addEventListener("denied", (event) => this.deny(JSON.parse(event.data)));
    source.addEventListener("bye", () => this.lost());
    source.addEventListener("ping", () => this.alive());
    source.onerror = () => this.lost();
  }

  close() {
    this.source?.close();
    this.source = null;
    this.stream = "";
  }

  async choose(topics) {
    this.asked = topics.join();
    const stream = this.stream;
    const reply = await fetch(`/api/v1/stream/${stream}`, {
      method: "POST",
      body: JSON.stringify({ topics }),
    }).catch(() => null);
    if (!reply?.ok && stream === this.stream) this.lost();
  }

  alive() {
    this.heard = Date.now();
    this.say("live");
  }

  deny({ topic, message }) {
    this.alive();
    this.rows.delete(topic);
    this.denied.set(topic, message);
    for (const [port, member] of this.members)
      if (member.topics.has(topic)) port.postMessage({ topic, denied: message });
  }

  /** Take in a frame. Tabs get its text: to parse it costs them half of what a copied object does. */
  take(text) {
    const told = JSON.parse(text);
    this.alive();
    this.denied.delete(told.topic);
    const rows = told.reset ? new Map() : (this.rows.get(told.topic) ?? new Map());
    for (const [key, row] of Object.entries(told.set)) rows.set(key, row);
    for (const key of told.gone) rows.delete(key);
    this.rows.set(told.topic, rows);
    for (const [port, member] of this.members) if (member.topics.has(told.topic)) port.postMessage(text);
  }

  async lost() {
    this.close();
    if (this.link.state !== "refused") this.say("reconnecting"); // also while nothing answers
    if (this.asking) return;
    this.asking = true;
    const reply = await fetch("/api/v1/session", { signal: AbortSignal.timeout(ANSWER_MS) }).catch(() => null);
    this.asking = false;
    if (this.source !== null) return; // opened since, after a sign-in: it has newer news
    if (reply?.status === 401) {
      this.rows.clear(); // the next viewer of this browser may see other rows
      this.denied.clear();
    }
    this.say(reply?.status === 401 ? "refused" : "reconnecting");
    if (this.retry) return;
    const pause = PAUSES_MS[Math.min(this.failures, PAUSES_MS.length - 1)];
    this.failures += 1;
    this.retry = setTimeout(() => {
      this.retry = null;
      if (this.source === null) this.open();
    }, pause);
  }

  /** There is a session again: do not wait for the next attempt. */
  retryNow() {
    clearTimeout(this.retry);
    this.retry = null;
    this.failures = 0;
    if (this.source !== null) return;
    this.say("connecting");
    this.open();
  }

  check() {
    const now = Date.now();
    for (const [port, member] of this.members)
      if (now - member.heard > GONE_MS) this.members.delete(port);
    this.tune();
    if (this.source !== null && now - Math.max(this.heard, this.opened) > SILENCE_MS) this.lost();
  }

  /** Tell every tab the state of the connection; `since` is when it became so. */
  say(state) {
    if (this.link.state === state) return;
    this.link = { state, since: state === "live" ? Date.now() : this.heard };
    for (const port of this.members.keys()) port.postMessage({ link: this.link });
  }
}

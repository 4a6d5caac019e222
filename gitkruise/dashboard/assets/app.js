// The frame of every page: session, places, connection, theme and keys.
import { Client } from "./client.js";
import { CommitPage } from "./commit.js";
import { CommitsPage } from "./commits.js";
import { el, fill, say } from "./dom.js";
import { DriftPage } from "./drift.js";
import { EventsPage } from "./events.js";
import { FleetPage } from "./fleet.js";
import { NodesPage } from "./nodes.js";
import { ProposedPage } from "./proposed.js";
import { Places } from "./places.js";
import { entered, leave, look, signInForm } from "./session.js";
import { clock, span } from "./words.js";
import { WorkloadPage } from "./workload.js";

const LINKS = {
  connecting: "connecting",
  live: "live",
  reconnecting: "reconnecting",
  refused: "no access",
};
const KEYS = [
  ["g f", "go to the fleet"],
  ["g c", "go to the commits"],
  ["g d", "go to the drift"],
  ["g n", "go to the nodes"],
  ["g e", "go to the events"],
  ["j, k", "next or previous row"],
  ["Enter", "open the row"],
  ["/", "filter"],
  ["p", "pods as a grid or as a table"],
  ["n", "next failing pod of the grid"],
  ["d", "effects or diff of a plan"],
  ["u", "up to the fleet"],
  ["t", "theme: system, light, dark"],
  ["?", "these keys"],
];

/** The pages that have a link in the header, by path. */
const PLACES = [
  ["/", "Fleet", FleetPage],
  ["/commits", "Commits", CommitsPage],
  ["/drift", "Drift", DriftPage],
  ["/nodes", "Nodes", NodesPage],
  ["/events", "Events", EventsPage],
];

class App {
  constructor() {
    this.page = null;
    this.link = { state: "connecting", since: Date.now() };
    this.cluster = el("span", { class: "cluster" });
    this.viewer = el("span", { class: "viewer", hidden: "" });
    this.state = el("span", { class: "link", role: "status" });
    this.main = el("main", { id: "main", tabindex: "-1" });
    this.away = el("p", { class: "note", role: "status", hidden: "" });
    this.help = dialog();
    this.places = new Places(this.main);
    this.theme = el("button", { type: "button", click: () => this.turnTheme() });
    document.body.append(
      el("a", { class: "skip", href: "#main", click: (event) => this.skip(event) }, "Skip to the content"),
      this.header(),
      this.main,
      this.help,
    );
    this.applyTheme(localStorage.getItem("theme") ?? "system");
    document.addEventListener("click", (event) => this.follow(event));
    document.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("popstate", () => this.page && this.open());
    window.addEventListener("hashchange", () => location.hash.startsWith("#token=") && location.reload());
    setInterval(() => this.showLink(), 1000);
  }

  header() {
    this.links = PLACES.map(([path, name]) => el("a", { href: path }, name));
    return el(
      "header",
      {},
      el("a", { class: "brand", href: "/" }, "gitkruise"),
      this.cluster,
      el("nav", { "aria-label": "Pages" }, ...this.links),
      this.state,
      this.viewer,
      el("button", { type: "button", click: () => this.help.showModal() }, "Keys"),
      this.theme,
    );
  }

  /** Show data, or why there is none. */
  async start() {
    this.client ??= new Client({
      rows: (topic, rows, told) => this.take(topic, rows, told),
      link: (link) => this.hear(link),
      denied: (topic, message) => this.deny(topic, message),
    });
    if (!(await entered())) {
      this.hear({ state: "refused", since: Date.now() });
      this.refuse();
      return;
    }
    // Whether the session is good shows the stream: to ask first costs a journey to the server.
    look().then(({ viewer }) => this.page !== null && this.showViewer(viewer));
    this.client.wake();
    this.open();
  }

  /** Say that there is no access, and how there may be. */
  async refuse() {
    this.page = null;
    this.showViewer("");
    this.explain("No access", "The session is not valid.");
    const { byToken } = await look();
    if (this.page !== null) return;
    if (byToken) this.explain("Sign in", signInForm(() => this.start()));
    else this.explain("No access", "Open the address that gitkruise dashboard printed: it contains the token.");
  }

  explain(title, what) {
    document.title = `${title} · gitkruise`;
    const text = typeof what === "string" ? el("p", {}, what) : what;
    this.away.hidden = true;
    fill(this.main, [this.away, el("div", { class: "page" }, el("h1", {}, title), text)]);
  }

  /** A topic that the viewer may not see: its page says so. */
  deny(topic, message) {
    if (this.page?.topics[0] !== topic) return;
    this.denied = topic;
    this.explain("No access", `${message}.`);
  }

  showViewer(name) {
    this.viewer.hidden = name === "";
    const out = el("button", { type: "button", click: () => this.leave() }, "Sign out");
    if (name) fill(this.viewer, [el("span", {}, `${name} sees what the cluster lets them list`), out]);
  }

  async leave() {
    await leave();
    this.client.forget();
    this.refuse();
  }

  /** Show the page of the address. */
  open() {
    const [first, ...rest] = location.pathname.split("/").filter(Boolean).map(decoded);
    const place = PLACES.find(([path]) => path === location.pathname);
    if (place) this.page = new place[2]();
    else if (first === "commit") this.page = new CommitPage(rest.at(-1));
    else if (first === "pr" || first === "branch") this.page = new ProposedPage(first, rest);
    else this.page = new WorkloadPage(first, rest.length > 1 ? rest[0] : "", rest.at(-1));
    this.show();
    for (const link of this.links)
      if (link.getAttribute("href") === location.pathname) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    this.places.open();
    this.client.show(["cluster", ...this.page.topics]);
  }

  show() {
    this.denied = "";
    document.title = `${this.page.title} · gitkruise`;
    fill(this.main, [this.away, this.page.root]);
  }

  take(topic, rows, told) {
    if (this.page === null) return;
    if (topic === this.denied) this.show();
    if (topic === "cluster") this.showCluster(rows.get(""));
    this.page.take(topic, rows, told);
    this.places.settle();
  }

  showCluster(head) {
    if (!head) return;
    say(this.cluster, head.cluster);
    this.page.root.dataset.stale = String(head.problem !== "");
    this.away.hidden = head.problem === "";
    if (head.problem !== "")
      say(this.away, `The cluster cannot be read since ${clock(head.problemSince)}: what is shown of it is from then\n${head.problem}`);
  }

  hear(link) {
    const before = this.link.state;
    this.link = link;
    this.showLink();
    if (link.state !== "refused") {
      if (before === "refused") this.start();
    } else if (this.page !== null) this.refuse();
  }

  showLink() {
    const { state, since } = this.link;
    const age = state === "reconnecting" ? ` (as of ${clock(since)}, ${span(Date.now() - since)} ago)` : "";
    this.state.dataset.state = state;
    say(this.state, `${LINKS[state]}${age}`);
  }

  /** Follow a link within the dashboard without loading the page again. */
  follow(event) {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
    if (!link || !plain || link.origin !== location.origin || link.hash !== "") return;
    event.preventDefault();
    this.places.keep(event.detail === 0 ? link.getAttribute("href") : null);
    this.go(link.pathname + link.search);
  }

  /** Without an entry in the history of the browser, which would make the page again. */
  skip(event) {
    event.preventDefault();
    this.main.focus();
  }

  go(path) {
    history.pushState(null, "", path);
    if (this.page === null) return;
    this.open();
    this.main.focus();
  }

  press(event) {
    const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (typing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const chord = this.first === "g" ? `g ${event.key}` : event.key;
    this.first = event.key;
    const places = { "g f": "/", "g c": "/commits", "g d": "/drift", "g n": "/nodes", "g e": "/events", u: "/" };
    if (places[chord]) this.go(places[chord]);
    else if (chord === "?") this.help.showModal();
    else if (chord === "t") this.turnTheme();
    else if (chord === "j" || chord === "k") move(this.main, chord === "j" ? 1 : -1);
    else if (!this.page?.press?.(chord)) return;
    event.preventDefault();
  }

  turnTheme() {
    const order = ["system", "light", "dark"];
    const now = localStorage.getItem("theme") ?? "system";
    this.applyTheme(order[(order.indexOf(now) + 1) % order.length]);
  }

  applyTheme(theme) {
    localStorage.setItem("theme", theme);
    if (theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = theme;
    say(this.theme, `Theme: ${theme}`);
    window.dispatchEvent(new Event("themechange"));
  }
}

function dialog() {
  const rows = KEYS.map(([key, does]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, does)));
  const found = el(
    "dialog",
    { "aria-labelledby": "keys" },
    el("h2", { id: "keys" }, "Keys"),
    el("table", {}, el("tbody", {}, ...rows)),
    el("button", { type: "button", click: () => found.close() }, "Close"),
  );
  return found;
}

/** The text of a part of a path; one that is no text of anything stays as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Focus the next or previous link that opens a row. */
function move(main, step) {
  const links = [...main.querySelectorAll("[data-row] th a")];
  const here = links.indexOf(document.activeElement);
  const next = here < 0 ? (step > 0 ? 0 : links.length - 1) : here + step;
  links[Math.min(Math.max(next, 0), links.length - 1)]?.focus();
}

new App().start();

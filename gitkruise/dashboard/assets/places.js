// Where the reader was on a page: kept in the history of the browser, for back, forward and reload.
const REST_MS = 200; // scrolling rests for so long before it is noted: browsers limit how often
const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];

export class Places {
  constructor(main) {
    this.main = main;
    this.wanted = null; // where to return to, until the rows are there or the reader moves
    history.scrollRestoration = "manual"; // a browser restores before there are rows
    window.addEventListener("scroll", () => this.wait(), { passive: true });
    window.addEventListener("pagehide", () => this.keep(history.state?.link ?? null));
    for (const move of MOVES) window.addEventListener(move, () => (this.wanted = null), { passive: true });
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.keep(history.state?.link ?? null), REST_MS);
  }

  /** Note the place in the entry of this page; `link` is the one that the keyboard followed. */
  keep(link) {
    clearTimeout(this.timer);
    if (this.wanted === null) history.replaceState({ top: window.scrollY, link }, "");
  }

  /** Begin at the place of the entry that is shown now. */
  open() {
    clearTimeout(this.timer);
    const { top = 0, link = null } = history.state ?? {};
    this.wanted = { top, link };
    window.scrollTo(0, 0);
    this.settle();
  }

  /** Return once the page is long enough. */
  settle() {
    if (this.wanted === null) return;
    const { top, link } = this.wanted;
    if (document.documentElement.scrollHeight - window.innerHeight < top) return;
    const found = link === null ? null : [...this.main.querySelectorAll("a")].find((a) => a.getAttribute("href") === link);
    if (link !== null && !found) return;
    window.scrollTo(0, top);
    found?.focus({ preventScroll: true });
    this.wanted = null;
  }
}

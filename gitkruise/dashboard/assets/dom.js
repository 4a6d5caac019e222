// Elements from values. Text is always a text node, so markup in a name or a message stays text.

/**
 * Make an element. Attributes that are null or false are left out; functions become listeners.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Node | string | number | null | undefined)} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(found, name, value);
  fill(found, children);
  return found;
}

/** Set or remove one attribute or listener. */
export function set(element, name, value) {
  if (typeof value === "function") element.addEventListener(name, value);
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

/** Replace the children of an element. */
export function fill(element, children) {
  const nodes = children.filter((child) => child !== null && child !== undefined);
  element.replaceChildren(...nodes.map((n) => (n instanceof Node ? n : String(n))));
  return element;
}

/** Change the text of an element where it differs. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Keep the children of `parent` in step with `items`: an item keeps its element, so focus,
 * selection and scrolling survive; one that moves loses them, so those that are gone go first.
 * `make(key)` makes an element, `show(element, item)` fills it.
 */
export function keep(parent, items, make, show) {
  const wanted = new Set(items.map(([key]) => key));
  for (const child of [...parent.children]) if (!wanted.has(child.dataset.key)) child.remove();
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const [key, item] of items) {
    let child = known.get(key);
    if (child === undefined) {
      child = make(key);
      child.dataset.key = key;
    }
    show(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
}

/** A table that scrolls within itself: `root` is its region, `body` where rows go. */
export function table(caption, heads, name = null) {
  const body = el("tbody");
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const root = el(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: name }, el("caption", { class: "hidden" }, caption), el("thead", {}, head), body),
  );
  return { root, body, head };
}

/** A field that narrows what is shown. */
export function filterField(label, placeholder, show, value = null) {
  return el("input", { type: "search", "aria-label": label, placeholder, value, input: show });
}

/** A row with a heading cell and `count` cells. */
export function makeLine(count) {
  return el("tr", {}, el("th", { scope: "row" }), ...Array.from({ length: count }, () => el("td")));
}

/** A command and a button that copies it. */
export function command(text) {
  const button = el("button", { type: "button", "aria-label": `Copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return el("p", { class: "command" }, el("code", {}, text), button);
}

/** Do what a button asks for, one at a time. A disabled button would lose the focus. */
export async function once(button, work) {
  if (button.ariaDisabled === "true") return;
  button.ariaDisabled = "true";
  await work();
  button.ariaDisabled = null;
}

/** The short name of a commit: a link to its page if it is one. */
export function commitLink(id) {
  if (!/^[0-9a-f]{7,64}$/.test(id)) return String(id);
  return el("a", { href: `/commit/${id}` }, id.slice(0, 7));
}

/** Put a commit's link in a cell that keeps it while the commit stays the same. */
export function showCommit(cell, id) {
  if (cell.dataset.commit === id) return;
  cell.dataset.commit = id;
  fill(cell, [commitLink(id)]);
}

/** Why the rows of a record are not fresh, and how much of them the viewer may not see. */
export function showNotes(root, head) {
  const lines = [head.stale[0], head.hidden].filter(Boolean);
  keep(root, lines.map((line) => [line, line]), () => el("div", { class: "note" }), say);
}

/**
 * Tabs of `panels`, which are [name, element]; arrows go from one to the next. `open(n)` is called
 * when one is shown.
 */
export function tabs(label, panels, open) {
  const buttons = panels.map(([name, panel], n) => {
    panel.id = `panel-${name}`;
    set(panel, "role", "tabpanel");
    set(panel, "aria-label", name);
    return el("button", { type: "button", role: "tab", "aria-controls": panel.id, click: () => show(n) }, name);
  });
  const list = el("div", { class: "tools", role: "tablist", "aria-label": label, keydown: (event) => press(event) }, ...buttons);
  let now = 0;
  function show(n) {
    now = n;
    buttons.forEach((button, k) => {
      button.setAttribute("aria-selected", String(k === n));
      button.tabIndex = k === n ? 0 : -1;
      panels[k][1].hidden = k !== n;
    });
    open(n);
  }
  function press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    show((now + step + panels.length) % panels.length);
    buttons[now].focus();
    event.preventDefault();
  }
  show(0);
  return { list, next: () => show((now + 1) % panels.length) };
}

/** A drawing of 16 by 16 from one path, hidden from screen readers: words say the same. */
export function glyph(path, name) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "0 0 16 16");
  drawing.setAttribute("class", `glyph ${name}`);
  drawing.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", path);
  drawing.append(line);
  return drawing;
}

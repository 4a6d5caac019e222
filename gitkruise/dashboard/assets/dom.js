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
 * selection and scrolling survive. `make(key)` makes an element, `show(element, item)` fills it.
 */
export function keep(parent, items, make, show) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const [key, item] of items) {
    let child = known.get(key);
    known.delete(key);
    if (child === undefined) {
      child = make(key);
      child.dataset.key = key;
    }
    show(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of known.values()) child.remove();
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

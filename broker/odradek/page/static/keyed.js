// The page is updated in place: what has the focus, is open or scrolled stays so.

/** Set the text of a node, if it is another one. */
export function say(node, text) {
  const next = String(text);
  if (node.textContent !== next) node.textContent = next;
}

/** Set an attribute, if it has another value; null takes it away. */
export function put(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Show or hide a node. */
export function show(node, shown) {
  if (node.hidden === Boolean(shown)) node.hidden = !shown;
}

/** The children of a node, one for each item of a list: made once, updated then, moved only if their order changes.
 *
 * `make(item)` returns {node, update(item)}; `key(item)` is a text by which an item is known again.
 */
export class Keyed {
  #rows = new Map();

  constructor(parent, key, make) {
    this.parent = parent;
    this.key = key;
    this.make = make;
  }

  get(key) {
    return this.#rows.get(key);
  }

  update(items) {
    const before = this.#rows;
    this.#rows = new Map();
    let next = this.parent.firstElementChild;
    for (const item of items) {
      let key = this.key(item);
      while (this.#rows.has(key)) key += "\u0000"; // of two things that cannot be told apart each has its row
      const row = before.get(key) ?? this.make(item);
      before.delete(key);
      this.#rows.set(key, row);
      row.update(item);
      if (row.node === next) next = next.nextElementSibling;
      else this.parent.insertBefore(row.node, next);
    }
    for (const { node } of before.values()) node.remove();
  }
}

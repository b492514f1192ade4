// Elements without markup: every text of a client becomes a text node, never HTML.
const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** An HTML element; a function among the attributes listens to the event of that name. */
export const element = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/** The same of SVG. */
export const drawn = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Buttons that do something to a cluster. Each is one call of the hub, and shows it as curl and as Python.
import { element } from "./dom.js";
import { put, say, show } from "./keyed.js";

const TOKEN = "ODRADEK_HUB_TOKEN";
const SURE_MS = 4000;

// ---------------------------------------------------------------------- a call as text

/** A text as one word of a shell. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** A call {method, path, body} as a command. */
export function curlOf({ method, path, body }, guarded) {
  const words = ["curl"];
  if (body !== undefined) words.push("-d", quoted(JSON.stringify(body)));
  if (method !== (body === undefined ? "GET" : "POST")) words.push("-X", method);
  if (guarded) words.push("-H", `"Authorization: Bearer $${TOKEN}"`);
  return [...words, quoted(`${location.origin}/${path}`)].join(" ");
}

function literal(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${literal(name)}: ${literal(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value); // a string or a number of JSON is one of Python
}

/** The same call as a program, of the standard library alone. */
export function pythonOf({ method, path, body }, guarded) {
  const parts = [literal(`${location.origin}/${path}`), `method=${literal(method)}`];
  if (body !== undefined) parts.push(`data=json.dumps(${literal(body)}).encode()`);
  if (guarded) parts.push(`headers={"Authorization": "Bearer " + os.environ["${TOKEN}"]}`);
  return [
    ...(body === undefined ? [] : ["import json"]),
    ...(guarded ? ["import os"] : []),
    "from urllib.request import Request, urlopen",
    "",
    `call = Request(\n    ${parts.join(",\n    ")},\n)`,
    "print(urlopen(call).read().decode())",
  ].join("\n");
}

// ---------------------------------------------------------------------- buttons

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch {
    getSelection().selectAllChildren(button.nextElementSibling);
    say(button, "Selected");
  }
  setTimeout(() => say(button, "Copy"), 1500);
}

function codeOf(title) {
  const code = element("code", {});
  const button = element("button", { type: "button", class: "quiet", "aria-label": `Copy ${title}`, click: () => copy(code.textContent, button) }, "Copy");
  const node = element("div", { class: "code" }, element("span", { class: "title" }, title), button, element("pre", { tabindex: "0", "aria-label": title }, code));
  return { node, code };
}

let panels = 0;

/** A row of buttons. Each is {label, title, call, when, main, sure, done}:
 *
 * `call()` gives {method, path, body} at that time, or null where nothing can be done; `when()` says whether it is shown;
 * `title()` gives a label that changes; `sure` asks to press twice; `done(answer)` is called when the hub has done it.
 * `act(call, label)` makes the call, and promises {ok, answer}.
 */
export function deeds(act, buttons, { guarded = () => false } = {}) {
  const curl = codeOf("curl");
  const python = codeOf("Python");
  const id = `call-${++panels}`;
  const panel = element("div", { class: "call", id, hidden: true }, curl.node, python.node);
  const row = element("div", { class: "buttons" });
  const node = element("div", { class: "deeds", keydown: escape }, row, panel);
  let opened = null;

  function escape(event) {
    if (event.key !== "Escape" || opened === null) return;
    opened.toggle.focus();
    open(null);
  }

  function open(one) {
    opened = one === opened ? null : one;
    for (const each of made) put(each.toggle, "aria-expanded", String(each === opened));
    show(panel, opened !== null);
    if (opened === null) return;
    fill();
    const { left, width } = row.getBoundingClientRect();
    panel.classList.toggle("from-left", left + width / 2 < innerWidth / 2);
  }

  function fill() {
    const call = opened?.call();
    if (!call) return;
    say(curl.code, curlOf(call, guarded()));
    say(python.code, pythonOf(call, guarded()));
  }

  const made = buttons.map((each) => {
    let sure = null;
    const button = element("button", { type: "button", class: each.main ? "main" : null, click: press }, each.label);
    const toggle = element("button", {
      type: "button", class: "toggle", "aria-expanded": "false", "aria-controls": id, "aria-label": `The call of ${each.label}`,
      title: "The call, as curl and Python", click: () => open(one),
    }, "‹›");
    const one = { ...each, button, toggle, wrap: element("span", { class: "split" }, button, toggle) };

    function calm() {
      clearTimeout(sure);
      sure = null;
      button.classList.remove("sure");
      say(button, one.label);
    }

    async function press() {
      const call = one.call();
      if (call === null) return;
      if (one.sure && sure === null) {
        button.classList.add("sure");
        say(button, `${one.label}: sure?`);
        sure = setTimeout(calm, SURE_MS);
        return;
      }
      calm();
      put(button, "aria-busy", true);
      const { ok, answer } = await act(call, one.label);
      put(button, "aria-busy", null);
      if (ok) one.done?.(answer);
    }

    one.rename = (label) => {
      one.label = label;
      if (sure === null) say(button, label);
      put(toggle, "aria-label", `The call of ${label}`);
    };
    row.append(one.wrap);
    return one;
  });

  /** Show what can be done now; an open call follows what it is about. */
  function update() {
    for (const one of made) {
      const shown = (one.when?.() ?? true) && one.call() !== null;
      show(one.wrap, shown);
      if (shown && one.title) one.rename(one.title());
      if (!shown && one === opened) open(null);
    }
    if (opened !== null) fill();
  }

  update();
  return { node, update };
}

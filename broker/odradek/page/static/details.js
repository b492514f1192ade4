// What one step was: its fields, and the request and its response beside each other, field by field.
import { colourOf } from "./colours.js";
import { element } from "./dom.js";
import { kipPage, kipTitle } from "./kips.js";
import { shape } from "./lanes.js";
import { clock, counted, duration, moment, short } from "./text.js";

const SHOWN_MAX = 600;
const ITEMS_MAX = 100;
const NANOSECONDS_PER_MS = 1e6;
const HOW_LONG = "duration_ns";
const BODY = "body";

/** The parts of the panel for a step. on: {close(), go(step), follow(id) where it can be, unanswered: in place of a response that is not there}. */
export function details(step, told, on) {
  const partner = told.partner(step);
  const [request, response] = step.answer_to === null || step.answer_to === undefined ? [step, partner] : [partner, step];
  const exchange = step.kind === "request" || step.kind === "response";
  return [
    element("header", {},
      element("h2", {}, element("bdi", {}, short(step.text, 300))),
      element("button", { type: "button", class: "plain", "aria-label": "Close the details", title: "Close (Esc)", click: on.close }, "✕")),
    element("p", { class: "facts" }, ...facts(step, told, request, response)),
    element("p", { class: "actions" }, ...actions(step, partner, on)),
    ...(exchange ? [element("div", { class: "exchange" }, side("Request", request), side("Response", response, on.unanswered))] : []),
    element("section", { class: "event" }, element("h3", {}, "Event"), fields(without(step.fields ?? {}, BODY))),
  ];
}

function facts(step, told, request, response) {
  const lane = (index) => element("span", { class: `who ${told.lanes[index].kind}` }, shape(told.lanes[index].kind), element("bdi", {}, short(told.lanes[index].name, 120)));
  const between = step.source === step.target ? [lane(step.source)] : [lane(step.source), " → ", lane(step.target)];
  return [
    step.error ? element("strong", { class: "failed" }, `✕ ${step.error}`) : null,
    element("span", {}, ...between),
    element("span", {}, `at ${moment(step.at_ms)} s`, told.history.start_ms ? ` (${clock(told.history.start_ms + step.at_ms)})` : ""),
    request && response ? element("span", {}, `answered after ${duration(took(request, response))}`) : null,
    element("span", {}, `event ${counted(step.seq)}`),
  ].filter(Boolean);
}

const took = (request, response) =>
  response.fields?.[HOW_LONG] === undefined ? response.at_ms - request.at_ms : response.fields[HOW_LONG] / NANOSECONDS_PER_MS;

function actions(step, partner, on) {
  const id = step.transactional_id;
  return [
    id && on.follow && element("button", { type: "button", class: `follow ${colourOf(id)}`, click: () => on.follow(id) }, element("i", { class: "dot" }), "Follow ", element("bdi", {}, short(id, 60))),
    partner && element("button", { type: "button", click: () => on.go(partner) }, step.answer_to === partner.seq ? "Go to the request" : "Go to the answer"),
    step.kip && element("a", { href: kipPage(step.kip), target: "_blank", rel: "noreferrer", title: kipTitle(step.kip) }, step.kip),
  ].filter(Boolean);
}

function side(title, step, none) {
  if (step === undefined) return element("section", {}, element("h3", {}, title), element("p", { class: "quiet" }, title === "Response" ? none ?? "There is none in this window." : "It is not in this window."));
  const body = step.fields?.[BODY];
  return element("section", {},
    element("h3", {}, title),
    body === undefined || body === null ? element("p", { class: "quiet" }, "Its body was not kept.") : fields(body));
}

const without = (whole, name) => Object.fromEntries(Object.entries(whole).filter(([key]) => key !== name));

/** Names and values, as deep as they are. */
function fields(whole) {
  const entries = Array.isArray(whole) ? whole.map((each, at) => [`[${at}]`, each]) : Object.entries(whole);
  if (entries.length === 0) return element("p", { class: "quiet" }, "No fields.");
  return element("dl", {}, ...entries.slice(0, ITEMS_MAX).map(([name, value]) => pair(name, value)),
    entries.length > ITEMS_MAX ? element("div", {}, element("dt", {}, "…"), element("dd", {}, `${counted(entries.length - ITEMS_MAX)} more`)) : null);
}

function pair(name, value) {
  const wrong = isError(name, value);
  const nested = value !== null && typeof value === "object" && !isFlat(value);
  return element("div", { class: [nested && "nested", wrong && "failed"].filter(Boolean).join(" ") || null },
    element("dt", {}, element("bdi", {}, short(name, 120))),
    element("dd", {}, wrong ? "✕ " : "", nested ? fields(value) : element("bdi", {}, flat(name, value))));
}

const ERRORS = /^error$|error_?code$/i;
const NO_ERROR = new Set([0, "NONE", "", null]);
const isError = (name, value) => ERRORS.test(name) && !NO_ERROR.has(value);

const isFlat = (value) => Array.isArray(value) ? value.every((each) => each === null || typeof each !== "object") : Object.keys(value).length === 0;

function flat(name, value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length === 0 ? "[ ]" : shortened(value.slice(0, ITEMS_MAX).map((each) => String(each)).join(", ") + (value.length > ITEMS_MAX ? `, … (${counted(value.length)} in all)` : ""));
  if (typeof value === "object") return "{ }";
  if (name.endsWith("_ns") && typeof value === "number" && name === HOW_LONG) return duration(value / NANOSECONDS_PER_MS);
  return shortened(String(value));
}

const shortened = (text) => (text.length > SHOWN_MAX ? `${short(text, SHOWN_MAX)} (${counted(text.length)} characters)` : text === "" ? '""' : text);

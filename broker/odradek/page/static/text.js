// Numbers, times and long texts, as people read them.
const MS_PER_S = 1000;
const S_PER_MIN = 60;
const MIN_PER_H = 60;

/** A number with separators: 5,210. */
export const counted = (number) => number.toLocaleString("en-US");

/** A number and its noun: 1 event, 2 events. */
export const of = (number, noun) => `${counted(number)} ${noun}${number === 1 ? "" : "s"}`;

/** How long something took; events tell it to the millisecond: 0.4 ms, 12 ms, 1.25 s, 3 min 20 s, 2 h 5 min. */
export function duration(ms) {
  if (ms === 0) return "less than 1 ms";
  if (ms < 10) return `${+ms.toFixed(1)} ms`;
  if (ms < MS_PER_S) return `${Math.round(ms)} ms`;
  const seconds = ms / MS_PER_S;
  if (seconds < S_PER_MIN) return `${+seconds.toFixed(2)} s`;
  const minutes = Math.floor(seconds / S_PER_MIN);
  if (minutes < MIN_PER_H) return `${minutes} min ${Math.round(seconds % S_PER_MIN)} s`;
  return `${counted(Math.floor(minutes / MIN_PER_H))} h ${minutes % MIN_PER_H} min`;
}

/** A moment as seconds since the first step: 0.012, 83.400. */
export const moment = (ms) => (ms / MS_PER_S).toFixed(3);

/** A time of day, where the reader is: 18:54:13.250. */
export function clock(msSince1970) {
  const time = new Date(msSince1970);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

/** The beginning of a text, at most so many characters; never half of a character. */
export function short(text, most = 160) {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

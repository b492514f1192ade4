// The clock of the brokers: it goes, stands still, or is advanced.
import { deeds } from "./deeds.js";
import { element } from "./dom.js";
import { say } from "./keyed.js";
import { chip, clockText, span } from "./parts.js";

const S = 1000;
const MIN = 60 * S;
const H = 60 * MIN;
const D = 24 * H;
const STEPS = [100, 500, S, 5 * S, 10 * S, 15 * S, 30 * S, MIN, 2 * MIN, 5 * MIN, 15 * MIN, 30 * MIN, H, 6 * H, D, 2 * D, 7 * D, 30 * D];
const WORDS = new Map([[D, "1 day"], [2 * D, "2 days"], [7 * D, "7 days"], [30 * D, "30 days"], [H, "1 h"], [6 * H, "6 h"], [MIN, "1 min"]]);
const worded = (ms) => WORDS.get(ms) ?? span(ms).replace(" 0 s", "");

export function clock({ source, act, guarded }) {
  let seen = null;
  const state = chip();
  const time = element("time", {});
  const ahead = element("p", { class: "dim" });
  const slider = element("input", { type: "range", id: "advance", min: 0, max: STEPS.length - 1, step: 1, value: 6, input: moved });
  const chosen = () => STEPS[Number(slider.value)];
  const call = (body) => ({ method: "POST", path: source.within("time"), body });
  const calls = deeds(act, [
    { label: "Advance", title: () => `Advance ${worded(chosen())}`, main: true, call: () => call({ advance_ms: chosen() }) },
    { label: "Freeze", when: () => seen !== null && !seen.frozen, call: () => call({ freeze: true }) },
    { label: "Resume", when: () => seen?.frozen, call: () => call({ resume: true }) },
  ], { guarded });

  function moved() {
    slider.setAttribute("aria-valuetext", worded(chosen()));
    calls.update();
  }

  moved();
  const node = element("section", { class: "part clock", "aria-labelledby": "part-clock" },
    element("h2", { id: "part-clock" }, "The brokers' clock"),
    element("p", { class: "time" }, time, " UTC ", state.node), ahead,
    element("label", { for: "advance" }, "How far it is advanced"), slider, calls.node);
  return {
    node,
    update(now) {
      seen = now.time;
      say(time, clockText(seen.now_ms).slice(0, -4));
      state.update(seen.frozen ? "stands still" : "goes", seen.frozen ? "ending" : "good");
      const away = Math.abs(seen.ahead_ms);
      say(ahead, away < S ? "As the clock of this machine." : `${span(away)} ${seen.ahead_ms > 0 ? "ahead of" : "behind"} the clock of this machine.`);
      calls.update();
    },
  };
}

// What views that drive a cluster share: the hub, calls with what came of them, and the line that tells it.
import { element } from "./dom.js";

const TOLD_MS = 6000;

/** {source, act, attempt, tell, guarded, said}; `changed()` is called when a call has done something. */
export function toolsOf(source, changed) {
  const text = element("span", {});
  const said = element("div", { class: "said", role: "status", "aria-live": "polite" }, text);
  let timer = null;

  function tell(sentence, wrong = false) {
    clearTimeout(timer);
    text.textContent = sentence;
    said.classList.toggle("bad", wrong);
    said.classList.add("shown");
    timer = setTimeout(() => said.classList.remove("shown"), TOLD_MS);
  }

  /** The answer, or null where the hub has refused the call; the reader is told why. */
  async function attempt(call) {
    try {
      return await call();
    } catch (error) {
      tell(error.message, true);
      return null;
    }
  }

  async function act({ method, path, body }, label) {
    const done = await attempt(async () => {
      const answer = await source.call(method, path, body);
      tell(`${label}: ${outcome(answer)}`);
      return { ok: true, answer };
    });
    changed();
    return done ?? { ok: false };
  }

  return { source, act, attempt, tell, said, guarded: () => source.guarded };
}

/** What a call has answered, in a few words. */
function outcome(answer) {
  if (typeof answer?.released === "number") return `${answer.released} released.`;
  if (typeof answer?.broker === "number") return `it is broker ${answer.broker} now.`;
  if (typeof answer?.now_ms === "number") return answer.frozen ? "the clock stands still." : "done.";
  if (typeof answer?.bootstrap === "string") return `${answer.id} is at ${answer.bootstrap}.`;
  return "done.";
}

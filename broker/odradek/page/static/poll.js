// Ask the hub again and again while the page is visible; one call at a time, and none in a tab in the background.

/** Of a hub that is slow to answer, less is asked: it rests for so many times as long as it took. */
const REST = 4;

export class Poll {
  #timer = null;
  #asking = false;
  #again = false;
  #over = false;

  /** `ask()` promises data; `told(data)` and `failed(error)` are called with what comes of it. */
  constructor(ask, told, failed, everyMs = 500) {
    Object.assign(this, { ask, told, failed, everyMs });
    document.addEventListener("visibilitychange", this.#woken);
    this.soon();
  }

  #woken = () => {
    if (document.hidden) clearTimeout(this.#timer);
    else this.soon();
  };

  /** Ask now, or at once after the call that is under way, whose answer may be old. */
  soon() {
    clearTimeout(this.#timer);
    if (this.#asking) this.#again = true;
    else this.#round();
  }

  leave() {
    this.#over = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#woken);
  }

  async #round() {
    this.#asking = true;
    this.#again = false;
    const began = performance.now();
    const tell = await this.ask().then((data) => () => this.told(data), (error) => () => this.failed(error));
    this.#asking = false;
    if (this.#over) return;
    if (!document.hidden) {
      if (this.#again) this.soon();
      else this.#timer = setTimeout(() => this.soon(), Math.max(this.everyMs, REST * (performance.now() - began)));
    }
    tell(); // last, so that a mistake in it is an error of the page, and not one of the hub
  }
}

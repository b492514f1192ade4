// Where the page has its facts from: the hub that serves it, or the data inside the file that it is.
const inside = document.getElementById("data");
const TOKEN = "odradek.token";
const UNAUTHORIZED = 401;

/** The hub has refused a call, or does not answer (status 0). The message is one sentence for people. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function problem(answer) {
  const body = await answer.json().catch(() => ({}));
  const sentence = body.detail ?? body.title ?? `The hub answers ${answer.status}.`;
  return new Refused(answer.status, body.field ? `${body.field}: ${sentence}` : sentence);
}

class Hub {
  live = true;
  data = null;
  /** The id of the cluster that the page shows. */
  cluster = null;
  /** Asks the reader for the token, and gives it, or null. The frame of the page sets it. */
  askForToken = async () => null;
  /** The reader has given no token: nobody is asked again until this is false. */
  declined = false;
  #asking = null;

  /** A path below the chosen cluster: within("partitions", "orders", 2). */
  within(...parts) {
    return ["clusters", this.cluster, ...parts].map(encodeURIComponent).join("/");
  }

  /** Whether the hub wants a token, and this tab has one. */
  get guarded() {
    return sessionStorage.getItem(TOKEN) !== null;
  }

  get(path) {
    return this.call("GET", path);
  }

  /** The answer as data; null for one without content. Throws Refused. Asks for the token where the hub wants one. */
  async call(method, path, body) {
    const answer = await this.#answered(method, path, body);
    return answer.status === 204 ? null : answer.json();
  }

  /** A file that the hub makes: {blob, name}. Throws Refused. */
  async file(path) {
    const answer = await this.#answered("GET", path);
    const [, name] = /filename="([^"]*)"/.exec(answer.headers.get("content-disposition") ?? "") ?? [null, "odradek"];
    return { blob: await answer.blob(), name };
  }

  async #answered(method, path, body) {
    for (;;) {
      const token = sessionStorage.getItem(TOKEN);
      const answer = await this.#ask(method, path, body, token);
      if (answer.ok) return answer;
      if (answer.status !== UNAUTHORIZED || !(await this.#newToken(token))) throw await problem(answer);
    }
  }

  async #ask(method, path, body, token) {
    const headers = { accept: "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    if (body !== undefined) headers["content-type"] = "application/json";
    try {
      return await fetch(path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) });
    } catch {
      throw new Refused(0, "The hub does not answer.");
    }
  }

  /** Whether there is another token than the one that was refused. Several calls ask the reader once. */
  async #newToken(refused) {
    if (sessionStorage.getItem(TOKEN) !== refused) return true;
    if (this.declined) return false;
    this.#asking ??= this.askForToken(refused !== null).finally(() => (this.#asking = null));
    const token = await this.#asking;
    if (token) sessionStorage.setItem(TOKEN, token);
    else this.declined = true;
    return Boolean(token);
  }

  /** A History of the chosen cluster: its newest events, those of a transactional id, or those before a number. */
  history({ most = 500, transaction, before } = {}) {
    const asked = new URLSearchParams({ most });
    if (transaction !== undefined) asked.set("transaction", transaction);
    if (before !== undefined) asked.set("before", before);
    return this.get(`${this.within("history")}?${asked}`);
  }
}

class File {
  live = false;
  declined = false;
  cluster = null;

  constructor(data) {
    this.data = data;
  }

  /** One of the histories of the file. */
  async history({ index = 0 } = {}) {
    return this.data.histories[index];
  }

  async get() {
    throw new Refused(0, "This page is a file: there is no hub to ask.");
  }

  call() {
    return this.get();
  }
}

/** `live`: a hub answers. `data`: {histories: [History, …], difference, why} of a file, else null. */
export const source = inside === null ? new Hub() : new File(JSON.parse(inside.textContent));

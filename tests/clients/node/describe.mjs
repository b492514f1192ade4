/** Errors in one line, with what they are made of: some clients say only there what the broker answered. */

export function describe(error) {
  if (!(error instanceof Error)) return String(error);
  const inner = new Set([...(error.errors ?? []), error.cause].filter(Boolean).map(describe));
  const said = `${error.constructor.name}: ${[error.apiId, error.message].filter(Boolean).join(" ")}`;
  return inner.size ? `${said} (${[...inner].join("; ")})` : said;
}

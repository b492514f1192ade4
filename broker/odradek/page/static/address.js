// What the address says after its #: the view first, then what it shows: #then&id=till-2&step=118&cluster=kitchen.

/** The names and values in the address. */
export const asked = () => new URLSearchParams(location.hash.slice(1));

const written = (pairs) =>
  `#${pairs.map(([name, value]) => (value === "" ? encodeURIComponent(name) : `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)).join("&")}`;

/** An address for a link: the names with a value; null leaves one out, "" writes the name alone. */
export const address = (pairs) => written(Object.entries(pairs).filter(([, value]) => value !== null && value !== undefined));

/** Put what is shown now into the address, without a new entry in the history of the browser; null takes a name out. */
export function remember(changes) {
  const pairs = { ...Object.fromEntries(asked()), ...changes };
  history.replaceState(null, "", address(pairs));
}

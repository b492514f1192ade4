// Where the page has its facts from: the hub that serves it, or the data inside the file that it is.
const inside = document.getElementById("data");

/** `live`: a hub answers. `data`: {histories: [History, …], difference, why} of a file, else null. */
export const source = inside === null ? { live: true, data: null } : { live: false, data: JSON.parse(inside.textContent) };

// The views of the page, in the order of its navigation.
// A view is {name, title, offered(source), show(main, source, asked)}; show may return {leave(), asked(address)}:
// `asked` is called when the address changes and the view stays.
import { compare } from "./compare.js";
import { then } from "./then.js";

export const VIEWS = [then, compare];

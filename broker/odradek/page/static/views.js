// The views of the page, in the order of its navigation.
// A view is {name, title, offered(source), show(main, source, asked)}; show may return {leave(), asked(wanted)}:
// `asked` is called when the address changes and the view stays.
// A view that is `withoutCluster` is shown even if the hub runs no cluster; one that `stays` goes on when another
// cluster is chosen, because it shows none.
import { compare } from "./compare.js";
import { now } from "./now.js";
import { story } from "./story.js";
import { take } from "./take.js";
import { then } from "./then.js";
import { why } from "./why.js";

export const VIEWS = [now, then, why, compare, take, story];

// The views of the page, in the order of its navigation.
// A view is {name, title, offered(source), show(main, source, asked)}; show may return {leave()}.
export const VIEWS = [];

//go:build browser

package browser

// checks lists what is wrong with the page: names of what can be used, structure, contrast (WCAG 2.2, 1.4.3) and width.
const checks = `(() => {
	const problems = [], say = (e, what) => problems.push(what + ": " + e.outerHTML.slice(0, 160));
	const visible = (e) => e.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && !e.closest(".sr, .skip");

	// names
	const named = (e) => (e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("")
		|| [...(e.labels ?? [])].map((l) => l.textContent).join("") || e.textContent || e.getAttribute("alt") || e.getAttribute("title") || "").trim();
	for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=region], section")) if (!named(e)) say(e, "no name");
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (!(e.labels?.length)) say(e, "no label");
	for (const e of document.querySelectorAll("img:not([alt])")) say(e, "no alternative text");
	for (const e of document.querySelectorAll("[aria-labelledby]")) for (const id of e.getAttribute("aria-labelledby").split(" ")) if (!document.getElementById(id)) say(e, "labelled by what is not there");

	// structure
	if (!document.documentElement.lang) problems.push("the page has no language");
	if (!document.title.trim()) problems.push("the page has no title");
	for (const [selector, count] of [["main", 1], ["h1", 1], ["nav", 1], ["header", 1]]) if (document.querySelectorAll(selector).length !== count) problems.push("want " + count + " " + selector);
	let level = 0;
	for (const h of document.querySelectorAll("h1, h2, h3, h4")) { const n = +h.tagName[1]; if (n > level + 1) say(h, "a heading skips a level"); level = n; }
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) problems.push("the id " + id + " is there twice");
	for (const e of document.querySelectorAll("th:not([scope])")) say(e, "a header cell without scope");
	for (const e of document.querySelectorAll("[tabindex]")) if (+e.getAttribute("tabindex") > 0) say(e, "an order of its own");
	for (const e of document.querySelectorAll(".scroll")) if (e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0) say(e, "scrolls, and not by keyboard");

	// contrast
	const channel = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const colour = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
	const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
	const paper = (e) => {
		const layers = [];
		for (let n = e; n; n = n.parentElement) { const c = colour(getComputedStyle(n).backgroundColor); layers.push(c); if (c[3] === 1) break; }
		return layers.reverse().reduce((under, top) => over(top, under), matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255]);
	};
	const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let texts = 0;
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.textContent.trim() || !visible(e)) continue;
		const s = getComputedStyle(e), back = paper(e), ratio = contrast(over(colour(s.color), back), back), size = parseFloat(s.fontSize);
		texts++;
		if (ratio < (size >= 24 || size >= 18.66 && +s.fontWeight >= 700 ? 3 : 4.5)) say(e, "contrast " + ratio.toFixed(2));
	}
	if (texts < 5) problems.push("only " + texts + " texts were looked at");
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (visible(e)) {
		const around = paper(e.parentElement), edge = over(colour(getComputedStyle(e).borderTopColor), around);
		if (contrast(edge, around) < 3) say(e, "the edge's contrast " + contrast(edge, around).toFixed(2));
	}

	// width
	if (document.documentElement.scrollWidth > innerWidth) problems.push("scrolls sideways: " + document.documentElement.scrollWidth + " of " + innerWidth);
	return problems;
})()`
